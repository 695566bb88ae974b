//! The kernel activity that is run for injected jitter.

use crate::config::Config;
use crate::error::SimulationError;
use crate::hooks::{Event, Hooks, Moment, Orders};
use crate::inject::{Draw, Epoch, EpochSteps, Epochs};
use crate::machine::Machine;
use quaver_trace::block::Dictionary;

/// How often an epoch is repeated at most: a draw of a second is no reason to run a billion instructions.
const MOST_REPEATED: u64 = 4_096;

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

    /// Of these epochs, timed one after the other on a core at rest that does nothing else, so that caches hold what the
    /// activity before left there; their blocks are of `dictionary`.
    ///
    /// # Errors
    /// When an epoch is wrong.
    pub fn timed(
        config: &Config,
        dictionary: &Dictionary,
        epochs: Vec<Epoch>,
    ) -> Result<Self, SimulationError> {
        let mut alone = config.clone();
        alone.chip.cores = 1;
        let mut timing = Timing { epochs: &epochs, entered_fs: 0, durations_fs: Vec::new() };
        let mut machine =
            Machine::with_hooks(&alone, dictionary, vec![Epoch::default().steps()], &mut timing);
        while !machine.run(u64::MAX)? {}
        drop(machine);
        let durations_fs = timing.durations_fs;
        Ok(Self::new(epochs.into_iter().zip(durations_fs).collect()))
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

    /// What the kernel does for so long; none where the library is empty. What lasts longer than the longest epoch is that one,
    /// as often as it goes in, and what is nearest to the rest.
    pub fn steps(&self, draw: &Draw) -> Option<EpochSteps> {
        let longest_fs = self.index.longest_fs()?.max(1);
        let whole = (draw.duration_fs.saturating_sub(1) / longest_fs).min(MOST_REPEATED);
        let nearest = |duration_fs: u64, tie: u64| {
            let (number, runs_fs) = self.index.nearest(duration_fs, tie)?;
            let (epoch, whole_fs) = &self.epochs[number];
            Some((epoch, runs_fs, *whole_fs))
        };
        let (epoch, runs_fs, whole_fs) = nearest(draw.duration_fs - whole * longest_fs, draw.tie)?;
        let last = epoch.trimmed(runs_fs, whole_fs);
        (0..whole).try_fold(last, |steps, repeated| {
            let (epoch, runs_fs, whole_fs) = nearest(longest_fs, draw.tie.wrapping_add(repeated))?;
            Some(steps.after(epoch, runs_fs, whole_fs))
        })
    }
}

/// Orders epochs one after the other, and keeps how long each took.
struct Timing<'a> {
    epochs: &'a [Epoch],
    entered_fs: u64,
    durations_fs: Vec<u64>,
}

impl Hooks for &mut Timing<'_> {
    type Kernel = EpochSteps;

    fn event(
        &mut self,
        moment: &Moment<'_>,
        event: Event,
        orders: &mut Orders<EpochSteps>,
    ) -> Result<(), SimulationError> {
        match event {
            Event::KernelEnters { .. } => self.entered_fs = moment.at_fs,
            Event::KernelLeaves { .. } => self.durations_fs.push(moment.at_fs - self.entered_fs),
            Event::Runs { .. } => {}
            _ => return Ok(()),
        }
        if !matches!(event, Event::KernelEnters { .. })
            && let Some(epoch) = self.epochs.get(self.durations_fs.len())
        {
            orders.kernel.push(epoch.steps());
        }
        Ok(())
    }
}
