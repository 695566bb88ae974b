//! Pictures of a path: the live view on a terminal, which is as before on every way out, and the plots after a test.

use quaver_instrument::interrupt::Interrupt;
use quaver_path::tui::{LiveView, View};
use quaver_path_record::stamp::{ReflectorEvent, ReflectorOptions, reflect};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const TAKEN: &str = "\x1b[?1049h";
const GIVEN_BACK: &str = "\x1b[?1049l";
/// Longer than anything here takes, so that a hang fails instead of waiting for ever.
const PATIENCE: Duration = Duration::from_secs(120);

/// A terminal, and a program on it.
struct Terminal {
    keyboard: File,
    /// Held open, so that the terminal outlives the program and can be looked at.
    screen: Option<OwnedFd>,
    child: Child,
    shown: Arc<(Mutex<String>, Condvar)>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    fn run(mut command: Command) -> Self {
        let (keyboard, screen) = quaver_testbed::terminal::open().unwrap();
        tcsetwinsize(&screen, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let end = || Stdio::from(screen.try_clone().unwrap());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let shown = Arc::new((Mutex::new(String::new()), Condvar::new()));
        let (mut output, heard) = (File::from(keyboard.try_clone().unwrap()), Arc::clone(&shown));
        let reader = std::thread::spawn(move || {
            let mut octets = [0; 4096];
            // Ends with an error when nobody has the terminal open any more.
            while let Ok(count @ 1..) = output.read(&mut octets) {
                heard.0.lock().unwrap().push_str(&String::from_utf8_lossy(&octets[..count]));
                heard.1.notify_all();
            }
        });
        Self { keyboard: keyboard.into(), screen: Some(screen), child, shown, reader: Some(reader) }
    }

    /// Waits until this word is on the screen. Only cells that change are sent, so two words may come as two.
    fn wait_for(&self, words: &str) {
        let end = Instant::now() + PATIENCE;
        let mut shown = self.shown.0.lock().unwrap();
        while !shown.contains(words) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{words:?} never came:\n{shown}");
            shown = self.shown.1.wait_timeout(shown, left).unwrap().0;
        }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn is_raw(&self) -> bool {
        let modes = tcgetattr(self.screen.as_ref().unwrap().as_fd()).unwrap().local_modes;
        !modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// The end of the program; all that it showed, before and after it gave the terminal back, which it did.
    fn end(mut self) -> (ExitStatus, String, String) {
        let status = self.child.wait().unwrap();
        assert!(!self.is_raw(), "the terminal was left raw");
        self.screen = None;
        self.reader.take().unwrap().join().unwrap();
        let shown = std::mem::take(&mut *self.shown.0.lock().unwrap());
        assert_eq!((shown.matches(TAKEN).count(), shown.matches(GIVEN_BACK).count()), (1, 1), "{shown}");
        let (before, after) = shown.split_once(GIVEN_BACK).unwrap();
        assert!(after.contains("\x1b[?25h"), "the cursor was left hidden");
        (status, before.to_owned(), after.to_owned())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both ends of a new terminal: what a person has before them, and what a program gets.
/// A server on ports that the system chose; ended when dropped.
struct Server(Child, u16);

impl Server {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
        command.args(["serve", "--bind", "127.0.0.1", "--port", "0", "--test-port", "0"]);
        command.env_remove("QUAVER_KEY_FILE").stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        // The rest is read to the end, so that the server can always write.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        Self(child, port.parse().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A test of a minute, of which a few packets are waited for.
fn probe(server: &Server, runs: &tempfile::TempDir, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(["probe", "127.0.0.1", "--port", &server.1.to_string(), "--rtt-interval", "5ms", "-o"]);
    command.arg(runs.path()).args(["--live", "--period", "2ms", "--for", "60s"]).args(options);
    command.env_remove("QUAVER_RUNS").env_remove("QUAVER_KEY_FILE").env("LC_ALL", "C").env("NO_COLOR", "1");
    command
}

#[test]
fn a_key_ends_the_test_and_the_page_follows() {
    let (server, runs) = (Server::start(), tempfile::tempdir().unwrap());
    let mut terminal = Terminal::run(probe(&server, &runs, &["--direction", "down"]));
    terminal.wait_for("none");
    assert!(terminal.is_raw());
    terminal.press("?");
    terminal.wait_for("5481");
    terminal.press("q");
    let (status, before, after) = terminal.end();
    assert_eq!(status.code(), Some(130), "{after}");
    assert!(before.contains("interarrival") && after.contains("Report"), "{after}");
    assert!(!before.contains("\x1b[31m") && !before.contains("\x1b[38;5;"), "colours in spite of NO_COLOR");
}

#[test]
fn what_is_told_at_the_end_is_not_shown_as_zero() {
    let (server, runs) = (Server::start(), tempfile::tempdir().unwrap());
    let mut terminal = Terminal::run(probe(&server, &runs, &["--direction", "up"]));
    terminal.wait_for("told");
    // Control and C.
    terminal.press("\x03");
    let (status, _, after) = terminal.end();
    assert_eq!(status.code(), Some(130), "{after}");
    assert!(after.contains("Report"), "{after}");
}

#[test]
fn a_signal_ends_the_test_as_a_key_does() {
    let (server, runs) = (Server::start(), tempfile::tempdir().unwrap());
    let terminal = Terminal::run(probe(&server, &runs, &["--direction", "down", "--rolling"]));
    terminal.wait_for("none");
    terminal.signal(Signal::TERM);
    let (status, _, after) = terminal.end();
    assert_eq!(status.code(), Some(130), "{after}");
    assert!(after.contains("Report"), "{after}");
}

/// Sets a flag at the end, also at that of a test that failed.
struct AtTheEnd<'a>(&'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_stamp_session_is_watched_as_any_other_test() {
    let (stop, runs) = (AtomicBool::new(false), tempfile::tempdir().unwrap());
    let (send, events) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let _stop = AtTheEnd(&stop);
        let bind = (Ipv4Addr::LOCALHOST, 0).into();
        let options = ReflectorOptions { bind, ..ReflectorOptions::default() };
        let stop = &stop;
        scope.spawn(move || reflect(&options, stop, &mut |event| drop(send.send(event))));
        let Ok(ReflectorEvent::Listening { address, .. }) = events.recv() else { panic!("no reflector") };
        let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
        command.args(["probe", "127.0.0.1", "--live", "--period", "2ms", "--for", "60s", "--rolling", "-o"]);
        command.arg(runs.path()).args(["--stamp", &address.port().to_string()]);
        command.env_remove("QUAVER_RUNS").env_remove("QUAVER_KEY_FILE").env("LC_ALL", "C");
        let mut terminal = Terminal::run(command);
        terminal.wait_for("STAMP");
        terminal.wait_for("none");
        terminal.press("q");
        let (status, _, after) = terminal.end();
        assert_eq!(status.code(), Some(130), "{after}");
        assert!(after.contains("Rolling figures") && after.contains("Report"), "{after}");
    });
}

#[test]
fn an_error_is_told_on_a_terminal_that_is_as_before() {
    let runs = tempfile::tempdir().unwrap();
    // Nobody listens on a port that was just given up.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(["probe", "127.0.0.1", "--live", "--port", &port.to_string(), "-o"]).arg(runs.path());
    let (status, _, after) = Terminal::run(command).end();
    assert_eq!(status.code(), Some(4), "{after}");
    assert!(after.contains("quaver: measuring the path"), "{after}");
}

#[test]
fn without_a_terminal_it_says_so() {
    let runs = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(["probe", "127.0.0.1", "--live", "-o"]).arg(runs.path().join("none")).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("needs a terminal") && said.contains("--json-lines"), "{said}");
    assert!(output.stdout.is_empty() && !runs.path().join("none").exists());
}

/// This very program, doing only one of the parts below.
fn part(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(PART, name);
    command.args(["--exact", name, "--nocapture", "--test-threads", "1"]);
    command
}

/// Names the part that is to be done. Without it none is.
const PART: &str = "QUAVER_TEST_PART";

fn is_asked_for(part: &str) -> bool {
    std::env::var(PART).is_ok_and(|asked| asked == part)
}

fn open_view(interrupt: &Interrupt) -> LiveView {
    LiveView::open(View::new("a peer".to_owned(), "nothing".to_owned(), Vec::new()), interrupt, "").unwrap()
}

/// A part of the test after it, which runs it on a terminal; of no effect else.
#[test]
fn part_that_panics() {
    if !is_asked_for("part_that_panics") {
        return;
    }
    let view = open_view(&Interrupt::default());
    view.update(|_, _| panic!("something impossible"));
}

#[test]
fn a_panic_is_told_on_a_terminal_that_is_as_before() {
    let (status, _, after) = Terminal::run(part("part_that_panics")).end();
    assert!(!status.success());
    assert!(after.contains("something impossible"), "{after}");
}

/// A part of the test after it, which runs it on a terminal; of no effect else.
#[test]
fn part_that_does_not_end() {
    if !is_asked_for("part_that_does_not_end") {
        return;
    }
    let interrupt = Interrupt::catch().unwrap();
    let _view = open_view(&interrupt);
    loop {
        std::thread::park();
    }
}

#[test]
fn a_second_request_ends_at_once_and_gives_the_terminal_back() {
    for (first, second) in [(Some(Signal::TERM), Some(Signal::INT)), (None, None), (Some(Signal::INT), None)]
    {
        let mut terminal = Terminal::run(part("part_that_does_not_end"));
        let ask = |terminal: &mut Terminal, request| match request {
            Some(signal) => terminal.signal(signal),
            None => terminal.press("\x03"),
        };
        terminal.wait_for("keep");
        ask(&mut terminal, first);
        terminal.wait_for("ending");
        ask(&mut terminal, second);
        let (status, ..) = terminal.end();
        assert_eq!(status.code(), Some(130));
    }
}

/// A part of the test after it, which runs it as a process of its own; of no effect else.
#[test]
fn part_that_holds_and_lets_go() {
    if !is_asked_for("part_that_holds_and_lets_go") {
        return;
    }
    let interrupt = Interrupt::catch().unwrap();
    let mut held = interrupt.hold();
    signal_hook::low_level::raise(signal_hook::consts::SIGTERM).unwrap();
    assert!(interrupt.requested() && !held.requested_again());
    signal_hook::low_level::raise(signal_hook::consts::SIGINT).unwrap();
    assert!(held.requested_again());
    drop(held);
    println!("let go");
    signal_hook::low_level::raise(signal_hook::consts::SIGTERM).unwrap();
    println!("still there");
}

#[test]
fn a_second_signal_ends_the_process_again_once_nobody_holds_it() {
    let output = part("part_that_holds_and_lets_go").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("let go") && !said.contains("still there"), "{said}");
}

#[test]
fn plots_follow_the_page_and_are_written_for_gnuplot() {
    let (server, runs) = (Server::start(), tempfile::tempdir().unwrap());
    let port = server.1.to_string();
    let probe = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
        command.args(["probe", "127.0.0.1", "--port", &port, "--rtt-interval", "5ms", "-o"]).arg(runs.path());
        command.env_remove("QUAVER_RUNS").env_remove("QUAVER_KEY_FILE").env("COLUMNS", "90");
        command.args(["--period", "1ms", "--count", "200", "--plots"]).args(options).output().unwrap()
    };
    let files = runs.path().join("plots");
    let output = probe(&["--gnuplot", files.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let plots = said.split_once("Report").unwrap().1;
    for words in ["up: 127.0.0.1:", "down: 127.0.0.1:"] {
        assert_eq!(plots.matches(words).count(), 1, "{said}");
    }
    assert_eq!(plots.matches("packet delay variation: packets").count(), 2, "{said}");
    assert_eq!(plots.matches("burstiness: latency").count(), 2, "{said}");
    for name in ["plots.gp", "latency.dat", "latency-corrected.dat", "pdv.dat", "burstiness.dat"] {
        for way in ["up", "down"] {
            let text = std::fs::read_to_string(files.join(way).join(name)).unwrap();
            assert!(text.lines().count() > 2, "{way}/{name}: {text}");
        }
    }
    // Nothing may stand behind JSON.
    assert_eq!(probe(&["--json"]).status.code(), Some(2));
    // A file stands where the directory would be made.
    let occupied = runs.path().join("occupied");
    std::fs::write(&occupied, "").unwrap();
    assert_eq!(probe(&["--gnuplot", occupied.to_str().unwrap()]).status.code(), Some(6));
}
