//! Entries and exits without their other half, each by the reason that it has none.

use std::collections::{BTreeMap, HashMap};

/// What could not be paired, and why. On a trace without losses all but [`Self::exits`] and [`Self::entries`] are
/// explained; those two are 0 then, or the kernel or this reader is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpaired {
    /// Threads that were cut because the switch that took them off their CPU was not recorded. Where the kernel
    /// records nothing while certain tasks are current (threads of process 1, the idle task of a CPU), it is them.
    /// Each is a thread's interval that ends for an unknown reason.
    pub switches: u64,
    /// Exits of what was under way already when recording began, or went on after a pause or a loss.
    pub begun_before: u64,
    /// Ends of work items that began on another CPU: their worker was moved meanwhile.
    pub moved_work: u64,
    /// Other exits whose entry was not seen.
    pub exits: u64,
    /// Other entries whose exit was not seen although recording went on.
    pub entries: u64,
}

/// The work items of every worker, over all CPUs, whose streams are read one after the other.
#[derive(Debug, Default)]
pub(super) struct WorkBooks {
    workers: HashMap<u32, Worker>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Worker {
    /// Earliest record of its work, and whether that is an end.
    first: Option<(u64, bool)>,
    /// Ends where no item was open.
    ends: u64,
    /// Items that had not ended when it began another on the same CPU: they ended elsewhere.
    left: u64,
    /// Items that were open when a stream was cut: they may end behind the cut.
    cut: u64,
}

impl WorkBooks {
    /// A worker began an item at `now_ns`; `left` says whether one was still open on this CPU.
    pub(super) fn started(&mut self, thread: u32, now_ns: u64, left: bool) {
        let worker = self.workers.entry(thread).or_default();
        worker.saw(now_ns, false);
        worker.left += u64::from(left);
    }

    /// A worker ended an item at `now_ns`; `open` says whether it had begun on this CPU.
    pub(super) fn ended(&mut self, thread: u32, now_ns: u64, open: bool) {
        let worker = self.workers.entry(thread).or_default();
        worker.saw(now_ns, true);
        worker.ends += u64::from(!open);
    }

    /// The items of these workers are cut: recording paused, or records were lost.
    pub(super) fn interrupted(&mut self, threads: impl Iterator<Item = u32>) {
        for thread in threads {
            self.workers.entry(thread).or_default().cut += 1;
        }
    }

    /// Adds the account of work items to `unpaired`; the items of `paused` workers are open on a CPU that they were
    /// switched out on.
    pub(super) fn close(&self, mut unpaired: Unpaired, paused: impl Iterator<Item = u32>) -> Unpaired {
        let mut open: BTreeMap<u32, u64> = BTreeMap::new();
        paused.for_each(|thread| *open.entry(thread).or_default() += 1);
        for (thread, worker) in &self.workers {
            let before = u64::from(worker.first.is_some_and(|(_, end)| end)) + worker.cut;
            let begun_before = worker.ends.min(before);
            let rest = worker.ends - begun_before;
            let moved = rest.min(worker.left + open.get(thread).copied().unwrap_or(0));
            unpaired.begun_before += begun_before;
            unpaired.moved_work += moved;
            unpaired.exits += rest - moved;
            unpaired.entries += worker.left.saturating_sub(moved);
        }
        unpaired
    }
}

impl Worker {
    fn saw(&mut self, now_ns: u64, end: bool) {
        if self.first.is_none_or(|(first_ns, _)| now_ns < first_ns) {
            self.first = Some((now_ns, end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(books: &WorkBooks, paused: &[u32]) -> Unpaired {
        books.close(Unpaired::default(), paused.iter().copied())
    }

    #[test]
    fn an_item_that_ends_on_another_cpu_is_told_from_one_that_never_began() {
        let mut books = WorkBooks::default();
        books.started(50, 10, false);
        books.ended(50, 90, false);
        assert_eq!(account(&books, &[50]), Unpaired { moved_work: 1, ..Unpaired::default() });
        assert_eq!(account(&books, &[]), Unpaired { exits: 1, ..Unpaired::default() }, "nothing is open");
        // It comes back and begins another: the first had ended there.
        books.started(50, 100, true);
        assert_eq!(account(&books, &[]), Unpaired { moved_work: 1, ..Unpaired::default() });
        books.started(50, 110, true);
        let left = Unpaired { moved_work: 1, entries: 1, ..Unpaired::default() };
        assert_eq!(account(&books, &[]), left, "one item has no end anywhere");
    }

    #[test]
    fn only_the_first_record_of_a_worker_can_end_what_began_before() {
        let mut books = WorkBooks::default();
        books.ended(50, 10, false);
        assert_eq!(account(&books, &[]), Unpaired { begun_before: 1, ..Unpaired::default() });
        books.ended(50, 20, false);
        assert_eq!(account(&books, &[]), Unpaired { begun_before: 1, exits: 1, ..Unpaired::default() });
        // Another CPU's stream is read later, and shows that it worked before.
        books.started(50, 5, false);
        assert_eq!(account(&books, &[50]), Unpaired { moved_work: 1, exits: 1, ..Unpaired::default() });
    }

    #[test]
    fn an_item_may_end_behind_a_cut() {
        let mut books = WorkBooks::default();
        books.started(50, 5, false);
        books.interrupted([50].into_iter());
        books.ended(50, 20, false);
        assert_eq!(account(&books, &[]), Unpaired { begun_before: 1, ..Unpaired::default() });
    }
}
