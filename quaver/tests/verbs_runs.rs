//! Runs made, cut short and read again, as a user does it. At a low rate, over loopback and without tracing, so that
//! no privilege is needed.

use quaver_store::columns::TableReader;
use quaver_store::run::RunDir;
use quaver_testbed::privileged::privileged;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const STREAM: [&str; 11] = [
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
];

/// Measurements side by side take each other's CPU, so each test measures alone.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn quaver(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(args).env_remove("QUAVER_RUNS").stdin(Stdio::null());
    command
}

fn chase(runs: &Path, length: &str) -> Command {
    let mut command = quaver(&["chase", "--for", length]);
    command.args(STREAM).arg("-o").arg(runs);
    command
}

/// Runs a verb on a run directory.
fn on(run: &Path, verb: &str, options: &[&str]) -> Output {
    quaver(&[verb]).arg(run).args(options).output().expect("the program was built for this test")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn expect(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", stderr(output));
}

fn only_run(runs: &Path) -> PathBuf {
    let found: Vec<PathBuf> = fs::read_dir(runs).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A finished run.
fn finished(runs: &Path) -> PathBuf {
    expect(&chase(runs, "300ms").output().unwrap(), 0);
    only_run(runs)
}

/// A program in the background, which ends with its test whatever becomes of that.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        // It has ended already where all went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A chase that has been measuring for a while.
fn measuring(runs: &Path) -> (Background, PathBuf) {
    let child = Background(chase(runs, "10m").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let deadline = Instant::now() + Duration::from_secs(30);
    let described = |run: &Path| {
        let manifest = fs::read(run.join("manifest.json")).unwrap_or_default();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap_or_default();
        manifest.pointer("/analysis/streams/0").is_some()
    };
    loop {
        let run = fs::read_dir(runs).unwrap().next().map(|entry| entry.unwrap().path());
        if let Some(run) = run.filter(|run| described(run)) {
            // Beyond the warm-up, and beyond the second clock anchor.
            std::thread::sleep(Duration::from_millis(1_500));
            return (child, run);
        }
        assert!(Instant::now() < deadline, "no run was begun");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_run_read_again_gives_the_same_octets() {
    let _alone = alone();
    let runs = tempfile::tempdir().unwrap();
    let run = finished(runs.path());
    let of = |name: &str| fs::read(run.join(name)).unwrap();
    let (summary, report, late) = (of("summary.json"), of("report.html"), of("late.parquet"));
    for _ in 0..2 {
        let again = on(&run, "analyze", &["--json"]);
        expect(&again, 0);
        let stored: Value = RunDir::open(&run).unwrap().read_summary().unwrap();
        assert_eq!(quaver_testbed::printed::numbers(&again.stdout), stored);
        assert!(of("summary.json") == summary && of("report.html") == report && of("late.parquet") == late);
    }
    let place = tempfile::tempdir().unwrap();
    let drawn = place.path().join("drawn.html");
    expect(&on(&run, "report", &["-o", drawn.to_str().unwrap()]), 0);
    assert!(fs::read(&drawn).unwrap() == report);
    expect(&on(&run, "analyze", &["--fail-if", "losses.received > 0"]), 1);
    expect(&on(&run, "analyze", &["--fail-if", "losses.received == 0"]), 0);
    expect(&on(&run, "analyze", &["--fail-if", "losses.nonsense > 0"]), 2);
}

/// Runs of earlier programs.
const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/migrate/kept");

/// Two copies of the kept runs of three kinds, below `place`.
fn copies(place: &Path) {
    for copy in ["a", "b"] {
        fs::create_dir_all(place.join(copy)).unwrap();
        for name in ["chase-2026-11-25", "noise-2026-11-25", "probe-2026-11-25"] {
            quaver_testbed::kept::copy(&Path::new(KEPT).join(name), &place.join(copy).join(name));
        }
    }
}

/// Bytes of all files below a directory, by their places in it.
fn tree(root: &Path, place: &Path, into: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for path in fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            tree(root, &path, into);
        } else {
            into.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap());
        }
    }
}

#[test]
fn shards_of_many_runs_leave_what_one_process_leaves() {
    let place = tempfile::tempdir().unwrap();
    // Reports name their run's path, so both have the same one.
    let root = place.path().join("runs");
    let analyzed = |shards: &[&[(&str, &str)]]| {
        copies(&root);
        let mut done = Vec::new();
        for environment in shards {
            let mut command = quaver(&["analyze", "--json"]);
            let words = root.join("b");
            command.arg(&words).arg(root.join("a")).arg(&words).current_dir(place.path());
            if !environment.is_empty() {
                command.args(["--shard", "auto"]).envs(environment.iter().copied());
            }
            let output = command.output().unwrap();
            expect(&output, 0);
            let found: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!((&found["schema"], &found["of"]), (&"quaver.analyses/1".into(), &6.into()));
            let runs = found["runs"].as_array().unwrap().iter();
            done.push(runs.map(|run| run["run"].as_str().unwrap().to_owned()).collect::<Vec<_>>());
        }
        let mut files = BTreeMap::new();
        tree(&root, &root, &mut files);
        fs::remove_dir_all(&root).unwrap();
        (done, files)
    };
    let (whole, by_one) = analyzed(&[&[]]);
    let slurm =
        |id| [("SLURM_ARRAY_TASK_ID", id), ("SLURM_ARRAY_TASK_MIN", "3"), ("SLURM_ARRAY_TASK_COUNT", "4")];
    let (parts, by_four) = analyzed(&["6", "3", "5", "4"].map(slurm).each_ref().map(|task| &task[..]));
    assert!(parts.iter().all(|part| part.len() < whole[0].len()), "each does a part: {parts:?}");
    let mut all: Vec<&String> = parts.iter().flatten().collect();
    all.sort();
    assert_eq!(all, whole[0].iter().collect::<Vec<_>>(), "each run is in one part");
    assert!(by_one.len() > 6 * 4 && by_one.keys().any(|file| file.ends_with("report.html")));
    for (file, bytes) in &by_one {
        assert!(by_four.get(file) == Some(bytes), "{} differs", file.display());
    }
    assert_eq!(by_one.len(), by_four.len());
}

#[test]
fn a_run_that_cannot_be_analysed_leaves_the_others_done() {
    let place = tempfile::tempdir().unwrap();
    copies(place.path());
    let broken = place.path().join("a/noise-2026-11-25");
    fs::write(broken.join("gaps.parquet"), "no table").unwrap();
    let said = on(place.path(), "analyze", &["--json"]);
    expect(&said, 5);
    let found: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((found["runs"].as_array().unwrap().len(), found["refused"].as_array().unwrap().len()), (5, 1));
    assert_eq!(found["refused"][0]["run"], broken.to_str().unwrap());
    assert_eq!(found["result"]["verdict"], "5 of 6 runs were analysed.");
    let [one, other] = ["a", "b"].map(|copy| place.path().join(copy).join("chase-2026-11-25"));
    let both = [other.to_str().unwrap(), "--fail-if", "lateness.packets >= 0"];
    expect(&on(&one, "analyze", &both), 1);
    let said = on(place.path(), "analyze", &["--shard", "auto"]);
    expect(&said, 2);
    assert!(stderr(&said).contains("SLURM_ARRAY_TASK_ID"), "{}", stderr(&said));
}

/// Whether the lines of the export, the table of late packets and the summary, all by one threshold, tell the same.
fn agrees(run: &Path, lines: &mut dyn Iterator<Item = &str>) {
    expect(&on(run, "analyze", &["--late", "1ns", "--json"]), 0);
    let table = TableReader::open(&run.join("late.parquet"), "late").unwrap();
    let mut rows = vec![Vec::new(); table.rows()];
    table.u64("seq", |row, seq| rows[row].push(seq.to_string())).unwrap();
    let mut time_ns = 0;
    for column in ["lateness_ns", "start_ns", "end_ns"] {
        let sign = i64::from(column == "end_ns") - i64::from(column == "start_ns");
        let put = |row: usize, ns: i64| {
            rows[row].push(ns.to_string());
            time_ns += sign * ns;
        };
        table.i64(column, put).unwrap();
    }
    let put = |row: usize, cpu: Option<u32>| rows[row].push(cpu.map_or(String::new(), |cpu| cpu.to_string()));
    table.optional_u32("cpu", put).unwrap();
    for column in ["source", "name", "part", "place", "certainty"] {
        let put = |row: usize, text: &[u8]| rows[row].push(String::from_utf8(text.to_vec()).unwrap());
        table.text(column, put).unwrap();
    }
    let rows: Vec<String> = rows.iter().map(|row| row.join(",")).collect();
    assert_eq!(rows, lines.map(|line| line.replace('"', "")).collect::<Vec<_>>());
    let summary = json(&run.join("summary.json"));
    assert_eq!(summary.pointer("/lateness/time_ns"), Some(&time_ns.into()));
}

#[test]
fn exports_are_whole() {
    let _alone = alone();
    let runs = tempfile::tempdir().unwrap();
    let run = finished(runs.path());
    let csv = on(&run, "export", &["--late-csv", "--late", "1ns", "-o", "-"]);
    expect(&csv, 0);
    let text = String::from_utf8(csv.stdout).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("seq,lateness_ns,start_ns,end_ns,cpu,source,name,part,place,certainty"));
    assert!(lines.all(|line| line.split(',').count() >= 10));
    assert!(text.lines().count() > 1, "some packet is later than a nanosecond");
    agrees(&run, &mut text.lines().skip(1));
    expect(&on(&run, "export", &["--perfetto"]), 0);
    let trace = fs::read(run.join("timeline.perfetto-trace")).unwrap();
    expect(&on(&run, "export", &["--perfetto", "-o", "/dev/null"]), 0);
    assert!(!Path::new("/dev/null").is_file(), "a device is written, not replaced");
    assert_eq!(trace.first(), Some(&0x0a), "field 1 of a Perfetto trace");
    expect(&on(&run, "export", &["--late-csv", "-o", "/proc/version/late.csv"]), 6);
}

#[test]
fn an_interrupted_run_is_kept_and_can_be_analysed() {
    let _alone = alone();
    let runs = tempfile::tempdir().unwrap();
    let (mut child, run) = measuring(runs.path());
    kill_process(Pid::from_child(&child.0), Signal::INT).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    let manifest = json(&run.join("manifest.json"));
    assert_eq!(manifest["complete"], false);
    assert_eq!(manifest["interrupted"], "interrupted by the user");
    let summary = fs::read(run.join("summary.json")).unwrap();
    expect(&on(&run, "analyze", &[]), 0);
    assert!(fs::read(run.join("summary.json")).unwrap() == summary);
    assert!(json(&run.join("summary.json"))["losses"]["received"].as_u64().unwrap() > 100);
}

#[test]
fn a_killed_run_is_readable_and_says_that_it_was_cut_short() {
    let _alone = alone();
    let runs = tempfile::tempdir().unwrap();
    let (mut child, run) = measuring(runs.path());
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    let page = on(&run, "analyze", &[]);
    expect(&page, 0);
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.contains("killed"), "{page}");
    let from_raw = fs::read(run.join("summary.json")).unwrap();
    let summary = json(&run.join("summary.json"));
    assert_eq!(summary["complete"], false);
    assert!(summary["losses"]["received"].as_u64().unwrap() > 100, "{summary}");
    assert!(run.join("packets.seg").is_file(), "the raw segments are left as they are");

    let run = RunDir::open(&run).unwrap();
    quaver_chase::digest::convert(&run, &mut run.read_manifest().unwrap()).unwrap();
    assert!(run.samples().is_file() && !run.packets_segment().is_file());
    expect(&on(run.path(), "analyze", &[]), 0);
    assert!(fs::read(run.summary()).unwrap() == from_raw, "raw segments and Parquet give the same");
}

#[test]
fn bad_input_ends_with_5_and_a_sentence() {
    let _alone = alone();
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("runs");
    let good = finished(&runs);
    let manifest = fs::read_to_string(good.join("manifest.json")).unwrap();
    let samples = fs::read(good.join("samples.parquet")).unwrap();
    let file = place.path().join("file");
    fs::write(&file, "x").unwrap();
    let empty = place.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let check = |run: &Path, words: &str| {
        for (verb, options) in [("analyze", &[][..]), ("report", &[]), ("export", &["--perfetto"])] {
            let output = on(run, verb, options);
            expect(&output, 5);
            assert!(stderr(&output).contains(words), "{verb}: {}", stderr(&output));
            assert!(!stderr(&output).contains("panicked"));
        }
    };
    check(&place.path().join("nowhere"), "nowhere");
    check(&file, "not a run directory");
    check(&empty, "it has no manifest.json");
    let with = |name: &str, octets: &[u8]| fs::write(good.join(name), octets).unwrap();
    with("manifest.json", b"{\"format\": [");
    check(&good, "manifest.json");
    with("manifest.json", b"{\"format\": 99}");
    check(&good, "format version 99");
    with("manifest.json", manifest.replace("\"verb\": \"chase\"", "\"verb\": \"dance\"").as_bytes());
    check(&good, "verb \"dance\" is not known");
    with("manifest.json", manifest.as_bytes());
    for kept in [0, 10, samples.len() / 2, samples.len() - 1] {
        with("samples.parquet", &samples[..kept]);
        check(&good, "samples.parquet");
    }
}

#[test]
fn the_sink_records_a_stream_that_the_source_sends() {
    let _alone = alone();
    let runs = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", quaver_testbed::ports::free_port());
    let mut source = Background(
        quaver(&["source", &address, "--period", "1ms", "--pace", "sleep", "--quiet"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let sink = quaver(&[
        "sink",
        &address,
        "--count",
        "200",
        "--receive",
        "block",
        "--for",
        "30s",
        "--json",
        "-q",
        "-o",
    ])
    .arg(runs.path())
    .output()
    .unwrap();
    kill_process(Pid::from_child(&source.0), Signal::INT).unwrap();
    assert_eq!(source.0.wait().unwrap().code(), Some(130));
    expect(&sink, 0);
    let summary: Value = serde_json::from_slice(&sink.stdout).unwrap();
    assert_eq!(summary["losses"]["received"], 200);
    assert_eq!(summary["tier"], "user");
    assert!(summary["tier_reason"].as_str().unwrap().contains("quaver chase --listen"));
    let run = only_run(runs.path());
    let before = fs::read(run.join("summary.json")).unwrap();
    expect(&on(&run, "analyze", &[]), 0);
    assert!(fs::read(run.join("summary.json")).unwrap() == before);
}

/// What a run of this process could leave in the kernel: mounts, pinned programs, named namespaces, and the process's tracefs
/// instances. Other tests have some of their own meanwhile.
fn leftovers(pid: u32) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut found: Vec<String> =
        mounts.lines().filter(|line| line.contains("quaver")).map(str::to_owned).collect();
    let own = format!("quaver-{pid}-");
    for (place, part) in
        [("/sys/fs/bpf", "quaver"), ("/run/netns", "quaver"), ("/sys/kernel/tracing/instances", &own)]
    {
        let entries = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
        found.extend(entries.map(|path| path.display().to_string()).filter(|path| path.contains(part)));
    }
    found
}

#[test]
fn nothing_is_left_of_a_run_with_namespaces_and_tracing() {
    let name = "nothing_is_left_of_a_run_with_namespaces_and_tracing";
    if !privileged(name) {
        return;
    }
    let _alone = alone();
    let runs = tempfile::tempdir().unwrap();
    let before = leftovers(0);
    let mut command = quaver(&["chase", "--for", "300ms", "--period", "1ms", "--no-cost", "-q", "-o"]);
    let child = command.arg(runs.path()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    expect(&child.wait_with_output().unwrap(), 0);
    assert_eq!(leftovers(pid), before);
}
