//! Holds of which the beginning or the end was not recorded: a lock that was free when it was asked for has no event of its own but
//! for a sample, nor has an unlock that nobody waited for.

use super::{Deed, Sequence, Step, Trace};
use std::collections::HashMap;

/// A step to be put in.
struct Missing {
    at_ns: u64,
    /// The step that it comes after, also at the same time; none for the thread's beginning.
    after: Option<usize>,
    deed: Deed,
}

/// A hold whose end has not been met.
struct OpenHold {
    since_ns: u64,
    /// The step that began it.
    index: usize,
    shared: bool,
    /// Its end is before this, if it was not recorded: the thread waited for others then.
    until_ns: u64,
}

impl OpenHold {
    fn new(step: &Step, index: usize, shared: bool) -> Self {
        Self { since_ns: step.at_ns + step.took_ns, index, shared, until_ns: u64::MAX }
    }

    /// Whether it is the hold that ends where somebody has waited for its end since `asked_ns`, 0 for not known. Else it ended
    /// unseen, and another one began.
    fn lasts(&self, asked_ns: u64) -> bool {
        self.until_ns == u64::MAX || (asked_ns != 0 && asked_ns <= self.until_ns)
    }

    /// Its end, which was not recorded.
    fn end(&self, lock: u32, known: &Known, latest_ns: u64) -> Missing {
        let at_ns = (self.since_ns + known.mean_ns(lock, self.shared)).min(latest_ns).min(self.until_ns);
        let deed = Deed::Give { lock, asked_ns: 0, shared: false };
        Missing { at_ns, after: Some(self.index), deed }
    }
}

/// Known holds of each lock: nanoseconds and count of those alone, and of those for reading.
struct Known(Vec<[(u64, u64); 2]>);

impl Known {
    /// Mean of a lock's holds of a kind, nanoseconds; of all where none of the kind is known.
    fn mean_ns(&self, lock: u32, shared: bool) -> u64 {
        let [alone, reading] = self.0[lock as usize];
        let (total_ns, count) = if shared { reading } else { alone };
        total_ns
            .checked_div(count)
            .or_else(|| (alone.0 + reading.0).checked_div(alone.1 + reading.1))
            .unwrap_or(0)
    }
}

/// Gives each hold a beginning and an end.
pub(super) fn complete(trace: &mut Trace) {
    let mut sums = Known(vec![[(0, 0); 2]; trace.locks.len()]);
    for thread in &trace.threads {
        known(thread, &mut sums);
    }
    for (lock, [alone, reading]) in trace.locks.iter_mut().zip(&sums.0) {
        lock.hold_ns = (alone.0 + reading.0).checked_div(alone.1 + reading.1).unwrap_or(0);
    }
    for thread in &mut trace.threads {
        let missing = missing(thread, &sums);
        insert(thread, missing);
    }
}

/// Adds up holds with both ends.
fn known(thread: &Sequence, sums: &mut Known) {
    let mut open: HashMap<u32, OpenHold> = HashMap::new();
    for (index, step) in thread.steps.iter().enumerate() {
        match step.deed {
            Deed::Get { lock, shared, .. } => drop(open.insert(lock, OpenHold::new(step, index, shared))),
            Deed::Give { lock, asked_ns, .. } => {
                if let Some(hold) = open.remove(&lock).filter(|hold| hold.lasts(asked_ns)) {
                    let sum = &mut sums.0[lock as usize][usize::from(hold.shared)];
                    *sum = (sum.0 + step.at_ns.saturating_sub(hold.since_ns), sum.1 + 1);
                }
            }
            _ if waits_for_others(step) => cut(&mut open, step.at_ns),
            _ => {}
        }
    }
}

/// Whether it is a wait that a known deed of another thread ends.
fn waits_for_others(step: &Step) -> bool {
    matches!(step.deed, Deed::Await { mark: 1.., .. } | Deed::Arrive { .. })
}

/// The thread waits for others from then on: most likely without these locks.
fn cut(open: &mut HashMap<u32, OpenHold>, at_ns: u64) {
    for hold in open.values_mut() {
        hold.until_ns = hold.until_ns.min(at_ns);
    }
}

/// Beginnings and ends that are not known, where they belong most likely. A hold lasts through a wait for others only if somebody
/// had asked for the lock before.
fn missing(thread: &mut Sequence, known: &Known) -> Vec<Missing> {
    let mut all = Vec::new();
    // Until when each lock was last busy with this thread, by which step, and since when it is.
    let mut free: HashMap<u32, (u64, Option<usize>)> = HashMap::new();
    let mut open: HashMap<u32, OpenHold> = HashMap::new();
    let mut latest_ns = 0;
    let end_ns = thread.steps.last().map_or(0, |step| step.at_ns);
    let begin = (thread.steps.first().map_or(0, |step| step.at_ns + step.took_ns), None);
    let mut awake = begin;
    for (index, step) in thread.steps.iter().enumerate() {
        match step.deed {
            Deed::Get { lock, shared, .. } => {
                if let Some(before) = open.insert(lock, OpenHold::new(step, index, shared)) {
                    all.push(before.end(lock, known, step.at_ns));
                }
            }
            Deed::Give { lock, asked_ns, shared } => {
                let begun = open.remove(&lock);
                let is_whole = begun.as_ref().is_some_and(|hold| hold.lasts(asked_ns));
                if let Some(hold) = begun.filter(|_| !is_whole) {
                    let end = hold.end(lock, known, step.at_ns);
                    free.insert(lock, (end.at_ns, end.after));
                    all.push(end);
                }
                if !is_whole {
                    let mut at_ns = step.at_ns.saturating_sub(known.mean_ns(lock, shared));
                    let mut least = free.get(&lock).copied().unwrap_or(begin);
                    if asked_ns != 0 {
                        // Who asked found it held, if by this thread; that had not yet done what it did with other locks.
                        at_ns = at_ns.min(asked_ns.max(latest_ns));
                    }
                    if asked_ns == 0 || asked_ns >= awake.0 {
                        least = least.max(awake);
                    }
                    let deed = Deed::Get { lock, delay_ns: 0, shared };
                    all.push(Missing { at_ns: at_ns.max(least.0).min(step.at_ns), after: least.1, deed });
                    if let Some(unseen) = thread.unseen.get_mut(&lock) {
                        *unseen = unseen.saturating_sub(1);
                    }
                }
                free.insert(lock, (step.at_ns, Some(index)));
            }
            _ if waits_for_others(step) => {
                awake = (step.at_ns + step.took_ns, Some(index));
                cut(&mut open, step.at_ns);
            }
            _ => {}
        }
        if matches!(step.deed, Deed::Get { .. } | Deed::Give { .. }) {
            latest_ns = step.at_ns + step.took_ns;
        }
    }
    all.extend(open.iter().map(|(lock, hold)| hold.end(*lock, known, end_ns)));
    all.sort_by_key(|one| (one.at_ns, one.after, !matches!(one.deed, Deed::Give { .. })));
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
    for (index, mut step) in std::mem::take(&mut thread.steps).into_iter().enumerate() {
        let is_before =
            |one: &Missing| one.at_ns <= step.at_ns && one.after.is_none_or(|after| after < index);
        while let Some(one) = missing.next_if(is_before) {
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
