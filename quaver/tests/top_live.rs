//! `quaver top`, the real program, on a terminal that the test holds, before a watch that says what it is told to.

use quaver_testbed::terminal;
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// Answers at `watch.sock` below `place`; with each answer a second has passed and 500 packets have come.
fn answer_for_ever(place: &Path) -> PathBuf {
    let path = place.join("watch.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for (second, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut octet = [0];
                stream.read_exact(&mut octet).unwrap();
                request.extend(octet);
            }
            let body = format!(
                r#"{{"realtime_ns": {}000000000, "receivers": {{"studio": {{"watched": true, "words": "RTP", "received": {},
                "lateness": {{"counts": [{},0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0], "sum_ns": 0}}, "of a later version": 1}}}},
                "cost": {{"cpu_percent": 1.25}}}}"#,
                36_000 + second,
                second * 500,
                second * 500,
            );
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    path
}

fn top(socket: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(["top", "--socket"]).arg(socket).args(options);
    command
}

/// The same with this as its terminal.
fn top_at(socket: &Path, terminal: &OwnedFd) -> Child {
    let end = || Stdio::from(terminal.try_clone().unwrap());
    let mut command = Command::new("setsid");
    command.arg("--ctty").arg(env!("CARGO_BIN_EXE_quaver")).args(["top", "--socket"]).arg(socket);
    command.env("LC_ALL", "C.UTF-8").stdin(end()).stdout(end()).stderr(end()).spawn().unwrap()
}

/// The program on a terminal, and all that it has drawn there.
struct Shown {
    child: Child,
    person: File,
    drawn: Arc<Mutex<Vec<u8>>>,
}

impl Shown {
    fn start(socket: &Path) -> Self {
        let (person, program) = terminal::open().unwrap();
        let person = File::from(person);
        resize(&person, 80, 24);
        let child = top_at(socket, &program);
        let drawn = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, into) = (person.try_clone().unwrap(), Arc::clone(&drawn));
        std::thread::spawn(move || {
            let mut part = [0; 4_096];
            while let Ok(count @ 1..) = reader.read(&mut part) {
                into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&part[..count]);
            }
        });
        Self { child, person, drawn }
    }

    /// Waits until it has drawn this word, since the last time. Spaces between words need not be drawn.
    fn wait(&self, word: &str) {
        let start = Instant::now();
        loop {
            let mut drawn = self.drawn.lock().unwrap();
            if String::from_utf8_lossy(&drawn).contains(word) {
                return drawn.clear();
            }
            assert!(start.elapsed() < PATIENCE, "no `{word}` in {}", String::from_utf8_lossy(&drawn));
            drop(drawn);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn press(&mut self, keys: &str) {
        self.person.write_all(keys.as_bytes()).unwrap();
    }

    fn status(mut self) -> Option<i32> {
        wait(&mut self.child)
    }
}

/// Its status once it has ended.
fn wait(child: &mut Child) -> Option<i32> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("it does not end");
}

fn resize(terminal: &File, columns: u16, rows: u16) {
    tcsetwinsize(terminal, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

#[test]
fn keys_are_heard_also_when_the_terminal_changes_its_size_meanwhile() {
    let place = tempfile::tempdir().unwrap();
    let mut shown = Shown::start(&answer_for_ever(place.path()));
    shown.wait("studio");
    shown.press("?");
    shown.wait("opens");
    shown.press("?");
    resize(&shown.person, 60, 16);
    shown.wait("none");
    shown.press("p");
    shown.wait("stands");
    resize(&shown.person, 100, 30);
    shown.press("q");
    assert_eq!(shown.status(), Some(0));
}

#[test]
fn a_terminal_that_is_closed_ends_it() {
    let place = tempfile::tempdir().unwrap();
    let socket = answer_for_ever(place.path());
    let (person, program) = terminal::open().unwrap();
    let mut child = top_at(&socket, &program);
    drop(program);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(child.try_wait().unwrap(), None);
    drop(person);
    let status = wait(&mut child);
    assert!(status == Some(0) || status == Some(6), "{status:?}");
}

#[test]
fn lines_for_pipes_and_programs() {
    let place = tempfile::tempdir().unwrap();
    let socket = answer_for_ever(place.path());
    let lines = top(&socket, &["--for", "1500ms"]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&lines.stdout),
        "10:00:00 studio: RTP, 0 packets so far\n\
         10:00:01 studio: last 1 s: 500 packets/s, 0 missing, 0 dropped; lateness p50 ≤ 10.0 µs, p99 ≤ 10.0 µs, \
         largest ≤ 10.0 µs; incidents so far: 0\n"
    );
    let json = top(&socket, &["--for", "1500ms", "--json-lines"]).output().unwrap();
    let read = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let lines: Vec<_> = std::str::from_utf8(&json.stdout).unwrap().lines().map(read).collect();
    let received = |at: usize| lines[at]["receivers"]["studio"]["received"].as_u64().unwrap();
    assert_eq!((lines.len(), received(1) - received(0)), (2, 500));
}

#[test]
fn without_a_watch_it_says_so() {
    let place = tempfile::tempdir().unwrap();
    let ended = top(&place.path().join("none"), &[]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        said.contains("ask the watch at") && said.contains("start `quaver watch --config FILE`"),
        "{said}"
    );
    assert_eq!((ended.status.code(), ended.stdout.len()), (Some(4), 0));
}
