//! What a comparison that was killed leaves, and who takes it away.

use super::{json, left_by, privileged, quaver, the_run_in, wait_for_run};
use quaver_host::tracefs::open_tracefs;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

fn comparison(runs: &Path) -> Child {
    let words = [
        "capture",
        "--compare",
        "--pattern",
        "2",
        "--packets",
        "10",
        "--rounds",
        "1",
        "--no-loss",
        "--quiet",
    ];
    quaver(runs, &words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Trace instances of the process `pid`.
fn instances_of(pid: u32) -> Vec<String> {
    let (root, _) = open_tracefs().unwrap();
    let own = format!("quaver-{pid}-");
    root.names("instances").unwrap().into_iter().filter(|name| name.starts_with(&own)).collect()
}

/// Ends a comparison by force while it looks into the kernel; its number, and the trace instances that it left.
fn killed(runs: &Path) -> (u32, Vec<String>) {
    let mut child = comparison(runs);
    wait_for_run(runs, &mut child);
    let (pid, end) = (child.id(), Instant::now() + Duration::from_secs(60));
    while instances_of(pid).len() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it ended of itself");
        assert!(Instant::now() < end, "it looks into the kernel");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    (pid, instances_of(pid))
}

#[test]
fn trace_instances_of_a_killed_comparison_are_gone_with_the_next() {
    if !privileged("trace_instances_of_a_killed_comparison_are_gone_with_the_next")
        || cfg!(not(target_arch = "x86_64"))
    {
        return;
    }
    let runs = tempfile::tempdir().unwrap();
    let (pid, left) = killed(runs.path());
    // Comparisons that run beside this one sweep as well, so fewer may be there by now.
    assert!(left.iter().all(|name| name.starts_with(&format!("quaver-{pid}-"))), "{left:?}");
    let next = tempfile::tempdir().unwrap();
    let child = comparison(next.path());
    let number = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(left_by(pid).is_empty() && left_by(number).is_empty());
}

/// A comparison of pattern 2 in 50 starts, as soon as its first start is stored.
fn past_its_first_start(runs: &Path) -> Child {
    let words = [
        "--pattern",
        "2",
        "--packets",
        "10",
        "--starts",
        "50",
        "--no-kernel",
        "--no-loss",
        "--json",
        "--quiet",
    ];
    let mut command = quaver(runs, &["capture", "--compare"]);
    let mut child = command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_run(runs, &mut child);
    let (run, end) = (the_run_in(runs), Instant::now() + Duration::from_secs(60));
    while recorded_starts(&run) == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it ended of itself");
        assert!(Instant::now() < end, "a start is stored");
        std::thread::yield_now();
    }
    child
}

/// Starts that the run has.
fn recorded_starts(run: &Path) -> usize {
    let manifest: Value = serde_json::from_slice(&std::fs::read(run.join("manifest.json")).unwrap()).unwrap();
    manifest["compare"]["patterns"][0]["user_blocks"].as_array().map_or(0, Vec::len)
}

/// Packets of each way to stamp, by `quaver analyze`.
fn packets_analysed(runs: &Path, run: &Path) -> u64 {
    let output = quaver(runs, &["analyze", "--json", run.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let counts = &json(&output)["patterns"][0]["user"];
    counts.as_array().unwrap().iter().map(|arm| arm["overhead"]["count"].as_u64().unwrap()).min().unwrap()
}

/// Right after a start is stored the process replaces itself, which takes some milliseconds. A signal that is not held
/// back in them ends the process.
#[test]
fn a_request_to_end_between_two_starts_is_heard_and_the_finished_ones_count() {
    if !privileged("a_request_to_end_between_two_starts_is_heard_and_the_finished_ones_count") {
        return;
    }
    for (later_ms, signal) in (0..).step_by(5).zip([Signal::INT, Signal::TERM].into_iter().cycle()).take(8) {
        let runs = tempfile::tempdir().unwrap();
        let child = past_its_first_start(runs.path());
        std::thread::sleep(Duration::from_millis(later_ms));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let number = child.id();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        let summary = json(&output);
        assert_eq!(summary["complete"], false);
        assert!(left_by(number).is_empty());
        let run = the_run_in(runs.path());
        assert!(recorded_starts(&run) < 50);
        assert!(packets_analysed(runs.path(), &run) >= 2, "each way has two blocks of a packet in a start");
    }
}

#[test]
fn a_killed_comparison_keeps_its_finished_starts() {
    if !privileged("a_killed_comparison_keeps_its_finished_starts") {
        return;
    }
    let runs = tempfile::tempdir().unwrap();
    let mut child = past_its_first_start(runs.path());
    let number = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    let run = the_run_in(runs.path());
    let starts = recorded_starts(&run) as u64;
    assert_eq!(packets_analysed(runs.path(), &run), 2 * starts, "two blocks of a packet in a start");
    // Nothing runs on that could write to it.
    assert!(!Path::new(&format!("/proc/{number}")).exists());
    assert_eq!(std::fs::read_dir(runs.path()).unwrap().count(), 1);
}
