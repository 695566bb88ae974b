//! Readers that keep a writer out together. A moment of its wait belongs to the one, of those that had the lock then, which gave it
//! back last: without the others the wait would have been as long.

use super::Ledger;
use super::lock::{KeptOut, Lock, ReaderHold, Readers, Several, Stretch};
use super::log::{Log, Piece};
use super::thread::Thread;
use crate::sync::event::ThreadId;
use crate::sync::keys::ObjectKey;

/// Readers kept for one lock. The earliest beyond these counts as one that had the lock before the wait.
const KEPT: usize = 64;

/// Holds that a wait keeps one by one. Beyond these, neighbours that only fall together are one stretch.
#[derive(Clone, Copy, Debug)]
pub(super) struct SingleHolds(pub(super) usize);

impl Default for SingleHolds {
    fn default() -> Self {
        Self(1_024)
    }
}

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

/// Whose wait it is, and for which lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitOf {
    pub(super) key: ObjectKey,
    pub(super) slot: u32,
}

impl Several {
    fn empty(from_ns: u64) -> Box<Self> {
        Box::new(Self { from_ns, to_ns: from_ns, sums: Lock::default(), log: Log::default() })
    }

    fn takes(&mut self, next: Stretch, wait: WaitOf, threads: &[Thread]) {
        let (from_ns, to_ns) = (self.to_ns, next.end_ns());
        let pieces = next.book(wait, from_ns, &mut self.sums, threads);
        pieces.into_iter().for_each(|piece| self.log.push(piece, 0));
        self.to_ns = to_ns;
    }
}

impl Stretch {
    const fn begin_ns(&self) -> u64 {
        match self {
            Self::Hold(hold) => hold.from_ns,
            Self::Several(several) => several.from_ns,
        }
    }

    const fn end_ns(&self) -> u64 {
        match self {
            Self::Hold(hold) => hold.to_ns,
            Self::Several(several) => several.to_ns,
        }
    }

    /// Books it, and what lies before it from `from_ns` on: what the waiter's log has of it.
    fn book(self, wait: WaitOf, from_ns: u64, lock: &mut Lock, threads: &[Thread]) -> Vec<Piece> {
        let WaitOf { key, slot } = wait;
        match self {
            Self::Hold(hold) => {
                let (got_ns, to_ns) = (hold.from_ns, hold.to_ns);
                let site = Some(hold.site);
                let until = KeptOut { key, from_ns, got_ns, to_ns, site, overtakes: hold.again };
                until.cut(lock, threads, slot, hold.slot)
            }
            Self::Several(several) => {
                let Several { from_ns: got_ns, sums, log, .. } = *several;
                lock.hand_over(got_ns - from_ns);
                lock.absorb(sums);
                let waiter = threads.get(slot as usize).map(|thread| thread.id);
                let on_its_way = waiter.and_then(|waiter| Piece::on_its_way(key, waiter, from_ns, got_ns));
                on_its_way.into_iter().chain(log.into_pieces()).collect()
            }
        }
    }
}

impl Readers {
    /// No reader has given the lock back since.
    pub(super) const fn is_empty(&self) -> bool {
        self.until_ns.is_none()
    }

    /// Holds that stand by themselves.
    #[cfg(test)]
    pub(super) fn holds(&self) -> impl Iterator<Item = &ReaderHold> {
        self.parts.iter().filter_map(|part| match part {
            Stretch::Hold(hold) => Some(hold),
            Stretch::Several(_) => None,
        })
    }

    /// One more has, later than those before. From its beginning on the wait was for it alone.
    pub(super) fn add(&mut self, mut hold: ReaderHold) {
        self.until_ns = Some(hold.to_ns);
        if hold.from_ns >= hold.to_ns {
            return;
        }
        while let Some(last) = self.parts.last_mut().filter(|last| last.end_ns() > hold.from_ns) {
            match last {
                Stretch::Hold(one) if one.from_ns < hold.from_ns => one.to_ns = hold.from_ns,
                // It has no reader inside that could give the lock back now.
                Stretch::Several(one) if one.from_ns < hold.from_ns => hold.from_ns = one.to_ns,
                _ => drop(self.parts.pop()),
            }
        }
        self.parts.push(Stretch::Hold(hold));
    }

    /// Keeps the parts few. A hold to come begins where a reader got the lock that still has it (`reading`), or earlier than all.
    /// Parts between two such instants stay or fall together.
    pub(super) fn fold(
        &mut self,
        most: SingleHolds,
        wait: WaitOf,
        reading: &[(ThreadId, u64)],
        threads: &[Thread],
    ) {
        if self.parts.len() <= most.0.max(4 * reading.len()) {
            return;
        }
        let is_open = |from_ns: u64, to_ns: u64| reading.iter().any(|(_, at)| (from_ns..to_ns).contains(at));
        let mut parts: Vec<Stretch> = Vec::new();
        for part in std::mem::take(&mut self.parts) {
            if is_open(part.begin_ns() + 1, part.end_ns()) {
                parts.push(part);
                continue;
            }
            match parts.last_mut() {
                Some(Stretch::Several(last)) if !is_open(last.to_ns, part.end_ns()) => {
                    last.takes(part, wait, threads);
                }
                _ => {
                    let mut first = Several::empty(part.begin_ns());
                    first.takes(part, wait, threads);
                    parts.push(Stretch::Several(first));
                }
            }
        }
        // Of a thread the latest pieces are kept, as always.
        let mut room = super::log::KEPT;
        for part in parts.iter_mut().rev() {
            if let Stretch::Several(several) = part {
                room -= several.log.keep_latest(room);
            }
        }
        self.parts = parts;
    }
}

impl Ledger {
    /// Books what a wait was for until the last reader gave the lock back, if readers did so.
    pub(super) fn settle_readers(&mut self, key: ObjectKey, waiter_slot: u32) {
        let needed_ns = self.needed_ns();
        let Some(lock) = self.locks.get_mut(&key) else { return };
        let Some(waiter) = lock.waiters.iter_mut().find(|waiter| waiter.slot == waiter_slot) else { return };
        let Readers { parts, until_ns } = std::mem::take(&mut waiter.readers);
        let Some(until_ns) = until_ns else { return };
        let mut from_ns = std::mem::replace(&mut waiter.booked_ns, until_ns);
        let wait = WaitOf { key, slot: waiter_slot };
        let Some(waits) = self.threads.get(waiter_slot as usize).map(|thread| thread.id) else { return };
        let mut pieces = Vec::new();
        for part in parts {
            let to_ns = part.end_ns();
            pieces.extend(part.book(wait, from_ns, lock, &self.threads));
            from_ns = to_ns;
        }
        // The latest had it for no time.
        lock.hand_over(until_ns - from_ns);
        pieces.extend(Piece::on_its_way(key, waits, from_ns, until_ns));
        let log = &mut self.threads[waiter_slot as usize].log;
        pieces.into_iter().for_each(|piece| log.push(piece, needed_ns));
    }

    /// The same of all who wait for the lock.
    pub(super) fn settle_all_readers(&mut self, key: ObjectKey) {
        let waiters = self.locks.get(&key).map_or(&[][..], |lock| &lock.waiters);
        let slots: Vec<u32> =
            waiters.iter().filter(|waiter| !waiter.readers.is_empty()).map(|waiter| waiter.slot).collect();
        slots.into_iter().for_each(|slot| self.settle_readers(key, slot));
    }
}
