//! Kernel activity that is run on simulated chips: how long each epoch takes on a chip is found out once, for all simulations
//! that want it.

use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_sim::config::Config;
use quaver_sim::cure::Library;
use quaver_sim::inject::Epoch;
use quaver_trace::block::Dictionary;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// Kernel activity that was traced, to be run where jitter is injected. Its blocks are numbered in its own dictionary.
#[derive(Clone, Debug, Default)]
pub(super) struct KernelActivity {
    /// Blocks of the kernel.
    pub(super) dictionary: Dictionary,
    /// What it did from each entry to the exit.
    pub(super) epochs: Vec<Epoch>,
    /// The library has no end: whoever wrote it was stopped.
    pub(super) cut_short: bool,
}

/// Kernel activity, and what is known of it so far.
pub(super) struct TimedActivity<'a> {
    activity: &'a KernelActivity,
    /// Its epochs, by how many blocks of the program's come before its own.
    renumbered: Once<u32, Vec<Epoch>>,
    /// How long each epoch takes, femtoseconds: by chip, and by the number of its first block, from which jumps are predicted.
    durations_fs: Once<(String, u32), Vec<u64>>,
}

impl<'a> TimedActivity<'a> {
    /// Nothing is known of it yet.
    pub(super) fn new(activity: &'a KernelActivity) -> Self {
        Self { activity, renumbered: Once::default(), durations_fs: Once::default() }
    }

    /// How many epochs there are.
    pub(super) fn epochs(&self) -> usize {
        self.activity.epochs.len()
    }

    /// A program's dictionary with the kernel's behind it, and the kernel's epochs, each timed on this chip.
    ///
    /// # Errors
    /// An epoch is wrong (status 5).
    pub(super) fn on(&self, machine: &Config, program: &Dictionary) -> anyhow::Result<(Dictionary, Library)> {
        let before = program.blocks.len() as u32;
        let mut dictionary = program.clone();
        dictionary.blocks.extend(self.activity.dictionary.blocks.iter().cloned());
        let epochs = self
            .renumbered
            .of(before, || Ok(self.activity.epochs.iter().map(|epoch| epoch.behind(before)).collect()))?;
        let durations_fs = self.durations_fs.of((serde_json::to_string(machine)?, before), || {
            let timed = Library::timed(machine, &dictionary, epochs.to_vec())
                .map_err(|error| failure(ExitCode::BadInput, format!("kernel activity: {error}")))?;
            Ok(timed.durations_fs().collect())
        })?;
        let timed = epochs.iter().cloned().zip(durations_fs.iter().copied());
        Ok((dictionary, Library::new(timed.collect())))
    }
}

/// Values that are made once each. Who wants one that is being made waits for it; others do not.
struct Once<K, V>(Mutex<HashMap<K, Slot<V>>>);

type Slot<V> = Arc<Mutex<Option<Arc<V>>>>;

impl<K, V> Default for Once<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V> Once<K, V> {
    fn of(&self, key: K, make: impl FnOnce() -> anyhow::Result<V>) -> anyhow::Result<Arc<V>> {
        let slot = Arc::clone(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default());
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = slot.as_ref() {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(make()?);
        *slot = Some(Arc::clone(&made));
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_sim::inject;

    #[test]
    fn epochs_are_timed_once_a_chip_and_take_as_long_as_when_they_are_timed_alone() {
        let (dictionary, mut epochs) = inject::bundled().unwrap();
        epochs.truncate(6);
        let activity = KernelActivity { dictionary, epochs, cut_short: false };
        let timed = TimedActivity::new(&activity);
        let near = Config::default();
        let mut far = near.clone();
        far.l2.kib *= 2;
        let programs = [0, 3].map(|blocks| Dictionary {
            blocks: activity.dictionary.blocks.iter().take(blocks).cloned().collect(),
        });
        for program in &programs {
            for machine in [&near, &far, &near] {
                let (dictionary, library) = timed.on(machine, program).unwrap();
                assert_eq!(dictionary.blocks[program.blocks.len()..], activity.dictionary.blocks);
                let epochs =
                    timed.renumbered.of(program.blocks.len() as u32, || unreachable!("it was made")).unwrap();
                let alone = Library::timed(machine, &dictionary, epochs.to_vec()).unwrap();
                assert!(library.durations_fs().eq(alone.durations_fs()));
            }
        }
        assert_eq!(timed.durations_fs.0.lock().unwrap().len(), 4, "two chips, two programs");
    }

    #[test]
    fn what_could_not_be_made_is_tried_again() {
        let once = Once::default();
        assert!(once.of(1, || anyhow::bail!("not now")).is_err());
        assert_eq!(*once.of(1, || Ok(7)).unwrap(), 7);
        assert_eq!(*once.of(1, || Ok(8)).unwrap(), 7);
    }
}
