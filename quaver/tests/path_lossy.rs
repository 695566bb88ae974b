//! Loss and copies below TCP, and on the way of a far source's stream: each counted where it happens, and the program told
//! nothing of it. Packets pass through this test, between two namespaces.

use quaver_host::netns::{Lab, LabEnd};
use quaver_testbed::privileged::privileged;
use quaver_testbed::tun::{self, Fate};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};

/// Addresses for documentation (RFC 5737).
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
/// One packet in so many is lost, another one comes twice.
const EACH: u64 = 20;

fn quaver(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(args).env_remove("QUAVER_RUNS").env_remove("QUAVER_KEY_FILE").stdin(Stdio::null());
    command
}

/// A server in its namespace, ended when dropped.
struct Server {
    child: Child,
    _log: BufReader<ChildStderr>,
    /// Of the control connection, and of test packets.
    ports: [u16; 2],
}

impl Server {
    fn start(at: &LabEnd) -> Self {
        let address = SERVER.to_string();
        let mut command = quaver(&["serve", "--bind", &address, "--port", "0", "--test-port", "0"]);
        command.stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = at.within(|| command.spawn().unwrap()).unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let number = |after: &str| -> u16 {
            let rest = line.split(after).nth(1).unwrap_or_else(|| panic!("no {after:?} in {line}"));
            rest.split(' ').next().unwrap().parse().unwrap()
        };
        let ports = [number("198.51.100.2:"), number("connections, port ")];
        Self { child, _log: log, ports }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What was done to the packets of each way: 0 from the client, 1 from the server.
#[derive(Default)]
struct Done {
    test_port: AtomicU16,
    dropped: [AtomicU64; 2],
    copied: [AtomicU64; 2],
}

/// A packet with data of the test: protocol, and the TCP sequence number.
struct Data {
    tcp: bool,
    sequence: u32,
}

/// None for what is not of the test port, and for segments without data.
fn data_of(packet: &[u8], from: usize, test_port: u16) -> Option<Data> {
    let at = |place: usize| Some(u16::from_be_bytes([*packet.get(place)?, *packet.get(place + 1)?]));
    let head = usize::from(*packet.first()? & 15) * 4;
    let far_port = if from == 0 { at(head + 2)? } else { at(head)? };
    if packet[0] >> 4 != 4 || far_port != test_port {
        return None;
    }
    match packet[9] {
        17 => Some(Data { tcp: false, sequence: 0 }),
        6 => {
            let offset = usize::from(*packet.get(head + 12)? >> 4) * 4;
            let sequence = u32::from(at(head + 4)?) << 16 | u32::from(at(head + 6)?);
            (usize::from(at(2)?) > head + offset).then_some(Data { tcp: true, sequence })
        }
        _ => None,
    }
}

impl Done {
    /// Loses and copies packets when they are sent for the first time; TCP's further tries pass.
    fn fates(&self) -> impl FnMut(usize, &[u8]) -> Fate {
        let mut numbers = [0u64; 2];
        let mut highest: [Option<u32>; 2] = [None; 2];
        move |from, packet| {
            let Some(data) = data_of(packet, from, self.test_port.load(Ordering::Relaxed)) else {
                return Fate::Pass;
            };
            let ahead = |highest: u32| data.sequence.wrapping_sub(highest).cast_signed();
            // A jump of that size is another connection.
            let again = highest[from].map(ahead).is_some_and(|by| (-1_000_000..=0).contains(&by));
            if data.tcp && again {
                return Fate::Pass;
            }
            highest[from] = Some(data.sequence);
            numbers[from] += 1;
            match numbers[from] % EACH {
                7 => {
                    self.dropped[from].fetch_add(1, Ordering::Relaxed);
                    Fate::Drop
                }
                14 => {
                    self.copied[from].fetch_add(1, Ordering::Relaxed);
                    Fate::Copy
                }
                _ => Fate::Pass,
            }
        }
    }

    fn of(counts: &[AtomicU64; 2], from: usize) -> u64 {
        counts[from].load(Ordering::Relaxed)
    }
}

/// Runs `body` with a server behind a link that loses and copies.
fn over_a_lossy_link(body: impl FnOnce(&Lab, &Server, &Done)) {
    let lab = Lab::create().unwrap();
    let ends = [
        lab.source.within(|| tun::open("lossy", CLIENT, SERVER)).unwrap().unwrap(),
        lab.sink.within(|| tun::open("lossy", SERVER, CLIENT)).unwrap().unwrap(),
    ];
    let server = Server::start(&lab.sink);
    let (done, stop) = (Done::default(), AtomicBool::new(false));
    done.test_port.store(server.ports[1], Ordering::Relaxed);
    std::thread::scope(|scope| {
        let carrier = scope.spawn(|| tun::carry(&ends, &stop, done.fates()));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&lab, &server, &done)));
        stop.store(true, Ordering::Relaxed);
        carrier.join().unwrap().unwrap();
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
}

fn json(at: &LabEnd, mut command: Command) -> Value {
    let output = at.within(|| command.output().unwrap()).unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {words}"))
}

fn number(summary: &Value, pointer: &str) -> u64 {
    summary.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {summary}"))
}

#[test]
fn segments_lost_and_copied_below_tcp_are_counted_and_the_program_misses_nothing() {
    if !privileged("segments_lost_and_copied_below_tcp_are_counted_and_the_program_misses_nothing") {
        return;
    }
    over_a_lossy_link(|lab, server, done| {
        let runs = tempfile::tempdir().unwrap();
        let (host, port) = (SERVER.to_string(), server.ports[0].to_string());
        let mut command = quaver(&["probe", &host, "--port", &port, "--tcp", "--count", "400"]);
        command
            .args(["--period", "4ms", "--rtt-interval", "5ms", "--quiet", "--json", "-o"])
            .arg(runs.path());
        let summary = json(&lab.source, command);
        for (from, way, sender, receiver) in
            [(0, "up", "segments", "segments_at_server"), (1, "down", "segments_at_server", "segments")]
        {
            let (dropped, copied) = (Done::of(&done.dropped, from), Done::of(&done.copied, from));
            assert!(dropped > 5 && copied > 5, "{way}: {dropped} lost, {copied} copied");
            let of = |end: &str, name: &str| number(&summary, &format!("/{way}/flow/{end}/{name}"));
            assert_eq!(summary[way]["flow"][receiver]["seen_by"], "captured", "{summary}");
            assert!(
                of(sender, "retransmitted") >= dropped,
                "{way}: {dropped} lost, {}",
                summary[way]["flow"]
            );
            assert!(of(receiver, "duplicate") >= copied, "{way}: {copied} copied, {}", summary[way]["flow"]);
            // Each hole is filled once. Whether that was sent later than what came before it, only the sender's clock tells, and
            // it has a step of 1 ms: a segment sent again within that looks overtaken.
            let filled = of(receiver, "retransmitted") + of(receiver, "reordered");
            assert!(filled >= dropped, "{way}: {dropped} lost, {}", summary[way]["flow"]);
            let packets = &summary[way]["packets"];
            assert_eq!(
                (&packets["unique"], &packets["reordered"], &packets["duplicate"]),
                (&400.into(), &0.into(), &0.into())
            );
        }
    });
}

#[test]
fn what_a_far_source_lost_on_its_way_is_counted_to_the_packet() {
    if !privileged("what_a_far_source_lost_on_its_way_is_counted_to_the_packet") {
        return;
    }
    over_a_lossy_link(|lab, server, done| {
        let runs = tempfile::tempdir().unwrap();
        let far = format!("{SERVER}:{}", server.ports[0]);
        let mut command =
            quaver(&["chase", "--from", &far, "--port", "0", "--period", "2ms", "--size", "200"]);
        command.args([
            "--pace",
            "sleep",
            "--receive",
            "block",
            "--for",
            "2s",
            "--quiet",
            "--json",
            "--output",
        ]);
        command.arg(runs.path());
        let summary = json(&lab.source, command);
        let (dropped, copied) = (Done::of(&done.dropped, 1), Done::of(&done.copied, 1));
        assert!(dropped > 5 && copied > 5, "{dropped} lost, {copied} copied");
        let of = |name: &str| number(&summary, &format!("/far_source/{name}"));
        assert_eq!(of("lost"), dropped, "{summary}");
        assert_eq!(of("sent"), of("arrived") + of("lost"));
    });
}
