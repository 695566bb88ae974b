//! A receiver that runs already is observed without knowing its payload, so stamps of a packet are joined by the order of
//! its socket. Here sender and receiver know the payload and keep their own times: each packet's stamps must be its own,
//! also after waits in which packets queued up, and where the receiver takes packets before the kernel tells of them.

use quaver_analysis::model::{Layer, MISSING};
use quaver_store::packets::read_packets;
use quaver_testbed::privileged::privileged;
use rustix::time::{ClockId, clock_gettime};
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Set in the environment of the receiver program: `dawdle` or `poll`.
const RECEIVER: &str = "QUAVER_TEST_OBSERVED_RECEIVER";

fn now_ns() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// One packet as its sender or receiver knows it: number, instant before the call, instant after.
#[derive(Clone, Copy, Debug)]
struct Known {
    number: u64,
    before_ns: i64,
    after_ns: i64,
}

/// The receiver program: tells each packet on standard output. It dawdles every 50th time, so that packets queue up; or it
/// never sleeps, and is there before it is woken.
#[test]
fn an_observed_receiver() {
    let Ok(how) = std::env::var(RECEIVER) else { return };
    let polls = how == "poll";
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_nonblocking(polls).unwrap();
    println!("\nport {}", socket.local_addr().unwrap().port());
    let mut buffer = [0u8; 64];
    let mut turn = 0;
    loop {
        let before_ns = now_ns();
        let length = match socket.recv(&mut buffer) {
            Err(error) if polls && error.kind() == ErrorKind::WouldBlock => continue,
            received => received.unwrap(),
        };
        let after_ns = now_ns();
        assert_eq!(length, 8);
        let number = u64::from_be_bytes(buffer[..8].try_into().unwrap());
        println!("got {number} {before_ns} {after_ns}");
        turn += 1;
        if turn % 50 == 0 && !polls {
            std::thread::sleep(Duration::from_millis(7));
        }
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn send_each_millisecond(to: SocketAddr, stop: &AtomicBool) -> Vec<Known> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (start, mut sent) = (Instant::now(), Vec::new());
    for number in 0u64.. {
        let due = start + Duration::from_millis(number);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let before_ns = now_ns();
        socket.send_to(&number.to_be_bytes(), to).unwrap();
        sent.push(Known { number, before_ns, after_ns: now_ns() });
    }
    sent
}

/// Runs one of these tests alone: they take a CPU each.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn each_packet_is_joined_with_its_own_stamps() {
    joined_with_its_own_stamps("each_packet_is_joined_with_its_own_stamps", "dawdle");
}

#[test]
fn packets_that_are_taken_before_the_kernel_tells_of_them_are_joined_with_their_own_stamps() {
    joined_with_its_own_stamps(
        "packets_that_are_taken_before_the_kernel_tells_of_them_are_joined_with_their_own_stamps",
        "poll",
    );
}

fn joined_with_its_own_stamps(name: &str, how: &str) {
    if !privileged(name) {
        return;
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "an_observed_receiver", "--nocapture"])
        .env(RECEIVER, how)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let child = Ended(child);
    let port =
        lines.find_map(|line| line.unwrap().strip_prefix("port ").map(|port| port.parse::<u16>().unwrap()));
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap()));
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = Arc::clone(&stop);
    let sender = std::thread::spawn(move || send_each_millisecond(to, &stopping));
    let listener = std::thread::spawn(move || {
        let told = lines.map_while(Result::ok).filter_map(|line| {
            let mut words = line.strip_prefix("got ")?.split(' ').map(|word| word.parse::<i64>().unwrap());
            let mut next = || words.next().unwrap();
            Some(Known { number: next().cast_unsigned(), before_ns: next(), after_ns: next() })
        });
        told.collect::<Vec<Known>>()
    });
    let runs = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_quaver"))
        .args(["chase", "--for", "2s", "--quiet", "--json", "--pid", &child.0.id().to_string(), "-o"])
        .arg(runs.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    stop.store(true, Ordering::Relaxed);
    let sent = sender.join().unwrap();
    drop(child);
    let received = listener.join().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let run = std::fs::read_dir(runs.path()).unwrap().next().unwrap().unwrap().path();
    let manifest = quaver_store::run::RunDir::open(&run).unwrap().read_manifest().unwrap();
    let bound_ns = manifest.clock.unwrap().error_bound_ns;
    // Only packets of the window are analysed. Before it lies a warm-up, in whose first packets the order may be off: one
    // that was delivered before recording began may be read after it.
    let window = manifest.analysis.unwrap().window.unwrap();
    let packets = read_packets(&run.join("samples.parquet")).unwrap();
    let ready = packets.column(Layer::Ready).expect("packets are stamped when the receiver is told");
    let mut judged = 0;
    for row in 0..packets.len() {
        let app_ns = packets.app_ns[row];
        if ready.before_app_ns[row] == MISSING || app_ns < window.start_ns {
            continue;
        }
        let ready_ns = app_ns - ready.before_app_ns[row];
        // The receive call that returned at that instant tells which packet this was.
        let call = received.partition_point(|call| call.before_ns <= app_ns) - 1;
        let got = received[call];
        assert!(
            app_ns <= got.after_ns + bound_ns,
            "row {row}: no call returned at {app_ns}, the last was {got:?}"
        );
        let its = sent[usize::try_from(got.number).unwrap()];
        // The receiver cannot be told of it before it was sent, nor after it was read. A stamp of the packet before or after
        // would be, wherever the socket was empty, which it mostly is.
        let around = &received[call.saturating_sub(2)..(call + 2).min(received.len())];
        assert!(
            its.before_ns <= ready_ns + bound_ns,
            "row {row}: came at {ready_ns}, was read at {app_ns}, by {got:?}, was {its:?}; calls around: {around:?}"
        );
        assert!(ready_ns <= app_ns, "row {row}: {got:?} came at {ready_ns}, was read at {app_ns}");
        judged += 1;
    }
    // Of the packets that were sent in the window half at least, and those of a tenth of its two seconds.
    let came = sent.iter().filter(|one| (window.start_ns..window.end_ns).contains(&one.before_ns)).count();
    assert!(judged >= 200 && 2 * judged > came, "{judged} of {came} packets were judged");
}
