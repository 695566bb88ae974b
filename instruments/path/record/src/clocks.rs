//! What a host knows of its clocks, and whether its wall clock was stepped.

mod chrony;

use super::hosts::Side;
use quaver_abi::wire::chrony::Tracking;
use quaver_clock::{monotonic_ns, realtime_ns};
use std::time::{Duration, Instant};

/// The wall clock was stepped, rather than slewed, if it moved this much against CLOCK_MONOTONIC between two
/// readings, beside what their own uncertainty allows. Nanoseconds. Slewing moves both alike.
pub const STEP_LEAST_NS: i64 = 10_000;

/// The kernel's estimate of its clock (`adjtimex`, as NTP daemons feed it), and chronyd's. Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockEstimate {
    /// When it was read, UTC.
    pub realtime_ns: i64,
    /// Offset that the kernel is working off.
    pub offset_ns: i64,
    /// Bound of the error; grows by 500 ppm until a daemon says better.
    pub maxerror_ns: i64,
    /// Estimate of the error.
    pub esterror_ns: i64,
    /// Frequency correction, parts per billion.
    pub frequency_ppb: i64,
    /// What adjtimex returned: 0 TIME_OK to 5 TIME_ERROR (not synchronised).
    pub state: i32,
    /// STA_ bits of `<sys/timex.h>`.
    pub status: u32,
    /// TAI minus UTC, seconds; 0 where unknown.
    pub tai_offset_s: i32,
    /// What chronyd knows beyond that; none where none runs, or where nobody asked.
    pub chrony: Option<Tracking>,
}

impl ClockEstimate {
    /// Whether the kernel thinks that its clock follows a reference.
    pub fn is_synchronised(&self) -> bool {
        self.state != libc::TIME_ERROR && self.status & libc::STA_UNSYNC as u32 == 0
    }

    /// Asks the kernel, and chronyd where it runs, which takes a round trip to it on this host and a tenth of a second
    /// at most. None where the kernel refuses.
    pub fn now() -> Option<Self> {
        Some(Self { chrony: chrony::ask(chrony::ADDRESS), ..Self::kernel()? })
    }

    /// Asks the kernel alone; none where it refuses.
    pub fn kernel() -> Option<Self> {
        // SAFETY: all-zero bytes are a valid timex: it is plain numbers, and modes 0 asks to change nothing.
        let mut timex: libc::timex = unsafe { std::mem::zeroed() };
        // SAFETY: `timex` is valid for reading and writing.
        let state = unsafe { libc::adjtimex(&raw mut timex) };
        if state < 0 {
            return None;
        }
        let status = timex.status.cast_unsigned();
        let unit = if status & libc::STA_NANO as u32 != 0 { 1 } else { 1_000 };
        Some(Self {
            realtime_ns: realtime_ns(),
            offset_ns: timex.offset * unit,
            // These two are microseconds whatever STA_NANO says.
            maxerror_ns: timex.maxerror.saturating_mul(1_000),
            esterror_ns: timex.esterror.saturating_mul(1_000),
            // Parts per million with 16 fractional bits.
            frequency_ppb: timex.freq * 1_000 / 65_536,
            state,
            status,
            tai_offset_s: timex.tai,
            chrony: None,
        })
    }
}

/// CLOCK_REALTIME and CLOCK_MONOTONIC at one moment, to within some hundred nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPair {
    /// UTC nanoseconds.
    pub realtime_ns: i64,
    /// CLOCK_MONOTONIC nanoseconds.
    pub monotonic_ns: i64,
}

impl ClockPair {
    /// Reads both; of some tries the one that took least time.
    pub fn now() -> Self {
        let once = || {
            let before = monotonic_ns();
            let realtime_ns = realtime_ns();
            let after = monotonic_ns();
            (after - before, Self { realtime_ns, monotonic_ns: before + (after - before) / 2 })
        };
        let mut best = once();
        for _ in 0..4 {
            let next = once();
            if next.0 < best.0 {
                best = next;
            }
        }
        best.1
    }
}

/// The wall clock of a host jumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// Whose.
    pub side: Side,
    /// Not before this moment, that host's UTC before the step, nanoseconds.
    pub after_ns: i64,
    /// Not after this moment, that host's UTC after the step, nanoseconds.
    pub before_ns: i64,
    /// How far, nanoseconds; positive is forward.
    pub step_ns: i64,
}

/// Steps between neighbouring readings.
pub(super) fn steps(side: Side, pairs: &[ClockPair]) -> Vec<ClockStep> {
    let step = |two: &[ClockPair]| {
        let realtime = two[1].realtime_ns.wrapping_sub(two[0].realtime_ns);
        let step_ns = realtime.wrapping_sub(two[1].monotonic_ns.wrapping_sub(two[0].monotonic_ns));
        (step_ns.unsigned_abs() >= STEP_LEAST_NS.unsigned_abs()).then_some(ClockStep {
            side,
            after_ns: two[0].realtime_ns,
            before_ns: two[1].realtime_ns,
            step_ns,
        })
    };
    pairs.windows(2).filter_map(step).collect()
}

/// Collects pairs: about one a second while asked, and in constant memory, so that of long tests every second one
/// is left out again and again. Neighbours of a step are always kept.
#[derive(Debug)]
pub(super) struct PairKeeper {
    pairs: Vec<ClockPair>,
    next: Instant,
    interval: Duration,
}

/// Most pairs that are kept: a field of the extension holds 4095.
const MOST_PAIRS: usize = 3_600;

impl PairKeeper {
    pub(super) fn new() -> Self {
        Self { pairs: vec![ClockPair::now()], next: Instant::now(), interval: Duration::from_secs(1) }
    }

    /// Reads the clocks if it is time.
    pub(super) fn tick(&mut self) {
        if Instant::now() >= self.next {
            self.read();
        }
    }

    /// Reads the clocks now.
    pub(super) fn read(&mut self) {
        self.next = Instant::now() + self.interval;
        self.push(ClockPair::now());
    }

    fn push(&mut self, pair: ClockPair) {
        self.pairs.push(pair);
        if self.pairs.len() > MOST_PAIRS {
            self.thin();
        }
    }

    fn thin(&mut self) {
        self.interval *= 2;
        let stepped = |a: &ClockPair, b: &ClockPair| !steps(Side::Client, &[*a, *b]).is_empty();
        let last = self.pairs.len() - 1;
        let kept = (0..=last).filter(|&at| {
            at == last
                || at % 2 == 0
                || stepped(&self.pairs[at - 1], &self.pairs[at])
                || stepped(&self.pairs[at], &self.pairs[at + 1])
        });
        let mut kept: Vec<ClockPair> = kept.map(|at| self.pairs[at]).collect();
        // A clock that is stepped all the time: then the first ones have to do.
        kept.truncate(MOST_PAIRS);
        self.pairs = kept;
    }

    pub(super) fn pairs(&self) -> &[ClockPair] {
        &self.pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(monotonic_ns: i64, offset_ns: i64) -> ClockPair {
        ClockPair { realtime_ns: monotonic_ns + offset_ns, monotonic_ns }
    }

    #[test]
    fn a_step_is_found_with_its_size_and_place() {
        let pairs = [pair(0, 500), pair(1_000, 600), pair(2_000, 600 - 40_000), pair(3_000, 600 - 40_001)];
        let found = steps(Side::Server, &pairs);
        let expected =
            ClockStep { side: Side::Server, after_ns: 1_600, before_ns: 2_600 - 40_000, step_ns: -40_000 };
        assert_eq!(found, [expected]);
        assert_eq!(steps(Side::Client, &pairs[..2]), []);
        assert_eq!(steps(Side::Client, &[]), []);
    }

    #[test]
    fn readings_of_this_host_show_no_step() {
        let pairs: Vec<ClockPair> = (0..100).map(|_| ClockPair::now()).collect();
        assert!(pairs.is_sorted_by_key(|pair| pair.monotonic_ns));
    }

    #[test]
    fn long_tests_keep_few_pairs_and_each_step() {
        let mut keeper = PairKeeper::new();
        keeper.pairs.clear();
        for second in 0..100_000i64 {
            keeper.push(pair(second * 1_000_000_000, if second < 777 { 0 } else { 1_000_000 }));
        }
        assert!(keeper.pairs.len() <= MOST_PAIRS);
        assert!(keeper.interval >= Duration::from_secs(16));
        let found = steps(Side::Client, keeper.pairs());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].step_ns, found[0].after_ns), (1_000_000, 776_000_000_000));
    }

    #[test]
    fn the_kernel_tells_its_estimate() {
        let estimate = ClockEstimate::now().expect("reading adjtimex needs no privilege");
        assert!(estimate.maxerror_ns >= 0 && estimate.realtime_ns > 0);
    }
}
