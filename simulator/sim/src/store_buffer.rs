//! Stores that are on their way.

/// No store buffer has more places.
pub const MOST_ENTRIES: usize = 16;

/// When a line is here for which the directory has not been asked yet.
const NOT_ASKED: u64 = u64::MAX;

/// A store that missed, by its second-level line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pending {
    line: u64,
    /// When the line is here, or `NOT_ASKED`.
    done_fs: u64,
}

/// Stores that wait for their lines. They leave in the order of their coming.
#[derive(Clone, Copy, Debug)]
pub struct StoreBuffer {
    pending: [Pending; MOST_ENTRIES],
    count: usize,
    capacity: usize,
}

/// What a store buffer says to a new store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// A store to the same line is on its way; nothing need be asked.
    Joined,
    /// It has a place now; its line must be asked for.
    Taken,
    /// There is room from this time on.
    From(u64),
    /// There is none until the directory has answered.
    Full,
}

impl StoreBuffer {
    /// An empty buffer of `capacity` places, at most [`MOST_ENTRIES`].
    pub fn new(capacity: usize) -> Self {
        Self { pending: [Pending::default(); MOST_ENTRIES], count: 0, capacity: capacity.min(MOST_ENTRIES) }
    }

    /// Becomes the same as another one of the same capacity.
    #[inline]
    pub fn copy_from(&mut self, other: &Self) {
        self.count = other.count;
        self.pending[..other.count].copy_from_slice(&other.pending[..other.count]);
    }

    fn stores(&self) -> &[Pending] {
        &self.pending[..self.count]
    }

    /// Lets go of what has arrived by `now_fs`.
    fn retire(&mut self, now_fs: u64) {
        let gone = self.stores().iter().take_while(|store| store.done_fs <= now_fs).count();
        if gone > 0 {
            self.pending.copy_within(gone..self.count, 0);
            self.count -= gone;
        }
    }

    /// A store that missed comes at `now_fs`.
    pub fn take(&mut self, line: u64, now_fs: u64) -> Room {
        self.retire(now_fs);
        let new = Pending { line, done_fs: NOT_ASKED };
        if self.stores().contains(&new) {
            return Room::Joined;
        }
        if self.count < self.capacity {
            self.pending[self.count] = new;
            self.count += 1;
            return Room::Taken;
        }
        match self.pending[0].done_fs {
            NOT_ASKED => Room::Full,
            done_fs => Room::From(done_fs),
        }
    }

    /// The directory was asked for the oldest such line: it is here at `done_fs`.
    pub fn answer(&mut self, line: u64, done_fs: u64) {
        let asked = Pending { line, done_fs: NOT_ASKED };
        if let Some(store) = self.pending[..self.count].iter_mut().find(|store| **store == asked) {
            store.done_fs = done_fs;
        }
    }

    /// When a line that a store asked for is here; none if no store did or it is here at `now_fs`.
    pub fn arrival(&self, line: u64, now_fs: u64) -> Option<u64> {
        let done_fs = self.stores().iter().rev().find(|store| store.line == line)?.done_fs;
        (done_fs > now_fs && done_fs != NOT_ASKED).then_some(done_fs)
    }

    /// When all of them are done: none if the directory has not answered all.
    pub fn drained(&self, now_fs: u64) -> Option<u64> {
        let latest_fs = self.stores().iter().fold(now_fs, |latest, store| latest.max(store.done_fs));
        (latest_fs != NOT_ASKED).then_some(latest_fs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_leave_in_order_and_join_those_to_their_line() {
        let mut buffer = StoreBuffer::new(2);
        assert_eq!((buffer.take(7, 0), buffer.take(7, 1)), (Room::Taken, Room::Joined));
        assert_eq!((buffer.take(8, 2), buffer.take(9, 3)), (Room::Taken, Room::Full));
        assert_eq!((buffer.drained(3), buffer.arrival(7, 3)), (None, None));
        buffer.answer(8, 10);
        assert_eq!(buffer.take(9, 11), Room::Full, "the older one is still on its way");
        buffer.answer(7, 20);
        assert_eq!((buffer.take(9, 12), buffer.arrival(7, 12)), (Room::From(20), Some(20)));
        assert_eq!((buffer.take(9, 20), buffer.drained(20)), (Room::Taken, None), "both left");
    }
}
