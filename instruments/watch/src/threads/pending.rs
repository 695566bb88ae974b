//! Long waits until the windows that they began end. Of a window only the longest wait and their number are kept.

use crate::frozen::LongWait;
use std::time::Duration;

/// Waits above the limit of one table in one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LongWaits {
    pub(super) longest: LongWait,
    pub(super) count: u64,
}

/// Waits of several CPUs are not quite in the order of their ends.
const DISORDER_NS: u64 = 250_000_000;

/// Windows that have not ended: of each table those that its waits for CPUs, and those that its waits for locks began, with the end of the first wait.
pub(super) struct Pending {
    tables: Vec<Vec<(u64, LongWaits)>>,
    after_ns: u64,
}

impl Pending {
    /// None yet; a window ends `after` its first wait did.
    pub(super) fn new(tables: usize, after: Duration) -> Self {
        Self { tables: vec![Vec::new(); 2 * tables], after_ns: after.as_nanos() as u64 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tables.iter().all(Vec::is_empty)
    }

    /// Takes a wait into the window that it lies in, or has it begin one. A wait that ended at a switch from a hidden thread comes when
    /// its thread leaves the CPU, and may be much older than the others.
    pub(super) fn add(&mut self, wait: LongWait) {
        let Some(windows) = self.tables.get_mut(2 * wait.table_index + usize::from(wait.lock.is_some()))
        else {
            return;
        };
        let after_ns = self.after_ns;
        let is_within = |first_ns: u64| {
            (first_ns.saturating_sub(DISORDER_NS)..=first_ns.saturating_add(after_ns)).contains(&wait.at_ns)
        };
        match windows.iter_mut().find(|(first_ns, _)| is_within(*first_ns)) {
            Some((first_ns, waits)) => {
                *first_ns = wait.at_ns.min(*first_ns);
                waits.count += 1;
                if wait.wait_ns > waits.longest.wait_ns {
                    waits.longest = wait;
                }
            }
            None => {
                let place = windows.partition_point(|(first_ns, _)| *first_ns <= wait.at_ns);
                windows.insert(place, (wait.at_ns, LongWaits { longest: wait, count: 1 }));
            }
        }
    }

    /// Takes a window that ends by `end_ns`, with the end of its first wait.
    pub(super) fn take_ended(&mut self, end_ns: u64) -> Option<(u64, LongWaits)> {
        let after_ns = self.after_ns;
        self.tables.iter_mut().find_map(|windows| {
            let is_over =
                windows.first().is_some_and(|(first_ns, _)| first_ns.saturating_add(after_ns) <= end_ns);
            is_over.then(|| windows.remove(0))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(table: usize, at_ns: u64, wait_ns: u64) -> LongWait {
        LongWait { table_index: table, at_ns, wait_ns, ..LongWait::default() }
    }

    #[test]
    fn a_wait_that_is_told_late_begins_a_window_of_its_own() {
        const SECOND: u64 = 1_000_000_000;
        let mut pending = Pending::new(1, Duration::from_secs(1));
        [100, 93].into_iter().for_each(|at_s| pending.add(wait(0, at_s * SECOND, 1)));
        pending.add(wait(0, 100 * SECOND - 1_000, 2));
        let windows = [(); 2].map(|()| pending.take_ended(u64::MAX).unwrap());
        assert_eq!(
            windows.each_ref().map(|(first_ns, waits)| (*first_ns, waits.count)),
            [(93 * SECOND, 1), (100 * SECOND - 1_000, 2)]
        );
    }

    #[test]
    fn a_window_keeps_its_longest_wait_and_all_are_counted_whichever_table_has_how_many() {
        let mut pending = Pending::new(2, Duration::from_nanos(100));
        (0..10_000).for_each(|number| pending.add(wait(0, 1_000 + number % 100, 5 + number % 7)));
        pending.add(wait(1, 1_050, 9));
        pending.add(wait(0, 1_101, 3));
        pending.add(wait(2, 1_000, 3));
        assert_eq!(pending.take_ended(1_099), None);
        let (first_ns, waits) = pending.take_ended(1_100).unwrap();
        assert_eq!(
            (first_ns, waits.longest.wait_ns, waits.longest.table_index, waits.count),
            (1_000, 11, 0, 10_000)
        );
        assert_eq!(
            pending.take_ended(1_150).unwrap(),
            (1_050, LongWaits { longest: wait(1, 1_050, 9), count: 1 })
        );
        assert!(pending.take_ended(1_200).is_none() && !pending.is_empty());
        assert_eq!(pending.take_ended(u64::MAX).unwrap().1.longest, wait(0, 1_101, 3));
        assert!(pending.is_empty());
    }
}
