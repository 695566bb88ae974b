//! `quaver sim run` and `quaver sim config` as a user runs them, on traces that are made here.

mod sim_made;
mod sim_place;
mod simulator;

use quaver_sim::config::Config;
use quaver_sim::machine::Machine;
use quaver_sim_program::intervals::{SimState, read_sim_intervals};
use quaver_trace::file::{ReadAt, TraceReader};
use quaver_trace::step::{Step, Steps, Sync, TraceError};
use serde_json::Value;
use sim_made::{baton, scattered, spinning, stuck};
use sim_place::{expect, only_run, quaver, run, text};
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A place with a trace of four threads that hand a baton on, and its run with these options.
fn simulated(options: &[&str]) -> (tempfile::TempDir, String, Output) {
    let place = tempfile::tempdir().unwrap();
    baton(&place.path().join("baton.qtrace"));
    let mut args = vec!["sim", "run", "baton.qtrace"];
    args.extend(options);
    let output = run(place.path(), &args);
    expect(&output, 0);
    let kept = only_run(place.path());
    (place, kept, output)
}

fn sum(values: &Value, name: &str) -> u64 {
    values.as_array().unwrap().iter().map(|one| one[name].as_u64().unwrap()).sum()
}

#[test]
fn the_page_and_the_files_tell_the_same() {
    let (place, kept, output) = simulated(&["--set", "chip.cores=2"]);
    let page = text(&output.stdout);
    for said in [
        "quaver sim run · sim-",
        "./baton --threads 4 · 4 threads · baton.qtrace",
        "2 cores, 2-issue in order, 3 GHz",
        "chip.cores = 2 (default 16)",
        " MIPS",
        "CPI stack  time of all cores, first step to last",
        "CPI per core  cycles per instruction while a thread ran",
        "L1 data, writes",
        "Coherence: ",
        "Critical path",
        " handoffs; ",
        "Report  runs/sim-",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(!page.contains('\x1b'), "no colour where standard output is no terminal");
    assert!(page.lines().all(|line| line.chars().count() <= 104), "{page}");
    let summary = json(&place.path().join(&kept).join("summary.json"));
    assert_eq!(summary["schema"], "quaver.sim/1");
    assert_eq!(summary["complete"], true);
    assert_eq!(summary["facts"]["threads"], 4);
    assert_eq!(summary["facts"]["machine"]["chip"]["cores"], 2);
    let chip = &summary["chip"];
    let instructions = chip["instructions"].as_u64().unwrap();
    assert_eq!(instructions, sim_made::BATON_INSTRUCTIONS);
    assert_eq!(instructions, sum(&summary["cores"], "instructions"));
    assert_eq!(instructions, sum(&summary["threads"], "instructions"));
    let whole: u64 = sum(&summary["time"], "time_fs");
    assert_eq!(whole, 2 * chip["duration_fs"].as_u64().unwrap(), "each core's time is told whole");
    let path = summary["critical_path"]["length_fs"].as_u64().unwrap();
    assert_eq!(path, chip["duration_fs"].as_u64().unwrap(), "the path is as long as the run");
    let again = run(place.path(), &["analyze", &kept]);
    expect(&again, 0);
    assert_eq!(text(&again.stdout), page);
    assert_eq!(json(&place.path().join(&kept).join("summary.json")), summary, "drawn again, it is the same");
    let printed = run(place.path(), &["analyze", "--json", &kept]);
    assert_eq!(quaver_testbed::printed::numbers(&printed.stdout), summary);
}

#[test]
fn what_is_kept_is_what_the_formats_say() {
    let (place, kept, _) = simulated(&[]);
    let kept = place.path().join(kept);
    let mut names: Vec<String> =
        fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "intervals.parquet",
            "lanes.json",
            "machine.toml",
            "manifest.json",
            "report.html",
            "summary.json",
            "timeline.perfetto-trace"
        ]
    );
    let machine = fs::read_to_string(kept.join("machine.toml")).unwrap();
    assert_eq!(Config::from_toml(&machine).unwrap(), Config::default());
    let manifest = json(&kept.join("manifest.json"));
    assert_eq!((&manifest["verb"], &manifest["complete"]), (&"sim".into(), &true.into()));
    assert!(manifest["asked"]["speed"]["elapsed_ns"].as_u64().unwrap() > 0);
    let summary = json(&kept.join("summary.json"));
    let keys: Vec<&str> = summary.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "schema",
            "complete",
            "facts",
            "chip",
            "time",
            "cores",
            "levels",
            "traffic",
            "threads",
            "critical_path",
            "counts",
            "warnings"
        ]
    );
    let rows = read_sim_intervals(&kept.join("intervals.parquet")).unwrap();
    let ran = |thread: u32| -> u64 {
        let of = rows.iter().filter(|row| row.thread == Some(thread) && row.state == SimState::Runs);
        of.map(|row| row.length_fs()).sum()
    };
    for thread in summary["threads"].as_array().unwrap() {
        let number = thread["thread"].as_u64().unwrap() as u32;
        assert_eq!(ran(number), thread["ran_fs"].as_u64().unwrap(), "thread {number}");
    }
    assert!(rows.iter().any(|row| row.state == SimState::Condition && row.woken_by.is_some()));
    assert!(rows.iter().all(|row| row.start_fs <= row.end_fs));
}

#[test]
fn two_runs_are_the_same_octet_by_octet() {
    let place = tempfile::tempdir().unwrap();
    baton(&place.path().join("baton.qtrace"));
    let once = |runs: &str| {
        let output = run(place.path(), &["sim", "run", "baton.qtrace", "-q", "-o", runs, "--json"]);
        expect(&output, 0);
        let kept = fs::read_dir(place.path().join(runs)).unwrap().next().unwrap().unwrap().path();
        (kept, quaver_testbed::printed::numbers(&output.stdout).to_string())
    };
    let ((first, printed), (second, again)) = (once("a"), once("b"));
    assert_eq!(printed, again);
    for name in ["summary.json", "intervals.parquet", "lanes.json", "timeline.perfetto-trace", "machine.toml"]
    {
        assert!(fs::read(first.join(name)).unwrap() == fs::read(second.join(name)).unwrap(), "{name}");
    }
}

#[test]
fn the_report_draws_every_figure_and_fetches_nothing() {
    let (place, kept, _) = simulated(&["--set", "memory.latency=100ns"]);
    let directory = place.path().join(&kept);
    let html = fs::read_to_string(directory.join("report.html")).unwrap();
    for said in [
        "Content-Security-Policy",
        "CPI stack",
        "Threads over time",
        "CPI stack by core",
        "L1 data: miss rate by core",
        "Coherence traffic and DRAM",
        "Critical path",
        "Simulated machine",
        "Longest waits",
        ">thread 3</text>",
        "memory.latency",
        "baton --threads 4",
    ] {
        assert!(html.contains(said), "{said}");
    }
    assert!(html.matches("<svg").count() >= 6, "{}", html.matches("<svg").count());
    for part in ["src=", "<link rel=\"stylesheet", "@import"] {
        assert!(!html.contains(part), "{part}");
    }
    let drawn = run(place.path(), &["report", &kept, "-o", "-"]);
    expect(&drawn, 0);
    assert_eq!(text(&drawn.stdout), html);
    let timeline = run(place.path(), &["export", &kept, "--perfetto", "-o", "-"]);
    expect(&timeline, 0);
    assert_eq!(timeline.stdout, fs::read(directory.join("timeline.perfetto-trace")).unwrap());
    let refused = run(place.path(), &["export", &kept, "--late-csv"]);
    expect(&refused, 2);
    assert!(text(&refused.stderr).contains("runs of this kind have no causes of lateness"));
    expect(&run(place.path(), &["analyze", &kept, "--late", "1ms"]), 2);
}

#[test]
fn any_number_can_be_made_an_exit_status() {
    let place = tempfile::tempdir().unwrap();
    baton(&place.path().join("baton.qtrace"));
    let output = run(place.path(), &["sim", "run", "baton.qtrace", "--fail-if", "chip.instructions > 10"]);
    expect(&output, 1);
    assert!(text(&output.stderr).contains("failed, as asked"), "{}", text(&output.stderr));
}

#[test]
fn an_interrupted_run_is_kept() {
    let place = tempfile::tempdir().unwrap();
    spinning(&place.path().join("long.qtrace"), 6_000_000);
    let mut child = quaver(place.path(), &["sim", "run", "long.qtrace"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Once the run has its machine, signals are caught and the simulation is about to begin.
    let begun = || {
        fs::read_dir(place.path().join("runs")).ok()?.find_map(|entry| {
            let path = entry.ok()?.path().join("machine.toml");
            path.is_file().then_some(path)
        })
    };
    while begun().is_none() {
        assert_eq!(child.try_wait().unwrap(), None, "it has not begun");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    expect(&output, 130);
    assert!(text(&output.stdout).contains("This run was cut short"), "{}", text(&output.stdout));
    let kept = place.path().join(only_run(place.path()));
    let summary = json(&kept.join("summary.json"));
    assert_eq!(summary["complete"], false);
    let simulated = summary["chip"]["instructions"].as_u64().unwrap();
    assert!(simulated > 0 && simulated < 6_000_000 * 20, "{simulated}");
    let duration_fs = summary["chip"]["duration_fs"].as_u64().unwrap();
    assert!(duration_fs > 0);
    assert_eq!(sum(&summary["time"], "time_fs"), 16 * duration_fs);
    let path_fs = summary["critical_path"]["length_fs"].as_u64().unwrap();
    assert!(path_fs > 0 && path_fs <= duration_fs, "{path_fs} of {duration_fs}");
    assert_eq!(json(&kept.join("manifest.json"))["interrupted"], "interrupted by the user");
    expect(&run(place.path(), &["report", kept.to_str().unwrap()]), 0);
}

/// What is said of a trace that is refused, with nothing kept.
#[track_caller]
fn refused(place: &Path, trace: &str) -> String {
    let output = run(place, &["sim", "run", trace]);
    expect(&output, 5);
    let kept = fs::read_dir(place.join("runs")).map_or(0, Iterator::count);
    assert_eq!(kept, 0, "nothing was simulated, so nothing is kept");
    text(&output.stderr)
}

/// Where the first frame of steps has its contents: a frame's head is kind (3 for steps), thread, steps, raw and stored length.
fn first_steps(trace: &[u8]) -> usize {
    let number = |at: usize| u32::from_le_bytes(trace[at..at + 4].try_into().unwrap());
    let mut at = 16;
    while number(at) != 3 {
        at += 24 + number(at + 20) as usize;
    }
    at + 24
}

#[test]
fn what_is_no_trace_or_a_damaged_one_is_refused_with_its_place() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("baton.qtrace");
    baton(&path);
    let whole = fs::read(&path).unwrap();
    let write = |name: &str, octets: &[u8]| fs::write(place.path().join(name), octets).unwrap();
    write("text", b"not a trace at all, but long enough to be one");
    assert!(
        refused(place.path(), "text")
            .contains("text: this is no trace that can be read here: it does not begin as one")
    );
    write("short", &whole[..10]);
    assert!(refused(place.path(), "short").contains("it is too short"));
    let mut foreign = whole.clone();
    foreign[8] = 9;
    write("foreign", &foreign);
    assert!(refused(place.path(), "foreign").contains("it is of version 9"));
    let mut damaged = whole.clone();
    let steps = first_steps(&whole);
    damaged[steps..steps + 8].iter_mut().for_each(|octet| *octet ^= 0x55);
    write("damaged", &damaged);
    let said = refused(place.path(), "damaged");
    assert!(said.contains("damaged: ") && said.contains("the trace is damaged at byte "), "{said}");
    assert!(refused(place.path(), "nowhere").contains("open the trace nowhere: No such file"));
    assert!(refused(place.path(), ".").contains("it is no file"));
}

#[test]
fn a_trace_that_was_cut_off_is_simulated_as_far_as_it_goes() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("long.qtrace");
    scattered(&path, 1, 1_500);
    let whole = fs::read(&path).unwrap();
    fs::write(place.path().join("cut.qtrace"), &whole[..whole.len() * 2 / 3]).unwrap();
    let output = run(place.path(), &["sim", "run", "cut.qtrace", "--json"]);
    expect(&output, 0);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["facts"]["cut_short"], true);
    assert!(summary["warnings"][0].as_str().unwrap().contains("the trace has no end"));
    assert!(summary["chip"]["instructions"].as_u64().unwrap() > 0);
    let page = run(place.path(), &["sim", "run", "cut.qtrace"]);
    assert!(text(&page.stdout).contains("cut.qtrace (cut short)"), "{}", text(&page.stdout));
}

#[test]
fn a_replay_that_is_stuck_says_who_waits_for_what() {
    let place = tempfile::tempdir().unwrap();
    stuck(&place.path().join("stuck.qtrace"));
    let output = run(place.path(), &["sim", "run", "stuck.qtrace"]);
    expect(&output, 5);
    let said = text(&output.stderr);
    assert!(said.contains("stuck.qtrace: the replay is stuck at "), "{said}");
    assert!(said.contains("thread 0 waits for the end of thread 1"), "{said}");
    assert!(said.contains("thread 1 waits for the lock at 0x40"), "{said}");
    assert!(text(&output.stdout).contains("This run was cut short"));
    let kept = place.path().join(only_run(place.path()));
    let why = json(&kept.join("manifest.json"))["interrupted"].as_str().unwrap().to_owned();
    assert!(why.contains("the replay is stuck"), "{why}");
}

#[test]
fn the_machine_is_printed_checked_and_set() {
    let place = tempfile::tempdir().unwrap();
    let printed = run(place.path(), &["sim", "config"]);
    expect(&printed, 0);
    assert_eq!(Config::from_toml(&text(&printed.stdout)).unwrap(), Config::default());
    let write = |name: &str, words: &str| fs::write(place.path().join(name), words).unwrap();
    write("default.toml", &text(&printed.stdout));
    let same = run(place.path(), &["sim", "config", "--check", "default.toml"]);
    assert!(text(&same.stdout).contains("It is the default."), "{}", text(&same.stdout));
    write("large.toml", "[l2]\nkib = 1024\n");
    let large = run(place.path(), &["sim", "config", "--check", "large.toml"]);
    expect(&large, 0);
    assert!(text(&large.stdout).contains("l2.kib = 1024  (default: 256)"), "{}", text(&large.stdout));
    write("wrong.toml", "[l2]\nkib = 100\n");
    for args in
        [&["sim", "config", "--check", "wrong.toml"][..], &["sim", "run", "x", "--config", "wrong.toml"]]
    {
        let wrong = run(place.path(), args);
        expect(&wrong, 5);
        assert!(text(&wrong.stderr).contains("wrong.toml: ") && text(&wrong.stderr).contains("kib"));
    }
    for set in ["l2.kib=100", "l9.kib=1", "l2.kib", "=3"] {
        let wrong = run(place.path(), &["sim", "run", "x", "--set", set]);
        expect(&wrong, 2);
    }
}

#[test]
fn completions_and_manual_pages_know_the_verb() {
    let place = tempfile::tempdir().unwrap();
    let script = run(place.path(), &["sim", "completions", "bash"]);
    assert!(text(&script.stdout).contains("-o default quaver-sim"), "{}", text(&script.stdout));
    let script = run(place.path(), &["completions", "bash"]);
    assert!(text(&script.stdout).contains("quaver__subcmd__sim"), "{}", text(&script.stdout));
    expect(&run(place.path(), &["sim", "man", "-o", "pages"]), 0);
    for page in ["quaver-sim.1", "quaver-sim-run.1", "quaver-sim-config.1"] {
        assert!(place.path().join("pages").join(page).is_file(), "{page}");
    }
}

#[test]
fn without_the_simulator_the_program_says_what_to_do() {
    let place = tempfile::tempdir().unwrap();
    let lone = place.path().join("quaver");
    fs::copy(env!("CARGO_BIN_EXE_quaver"), &lone).unwrap();
    let sim = |path: &str| {
        let mut command = std::process::Command::new(&lone);
        command.args(["sim", "config", "--check", "nowhere.toml"]).env("PATH", path).output().unwrap()
    };
    let absent = sim("/nowhere");
    expect(&absent, 3);
    let said = text(&absent.stderr);
    assert!(
        said.contains("the simulator quaver-sim is neither in ") && said.contains("`make build`"),
        "{said}"
    );
    // In PATH it is found too, and says of the file what is wrong with it.
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_quaver")).parent().unwrap();
    expect(&run(place.path(), &["sim", "config"]), 0);
    let found = sim(bin.to_str().unwrap());
    expect(&found, 5);
    assert!(text(&found.stderr).contains("nowhere.toml"), "{}", text(&found.stderr));
}

/// Counts bytes that are read.
struct Counting {
    octets: Vec<u8>,
    read: Arc<AtomicU64>,
}

impl ReadAt for Counting {
    fn length(&self) -> io::Result<u64> {
        self.octets.length()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.octets.read_at(offset, buffer)
    }
}

/// Counts steps that are taken.
struct Taken<S> {
    steps: S,
    taken: Arc<AtomicU64>,
}

impl<S: Steps> Steps for Taken<S> {
    fn append(&mut self, accesses: &mut Vec<quaver_trace::step::Access>) -> Result<Step, TraceError> {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.steps.append(accesses)
    }
}

#[test]
fn a_trace_is_read_as_it_is_simulated_a_frame_a_thread_ahead() {
    const THREADS: u32 = 2;
    const STEPS: u64 = 1_500;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("long.qtrace");
    scattered(&path, THREADS, STEPS);
    let octets = fs::read(&path).unwrap();
    let length = octets.len() as u64;
    let read = Arc::new(AtomicU64::new(0));
    let trace = TraceReader::open(Counting { octets, read: Arc::clone(&read) }).unwrap();
    let before = read.load(Ordering::Relaxed);
    let taken = Arc::new(AtomicU64::new(0));
    let steps = (0..THREADS).map(|thread| Taken { steps: trace.steps(thread), taken: Arc::clone(&taken) });
    let mut machine = Machine::new(&Config::default(), &trace.dictionary, steps.collect());
    // Every step takes about as many bytes as any other, and a frame is at most about a megabyte of them.
    let step = (length - before) as f64 / f64::from(THREADS) / STEPS as f64;
    let frame = f64::from(1 << 20) + 2.0 * step;
    let mut looks = 0;
    while !machine.run(1).unwrap() {
        looks += 1;
        let ahead =
            (read.load(Ordering::Relaxed) - before) as f64 - taken.load(Ordering::Relaxed) as f64 * step;
        assert!(ahead <= f64::from(THREADS) * frame, "{ahead} bytes ahead, a frame is {frame}");
    }
    assert!(looks > 20, "{looks}");
    assert!(length as f64 > 2.0 * f64::from(THREADS) * frame, "the trace is much longer than what is held");
    let synchronised = |sync| matches!(sync, Step::Sync(Sync::Create { .. }));
    assert!(synchronised(trace.steps(0).step(&mut Vec::new()).unwrap()));
}
