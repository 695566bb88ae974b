//! Ctrl-C, termination and a terminal that is closed: a flag that every phase looks at, so that what was measured is kept.

use anyhow::Context;
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Signals that ask us to end, and at once when they come again.
const SIGNALS: [i32; 2] = [SIGINT, SIGTERM];

/// Set once the user (or the system) asked us to end. A second request ends the process at once.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    requested: Arc<AtomicBool>,
    /// The next signal ends the process.
    at_once: Arc<AtomicBool>,
    /// What sets `at_once`.
    arming: Arc<Mutex<Vec<SigId>>>,
}

impl Interrupt {
    /// Catches SIGINT and SIGTERM from now on, and SIGHUP, unless we were started to outlive the terminal (nohup).
    pub fn catch() -> anyhow::Result<Self> {
        let interrupt = Self::catch_but_hangup()?;
        if !is_ignored(SIGHUP) {
            // It is no second request: of a terminal that is closed the kernel tells us, and the shell does too.
            signal_hook::flag::register(SIGHUP, Arc::clone(&interrupt.requested))
                .context("catching signals")?;
        }
        Ok(interrupt)
    }

    /// Catches SIGINT and SIGTERM from now on, for a service to which SIGHUP means something else.
    pub fn catch_but_hangup() -> anyhow::Result<Self> {
        let interrupt = Self::default();
        for signal in SIGNALS {
            // Order matters: the second signal finds the flags set by the first.
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&interrupt.at_once))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupt.requested)))
                .context("catching signals")?;
        }
        interrupt.arm().context("catching signals")?;
        quaver_waiting::end_with(Arc::clone(&interrupt.requested));
        Ok(interrupt)
    }

    /// The flag itself, for whoever looks at it while it waits.
    pub fn flag(&self) -> &AtomicBool {
        &self.requested
    }

    /// Asks everybody to end, as a signal would.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    /// Whether we were asked to end.
    pub fn requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// While the answer lives, a second request does not end the process: for whoever has to put something right first,
    /// such as a terminal. It has to look for a second request itself.
    pub fn hold(&self) -> InterruptHold {
        for id in self.arming().drain(..) {
            signal_hook::low_level::unregister(id);
        }
        InterruptHold { interrupt: self.clone(), again: Arc::default(), registered: Vec::new() }
    }

    fn arming(&self) -> std::sync::MutexGuard<'_, Vec<SigId>> {
        self.arming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arm(&self) -> std::io::Result<()> {
        self.at_once.store(self.requested(), Ordering::Relaxed);
        for signal in SIGNALS {
            let id = signal_hook::flag::register(signal, Arc::clone(&self.at_once))?;
            self.arming().push(id);
        }
        Ok(())
    }
}

/// Whether this process ignores a signal, by what the kernel tells of it.
fn is_ignored(signal: i32) -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores(&status, signal))
}

/// The same, read from `/proc/PID/status`: a mask of which bit 0 is signal 1.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Keeps a second request from ending the process ([`Interrupt::hold`]).
#[derive(Debug)]
pub struct InterruptHold {
    interrupt: Interrupt,
    again: Arc<AtomicBool>,
    registered: Vec<SigId>,
}

impl InterruptHold {
    /// Whether a second signal came. Second is one that comes after this was first asked after the first.
    pub fn requested_again(&mut self) -> bool {
        if self.interrupt.requested() && self.registered.is_empty() {
            let register = |signal| signal_hook::flag::register(signal, Arc::clone(&self.again)).ok();
            self.registered = SIGNALS.into_iter().filter_map(register).collect();
        }
        self.again.load(Ordering::Relaxed)
    }
}

impl Drop for InterruptHold {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            signal_hook::low_level::unregister(id);
        }
        // Signals that could be registered before can be now; else the second one is merely not heard.
        let _ = self.interrupt.arm();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_signals_are_ignored_is_read_from_the_mask() {
        let status = "Name:\tquaver\nSigBlk:\t0000000000000003\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000004002\n";
        assert!(ignores(status, SIGHUP) && ignores(status, 13));
        assert!(!ignores(status, SIGINT) && !ignores(status, SIGTERM));
        assert!(!ignores("", SIGHUP) && !ignores("SigIgn:\tnothing\n", SIGHUP));
    }
}
