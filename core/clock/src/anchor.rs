//! Anchors: cycles paired with the kernel's clocks.

use super::counter::{Counter, CycleCounter, clock_ns};
use super::kernel::{KernelState, current_frequency_ppb};
use super::support::nominal_scale;
use quaver_abi::cycles::CycleScale;
use quaver_abi::record::AnchorRecord;
use std::time::Duration;

/// The clocks that an anchor pairs. Tests put their own in the place of [`SystemClocks`].
pub trait ClockSource {
    /// Cycle counter and the CPU that it was read on.
    fn cycles(&mut self) -> (u64, u16);
    /// CLOCK_MONOTONIC, nanoseconds.
    fn monotonic_ns(&mut self) -> i64;
    /// CLOCK_REALTIME, nanoseconds.
    fn realtime_ns(&mut self) -> i64;
    /// CLOCK_MONOTONIC_RAW, nanoseconds; 0 is missing.
    fn monotonic_raw_ns(&mut self) -> i64;
    /// The kernel's frequency correction, parts per billion.
    fn frequency_ppb(&mut self) -> i64;
    /// What else the kernel says of its clocks.
    fn kernel_state(&mut self) -> KernelState {
        KernelState::with_frequency(self.frequency_ppb())
    }
    /// Rough rate of the counter: brackets are given in nanoseconds by it.
    fn scale(&self) -> CycleScale;
}

/// The kernel's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClocks {
    counter: Counter,
    scale: CycleScale,
}

impl SystemClocks {
    /// Clocks with `counter` as the cycles. The first for a hardware counter takes 5 ms ([`nominal_scale`]).
    pub fn new(counter: Counter) -> Self {
        Self { counter, scale: nominal_scale(counter) }
    }
}

impl ClockSource for SystemClocks {
    #[inline]
    fn cycles(&mut self) -> (u64, u16) {
        self.counter.read_with_cpu()
    }

    #[inline]
    fn monotonic_ns(&mut self) -> i64 {
        clock_ns(libc::CLOCK_MONOTONIC)
    }

    #[inline]
    fn realtime_ns(&mut self) -> i64 {
        clock_ns(libc::CLOCK_REALTIME)
    }

    #[inline]
    fn monotonic_raw_ns(&mut self) -> i64 {
        clock_ns(libc::CLOCK_MONOTONIC_RAW)
    }

    fn frequency_ppb(&mut self) -> i64 {
        current_frequency_ppb()
    }

    fn kernel_state(&mut self) -> KernelState {
        KernelState::now()
    }

    fn scale(&self) -> CycleScale {
        self.scale
    }
}

/// Pairs `counter` with the kernel's clocks: the tightest of `rounds` brackets.
pub fn take_anchor(counter: Counter, rounds: u32) -> AnchorRecord {
    take_anchor_from(&mut SystemClocks::new(counter), rounds)
}

/// As [`take_anchor`], from any clocks.
///
/// CLOCK_MONOTONIC is read between two readings of the counter; the narrowest pair of `rounds` (at least one)
/// counts, and the pairing is wrong by at most half its width. CLOCK_REALTIME differs from CLOCK_MONOTONIC by an
/// amount that only steps change, so each round, which reads it between two readings of CLOCK_MONOTONIC, bounds
/// that difference, and what all rounds allow is narrower than each.
pub fn take_anchor_from(clocks: &mut impl ClockSource, rounds: u32) -> AnchorRecord {
    let mut anchor = pair_clocks(clocks, rounds).anchor;
    anchor.frequency_ppb = clocks.frequency_ppb();
    anchor
}

/// An anchor without its frequency, and what CLOCK_REALTIME minus CLOCK_MONOTONIC may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paired {
    pub(super) anchor: AnchorRecord,
    pub(super) offset: Difference,
}

/// As [`take_anchor_from`], without asking for the frequency.
pub(super) fn pair_clocks(clocks: &mut impl ClockSource, rounds: u32) -> Paired {
    let scale = clocks.scale();
    let mut best_width = u64::MAX;
    let mut anchor = AnchorRecord::default();
    let mut realtime = Difference::unknown();
    let mut raw = Difference::unknown();
    for _ in 0..rounds.max(1) {
        let (before, _) = clocks.cycles();
        let monotonic_ns = clocks.monotonic_ns();
        let (after, cpu) = clocks.cycles();
        let width = after.wrapping_sub(before);
        if width < best_width {
            best_width = width;
            anchor.cycles = before + width / 2;
            anchor.monotonic_ns = monotonic_ns;
            anchor.cpu = cpu;
        }
        realtime.narrow(clocks, ClockSource::realtime_ns);
        raw.narrow(clocks, ClockSource::monotonic_raw_ns);
    }
    // One nanosecond for the whole nanoseconds that the kernel's clocks count in.
    anchor.half_bracket_ns = scale.ns(best_width.div_ceil(2)) as i64 + 1;
    anchor.realtime_ns = anchor.monotonic_ns + realtime.middle();
    anchor.monotonic_raw_ns = anchor.monotonic_ns + raw.middle();
    Paired { anchor, offset: realtime }
}

/// What a clock minus CLOCK_MONOTONIC may be, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) least: i64,
    pub(super) most: i64,
}

impl Difference {
    const fn unknown() -> Self {
        Self { least: i64::MIN, most: i64::MAX }
    }

    fn narrow<C: ClockSource>(&mut self, clocks: &mut C, read: impl Fn(&mut C) -> i64) {
        let before = clocks.monotonic_ns();
        let other = read(clocks);
        let after = clocks.monotonic_ns();
        let (least, most) = (other - after, other - before);
        if least > self.most || most < self.least {
            // The other clock was stepped between the rounds: what was known is of the past.
            (self.least, self.most) = (least, most);
        } else {
            (self.least, self.most) = (self.least.max(least), self.most.min(most));
        }
    }

    /// Whether both may be true of one difference.
    pub(super) fn meets(&self, other: Self) -> bool {
        self.least <= other.most && other.least <= self.most
    }

    /// What both allow.
    pub(super) fn meet(&mut self, other: Self) {
        (self.least, self.most) = (self.least.max(other.least), self.most.min(other.most));
    }

    pub(super) fn middle(&self) -> i64 {
        self.least + (self.most - self.least) / 2
    }
}

/// Smallest change of CLOCK_REALTIME against CLOCK_MONOTONIC between two anchors that is called a step.
pub const STEP_MIN_NS: i64 = 1_000;
/// Bit of [`AnchorRecord::flags`]: CLOCK_REALTIME was stepped since the anchor before.
pub const FLAG_STEPPED: u16 = 1 << 0;
/// Brackets tried for each anchor: about 3 µs.
const ROUNDS: u32 = 16;
/// Brackets wider than this are taken anew, as an interrupt came between.
const WIDE_NS: i64 = 1_000;
/// Time between anchors.
const INTERVAL: Duration = Duration::from_millis(100);

/// Collects anchors while a measurement runs. It has no thread: a housekeeping thread calls
/// [`AnchorKeeper::tick`] now and then, and the first and last anchors enclose the measured part.
#[derive(Debug)]
pub struct AnchorKeeper<C: ClockSource = SystemClocks> {
    clocks: C,
    interval_ns: i64,
    anchors: Vec<AnchorRecord>,
}

impl AnchorKeeper {
    /// Takes the first anchor now; then one each 100 ms as far as it is ticked.
    pub fn start(counter: Counter) -> Self {
        Self::with_clocks(SystemClocks::new(counter), INTERVAL)
    }
}

impl<C: ClockSource> AnchorKeeper<C> {
    /// As [`AnchorKeeper::start`], with any clocks and interval.
    pub fn with_clocks(clocks: C, interval: Duration) -> Self {
        let interval_ns = i64::try_from(interval.as_nanos()).unwrap_or(i64::MAX);
        let mut keeper = Self { clocks, interval_ns, anchors: Vec::with_capacity(1_024) };
        keeper.take();
        keeper
    }

    /// Takes an anchor if one is due, and returns it (for the anchor segment).
    pub fn tick(&mut self) -> Option<AnchorRecord> {
        let last = self.anchors.last().map_or(i64::MIN, |anchor| anchor.monotonic_ns);
        let due = self.clocks.monotonic_ns().saturating_sub(last) >= self.interval_ns;
        due.then(|| self.take())
    }

    /// Takes an anchor now, due or not: before and after a measured part.
    pub fn take(&mut self) -> AnchorRecord {
        let mut anchor = take_anchor_from(&mut self.clocks, ROUNDS);
        for _ in 0..3 {
            if anchor.half_bracket_ns <= WIDE_NS / 2 {
                break;
            }
            let again = take_anchor_from(&mut self.clocks, ROUNDS);
            if again.half_bracket_ns < anchor.half_bracket_ns {
                anchor = again;
            }
        }
        if let Some(last) = self.anchors.last() {
            let step_ns = (anchor.realtime_ns - anchor.monotonic_ns) - (last.realtime_ns - last.monotonic_ns);
            if step_ns.abs() >= STEP_MIN_NS {
                anchor.flags |= FLAG_STEPPED;
            }
        }
        self.anchors.push(anchor);
        anchor
    }

    /// Anchors so far, in order.
    pub fn anchors(&self) -> &[AnchorRecord] {
        &self.anchors
    }

    /// Takes the last anchor and hands all of them over.
    pub fn finish(mut self) -> Vec<AnchorRecord> {
        self.take();
        self.anchors
    }
}
