//! Readers that keep a writer out together. A moment of its wait belongs to the one, of those that had the lock then, which gave it
//! back last: without the others the wait would have been as long.

use super::Ledger;
use super::lock::{KeptOut, Lock, ReaderHold};
use crate::sync::event::ThreadId;
use crate::sync::keys::ObjectKey;

/// Readers kept for one lock. The earliest beyond these counts as one that had the lock before the wait.
const KEPT: usize = 64;

impl Lock {
    /// A reader has got the lock.
    pub(super) fn begins_to_read(&mut self, thread: ThreadId, now_ns: u64) {
        self.reading.retain(|(reader, _)| *reader != thread);
        if self.reading.len() >= KEPT {
            self.reading.remove(0);
        }
        self.reading.push((thread, now_ns));
    }

    /// It gives the lock back: since when it had that, where it got it while somebody waited.
    pub(super) fn ends_reading(&mut self, thread: ThreadId) -> Option<u64> {
        let place = self.reading.iter().position(|(reader, _)| *reader == thread)?;
        Some(self.reading.swap_remove(place).1)
    }
}

/// Of holds in the order of their ends, those parts that the wait from `from_ns` on was for, in the order of time.
fn decisive(holds: &[ReaderHold], from_ns: u64) -> Vec<ReaderHold> {
    let mut parts: Vec<ReaderHold> = Vec::new();
    let mut until_ns = holds.last().map_or(from_ns, |last| last.to_ns);
    for hold in holds.iter().rev() {
        let (begin_ns, end_ns) = (hold.from_ns.max(from_ns), hold.to_ns.min(until_ns));
        if begin_ns < end_ns {
            parts.push(ReaderHold { from_ns: begin_ns, to_ns: end_ns, ..*hold });
            until_ns = begin_ns;
        }
    }
    parts.reverse();
    parts
}

impl Ledger {
    /// Books what a wait was for until the last reader gave the lock back, if readers did so.
    pub(super) fn settle_readers(&mut self, key: ObjectKey, waiter_slot: u32) {
        let needed_ns = self.needed_ns();
        let Some(lock) = self.locks.get_mut(&key) else { return };
        let Some(waiter) = lock.waiters.iter_mut().find(|waiter| waiter.slot == waiter_slot) else { return };
        let holds = std::mem::take(&mut waiter.readers);
        let Some(last) = holds.last() else { return };
        let mut from_ns = waiter.booked_ns;
        waiter.booked_ns = last.to_ns;
        for part in decisive(&holds, from_ns) {
            let until = KeptOut {
                key,
                from_ns,
                got_ns: part.from_ns,
                to_ns: part.to_ns,
                site: Some(part.site),
                overtakes: part.again,
            };
            until.book(lock, &mut self.threads, waiter_slot, part.slot, needed_ns);
            from_ns = part.to_ns;
        }
    }

    /// The same of all who wait for the lock.
    pub(super) fn settle_all_readers(&mut self, key: ObjectKey) {
        let waiters = self.locks.get(&key).map_or(&[][..], |lock| &lock.waiters);
        let slots: Vec<u32> =
            waiters.iter().filter(|waiter| !waiter.readers.is_empty()).map(|waiter| waiter.slot).collect();
        slots.into_iter().for_each(|slot| self.settle_readers(key, slot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_moment_belongs_to_the_reader_that_gives_the_lock_back_last() {
        let hold = |slot, from_ns, to_ns| ReaderHold {
            slot,
            from_ns,
            to_ns,
            site: ObjectKey { process: 0, address: 0 },
            again: false,
        };
        let found = |holds: &[ReaderHold]| -> Vec<(u32, u64, u64)> {
            decisive(holds, 10).into_iter().map(|part| (part.slot, part.from_ns, part.to_ns)).collect()
        };
        // 2 comes and goes while 1 reads; 3 follows 1 without a break; then nobody has it, and 4 does.
        let all = [hold(2, 20, 30), hold(1, 0, 60), hold(3, 50, 90), hold(4, 95, 99)];
        assert_eq!(found(&all), [(1, 10, 50), (3, 50, 90), (4, 95, 99)]);
        assert_eq!(found(&[hold(1, 0, 5)]), []);
        assert_eq!(found(&[]), []);
    }
}
