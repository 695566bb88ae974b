//! Counts of `quaver noise` beside those of the kernel's osnoise tracer, where there is one.
//!
//! The tracer runs in an instance of our own, reached through a mount that ends with this process; the instance is
//! removed on every way out, and one that a killed test left behind is removed by the next trace.

use quaver_host::tracefs::instance::Instance;
use quaver_host::tracefs::{Dir, open_tracefs, remove_stale_instances};
use quaver_testbed::privileged::{Feature, Lack, privileged, skip};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

/// Measurements of each kind, in turn.
const ROUNDS: usize = 3;

/// Entries of each class in one second, as one of the two saw them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    nmi: u64,
    irq: u64,
    softirq: u64,
    thread: u64,
}

/// The counts of a line of the tracer's output: after the colon come runtime, noise, part available, largest noise,
/// then hardware, NMI, IRQ, softirq and thread.
fn counts_of(line: &str) -> Option<Counts> {
    if line.starts_with('#') {
        return None;
    }
    let (_, numbers) = line.split_once(": ")?;
    let numbers: Vec<&str> = numbers.split_whitespace().collect();
    let [_, _, _, _, _, nmi, irq, softirq, thread] = numbers[..] else { return None };
    let number = |text: &str| text.parse().ok();
    Some(Counts { nmi: number(nmi)?, irq: number(irq)?, softirq: number(softirq)?, thread: number(thread)? })
}

/// The tracer's list of CPUs, put back when dropped.
struct Chosen<'a> {
    root: &'a Dir,
    before: String,
}

impl<'a> Chosen<'a> {
    fn only(root: &'a Dir, cpu: u16) -> Self {
        let before = root.read("osnoise/cpus").expect("the tracer has a list of CPUs");
        root.write("osnoise/cpus", &cpu.to_string()).expect("the list can be written as root");
        Self { root, before }
    }
}

impl Drop for Chosen<'_> {
    fn drop(&mut self) {
        let _ = self.root.write("osnoise/cpus", self.before.trim());
    }
}

/// One second of the kernel's tracer.
fn kernel_counts(root: &Dir, cpu: u16) -> Counts {
    let _chosen = Chosen::only(root, cpu);
    let instance = Instance::create(root).expect("an instance can be made as root");
    instance.set("current_tracer", "osnoise").expect("the tracer runs in an instance (Linux 5.17 and later)");
    let begin = Instant::now();
    let counts = loop {
        std::thread::sleep(Duration::from_millis(100));
        let text = instance.dir().read("trace").expect("the trace can be read");
        if let Some(counts) = text.lines().find_map(counts_of) {
            break counts;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "the tracer gave no sample: {text}");
    };
    instance.set("current_tracer", "nop").expect("the tracer can be ended");
    counts
}

/// One second of ours.
fn our_counts(cpu: u16) -> Counts {
    let place = tempfile::tempdir().expect("a directory");
    let ended = Command::new(env!("CARGO_BIN_EXE_quaver"))
        .args(["noise", "--for", "1s", "--json", "--quiet", "--cpus", &cpu.to_string()])
        .env("QUAVER_RUNS", place.path())
        .output()
        .expect("the program runs");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let summary: Value = serde_json::from_slice(&ended.stdout).expect("standard output is JSON");
    let count = |class: &str| summary["cpus"][0][class]["count"].as_u64().expect("a number");
    Counts { nmi: count("nmi"), irq: count("irq"), softirq: count("softirq"), thread: count("thread") }
}

/// Takes one class's entries.
type Entries = fn(&Counts) -> u64;

fn median(counts: &[Counts], of: Entries) -> u64 {
    let mut values: Vec<u64> = counts.iter().map(of).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

/// Whether two counts may be of one class in two different seconds of a machine with other work: within 30 %, and three
/// standard deviations of the larger one (of a Poisson distribution), which are 30 at most.
fn agree(theirs: u64, here: u64) -> bool {
    let larger = theirs.max(here);
    theirs.abs_diff(here) <= larger * 3 / 10 + (3 * larger.isqrt()).min(30)
}

#[test]
fn a_class_that_one_side_does_not_see_is_no_agreement() {
    for count in [20, 42, 1_000] {
        assert!(!agree(count, 0) && !agree(0, count), "{count}");
    }
    assert!(!agree(1_000, 500) && !agree(500, 1_000));
    for (theirs, here) in [(0, 0), (0, 3), (3, 0), (42, 30), (1_000, 1_300), (1_000, 700)] {
        assert!(agree(theirs, here) && agree(here, theirs), "{theirs} {here}");
    }
}

#[test]
fn a_line_of_the_tracer_is_understood() {
    let line = "  osnoise/1-4321    [001] .....   512.000042: 1000000        312  99.96880        20      3      1    260     44      7";
    assert_eq!(counts_of(line), Some(Counts { nmi: 1, irq: 260, softirq: 44, thread: 7 }));
    assert_eq!(
        counts_of("#           TASK-PID      CPU#  |||||   TIMESTAMP    IN US   IN US  AVAILABLE"),
        None
    );
    assert_eq!(counts_of(""), None);
}

#[test]
fn counts_agree_with_the_kernels_osnoise() {
    const NAME: &str = "counts_agree_with_the_kernels_osnoise";
    if !privileged(NAME) {
        return;
    }
    let (root, _) = open_tracefs().expect("tracefs can be mounted as root");
    let tracers = root.read("available_tracers").expect("tracefs lists its tracers");
    if !tracers.split_whitespace().any(|tracer| tracer == "osnoise") {
        return skip(NAME, Lack::Feature(Feature::OsnoiseTracer));
    }
    remove_stale_instances(&root).expect("leftovers can be removed as root");
    let allowed = rustix::thread::sched_getaffinity(None).expect("the affinity can be read");
    let cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let cpu = cpus.max().expect("a process has a CPU") as u16;
    let (mut kernel, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        kernel.push(kernel_counts(&root, cpu));
        ours.push(our_counts(cpu));
    }
    let classes: [(&str, Entries); 4] = [
        ("NMI", |counts| counts.nmi),
        ("IRQ", |counts| counts.irq),
        ("softirq", |counts| counts.softirq),
        ("thread", |counts| counts.thread),
    ];
    for (class, of) in classes {
        let (theirs, here) = (median(&kernel, of), median(&ours, of));
        assert!(agree(theirs, here), "{class}: kernel {theirs}, quaver {here}: {kernel:?} {ours:?}");
    }
}
