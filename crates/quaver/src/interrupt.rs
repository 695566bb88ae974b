//! Ctrl-C and termination: a flag that every phase looks at, so that what was measured is kept.

use anyhow::Context;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set once the user (or the system) asked us to end. A second request ends the process at once.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches SIGINT and SIGTERM from now on.
    pub fn catch() -> anyhow::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // Order matters: the second signal finds the flag set by the first.
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
                .context("catching signals")?;
        }
        Ok(Self(flag))
    }

    /// The flag itself, for whoever looks at it while it waits.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// Asks everybody to end, as a signal would.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether we were asked to end.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
