//! `quaver capture --compare` from outside: every way to stamp has its packets, a run is analysed again to the same
//! bytes, and nothing is left behind, in whatever way it ends.

use super::{json, left_by, privileged, quaver, the_run_in, wait_for_run};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;

/// Ways to stamp, in the order of the results.
const WAYS: [&str; 5] = ["inline-clock", "inline-cycles", "threaded", "threaded:2", "batch"];

#[test]
fn every_way_to_stamp_has_its_packets_and_a_run_is_analysed_again() {
    if !privileged("every_way_to_stamp_has_its_packets_and_a_run_is_analysed_again") {
        return;
    }
    let runs = tempfile::tempdir().unwrap();
    let words = [
        "capture",
        "--compare",
        "--pattern",
        "2",
        "--packets",
        "40",
        "--rounds",
        "4",
        "--quick",
        "--seed",
        "7",
        "--json",
        "--quiet",
    ];
    let child = quaver(runs.path(), &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(left_by(pid).is_empty(), "{:?}", left_by(pid));
    let summary = json(&output);
    let pattern = &summary["patterns"][0];
    assert_eq!((&summary["complete"], &pattern["name"]), (&true.into(), &"2".into()));
    assert_eq!((&pattern["frame_bytes"], &pattern["period_ns"]), (&1368.into(), &1_367_992.0.into()));
    assert_eq!(pattern["checkpoints"]["count"], 40);
    let user = pattern["user"].as_array().unwrap();
    let names: Vec<&str> = user.iter().map(|arm| arm["name"].as_str().unwrap()).collect();
    assert_eq!(names, WAYS);
    for arm in user {
        assert_eq!(arm["overhead"]["count"], 40, "{arm}");
        assert_eq!(arm["ring_full"], 0);
        assert!(arm["mean_interval"]["low"].is_number(), "five starts make an interval");
    }
    assert_eq!(pattern["ratios"].as_array().unwrap().len(), 4);
    let same: Vec<&str> =
        pattern["same"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(same.len(), 6, "every way against itself, the checkpoints too: {same:?}");
    if cfg!(target_arch = "x86_64") {
        let between = pattern["kernel"]["between"].as_array().unwrap();
        let counts: Vec<u64> = between.iter().map(|arm| arm[1]["count"].as_u64().unwrap()).collect();
        // Of BPF's three arms, the last where the kernel lets programs read the counter.
        let absent = pattern["ways"].as_array().unwrap().iter().filter(|way| way["variance_ns2"].is_null());
        let absent: Vec<&str> = absent.map(|way| way["arm"].as_str().unwrap()).collect();
        let arms = if absent.contains(&"bpf-cycles") { 6 } else { 7 };
        assert!(counts.len() == arms && counts.iter().all(|count| *count >= 400), "{counts:?}");
        // What was sent past the kernel's checkpoints is in the sum, beside the six arms of user space.
        assert!(pattern["sent"].as_u64().unwrap() >= counts.iter().sum::<u64>() + 6 * 40, "{counts:?}");
        // Nobody loads the module on a host that tests run on.
        assert!(absent.ends_with(&["module-clock", "module-raw"]), "{absent:?}");
        let why = pattern["ways"][6]["absent"].as_str().unwrap();
        assert!(pattern["module"].is_null() && why.contains("quaver_stamp is not loaded"), "{why}");
    }
    let totals = summary["loss"]["totals"].as_array().unwrap();
    assert_eq!(totals.len(), 8, "four pipelines, two placements");
    for total in totals {
        let number = |name: &str| total[name].as_i64().unwrap();
        assert_eq!(number("lost"), number("at_socket") + number("at_backlog") + number("unaccounted"));
        // The kernel refuses a packet while too many of the source's wait for the receiver's CPU.
        assert!((1..=13 * 2_000).contains(&number("sent")), "{total}");
    }
    beside_other_programs(&summary);
    assert!(summary["cannot"][0].as_str().unwrap().contains("Interrupts"));
    analysed_again(&the_run_in(runs.path()), runs.path());
}

/// Each program that is installed has its streams; one that is not is named.
fn beside_other_programs(summary: &Value) {
    let totals = summary["peers"].as_array().unwrap();
    let cannot = summary["cannot"].to_string();
    let installed = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
    };
    for name in ["quaver", "quaver again", "libpcap program", "tcpdump", "dumpcap"] {
        let own: Vec<&Value> = totals.iter().filter(|total| total["program"] == name).collect();
        if ["tcpdump", "dumpcap"].contains(&name) && !installed(name) {
            assert!(own.is_empty() && cannot.contains(&format!("{name} was not compared")), "{cannot}");
            continue;
        }
        assert_eq!(own.len(), 2, "{name}, two placements: {cannot}");
        for total in own {
            let number = |field: &str| total[field].as_i64().unwrap();
            assert!(number("sent") > 0 && number("captured") > 0, "{total}");
            assert!(!name.starts_with("quaver") || number("unaccounted") == 0, "{total}");
            assert_eq!(number("unaccounted"), number("sent") - number("captured") - number("dropped"));
            assert!(total["cpu_ns_per_packet"].as_f64().unwrap() > 0.0);
            // A quick comparison has too few streams for a result, and says so.
            let refusals = total["to_quaver"]["refusals"].to_string();
            assert_eq!(name == "quaver", !refusals.contains("of at least 5 streams"), "{total}");
        }
    }
}

/// The results are the same, to the byte.
fn analysed_again(run: &Path, runs: &Path) {
    let name = run.display().to_string();
    let kept = |file: &str| std::fs::read(run.join(file)).expect("it is kept");
    let (summary, report) = (kept("summary.json"), kept("report.html"));
    let output = quaver(runs, &["analyze", &name]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("inline-clock / batch"));
    assert!(summary == kept("summary.json") && report == kept("report.html"));
    let output = quaver(runs, &["report", &name, "-o", "-"]).output().unwrap();
    assert!(output.stdout == report, "drawn again the same");
    let output = quaver(runs, &["export", &name, "--late-csv"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    exported(&name, runs);
}

/// The histograms are those of every arm, in time that has passed, and the timeline names the arms.
fn exported(name: &str, runs: &Path) {
    let export = |words: &[&str]| {
        let output = quaver(runs, &[&["export", name, "-o", "-"], words].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let rows = export(&["--json-lines", "samples"]);
    let mut arms = std::collections::BTreeSet::new();
    for row in String::from_utf8(rows).unwrap().lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        assert!(row["between_cycles"].as_u64() > Some(0), "{row}");
        arms.insert(["pattern", "context", "arm"].map(|key| row[key].as_u64()));
    }
    let log = String::from_utf8(export(&["--hdr"])).unwrap();
    let tags: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("Tag=")).collect();
    assert_eq!(tags.len(), arms.len(), "{log}");
    assert!(tags[0].starts_with("2.user.checkpoints,") && !log.contains("negative"), "{log}");
    let timeline = export(&["--perfetto"]);
    assert!(timeline.windows(12).any(|window| window == b"2.user.batch"));
}

#[test]
fn interrupted_it_keeps_what_it_has_and_leaves_nothing() {
    if !privileged("interrupted_it_keeps_what_it_has_and_leaves_nothing") {
        return;
    }
    let runs = tempfile::tempdir().unwrap();
    let words = ["capture", "--compare", "--pattern", "1", "--json", "--quiet"];
    let mut child =
        quaver(runs.path(), &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_run(runs.path(), &mut child);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let number = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(json(&output)["complete"], false);
    assert!(left_by(number).is_empty());
    let run = the_run_in(runs.path());
    let output = quaver(runs.path(), &["analyze", &run.display().to_string()]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("This run was cut short"));
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    let runs = tempfile::tempdir().unwrap();
    for words in [
        &["capture", "--compare", "-i", "lo"][..],
        &["capture", "--compare", "--pattern", "3"],
        &["capture", "--rounds", "4", "-i", "lo"],
        &["capture", "--compare", "--packets", "3"],
    ] {
        let output = quaver(runs.path(), words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(std::fs::read_dir(runs.path()).unwrap().next().is_none(), "no run was made");
}
