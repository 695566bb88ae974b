//! A receiver that runs already is observed without knowing its payload, so stamps of a packet are joined by the order of
//! its socket. Here sender and receiver know the payload and keep their own times: each packet's stamps must be its own,
//! also after waits in which packets queued up, where the receiver takes packets before the kernel tells of them, and where the
//! kernel takes them for it.

use io_uring::{IoUring, opcode, types};
use quaver_analysis::model::{Layer, MISSING, PacketTable};
use quaver_store::manifest::Window;
use quaver_store::packets::read_packets;
use quaver_testbed::privileged::privileged;
use rustix::time::{ClockId, clock_gettime};
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Set in the environment of the receiver program: `dawdle`, `poll` or `ring`.
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
/// never sleeps, and is there before it is woken; or it has io_uring receive, also while it naps.
#[test]
fn an_observed_receiver() {
    let Ok(how) = std::env::var(RECEIVER) else { return };
    let polls = how == "poll";
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_nonblocking(polls).unwrap();
    println!("\nport {}", socket.local_addr().unwrap().port());
    if how == "ring" {
        receive_by_a_ring(&socket);
    }
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

/// As many requests are with the kernel as packets come in a nap and more. Tells of each nap.
fn receive_by_a_ring(socket: &UdpSocket) -> ! {
    let mut ring = IoUring::new(16).unwrap();
    let mut buffers = [[0u8; 64]; 12];
    let receive = |buffer: &mut [u8; 64], index: usize| {
        let (place, length) = (buffer.as_mut_ptr(), u32::try_from(buffer.len()).unwrap());
        opcode::Recv::new(types::Fd(socket.as_raw_fd()), place, length).build().user_data(index as u64)
    };
    let mut idle: Vec<usize> = (0..buffers.len()).collect();
    let mut turn = 0;
    loop {
        for index in idle.drain(..) {
            // SAFETY: the kernel writes into a buffer that lives for as long as this process, and nobody reads it.
            unsafe { ring.submission().push(&receive(&mut buffers[index], index)) }.unwrap();
        }
        ring.submit_and_wait(1).unwrap();
        idle.extend(ring.completion().map(|done| done.user_data() as usize));
        turn += idle.len();
        if turn >= 50 {
            turn = 0;
            let from_ns = now_ns();
            std::thread::sleep(Duration::from_millis(7));
            println!("nap {from_ns} {}", now_ns());
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

/// A chase of the receiver program.
struct Observed {
    packets: PacketTable,
    window: Window,
    /// By which the program's clock may differ from the stamps.
    bound_ns: i64,
    sent: Vec<Known>,
    /// What the program told.
    told: Vec<String>,
}

fn observe(how: &str) -> Observed {
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
    let listener = std::thread::spawn(move || lines.map_while(Result::ok).collect());
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
    let told = listener.join().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run = std::fs::read_dir(runs.path()).unwrap().next().unwrap().unwrap().path();
    let manifest = quaver_store::run::RunDir::open(&run).unwrap().read_manifest().unwrap();
    // Only packets of the window are analysed. Before it lies a warm-up, in whose first packets the order may be off: one
    // that was delivered before recording began may be read after it.
    Observed {
        packets: read_packets(&run.join("samples.parquet")).unwrap(),
        window: manifest.analysis.unwrap().window.unwrap(),
        bound_ns: manifest.clock.unwrap().error_bound_ns,
        sent,
        told,
    }
}

/// The numbers of those lines that begin with this word.
fn numbers<const N: usize>(told: &[String], word: &str) -> Vec<[i64; N]> {
    let lines = told.iter().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    lines
        .map(|line| {
            let numbers: Vec<i64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
            numbers.try_into().unwrap()
        })
        .collect()
}

/// The program cannot say when: it sleeps. Each packet is there for it before the next one comes, and mostly at once.
#[test]
fn what_a_ring_receives_while_its_program_naps_is_stamped_as_it_comes() {
    if !privileged("what_a_ring_receives_while_its_program_naps_is_stamped_as_it_comes") {
        return;
    }
    let Observed { packets, window, told, .. } = observe("ring");
    let naps = numbers::<2>(&told, "nap");
    let ready = packets.column(Layer::Ready).expect("the column of the ready layer");
    let ready_ns = |row: usize| packets.app_ns[row] - ready.before_app_ns[row];
    let stamped = |row: usize| ready.before_app_ns[row] != MISSING && packets.app_ns[row] >= window.start_ns;
    let in_nap = |row: usize| naps.iter().any(|&[from, to]| (from..to).contains(&ready_ns(row)));
    let napped: Vec<usize> =
        (0..packets.len() - 1).filter(|&row| stamped(row) && stamped(row + 1) && in_nap(row)).collect();
    let at_once = napped.iter().filter(|&&row| packets.app_ns[row] < ready_ns(row + 1)).count();
    assert!(napped.len() >= 100, "{} packets in naps", napped.len());
    // A thread that is woken late on a busy machine is no fault: 70 % were at once beside a compiler. With stamps from the return of
    // its next call it was 15 %.
    assert!(2 * at_once > napped.len(), "{at_once} of {} before the next one came", napped.len());
}

fn joined_with_its_own_stamps(name: &str, how: &str) {
    if !privileged(name) {
        return;
    }
    let Observed { packets, window, bound_ns, sent, told } = observe(how);
    let received: Vec<Known> = numbers(&told, "got")
        .into_iter()
        .map(|[number, before_ns, after_ns]| Known { number: number.cast_unsigned(), before_ns, after_ns })
        .collect();
    let ready = packets.column(Layer::Ready).expect("the column of the ready layer");
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
