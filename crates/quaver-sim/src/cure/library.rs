//! The kernel activity that is run for injected jitter.

use crate::inject::{Draw, Epoch, EpochSteps, Epochs};

/// Traced epochs and how long each takes at rest; without any, only time passes.
#[derive(Clone, Debug, Default)]
pub struct Library {
    epochs: Vec<(Epoch, u64)>,
    index: Epochs,
}

impl Library {
    /// Of these epochs, each with its duration at rest, femtoseconds.
    pub fn new(epochs: Vec<(Epoch, u64)>) -> Self {
        let durations: Vec<u64> = epochs.iter().map(|(_, duration_fs)| *duration_fs).collect();
        Self { index: Epochs::new(&durations), epochs }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.epochs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.epochs.is_empty()
    }

    /// What the kernel does for so long; none where the library is empty.
    pub fn steps(&self, draw: &Draw) -> Option<EpochSteps> {
        let (number, runs_fs) = self.index.nearest(draw.duration_fs, draw.tie)?;
        let (epoch, whole_fs) = &self.epochs[number];
        Some(epoch.trimmed(runs_fs, *whole_fs))
    }
}
