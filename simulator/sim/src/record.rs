//! What a run leaves behind besides counts: the critical path, and intervals for a time line.

use crate::statistics::{CriticalPath, Interval, IntervalKind, WaitKind};
use crate::threads::EndedWait;
use quaver_trace::step::Thread;
use std::cmp::Reverse;

/// The way that led a thread to where it is: made longer at each wake-up, so that no history need be kept.
#[derive(Clone, Debug, Default)]
struct Way {
    path: CriticalPath,
    /// Since when the thread goes on by itself, femtoseconds.
    since_fs: u64,
}

impl Way {
    fn until(&self, thread: usize, at_fs: u64) -> CriticalPath {
        let mut path = self.path.clone();
        path.add(thread, at_fs.saturating_sub(self.since_fs));
        path
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    ways: Vec<Way>,
    last_fs: u64,
    longest: CriticalPath,
    room: usize,
    intervals: Vec<Interval>,
    dropped: u64,
}

impl Record {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            ways: vec![Way::default(); threads],
            last_fs: 0,
            longest: CriticalPath::default(),
            room: 0,
            intervals: Vec::new(),
            dropped: 0,
        }
    }

    /// Keeps intervals from now on, at most so many.
    pub(crate) fn keep_intervals(&mut self, most: usize) {
        self.room = most;
    }

    /// Something took time.
    pub(crate) fn interval(&mut self, start_fs: u64, end_fs: u64, what: IntervalKind) {
        if self.room == 0 || end_fs <= start_fs {
            return;
        }
        if self.intervals.len() < self.room {
            self.intervals.push(Interval { start_fs, end_fs, what });
        } else {
            self.dropped += 1;
        }
    }

    /// A wait has ended because of what `by` did.
    pub(crate) fn waited(&mut self, by: Thread, wait: &EndedWait) {
        let what =
            IntervalKind::Waits { thread: wait.thread.0, reason: wait.kind, object: wait.object, by: by.0 };
        self.interval(wait.start_fs, wait.end_fs, what);
    }

    /// Kernel activity has held the thread up for so long.
    pub(crate) fn held_up(&mut self, thread: usize, took_fs: u64) {
        self.ways[thread].path.kernel_fs += took_fs;
    }

    /// `by` let `thread` go on at `at_fs`; it does at `ready_fs`.
    pub(crate) fn woke(&mut self, thread: Thread, by: Thread, kind: WaitKind, (at_fs, ready_fs): (u64, u64)) {
        let (thread, by) = (thread.0 as usize, by.0 as usize);
        // In the place of the old one: programs wake threads all the time.
        let Ok([way, waker]) = self.ways.get_disjoint_mut([thread, by]) else { return };
        way.path.take_over(&waker.path);
        way.path.add(by, at_fs.saturating_sub(waker.since_fs));
        way.path.edges_fs[kind as usize] += ready_fs - at_fs;
        way.path.edges[kind as usize] += 1;
        way.since_fs = ready_fs;
    }

    /// The thread has ended.
    pub(crate) fn ended(&mut self, thread: Thread, at_fs: u64) {
        if at_fs >= self.last_fs {
            self.last_fs = at_fs;
            self.longest = self.ways[thread.0 as usize].until(thread.0 as usize, at_fs);
        }
    }

    /// When the last thread that ended did.
    pub(crate) fn last_fs(&self) -> u64 {
        self.last_fs
    }

    /// The way to the end, once all threads have ended.
    pub(crate) fn longest(&self) -> &CriticalPath {
        &self.longest
    }

    /// The way to where a run is that has not ended. `threads` are those that have begun and not ended, each with the time that it
    /// came to; of those that came furthest it is the one that has gone on by itself for longest.
    pub(crate) fn so_far(&self, threads: impl Iterator<Item = (usize, u64)>) -> CriticalPath {
        let furthest =
            threads.min_by_key(|&(thread, at_fs)| (Reverse(at_fs), self.ways[thread].since_fs, thread));
        furthest
            .map_or_else(|| self.longest.clone(), |(thread, at_fs)| self.ways[thread].until(thread, at_fs))
    }

    pub(crate) fn intervals(&self) -> (&[Interval], u64) {
        (&self.intervals, self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_of_a_thread_has_room_for_those_on_it_alone() {
        let mut record = Record::new(1 << 16);
        record.woke(Thread(65_535), Thread(0), WaitKind::Create, (7, 9));
        record.woke(Thread(2), Thread(0), WaitKind::Lock, (10, 11));
        record.ended(Thread(2), 14);
        let room: usize = record.ways.iter().map(|way| way.path.threads_fs.len()).sum();
        assert_eq!(room, 2, "a trace that names thread 65,535 would need 34 GB else");
        assert_eq!(record.longest().threads_fs, [10, 0, 3]);
        record.ended(Thread(65_535), 20);
        assert_eq!((record.longest().threads_fs[65_535], record.longest().total_fs()), (11, 20));
    }
}
