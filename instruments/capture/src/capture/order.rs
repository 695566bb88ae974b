//! Several interfaces in one file: their blocks wait for each other, so that packets go out in the order of their stamps in the
//! rings.
//!
//! A packet is handed over at the latest when its ring's timer ran out twice: it closes a block only if that was open at its last
//! turn, too. So what is that old has no earlier packet of another interface before it, and goes out though that one is idle.

use crate::record::{Block, Early};
use quaver_abi::stamp::LayerStamp;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How late the capture thread may look at a ring, beyond its timer.
const LATE_LOOK: Duration = Duration::from_millis(10);

/// A block that waits, or what is left of it.
pub(super) struct Waiting {
    pub(super) block: Block,
    pub(super) early: Early,
    pub(super) application: LayerStamp,
    pub(super) came: Instant,
}

/// The blocks of each tap that wait.
pub(super) struct Order {
    taps: Vec<VecDeque<Waiting>>,
    /// How long a block may wait for an idle tap.
    longest: Duration,
    /// How many blocks of a tap may wait: half of its ring's.
    most: usize,
}

impl Order {
    /// Of rings that hand over after so long at the latest, each of so many blocks.
    pub(super) fn new(taps: usize, timeout: Duration, blocks: usize) -> Self {
        Self {
            taps: std::iter::repeat_with(VecDeque::new).take(taps).collect(),
            longest: 2 * timeout + LATE_LOOK,
            most: (blocks / 2).max(1),
        }
    }

    pub(super) fn push(&mut self, tap: usize, waiting: Waiting) {
        self.taps[tap].push_back(waiting);
    }

    /// What is left of a block comes first again.
    pub(super) fn put_back(&mut self, tap: usize, waiting: Waiting) {
        self.taps[tap].push_front(waiting);
    }

    /// How long until a block need not wait any longer.
    pub(super) fn left(&self) -> Option<Duration> {
        let first = self.taps.iter().filter_map(VecDeque::front).map(|waiting| waiting.came).min()?;
        Some(self.longest.saturating_sub(first.elapsed()))
    }

    /// The block whose next packet is the earliest, its tap, and the stamp up to which it is before those of the others. None
    /// while a tap may still have an earlier one, unless `all` are here.
    pub(super) fn next(&mut self, all: bool) -> Option<(usize, Waiting, Option<i64>)> {
        let overdue = |tap: &VecDeque<Waiting>| {
            tap.len() > self.most || tap.front().is_some_and(|first| first.came.elapsed() >= self.longest)
        };
        let ready = all || self.taps.iter().all(|tap| !tap.is_empty()) || self.taps.iter().any(overdue);
        if !ready {
            return None;
        }
        if let [only] = self.taps.as_mut_slice() {
            return only.pop_front().map(|waiting| (0, waiting, None));
        }
        let mut heads: Vec<(i64, usize)> = (0..self.taps.len())
            .filter_map(|tap| Some((self.taps[tap].front()?.block.next_time_ns().unwrap_or(i64::MIN), tap)))
            .collect();
        heads.sort_unstable();
        let (_, tap) = *heads.first()?;
        let until_ns = heads.get(1).map(|(time_ns, _)| *time_ns);
        Some((tap, self.taps[tap].pop_front()?, until_ns))
    }
}
