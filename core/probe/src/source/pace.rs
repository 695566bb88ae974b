//! Waiting for a deadline on CLOCK_MONOTONIC.

use quaver_clock::monotonic_ns;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a source waits for its deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Reads the clock until it is time: most exact, takes a CPU.
    Spin,
    /// Sleeps until the absolute deadline (`clock_nanosleep`): light, late by the wake-up.
    Sleep,
    /// Sleeps until [`HYBRID_MARGIN_NS`] before the deadline, then spins.
    Hybrid,
    /// Hands packets early to a queueing discipline that sends them on time (`SO_TXTIME`).
    Txtime,
}

impl Pace {
    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Sleep => "sleep",
            Self::Hybrid => "hybrid",
            Self::Txtime => "txtime",
        }
    }
}

/// How long before a deadline the hybrid pace stops sleeping: more than most wake-ups take.
pub const HYBRID_MARGIN_NS: i64 = 80_000;
/// How long before its time a packet is handed to the queueing discipline.
pub(super) const TXTIME_LEAD_NS: i64 = 300_000;
/// Longest sleep, so that a stop is seen.
const LONGEST_SLEEP_NS: i64 = 100_000_000;

/// Waits for a deadline; the time at which it ended, or none if a stop came first. It does not wait for a
/// deadline that has passed.
pub trait Wait {
    /// Waits until the deadline, CLOCK_MONOTONIC nanoseconds, and gives the instant at which the wait ended; none where it was stopped.
    fn until(&mut self, deadline_ns: i64, stop: &AtomicBool) -> Option<i64>;
}

/// Reads CLOCK_MONOTONIC itself rather than raw cycles with a scale: the read is a vDSO call that costs about as
/// much as the counter under it, and no scale can drift from the clock that deadlines are on.
pub struct Spin;

impl Wait for Spin {
    /// Waits until the deadline, CLOCK_MONOTONIC nanoseconds, and gives the instant at which the wait ended; none where it was stopped.
    #[inline(always)]
    fn until(&mut self, deadline_ns: i64, stop: &AtomicBool) -> Option<i64> {
        loop {
            let now = monotonic_ns();
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            if now >= deadline_ns {
                return Some(now);
            }
        }
    }
}

/// Sleeps until `margin_ns` before the deadline.
pub struct Sleep {
    /// How long before the deadline sleeping ends, nanoseconds.
    pub margin_ns: i64,
}

impl Wait for Sleep {
    /// Waits until the deadline, CLOCK_MONOTONIC nanoseconds, and gives the instant at which the wait ended; none where it was stopped.
    #[inline]
    fn until(&mut self, deadline_ns: i64, stop: &AtomicBool) -> Option<i64> {
        let wake_ns = deadline_ns.saturating_sub(self.margin_ns);
        loop {
            let now = monotonic_ns();
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            if now >= wake_ns {
                return Some(now);
            }
            sleep_until(wake_ns.min(now + LONGEST_SLEEP_NS));
        }
    }
}

/// Sleeps until [`HYBRID_MARGIN_NS`] before the deadline, then spins.
pub struct Hybrid;

impl Wait for Hybrid {
    /// Waits until the deadline, CLOCK_MONOTONIC nanoseconds, and gives the instant at which the wait ended; none where it was stopped.
    #[inline]
    fn until(&mut self, deadline_ns: i64, stop: &AtomicBool) -> Option<i64> {
        Sleep { margin_ns: HYBRID_MARGIN_NS }.until(deadline_ns, stop)?;
        Spin.until(deadline_ns, stop)
    }
}

/// Returns at the instant or when a signal comes; the callers look at the clock again.
fn sleep_until(instant_ns: i64) {
    let time = libc::timespec { tv_sec: instant_ns / 1_000_000_000, tv_nsec: instant_ns % 1_000_000_000 };
    // SAFETY: `time` is a valid timespec; with TIMER_ABSTIME no remainder is written.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const time,
            std::ptr::null_mut(),
        )
    };
}
