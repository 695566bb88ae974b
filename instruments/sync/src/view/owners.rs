//! Who had a lock while others waited for it, and what that thread did.

use super::time;
use crate::digest::{LockSummary, Share, SyncDigest, SyncNames};
use quaver_sync_analysis::sync::{Activity, Pattern, ThreadId, ThreadShare};
use quaver_view::Cell;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What a lock's sentence names of a kind.
const NAMED: usize = 3;
/// A part of a wait below this share is not worth words.
pub(super) const WORTH_TELLING: f64 = 0.05;

/// Owners with the time that others waited for them and the holds that those waited for, the longest first.
pub(super) fn by_owner(lock: &LockSummary) -> Vec<(ThreadId, u64, u64)> {
    let mut sums: BTreeMap<ThreadId, (u64, u64)> = BTreeMap::new();
    for pair in &lock.figures.pairs {
        let sum = sums.entry(pair.owner).or_default();
        *sum = (sum.0 + pair.total_ns, sum.1 + pair.holds);
    }
    let mut owners: Vec<_> = sums.into_iter().map(|(thread, (ns, holds))| (thread, ns, holds)).collect();
    owners.sort_by_key(|(_, ns, _)| Reverse(*ns));
    owners
}

/// The parts that are worth words, the first [`NAMED`] of them.
pub(super) fn parts(shares: &[Share], whole_ns: u64) -> String {
    let worth = shares.iter().filter(|one| one.total_ns as f64 >= WORTH_TELLING * whole_ns as f64);
    let words = worth.take(NAMED).map(|one| format!("{} {}", one.name, time(one.total_ns)));
    words.collect::<Vec<_>>().join(", ")
}

fn by_name(threads: &[ThreadShare], names: &SyncNames) -> Vec<Share> {
    let name = |one: &ThreadShare| match one.thread.0 {
        0 => "nobody (its CPU was idle)".to_owned(),
        _ => names.thread(one.thread),
    };
    threads.iter().map(|one| Share { name: name(one), total_ns: one.total_ns }).collect()
}

/// What the owners did.
pub(super) fn did(lock: &LockSummary, digest: &SyncDigest) -> String {
    let one = &lock.figures;
    if one.held_ns == 0 || !digest.summary.contention.kernel_seen {
        return String::new();
    }
    let detail = |activity: Activity| match activity {
        Activity::RunQueue => {
            let mut kept = by_name(&one.preempted_by, &digest.names);
            kept.push(Share { name: "quota of its control group".to_owned(), total_ns: one.quota_ns });
            kept.sort_by_key(|share| std::cmp::Reverse(share.total_ns));
            parts(&kept, one.held_ns)
        }
        Activity::Slept => parts(&lock.owner_calls, one.held_ns),
        Activity::Waited => parts(&lock.owner_waits, one.held_ns),
        Activity::Ran | Activity::Unknown => String::new(),
    };
    let mut did: Vec<(u64, Activity)> = one.owner_ns.into_iter().zip(Activity::ALL).collect();
    did.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let worth = did.into_iter().filter(|(ns, _)| *ns as f64 >= WORTH_TELLING * one.held_ns as f64);
    let words = worth.map(|(ns, activity)| match detail(activity) {
        detail if detail.is_empty() => format!("{} {}", activity.name(), Cell::part(ns, one.held_ns)),
        detail => format!("{} {} ({detail})", activity.name(), Cell::part(ns, one.held_ns)),
    });
    format!(" Its owner meanwhile: {}.", words.collect::<Vec<_>>().join(", "))
}

/// What a pattern was found by.
pub(super) fn evidence(pattern: Pattern, lock: &LockSummary, names: &SyncNames) -> String {
    let one = &lock.figures;
    match pattern {
        Pattern::Barging => format!(
            " Barging: {} by threads that had asked later than one that waited, {} of the wait.",
            Cell::several(one.overtaken.count, "hold"),
            time(one.overtaken.total_ns)
        ),
        Pattern::Convoy => format!(
            " Convoy: two threads or more waited in {} of the {} in which any did.",
            time(one.crowded_ns),
            time(one.queued_ns)
        ),
        Pattern::PriorityInversion => format!(
            " Priority inversion: {} waited {} for its CPU behind less urgent threads ({}).",
            if one.inverted_deep_ns > one.inverted_ns / 2 { "the end of the chain" } else { "the owner" },
            time(one.inverted_ns),
            parts(&by_name(&one.inverted_by, names), one.inverted_ns)
        ),
        Pattern::Deadlock => one.deadlock.map_or_else(String::new, |pair| {
            let (waiter, owner) = (names.thread(pair.waiter), names.thread(pair.owner));
            let for_what = match pair.waiter == pair.owner {
                true => format!("{waiter} waited for what it had itself"),
                false => format!("{waiter} waited for {owner}, and {owner} in the end for {waiter}"),
            };
            format!(" Deadlock: for the last {} of the run {for_what}.", time(pair.total_ns))
        }),
    }
}
