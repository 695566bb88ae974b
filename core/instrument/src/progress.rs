//! The progress line, on standard error.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// Parts that a share is shown in.
const PARTS: u64 = 1_000;

/// One line that is redrawn, and gone when the page is printed.
pub struct Progress {
    bar: ProgressBar,
    quiet: bool,
}

impl Progress {
    /// A line for a phase of known length; silent when `quiet` or when standard error is no terminal.
    pub fn timed(length: Duration, quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(5) };
        let bar = ProgressBar::with_draw_target(Some(length.as_millis() as u64), target);
        let style =
            ProgressStyle::with_template("{bar:24} {msg}").expect("the template is a constant that parses");
        bar.set_style(style);
        Self { bar, quiet }
    }

    /// Tells something that stays, also where standard error is no terminal; nothing when quiet.
    pub fn tell(&self, sentence: &str) {
        if !self.quiet {
            self.bar.suspend(|| crate::tell!("{sentence}"));
        }
    }

    /// A line for work of which the share that is done is known.
    pub fn shares(quiet: bool) -> Self {
        Self::timed(Duration::from_millis(PARTS), quiet)
    }

    /// Shows which share is done (0 to 1), and what there is to say.
    pub fn reach(&self, share: f64, message: String) {
        self.bar.set_position((share.clamp(0.0, 1.0) * PARTS as f64) as u64);
        self.bar.set_message(message);
    }

    /// Shows how far the phase is, and what there is to say.
    pub fn show(&self, elapsed: Duration, message: String) {
        self.bar.set_position(elapsed.as_millis() as u64);
        self.bar.set_message(message);
    }

    /// Shows what is being done, without a length.
    pub fn say(&self, message: impl Into<String>) {
        self.bar.set_message(message.into());
        self.bar.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
