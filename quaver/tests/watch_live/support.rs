//! A receiver, its sender and a watch of it, as programs and threads of their own.

use quaver_host::netns::LabEnd;
use quaver_store::run::RunDir;
use quaver_testbed::inject::schedule;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver as Channel, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Set in the environment of the receiver program: its address with the port, 0 for any; then `peek`, where it does so, or `move`, to
/// another port at each packet of one byte.
const RECEIVER: &str = "QUAVER_TEST_WATCHED_RECEIVER";
pub(crate) const QUAVER: &str = env!("CARGO_BIN_EXE_quaver");
/// Far above what a shared machine does to a real-time thread by itself.
pub(crate) const LATE: &str = "late = '150ms'";
pub(crate) const GLITCH: Duration = Duration::from_millis(400);
/// What a wait may take: a watch needs about a second, where nobody is in its way.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// One test at a time: all receivers are on CPU 0, which the glitches of one test would take from those of another.
static ON_CPU_0: Mutex<()> = Mutex::new(());

pub(crate) fn alone_on_cpu_0() -> MutexGuard<'static, ()> {
    ON_CPU_0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The receiver program: real-time, on CPU 0. It says how many packets are missing by number wherever some are.
#[test]
fn a_watched_receiver() {
    let Ok(words) = std::env::var(RECEIVER) else { return };
    let (address, how) = words.split_once(' ').unwrap();
    let mut socket = UdpSocket::bind(address).unwrap();
    schedule::bind(0, 0).unwrap();
    schedule::fifo(0, 50).unwrap();
    println!("\nport {}", socket.local_addr().unwrap().port());
    let mut buffer = [0u8; 2_048];
    let mut last: Option<u16> = None;
    loop {
        if how == "peek" {
            socket.peek(&mut buffer).unwrap();
        }
        let size = socket.recv(&mut buffer).unwrap();
        if how == "move" && size == 1 {
            let elsewhere = UdpSocket::bind((HERE, 0)).unwrap();
            println!("port {}", elsewhere.local_addr().unwrap().port());
            (socket, last) = (elsewhere, None);
            continue;
        }
        let number = u16::from_be_bytes([buffer[2], buffer[3]]);
        let step = last.map_or(1, |last| number.wrapping_sub(last));
        if step > 1 {
            println!("missing {}", step - 1);
        }
        last = Some(number);
    }
}

/// A program, ended when dropped.
pub(crate) struct Ended(pub(crate) Child);

impl Ended {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program here, or at one end of a lab.
fn spawn(command: &mut Command, at: Option<&LabEnd>) -> Ended {
    let mut spawn = || command.spawn().unwrap();
    Ended(match at {
        Some(end) => end.within(spawn).unwrap(),
        None => spawn(),
    })
}

/// A receiver program.
pub(crate) struct Receiver {
    program: Ended,
    said: Channel<String>,
    pub(crate) port: u16,
}

impl Receiver {
    /// One of this host, at this port (0: any).
    pub(crate) fn start(port: u16) -> Self {
        Self::of(SocketAddr::from((HERE, port)), "", None)
    }

    /// One that peeks at each packet before it takes it.
    pub(crate) fn that_peeks() -> Self {
        Self::of(SocketAddr::from((HERE, 0)), "peek", None)
    }

    /// One that moves to another port when it is asked to.
    pub(crate) fn that_moves() -> Self {
        Self::of(SocketAddr::from((HERE, 0)), "move", None)
    }

    /// Asks it to move; its new port.
    pub(crate) fn moves(&self) -> u16 {
        let asking = UdpSocket::bind((HERE, 0)).unwrap();
        asking.send_to(&[0], (HERE, self.port)).unwrap();
        self.says("port ")
    }

    /// One at an end of a lab.
    pub(crate) fn at(end: &LabEnd) -> Self {
        Self::of(SocketAddr::from((end.ipv4, 0)), "", Some(end))
    }

    fn of(address: SocketAddr, how: &str, at: Option<&LabEnd>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "support::a_watched_receiver", "--nocapture"]);
        command.env(RECEIVER, format!("{address} {how}")).stdout(Stdio::piped());
        let mut program = spawn(&mut command, at);
        let lines = BufReader::new(program.0.stdout.take().unwrap()).lines();
        let (says, said) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| says.send(line)));
        let mut receiver = Self { program, said, port: 0 };
        receiver.port = receiver.says("port ");
        receiver
    }

    pub(crate) fn pid(&self) -> Pid {
        self.program.pid()
    }

    /// Packets that were missing, of those of which it has said so since it was last asked.
    pub(crate) fn missing(&self) -> u32 {
        let lines = self.said.try_iter();
        lines
            .filter_map(|line| line.strip_prefix("missing ").map(|count| count.parse::<u32>().unwrap()))
            .sum()
    }

    /// The number that it says next after this word.
    pub(crate) fn says(&self, word: &str) -> u16 {
        loop {
            let line = self.said.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no `{word}`"));
            if let Some(number) = line.strip_prefix(word) {
                return number.parse().unwrap();
            }
        }
    }
}

/// A packet of RTP each 2 ms, until it is dropped.
pub(crate) struct Sender {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU32>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Sender {
    pub(crate) fn start(port: u16) -> Self {
        Self::from(UdpSocket::bind((HERE, 0)).unwrap(), (HERE, port))
    }

    /// One at an end of a lab, to the other end.
    pub(crate) fn at(end: &LabEnd, to: (Ipv4Addr, u16)) -> Self {
        Self::from(end.within(|| UdpSocket::bind((end.ipv4, 0)).unwrap()).unwrap(), to)
    }

    fn from(socket: UdpSocket, to: (Ipv4Addr, u16)) -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (stopping, counts) = (Arc::clone(&stop), Arc::clone(&sent));
        let thread = std::thread::spawn(move || {
            schedule::fifo(0, 50).unwrap();
            let start = Instant::now();
            for number in 0u32.. {
                let due = start + Duration::from_millis(2) * number;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                if stopping.load(Ordering::Relaxed) {
                    break;
                }
                let mut packet = [0u8; 200];
                (packet[0], packet[1]) = (0x80, 96);
                packet[2..4].copy_from_slice(&(number as u16).to_be_bytes());
                packet[4..8].copy_from_slice(&(number * 180).to_be_bytes());
                packet[8..12].copy_from_slice(&7u32.to_be_bytes());
                counts.fetch_add(1, Ordering::SeqCst);
                // Nobody listens while the receiver is restarted, and nothing passes a link that is down.
                let _ = socket.send_to(&packet, to);
            }
        });
        Self { stop, sent, thread: Some(thread) }
    }

    /// Packets so far, the one that is being sent included.
    pub(crate) fn sent(&self) -> u32 {
        self.sent.load(Ordering::SeqCst)
    }

    /// Sends no more; packets in all.
    pub(crate) fn stop(&mut self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(std::thread::JoinHandle::join);
        self.sent()
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A watch with its files.
pub(crate) struct Watch {
    place: tempfile::TempDir,
    pub(crate) metrics: u16,
}

impl Watch {
    /// One of the receiver at a port, with the usual trigger.
    pub(crate) fn of(port: u16) -> Self {
        Self::with(port, LATE)
    }

    /// One with these triggers, which begin its last table.
    pub(crate) fn with(port: u16, triggers: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let metrics = TcpListener::bind((HERE, 0)).unwrap().local_addr().unwrap().port();
        let watch = Self { place, metrics };
        let settings = format!(
            "directory = '{0}/data'\nsocket = '{0}/watch.sock'\nmetrics = '127.0.0.1:{metrics}'\n\
             [window]\nbefore = '1s'\nafter = '600ms'\n\
             [hook]\ncommand = ['sh', '-c', 'echo $QUAVER_CAUSE $QUAVER_COUNT >> {0}/told']\n\
             [[receiver]]\nname = 'studio'\nport = {port}\n{triggers}\n",
            watch.place.path().display()
        );
        std::fs::write(watch.path("watch.toml"), settings).unwrap();
        watch
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Replaces a part of the settings.
    pub(crate) fn set(&self, from: &str, to: &str) {
        let settings = std::fs::read_to_string(self.path("watch.toml")).unwrap();
        assert!(settings.contains(from), "{settings}");
        std::fs::write(self.path("watch.toml"), settings.replace(from, to)).unwrap();
    }

    fn command(&self) -> Command {
        let log = std::fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        let mut command = Command::new(QUAVER);
        command.args(["watch", "--config"]).arg(self.path("watch.toml")).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        command
    }

    pub(crate) fn start(&self) -> Ended {
        self.start_at(None)
    }

    /// Starts it at an end of a lab.
    pub(crate) fn start_at(&self, end: Option<&LabEnd>) -> Ended {
        spawn(&mut self.command(), end)
    }

    /// Starts it as on a host that trusts this certificate alone.
    pub(crate) fn start_trusting(&self, certificate: &str) -> Ended {
        spawn(self.command().env("SSL_CERT_FILE", self.path(certificate)), None)
    }

    /// Replaces a part of the settings of the running watch, which reads them for this time in turn.
    pub(crate) fn reload(&self, daemon: &Ended, from: &str, to: &str, time: usize) {
        self.set(from, to);
        kill_process(daemon.pid(), Signal::HUP).unwrap();
        self.wait("the settings", |watch| watch.log().matches("new settings are in force").count() == time);
        self.wait_watching(time + 1);
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn wait(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < PATIENCE, "{what} did not come:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The watch, or one after it, records for this time in turn, holds what a window has before its trigger, and has learned the
    /// stream's pace.
    pub(crate) fn wait_watching(&self, time: usize) {
        self.wait("the receiver", |watch| watch.log().matches("watching ").count() >= time);
        self.wait("the seconds before", |watch| watch.metric("quaver_watch_held_seconds") >= 1.2);
        let from = self.metric("quaver_watch_packets_total");
        self.wait("the pace", |watch| watch.metric("quaver_watch_packets_total") >= from + 500.0);
    }

    pub(crate) fn ask(&self, what: &str) -> String {
        let socket = self.path("watch.sock");
        let output = Command::new(QUAVER).args(["watch", what, "--socket"]).arg(socket).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn incidents(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("data/incidents")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Waits until there are so many.
    pub(crate) fn wait_incidents(&self, count: usize) {
        self.wait("an incident", |watch| watch.incidents().len() == count);
    }

    /// What `/metrics` says of a sample, by the beginning of its line.
    pub(crate) fn metric(&self, beginning: &str) -> f64 {
        let text = exchange(UnixStream::connect(self.path("watch.sock")).unwrap(), "/metrics");
        let text = text.unwrap();
        let line = text.lines().find(|line| line.starts_with(beginning));
        let value = line.and_then(|line| line.split(" # ").next()?.rsplit(' ').next()?.parse().ok());
        value.unwrap_or(0.0)
    }

    /// Ends it in good order.
    pub(crate) fn end(&self, mut daemon: Ended) {
        kill_process(daemon.pid(), Signal::TERM).unwrap();
        assert!(daemon.0.wait().unwrap().success(), "{}", self.log());
        assert!(!self.path("watch.sock").exists());
        assert_eq!(std::fs::read_dir(self.path("data/staging")).unwrap().count(), 0, "{}", self.log());
    }
}

pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

pub(crate) fn get(port: u16, path: &str) -> std::io::Result<String> {
    exchange(TcpStream::connect((HERE, port))?, path)
}

fn exchange(mut stream: impl Read + Write, path: &str) -> std::io::Result<String> {
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

pub(crate) fn summary(incident: &Path) -> Value {
    RunDir::open(incident).unwrap().read_summary().unwrap()
}

/// What was asked, which holds why it was kept.
pub(crate) fn asked(incident: &Path) -> Value {
    RunDir::open(incident).unwrap().read_manifest().unwrap().asked
}

pub(crate) fn note(incident: &Path) -> Value {
    asked(incident)["incident"].clone()
}

pub(crate) fn stop_for_a_while(process: Pid) {
    kill_process(process, Signal::STOP).unwrap();
    std::thread::sleep(GLITCH);
    kill_process(process, Signal::CONT).unwrap();
}
