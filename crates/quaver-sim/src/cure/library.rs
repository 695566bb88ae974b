//! The kernel activity that is run for injected jitter.

use crate::config::Config;
use crate::error::SimulationError;
use crate::inject::{Draw, Epoch, EpochSteps, Epochs};
use crate::machine::Machine;
use quaver_trace::block::Dictionary;

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

    /// Of these epochs, each timed alone on an idle chip at rest; their blocks are of `dictionary`.
    ///
    /// # Errors
    /// When an epoch is wrong.
    pub fn timed(
        config: &Config,
        dictionary: &Dictionary,
        epochs: Vec<Epoch>,
    ) -> Result<Self, SimulationError> {
        let timed = epochs.into_iter().map(|epoch| {
            let mut machine = Machine::new(config, dictionary, vec![epoch.steps()]);
            while !machine.run(u64::MAX)? {}
            let duration_fs = machine.results().duration_fs;
            Ok((epoch, duration_fs))
        });
        Ok(Self::new(timed.collect::<Result<_, SimulationError>>()?))
    }

    /// How long each takes, in the order in which they were given, femtoseconds.
    pub fn durations_fs(&self) -> impl Iterator<Item = u64> {
        self.epochs.iter().map(|(_, duration_fs)| *duration_fs)
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
