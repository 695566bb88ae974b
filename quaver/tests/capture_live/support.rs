//! The real program capturing in a namespace that the test makes, and what it wrote.

use quaver_abi::stamp::{Layer, PacketStamps, StampClock};
use quaver_host::netns::{Lab, LabEnd};
use quaver_pcapng::read::CaptureReader;
pub(crate) use quaver_testbed::privileged::{Feature, Lack, privileged, skip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) const QUAVER: &str = env!("CARGO_BIN_EXE_quaver");
/// Port that test packets go to.
pub(crate) const PORT: u16 = 9;
/// Bytes of Ethernet, IPv4 and UDP headers.
pub(crate) const HEADERS: usize = 42;

/// Captures that run. While one does, the kernel stamps for everybody, so a test of that waits for its turn.
static RUNNING: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());

fn running() -> MutexGuard<'static, u32> {
    RUNNING.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts as a capture that runs.
pub(crate) struct Turn(());

impl Turn {
    fn take() -> Self {
        *running() += 1;
        Self(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *running() -= 1;
        RUNNING.1.notify_all();
    }
}

/// Waits until no other test captures, and keeps others from beginning to until it is dropped.
pub(crate) fn alone() -> MutexGuard<'static, u32> {
    let nobody = RUNNING.1.wait_while(running(), |captures| *captures > 0);
    nobody.unwrap_or_else(PoisonError::into_inner)
}

/// `quaver capture` that has said that it captures.
pub(crate) struct Capture {
    pub(crate) child: Child,
    /// What it said before.
    pub(crate) heard: Vec<String>,
    lines: BufReader<ChildStderr>,
    turn: Option<Turn>,
}

impl Capture {
    /// Starts it in that end of the lab, with `-i` of its interface and these options.
    pub(crate) fn start(at: &LabEnd, options: &[&str]) -> Self {
        let mut command = Command::new(QUAVER);
        command.args(["capture", "-i", &at.interface]).args(options);
        Self::spawn(at, command)
    }

    pub(crate) fn spawn(at: &LabEnd, command: Command) -> Self {
        let turn = Turn::take();
        Self { turn: Some(turn), ..Self::spawn_alone(at, command) }
    }

    /// For whoever has waited to be alone.
    pub(crate) fn spawn_alone(at: &LabEnd, mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = at.within(|| command.spawn().unwrap()).unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        let mut capture = Self { child, heard: Vec::new(), lines, turn: None };
        let mut line = String::new();
        while capture.lines.read_line(&mut line).unwrap() > 0 {
            capture.heard.push(std::mem::take(&mut line));
            if capture.heard.last().unwrap().starts_with("capturing on ") {
                return capture;
            }
        }
        panic!("it ended: {:?}", capture.heard);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end: status, standard output, and the rest of standard error.
    pub(crate) fn wait(mut self) -> (ExitStatus, Vec<u8>, String) {
        let mut stdout = Vec::new();
        if let Some(mut pipe) = self.child.stdout.take() {
            pipe.read_to_end(&mut stdout).unwrap();
        }
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        drop(self.turn.take());
        (status, stdout, rest)
    }

    /// Waits until it says so.
    pub(crate) fn until_it_says(&mut self, words: &str) {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "it ended");
        }
    }

    /// Ends it as Ctrl-C does, and reads its JSON.
    pub(crate) fn end(self) -> Value {
        self.signal(Signal::INT);
        self.summary()
    }

    /// Waits for its end, which must be a good one, and reads its JSON.
    pub(crate) fn summary(self) -> Value {
        let heard = self.heard.clone();
        let (status, stdout, rest) = self.wait();
        assert_eq!(status.code(), Some(0), "{heard:?} {rest}");
        serde_json::from_slice(&stdout).unwrap_or_else(|e| panic!("{e}: {rest}"))
    }
}

/// Sends a packet of each length, counted with all headers, from the lab's source to a port of its sink.
pub(crate) fn send_to(lab: &Lab, port: u16, lengths: impl Iterator<Item = usize> + Send) -> u64 {
    send_each(lab, port, lengths, || {})
}

/// The same, with what is to be done before each packet.
pub(crate) fn send_each(
    lab: &Lab,
    port: u16,
    lengths: impl Iterator<Item = usize> + Send,
    mut before: impl FnMut() + Send,
) -> u64 {
    lab.source
        .within(|| {
            let socket = UdpSocket::bind((lab.source.ipv4, 0)).unwrap();
            let mut sent = 0u64;
            for length in lengths {
                let mut payload = vec![0x5a; length - HEADERS];
                let number = sent.to_be_bytes();
                let room = payload.len().min(8);
                payload[..room].copy_from_slice(&number[8 - room..]);
                before();
                socket.send_to(&payload, (lab.sink.ipv4, port)).unwrap();
                sent += 1;
            }
            sent
        })
        .unwrap()
}

pub(crate) fn send(lab: &Lab, lengths: impl Iterator<Item = usize> + Send) -> u64 {
    send_to(lab, PORT, lengths)
}

/// Datagrams that the sink's namespace has received since it was made, to whatever port.
///
/// The link's own counters would not do: they count neighbour discovery among the lost.
pub(crate) fn datagrams_that_came(lab: &Lab) -> u64 {
    let text = lab.sink.within(|| std::fs::read_to_string("/proc/thread-self/net/snmp"));
    let text = text.unwrap().unwrap();
    let mut rows = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (rows.next().unwrap(), rows.next().unwrap());
    let counters = names.split(' ').zip(values.split(' '));
    // With nobody at the port, each datagram counts as `NoPorts`.
    counters
        .filter(|(name, _)| ["InDatagrams", "NoPorts", "InErrors"].contains(name))
        .map(|(_, value)| value.parse::<u64>().unwrap())
        .sum()
}

/// A packet as our own reader sees it.
pub(crate) struct Packet {
    pub(crate) time_ns: i64,
    pub(crate) data: Vec<u8>,
    pub(crate) original_length: u32,
    pub(crate) stamps: PacketStamps,
    pub(crate) shown: Option<Layer>,
}

/// All packets of a file, and whether it is whole.
pub(crate) fn read(path: &Path) -> (Vec<Packet>, bool) {
    let mut reader = CaptureReader::new(BufReader::new(File::open(path).unwrap())).unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        let option = packet.stamps.unwrap_or_default();
        packets.push(Packet {
            time_ns: packet.time_ns.unwrap(),
            data: packet.data.to_vec(),
            original_length: packet.original_length,
            stamps: option.stamps,
            shown: option.shown,
        });
    }
    (packets, reader.is_whole())
}

/// The number at a place of the summary.
pub(crate) fn number(summary: &Value, pointer: &str) -> u64 {
    summary.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {summary}"))
}

/// All that was dropped at places with names adds up with what was captured to what was seen.
pub(crate) fn assert_accounts(summary: &Value) {
    for interface in summary["interfaces"].as_array().unwrap() {
        let dropped = interface["dropped"].as_object().unwrap();
        let dropped: u64 = dropped.values().map(|packets| packets.as_u64().unwrap()).sum();
        let (seen, captured) = (interface["seen"].as_u64().unwrap(), interface["captured"].as_u64().unwrap());
        assert_eq!(captured + dropped, seen, "{interface}");
        assert_eq!(
            (&interface["dropped"]["unaccounted"], &interface["dropped"]["undecoded"]),
            (&0.into(), &0.into())
        );
    }
}

/// Every stamp has a bound that is known, and what lies within the bounds of all can be true: no layer stamped before the
/// one below it, before the packet was sent, or after all was over.
pub(crate) fn assert_bounds(stamps: &PacketStamps, before_ns: i64, after_ns: i64) {
    let mut not_before_ns = before_ns;
    for (layer, stamp) in stamps.iter() {
        assert!((1..1_000_000).contains(&stamp.bound_ns), "{layer:?}: {stamps:?}");
        let bound_ns = i64::from(stamp.bound_ns);
        let (first_ns, last_ns) = (stamp.time_ns - bound_ns, stamp.time_ns + bound_ns);
        assert!(
            not_before_ns <= last_ns && first_ns <= after_ns,
            "{layer:?}, sent at {before_ns}: {stamps:?}"
        );
        not_before_ns = not_before_ns.max(first_ns);
    }
    let [xdp, kernel, tc] = [Layer::Xdp, Layer::Kernel, Layer::Tc].map(|layer| stamps.get(layer));
    // Its clock's own reading, but for what is cut off.
    assert_eq!(kernel.map(|stamp| (stamp.clock, stamp.bound_ns)), Some((StampClock::Realtime, 1)));
    if let Some((xdp, tc)) = xdp.zip(tc).filter(|(xdp, _)| xdp.clock == StampClock::Monotonic) {
        assert_eq!(
            (xdp.clock, xdp.bound_ns),
            (tc.clock, tc.bound_ns),
            "one difference of clocks converts both"
        );
    }
}
