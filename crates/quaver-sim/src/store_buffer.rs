//! Stores that are on their way.

use std::collections::VecDeque;

/// A store that missed, by its second-level line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending {
    line: u64,
    /// When the line is here; none while the directory has not been asked yet.
    done_fs: Option<u64>,
}

/// Stores that wait for their lines. They leave in the order of their coming.
#[derive(Clone, Debug)]
pub struct StoreBuffer {
    pending: VecDeque<Pending>,
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
    /// An empty buffer of `capacity` places.
    pub fn new(capacity: usize) -> Self {
        Self { pending: VecDeque::with_capacity(capacity), capacity }
    }

    /// Lets go of what has arrived by `now_fs`.
    #[inline]
    fn retire(&mut self, now_fs: u64) {
        while self.pending.front().is_some_and(|store| store.done_fs.is_some_and(|done| done <= now_fs)) {
            self.pending.pop_front();
        }
    }

    /// A store that missed comes at `now_fs`.
    pub fn take(&mut self, line: u64, now_fs: u64) -> Room {
        self.retire(now_fs);
        if self.pending.iter().any(|store| store.line == line && store.done_fs.is_none()) {
            return Room::Joined;
        }
        if self.pending.len() < self.capacity {
            self.pending.push_back(Pending { line, done_fs: None });
            return Room::Taken;
        }
        self.pending.front().and_then(|store| store.done_fs).map_or(Room::Full, Room::From)
    }

    /// The directory was asked for the oldest such line: it is here at `done_fs`.
    pub fn answer(&mut self, line: u64, done_fs: u64) {
        if let Some(store) =
            self.pending.iter_mut().find(|store| store.line == line && store.done_fs.is_none())
        {
            store.done_fs = Some(done_fs);
        }
    }

    /// When a line that a store asked for is here; none if no store did or it is here at `now_fs`.
    pub fn arrival(&self, line: u64, now_fs: u64) -> Option<u64> {
        let done = self.pending.iter().rev().find(|store| store.line == line)?.done_fs?;
        (done > now_fs).then_some(done)
    }

    /// When all of them are done: none if the directory has not answered all.
    pub fn drained(&self, now_fs: u64) -> Option<u64> {
        self.pending.iter().try_fold(now_fs, |latest, store| store.done_fs.map(|done| latest.max(done)))
    }
}
