//! CPUs whose time in interrupts, softirqs and between threads is counted in the kernel, by length.

#[cfg(feature = "bpf")]
mod times;
#[cfg(not(feature = "bpf"))]
#[path = "without_bpf.rs"]
mod times;

use quaver_exposition::Buckets;
use quaver_exposition::histogram::{Powers, power_ns};
use quaver_instrument::interrupt::Interrupt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use times::TimeCounter;

/// The first bucket has the times up to 2 to this power of a second.
const LEAST_EXPONENT: i32 = -21;
/// Buckets: upper bounds of 2^-21 s, doubled up to 2^-3 s, and one above all.
const BUCKETS: usize = 20;
/// Time between two readings of the counts.
const COUNT: Duration = Duration::from_secs(1);
/// Time between two looks at whether the watch is to end.
const TICK: Duration = Duration::from_millis(50);
/// Until counting is tried again where it could not begin.
const AGAIN: Duration = Duration::from_secs(30);

/// What is counted, as `bpf/c/cpus.bpf.c` numbers it: softirqs as the kernel does (include/linux/interrupt.h).
pub(crate) const KINDS: [(Family, &str); 16] = [
    (Family::Softirq, "hi"),
    (Family::Softirq, "timer"),
    (Family::Softirq, "net_tx"),
    (Family::Softirq, "net_rx"),
    (Family::Softirq, "block"),
    (Family::Softirq, "irq_poll"),
    (Family::Softirq, "tasklet"),
    (Family::Softirq, "sched"),
    (Family::Softirq, "hrtimer"),
    (Family::Softirq, "rcu"),
    (Family::Interrupt, "device"),
    (Family::Interrupt, "timer"),
    (Family::Interrupt, "other"),
    (Family::RunQueue, ""),
    (Family::IdleExit, ""),
    (Family::Steal, ""),
];

/// What a time is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Softirq,
    Interrupt,
    RunQueue,
    IdleExit,
    Steal,
}

/// Counts of times by length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Times {
    pub(crate) counts: [u64; BUCKETS],
    pub(crate) sum_ns: u64,
}

impl Times {
    /// Upper bound of a bucket but the last.
    pub(crate) fn bound_ns(bucket: usize) -> u64 {
        power_ns(LEAST_EXPONENT + bucket as i32)
    }

    /// Counts between powers of two of a second, which are all that was counted.
    pub(crate) fn by_powers(&self) -> Powers {
        Powers { least_exponent: LEAST_EXPONENT, counts: self.counts.to_vec() }
    }

    /// Adds what was counted since an earlier reading.
    fn add_since(&mut self, earlier: &Self, now: &Self) {
        let counts = now.counts.iter().zip(&earlier.counts);
        self.counts
            .iter_mut()
            .zip(counts)
            .for_each(|(into, (now, before))| *into += now.saturating_sub(*before));
        self.sum_ns += now.sum_ns.saturating_sub(earlier.sum_ns);
    }
}

impl From<&Times> for Buckets {
    fn from(times: &Times) -> Self {
        let powers = times.by_powers();
        Self {
            bounds_ns: (0..times.counts.len() - 1).map(Times::bound_ns).collect(),
            counts: powers.counts.clone(),
            examples: BTreeMap::new(),
            sum_ns: times.sum_ns,
            powers,
        }
    }
}

/// What the CPUs spent, of each the kinds of [`KINDS`].
pub(crate) type CpuTimes = BTreeMap<u16, Vec<Times>>;

/// Takes an earlier reading and the present one.
pub(crate) type Publish<'a> = &'a dyn Fn(&CpuTimes, &CpuTimes);

/// Counts until it is asked to end, on these CPUs.
pub(crate) fn run(cpus: &[u16], publish: Publish<'_>, end: &Interrupt) {
    let mut said = String::new();
    while !end.requested() {
        let Err(error) = count(cpus, publish, end) else { continue };
        // The kernel's verifier speaks in several lines.
        let words = format!("{error:#}").replace('\n', " ");
        if words != said {
            quaver_instrument::tell!("quaver watch: times of CPUs are not counted: {words}");
        }
        said = words;
        pause(AGAIN, end);
    }
}

fn pause(time: Duration, end: &Interrupt) {
    let start = Instant::now();
    while start.elapsed() < time && !end.requested() {
        std::thread::sleep(TICK);
    }
}

fn count(cpus: &[u16], publish: Publish<'_>, end: &Interrupt) -> anyhow::Result<()> {
    let counter = TimeCounter::start(cpus)?;
    let mut last = CpuTimes::new();
    loop {
        let ends = end.requested();
        let now = counter.read(cpus)?;
        publish(&last, &now);
        last = now;
        if ends {
            return Ok(());
        }
        pause(COUNT, end);
    }
}

/// Adds what was counted since an earlier reading.
pub(crate) fn add_since(sums: &mut CpuTimes, earlier: &CpuTimes, now: &CpuTimes) {
    let none = Times::default();
    for (cpu, kinds) in now {
        let into = sums.entry(*cpu).or_insert_with(|| vec![Times::default(); KINDS.len()]);
        let before = earlier.get(cpu);
        for (kind, (into, now)) in into.iter_mut().zip(kinds).enumerate() {
            into.add_since(before.map_or(&none, |kinds| &kinds[kind]), now);
        }
    }
}
