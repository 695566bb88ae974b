//! `quaver sim paper` as a user runs it, as small as it goes.

mod kernel_build;
mod sim_place;
mod simulator;
#[allow(dead_code, reason = "only what builds the recorder and the plugin is needed")]
mod tracing;

use kernel_build::kernel;
use serde_json::Value;
use sim_place::{expect, only_run, quaver, run, text};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Two programs, of which one is held out, in the shortest runs of the traces that come along.
const SMALL: [&str; 10] = [
    "sim",
    "paper",
    "--quick",
    "--programs",
    "barnes,fmm",
    "--seeds",
    "1",
    "--length",
    "1us",
    "--no-tracing",
];

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("it was written")).expect("it is JSON")
}

/// Figures of all runs of a run of the command: lines, whatever their order.
fn points(run: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(run.join("points.jsonl")).expect("it was written");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn page_json_and_report_are_of_one_run() {
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
    // What was asked for takes no runs with the OS cache alone.
    let holds: Vec<&Value> = laws.clone().map(|law| &law["holds"]).collect();
    assert_eq!(holds, [&true.into(), &Value::Null, &true.into(), &true.into()]);
    let why: Vec<&str> = laws.map(|law| law["why"].as_str().unwrap()).collect();
    let missing = "no program has runs of \u{201c}no jitter, OS cache without sharing\u{201d} and \u{201c}no jitter, no units\u{201d}";
    assert_eq!(why, ["", missing, "", ""]);
    let kept = only_run(place.path());
    let place_of = |file: &str| place.path().join(&kept).join(file);
    let lines = fs::read_to_string(place_of("points.jsonl")).unwrap();
    let arms = json["programs"][0]["arms"].as_array().unwrap().len();
    assert_eq!(lines.lines().count(), 2 * arms, "a line each");
    let report = fs::read_to_string(place_of("report.html")).unwrap();
    for id in ["id=\"table-6\"", "id=\"grid\"", "id=\"power\""] {
        assert!(report.contains(id), "{id}");
    }
    let markup = report.split("<script").next().unwrap_or_default();
    assert!(!markup.contains("id=\"reactivity\"") && !markup.contains("http://"));
    let page = run(place.path(), &["analyze", &kept]);
    expect(&page, 0);
    for said in ["Jitter of each program, Splash-2 (table 6)", "fmm (held out)", "laws hold, and "] {
        assert!(text(&page.stdout).contains(said), "{said}\n{}", text(&page.stdout));
    }
    fs::remove_file(place_of("report.html")).unwrap();
    expect(&run(place.path(), &["report", &kept]), 0);
    assert_eq!(fs::read_to_string(place_of("report.html")).unwrap(), report);
    expect(&run(place.path(), &["analyze", &kept, "--fail-if", "programs.0.row.events_per_ms >= 0"]), 1);
}

#[test]
fn a_program_whose_trace_was_cut_short_decides_nothing_and_keeps_no_other_from_running() {
    let place = tempfile::tempdir().unwrap();
    let armour = |from: &str, to: &str| {
        expect(&run(place.path(), &["sim", "trace", "--armour", from, "--output", to]), 0);
    };
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/../simulator/sim/traces/lu.qtrace.txt");
    fs::create_dir(place.path().join("traces")).unwrap();
    armour(bundled, "traces/lu.qtrace");
    let path = place.path().join("traces/lu.qtrace");
    let whole = fs::read(&path).unwrap();
    let json = |octets: &[u8]| -> Value {
        fs::write(&path, octets).unwrap();
        let args =
            ["--programs", "lu,radix", "--no-tracing", "--traces", "traces", "--only", "table6", "--json"];
        let output =
            run(place.path(), &[&["sim", "paper", "--quick", "--length", "1us"][..], &args].concat());
        expect(&output, 0);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // The replay of the first trace ends, and that of the second one gets stuck.
    let almost = json(&whole[..whole.len() - 1]);
    assert_eq!(almost["programs"][0]["how"]["cut_short"], true);
    let part = json(&whole[..whole.len() * 7 / 10]);
    assert_eq!((&part["programs"][0]["program"], &part["not_run"][0][0]), (&"radix".into(), &"lu".into()));
    let why = part["not_run"][0][1].as_str().unwrap();
    assert!(why.starts_with("its trace was cut short: simulate lu: the replay is stuck at "), "{why}");
    for (json, undecided) in [(almost, "cut-short"), (part, "not-run")] {
        let claims = json["claims"].as_array().unwrap();
        let of_lu = claims.iter().filter(|claim| claim["what"].as_str().unwrap().ends_with("of lu"));
        let all: Vec<&Value> = of_lu.map(|claim| &claim["undecided"]).collect();
        assert_eq!(all, [undecided, undecided]);
    }
}

#[test]
fn interrupted_it_keeps_and_draws_what_was_done() {
    let place = tempfile::tempdir().unwrap();
    let args = ["sim", "paper", "--quiet", "--programs", "barnes,ocean", "--no-tracing", "--seeds", "1000"];
    let mut child = quaver(place.path(), &args).stdout(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    let seen = loop {
        let lines = fs::read_dir(place.path().join("runs")).ok().and_then(|mut runs| {
            let file = runs.next()?.ok()?.path().join("points.jsonl");
            Some(fs::read_to_string(file).ok()?.lines().count())
        });
        match lines {
            Some(lines) if lines >= 3 => break lines,
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
    assert!(seen >= 3 && place.path().join(&kept).join("report.html").is_file());
    let runs =
        summary["programs"][0]["arms"].as_array().unwrap().iter().map(|arm| arm["runs"].as_u64().unwrap());
    let lines = points(&place.path().join(&kept)).len() as u64;
    assert_eq!(lines, runs.sum::<u64>(), "all that was drawn is kept, and all that was kept is drawn");
    assert_eq!(summary["not_run"][0][0], "ocean");
}

#[test]
fn killed_it_keeps_the_programs_that_were_done() {
    let place = tempfile::tempdir().unwrap();
    let args = ["sim", "paper", "--quiet", "--programs", "lu,ocean", "--no-tracing", "--only", "table6"];
    let length = ["--seeds", "50", "--length", "1us"];
    let mut child =
        quaver(place.path(), &[&args[..], &length].concat()).stdout(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    let summary = || {
        let mut runs = fs::read_dir(place.path().join("runs")).ok()?;
        Some(runs.next()?.ok()?.path().join("summary.json"))
    };
    while !summary().is_some_and(|path| path.is_file()) {
        assert!(began.elapsed() < Duration::from_secs(120), "lu was never done");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let page = run(place.path(), &["analyze", &only_run(place.path())]);
    expect(&page, 0);
    let page = text(&page.stdout);
    assert!(page.contains("This run was cut short") && page.contains("1 program, 50 seeds"), "{page}");
}

#[test]
fn published_runs_are_drawn_again() {
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench-runs");
    let mut drawn = 0;
    for entry in fs::read_dir(published).unwrap() {
        let path = entry.unwrap().path();
        let manifest = path.join("manifest.json");
        if !manifest.is_file() || read(&manifest)["verb"] != "sim-paper" {
            // A summary that nothing opens would be no published run.
            assert!(
                !path.to_string_lossy().contains("-sim-") || !path.join("summary.json").exists(),
                "{path:?}"
            );
            continue;
        }
        let place = tempfile::tempdir().unwrap();
        let page = place.path().join("report.html").display().to_string();
        expect(&run(place.path(), &["report", &path.display().to_string(), "-o", &page]), 0);
        let page = fs::read_to_string(page).unwrap();
        let markup = page.split("<script").next().unwrap_or_default();
        assert!(markup.contains("id=\"claims\"") && !markup.contains("NaN"), "{}", path.display());
        drawn += 1;
    }
    assert!(drawn > 0, "no published run was found");
}

#[test]
fn programs_are_traced_first_and_their_traces_give_the_same_figures_again() {
    if tracing::is_skipped("programs_are_traced_first_and_their_traces_give_the_same_figures_again") {
        return;
    }
    tracing::libraries();
    let kernels = kernel("dedup").parent().unwrap().display().to_string();
    let place = tempfile::tempdir().unwrap();
    let small = ["sim", "paper", "--seeds", "1", "--length", "1us", "--only", "table6", "--json"];
    let first = [&small[..], &["--programs", "dedup", "--kernels", &kernels]].concat();
    let output = run(place.path(), &first);
    expect(&output, 0);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let how = &json["programs"][0]["how"];
    assert_eq!(how["trace"], "dedup -p13 -n1024, traced for this run");
    assert_eq!((&how["threads"], &how["only_once"]), (&Value::from(16), &Value::Null));
    let kept = place.path().join(only_run(place.path()));
    let figures = points(&kept);
    let traces = kept.join("traces").display().to_string();
    let again = tempfile::tempdir().unwrap();
    expect(&run(again.path(), &[&small[..], &["--programs", "dedup", "--traces", &traces]].concat()), 0);
    assert_eq!(points(&again.path().join(only_run(again.path()))), figures);
}

#[test]
fn without_the_programs_small_traces_stand_in_and_the_page_says_so() {
    let place = tempfile::tempdir().unwrap();
    let small = ["sim", "paper", "--seeds", "1", "--length", "1us", "--only", "table6"];
    expect(
        &run(place.path(), &[&small[..], &["--programs", "lu,vips", "--kernels", "/nowhere"]].concat()),
        0,
    );
    let kept = only_run(place.path());
    let summary = read(&place.path().join(&kept).join("summary.json"));
    let trace = summary["programs"][0]["how"]["trace"].as_str().unwrap();
    assert!(
        trace.starts_with("lu -p16 ")
            && trace.contains("that comes with Quaver (not traced: the program was not found")
    );
    assert_eq!((&summary["programs"][1], &summary["not_run"][0][0]), (&Value::Null, &Value::from("vips")));
    let page = text(&run(place.path(), &["analyze", &kept]).stdout);
    assert!(page.contains("the small trace that comes with Quaver"), "{page}");
    let traces = place.path().join(&kept).join("traces").display().to_string();
    let again = tempfile::tempdir().unwrap();
    expect(&run(again.path(), &[&small[..], &["--programs", "lu", "--traces", &traces]].concat()), 0);
    assert_eq!(points(&again.path().join(only_run(again.path()))), points(&place.path().join(&kept)));
}

#[test]
fn a_run_of_the_bench_stands_beside_the_papers_figures() {
    tracing::libraries();
    kernel("fmm");
    let place = tempfile::tempdir().unwrap();
    let bench = [
        "sync",
        "bench",
        "--quiet",
        "--threads",
        "2",
        "--size",
        "64",
        "--only",
        "barnes,fmm,dedup",
        "--runs",
        "2",
    ];
    let mut measured = quaver(place.path(), &bench);
    measured.env_remove("QUAVER_LIBDIR").env_remove("LD_PRELOAD");
    expect(&measured.output().unwrap(), 0);
    let bench = only_run(place.path());
    let of_bench = read(&place.path().join(&bench).join("summary.json"));
    let runs = place.path().join("papers").display().to_string();
    let args = [&SMALL[..], &["--only", "table4,table5,table6,table7,table8", "--sync", &bench, "-o", &runs]]
        .concat();
    let output = run(place.path(), &args);
    expect(&output, 0);
    let run_of = fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    assert_eq!(read(&run_of.join("sync-bench.json")), of_bench);
    let page = text(&output.stdout);
    let report = fs::read_to_string(run_of.join("report.html")).unwrap();
    for shown in [&page, &report] {
        assert!(shown.contains("measured"), "{shown}");
        let without_scripts = shown.split("<script").next().unwrap_or_default();
        assert!(!without_scripts.contains("NaN"), "{without_scripts}");
    }
    expect(&run(place.path(), &["report", &run_of.display().to_string()]), 0);
    assert_eq!(fs::read_to_string(run_of.join("report.html")).unwrap(), report);
}

#[test]
fn another_library_of_kernel_activity_is_run_and_named() {
    let place = tempfile::tempdir().unwrap();
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../simulator/sim/kernel/kernel.qepochs.txt");
    let file = place.path().join("kernel.qepochs").display().to_string();
    expect(&run(place.path(), &["sim", "trace", "--armour", &bundled.display().to_string(), "-o", &file]), 0);
    let with = [&SMALL[..], &["--programs", "barnes", "--only", "table6", "--json"]].concat();
    let summary = |place: &Path, more: &[&str]| -> Value {
        let output = run(place, &[&with[..], more].concat());
        expect(&output, 0);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (of_file, usual) =
        (summary(place.path(), &["--kernel", "kernel.qepochs"]), summary(place.path(), &[]));
    let words = of_file["kernel"].as_str().unwrap();
    assert!(
        words.ends_with("epochs of kernel.qepochs")
            && usual["kernel"].as_str().unwrap().contains("that come with Quaver")
    );
    assert!(of_file["calibration"].as_str().unwrap().contains("made with other kernel activity"));
    assert_eq!(of_file["programs"][0]["row"], usual["programs"][0]["row"], "the same epochs");
    fs::write(place.path().join("none.qepochs"), "nothing").unwrap();
    expect(&run(place.path(), &[&with[..], &["--kernel", "none.qepochs"]].concat()), 5);
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
