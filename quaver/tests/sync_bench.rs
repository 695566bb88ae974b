//! `quaver sync bench`, and `quaver sync` on a program of others, run as a user runs them.

mod kernel_build;
#[path = "kernel_build/recorder.rs"]
mod recorder;

use kernel_build::kernel;
use quaver_store::run::RunDir;
use recorder::build_recorder;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn quaver(runs: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(words).env("QUAVER_RUNS", runs).env("NO_COLOR", "1");
    command.env_remove("QUAVER_LIBDIR").env_remove("LD_PRELOAD").stdin(Stdio::null());
    command
}

/// A bench of small programs; the recorder and the programs are there before.
fn bench(runs: &Path, words: &[&str]) -> Command {
    build_recorder();
    kernel("ocean");
    let mut command = quaver(runs, &["sync", "bench", "--quiet", "--threads", "2", "--size", "64"]);
    command.args(words);
    command
}

fn output(mut command: Command) -> Output {
    command.output().expect("the program runs")
}

fn only_run(runs: &Path) -> PathBuf {
    let found: Vec<PathBuf> = std::fs::read_dir(runs)
        .expect("runs were made")
        .map(|entry| entry.expect("it can be listed").path())
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

fn json(octets: &[u8]) -> Value {
    serde_json::from_slice(octets).expect("it is JSON")
}

fn read(path: &Path) -> Value {
    json(&std::fs::read(path).expect("it was written"))
}

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} in {value}"))
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("{pointer} in {value}"))
}

#[test]
fn programs_are_recorded_in_pairs_and_every_wait_is_accounted_for() {
    let runs = tempfile::tempdir().expect("a directory");
    let words = ["--only", "ocean,raytrace,vips", "--runs", "3", "--no-kernel", "--json"];
    let done = output(bench(runs.path(), &words));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let summary = quaver_testbed::printed::numbers(&done.stdout);
    assert_eq!(summary, RunDir::open(&only_run(runs.path())).unwrap().read_summary::<Value>().unwrap());
    assert_eq!(summary["complete"], true);
    assert_eq!(read(&only_run(runs.path()).join("manifest.json"))["complete"], true);
    let programs = list(&summary, "/programs");
    let names: Vec<&str> = programs.iter().filter_map(|one| one["program"].as_str()).collect();
    assert_eq!(names, ["ocean", "raytrace", "vips"]);
    for program in programs {
        assert_eq!(list(program, "/pairs_ns").len(), 3, "{program}");
        assert_eq!(number(program, "/cost/pairs"), 3);
        for run in list(program, "/runs") {
            assert!(number(run, "/events") > 0, "{program}");
            assert_eq!(number(run, "/lost"), 0, "{program}");
            // Each wait was ended by somebody who was recorded.
            assert_eq!(number(run, "/matched"), number(run, "/wake_ups"), "{program}");
            // Of vips there is a writer besides, and the caller waits; of the others the caller is one of the threads.
            let threads = if program["program"] == "vips" { 4 } else { 2 };
            assert_eq!(number(run, "/threads"), threads, "{program}");
            let classes: u64 = list(run, "/classes_ns").iter().filter_map(Value::as_u64).sum();
            assert_eq!(classes, number(run, "/late/total_ns"), "{program}");
        }
        assert!(program["sync_share"].is_null(), "nobody looked at the kernel: {program}");
    }
    assert!(summary["blind"].as_str().is_some_and(|reason| reason.contains("--no-kernel")), "{summary}");
}

#[test]
fn the_page_has_the_papers_figures_beside_ours() {
    let runs = tempfile::tempdir().expect("a directory");
    let done = output(bench(runs.path(), &["--only", "ocean,x264", "--runs", "1", "--no-kernel", "--keep"]));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let page = String::from_utf8(done.stdout).expect("text");
    for words in
        ["2 threads on", "table 6", "12.51", "35.61", "table 7", "0.52", "table 8", "-0.61", "95 % CI"]
    {
        assert!(page.contains(words), "{words} in {page}");
    }
    let recordings = only_run(runs.path()).join("recordings");
    assert!(recordings.join("ocean-0").is_dir() && recordings.join("x264-0").is_dir());
    let run = only_run(runs.path());
    let again = output(quaver(runs.path(), &["analyze", run.to_str().expect("a plain path")]));
    assert_eq!(String::from_utf8_lossy(&again.stdout), page);
}

/// Programs of one's own stand in the same tables, with nothing of the paper beside them, and the page draws what was measured.
#[test]
fn programs_of_ones_own_are_measured_likewise() {
    let runs = tempfile::tempdir().expect("a directory");
    let ocean = kernel("ocean");
    let command = format!("{} -p2 -n64; echo many words", ocean.display());
    let words =
        ["--command", &command, "--command", "exit 0", "--only", "vips", "--runs", "3", "--no-kernel"];
    let done = output(bench(runs.path(), &words));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let page = String::from_utf8(done.stdout).expect("text");
    assert!(page.contains("Your own programs") && !page.contains("many words"), "{page}");
    let run = only_run(runs.path());
    let summary = read(&run.join("summary.json"));
    let programs = list(&summary, "/programs");
    let suites: Vec<&str> = programs.iter().filter_map(|one| one["suite"].as_str()).collect();
    assert_eq!(suites, ["parsec", "own", "own"]);
    assert_eq!(programs[1]["program"], command.as_str());
    assert!(number(&programs[1], "/runs/0/wake_ups") > 0, "{}", programs[1]);
    assert_eq!(number(&programs[2], "/runs/0/wake_ups"), 0, "a shell that ends");
    for program in programs {
        let sizes: u64 = list(program, "/distribution").iter().map(|bin| number(bin, "/count")).sum();
        let late: u64 = list(program, "/runs").iter().map(|run| number(run, "/late/count")).sum();
        assert_eq!(sizes, late, "{program}");
    }
    let report = std::fs::read_to_string(run.join("report.html")).expect("it was drawn");
    assert!(report.contains("figure 9") && report.contains("table 7") && !report.contains("<script src"));
    let again = output(quaver(runs.path(), &["report", run.to_str().expect("a plain path"), "-o", "-"]));
    assert_eq!(String::from_utf8_lossy(&again.stdout), report);
    let failing = output(bench(runs.path(), &["--command", "exit 3", "--runs", "1", "--no-kernel"]));
    assert_eq!(failing.status.code(), Some(6), "{}", String::from_utf8_lossy(&failing.stderr));
    assert!(String::from_utf8_lossy(&failing.stderr).contains("exit 3 failed"), "{failing:?}");
}

#[test]
fn what_cannot_be_run_is_told() {
    let runs = tempfile::tempdir().expect("a directory");
    let listed = output(quaver(runs.path(), &["sync", "bench", "--list"]));
    assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count(), 18, "17 programs and a heading");
    let unknown = output(bench(runs.path(), &["--only", "doom"]));
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("streamcluster"));
    let nowhere = output(bench(runs.path(), &["--kernels", "/nowhere"]));
    assert_eq!(nowhere.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("make build"));
    assert_eq!(std::fs::read_dir(runs.path()).expect("it is there").count(), 0, "nothing is left");
}

#[test]
fn an_interrupted_bench_keeps_what_was_measured() {
    let runs = tempfile::tempdir().expect("a directory");
    let mut command =
        bench(runs.path(), &["--only", "ocean", "--runs", "1000", "--no-kernel", "--keep", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // The second pair has begun when its recording's directory is there, so that the first is whole.
    let second = loop {
        let begun = std::fs::read_dir(runs.path()).expect("it is there").find_map(|entry| {
            let path = entry.expect("it can be listed").path().join("recordings/ocean-1");
            path.is_dir().then_some(path)
        });
        match begun {
            Some(path) => break path,
            None => {
                assert!(
                    child.try_wait().expect("it can be asked").is_none(),
                    "it ended before it was asked to"
                );
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    };
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let done = child.wait_with_output().expect("it ends");
    assert_eq!(done.status.code(), Some(130), "{}", String::from_utf8_lossy(&done.stderr));
    let summary = json(&done.stdout);
    let pairs = list(&summary, "/programs/0/pairs_ns").len();
    assert!((1..1000).contains(&pairs), "{pairs} pairs");
    assert_eq!(list(&summary, "/programs/0/runs").len(), pairs);
    assert_eq!(summary["complete"], false);
    assert!(second.is_dir());
}

/// A compressor with threads of its own, which knows nothing of us: what it writes is the same byte for byte, and of its waits
/// none is unaccounted for.
#[test]
fn xz_compresses_alike_when_recorded() {
    build_recorder();
    let place = tempfile::tempdir().expect("a directory");
    let input = place.path().join("input");
    // Twenty-four blocks of text that is neither all alike nor all different.
    let mut state = 1_u64;
    let text: String = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:x} ", state >> 52)
    })
    .take(400_000)
    .collect();
    std::fs::write(&input, text).expect("it can be written");
    let input = input.to_str().expect("a plain path");
    let xz = ["xz", "--format=xz", "-0", "-T3", "--block-size=64KiB", "--stdout", input];

    let plain = Command::new(xz[0]).args(&xz[1..]).output().expect("xz, which `make setup` installs");
    assert!(plain.status.success(), "{}", String::from_utf8_lossy(&plain.stderr));
    let runs = place.path().join("runs");
    let mut command = quaver(&runs, &["sync", "--quiet", "--no-kernel", "--"]);
    command.args(xz);
    let recorded = output(command);
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    assert!(recorded.stdout == plain.stdout, "{} and {} bytes", recorded.stdout.len(), plain.stdout.len());

    let summary = read(&only_run(&runs).join("summary.json"));
    let count = |pointer| number(&summary, pointer);
    assert_eq!(count("/results/counts/threads"), 4, "three of xz's and its first");
    assert_eq!(count("/results/counts/lost_records"), 0);
    assert_eq!(count("/results/counts/entries_alone"), 0);
    let (wake_ups, matched) = (count("/results/coverage/wake_ups"), count("/results/coverage/matched"));
    assert!(wake_ups > 0, "{summary}");
    assert_eq!(
        matched + count("/results/coverage/without_waker") + count("/results/coverage/overflowed"),
        wake_ups
    );
    assert_eq!(matched, wake_ups, "each wait of xz is ended by a signal or an unlock of its own: {summary}");
}
