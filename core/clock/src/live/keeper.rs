//! The thread that takes the anchors: it sleeps until one is due, CLOCK_REALTIME is set, or the clock ends.

use super::{LiveError, LiveTicker};
use quaver_waiting as waiting;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Owns the thread and ends it.
pub(super) struct Keeper {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

struct Signal {
    wake: OwnedFd,
    stop: AtomicBool,
}

impl Keeper {
    pub(super) fn start(mut ticker: LiveTicker) -> Result<Self, LiveError> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| LiveError::Timer { operation: "eventfd", source: e.into() })?;
        let set = SetWatch::new()?;
        let signal = Arc::new(Signal { wake, stop: AtomicBool::new(false) });
        std::thread::sleep(ticker.wait());
        ticker.anchor();
        // What follows from the second anchor takes over a millisecond later; before, bounds are wide.
        std::thread::sleep(Duration::from_millis(2));
        let seen = Arc::clone(&signal);
        let thread = std::thread::Builder::new()
            .name("quaver-clock".into())
            .spawn(move || keep(&mut ticker, &set, &seen))
            .map_err(LiveError::Thread)?;
        Ok(Self { signal, thread: Some(thread) })
    }

    /// Makes the thread take an anchor.
    pub(super) fn wake(&self) {
        // It can fail only when the counter of wake-ups is full, and then the thread wakes anyway.
        let _ = rustix::io::write(&self.signal.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.signal.stop.store(true, Ordering::Relaxed);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // Its panic was reported when it happened, and this may run while another unwinds.
            let _ = waiting::join("quaver-clock", thread);
        }
    }
}

fn keep(ticker: &mut LiveTicker, set: &SetWatch, signal: &Signal) {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(signal.wake.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(set.timer.as_fd(), PollFlags::IN),
        ];
        // Whatever poll says, an anchor is due: with a failure that lasts, as after a time-out.
        if poll(&mut fds, Some(&timespec(ticker.wait()))).is_err_and(|e| e != Errno::INTR) {
            std::thread::sleep(ticker.wait());
        }
        let mut count = [0; 8];
        let _ = rustix::io::read(&signal.wake, &mut count);
        if signal.stop.load(Ordering::Relaxed) {
            return;
        }
        if set.was_set() { ticker.clock_was_set() } else { ticker.anchor() }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}

/// Tells when CLOCK_REALTIME is set: a timer far away that the kernel cancels then (timerfd_create(2)).
pub(super) struct SetWatch {
    timer: OwnedFd,
}

impl SetWatch {
    pub(super) fn new() -> Result<Self, LiveError> {
        let failed = |operation| move |e: Errno| LiveError::Timer { operation, source: e.into() };
        let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)
            .map_err(failed("timerfd_create"))?;
        let watch = Self { timer };
        watch.arm().map_err(failed("timerfd_settime"))?;
        Ok(watch)
    }

    fn arm(&self) -> Result<(), Errno> {
        /// The year 2200: beyond any date that a clock is set to, within what the kernel's timers count.
        const FAR: Timespec = Timespec { tv_sec: 7_258_118_400, tv_nsec: 0 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: FAR };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&self.timer, flags, &once).map(|_| ())
    }

    /// Whether it was set since the last call.
    pub(super) fn was_set(&self) -> bool {
        let mut expirations = [0; 8];
        let cancelled = rustix::io::read(&self.timer, &mut expirations) == Err(Errno::CANCELED);
        if cancelled {
            // Should it fail, steps are still seen by CLOCK_REALTIME minus CLOCK_MONOTONIC.
            let _ = self.arm();
        }
        cancelled
    }
}
