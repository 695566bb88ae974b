//! The ledger of contention with names.

use super::locks::LockSummary;
use super::names::SyncNames;
use super::shares::{Share, shares};
use super::unended::UnendedSummary;
use super::words::{self, WordSummary};
use crate::record::runtimes;
use quaver_sync_analysis::replay::Gains;
use quaver_sync_analysis::sync::{
    BarrierFigures, ConditionFigures, Contention, LockFigures, Standstill, Sums, ThreadTime, WordFigures,
};
use quaver_view::Cell;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Locks that the summary lists.
pub(super) const LISTED: usize = 100;
/// Locks of which is replayed what a change would gain.
const CHANGED: usize = 4;
/// Part of all waits for locks, or of the time of all threads, below which a change of a lock is not worth a replay.
const LEAST_PART: f64 = 0.01;

/// All locks and all threads, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ContentionSummary {
    /// Sleep and run queue are apart from execution: the kernel's side was seen.
    pub kernel_seen: bool,
    /// Waits for all locks together, each from the call to its return.
    pub wait: Sums,
    /// Rows of tries for all locks together, each from the first try that failed to the one that got the lock.
    #[serde(default)]
    pub tried: Sums,
    /// The conditions that were waited for longest.
    #[serde(default)]
    pub conditions: Vec<ConditionSummary>,
    /// The barriers that threads waited at for longest.
    #[serde(default)]
    pub barriers: Vec<BarrierSummary>,
    /// Time in run queues behind threads of the program itself, of all threads, nanoseconds.
    pub crowded_ns: u64,
    /// The same behind threads of other programs. The rest of run queues is of idle CPUs that had not switched yet.
    #[serde(default)]
    pub others_ns: u64,
    /// The locks that were waited for longest.
    pub locks: Vec<LockSummary>,
    /// Locks with waits that are not listed.
    pub locks_left_out: u64,
    /// Waits on all semaphores and futex words together; no part of `wait`.
    #[serde(default)]
    pub word_wait: Sums,
    /// Of these, waits on words that are used like locks. That is inferred.
    #[serde(default)]
    pub lock_like_wait: Sums,
    /// Of these, waits on words that were woken four times or more, and may be locks or not.
    #[serde(default)]
    pub unknown_wait: Sums,
    /// The semaphores and futex words that were waited on for longest.
    #[serde(default)]
    pub words: Vec<WordSummary>,
    /// Semaphores and futex words that are not listed.
    #[serde(default)]
    pub words_left_out: u64,
    /// Waits that had not ended when the run did, the longest first. They are in the rows above, too.
    #[serde(default)]
    pub unended: Vec<UnendedSummary>,
    /// Processes all of whose threads waited then: none was left to end a wait.
    #[serde(default)]
    pub standstills: Vec<Standstill>,
    /// How the replay compares with the run. Its gains are with the locks.
    pub replay: Gains,
    /// What could not be named, a sentence each.
    pub unnamed: Vec<String>,
    /// Where the time of each thread went.
    pub threads: Vec<ThreadSummary>,
}

impl ContentionSummary {
    /// What no replay has, and so no gain; none where nobody tried in a loop.
    pub fn tries_left_out(&self) -> Option<String> {
        let failed: u64 = self.locks.iter().map(|lock| lock.figures.failed_tries).sum();
        let tries = if failed == 1 { "try" } else { "tries" };
        (failed > 0).then(|| format!("The replay leaves out {} {tries} that failed.", Cell::Count(failed)))
    }
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConditionSummary {
    /// What it is called.
    pub name: String,
    /// Functions that waited for it.
    pub waiter_functions: Vec<Share>,
    /// `waiter_functions`, each with who called it where that is known.
    #[serde(default)]
    pub waiter_chains: Vec<Share>,
    /// Its figures.
    #[serde(flatten)]
    pub figures: ConditionFigures,
}

/// One barrier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BarrierSummary {
    /// What it is called.
    pub name: String,
    /// Functions that waited at it.
    pub waiter_functions: Vec<Share>,
    /// `waiter_functions`, each with who called it where that is known.
    pub waiter_chains: Vec<Share>,
    /// Its figures.
    #[serde(flatten)]
    pub figures: BarrierFigures,
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ThreadSummary {
    /// What it is called.
    pub name: String,
    /// Its figures.
    #[serde(flatten)]
    pub time: ThreadTime,
}

/// Locks that may be worth a change: those that were waited for longest, then those that were held longest.
pub(super) fn worth_changing(found: &Contention) -> Vec<(u16, u64)> {
    let key = |lock: &LockFigures| (lock.process, lock.address);
    let worth = |lock: &&LockFigures| lock.wait.total_ns as f64 >= LEAST_PART * found.wait.total_ns as f64;
    let waited = found.locks.iter().filter(|lock| lock.wait.count > 0).filter(worth);
    let mut locks: Vec<(u16, u64)> = waited.take(CHANGED).map(key).collect();
    let held_ns =
        |lock: &LockFigures| lock.hold.mean_ns().unwrap_or(0.0) * (lock.contended + lock.free) as f64;
    let mut held: Vec<&LockFigures> = found.locks.iter().filter(|lock| !locks.contains(&key(lock))).collect();
    held.sort_by(|one, other| held_ns(other).total_cmp(&held_ns(one)));
    let lived_ns: u64 = found.threads.iter().map(|thread| thread.last_ns - thread.first_ns).sum();
    let long = held.into_iter().filter(|lock| held_ns(lock) >= LEAST_PART * lived_ns as f64);
    locks.extend(long.take(CHANGED / 2).map(key));
    locks
}

/// Puts names to the ledger.
pub(super) fn name(found: Contention, gains: Gains, names: &SyncNames) -> ContentionSummary {
    let function = |process, address| names.function(process, address);
    let chain = |process, address| names.calls(process, address);
    let object = |process, address| names.object(process, address);
    let barrier = |figures: BarrierFigures| BarrierSummary {
        name: object(figures.process, figures.address),
        waiter_functions: shares(&figures.waiter_sites, &function),
        waiter_chains: shares(&figures.waiter_sites, &chain),
        figures,
    };
    let thread = |time: ThreadTime| ThreadSummary { name: names.thread_of(time.process, time.thread), time };
    let gain = |lock: &LockFigures| gains.of(lock.process, lock.address).copied();
    let locks = found
        .locks
        .into_iter()
        .map(|lock| {
            let gain = gain(&lock);
            LockSummary::of(lock, gain, names)
        })
        .collect();
    let mut given_back: BTreeMap<_, _> =
        found.given_back.into_iter().map(|one| ((one.process, one.address), one)).collect();
    let word = |figures: WordFigures| {
        let owned = given_back.remove(&(figures.process, figures.address));
        let mut word = WordSummary::of(figures, names);
        word.given_back = owned.filter(|_| word.is_mutex()).map(|one| LockSummary::of(one, None, names));
        word
    };
    let words: Vec<WordSummary> = found.words.into_iter().map(word).collect();
    // A word is a barrier where its name says so.
    let is_barrier = |one: &BarrierFigures| {
        one.rounds > 0
            && names.runtime(one.process, one.address).is_some_and(|label| runtimes::is_barrier(label))
    };
    let rounds = found.word_rounds.into_iter().filter(is_barrier);
    let mut barriers: Vec<BarrierSummary> = found.barriers.into_iter().chain(rounds).map(barrier).collect();
    barriers.sort_by_key(|one| Reverse(one.figures.wait.total_ns));
    ContentionSummary {
        kernel_seen: found.kernel_seen,
        wait: found.wait,
        tried: found.tried,
        conditions: found
            .conditions
            .into_iter()
            .map(|figures| ConditionSummary {
                name: object(figures.process, figures.address),
                waiter_functions: shares(&figures.waiter_sites, &function),
                waiter_chains: shares(&figures.waiter_sites, &chain),
                figures,
            })
            .collect(),
        barriers,
        crowded_ns: found.crowded_ns,
        others_ns: found.others_ns,
        locks,
        locks_left_out: found.locks_left_out,
        word_wait: found.word_wait,
        lock_like_wait: words::sum(&words, WordSummary::is_lock_like),
        unknown_wait: words::sum(&words, WordSummary::may_be_lock),
        words,
        words_left_out: found.words_left_out,
        unended: found.unended.into_iter().map(|wait| UnendedSummary::of(wait, names)).collect(),
        standstills: found.standstills,
        replay: gains,
        unnamed: names.missing(),
        threads: found.threads.into_iter().map(thread).collect(),
    }
}
