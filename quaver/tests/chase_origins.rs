//! `quaver chase` on streams that are not made here, over loopback: somebody's, our source's, and those of a
//! receiver that already runs.

mod burner;

use burner::{Burner, bind_to, last_cpu, real_time};
use quaver_testbed::ports::free_port;
use quaver_testbed::privileged::privileged;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const QUAVER: &str = env!("CARGO_BIN_EXE_quaver");
/// Set for a child of these tests, which then is the receiver: `recvfrom` or `recvmmsg`.
const RECEIVER: &str = "QUAVER_TEST_RECEIVER";

/// A sender of RTP, a packet each millisecond on absolute deadlines.
struct Sender {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    /// Numbers that it leaves out, the next ones.
    omit: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Sender {
    fn start(to: SocketAddr) -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopping, count) = (Arc::clone(&stop), Arc::clone(&sent));
        let omit = Arc::new(AtomicU64::new(0));
        let omitted = Arc::clone(&omit);
        let thread = std::thread::spawn(move || {
            real_time(40);
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let start = Instant::now();
            for number in 0u64.. {
                let due = start + Duration::from_millis(number);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                if stopping.load(Ordering::Relaxed) {
                    break;
                }
                // Starts shortly before its numbers wrap.
                let sequence = (64_000 + number) as u16;
                let head = [
                    &[0x80, 96][..],
                    &sequence.to_be_bytes(),
                    &(number as u32 * 90).to_be_bytes(),
                    &[0, 0, 0, 7],
                ];
                let is_left_out = omitted
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                    .is_ok();
                if !is_left_out && socket.send_to(&[&head.concat()[..], &[1; 188]].concat(), to).is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { stop, sent, omit, thread: Some(thread) }
    }

    /// Until it has sent so many packets more.
    fn wait_for(&self, packets: u64) {
        let before = self.sent.load(Ordering::Relaxed);
        while self.sent.load(Ordering::Relaxed) < before + packets {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn command(runs: &tempfile::TempDir, words: &[&str]) -> Command {
    let mut command = Command::new(QUAVER);
    command.args(["chase", "--quiet", "--json", "--output"]).arg(runs.path()).args(words);
    command
}

fn chase(runs: &tempfile::TempDir, words: &[&str]) -> Output {
    command(runs, words).output().unwrap()
}

fn begun(runs: &tempfile::TempDir, words: &[&str]) -> Child {
    command(runs, words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn summary(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn number(summary: &Value, pointer: &str) -> u64 {
    summary.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {summary}"))
}

/// Until the manifest of the only run describes the stream: its warm-up of 0.3 s begins then. How long making ready takes is the
/// machine's affair.
fn wait_until_measured(runs: &Path) {
    let described = || {
        let run = std::fs::read_dir(runs).ok()?.next()?.ok()?.path();
        let manifest = std::fs::read(run.join("manifest.json")).ok()?;
        let manifest: Value = serde_json::from_slice(&manifest).ok()?;
        manifest.pointer("/analysis/streams/0").map(|_| ())
    };
    let end = Instant::now() + Duration::from_secs(60);
    while described().is_none() {
        assert!(Instant::now() < end, "nothing is measured");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The last CPU is one test's at a time: a burner would starve another's receiver.
static LAST_CPU: Mutex<()> = Mutex::new(());

/// As many packets came or were lost as the time that was measured had milliseconds, but for those that were on their way at
/// its ends: a busy machine's receiver may be held up for long.
#[track_caller]
fn assert_one_each_millisecond(found: &Value) {
    let places = ["received", "network", "socket_buffer", "unaccounted"];
    let seen: u64 = places.iter().map(|place| number(found, &format!("/losses/{place}"))).sum();
    let lasted_ms = number(found, "/duration_ns") / 1_000_000;
    assert!(seen.abs_diff(lasted_ms) <= lasted_ms / 4, "{seen} in {lasted_ms} ms: {found}");
}

#[test]
fn a_gap_in_the_numbers_of_rtp_is_counted_exactly() {
    let runs = tempfile::tempdir().unwrap();
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let sender = Sender::start(to);
    let chase = begun(&runs, &["--listen", &to.to_string(), "--receive", "block", "--for", "600s"]);
    wait_until_measured(runs.path());
    sender.wait_for(2_000);
    sender.omit.store(7, Ordering::Relaxed);
    sender.wait_for(1_500);
    kill_process(Pid::from_child(&chase), Signal::INT).unwrap();
    let output = chase.wait_with_output().unwrap();
    drop(sender);
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let found = summary(&output);
    let sum = |pointers: &[&str]| -> u64 {
        pointers.iter().filter_map(|pointer| found.pointer(pointer)).filter_map(Value::as_u64).sum()
    };
    let places = [
        "/losses/network",
        "/losses/nic_ring",
        "/losses/socket_buffer",
        "/losses/ours",
        "/losses/unaccounted",
    ];
    assert_eq!(sum(&places), 7, "{found}");
    assert!(number(&found, "/losses/received") > 2_000, "{found}");
    let period = found["period_ns"].as_f64().unwrap();
    assert!((period - 1e6).abs() < 1e3 && found["period_learned"] == true, "{period}");
}

#[test]
fn a_multicast_group_is_joined_on_the_interface_named() {
    let runs = tempfile::tempdir().unwrap();
    let port = free_port();
    let group = format!("239.255.77.{}:{port}", std::process::id() % 250 + 1);
    let source = Command::new(QUAVER)
        .args([
            "source",
            &group,
            "--interface",
            "lo",
            "--period",
            "1ms",
            "--size",
            "100",
            "--pace",
            "sleep",
            "--for",
            "10min",
            "--quiet",
        ])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let source = Ended(source);
    let output =
        chase(&runs, &["--listen", &group, "--interface", "lo", "--receive", "block", "--for", "1s"]);
    drop(source);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = summary(&output);
    assert!(number(&found, "/losses/received") > 500, "{found}");
    assert_eq!(found["period_ns"].as_f64(), Some(1e6), "our own header tells the period");
}

/// A child that is ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_receiver_program() {
    let Ok(how) = std::env::var(RECEIVER) else { return };
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    bind_to(last_cpu());
    println!("\nport {}", socket.local_addr().unwrap().port());
    let mut buffers = vec![[0u8; 512]; 16];
    if how == "recvfrom" {
        loop {
            socket.recv_from(&mut buffers[0]).unwrap();
        }
    }
    let mut parts: Vec<libc::iovec> = buffers
        .iter_mut()
        .map(|buffer| libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: 512 })
        .collect();
    loop {
        let mut messages: Vec<libc::mmsghdr> = parts
            .iter_mut()
            .map(|part| {
                // SAFETY: all-zero bytes are a valid header: no name, no parts, no control data.
                let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                message.msg_hdr.msg_iov = part;
                message.msg_hdr.msg_iovlen = 1;
                message
            })
            .collect();
        use std::os::fd::AsRawFd;
        // SAFETY: each header leads to one buffer of its own, valid for writing for the length given.
        let taken = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                16,
                libc::MSG_WAITFORONE,
                std::ptr::null_mut(),
            )
        };
        assert!(taken > 0);
        // Lets a few packets gather.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts a receiver program; its port.
fn receiver(how: &str) -> (Ended, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_receiver_program", "--nocapture"])
        .env(RECEIVER, how)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port =
        lines.find_map(|line| line.unwrap().strip_prefix("port ").map(|port| port.parse::<u16>().unwrap()));
    (Ended(child), (Ipv4Addr::LOCALHOST, port.unwrap()).into())
}

#[test]
fn a_running_receiver_is_followed_and_its_disturber_named() {
    if !privileged("a_running_receiver_is_followed_and_its_disturber_named") {
        return;
    }
    let _cpu = LAST_CPU.lock().unwrap_or_else(PoisonError::into_inner);
    let runs = tempfile::tempdir().unwrap();
    let (child, to) = receiver("recvfrom");
    let sender = Sender::start(to);
    let burner = Burner::start();
    let output = chase(&runs, &["--pid", &child.0.id().to_string(), "--for", "3s"]);
    let bursts = burner.stop();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = summary(&output);
    let received = number(&found, "/losses/received");
    assert_one_each_millisecond(&found);
    assert_eq!(number(&found, "/losses/unaccounted"), 0, "{found}");
    burner::assert_blamed(QUAVER, runs.path(), &bursts);
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.0.id())).unwrap();
    assert!(status.contains("TracerPid:\t0"), "nobody traced it");
    assert!(sender.sent.load(Ordering::Relaxed) > received);
}

#[test]
fn a_batch_of_packets_shares_its_receive_call() {
    if !privileged("a_batch_of_packets_shares_its_receive_call") {
        return;
    }
    let _cpu = LAST_CPU.lock().unwrap_or_else(PoisonError::into_inner);
    let runs = tempfile::tempdir().unwrap();
    let (child, to) = receiver("recvmmsg");
    let sender = Sender::start(to);
    let output = chase(&runs, &["--pid", &child.0.id().to_string(), "--for", "2s"]);
    drop(sender);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = summary(&output);
    assert_one_each_millisecond(&found);
    assert_eq!(number(&found, "/losses/unaccounted"), 0, "{found}");
}

#[test]
fn what_was_measured_of_a_process_that_ends_is_kept() {
    if !privileged("what_was_measured_of_a_process_that_ends_is_kept") {
        return;
    }
    let _cpu = LAST_CPU.lock().unwrap_or_else(PoisonError::into_inner);
    let runs = tempfile::tempdir().unwrap();
    let (child, to) = receiver("recvfrom");
    let sender = Sender::start(to);
    let pid = child.0.id();
    let chase = begun(&runs, &["--for", "600s", "--pid", &pid.to_string()]);
    wait_until_measured(runs.path());
    sender.wait_for(2_000);
    drop(child);
    let output = chase.wait_with_output().unwrap();
    drop(sender);
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
    let found = summary(&output);
    assert_eq!(found["complete"], false);
    assert!(number(&found, "/losses/received") > 100, "{found}");
    let warnings = found["warnings"].to_string();
    assert!(warnings.contains(&format!("(process {pid}) exited")), "{warnings}");
}

#[test]
fn what_cannot_be_observed_is_refused_in_a_sentence() {
    let runs = tempfile::tempdir().unwrap();
    let refused = |words: &[&str]| {
        let output = chase(&runs, words);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, message) = refused(&["--pid", "4194305"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("there is no process 4194305"), "{message}");
    let (code, message) = refused(&["--pid", "1", "--tier", "user"]);
    assert_eq!(code, Some(2), "{message}");
    let idler = Ended(Command::new("sleep").arg("60").spawn().unwrap());
    let (code, message) = refused(&["--pid", &idler.0.id().to_string()]);
    assert_eq!(code, Some(3));
    assert!(message.contains("has no UDP socket"), "{message}");
    let (code, message) = refused(&["--listen", "239.1.1.1:5004", "--interface", "no-such-one"]);
    assert_eq!(code, Some(2));
    assert!(message.contains("no-such-one"), "{message}");
    let started = Instant::now();
    let (code, message) = refused(&["--listen", &format!("127.0.0.1:{}", free_port())]);
    assert_eq!(code, Some(4));
    assert!(message.contains("no packet for 127.0.0.1"), "{message}");
    assert!(started.elapsed() >= Duration::from_secs(10), "it waited");
    assert_eq!(std::fs::read_dir(runs.path()).unwrap().count(), 0, "no run directory is left");
}
