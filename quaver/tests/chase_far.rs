//! `quaver chase --from` beside `quaver serve`, with the real program on both ends.

mod burner;
mod far_server;

use burner::Burner;
use far_server::{Server, quaver};
use quaver_abi::record::PacketRecord;
use quaver_abi::segment::SegmentHeader;
use quaver_host::netns::Lab;
use quaver_store::run::RunDir;
use quaver_testbed::privileged::privileged;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn serving(options: &[&str]) -> Server {
    Server::at(LOOPBACK, options)
}

/// A chase of a slow, light stream.
fn chase(far: &str, runs: &Path, options: &[&str]) -> Command {
    chase_at("0", far, runs, options)
}

fn chase_at(port: &str, far: &str, runs: &Path, options: &[&str]) -> Command {
    let mut command = quaver(&["chase", "--from", far, "--port", port, "--period", "1ms", "--size", "200"]);
    command.args(["--pace", "sleep", "--receive", "block", "--quiet", "--json", "--output"]).arg(runs);
    command.args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[track_caller]
fn summary(output: &Output, code: i32) -> Value {
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {words}"))
}

fn number(summary: &Value, pointer: &str) -> u64 {
    summary.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {summary}"))
}

/// What the source says, the sink counts and the server logs is one and the same.
#[track_caller]
fn assert_accounts(found: &Value, logged: u64) {
    let of = |name: &str| number(found, &format!("/far_source/{name}"));
    assert_eq!(of("sent") + of("send_failed"), logged, "{found}");
    assert_eq!(of("sent"), of("arrived") + of("lost"));
    assert!(of("arrived") >= number(found, "/losses/received"), "the window is a part of the stream");
}

#[test]
fn a_server_sends_for_as_long_as_it_is_measured_and_both_ends_agree() {
    let mut server = serving(&[]);
    let runs = tempfile::tempdir().unwrap();
    let found = summary(&chase(&server.far, runs.path(), &["--for", "2s"]).output().unwrap(), 0);
    let started = server.line_with(" test down ");
    assert!(started.contains("a source of 200 bytes"), "{started}");
    assert_accounts(&found, server.packets_of_the_stream());
    server.line_with(": done");
    assert_eq!(number(&found, "/far_source/lost"), 0, "loopback loses nothing: {found}");
    assert_eq!(found["period_ns"].as_f64(), Some(1e6));
    assert_eq!(found["complete"], true);
    // Slots that are not in either would be time in which nobody sent.
    let slots = number(&found, "/far_source/sent") + number(&found, "/far_source/slots_missed");
    // It lasts up to its last packet; slots that are missed after that one count too.
    assert!(number(&found, "/far_source/lasted_ns") / 1_000_000 < slots, "{found}");
    assert!(slots >= 2_000, "two seconds at least: {slots}");
    let run = std::fs::read_dir(runs.path()).unwrap().next().unwrap().unwrap().path();
    let manifest: Value =
        serde_json::from_str(&std::fs::read_to_string(run.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["analysis"]["far_source"], found["far_source"]);
    let page = quaver(&["analyze"]).arg(&run).output().unwrap();
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(page.contains(&format!("Source at {}", server.far)) && page.contains("arrived: "), "{page}");
}

#[test]
fn a_profile_and_a_key_go_with_the_request() {
    let keys = tempfile::tempdir().unwrap();
    let (right, wrong) = (keys.path().join("right"), keys.path().join("wrong"));
    std::fs::write(&right, "sixteen bytes or more\n").unwrap();
    std::fs::write(&wrong, "others, and as many of them\n").unwrap();
    let (right, wrong) = (right.to_str().unwrap(), wrong.to_str().unwrap());
    let mut server = serving(&["--key-file", right]);
    let runs = tempfile::tempdir().unwrap();
    let with = |options: &[&str]| {
        let mut command = quaver(&["chase", "--from", &server.far, "--port", "0", "--profile", "g711"]);
        command.args(["--pace", "sleep", "--receive", "block", "--for", "1s", "--quiet", "--json", "-o"]);
        command.arg(runs.path()).args(options).output().unwrap()
    };
    for (options, words) in
        [(&[][..], "only peers with its key"), (&["--key-file", wrong], "use the same key")]
    {
        let refused = with(options);
        let sentence = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(4), "{sentence}");
        assert!(sentence.contains(words), "{sentence}");
    }
    assert_eq!(std::fs::read_dir(runs.path()).unwrap().count(), 0, "no run directory is left");
    let found = summary(&with(&["--key-file", right]), 0);
    assert_eq!(found["period_ns"].as_f64(), Some(2e7));
    assert!(server.line_with(" test down ").contains("g711"));
    assert_accounts(&found, server.packets_of_the_stream());
}

#[test]
fn an_interrupted_chase_stops_the_source_and_keeps_what_it_had() {
    let mut server = serving(&[]);
    let runs = tempfile::tempdir().unwrap();
    let chase = chase(&server.far, runs.path(), &["--for", "600s"]).spawn().unwrap();
    server.line_with(" test down ");
    wait_for_window(runs.path());
    signal(&chase, Signal::INT);
    let found = summary(&chase.wait_with_output().unwrap(), 130);
    assert_accounts(&found, server.packets_of_the_stream());
    server.line_with(": done");
    assert_eq!(found["complete"], false);
    assert!(found["warnings"].to_string().contains("interrupted by the user"), "{found}");
}

/// Waits until a second's packets are recorded: the measured part has begun long before.
fn wait_for_window(runs: &Path) {
    const RECORD_BYTES: u64 = size_of::<PacketRecord>() as u64;
    let written = || {
        let run = std::fs::read_dir(runs).ok()?.next()?.ok()?.path();
        let segment = std::fs::File::open(RunDir::open(&run).ok()?.packets_segment()).ok()?;
        let mut record = [0; RECORD_BYTES as usize];
        let at = size_of::<SegmentHeader>() as u64 + 1_000 * RECORD_BYTES;
        segment.read_exact_at(&mut record, at).ok()?;
        Some(record != [0; RECORD_BYTES as usize])
    };
    let end = Instant::now() + Duration::from_secs(60);
    while written() != Some(true) {
        assert!(Instant::now() < end, "it measures");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_chase_that_is_killed_stops_the_source() {
    let mut server = serving(&[]);
    let runs = tempfile::tempdir().unwrap();
    let mut chase = chase(&server.far, runs.path(), &["--for", "600s"]).spawn().unwrap();
    server.line_with(" test down ");
    chase.kill().unwrap();
    chase.wait().unwrap();
    server.line_with(" ended after ");
    server.line_with("broken off");
}

#[test]
fn a_server_that_goes_leaves_the_chase_what_it_had() {
    for (how, words) in [(Signal::INT, "the server ends"), (Signal::KILL, "closed the connection")] {
        let mut server = serving(&[]);
        let runs = tempfile::tempdir().unwrap();
        let chase = chase(&server.far, runs.path(), &["--for", "600s"]).spawn().unwrap();
        server.line_with(" test down ");
        wait_for_window(runs.path());
        signal(&server.child, how);
        let found = summary(&chase.wait_with_output().unwrap(), 4);
        assert_eq!(found["complete"], false);
        assert!(number(&found, "/losses/received") > 0, "{found}");
        assert!(found["warnings"].to_string().contains(words), "{}", found["warnings"]);
        assert!(found.get("far_source").is_none(), "nobody said what was sent");
    }
}

#[test]
fn what_a_server_refuses_is_said_with_its_reason_and_leaves_nothing() {
    let runs = tempfile::tempdir().unwrap();
    let refused = |far: &str, options: &[&str]| {
        let output = chase(far, runs.path(), options).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let server = serving(&["--max-rate", "999", "--max-duration", "60s"]);
    let (code, words) = refused(&server.far, &["--for", "1s"]);
    assert_eq!(code, Some(4), "{words}");
    assert!(words.contains("1000 packets/s; at most 999 here"), "{words}");
    let server = serving(&["--max-duration", "60s"]);
    let (code, words) = refused(&server.far, &["--for", "55s"]);
    assert_eq!(code, Some(4), "{words}");
    assert!(words.contains("at most 60 s here"), "{words}");
    let (code, words) = refused("no-such-host.invalid", &[]);
    assert_eq!(code, Some(2), "{words}");
    // A server that knows only Jitlat answers NAK.
    let old = TcpListener::bind((LOOPBACK, 0)).unwrap();
    let at = old.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut control, _) = old.accept().unwrap();
        let (mut hello, mut nak) = ([0u8; 40], [0u8; 40]);
        control.read_exact(&mut hello).unwrap();
        nak[3] = 6;
        control.write_all(&nak).unwrap();
    });
    let (code, words) = refused(&at, &[]);
    answering.join().unwrap();
    assert_eq!(code, Some(4), "{words}");
    assert!(words.contains("does not know Quaver's extension"), "{words}");
    assert_eq!(std::fs::read_dir(runs.path()).unwrap().count(), 0, "no run directory is left");
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
fn where_no_server_runs_the_commands_that_do_it_by_hand_are_shown_and_work() {
    let runs = tempfile::tempdir().unwrap();
    let closed = TcpListener::bind((LOOPBACK, 0)).unwrap().local_addr().unwrap();
    let port = UdpSocket::bind((LOOPBACK, 0)).unwrap().local_addr().unwrap().port().to_string();
    let output = chase_at(&port, &closed.to_string(), runs.path(), &[]).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{words}");
    assert!(words.contains("start `quaver serve` there"), "{words}");
    let between = |start: &str, end: char| {
        let rest = words.split(start).nth(1).unwrap_or_else(|| panic!("no {start:?} in {words}"));
        rest.split(end).next().unwrap().split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let (source, listen) = (between("by hand: quaver ", ';'), between("receive it here: quaver ", ')'));
    let source = quaver(&[]).args(source).arg("--quiet").stdout(Stdio::null()).spawn().unwrap();
    let source = Ended(source);
    let mut command = quaver(&[]);
    command.args(listen).args(["--for", "1s", "--receive", "block", "--quiet", "--json", "--output"]);
    let found = summary(&command.arg(runs.path()).output().unwrap(), 0);
    drop(source);
    assert!(number(&found, "/losses/received") > 100, "{found}");
    assert_eq!(found["period_ns"].as_f64(), Some(1e6));
}

#[test]
fn between_two_namespaces_the_sinks_disturber_is_named() {
    if !privileged("between_two_namespaces_the_sinks_disturber_is_named") {
        return;
    }
    let lab = Lab::create().unwrap();
    let runs = tempfile::tempdir().unwrap();
    let at = IpAddr::V4(lab.source.ipv4);
    let mut server = lab.source.within(|| Server::at(at, &[])).unwrap();
    let burner = Burner::start();
    let output = lab.sink.within(|| chase(&server.far, runs.path(), &["--for", "3s"]).output().unwrap());
    let bursts = burner.stop();
    let found = summary(&output.unwrap(), 0);
    assert_accounts(&found, server.packets_of_the_stream());
    assert_eq!(number(&found, "/losses/unaccounted"), 0, "{found}");
    burner::assert_blamed(env!("CARGO_BIN_EXE_quaver"), runs.path(), &bursts);
}
