//! Holds of which the beginning or the end was not recorded: a lock that was free when it was asked for has no event of its own but
//! for a sample, nor has an unlock that nobody waited for.

use super::{Deed, Sequence, Step, Trace};
use std::collections::HashMap;

/// A step to be put in.
struct Missing {
    at_ns: u64,
    deed: Deed,
}

/// Gives each hold a beginning and an end.
pub(super) fn complete(trace: &mut Trace) {
    let mut sums: Vec<(u64, u64)> = vec![(0, 0); trace.locks.len()];
    for thread in &trace.threads {
        known(thread, &mut sums);
    }
    for (lock, (total_ns, count)) in trace.locks.iter_mut().zip(&sums) {
        lock.hold_ns = total_ns.checked_div(*count).unwrap_or(0);
    }
    let holds_ns: Vec<u64> = trace.locks.iter().map(|lock| lock.hold_ns).collect();
    for thread in &mut trace.threads {
        let missing = missing(thread, &holds_ns);
        insert(thread, missing);
    }
}

/// Adds up holds with both ends.
fn known(thread: &Sequence, sums: &mut [(u64, u64)]) {
    let mut open: HashMap<u32, u64> = HashMap::new();
    for step in &thread.steps {
        match step.deed {
            Deed::Get { lock, .. } => drop(open.insert(lock, step.at_ns + step.took_ns)),
            Deed::Give { lock, .. } => {
                if let Some(since_ns) = open.remove(&lock) {
                    let sum = &mut sums[lock as usize];
                    *sum = (sum.0 + step.at_ns.saturating_sub(since_ns), sum.1 + 1);
                }
            }
            _ => {}
        }
    }
}

/// Beginnings and ends that are not known, where they belong most likely.
fn missing(thread: &mut Sequence, holds_ns: &[u64]) -> Vec<Missing> {
    let mut all = Vec::new();
    // Until when each lock was last busy with this thread, and since when it is.
    let mut free_ns: HashMap<u32, u64> = HashMap::new();
    let mut open: HashMap<u32, (u64, bool)> = HashMap::new();
    let mut latest_ns = 0;
    let begin_ns = thread.steps.first().map_or(0, |step| step.at_ns + step.took_ns);
    let end_ns = thread.steps.last().map_or(0, |step| step.at_ns);
    let give = |lock: u32, at_ns: u64| Missing { at_ns, deed: Deed::Give { lock, asked_ns: 0 } };
    for step in &thread.steps {
        match step.deed {
            Deed::Get { lock, shared, .. } => {
                let since_ns = step.at_ns + step.took_ns;
                if let Some((before_ns, _)) = open.insert(lock, (since_ns, shared)) {
                    let at_ns = before_ns + holds_ns[lock as usize];
                    all.push(give(lock, at_ns.min(step.at_ns)));
                }
            }
            Deed::Give { lock, asked_ns } => {
                if open.remove(&lock).is_none() {
                    let least_ns = free_ns.get(&lock).copied().unwrap_or(begin_ns);
                    let mut at_ns = step.at_ns.saturating_sub(holds_ns[lock as usize]);
                    if asked_ns != 0 {
                        // Who asked found it held, if by this thread; that had not yet done what it did with other locks.
                        at_ns = at_ns.min(asked_ns.max(latest_ns));
                    }
                    let deed = Deed::Get { lock, delay_ns: 0, shared: false };
                    all.push(Missing { at_ns: at_ns.max(least_ns).min(step.at_ns), deed });
                    if let Some(unseen) = thread.unseen.get_mut(&lock) {
                        *unseen = unseen.saturating_sub(1);
                    }
                }
                free_ns.insert(lock, step.at_ns);
            }
            _ => {}
        }
        if matches!(step.deed, Deed::Get { .. } | Deed::Give { .. }) {
            latest_ns = step.at_ns + step.took_ns;
        }
    }
    for (lock, (since_ns, _)) in open {
        all.push(give(lock, (since_ns + holds_ns[lock as usize]).min(end_ns)));
    }
    // Ends come before beginnings at the same time.
    all.sort_by_key(|one| (one.at_ns, !matches!(one.deed, Deed::Give { .. })));
    all
}

/// Puts them in; the time around them is cut where they lie.
fn insert(thread: &mut Sequence, missing: Vec<Missing>) {
    if missing.is_empty() {
        return;
    }
    let mut steps = Vec::with_capacity(thread.steps.len() + missing.len());
    let mut missing = missing.into_iter().peekable();
    let mut free_ns = 0;
    for mut step in std::mem::take(&mut thread.steps) {
        while let Some(one) = missing.next_if(|one| one.at_ns <= step.at_ns) {
            // The part of the time before the step that comes after the new one.
            let whole_ns = step.at_ns.saturating_sub(free_ns);
            let after_ns = (step.at_ns - one.at_ns).min(whole_ns);
            let part = |ns: u64| match whole_ns {
                0 => 0,
                _ => (u128::from(ns) * u128::from(after_ns) / u128::from(whole_ns)) as u64,
            };
            let (ran_ns, slept_ns) = (part(step.ran_ns), part(step.slept_ns));
            steps.push(Step {
                at_ns: one.at_ns,
                took_ns: 0,
                ran_ns: step.ran_ns - ran_ns,
                slept_ns: step.slept_ns - slept_ns,
                deed: one.deed,
                mark: 0,
            });
            (step.ran_ns, step.slept_ns) = (ran_ns, slept_ns);
            free_ns = free_ns.max(one.at_ns);
        }
        free_ns = free_ns.max(step.at_ns + step.took_ns);
        steps.push(step);
    }
    steps.extend(missing.map(|one| Step {
        at_ns: one.at_ns,
        took_ns: 0,
        ran_ns: 0,
        slept_ns: 0,
        deed: one.deed,
        mark: 0,
    }));
    thread.steps = steps;
}
