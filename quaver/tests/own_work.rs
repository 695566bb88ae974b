//! A receiver of others that now and then does something else than receive: what it did is named, by function or by system
//! call, and has the time that it took. The receiver tells when it did it, and how much time on a CPU it cost.

use quaver_testbed::inject::schedule;
use quaver_testbed::privileged::privileged;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Set in the environment of the receiver program: `compute` or `write`.
const RECEIVER: &str = "QUAVER_TEST_BUSY_RECEIVER";
/// Packets between two pieces of work.
const EVERY: u64 = 50;
/// Time on a CPU of a piece of work, which begins at most a packet's distance, a tenth of it, before a packet is late for it.
const WORK_NS: i64 = 10_000_000;
/// Of its time on a CPU while packets waited, at least this part is named …
const LEAST_SHARE: f64 = 0.7;
/// … and no more than all of it, with what queued up behind it.
const MOST_SHARE: f64 = 1.15;
/// Less work than this proves nothing.
const LEAST_WORK_NS: i64 = 100_000_000;

fn read_ns(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// The first and the last CPU that this process may use.
fn cpus() -> [u16; 2] {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let mut cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let first = cpus.next().unwrap();
    [first, cpus.next_back().unwrap_or(first)].map(|cpu| cpu as u16)
}

/// Plain arithmetic: what it calls would have most of its time in a build that is not optimised, and no frame pointers
/// lead from there to here.
#[inline(never)]
fn compress_frame() -> u64 {
    let (end_ns, mut value) = (read_ns(ClockId::ThreadCPUTime) + WORK_NS, black_box(1u64));
    while read_ns(ClockId::ThreadCPUTime) < end_ns {
        let mut left = 20_000;
        while left > 0 {
            left -= 1;
            value = value * 48_271 % 2_147_483_647;
        }
    }
    value
}

/// One system call for each tenth of the work at least, until it is done.
#[inline(never)]
fn save_frame(file: &File, frame: &[u8]) {
    let end_ns = read_ns(ClockId::ThreadCPUTime) + WORK_NS;
    while read_ns(ClockId::ThreadCPUTime) < end_ns {
        file.write_all_at(frame, 0).unwrap();
    }
}

/// The receiver program: tells each piece of work on standard output.
#[test]
fn a_busy_receiver() {
    let Ok(how) = std::env::var(RECEIVER) else { return };
    schedule::bind(0, cpus()[1]).unwrap();
    schedule::before_others().unwrap();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    println!("\nport {}", socket.local_addr().unwrap().port());
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    let frame = vec![7; 4 << 20];
    let mut buffer = [0u8; 64];
    for turn in 1u64.. {
        socket.recv(&mut buffer).unwrap();
        if turn % EVERY == 0 {
            let (from_ns, on_cpu_ns) = (read_ns(ClockId::Monotonic), read_ns(ClockId::ThreadCPUTime));
            if how == "compute" {
                black_box(compress_frame());
            } else {
                save_frame(&file, &frame);
            }
            println!("did {from_ns} {}", read_ns(ClockId::ThreadCPUTime) - on_cpu_ns);
            std::io::stdout().flush().unwrap();
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

/// On another CPU than the receiver's, and before others there: a sender that the receiver's work kept from its CPU would be late
/// itself.
fn send_each_millisecond(to: SocketAddr, stop: &AtomicBool) {
    schedule::bind(0, cpus()[0]).unwrap();
    schedule::fifo(0, 40).unwrap();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let start = Instant::now();
    for number in 0u64.. {
        let due = start + Duration::from_millis(number);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if stop.load(Ordering::Relaxed) {
            break;
        }
        socket.send_to(&number.to_be_bytes(), to).unwrap();
    }
}

/// Runs one of these tests alone: they take a CPU each.
static TURN: Mutex<()> = Mutex::new(());

/// The receiver's work within the measured window, and what was said of it.
fn chase(how: &str) -> (i64, Value) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_busy_receiver", "--nocapture"])
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
            let (from_ns, on_cpu_ns) = line.strip_prefix("did ")?.split_once(' ')?;
            Some((from_ns.parse::<i64>().unwrap(), on_cpu_ns.parse::<i64>().unwrap()))
        });
        told.collect::<Vec<(i64, i64)>>()
    });
    let runs = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_quaver"))
        .args(["chase", "--for", "3s", "--quiet", "--json", "--pid", &child.0.id().to_string(), "-o"])
        .arg(runs.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    stop.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    drop(child);
    let work = listener.join().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run = std::fs::read_dir(runs.path()).unwrap().next().unwrap().unwrap().path();
    let manifest = quaver_store::run::RunDir::open(&run).unwrap().read_manifest().unwrap();
    let window = manifest.analysis.unwrap().window.unwrap();
    let inside = work.iter().filter(|(from_ns, _)| (window.start_ns..window.end_ns).contains(from_ns));
    (inside.map(|(_, on_cpu_ns)| on_cpu_ns).sum(), serde_json::from_slice(&output.stdout).unwrap())
}

/// The cause of this identifier with the most time.
fn leading<'a>(summary: &'a Value, source: &str) -> &'a Value {
    let causes = summary["causes"].as_array().unwrap();
    causes
        .iter()
        .find(|cause| cause["source"] == source)
        .unwrap_or_else(|| panic!("no {source} in {summary:#}"))
}

fn has_the_time(cause: &Value, work_ns: i64, summary: &Value) {
    assert!(work_ns >= LEAST_WORK_NS, "the receiver worked {work_ns} ns only");
    let share = cause["time_ns"].as_i64().unwrap() as f64 / work_ns as f64;
    assert!((LEAST_SHARE..=MOST_SHARE).contains(&share), "{share} of {work_ns} ns: {summary:#}");
}

#[test]
fn code_of_the_receiver_is_named_by_function() {
    if !privileged("code_of_the_receiver_is_named_by_function") {
        return;
    }
    let (work_ns, summary) = chase("compute");
    let cause = leading(&summary, "own-code");
    has_the_time(cause, work_ns, &summary);
    let name = cause["name"].as_str().unwrap();
    assert!(name.starts_with("code of the receiver: ") && name.contains("compress_frame"), "{summary:#}");
    assert!(cause["functions"][0]["share"].as_f64().unwrap() > 0.8, "{cause:#}");
}

#[test]
fn a_long_system_call_of_the_receiver_is_named() {
    if !privileged("a_long_system_call_of_the_receiver_is_named") {
        return;
    }
    let (work_ns, summary) = chase("write");
    let cause = leading(&summary, "own-call");
    has_the_time(cause, work_ns, &summary);
    let name = cause["name"].as_str().unwrap();
    assert!(name.starts_with("system call pwrite64 of the receiver: "), "{summary:#}");
    let functions = cause["functions"].as_array().unwrap();
    let user: Vec<&str> = functions.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(!user.is_empty() && functions[0]["samples"].as_u64().unwrap() >= 20, "{user:?}");
}
