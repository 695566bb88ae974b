//! Ticks of the trace clock to CLOCK_MONOTONIC nanoseconds.

use quaver_abi::cycles::CycleScale;
use quaver_abi::record::AnchorRecord;
use rustix::time::{ClockId, clock_gettime};

/// The clock that stamps an instance's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceClock {
    /// The cycle counter, raw.
    X86Tsc,
    /// CLOCK_MONOTONIC as the kernel reads it without a lock.
    Mono,
}

impl TraceClock {
    /// Name in the `trace_clock` file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86Tsc => "x86-tsc",
            Self::Mono => "mono",
        }
    }

    /// The better one of those that a `trace_clock` file offers (its current one is in brackets).
    pub fn best_of(offered: &str) -> Option<Self> {
        let has = |clock: Self| {
            offered.split_whitespace().any(|word| word.trim_matches(['[', ']']) == clock.name())
        };
        let tsc = cfg!(target_arch = "x86_64") && has(Self::X86Tsc);
        tsc.then_some(Self::X86Tsc).or(has(Self::Mono).then_some(Self::Mono))
    }
}

/// Pairings of the two clocks, in order, and the conversion between them.
#[derive(Debug)]
pub struct Timeline {
    clock: TraceClock,
    anchors: Vec<AnchorRecord>,
    /// Index of the later anchor of the pair used last, and the scale between the two.
    cached: Option<(usize, CycleScale)>,
}

impl Timeline {
    /// A timeline without pairings.
    pub fn new(clock: TraceClock) -> Self {
        Self { clock, anchors: Vec::new(), cached: None }
    }

    /// The clock whose ticks are converted.
    pub fn clock(&self) -> TraceClock {
        self.clock
    }

    /// Adds a pairing; one that does not advance both clocks is ignored.
    pub fn push(&mut self, anchor: AnchorRecord) {
        let advances =
            |last: &AnchorRecord| anchor.cycles > last.cycles && anchor.monotonic_ns > last.monotonic_ns;
        if self.anchors.last().is_none_or(advances) {
            self.anchors.push(anchor);
        }
    }

    /// Takes a pairing now, where the clock needs one.
    pub fn anchor_now(&mut self) {
        if self.clock == TraceClock::X86Tsc {
            self.push(best_bracket());
        }
    }

    /// CLOCK_MONOTONIC nanoseconds at `ticks`: interpolated between the pairings around it, or beyond the first
    /// or last pair; none before there are two.
    pub fn monotonic_ns(&mut self, ticks: u64) -> Option<u64> {
        if self.clock == TraceClock::Mono {
            return Some(ticks);
        }
        let last = self.anchors.len().checked_sub(1).filter(|last| *last > 0)?;
        let fits = |after: usize| {
            (after == 1 || self.anchors[after - 1].cycles <= ticks)
                && (after == last || ticks < self.anchors[after].cycles)
        };
        let (after, scale) = match self.cached {
            Some(cached) if fits(cached.0) => cached,
            _ => {
                let after = self.anchors.partition_point(|a| a.cycles <= ticks).clamp(1, last);
                (after, CycleScale::between(&self.anchors[after - 1], &self.anchors[after])?)
            }
        };
        self.cached = Some((after, scale));
        let from = &self.anchors[after - 1];
        u64::try_from(from.monotonic_ns + scale.signed_ns(from.cycles, ticks)).ok()
    }
}

/// CLOCK_MONOTONIC now, nanoseconds.
pub fn monotonic_now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The narrowest of some brackets of the cycle counter around CLOCK_MONOTONIC.
#[cfg(target_arch = "x86_64")]
fn best_bracket() -> AnchorRecord {
    const TRIES: usize = 15;
    let mut best: Option<(u64, AnchorRecord)> = None;
    for _ in 0..TRIES {
        let before = cycles_ordered();
        let now_ns = monotonic_now_ns();
        let width = cycles_ordered().saturating_sub(before);
        if best.is_none_or(|(narrowest, _)| width < narrowest) {
            let cycles = before + width / 2;
            let anchor = AnchorRecord { cycles, monotonic_ns: now_ns as i64, ..AnchorRecord::default() };
            best = Some((width, anchor));
        }
    }
    best.expect("at least one try").1
}

#[cfg(not(target_arch = "x86_64"))]
fn best_bracket() -> AnchorRecord {
    // Never used: only x86 offers the raw clock.
    let now_ns = monotonic_now_ns();
    AnchorRecord { cycles: now_ns, monotonic_ns: now_ns as i64, ..AnchorRecord::default() }
}

#[cfg(target_arch = "x86_64")]
fn cycles_ordered() -> u64 {
    // SAFETY: both instructions are in every x86-64 and touch no memory; the fence keeps the reading in its place,
    // as the kernel's own rdtsc_ordered does.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        core::arch::x86_64::_rdtsc()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::cycles;

    fn anchor(cycles: u64, monotonic_ns: i64) -> AnchorRecord {
        AnchorRecord { cycles, monotonic_ns, ..AnchorRecord::default() }
    }

    #[test]
    fn agrees_with_the_plain_interpolation() {
        let anchors = [anchor(1_000, 10_000), anchor(2_000, 11_000), anchor(3_000, 13_000)];
        let mut timeline = Timeline::new(TraceClock::X86Tsc);
        assert_eq!(timeline.monotonic_ns(5), None);
        anchors.iter().for_each(|a| timeline.push(*a));
        timeline.push(anchor(2_500, 14_000));
        for ticks in [0, 1_500, 900, 2_000, 2_999, 3_000, 5_000, 1_999, 1_000] {
            let expected = cycles::monotonic_ns(&anchors, ticks).map(|ns| ns as u64);
            assert_eq!(timeline.monotonic_ns(ticks), expected, "at {ticks}");
        }
    }

    #[test]
    fn mono_needs_no_pairing() {
        assert_eq!(Timeline::new(TraceClock::Mono).monotonic_ns(77), Some(77));
    }

    #[test]
    fn chooses_among_the_clocks_offered() {
        assert_eq!(TraceClock::best_of("[local] global mono boot"), Some(TraceClock::Mono));
        assert_eq!(TraceClock::best_of("local [mono]"), Some(TraceClock::Mono));
        assert_eq!(TraceClock::best_of("[local] mono_raw"), None);
        let tsc = if cfg!(target_arch = "x86_64") { TraceClock::X86Tsc } else { TraceClock::Mono };
        assert_eq!(TraceClock::best_of("[local] mono x86-tsc"), Some(tsc));
    }
}
