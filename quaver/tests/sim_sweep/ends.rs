//! Sweeps that end before they are whole: killed, interrupted, or for a point that cannot be.

use super::*;
use rustix::process::{Pid, Signal, kill_process};
use sim_made::{spinning, stuck};
use std::process::Child;
use std::time::{Duration, Instant};

/// Waits until it holds.
#[track_caller]
pub(super) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(120), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A child that does not outlive the test.
pub(super) struct Running(pub(super) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn start(place: &Path, args: &[&str]) -> Running {
    Running(quaver(place, args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

#[test]
fn a_trace_that_was_cut_short_is_named_on_the_page_of_its_sweep() {
    let place = slow(2, 300);
    let path = place.path().join("spin.qtrace");
    let words = "the trace spin was cut short: its points are of a part of the program";
    let warnings = |place: &Path| {
        expect(&sweep(place, &["run", "slow.toml", "-q"]), 0);
        let summary = json(&place.join("runs/sweep-slow/summary.json"));
        summary["warnings"].as_array().unwrap().iter().any(|warning| warning == words)
    };
    assert!(!warnings(place.path()));
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    fs::remove_dir_all(place.path().join("runs")).unwrap();
    assert!(warnings(place.path()));
}

#[test]
fn a_sweep_that_was_killed_goes_on_and_repeats_no_point_that_was_done() {
    const SLOW: usize = 8;
    let place = slow(SLOW, 300_000);
    let args = ["sim", "sweep", "run", "slow.toml", "-q", "-j", "2"];
    let directory = place.path().join("runs/sweep-slow");
    let mut child = start(place.path(), &args);
    wait_until("two points", || names(&directory.join("points")).len() >= 2);
    kill_process(Pid::from_child(&child.0), Signal::KILL).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), None);
    let done = names(&directory.join("points"));
    assert!(done.len() < SLOW, "it was killed in the middle: {done:?}");
    let said = expect(&sweep(place.path(), &["run", "slow.toml", "-j", "2"]), 0);
    assert!(said.contains(&format!("{} of {SLOW} points were done before", done.len())), "{said}");
    for (point, lines) in logged(&directory) {
        let begun = lines.iter().filter(|what| *what == "begins").count();
        let ended = lines.iter().filter(|what| *what == "ends").count();
        if done.contains(&point) {
            assert_eq!(begun, 1, "{point} was done already: {lines:?}");
        } else {
            assert_eq!(ended, 1, "{point}: {lines:?}");
        }
    }
    expect(&sweep(place.path(), &["run", "slow.toml", "-q", "-o", "whole"]), 0);
    same_results(&directory, &place.path().join("whole/sweep-slow"));
}

#[test]
fn an_interrupted_sweep_keeps_its_points_and_says_how_to_go_on() {
    let place = slow(8, 300_000);
    let args = ["sim", "sweep", "run", "slow.toml", "-j", "2"];
    let directory = place.path().join("runs/sweep-slow");
    let child = quaver(place.path(), &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&child);
    wait_until("a point", || !names(&directory.join("points")).is_empty());
    kill_process(pid, Signal::INT).unwrap();
    let said = expect(&child.wait_with_output().unwrap(), 130);
    let done = names(&directory.join("points")).len();
    assert!(said.contains(&format!("{done} of 8 points of the sweep are kept in runs/sweep-slow")), "{said}");
    assert!(said.contains("the same command goes on with the rest"), "{said}");
    let status = sweep(place.path(), &["status", "slow.toml", "--json"]);
    expect(&status, 0);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!((status["points"].as_u64(), status["done"].as_u64()), (Some(8), Some(done as u64)));
    assert!(status["left_cpu_s"].as_f64().unwrap() > 0.0 && status["gathered"] == false);
    let page = expect(&sweep(place.path(), &["status", "runs/sweep-slow"]), 0);
    assert!(page.contains("of 8 points") && page.contains("next: quaver sim sweep run"), "{page}");
    expect(&sweep(place.path(), &["run", "runs/sweep-slow", "-q"]), 0);
    let page = expect(&sweep(place.path(), &["status", "slow.toml"]), 0);
    assert!(page.contains("8 of 8 points (100 %)") && page.contains("gathered"), "{page}");
}

#[test]
fn two_processes_do_not_do_the_same_part() {
    let place = slow(4, 300_000);
    let directory = place.path().join("runs/sweep-slow");
    let _child = start(place.path(), &["sim", "sweep", "run", "slow.toml", "-q", "-j", "1"]);
    wait_until("the first to begin", || directory.join("log").is_dir() && !logged(&directory).is_empty());
    let said = expect(&sweep(place.path(), &["run", "slow.toml", "-q"]), 6);
    assert!(said.contains("another process does part 1/1 of this sweep"), "{said}");
    let plan = fs::read_to_string(place.path().join("slow.toml")).unwrap();
    fs::write(place.path().join("slow.toml"), plan.replace("to = 4", "to = 5")).unwrap();
    let said = expect(&sweep(place.path(), &["run", "slow.toml", "-q"]), 6);
    assert!(said.contains("the plan was changed, and a process is doing points"), "{said}");
}

#[test]
fn a_point_that_cannot_be_simulated_does_not_keep_others_from_it() {
    let place = grid();
    stuck(&place.path().join("stuck.qtrace"));
    fs::write(place.path().join("mixed.toml"), "[sweep]\ntraces = ['stuck.qtrace', 'baton.qtrace']\n")
        .unwrap();
    let said = expect(&sweep(place.path(), &["run", "mixed.toml"]), 5);
    assert!(said.contains("stuck cannot be simulated: the replay is stuck at"), "{said}");
    let directory = place.path().join("runs/sweep-mixed");
    assert_eq!(names(&directory.join("points")).len(), 1);
    assert!(!directory.join("points.parquet").exists(), "it is not whole");
    let page = expect(&sweep(place.path(), &["status", "mixed.toml"]), 0);
    assert!(page.contains("could not be simulated: stuck"), "{page}");
    expect(&sweep(place.path(), &["merge", "runs/sweep-mixed", "--partial"]), 0);
    // A trace that is another one since is not mixed with what was done.
    spinning(&place.path().join("stuck.qtrace"), 50);
    let said = expect(&sweep(place.path(), &["run", "runs/sweep-mixed", "-q"]), 5);
    assert!(said.contains("stuck.qtrace is another file than when the sweep was begun"), "{said}");
    expect(&sweep(place.path(), &["run", "mixed.toml", "-q"]), 0);
}
