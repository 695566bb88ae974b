//! `quaver sim run --cure` as a user runs it, on traces and kernel activity that are made here.

mod sim_made;
mod sim_place;
mod simulator;
mod sync_run;

use quaver_sim_program::intervals::{SimState, read_sim_intervals};
use quaver_trace::block::{Block, Class, Instruction, Registers};
use quaver_trace::epochs::{About, Activity, EpochFacts, EpochWriter};
use quaver_trace::step::Access;
use serde_json::Value;
use sim_made::{baton, meetings, scattered};
use sim_place::{expect, only_run, quaver, run, text};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use sync_run::Bench;

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Kernel activity of 5 us and more: a walk through the kernel's own lines, with 30 divisions after each.
fn library(path: &Path) {
    let divide = Instruction {
        octets: 1,
        class: Class::Divide,
        loads: false,
        stores: false,
        reads: Registers::of(0),
        writes: Registers::of(0),
    };
    let load = Instruction { class: Class::Integer, loads: true, stores: true, ..divide };
    let mut instructions = vec![load];
    instructions.extend([divide; 30]);
    let facts =
        EpochFacts { tool: "a test".to_owned(), architecture: "x86-64".to_owned(), ..EpochFacts::default() };
    let mut writer = EpochWriter::new(fs::File::create(path).unwrap(), &facts).unwrap();
    let number = writer.define(Block { pc: 0xffff_ffff_8100_0000, instructions });
    let about = About {
        activity: Activity::SystemCall(202),
        task: "baton".into(),
        processor: 0,
        bottom_half: false,
        from_idle: false,
        switched: false,
        cut: false,
    };
    for lines in [25_u64, 50, 100, 200] {
        let access = |line: u64| Access {
            address: 0xffff_8880_0000_0000 + 64 * line,
            instruction: 0,
            octets: 8,
            write: line.is_multiple_of(2),
        };
        let accesses: Vec<Access> = (0..lines).map(access).collect();
        writer.add(&about, accesses.iter().map(|one| (number, std::slice::from_ref(one)))).unwrap();
    }
    writer.finish().unwrap();
}

/// Every wait that a signal ended, and every lock that was waited for, takes some 20 us more; subframes are short, so that there
/// are some.
const CURE: &str = "library = 'kernel.qepochs'
kept_subframes = 5000
threshold_ns = 5000
[injection.classes.signal-wait]
kind = 'exceedance'
probability = 0.8
over_ns = 5000
mean_ns = 15000
sigma = 0.5
[injection.classes.lock-unlock]
kind = 'exceedance'
probability = 0.5
over_ns = 5000
mean_ns = 10000
sigma = 0.5
[frames]
subframe_ns = 100000
[dvfs]
[evictions]
[cache]
kind = 'os-cache'
";

/// The baton, its cure and its kernel activity.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    baton(&place.path().join("baton.qtrace"));
    library(&place.path().join("kernel.qepochs"));
    fs::write(place.path().join("cure.toml"), CURE).unwrap();
    place
}

const RUN: [&str; 7] =
    ["sim", "run", "baton.qtrace", "--cure", "cure.toml", "--set", "memory.latency=100 ns"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    RUN.iter().copied().chain(more.iter().copied()).collect()
}

/// What a cured run of a trace says first.
fn headline(place: &Path, trace: &str) -> String {
    let output = run(place, &["sim", "run", trace, "--cure", "cure.toml", "--json"]);
    expect(&output, 0);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    json["result"]["verdict"].as_str().unwrap().to_owned()
}

#[test]
fn the_headline_names_what_was_injected_and_does_not_make_up_a_cause() {
    let place = place();
    let cure = |text: &str| fs::write(place.path().join("cure.toml"), text).unwrap();
    let timer = "[injection.timer]\nperiod_us = 50\ncores = [0, 1]\n\
                 duration = { kind = 'exceedance', probability = 1.0, over_ns = 1000, mean_ns = 4000, sigma = 0.5 }\n";
    cure(timer);
    assert!(headline(place.path(), "baton.qtrace").starts_with("Slow-down by timer interrupts: "));
    cure("[dvfs]\n");
    let quiet = headline(place.path(), "baton.qtrace");
    assert!(quiet.starts_with("Nothing was injected; the cure alone changes the run time by "), "{quiet}");
    // Of this trace nothing is whole but its first steps, which are no instructions.
    let bundled = concat!(env!("CARGO_MANIFEST_DIR"), "/../simulator/sim/traces/lu.qtrace.txt");
    expect(&run(place.path(), &["sim", "trace", "--armour", bundled, "--output", "whole.qtrace"]), 0);
    let whole = fs::read(place.path().join("whole.qtrace")).unwrap();
    fs::write(place.path().join("cut.qtrace"), &whole[..whole.len() * 7 / 10]).unwrap();
    cure(timer);
    let cut = headline(place.path(), "cut.qtrace");
    let why = "is unknown: no instruction ran after the warm-up.";
    assert_eq!(cut, format!("The slow-down of what is whole of a trace that was cut short {why}"));
}

#[test]
fn a_cured_run_tells_what_was_injected_found_and_given_back() {
    let place = place();
    let output = run(place.path(), &with(&["--seeds", "3"]));
    expect(&output, 0);
    let page = text(&output.stdout);
    for said in [
        "Slow-down by sync jitter: ",
        "with it (means of 3 seeds).",
        "Injected jitter and its cure  DVFS (reactive, nominal, k = 1, largest debt passes), OS cache with sharing; 3 seeds",
        "slow-down without cure",
        "slow-down with cure",
        "additional core power",
        "Measured after a warm-up of",
        "10.0 % of the run, because 90 subframes would be 9.00 ms",
        "Injected jitter runs traced kernel code (a library of 4 epochs)",
        "signal-wait",
        "No jitter-unit buffer overflowed",
        "The kernel evicted",
        "frequency changes in",
        "OS cache: ",
        "CPI stack  time of all cores",
    ] {
        let flat = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&said.split_whitespace().collect::<Vec<_>>().join(" ")), "{said}: {page}");
    }
    assert!(page.lines().all(|line| line.chars().count() <= 104), "{page}");
    let kept = place.path().join(only_run(place.path()));
    let summary = json(&kept.join("summary.json"));
    let cure = &summary["cure"];
    assert_eq!(summary["complete"], true);
    assert_eq!(cure["seeds"].as_array().unwrap().len(), 3);
    for spread in ["slow_down", "slow_down_without", "power_overhead"] {
        let of = |name: &str| cure[spread][name].as_f64().unwrap();
        assert!(of("min") <= of("mean") && of("mean") <= of("max"), "{spread}: {cure}");
        assert_eq!(cure[spread]["runs"], 3);
    }
    let mean = |name: &str| cure[name]["mean"].as_f64().unwrap();
    assert!(mean("slow_down_without") > 0.0 && mean("slow_down") < mean("slow_down_without"), "{cure}");
    assert!(mean("power_overhead") > 0.0 && mean("power_overhead") < 0.728, "{cure}");
    let active: f64 =
        cure["points"].as_array().unwrap().iter().map(|point| point["active_share"].as_f64().unwrap()).sum();
    assert!((active - 1.0).abs() < 1e-9);
    assert!(cure["second_level"]["hits"][1].as_u64().unwrap() > 0, "the kernel's lines were found again");
    assert_eq!(cure["kernel_epochs"], 4);
    assert!(!cure["over_time"].as_array().unwrap().is_empty());
    let classes = cure["classes"].as_array().unwrap();
    let waits = classes.iter().find(|class| class["class"] == "signal-wait").unwrap();
    assert!(waits["found"].as_u64().unwrap() > 0 && waits["injected"].as_u64() <= waits["drawn"].as_u64());
    let html = fs::read_to_string(kept.join("report.html")).unwrap();
    for said in ["Jitter per subframe over time", "Frequency ratio f/f0, mean per subframe", "By seed"] {
        assert!(html.contains(said), "{said}");
    }
    let again = run(place.path(), &["analyze", &kept.display().to_string()]);
    assert_eq!(text(&again.stdout).lines().count(), page.lines().count());
    assert_eq!(json(&kept.join("summary.json")), summary, "drawn again, it is the same");
}

#[test]
fn the_same_cure_gives_the_same_octets_and_what_was_asked_can_be_asked_again() {
    let place = place();
    let first = run(place.path(), &with(&["--json"]));
    expect(&first, 0);
    let kept = only_run(place.path());
    let cure = format!("{kept}/cure.toml");
    let machine = format!("{kept}/machine.toml");
    let again = run(
        place.path(),
        &["sim", "run", "baton.qtrace", "--cure", &cure, "--config", &machine, "--json", "-o", "again"],
    );
    expect(&again, 0);
    let [first, again] = [&first, &again].map(|run| quaver_testbed::printed::numbers(&run.stdout));
    assert_eq!(again.to_string(), first.to_string());
    let other = run(place.path(), &["sim", "config", "--cure", "--check", &cure]);
    expect(&other, 0);
    assert!(text(&other.stdout).contains("4 epochs of kernel activity"), "{}", text(&other.stdout));
}

#[test]
fn without_injection_nothing_changes_and_sharing_is_told_apart() {
    let place = place();
    let quiet = "[dvfs]\n[evictions]\n[cache]\nkind = 'os-cache'\nos_cache_sharing = false\n";
    fs::write(place.path().join("quiet.toml"), quiet).unwrap();
    let plain = run(place.path(), &["sim", "run", "baton.qtrace", "--json", "-o", "plain"]);
    let cured =
        run(place.path(), &["sim", "run", "baton.qtrace", "--json", "--cure", "quiet.toml", "--seeds", "5"]);
    expect(&cured, 0);
    let [plain, cured] = [&plain, &cured].map(|run| serde_json::from_slice::<Value>(&run.stdout).unwrap());
    assert_eq!(cured["chip"]["duration_fs"], plain["chip"]["duration_fs"], "not one femtosecond");
    let cure = &cured["cure"];
    assert_eq!(cure["seeds"].as_array().unwrap().len(), 1, "without draws one seed is like the other");
    // The instruction from which on it is measured is known to a block.
    for share in [&cure["slow_down"]["max"], &cure["slow_down"]["min"], &cure["cache_gain"]] {
        assert!(share.as_f64().unwrap().abs() < 1e-4, "{cure}");
    }
    assert_eq!((&cure["changes"], plain.get("cure")), (&0.into(), None));
    assert_eq!(plain["counts"].get("second_level"), None);
}

#[test]
fn the_printed_cure_is_one_that_can_be_run() {
    let place = place();
    let printed = run(place.path(), &["sim", "config", "--cure"]);
    expect(&printed, 0);
    fs::write(place.path().join("printed.toml"), &printed.stdout).unwrap();
    let output = run(place.path(), &["sim", "run", "baton.qtrace", "--cure", "printed.toml"]);
    expect(&output, 0);
    assert!(
        text(&output.stdout).contains("runs traced kernel code (a library of "),
        "{}",
        text(&output.stdout)
    );
    fs::write(place.path().join("time.toml"), "[injection]\n").unwrap();
    let time = run(place.path(), &["sim", "run", "baton.qtrace", "--cure", "time.toml", "-o", "time"]);
    assert!(text(&time.stdout).contains("Injected jitter only took time"), "{}", text(&time.stdout));
    for (cure, said) in [
        ("[dvfs]\nk = 3", "k"),
        ("library = 'nowhere'", "nowhere"),
        ("[cache]\nkind = 'os-cache'\nos_cache_kib = 63", "cache.os_cache_kib"),
    ] {
        fs::write(place.path().join("wrong.toml"), cure).unwrap();
        let wrong = run(place.path(), &["sim", "run", "baton.qtrace", "--cure", "wrong.toml", "-o", "none"]);
        expect(&wrong, 5);
        assert!(text(&wrong.stderr).contains(said), "{}", text(&wrong.stderr));
    }
    let left = fs::read_dir(place.path().join("none")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "what was not simulated is not kept");
    expect(&run(place.path(), &["sim", "run", "baton.qtrace", "--seeds", "3"]), 2);
}

#[test]
fn control_c_keeps_what_was_simulated() {
    let place = tempfile::tempdir().unwrap();
    scattered(&place.path().join("long.qtrace"), 2, 4_000);
    fs::write(place.path().join("cure.toml"), "[injection]\n[dvfs]\n").unwrap();
    let args = ["sim", "run", "long.qtrace", "--cure", "cure.toml", "--seeds", "10", "--json"];
    let child = quaver(place.path(), &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let manifest = || {
        let runs = fs::read_dir(place.path().join("runs")).ok()?;
        Some(runs.filter_map(Result::ok).any(|run| run.path().join("cure.toml").is_file()))
    };
    while manifest() != Some(true) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    expect(&output, 130);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["complete"], false);
    assert!(summary["chip"]["instructions"].as_u64().unwrap() > 0);
    let kept = place.path().join(only_run(place.path()));
    assert_eq!(json(&kept.join("manifest.json"))["complete"], false);
    assert!(kept.join("report.html").is_file());
}

/// What a simulation of `trace` says that injects this run.
fn injected(place: &Path, trace: &str, recorded: &Path, seed: u64) -> (PathBuf, Value) {
    let cure = format!("recorded = '{}'\n[injection]\nseed = {seed}\n", recorded.display());
    fs::write(place.join("cure.toml"), cure).unwrap();
    let runs = format!("runs-{seed}");
    let output = run(place, &["sim", "run", trace, "--cure", "cure.toml", "--json", "-o", &runs]);
    expect(&output, 0);
    let kept = fs::read_dir(place.join(&runs)).unwrap().next().unwrap().unwrap().path();
    (kept, serde_json::from_slice(&output.stdout).unwrap())
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a count: {value}"))
}

/// Four threads that hand a baton to each other by signals.
const PASSES: &str = r"
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t passed[4] = { PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER,
	PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER };
static int turn;
static void *run(void *own)
{
	int mine = (int)(long)own;
	for (int i = 0; i < 300; i++) {
		pthread_mutex_lock(&lock);
		while (turn != mine)
			pthread_cond_wait(&passed[mine], &lock);
		turn = (mine + 1) % 4;
		pthread_cond_signal(&passed[turn]);
		pthread_mutex_unlock(&lock);
	}
	return 0;
}
int main(void)
{
	pthread_t others[3];
	for (long i = 0; i < 3; i++)
		pthread_create(&others[i], 0, run, (void *)(i + 1));
	run(0);
	for (int i = 0; i < 3; i++)
		pthread_join(others[i], 0);
	return 0;
}
";

#[test]
fn a_recorded_program_is_injected_as_it_was_recorded_class_by_class() {
    // Some wake-ups take longer than this, and some calls take less.
    let bench = Bench::of_text(PASSES, &[]);
    expect(&bench.run(&["--no-kernel", "--threshold", "2us", "-q"]), 0);
    let summary = bench.summary();
    let recorded = |class: &Value, what: &str| {
        let all = summary["results"]["classes"].as_array().unwrap();
        count(&all.iter().find(|one| one["class"] == *class).expect("a class of the protocol")[what]["count"])
    };
    let place = tempfile::tempdir().unwrap();
    baton(&place.path().join("baton.qtrace"));
    let mut waits = (0, 0);
    for seed in 1..=3 {
        let (kept, simulated) = injected(place.path(), "baton.qtrace", &bench.last_run(), seed);
        let cure = &simulated["cure"];
        let (mut number, mut sum_ns) = (0, 0);
        for class in cure["recorded"]["classes"].as_array().unwrap() {
            let name = &class["class"];
            assert_eq!(count(&class["timed"]), recorded(name, "timed"), "{name}");
            // Waits for mutexes are not injected, for the simulated mutex has its own.
            let late = (count(&class["late"]), recorded(name, "late"));
            assert!(late.0 == late.1 || name == "signal-wait" && late.0 < late.1, "{name}: {late:?}");
            assert!(count(&class["injected"]) <= count(&class["drawn"]), "{class}");
            number += count(&class["injected"]);
            sum_ns += count(&class["injected_ns"]);
            if name == "signal-wait" {
                waits = (waits.0 + count(&class["drawn"]), waits.1 + count(&class["injected"]));
            }
        }
        // Each stands on the simulated core as long as it was drawn.
        let kernel = read_sim_intervals(&kept.join("intervals.parquet")).unwrap().into_iter();
        let kernel: Vec<u64> = kernel
            .filter(|interval| interval.state == SimState::Kernel)
            .map(|interval| (interval.end_fs - interval.start_fs) / 1_000_000)
            .collect();
        assert_eq!((kernel.len() as u64, kernel.iter().sum::<u64>()), (number, sum_ns), "each is run once");
        assert_eq!(cure["recorded"]["recording"]["threshold_ns"], 2_000);
        // What was asked can be asked again, and is the same recording.
        let again = fs::read_to_string(kept.join("cure.toml")).unwrap();
        assert!(again.contains(cure["recorded"]["recording"]["sha256"].as_str().unwrap()), "{again}");
    }
    // A thread that was itself held up may come to its wait when the signal has gone by.
    assert!((1..=3 * 199).contains(&waits.0) && waits.1 > 0, "{waits:?}");
}

#[test]
fn barriers_of_a_bundled_kernel_are_late_together_in_the_simulation_as_in_the_recording() {
    const ROUNDS: u64 = 3_000;
    let bench = Bench::of_kernel("ocean");
    let recording = bench
        .sync(&["--no-kernel", "--threshold", "2us", "-q"])
        .args(["-p4", "-n64", "-bposix"])
        .output()
        .expect("the program runs");
    expect(&recording, 0);
    let place = tempfile::tempdir().unwrap();
    meetings(&place.path().join("meetings.qtrace"), 4, ROUNDS);
    let (_, simulated) = injected(place.path(), "meetings.qtrace", &bench.last_run(), 1);
    let recorded = &simulated["cure"]["recorded"];
    let by_late = |joint: &str| -> BTreeMap<u64, u64> {
        let all = recorded[joint]["by_late"].as_object().unwrap().iter();
        all.map(|(late, number)| (late.parse().unwrap(), count(number))).collect()
    };
    let (there, here) = (by_late("joint"), by_late("drawn_joint"));
    let (all, late) = (there.values().sum::<u64>(), there.keys().map(|late| late * there[late]).sum::<u64>());
    assert_eq!(here.values().sum::<u64>(), ROUNDS);
    assert_eq!(
        (count(&recorded["drawn_joint"]["left_out"]), count(&recorded["drawn_joint"]["other_size"])),
        (0, 0)
    );
    let class =
        recorded["classes"].as_array().unwrap().iter().find(|one| one["class"] == "broadcast-wait").unwrap();
    assert_eq!((count(&class["timed"]), count(&class["late"])), (3 * all, late), "all meet at each barrier");
    assert_eq!(count(&class["drawn"]), 3 * ROUNDS);
    // Hoeffding's bounds: one recording in 10,000 is farther off.
    let bound = (ROUNDS as f64 * 20_000_f64.ln() / 2.0).sqrt();
    for size in 0..=3 {
        let share = there.get(&size).copied().unwrap_or(0) as f64 / all as f64;
        let off = here.get(&size).copied().unwrap_or(0) as f64 - ROUNDS as f64 * share;
        assert!(off.abs() <= bound, "{size} late together: {here:?}, recorded {there:?}");
    }
    let injected = count(&class["injected"]);
    assert!(injected > 0, "some of {all} barriers are late: {there:?}");
    // A barrier has three times at most. Between a hundred quantiles the distance grows by no more than a hundredth.
    let bound = 3.0 * (ROUNDS as f64 * 2_000_000_f64.ln() / 2.0).sqrt() / injected as f64 + 0.01;
    assert!(class["distance"].as_f64().unwrap() <= bound, "{class}, {bound}");
}

#[test]
fn a_run_that_cannot_be_injected_is_refused_with_the_reason() {
    let place = place();
    let bench = Bench::of_text("int main(void) { return 0; }", &[]);
    expect(&bench.run(&["--no-kernel", "-q"]), 0);
    let two = Bench::of_text(&PASSES.replace("% 4", "% 2").replace("i < 3", "i < 1"), &[]);
    expect(&two.run(&["--no-kernel", "-q"]), 0);
    expect(&run(place.path(), &["sim", "run", "baton.qtrace"]), 0);
    let simulated = place.path().join(only_run(place.path()));
    let runs = |path: &Path| format!("recorded = '{}'\n", path.display());
    for (cure, said) in [
        (runs(&simulated), "a run of quaver sim; lateness is injected from runs of quaver sync"),
        (runs(&bench.last_run()), "there is no lateness to inject"),
        (runs(&two.last_run()), "the trace has 4 threads and"),
        (runs(&place.path().join("nowhere")), "nowhere"),
        (runs(&two.last_run()) + "[injection]\ntogether = 0.5\n", "together: 0 with recorded"),
        (
            runs(&two.last_run())
                + "[injection.recording]\nrun = 'other'\nsha256 = '00'\nthreshold_ns = 10000\n",
            "is not the recording other",
        ),
        (
            "[injection.recording]\nrun = 'other'\nsha256 = '00'\nthreshold_ns = 10000\n".to_owned(),
            "name the run in recorded",
        ),
    ] {
        fs::write(place.path().join("wrong.toml"), cure).unwrap();
        let wrong = run(place.path(), &["sim", "run", "baton.qtrace", "--cure", "wrong.toml", "-o", "none"]);
        expect(&wrong, 5);
        assert!(text(&wrong.stderr).contains(said), "{said}: {}", text(&wrong.stderr));
    }
    let left = fs::read_dir(place.path().join("none")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "what was not simulated is not kept");
}
