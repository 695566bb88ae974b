//! `quaver capture --compare` from outside, with a stream of its own and with one from another host.

mod far;
#[path = "../far_server/mod.rs"]
mod far_server;
mod here;
mod left;

use quaver_testbed::privileged::privileged;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

fn quaver(runs: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(words).env("QUAVER_RUNS", runs);
    command
}

fn the_run_in(runs: &Path) -> PathBuf {
    let mut found = std::fs::read_dir(runs).expect("runs were made").map(|entry| entry.unwrap().path());
    let run = found.next().expect("a run was made");
    assert!(found.next().is_none(), "one run only");
    run
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Interfaces and trace instances of the process `pid` that are there now.
fn left_by(pid: u32) -> Vec<String> {
    let mut left = Vec::new();
    let links = std::fs::read_to_string("/proc/net/dev").expect("interfaces are listed");
    left.extend(links.lines().filter(|line| line.contains(&format!("quav{pid}"))).map(str::to_owned));
    let (root, _) = quaver_host::tracefs::open_tracefs().expect("tracefs is there");
    let own = format!("quaver-{pid}-");
    left.extend(root.names("instances").unwrap().into_iter().filter(|name| name.starts_with(&own)));
    left
}

/// Waits until the child's run has a manifest, so that it measures or is about to.
fn wait_for_run(runs: &Path, child: &mut Child) {
    let start = Instant::now();
    let begun = || {
        let mut entries = std::fs::read_dir(runs).into_iter().flatten().flatten();
        entries.any(|entry| entry.path().join("sends.seg").exists())
    };
    while !begun() {
        assert!(child.try_wait().unwrap().is_none(), "it ended of itself");
        assert!(start.elapsed() < Duration::from_secs(60), "no run was begun");
        std::thread::yield_now();
    }
}
