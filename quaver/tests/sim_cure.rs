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
use sim_made::{baton, scattered};
use sim_place::{expect, only_run, quaver, run, text};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
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
        "Injected jitter ran 4 epochs of traced kernel code",
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
    assert!(text(&output.stdout).contains("epochs of traced kernel code"), "{}", text(&output.stdout));
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

/// Two threads that hand a baton to each other by signals.
const PASSES: &str = r"
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t passed[2] = { PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER };
static int turn;
static void *run(void *own)
{
	int mine = own != 0;
	for (int i = 0; i < 300; i++) {
		pthread_mutex_lock(&lock);
		while (turn != mine)
			pthread_cond_wait(&passed[mine], &lock);
		turn = !mine;
		pthread_cond_signal(&passed[!mine]);
		pthread_mutex_unlock(&lock);
	}
	return 0;
}
int main(void)
{
	pthread_t other;
	pthread_create(&other, 0, run, &other);
	run(0);
	return pthread_join(other, 0);
}
";

/// What a recording says of a class: its part that was late, and from where to where each of these was late, nanoseconds.
struct RecordedClass {
    name: String,
    part: f64,
    bins: Vec<(f64, f64)>,
}

fn recorded_classes(summary: &Value, over_ns: f64) -> Vec<RecordedClass> {
    let class = |class: &Value| {
        let number = |of: &Value| of.as_f64().expect("a number");
        let bins = class["bins"].as_array().unwrap().iter();
        RecordedClass {
            name: class["class"].as_str().unwrap().to_owned(),
            part: number(&class["late"]["count"]) / number(&class["timed"]["count"]).max(1.0),
            bins: bins
                .map(|bin| (over_ns + number(&bin["from_ns"]), over_ns + number(&bin["to_ns"])))
                .collect(),
        }
    };
    summary["results"]["classes"].as_array().unwrap().iter().map(class).collect()
}

#[test]
fn a_recorded_program_is_injected_class_by_class_as_often_and_as_long_as_it_was_late() {
    // Some wake-ups take longer than this, and some calls take less.
    let bench = Bench::of_text(PASSES, &[]);
    let recording = bench.run(&["--no-kernel", "--threshold", "2us", "-q"]);
    expect(&recording, 0);
    let recorded = recorded_classes(&bench.summary(), 2_000.0);
    let place = tempfile::tempdir().unwrap();
    baton(&place.path().join("baton.qtrace"));
    let run_of = bench.last_run().display().to_string();
    // By class, over all seeds: occasions, and those at which something was injected.
    let mut counted = BTreeMap::<String, (u64, u64)>::new();
    for seed in 1..=10 {
        let cure = format!("recorded = '{run_of}'\n[injection]\nseed = {seed}\n");
        fs::write(place.path().join("cure.toml"), cure).unwrap();
        let runs = format!("runs-{seed}");
        let output =
            run(place.path(), &["sim", "run", "baton.qtrace", "--cure", "cure.toml", "--json", "-o", &runs]);
        expect(&output, 0);
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut all = 0;
        for class in summary["cure"]["classes"].as_array().unwrap() {
            let name = class["class"].as_str().unwrap();
            let count = |what: &str| class[what].as_u64().unwrap();
            let sums = counted.entry(name.to_owned()).or_default();
            *sums = (sums.0 + count("drawn"), sums.1 + count("injected"));
            all += count("injected");
            let of = recorded.iter().find(|one| one.name == name).expect("a class of the protocol");
            let sum_ns = class["injected_fs"].as_f64().unwrap() / 1e6;
            let least = of.bins.iter().map(|bin| bin.0).fold(f64::INFINITY, f64::min);
            let most = of.bins.iter().map(|bin| bin.1).fold(0.0, f64::max);
            let number = count("injected") as f64;
            assert!(
                number == 0.0 || (number * least..=number * most * 1.000_001).contains(&sum_ns),
                "{name}: {sum_ns}"
            );
        }
        // Each stands on the simulated core as long as it was drawn: in one of the recording's bins.
        let kept = fs::read_dir(place.path().join(&runs)).unwrap().next().unwrap().unwrap().path();
        let kernel: Vec<f64> = read_sim_intervals(&kept.join("intervals.parquet"))
            .unwrap()
            .into_iter()
            .filter(|interval| interval.state == SimState::Kernel)
            .map(|interval| (interval.end_fs - interval.start_fs) as f64 / 1e6)
            .collect();
        assert_eq!(kernel.len() as u64, all, "each is run once");
        for ns in kernel {
            let mut bins = recorded.iter().flat_map(|class| &class.bins);
            assert!(bins.any(|bin| (bin.0 - 1.0..=bin.1 + 1.0).contains(&ns)), "{ns} ns was never recorded");
        }
    }
    for one in &recorded {
        let (drawn, injected) = counted.get(&one.name).copied().unwrap_or_default();
        // The draws follow from the seeds: one sample in 10,000 is farther off for any part at all (Massart 1990).
        let bound = (drawn as f64 * 10.0 / 2.0).sqrt();
        let off = injected as f64 - drawn as f64 * one.part;
        assert!(off.abs() <= bound, "{}: {injected} of {drawn}, recorded {}", one.name, one.part);
    }
    let (drawn, injected) = counted["signal-wait"];
    assert_eq!(drawn, counted["signal"].0, "who waits was woken by one signal");
    // A thread that was itself held up may come to its wait when the signal has gone by.
    assert!((1..=10 * 199).contains(&drawn) && injected > 0, "{counted:?}");
}
