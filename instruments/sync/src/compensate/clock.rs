//! The recorder's cycles as time, while they come in.

use quaver_abi::cycles::CycleScale;
use quaver_abi::record::AnchorRecord;
use quaver_clock::{cycles, monotonic_ns};

/// Anchors nearer than this to the first tell more of their own noise than of the clock.
const LEAST_NS: i64 = 5_000_000;
/// Between two anchors.
const PERIOD_NS: i64 = 10_000_000;
/// Brackets of which the tightest counts.
const ROUNDS: u32 = 5;

/// CLOCK_MONOTONIC, nanoseconds.
pub(super) fn now_ns() -> u64 {
    monotonic_ns().max(0).unsigned_abs()
}

/// Ties the cycle counter to CLOCK_MONOTONIC: the rate since the first anchor, from the newest on.
#[derive(Debug)]
pub(super) struct Clock {
    first: AnchorRecord,
    newest: AnchorRecord,
    scale: CycleScale,
}

impl Clock {
    /// Takes a few milliseconds.
    pub(super) fn start() -> Self {
        let first = anchor();
        loop {
            std::thread::sleep(std::time::Duration::from_nanos(LEAST_NS.unsigned_abs()));
            let newest = anchor();
            if let Some(scale) = CycleScale::between(&first, &newest) {
                return Self { first, newest, scale };
            }
        }
    }

    /// Takes another anchor, where the last is old enough.
    pub(super) fn tick(&mut self) {
        if monotonic_ns() - self.newest.monotonic_ns < PERIOD_NS {
            return;
        }
        let newest = anchor();
        if let Some(scale) = CycleScale::between(&self.first, &newest) {
            (self.newest, self.scale) = (newest, scale);
        }
    }

    /// When the counter said that.
    pub(super) fn at_ns(&self, cycles: u64) -> u64 {
        let ns = self.newest.monotonic_ns.saturating_add(self.scale.signed_ns(self.newest.cycles, cycles));
        ns.max(0).unsigned_abs()
    }
}

fn anchor() -> AnchorRecord {
    let bracket = || {
        let before = cycles();
        let monotonic_ns = monotonic_ns();
        let width = cycles().wrapping_sub(before);
        (
            width,
            AnchorRecord { cycles: before.wrapping_add(width / 2), monotonic_ns, ..AnchorRecord::default() },
        )
    };
    let tightest = (0..ROUNDS).map(|_| bracket()).min_by_key(|(width, _)| *width);
    tightest.map_or_else(AnchorRecord::default, |(_, anchor)| anchor)
}
