//! `quaver migrate`, and runs that are kept here as programs of before left them. pyarrow, which `scripts/setup.sh test` installs,
//! makes old tables and reads new ones.

#[path = "../simulator/mod.rs"]
mod simulator;

use quaver_testbed::printed::{apart, numbers};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Runs of earlier programs, without names and addresses.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/migrate/kept");

fn quaver(place: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(words).current_dir(place).env("QUAVER_RUNS", place.join("runs")).stdin(Stdio::null());
    command.output().expect("the program was built")
}

#[track_caller]
fn ends(output: Output, status: i32) -> Output {
    assert_eq!(output.status.code(), Some(status), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn tables(what: &str, run: &Path) -> Vec<u8> {
    let script = Path::new(ROOT).join("scripts/interop/python-venv.sh");
    let place = ends(Command::new(script).arg("--where").output().expect("it starts"), 0);
    let place = String::from_utf8(place.stdout).expect("text");
    let mut python = Command::new(format!("{}/bin/python", place.trim()));
    python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/migrate/tables.py")).arg(what).arg(run);
    ends(python.output().expect("scripts/setup.sh test puts it there"), 0).stdout
}

fn told(run: &Path) -> Value {
    serde_json::from_slice(&tables("tell", run)).expect("JSON")
}

fn files(run: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let all = fs::read_dir(run).expect("a run").map(|entry| entry.expect("a file").path());
    all.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(&path).expect("readable"))).collect()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("it was written")).expect("JSON")
}

/// A chase without privilege.
fn chase(place: &Path) -> PathBuf {
    let words = "chase --for 300ms --period 1ms --pace sleep --receive block --lab loopback --tier user --quiet --no-cost --json";
    let made = ends(quaver(place, &words.split(' ').collect::<Vec<_>>()), 0);
    apart(&made.stdout).0["run"].as_str().expect("a run").into()
}

#[test]
fn an_earlier_run_gets_the_tables_of_today_and_stays_as_it_was() {
    let place = tempfile::tempdir().expect("a directory");
    let run = chase(place.path());
    let (fresh, received) = (told(&run), json(&run.join("summary.json"))["losses"]["received"].clone());
    tables("age", &run);
    fs::remove_file(run.join("late.parquet")).expect("earlier programs wrote none");
    let before = files(&run);
    assert_ne!(told(&run)["samples.parquet"]["columns"], fresh["samples.parquet"]["columns"]);

    let raw = place.path().join("runs/cut-short");
    fs::create_dir(&raw).expect("a directory");
    fs::copy(run.join("manifest.json"), raw.join("manifest.json")).expect("a copy");
    fs::write(raw.join("packets.seg"), b"").expect("it can be written");
    let path = run.to_str().expect("letters");
    let words = ["migrate", raw.to_str().expect("letters"), path, "-o", "today", "--json"];
    let done = ends(quaver(place.path(), &words), 5);
    assert!(String::from_utf8_lossy(&done.stderr).contains("packets.seg is raw"), "{done:?}");
    let (result, found) = apart(&done.stdout);
    assert_eq!(result["verdict"], "1 of 2 runs were copied in the formats of today.");
    assert!(!place.path().join("today/cut-short").exists() && files(&run) == before);

    let copy = place.path().join("today").join(run.file_name().expect("a name"));
    let now = told(&copy);
    for table in ["samples.parquet", "events.parquet", "late.parquet"] {
        assert_eq!(now[table]["columns"], fresh[table]["columns"], "{table}");
        let keys = now[table]["keys"].as_object().expect("keys");
        assert_eq!(keys["quaver.run"], run.file_name().expect("a name").to_string_lossy().as_ref());
        assert!(
            keys.contains_key("quaver.host") && keys.contains_key("quaver.clock_error_bound_ns"),
            "{keys:?}"
        );
    }
    assert_eq!(now["samples.parquet"]["rows"], fresh["samples.parquet"]["rows"]);
    let samples = found["runs"][0]["tables"].as_array().expect("a list").iter();
    let samples = samples.clone().find(|table| table["file"] == "samples.parquet").expect("it was restated");
    assert_eq!(samples["stamps_now_missing"], 2, "those that were clamped: {samples}");
    assert!(samples["new_columns"].as_array().expect("a list").contains(&"rtp_head".into()), "{samples}");
    let again = ends(quaver(place.path(), &["analyze", copy.to_str().expect("letters"), "--json"]), 0);
    assert_eq!(numbers(&again.stdout)["losses"]["received"], received);
    assert_eq!(numbers(&again.stdout), json(&copy.join("summary.json")), "it was analysed by today's rules");

    let twice = ends(quaver(place.path(), &["migrate", path, "-o", "today"]), 6);
    assert!(String::from_utf8_lossy(&twice.stderr).contains("it exists"), "{twice:?}");
}

/// What each kept run holds, as its program said: a count of its summary.
const COUNTS: [(&str, &str); 14] = [
    ("capture-compare", "/patterns/0/checkpoints/count"),
    ("chase", "/losses/received"),
    ("cure", "/remedies/0/effect/difference"),
    ("noise", "/noise_ns"),
    ("probe", "/up/packets/received"),
    ("probe-mesh", "/pairs/0/sent"),
    ("sim", "/chip/duration_fs"),
    ("sim-paper", "/programs/0/arms/0/duration_us"),
    ("sim-sweep", "/points/1/figures/duration_fs"),
    ("study", "/ranking/0/ranked/difference"),
    ("sync", "/results/late/total_ns"),
    ("sync-bench", "/programs/0/pairs_ns/1/1"),
    ("watch", "/losses/received"),
    ("watch-wait", "/wait_ns"),
];

#[test]
fn runs_of_earlier_programs_are_read_and_migrated() {
    simulator::build_simulator();
    let place = tempfile::tempdir().expect("a directory");
    let mut kept: Vec<_> =
        fs::read_dir(KEPT).expect("they are committed").map(|entry| entry.expect("a run").path()).collect();
    kept.sort();
    assert!(kept.len() >= COUNTS.len());
    for run in kept {
        let name = run.file_name().expect("a name").to_string_lossy().into_owned();
        let here = place.path().join(&name);
        quaver_testbed::kept::copy(&run, &here);
        let path = here.to_str().expect("letters");
        let read = numbers(&ends(quaver(place.path(), &["analyze", path, "--json"]), 0).stdout);
        let kind = name.split("-20").next().expect("a kind, and a date");
        let (_, count) = COUNTS.iter().find(|(known, _)| *known == kind).expect("its kind is known");
        let stored = json(&run.join("summary.json"));
        assert_eq!(read.pointer(count), stored.pointer(count), "{name}");
        assert!(read.pointer(count).is_some_and(Value::is_number), "{name}");
        ends(quaver(place.path(), &["migrate", path, "-o", "today"]), 0);
        let (before, now) = (told(&here), told(&place.path().join("today").join(&name)));
        for (table, facts) in before.as_object().expect("tables") {
            assert_eq!(now[table]["rows"], facts["rows"], "{name}: {table}");
        }
        for (table, column) in [("events.parquet", "detail_name"), ("samples.parquet", "flag_names")] {
            let has = |told: &Value| told[table]["columns"].to_string().contains(column);
            if name.ends_with("2026-11-25") && (kind == "probe") == (column == "flag_names") {
                assert!(has(&now) && !has(&before), "{name}: {column} of {table}");
            }
        }
    }
}

/// What such a run says is true of nothing: a packet that was not copied is no packet that was lost.
#[test]
fn a_run_that_was_copied_in_part_is_refused_and_stays_as_it_was() {
    for (name, table) in [
        ("chase-2026-11-25", "samples.parquet"),
        ("chase-2026-11-25", "events.parquet"),
        ("watch-2026-11-27", "samples.parquet"),
        ("noise-2026-11-25", "gaps.parquet"),
        ("noise-2026-11-25", "events.parquet"),
        ("watch-wait-2026-11-27", "events.parquet"),
        ("probe-2026-11-25", "samples.parquet"),
        ("probe-mesh-2026-11-27/tests/probe-20261127T035249Z-2caa", "samples.parquet"),
    ] {
        let place = tempfile::tempdir().expect("a directory");
        let run = place.path().join("part");
        fs::create_dir(&run).expect("a directory");
        for (path, octets) in files(&Path::new(KEPT).join(name)) {
            fs::write(run.join(path.file_name().expect("a file")), octets).expect("a copy");
        }
        fs::remove_file(run.join(table)).expect("it is kept");
        let before = files(&run);
        for verb in ["analyze", "report"] {
            let said = ends(quaver(place.path(), &[verb, "part"]), 5).stderr;
            let said = String::from_utf8_lossy(&said);
            let words = format!(
                "open part/{table}: it is missing, so nothing tells what was measured; copy the run whole"
            );
            assert!(said.contains(&words), "{name}: {said}");
        }
        assert!(files(&run) == before, "{name} was changed");
    }
}
