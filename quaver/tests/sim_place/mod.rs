//! The program as a user runs it in a place of its own, and what it leaves there.

use crate::simulator;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

pub(crate) fn quaver(place: &Path, args: &[&str]) -> Command {
    simulator::build_simulator();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(args).current_dir(place).env_remove("NO_COLOR").env_remove("QUAVER_RUNS");
    command.stdin(Stdio::null()).env("COLUMNS", "100");
    command
}

pub(crate) fn run(place: &Path, args: &[&str]) -> Output {
    quaver(place, args).output().expect("the program was built for this test")
}

pub(crate) fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

#[track_caller]
pub(crate) fn expect(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// The only run below `runs` in this place, as a path from there.
#[track_caller]
pub(crate) fn only_run(place: &Path) -> String {
    let runs: Vec<_> =
        fs::read_dir(place.join("runs")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    format!("runs/{}", runs[0].display())
}
