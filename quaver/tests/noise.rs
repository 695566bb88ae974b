//! `quaver noise`, run as a user runs it.

use quaver_store::run::RunDir;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn quaver(runs: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(words).env("QUAVER_RUNS", runs).env("NO_COLOR", "1");
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the program runs")
}

/// The only run in a directory.
fn only_run(runs: &Path) -> PathBuf {
    let found: Vec<PathBuf> = std::fs::read_dir(runs)
        .expect("runs were made")
        .map(|entry| entry.expect("it can be listed").path())
        .collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("it was written")).expect("it is JSON")
}

fn number(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or_else(|| panic!("{pointer} in {value}"))
}

fn sum(items: &Value, field: &str) -> i64 {
    items.as_array().expect("a list").iter().map(|item| item[field].as_i64().expect("a number")).sum()
}

/// The noise is the sum of its causes and what is unexplained, and of its CPUs.
fn assert_conserved(summary: &Value) {
    let noise_ns = number(summary, "/noise_ns");
    assert_eq!(sum(&summary["causes"], "time_ns") + number(summary, "/unexplained/time_ns"), noise_ns);
    assert_eq!(sum(&summary["cpus"], "noise_ns"), noise_ns);
    let led = sum(&summary["causes"], "packets") + number(summary, "/unexplained/packets");
    assert_eq!(led, sum(&summary["cpus"], "gaps"));
}

#[test]
fn a_short_run_is_whole_and_its_noise_conserved() {
    let place = tempfile::tempdir().expect("a directory");
    let ended = output(&mut quaver(place.path(), &["noise", "--for", "300ms", "--json"]));
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let (result, summary) = quaver_testbed::printed::apart(&ended.stdout);
    let run = only_run(place.path());
    assert_eq!(RunDir::open(&run).unwrap().read_summary::<Value>().unwrap(), summary);
    let shown = &result["run"];
    assert!(shown.as_str().is_some_and(|path| path.ends_with(&run.display().to_string())), "{shown}");
    assert_eq!(summary["schema"], "quaver.noise/1");
    assert_conserved(&summary);
    assert!(number(&summary, "/cpus/0/runtime_ns") >= 300_000_000);
    assert!(number(&summary, "/cpus/0/turns") > 0);
    let shortest_ns = number(&summary, "/cpus/0/shortest_turn_ns");
    assert!((0..1_000).contains(&shortest_ns), "{shortest_ns}");
    let mut names: Vec<String> = std::fs::read_dir(&run)
        .expect("it can be listed")
        .map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let whole =
        ["events.parquet", "gaps.parquet", "manifest.json", "names.json", "report.html", "summary.json"];
    assert_eq!(names, whole);
    let manifest = json(&run.join("manifest.json"));
    assert_eq!((&manifest["verb"], &manifest["complete"]), (&"noise".into(), &true.into()));
    let report = std::fs::read_to_string(run.join("report.html")).expect("it was written");
    assert!(report.contains("quaver noise") && report.ends_with("</html>\n"));

    let again = output(&mut quaver(place.path(), &["analyze", &run.to_string_lossy(), "--json"]));
    assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(
        quaver_testbed::printed::numbers(&again.stdout),
        summary,
        "the same run gives the same results"
    );
    let timeline = place.path().join("timeline");
    let target = timeline.to_string_lossy();
    let drawn =
        output(&mut quaver(place.path(), &["export", &run.to_string_lossy(), "--perfetto", "-o", &target]));
    assert_eq!(drawn.status.code(), Some(0), "{}", String::from_utf8_lossy(&drawn.stderr));
    assert!(std::fs::metadata(&timeline).expect("it was written").len() > 0);
}

#[test]
fn the_dummy_program_stands_beside_the_papers() {
    let place = tempfile::tempdir().expect("a directory");
    let mut command = quaver(place.path(), &["noise", "--dummy", "--for", "300ms", "--tier", "user"]);
    let ended = output(&mut command);
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let page = String::from_utf8(ended.stdout).expect("text");
    assert!(page.contains("40,486 timestamps, one every 7.41 µs"), "{page}");
    assert!(page.contains("Compared with the paper") && page.contains("figure 5"), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
    let summary = json(&only_run(place.path()).join("summary.json"));
    assert_conserved(&summary);
    assert_eq!(number(&summary, "/dummy/timestamps"), 40_486);
    assert_eq!(number(&summary, "/dummy/delta_t/count"), 40_485);
    assert_eq!(number(&summary, "/dummy/paper/spikes"), 4);
    assert!(number(&summary, "/dummy/lateness/min_ns") >= 0);
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    let place = tempfile::tempdir().expect("a directory");
    let mut command = quaver(place.path(), &["noise", "--for", "10min"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let begin = Instant::now();
    // The manifest has its loops once everything is ready to go.
    loop {
        let ready = std::fs::read_dir(place.path()).into_iter().flatten().flatten().any(|entry| {
            std::fs::read_to_string(entry.path().join("manifest.json"))
                .is_ok_and(|text| text.contains("start_ns"))
        });
        if ready {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "no run was begun");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it still runs");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(String::from_utf8_lossy(&ended.stdout).contains("This run was cut short"));
    let run = only_run(place.path());
    let manifest = json(&run.join("manifest.json"));
    assert_eq!(manifest["complete"], false);
    assert!(manifest["interrupted"].as_str().is_some_and(|reason| reason.contains("user")), "{manifest}");
    let summary = json(&run.join("summary.json"));
    assert_eq!(summary["complete"], false);
    assert!(number(&summary, "/cpus/0/turns") > 0);
    assert_conserved(&summary);
    assert!(run.join("gaps.parquet").is_file() && run.join("report.html").is_file());
}

#[test]
fn what_cannot_be_done_is_said_with_its_status() {
    let place = tempfile::tempdir().expect("a directory");
    let code = |words: &[&str]| {
        let ended = output(&mut quaver(place.path(), words));
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    let (status, words) = code(&["noise", "--cpus", "1023"]);
    assert_eq!(status, Some(2), "{words}");
    assert!(words.contains("1023") && words.contains("taskset"), "{words}");
    let (status, words) = code(&["noise", "--dummy", "--for", "1h"]);
    assert_eq!(status, Some(2), "{words}");
    assert!(words.contains("shorten --for"), "{words}");
    assert_eq!(code(&["noise", "--period", "1us"]).0, Some(2), "--period is for --dummy");
    assert_eq!(std::fs::read_dir(place.path()).expect("it is there").count(), 0, "nothing was begun");
    let condition = "cpus.0.turns > 0";
    let words = ["noise", "--for", "100ms", "--tier", "user", "--quiet", "--fail-if", condition];
    let (status, words) = code(&words);
    assert_eq!(status, Some(1), "{words}");
    assert!(words.contains(condition), "{words}");
}
