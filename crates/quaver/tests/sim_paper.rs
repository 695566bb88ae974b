//! `quaver sim paper` as a user runs it, as small as it goes.

mod sim_place;

use serde_json::Value;
use sim_place::{expect, only_run, quaver, run, text};
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Two programs, of which one is held out, in the shortest runs.
const SMALL: [&str; 9] =
    ["sim", "paper", "--quick", "--programs", "barnes,fmm", "--seeds", "1", "--length", "1us"];

#[test]
fn page_json_and_report_are_of_one_run_and_laws_hold() {
    let place = tempfile::tempdir().unwrap();
    let only = ["--only", "table6,figure10,figure13", "--json"];
    let output = run(place.path(), &[&SMALL[..], &only].concat());
    expect(&output, 0);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], "quaver.sim-paper/1");
    assert_eq!((&json["complete"], &json["seeds"]), (&Value::from(true), &serde_json::json!([1])));
    let programs: Vec<&str> =
        json["programs"].as_array().unwrap().iter().map(|one| one["program"].as_str().unwrap()).collect();
    assert_eq!(programs, ["barnes", "fmm"]);
    let held: Vec<bool> =
        json["programs"].as_array().unwrap().iter().map(|one| one["held_out"].as_bool().unwrap()).collect();
    assert_eq!(held, [false, true]);
    let laws = json["claims"].as_array().unwrap().iter().filter(|claim| claim["kind"] == "law");
    for law in laws {
        assert_eq!(law["holds"], true, "{law}");
    }
    let kept = only_run(place.path());
    let place_of = |file: &str| place.path().join(&kept).join(file);
    let lines = fs::read_to_string(place_of("points.jsonl")).unwrap();
    let arms = json["programs"][0]["arms"].as_array().unwrap().len();
    assert_eq!(lines.lines().count(), 2 * arms, "a line each");
    let report = fs::read_to_string(place_of("report.html")).unwrap();
    for id in ["id=\"table-6\"", "id=\"grid\"", "id=\"power\""] {
        assert!(report.contains(id), "{id}");
    }
    assert!(!report.contains("id=\"reactivity\"") && !report.contains("http://"));
    let page = run(place.path(), &["analyze", &kept]);
    expect(&page, 0);
    for said in
        ["Jitter of each program, Splash-2 (table 6)", "fmm (held out)", "What the paper says, judged"]
    {
        assert!(text(&page.stdout).contains(said), "{said}\n{}", text(&page.stdout));
    }
    fs::remove_file(place_of("report.html")).unwrap();
    expect(&run(place.path(), &["report", &kept]), 0);
    assert_eq!(fs::read_to_string(place_of("report.html")).unwrap(), report);
    expect(&run(place.path(), &["analyze", &kept, "--fail-if", "programs.0.row.events_per_ms >= 0"]), 1);
}

#[test]
fn interrupted_it_keeps_and_draws_what_was_done() {
    let place = tempfile::tempdir().unwrap();
    let args =
        ["sim", "paper", "--quiet", "--programs", "barnes,ocean", "--length", "1us", "--seeds", "1000"];
    let mut child = quaver(place.path(), &args).stdout(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    let points = loop {
        let lines = fs::read_dir(place.path().join("runs")).ok().and_then(|mut runs| {
            let file = runs.next()?.ok()?.path().join("points.jsonl");
            Some(fs::read_to_string(file).ok()?.lines().count())
        });
        match lines {
            Some(lines) if lines >= 2 => break lines,
            _ => assert!(began.elapsed() < Duration::from_secs(120), "nothing was simulated"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let kept = only_run(place.path());
    let summary: Value =
        serde_json::from_slice(&fs::read(place.path().join(&kept).join("summary.json")).unwrap()).unwrap();
    assert_eq!(summary["complete"], false);
    assert_eq!(summary["programs"][0]["program"], "barnes");
    assert!(points >= 2 && place.path().join(&kept).join("report.html").is_file());
    assert_eq!(summary["not_run"][0][0], "ocean");
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    let place = tempfile::tempdir().unwrap();
    for (args, code, said) in [
        (vec!["--only", "table3"], 2, "none of the paper's"),
        (vec!["--programs", "cholesky"], 2, "there is no program cholesky"),
        (vec!["--calibration", "none.toml"], 5, "none.toml"),
        (vec!["--sync", "nowhere"], 5, "nowhere"),
    ] {
        let output = run(place.path(), &[&["sim", "paper"], &args[..]].concat());
        expect(&output, code);
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
    }
    fs::write(place.path().join("fits.toml"), "[programs.fmm]\n").unwrap();
    expect(&run(place.path(), &["sim", "paper", "--calibration", "fits.toml"]), 5);
    assert!(!place.path().join("runs").exists(), "nothing was begun");
}
