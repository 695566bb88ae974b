//! Runs compared, named and removed, as a user does it. The runs are written here, so that what differs is known.

use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A run with a manifest and a summary, and nothing else.
fn run(root: &Path, started_ns: i64, verb: &str, kernel: &str) -> RunDir {
    let run = RunDir::create(root, verb).expect("made");
    let asked = json!({"command": "quaver"});
    let mut manifest =
        Manifest::begin("0.1.0", verb, asked, json!({"kernel": {"release": kernel}}), started_ns);
    manifest.end(started_ns + 1_000_000_000, None);
    run.write_manifest(&manifest).expect("written");
    run.write_summary(&json!({"lateness": {"distribution": {"p99_ns": started_ns}}})).expect("written");
    run
}

fn quaver(root: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(words).env("QUAVER_RUNS", root).stdin(Stdio::null());
    command.output().expect("the program was built for this test")
}

#[track_caller]
fn words(output: &Output, code: i32) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{errors}");
    format!("{}{errors}", String::from_utf8_lossy(&output.stdout))
}

#[test]
fn runs_are_listed_tagged_and_pruned() {
    let place = tempfile::tempdir().expect("a directory");
    let root = place.path();
    let made: Vec<RunDir> =
        (1..=3).map(|second| run(root, second * 1_000_000_000, "chase", "6.18")).collect();
    run(root, 500, "noise", "6.18");
    let listed = |filter: &[&str]| -> Vec<String> {
        let output = quaver(root, &[&["runs", "--json"], filter].concat());
        let rows: Value = serde_json::from_str(&words(&output, 0)).expect("JSON");
        let names = rows["runs"].as_array().expect("a list").iter();
        names.map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
    };
    let slow = ["--where", "verb = chase and p99_ns >= 2s"];
    assert_eq!(listed(&slow), [made[2].name(), made[1].name()], "the newest first");
    assert_eq!(listed(&[]).len(), 4);
    words(&quaver(root, &["runs", "tag", "last~2", "before"]), 0);
    assert!(words(&quaver(root, &["runs", "show", "before"]), 0).contains(&made[0].name()));
    assert_eq!(listed(&["--where", "tag = before"]), [made[0].name()]);
    words(&quaver(root, &["runs", "tag", "last", "last"]), 2);

    // Nobody is asked, so nothing goes; a tagged run stays although it is old.
    words(&quaver(root, &["runs", "prune", "--keep", "2"]), 2);
    assert_eq!(listed(&[]).len(), 4);
    words(&quaver(root, &["runs", "prune", "--keep", "2", "--yes"]), 0);
    assert_eq!(listed(&[]), [made[2].name(), made[0].name()]);
    words(&quaver(root, &["runs", "rm", "before", "--yes"]), 0);
    assert!(words(&quaver(root, &["report", "before"]), 5).contains("neither a path nor the name"));
    words(&quaver(root, &["runs", "rm", root.to_str().expect("a path"), "--yes"]), 5);

    words(&quaver(root, &["runs", "html"]), 0);
    assert!(root.join("index.html").is_file());
}

/// A run with samples.
fn recorded(root: &Path) -> Output {
    quaver(
        root,
        &[
            "chase",
            "--for",
            "300ms",
            "--period",
            "1ms",
            "--pace",
            "sleep",
            "--receive",
            "block",
            "--lab",
            "loopback",
            "--tier",
            "user",
            "--quiet",
            "--no-cost",
        ],
    )
}

#[test]
fn recorded_runs_are_compared() {
    let place = tempfile::tempdir().expect("a directory");
    let root = place.path();
    for _ in 0..4 {
        words(&recorded(root), 0);
    }
    let output = quaver(root, &["compare", "--json", "last~3", "last~2", "--", "last~1", "last"]);
    let found: Value = serde_json::from_str(&words(&output, 0)).expect("JSON");
    assert_eq!((found["kind"].as_str(), found["quantity"].as_str()), (Some("chase"), Some("delay")));
    let p50 = &found["p50"];
    let of = |key: &str| p50[key].as_f64().expect("a number");
    assert!(of("change_low") <= of("change") && of("change") <= of("change_high"), "{p50}");
    assert!((of("b") / of("a") - 1.0 - of("change")).abs() < 1e-9);
    assert_eq!(found["p99_999"], Value::Null, "300 packets have no such percentile");
    let sent = |name: &str| {
        let run = quaver_store::listing::named(Path::new(name), root).expect("just made");
        let summary: Value = run.read_summary().expect("written");
        summary["losses"]["sent"].as_f64().expect("a number")
    };
    let both = &found["figures"]["losses"]["sent"];
    for (side, [x, y]) in [("a", ["last~3", "last~2"]), ("b", ["last~1", "last"])] {
        let mean = (sent(x) * sent(y)).sqrt();
        assert!(mean > 0.0 && (both[side].as_f64().expect("a number") - mean).abs() < 1e-6, "{both}: {mean}");
    }

    // A run is no different from itself, and says that it stands on both sides.
    let page = root.join("page.html");
    let same =
        ["compare", "--html", page.to_str().expect("a path"), "last", "last", "--fail-if", "p50.change != 0"];
    let text = words(&quaver(root, &same), 0);
    assert!(text.contains("stands on both sides") && text.contains("one run a side"), "{text}");
    assert!(page.is_file());
    let failing = ["compare", "--markdown", "last", "last", "--fail-if", "p50.change < 10 %"];
    assert!(words(&quaver(root, &failing), 1).contains("| p50 of schedule to application |"));
    words(&quaver(root, &["compare", "last", "last", "--fail-if", "p101.change > 0"]), 2);
    words(&quaver(root, &["compare", "last"]), 2);

    run(root, 1, "noise", "6.18");
    assert!(words(&quaver(root, &["compare", "last", "last~4"]), 2).contains("runs of one kind"));
}

#[test]
fn an_empty_variable_of_the_environment_counts_as_none() {
    let place = tempfile::tempdir().expect("a directory");
    let made = run(&place.path().join("runs"), 500, "noise", "6.18");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.arg("runs").current_dir(&place).env("QUAVER_RUNS", "").stdin(Stdio::null());
    let said = words(&command.output().expect("the program was built for this test"), 0);
    assert!(said.contains(&made.name()), "{said}");
}
