//! Who sends what `quaver chase --listen` receives: a process of this host by its socket or its thread, and nobody who is
//! innocent.

use quaver_host::netns::Lab;
use quaver_testbed::ports::free_port;
use quaver_testbed::privileged::privileged;
use quaver_testbed::tun::{self, Fate};
use rustix::io::{FdFlags, fcntl_setfd};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const QUAVER: &str = env!("CARGO_BIN_EXE_quaver");
/// Ends of a tunnel.
const FAR: Ipv4Addr = Ipv4Addr::new(10, 199, 7, 1);
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 199, 7, 2);

/// One chase at a time: arrivals in the time of another test's sender would be none of this one's.
static ALONE: Mutex<()> = Mutex::new(());

/// Ended when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whoever has this socket from us, and does nothing with it.
fn bystander(socket: &UdpSocket) -> Ended {
    fcntl_setfd(socket, FdFlags::empty()).unwrap();
    let child = Command::new("sleep").arg("600").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    fcntl_setfd(socket, FdFlags::CLOEXEC).unwrap();
    Ended(child)
}

/// A packet each millisecond from a thread of this process, while `body` runs, which is given the thread's number.
fn sending<T>(socket: &UdpSocket, to: SocketAddr, body: impl FnOnce(u32) -> T) -> T {
    let (stop, thread) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            thread.store(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned(), Ordering::Release);
            let start = Instant::now();
            for number in 0u64.. {
                std::thread::sleep(
                    (start + Duration::from_millis(number)).saturating_duration_since(Instant::now()),
                );
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let _ = socket.send_to(&[7; 200], to);
            }
        });
        while thread.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        let outcome =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(thread.load(Ordering::Acquire))));
        stop.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn listen(runs: &Path, to: SocketAddr, words: &[&str]) -> Command {
    let mut command = Command::new(QUAVER);
    command.args(["chase", "--quiet", "--json", "--receive", "block", "--for", "1s", "--listen"]);
    command.arg(to.to_string()).arg("--output").arg(runs).args(words);
    command
}

/// The stream in words, and the threads that sent it by the manifest.
fn said(runs: &Path, output: &Output) -> (String, Option<Vec<u64>>) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run = std::fs::read_dir(runs).unwrap().map(|run| run.unwrap().path()).max().unwrap();
    let manifest = std::fs::read(run.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let threads = manifest.pointer("/analysis/source/threads").and_then(Value::as_array);
    let threads = threads.map(|all| all.iter().filter_map(Value::as_u64).collect());
    (manifest["asked"]["stream"].as_str().unwrap().to_owned(), threads)
}

fn own_name() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    format!("{} (process {})", name.trim(), std::process::id())
}

#[test]
fn whoever_holds_the_senders_socket_is_named() {
    let _alone = ALONE.lock();
    let runs = tempfile::tempdir().unwrap();
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let _innocent = bystander(&other);
    let own = own_name();
    sending(&socket, to, |_| {
        let output = listen(runs.path(), to, &["--tier", "user"]).output().unwrap();
        let (words, threads) = said(runs.path(), &output);
        assert!(words.ends_with(&format!(" to {to}, sent by {own}")), "{words}");
        assert_eq!(threads, None, "which of its threads, only a trace tells");
    });
    // A socket that two processes hold may be either's.
    let shared = bystander(&socket);
    sending(&socket, to, |_| {
        let output = listen(runs.path(), to, &["--tier", "user"]).output().unwrap();
        let (words, threads) = said(runs.path(), &output);
        let sleeper = format!("sleep (process {})", shared.0.id());
        assert!(words.contains(", sent by one of "), "{words}");
        assert!(words.contains(&own) && words.contains(&sleeper), "{words}");
        assert_eq!(threads, None);
    });
}

#[test]
fn the_thread_that_sends_is_known_by_the_trace() {
    if !privileged("the_thread_that_sends_is_known_by_the_trace") {
        return;
    }
    let _alone = ALONE.lock();
    let runs = tempfile::tempdir().unwrap();
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let _shared = bystander(&socket);
    sending(&socket, to, |thread| {
        let output = listen(runs.path(), to, &["--tier", "bpf"]).output().unwrap();
        let (words, threads) = said(runs.path(), &output);
        assert!(words.ends_with(&format!(", sent by {}", own_name())), "{words}");
        assert_eq!(threads, Some(vec![u64::from(thread)]));
    });
}

#[test]
fn a_source_of_ours_on_this_host_is_judged_by_its_own_stamps() {
    if !privileged("a_source_of_ours_on_this_host_is_judged_by_its_own_stamps") {
        return;
    }
    let _alone = ALONE.lock();
    let runs = tempfile::tempdir().unwrap();
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let mut source = Command::new(QUAVER);
    source.args([
        "source",
        &to.to_string(),
        "--period",
        "1ms",
        "--pace",
        "sleep",
        "--for",
        "600s",
        "--quiet",
    ]);
    let source = Ended(source.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    let output = listen(runs.path(), to, &["--tier", "bpf"]).output().unwrap();
    let (words, threads) = said(runs.path(), &output);
    assert!(words.ends_with(&format!(", sent by quaver (process {})", source.0.id())), "{words}");
    let threads = threads.expect("its thread is known");
    let is_its = |thread: &u64| Path::new(&format!("/proc/{}/task/{thread}", source.0.id())).exists();
    assert!(threads.len() == 1 && threads.iter().all(is_its), "{threads:?}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let layers = summary["layers"].as_array().unwrap();
    for layer in ["schedule", "source", "application"] {
        assert!(layers.iter().any(|one| one["layer"] == layer), "{layer}: {summary}");
    }
}

#[test]
fn a_sender_in_another_network_is_known_by_its_thread() {
    if !privileged("a_sender_in_another_network_is_known_by_its_thread") {
        return;
    }
    let _alone = ALONE.lock();
    let runs = tempfile::tempdir().unwrap();
    let lab = Lab::create().unwrap();
    let to = SocketAddr::new(lab.sink.ipv4.into(), 5_004);
    let mut source = Command::new(QUAVER);
    source.args([
        "source",
        &to.to_string(),
        "--period",
        "1ms",
        "--pace",
        "sleep",
        "--for",
        "600s",
        "--quiet",
    ]);
    source.stdin(Stdio::null()).stdout(Stdio::null());
    let source = Ended(lab.source.within(|| source.spawn().unwrap()).unwrap());
    let mut chase = listen(runs.path(), to, &["--tier", "bpf"]);
    let output = lab.sink.within(|| chase.output().unwrap()).unwrap();
    let (words, threads) = said(runs.path(), &output);
    assert!(words.ends_with(&format!(", sent by quaver (process {})", source.0.id())), "{words}");
    assert_eq!(threads.map(|threads| threads.len()), Some(1));
}

#[test]
fn a_holder_of_the_same_port_is_innocent_of_packets_from_another_host() {
    if !privileged("a_holder_of_the_same_port_is_innocent_of_packets_from_another_host") {
        return;
    }
    let _alone = ALONE.lock();
    let runs = tempfile::tempdir().unwrap();
    let lab = Lab::create().unwrap();
    let ends = [
        lab.source.within(|| tun::open("far", FAR, NEAR)).unwrap().unwrap(),
        lab.sink.within(|| tun::open("near", NEAR, FAR)).unwrap().unwrap(),
    ];
    let port = 6_007;
    let sender = lab.source.within(|| UdpSocket::bind((FAR, port)).unwrap()).unwrap();
    let same_port = lab.sink.within(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap()).unwrap();
    let innocent = lab.sink.within(|| bystander(&same_port)).unwrap();
    drop(same_port);
    let to = SocketAddr::from((NEAR, 5_004));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let carrier = scope.spawn(|| tun::carry(&ends, &stop, |_, _| Fate::Pass));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            sending(&sender, to, |_| {
                for tier in ["user", "bpf"] {
                    let mut chase = listen(runs.path(), to, &["--tier", tier]);
                    let output = lab.sink.within(|| chase.output().unwrap()).unwrap();
                    let (words, threads) = said(runs.path(), &output);
                    assert!(!words.contains(&format!("(process {})", innocent.0.id())), "{tier}: {words}");
                    assert!(!words.contains(", sent by"), "{tier}: {words}");
                    assert_eq!(threads, None, "{tier}: {words}");
                }
            });
        }));
        stop.store(true, Ordering::Relaxed);
        carrier.join().unwrap().unwrap();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}
