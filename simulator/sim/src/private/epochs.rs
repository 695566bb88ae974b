//! Who runs, and how long the kernel or the application will go on.

/// Who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// The application.
    Application,
    /// The kernel.
    Kernel,
}

impl Privilege {
    /// The other one.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Application => Self::Kernel,
            Self::Kernel => Self::Application,
        }
    }
}

/// Mean durations of the epochs so far: an epoch is a run of the application, or of the kernel, without a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DurationPredictor {
    total: [u64; 2],
    count: [u64; 2],
    since: u64,
}

impl DurationPredictor {
    /// An epoch of this privilege ended at `now`, and the other begins. Times in cycles.
    pub(crate) fn switch(&mut self, ended: Privilege, now: u64) {
        self.total[ended as usize] += now.saturating_sub(self.since);
        self.count[ended as usize] += 1;
        self.since = now;
    }

    /// The mean of the epochs of this privilege; none before the first has ended.
    pub(crate) fn expected(&self, privilege: Privilege) -> Option<u64> {
        let index = privilege as usize;
        (self.count[index] > 0).then(|| self.total[index] / self.count[index])
    }

    /// How much of the current epoch, which is of this privilege, is expected to be over; none before one has ended.
    pub(crate) fn part(&self, privilege: Privilege, now: u64) -> Option<f64> {
        let expected = self.expected(privilege)?.max(1);
        Some(now.saturating_sub(self.since) as f64 / expected as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_what_was_is_what_is_expected() {
        let mut predictor = DurationPredictor::default();
        assert_eq!(predictor.part(Privilege::Kernel, 5), None);
        predictor.switch(Privilege::Application, 100);
        predictor.switch(Privilege::Kernel, 120);
        predictor.switch(Privilege::Application, 320);
        assert_eq!(predictor.expected(Privilege::Application), Some(150));
        assert_eq!(predictor.expected(Privilege::Kernel), Some(20));
        assert_eq!(predictor.part(Privilege::Kernel, 330), Some(0.5));
    }
}
