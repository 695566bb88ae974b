//! Stops of this program by a signal (SIGSTOP, SIGTSTP) while it measures: its own doing is no cause of anything else.

use quaver_view::Cell;
use signal_hook::SigId;
use signal_hook::consts::SIGCONT;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A shorter time between two looks is that of a busy machine.
const LEAST: Duration = Duration::from_millis(100);

/// Notes when this program was continued after a stop.
pub(crate) struct Halts {
    continued: Arc<AtomicBool>,
    handler: Option<SigId>,
    looked: Option<Instant>,
    halted: Duration,
}

impl Halts {
    /// Listens for SIGCONT from now on. Where the signal cannot be caught, no stop is noted.
    pub(crate) fn listen() -> Self {
        let continued = Arc::new(AtomicBool::new(false));
        let handler = signal_hook::flag::register(SIGCONT, Arc::clone(&continued)).ok();
        Self { continued, handler, looked: None, halted: Duration::ZERO }
    }

    /// Begins a phase. Stops before it do not count.
    pub(crate) fn begin(&mut self) {
        self.continued.store(false, Ordering::Relaxed);
        self.looked = None;
    }

    /// Looks whether this program was stopped since the last look; to be called often.
    pub(crate) fn look(&mut self, now: Instant) {
        let since = self.looked.replace(now).map_or(Duration::ZERO, |before| now - before);
        if self.continued.swap(false, Ordering::Relaxed) && since >= LEAST {
            self.halted += since;
        }
    }

    /// A sentence for the run's notes, where it was.
    pub(crate) fn sentence(&self) -> Option<String> {
        let ns = i64::try_from(self.halted.as_nanos()).unwrap_or(i64::MAX);
        (ns > 0).then(|| {
            format!(
                "a signal stopped this program and another continued it: for up to {} it measured nothing; keep it \
                 running (not under a debugger, not in the background of a terminal) and measure again",
                Cell::Duration(ns)
            )
        })
    }
}

impl Drop for Halts {
    fn drop(&mut self) {
        self.handler.into_iter().for_each(|id| {
            signal_hook::low_level::unregister(id);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pause_that_a_signal_ended_is_a_stop() {
        let mut halts = Halts::listen();
        let at = |ms| Instant::now() + Duration::from_secs(60) + Duration::from_millis(ms);
        let start = at(0);
        let mut look = |ms, continued: bool| {
            halts.continued.store(continued, Ordering::Relaxed);
            halts.look(start + Duration::from_millis(ms));
            halts.halted
        };
        assert_eq!(look(0, true), Duration::ZERO, "before the first look is none of it");
        assert_eq!(look(50, true), Duration::ZERO, "no pause");
        assert_eq!(look(2_050, false), Duration::ZERO, "a pause without a signal is the machine's");
        assert_eq!(look(2_650, true), Duration::from_millis(600));
        assert!(halts.sentence().unwrap().contains("for up to 600 ms it measured nothing"));
        halts.begin();
        halts.look(start + Duration::from_millis(9_000));
        assert_eq!(halts.halted, Duration::from_millis(600));
    }
}
