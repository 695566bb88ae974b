//! The clock while it runs: raw cycles to CLOCK_REALTIME and CLOCK_MONOTONIC at once, each with its bound.
//!
//! A [`LiveClock`] owns a thread that pairs the cycle counter with the kernel's clocks each 100 ms. Any number of
//! [`LiveReader`]s convert readings by what it publishes, on any thread, without a lock and without a system call.
//!
//! All conversions of one **epoch** lie on one course that never goes back: what a new anchor shows to be wrong is
//! slewed in until the next one, and counts in the bound until then. What cannot be slewed in opens a new epoch and leaves
//! a [`Mark`]. See `docs/methodology.md`, "The clock".

mod steer;
mod table;

use super::anchor::{ClockSource, SystemClocks};
use super::counter::Counter;
use super::cross_core::CrossCore;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use steer::Steering;
use table::{Table, flags};

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
}

/// The clock could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// No thread for the anchors.
    #[error("start the clock's thread: {0}; raise the limit of threads (ulimit -u, pids.max)")]
    Thread(#[source] std::io::Error),
}

/// What happened to the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Last reading before which all was well.
    pub from_cycles: u64,
    /// First reading from which all is well again, or known.
    pub until_cycles: u64,
    /// The epoch that it opened.
    pub epoch: u32,
    /// What it was.
    pub kind: MarkKind,
}

/// What happened to the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// Counter and CLOCK_MONOTONIC parted by this much, nanoseconds, in an anchor period: more than the bound, not more
    /// than five times.
    RateChanged {
        /// Kernel minus prediction.
        residual_ns: i64,
    },
    /// They parted by more than five bounds: migration of the machine, suspend, a jump of the counter, or a hard slew.
    Parted {
        /// Kernel minus prediction, nanoseconds.
        residual_ns: i64,
    },
    /// CLOCK_REALTIME was set, by this much against CLOCK_MONOTONIC.
    RealtimeStepped {
        /// Nanoseconds; positive is forward.
        step_ns: i64,
    },
}

/// What the thread and the readers share.
struct Shared {
    table: Table,
    marks: Mutex<Vec<Mark>>,
    stop: AtomicBool,
}

/// Converts readings. Clone it for each thread.
#[derive(Clone)]
pub struct LiveReader<C: ClockSource + Clone = SystemClocks> {
    shared: Arc<Shared>,
    clocks: C,
}

impl<C: ClockSource + Clone> LiveReader<C> {
    /// The time of a reading of the counter that the clock was started with. A reading may be up to 25 s old; the bound of
    /// older ones is unknown.
    #[inline]
    pub fn convert(&self, cycles: u64) -> LiveInstant {
        let Some(piece) = self.shared.table.find(cycles) else { return self.unknown(cycles) };
        if piece.flags & flags::KERNEL_READ != 0 {
            return self.ask_kernel(cycles, &piece);
        }
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

    #[cold]
    fn unknown(&self, cycles: u64) -> LiveInstant {
        let piece = self.shared.table.newest();
        LiveInstant { bound_ns: u32::MAX, fallback: true, ..self.ask_kernel(cycles, &piece) }
    }

    /// The kernel's time now, less the age of the reading.
    #[cold]
    fn ask_kernel(&self, cycles: u64, piece: &table::Piece) -> LiveInstant {
        steer::kernel_instant(&mut self.clocks.clone(), cycles, piece)
    }
}

/// The clock and the thread that keeps it.
pub struct LiveClock {
    reader: LiveReader,
    thread: Option<JoinHandle<()>>,
}

impl LiveClock {
    /// Starts the thread. When this returns (after some 20 ms), readings can be converted.
    ///
    /// # Errors
    /// Without a thread.
    pub fn start(options: LiveOptions) -> Result<Self, LiveError> {
        let clocks = SystemClocks::new(options.counter);
        let interval = options.interval;
        let (mut ticker, reader) = LiveTicker::new(clocks, options);
        std::thread::sleep(Duration::from_millis(10));
        ticker.anchor();
        let shared = Arc::clone(&reader.shared);
        let run = move || {
            let mut wait = Duration::from_millis(10);
            while !shared.stop.load(Ordering::Relaxed) {
                std::thread::park_timeout(wait);
                ticker.anchor();
                wait = (wait * 2).min(interval);
            }
        };
        let thread =
            std::thread::Builder::new().name("quaver-clock".into()).spawn(run).map_err(LiveError::Thread)?;
        Ok(Self { reader, thread: Some(thread) })
    }

    /// A reader for a thread.
    pub fn reader(&self) -> LiveReader {
        self.reader.clone()
    }

    /// What happened so far.
    pub fn marks(&self) -> Vec<Mark> {
        self.reader.shared.marks.lock().expect("no holder panics").clone()
    }
}

impl Drop for LiveClock {
    fn drop(&mut self) {
        self.reader.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // Its panic was reported when it happened, and this may run while another unwinds.
            let _ = thread.join();
        }
    }
}

/// A live clock without a thread: somebody calls [`LiveTicker::anchor`].
pub struct LiveTicker<C: ClockSource + Clone = SystemClocks> {
    clocks: C,
    steering: Steering,
    shared: Arc<Shared>,
}

impl<C: ClockSource + Clone> LiveTicker<C> {
    /// Takes the first anchor. Until the second, the rate is a rough one.
    pub fn new(mut clocks: C, options: LiveOptions) -> (Self, LiveReader<C>) {
        let (steering, first) = Steering::begin(&mut clocks, &options);
        let shared = Arc::new(Shared {
            table: Table::new(&first),
            marks: Mutex::new(Vec::new()),
            stop: AtomicBool::new(false),
        });
        let reader = LiveReader { shared: Arc::clone(&shared), clocks: clocks.clone() };
        (Self { clocks, steering, shared }, reader)
    }

    /// Takes an anchor and publishes what follows from it.
    pub fn anchor(&mut self) {
        self.steering.anchor(&mut self.clocks, &self.shared.table, &self.shared.marks);
    }
}
