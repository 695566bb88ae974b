//! A program that a signal stops while it measures says so, and blames nobody else for it.

use quaver_testbed::ports::free_port;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const QUAVER: &str = env!("CARGO_BIN_EXE_quaver");
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it is stopped.
const STOP: Duration = Duration::from_millis(400);

fn begun(runs: &Path, words: &str) -> Child {
    let mut command = Command::new(QUAVER);
    command.args(words.split(' ')).args(["--quiet", "--json", "--for", "600s", "--output"]).arg(runs);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Until `is` says so.
fn wait_until(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "{what}: never");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Anchors of the clock are taken ten times a second while it measures: 32 bytes each.
fn anchors(runs: &Path) -> u64 {
    let run = std::fs::read_dir(runs).ok().and_then(|mut runs| Some(runs.next()?.ok()?.path()));
    run.and_then(|run| Some(run.join("anchors.seg").metadata().ok()?.len())).unwrap_or(0)
}

fn state(process: &Child) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn interrupted(process: Child) -> Output {
    kill_process(Pid::from_child(&process), Signal::INT).unwrap();
    process.wait_with_output().unwrap()
}

/// What a run warns of after it measured, was stopped where `stops`, and measured on.
fn warned(words: &str, stops: bool) -> Vec<String> {
    let runs = tempfile::tempdir().unwrap();
    let process = begun(runs.path(), words);
    let pid = Pid::from_child(&process);
    let grows = |what: &str| {
        let before = anchors(runs.path());
        wait_until(what, || anchors(runs.path()) >= before + 10 * 32);
    };
    grows("it measures");
    if stops {
        kill_process(pid, Signal::STOP).unwrap();
        wait_until("it stops", || state(&process) == Some('T'));
        std::thread::sleep(STOP);
        kill_process(pid, Signal::CONT).unwrap();
    }
    grows("it measures on");
    let output = interrupted(process);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let found: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let warnings = found["warnings"].as_array().unwrap_or_else(|| panic!("{found}"));
    warnings.iter().map(|warning| warning.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_stop_by_a_signal_is_told_with_its_length_and_none_where_none_was() {
    let sink = format!("sink 127.0.0.1:{}", free_port());
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = sink.strip_prefix("sink ").unwrap().to_owned();
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = socket.send_to(&[1; 100], &to);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let outcome = std::panic::catch_unwind(|| {
            for words in [
                "noise --tier user --threshold 1ms",
                "chase --tier user --lab loopback --period 2ms --pace sleep --receive block --no-cost",
                &sink,
            ] {
                let is_of_it = |warning: &&String| warning.contains("a signal stopped this program");
                let [none, some] = [false, true].map(|stops| warned(words, stops));
                assert!(!none.iter().any(|warning| is_of_it(&warning)), "{words}: {none:?}");
                let said = some.iter().find(is_of_it).unwrap_or_else(|| panic!("{words}: {some:?}"));
                let length = said.split_once("for up to ").unwrap().1.split_once(" it measured").unwrap().0;
                let (number, unit) = length.split_once(' ').unwrap();
                let seconds = number.parse::<f64>().unwrap() * if unit == "s" { 1.0 } else { 1e-3 };
                assert!(["s", "ms"].contains(&unit) && seconds >= STOP.as_secs_f64(), "{words}: {length}");
            }
        });
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}
