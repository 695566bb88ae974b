//! The clock while it runs: raw cycles to CLOCK_REALTIME and CLOCK_MONOTONIC at once, each with its bound.
//!
//! A [`LiveClock`] owns a thread that pairs the cycle counter with the kernel's clocks each 100 ms. Any number of
//! [`LiveReader`]s convert readings by what it publishes, on any thread, without a lock and without a system call.
//!
//! All conversions of one **epoch** lie on one course that never goes back: what a new anchor shows to be wrong is
//! slewed in until the next one, and counts in the bound until then. What cannot be slewed in opens a new epoch and leaves
//! a [`Mark`]. See `docs/methodology/clock.md`.

mod corrections;
mod keeper;
mod rate;
mod steer;
mod table;

use super::anchor::{ClockSource, SystemClocks};
use super::counter::Counter;
use super::cross_core::CrossCore;
use super::kernel::{KernelState, TaiState};
use keeper::Keeper;
pub(super) use rate::{Line, Rate, RateWindow};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use steer::Steering;
use table::{Piece, Table, flags};

/// An instant, converted from a reading of the cycle counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveInstant {
    /// CLOCK_REALTIME, nanoseconds since 1970 (UTC as far as the kernel knows it).
    pub realtime_ns: i64,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub monotonic_ns: i64,
    /// Neither of the two lies farther off from what the kernel's clock said at the reading, nanoseconds; `u32::MAX`
    /// is unknown.
    pub bound_ns: u32,
    /// Number of the epoch, from 0. Only instants of one epoch are in order to the nanosecond; between two, a [`Mark`]
    /// says what happened.
    pub epoch: u32,
    /// The kernel's time stands for the counter's: because the counter is not to be trusted at that reading, or because
    /// [`Counter::MonotonicClock`] is what was read. Order is promised for the latter only.
    pub fallback: bool,
}

/// What a live clock is made of.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// The counter whose readings are to be converted ([`super::CounterSupport`]).
    pub counter: Counter,
    /// Time between anchors; 100 ms.
    pub interval: Duration,
    /// What the counters of the CPUs that readings come from showed ([`super::check_cross_core`]). Without, they are taken
    /// to agree, as the kernel takes them to that uses the counter as its clock.
    pub cross_core: Option<CrossCore>,
}

impl LiveOptions {
    /// Anchors each 100 ms, no check between CPUs.
    pub fn new(counter: Counter) -> Self {
        Self { counter, interval: Duration::from_millis(100), cross_core: None }
    }

    /// As [`LiveOptions::new`], with a check between the first eight CPUs that the calling thread may run on: 5 ms for each
    /// but the first, longer where they are busy. What cannot be compared is taken to agree.
    pub fn checked(counter: Counter) -> Self {
        let cross_core = super::compare_allowed_cpus(counter, 8, Duration::from_millis(5)).ok();
        Self { cross_core, ..Self::new(counter) }
    }
}

/// The clock could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// No thread for the anchors.
    #[error("start the clock's thread: {0}; raise the limit of threads (ulimit -u, pids.max)")]
    Thread(#[source] std::io::Error),
    /// No timer.
    #[error("start the clock: {operation}: {source}")]
    Timer {
        /// Which call.
        operation: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Something that happened to the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// It happened between these two readings: from the last one of which all was well …
    pub from_cycles: u64,
    /// … to the first one from which the course is right again. Smaller than the other if the counter began anew.
    pub until_cycles: u64,
    /// The epoch that it opened; for what does not disturb the course, that which went on.
    pub epoch: u32,
    /// What it was.
    pub kind: MarkKind,
}

/// What happened to the clock. All but the last four open an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// The kernel told of another correction of the rate of CLOCK_MONOTONIC (`adjtimex`).
    RateSet {
        /// By how much, parts per billion.
        change_ppb: i64,
    },
    /// Counter and CLOCK_MONOTONIC parted by more than the bound, but not more than five times, and nobody told.
    RateChanged {
        /// Kernel minus prediction, nanoseconds.
        residual_ns: i64,
    },
    /// They parted by more than five bounds: migration of the machine, suspend, a jump of the counter, a hard slew. Kernel
    /// time stands for the counter until that agrees again.
    Parted {
        /// Kernel minus prediction, nanoseconds.
        residual_ns: i64,
    },
    /// The kernel has another clocksource, with which the hardware counter is not to be trusted.
    ClocksourceChanged,
    /// After one of the former two the counter agreed with the kernel for some anchors, and is used again.
    CounterAgain,
    /// CLOCK_REALTIME was set.
    RealtimeStepped {
        /// By how much against CLOCK_MONOTONIC, nanoseconds; positive is forward.
        step_ns: i64,
    },
    /// CLOCK_REALTIME was set by the kernel for a leap second.
    LeapSecond {
        /// By how much, nanoseconds: −10⁹ for an inserted one.
        step_ns: i64,
    },
    /// A leap second is due at the end of this UTC day.
    LeapPending {
        /// Inserted, or left out.
        inserted: bool,
    },
    /// Somebody told the kernel what TAI is, or that it is not known.
    TaiSet {
        /// Since then.
        tai: TaiState,
    },
    /// Counters of two CPUs are apart by more than the check could be wrong ([`super::check_cross_core`]); the bound
    /// includes it.
    CoresDisagree {
        /// By at least this, nanoseconds.
        offset_ns: i64,
    },
    /// Somebody corrected the kernel's clock again and again, and has ceased to. The kernel still calls it synchronised.
    Uncorrected {
        /// Time since the last correction, nanoseconds.
        silent_ns: i64,
    },
}

/// The clock as its newest anchor left it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveState {
    /// Number of the epoch.
    pub epoch: u32,
    /// Kernel time stands for the counter.
    pub fallback: bool,
    /// Rate of the counter by CLOCK_MONOTONIC, Hz.
    pub counter_hz: f64,
    /// Error of that rate, relative.
    pub rate_error: f64,
    /// Half-bracket of the anchor, nanoseconds.
    pub half_bracket_ns: u32,
    /// Bound of a conversion at the anchor; it grows with the age. Nanoseconds.
    pub bound_ns: u32,
    /// What the check between CPUs adds to each bound, nanoseconds.
    pub cross_core_ns: u32,
    /// What the kernel says.
    pub kernel: KernelState,
}

/// What the thread and the readers share.
struct Shared {
    table: Table,
    /// What happened, and how the newest anchor left the clock.
    told: Mutex<LiveSnapshot>,
}

struct LiveSnapshot {
    marks: Vec<Mark>,
    anchors: u64,
    state: LiveState,
}

/// Marks that are kept: a daemon that corrects the rate each second makes so many in four hours.
const MOST_MARKS: usize = 16_384;

impl LiveSnapshot {
    /// Keeps marks; where there are too many, the older half goes.
    fn keep(&mut self, marks: Vec<Mark>) {
        self.marks.extend(marks);
        if self.marks.len() > MOST_MARKS {
            let going = self.marks.len() - MOST_MARKS / 2;
            self.marks.drain(..going);
        }
    }
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, LiveSnapshot> {
        // Whoever holds it assigns plain values, so what a panic leaves behind is whole.
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Converts readings. Clone it for each thread.
#[derive(Clone)]
pub struct LiveReader<C: ClockSource + Clone = SystemClocks> {
    shared: Arc<Shared>,
    clocks: C,
}

impl<C: ClockSource + Clone> LiveReader<C> {
    /// The time of a reading of the counter that the clock was started with. A reading may be up to 25 s old; the bound of
    /// older ones is unknown. Where the counter once went back (there is a [`Mark`]), one that was taken before, and is older
    /// than it went back by, cannot be told from a new one.
    #[inline]
    pub fn convert(&self, cycles: u64) -> LiveInstant {
        match self.shared.table.plain(cycles) {
            Some(piece) => Self::by(&piece, cycles),
            None => self.convert_with_care(cycles),
        }
    }

    #[inline(always)]
    fn by(piece: &Piece, cycles: u64) -> LiveInstant {
        let point = piece.at(cycles);
        LiveInstant {
            realtime_ns: point.monotonic_ns.wrapping_add(piece.offset_ns),
            monotonic_ns: point.monotonic_ns,
            bound_ns: u32::try_from(point.bound_ns).unwrap_or(u32::MAX),
            epoch: piece.epoch,
            fallback: piece.flags & flags::KERNEL_COUNTER != 0,
        }
    }

    /// The time now.
    #[inline]
    pub fn now(&self) -> LiveInstant {
        let (cycles, _) = self.clocks.clone().cycles();
        self.convert(cycles)
    }

    /// What happened to the clock so far, in order: the latest of it, if that is very much.
    pub fn marks(&self) -> Vec<Mark> {
        self.shared.told().marks.clone()
    }

    #[cold]
    fn unknown(&self, cycles: u64) -> LiveInstant {
        let piece = self.shared.table.newest();
        LiveInstant { bound_ns: u32::MAX, fallback: true, ..self.ask_kernel(cycles, &piece) }
    }

    /// Readings that are older than the newest piece, and those of a clock that something happened to.
    #[inline(never)]
    fn convert_with_care(&self, cycles: u64) -> LiveInstant {
        let Some(piece) = self.shared.table.find(cycles) else { return self.unknown(cycles) };
        if piece.flags & flags::KERNEL_READ != 0 || piece.is_stale(cycles) {
            return self.ask_kernel(cycles, &piece);
        }
        if piece.flags & flags::MAYBE_OLDER != 0 {
            let (now, _) = self.clocks.clone().cycles();
            if cycles > now.saturating_add(steer::slack(&piece)) {
                return self.unknown(cycles);
            }
        }
        Self::by(&piece, cycles)
    }

    /// The kernel's time now, less the age of the reading.
    fn ask_kernel(&self, cycles: u64, piece: &Piece) -> LiveInstant {
        steer::kernel_instant(&mut self.clocks.clone(), cycles, piece)
    }
}

/// The clock and the thread that keeps it. The thread ends when this is dropped; readers go on for a second more, and
/// then convert by kernel time.
pub struct LiveClock {
    reader: LiveReader,
    keeper: Keeper,
}

impl LiveClock {
    /// Starts the thread. When this returns (after some 12 ms), readings can be converted; the rate is sharp after a second.
    ///
    /// # Errors
    /// Where the system has no thread or descriptor for it.
    pub fn start(options: LiveOptions) -> Result<Self, LiveError> {
        let (ticker, reader) = LiveTicker::new(SystemClocks::new(options.counter), options);
        Ok(Self { reader, keeper: Keeper::start(ticker)? })
    }

    /// A reader for a thread.
    pub fn reader(&self) -> LiveReader {
        self.reader.clone()
    }

    /// What happened so far, in order.
    pub fn marks(&self) -> Vec<Mark> {
        self.reader.marks()
    }

    /// Anchors taken so far.
    pub fn anchors(&self) -> u64 {
        self.reader.shared.told().anchors
    }

    /// How the newest anchor left the clock.
    pub fn state(&self) -> LiveState {
        self.reader.shared.told().state
    }

    /// Takes an anchor now, due or not.
    pub fn anchor_now(&self) {
        self.keeper.wake();
    }
}

/// A live clock without a thread of its own: somebody calls [`LiveTicker::anchor`].
pub struct LiveTicker<C: ClockSource + Clone = SystemClocks> {
    clocks: C,
    steering: Steering,
    shared: Arc<Shared>,
}

impl<C: ClockSource + Clone> LiveTicker<C> {
    /// Takes the first anchor. Until the second one the rate is a rough one, and the bounds are wide.
    pub fn new(mut clocks: C, options: LiveOptions) -> (Self, LiveReader<C>) {
        let (steering, first) = Steering::begin(&mut clocks, &options);
        let told =
            LiveSnapshot { marks: steering.first_marks(&options), anchors: 1, state: steering.state() };
        let shared = Arc::new(Shared { table: Table::new(&first), told: Mutex::new(told) });
        let reader = LiveReader { shared: Arc::clone(&shared), clocks: clocks.clone() };
        (Self { clocks, steering, shared }, reader)
    }

    /// Takes an anchor and publishes what follows from it.
    pub fn anchor(&mut self) {
        self.take(false);
    }

    /// As [`LiveTicker::anchor`], when the kernel says that CLOCK_REALTIME was set (TFD_TIMER_CANCEL_ON_SET).
    pub fn clock_was_set(&mut self) {
        self.take(true);
    }

    fn take(&mut self, was_set: bool) {
        let marks = self.steering.anchor(&mut self.clocks, &self.shared.table, was_set);
        let mut told = self.shared.told();
        told.keep(marks);
        told.anchors += 1;
        told.state = self.steering.state();
    }

    /// How the newest anchor left the clock.
    pub fn state(&self) -> LiveState {
        self.steering.state()
    }

    /// When the next anchor is due after the last one: the interval, or less as long as the rate is not sharp.
    pub fn wait(&self) -> Duration {
        Duration::from_nanos(self.steering.wait_ns())
    }
}

#[cfg(test)]
mod tests;
