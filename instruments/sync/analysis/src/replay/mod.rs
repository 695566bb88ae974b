//! What a change of a lock would gain: the recorded run is played again with shorter holds, or with two locks in place of one.
//!
//! A thread is a list of steps: so much time on a CPU and asleep, then a deed (get a lock, give it back, wait for what another
//! thread does, wake). The replay keeps each thread's steps and lets their times follow from each other.
//! docs/methodology/sync.md has the rules, and what a replay cannot know.

mod holds;
mod machine;
mod processes;
mod record;
mod tokens;

#[cfg(test)]
mod tests;

pub use record::{LatestWakeup, Recorder};

use machine::{Change, Machine, Replayed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Steps of a run that are replayed; what comes later is left out.
const MOST_STEPS: usize = 600_000;
/// Of the recorded length, the least that a replay has that needs no fewer CPUs.
const FITTED: f64 = 0.97;
/// Halvings of the interval in which the CPUs lie that the program had.
const FITS: u32 = 7;
/// The least of them, as part of those that it ran on.
const LEAST_CPUS: f64 = 0.1;
/// A replay of the run as it was that differs by more is no base for statements.
pub const TRUSTED: f64 = 0.15;

/// What a thread does after its time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    /// Gets a lock. `delay_ns`: from the release until it had it, in case that it waits.
    Get { lock: u32, delay_ns: u64, shared: bool },
    /// Gives it back. `asked_ns`: since when somebody was waiting for it; 0 for not known. `shared`: a hold whose beginning is
    /// not known was one for reading.
    Give { lock: u32, asked_ns: u64, shared: bool },
    /// Waits for a deed of another thread. Without one, as long as it took.
    Await { mark: u32, delay_ns: u64 },
    /// Arrives at a barrier, and waits for the others of its round.
    Arrive { round: u32, delay_ns: u64 },
    /// Signals a condition: what others may wait for.
    Signal { condition: u32 },
    /// Another deed that others may wait for.
    Wake,
}

/// Time, then a deed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    /// When the deed began.
    at_ns: u64,
    /// How long it took.
    took_ns: u64,
    /// On a CPU before it.
    ran_ns: u64,
    /// Asleep before it.
    slept_ns: u64,
    deed: Deed,
    /// Number by which others wait for this deed; 0 for none.
    mark: u32,
}

/// A lock of the trace.
#[derive(Clone, Debug, Default)]
struct LockFacts {
    process: u16,
    address: u64,
    /// A wait on a condition gives it back.
    of_condition: bool,
    /// Mean of the holds that are known, nanoseconds.
    hold_ns: u64,
}

/// What is known of a process image from the outset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The image that it was forked or executed from, by its place among all.
    pub parent: Option<u16>,
    /// Its latest event.
    pub last_ns: u64,
}

/// A thread of the trace.
#[derive(Clone, Debug, Default)]
struct Sequence {
    steps: Vec<Step>,
    /// Free locks that no step stands for, by lock.
    unseen: HashMap<u32, u64>,
}

/// A rule that was found in the run: before each signal of one condition, another one had been signalled so many times more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    /// The condition that is signalled.
    condition: u32,
    /// The other one.
    needs: u32,
    /// Its signals less those of `condition`, at least.
    ahead: i64,
}

/// A recorded run, ready to be replayed.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    threads: Vec<Sequence>,
    locks: Vec<LockFacts>,
    /// Arrivals of each round at a barrier.
    rounds: Vec<u32>,
    marks: u32,
    conditions: u32,
    rules: Vec<Rule>,
    cpus: f64,
    recorded_ns: u64,
    complete: bool,
}

/// What halving the holds of a lock, or splitting it, would gain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LockGain {
    /// Process image.
    pub process: u16,
    /// Address.
    pub address: u64,
    /// Part of the run's length by which it would be shorter with holds half as long, 0 to 1; below 0 for longer.
    pub hold_halved: f64,
    /// The same if its owners slept as long, but without it.
    #[serde(default)]
    pub sleep_outside: f64,
    /// The same with two locks in place of one, each for half of the uses; none of a mutex that waits on conditions give back.
    pub split: Option<f64>,
}

/// Gains of locks, by replay of the recorded run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gains {
    /// Length of what was replayed as it was recorded, nanoseconds.
    pub recorded_ns: u64,
    /// Length of its replay without a change, nanoseconds.
    pub replayed_ns: u64,
    /// Steps of threads that were replayed.
    pub steps: u64,
    /// The whole run was replayed, not its beginning alone.
    pub complete: bool,
    /// CPUs that the program had: those that it ran on, less what others took of them.
    pub cpus: f64,
    /// Gain of twice as many CPUs: part of the run's length.
    pub cpus_doubled: Option<f64>,
    /// Gain if whoever was woken went on at once.
    pub no_delay: Option<f64>,
    /// Why there are no gains; none where there are.
    pub reason: Option<String>,
    /// Each lock that was asked about.
    #[serde(skip)]
    pub locks: Vec<LockGain>,
}

impl Gains {
    /// Of one lock.
    pub fn of(&self, process: u16, address: u64) -> Option<&LockGain> {
        self.locks.iter().find(|one| (one.process, one.address) == (process, address))
    }
}

impl Trace {
    /// Finds how many CPUs the program had, of those that it ran on: with fewer the run takes longer.
    fn fit_cpus(&mut self) -> Replayed {
        let most = self.cpus;
        let mut base = Machine::new(self, Change::NONE).run();
        let (mut low, mut high) = (most * LEAST_CPUS, most);
        if base.length_ns as f64 >= FITTED * self.recorded_ns as f64 {
            return base;
        }
        for _ in 0..FITS {
            self.cpus = f64::midpoint(low, high);
            base = Machine::new(self, Change::NONE).run();
            match base.length_ns < self.recorded_ns {
                true => high = self.cpus,
                false => low = self.cpus,
            }
        }
        base
    }

    /// Replays the run as it was, then with each of these locks (process image, address) changed.
    pub fn gains(&mut self, locks: &[(u16, u64)]) -> Gains {
        let steps: usize = self.threads.iter().map(|thread| thread.steps.len()).sum();
        let is_stuck = |base: &Replayed| base.forced * 1_000 > steps as u64;
        let cpus = self.cpus;
        let mut base = self.fit_cpus();
        if is_stuck(&base) && !self.rules.is_empty() {
            // Rules under which the run as it was stands still are none.
            self.rules.clear();
            self.cpus = cpus;
            base = self.fit_cpus();
        }
        let mut gains = Gains {
            recorded_ns: self.recorded_ns,
            replayed_ns: base.length_ns,
            steps: steps as u64,
            complete: self.complete,
            cpus: self.cpus,
            ..Gains::default()
        };
        let apart = base.length_ns.abs_diff(self.recorded_ns) as f64 / self.recorded_ns.max(1) as f64;
        if is_stuck(&base) {
            gains.reason = Some(format!("waits of the replay found no end ({})", base.forced));
        } else if apart > TRUSTED {
            gains.reason = Some("the replay of the run as it was differs too much from the run".to_owned());
        }
        if gains.reason.is_some() {
            return gains;
        }
        let gain = |change: Change| {
            let changed = Machine::new(self, change).run();
            1.0 - changed.length_ns as f64 / base.length_ns.max(1) as f64
        };
        gains.cpus_doubled = Some(gain(Change { cpus: 2.0, ..Change::NONE }));
        gains.no_delay = Some(gain(Change { delay: 0.0, ..Change::NONE }));
        for (process, address) in locks {
            let same = |one: &LockFacts| (one.process, one.address) == (*process, *address);
            let Some(lock) = self.locks.iter().position(same) else { continue };
            let of_condition = self.locks[lock].of_condition;
            let lock = lock as u32;
            let split = (!of_condition).then(|| gain(Change { lock, split: true, ..Change::NONE }));
            let hold_halved = gain(Change { lock, hold: 0.5, ..Change::NONE });
            let sleep_outside = gain(Change { lock, sleeps_outside: true, ..Change::NONE });
            let (process, address) = (*process, *address);
            gains.locks.push(LockGain { process, address, hold_halved, sleep_outside, split });
        }
        gains
    }
}
