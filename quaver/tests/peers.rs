//! Files of other tools beside our runs, as a user has them.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../instruments/peers/tests/data");

fn quaver(runs: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(words).current_dir(DATA).env("QUAVER_RUNS", runs).stdin(Stdio::null());
    command.output().expect("the program was built for this test")
}

#[track_caller]
fn words(output: &Output, code: i32) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{errors}");
    format!("{}{errors}", String::from_utf8_lossy(&output.stdout))
}

#[test]
fn files_are_analysed_judged_and_compared_by_their_quantities() {
    let place = tempfile::tempdir().expect("a directory");
    let root = place.path();
    let page = words(&quaver(root, &["analyze", "cyclictest.json"]), 0);
    assert!(page.contains("wake-up latency") && page.contains("beyond the last bin"), "{page}");
    let condition = ["analyze", "irtt.json", "--fail-if", "quantities.round_trip.p50_ns > 1us"];
    words(&quaver(root, &condition), 1);
    let unknown = ["analyze", "cyclictest.json", "--fail-if", "quantities.wake_up.p99_ns > 1us"];
    assert!(words(&quaver(root, &unknown), 2).contains("p99_ns"), "what is unknown is not judged");

    let compared = words(&quaver(root, &["compare", "--json", "irtt.json", "irtt-2.json"]), 0);
    let found: Value = serde_json::from_str(compared.trim()).expect("JSON");
    assert_eq!((found["kind"].as_str(), found["quantity"].as_str()), (Some("irtt"), Some("round_trip")));
    assert_eq!(found["figures"]["counts"]["sent"]["a"], 29.0);
    // flent's series and irtt's own file are the same quantity.
    let compared = words(&quaver(root, &["compare", "--json", "irtt.json", "ping.flent.gz"]), 0);
    let found: Value = serde_json::from_str(compared.trim()).expect("JSON");
    assert_eq!(found["kind"], "flent with irtt");
    assert_eq!(found["figures"], serde_json::json!({}), "counts of other tools may mean other things");
    let ids: Vec<&str> =
        found["stages"].as_array().expect("a list").iter().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!(ids, ["round_trip", "up", "down"]);
    // Histograms alone have no interval; several of them have.
    let (one, other) = ("cyclictest.json", "cyclictest-2.json");
    let compared = words(&quaver(root, &["compare", "--json", one, other]), 0);
    let found: Value = serde_json::from_str(compared.trim()).expect("JSON");
    assert_eq!((&found["verdict"], &found["p50"]["change_low"]), (&Value::Null, &Value::Null));
    assert!(found["p50"]["a"].as_f64() > Some(0.0) && found["p99"].is_null(), "p99 of A is unknown");
    let several = ["compare", "--json", one, "cyclictest-h.txt", "--", other];
    let found: Value = serde_json::from_str(words(&quaver(root, &several), 0).trim()).expect("JSON");
    assert!(found["p50"]["change_low"].is_f64(), "{found}");
    let twice = words(&quaver(root, &["compare", one, "--", other, other]), 2);
    assert!(twice.contains("cyclictest-2.json stands twice on one side"), "{twice}");

    let refused = words(&quaver(root, &["compare", "cyclictest.json", "sockperf.csv"]), 2);
    let sentence = "unlike quantities are not compared: cyclictest.json has wake-up latency; sockperf.csv has round-trip delay";
    assert!(refused.contains(sentence), "{refused}");
}

#[test]
fn a_damaged_file_ends_with_5_and_a_sentence() {
    let place = tempfile::tempdir().expect("a directory");
    for name in ["irtt.json", "ping.flent.gz", "sockperf.csv", "cyclictest-h.txt", "rtla-osnoise-hist.txt"] {
        let whole = std::fs::read(Path::new(DATA).join(name)).expect("committed");
        let cut = place.path().join(name);
        std::fs::write(&cut, &whole[..whole.len() / 2]).expect("written");
        let cut = cut.to_str().expect("a path");
        for verb in [&["analyze", cut][..], &["compare", cut, cut]] {
            let said = words(&quaver(place.path(), verb), 5);
            assert!(
                said.starts_with(&format!("quaver: read {cut}: it")) && said.lines().count() == 1,
                "{said}"
            );
        }
    }
}

#[test]
fn noise_stands_beside_osnoise_and_nothing_else() {
    let place = tempfile::tempdir().expect("a directory");
    let root = place.path();
    words(&quaver(root, &["noise", "--for", "200ms", "--tier", "user", "--json"]), 0);
    let found = words(&quaver(root, &["compare", "--json", "rtla-osnoise-top.txt", "last"]), 0);
    let found: Value = serde_json::from_str(found.trim()).expect("JSON");
    assert_eq!(
        (found["kind"].as_str(), found["quantity"].as_str()),
        (Some("noise with rtla osnoise"), Some("available"))
    );
    assert!((found["mean"]["a"].as_f64().expect("stated") - 0.9965).abs() < 1e-9);
    let said = words(&quaver(root, &["compare", "rtla-osnoise-hist.txt", "last"]), 0);
    assert!(said.contains("gaps") && said.contains("what else differs is unknown"), "{said}");
    assert!(words(&quaver(root, &["compare", "cyclictest.json", "last"]), 2).contains("unlike quantities"));
}
