//! Kernel activity that was traced once, to be run again for as long as jitter lasts.

use quaver_trace::armour;
use quaver_trace::block::Dictionary;
use quaver_trace::epochs::{EpochReader, KernelEpoch};
use quaver_trace::file::{FileError, ReadAt};
use quaver_trace::step::{Access, Step, Steps, TraceError};
use std::sync::Arc;

/// What the kernel did from an entry to the exit: blocks of the machine's dictionary, with their accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// Number of each block, and its accesses.
    pub blocks: Arc<[(u32, Box<[Access]>)]>,
}

type Blocks = Arc<[(u32, Box<[Access]>)]>;

/// The steps of an epoch, of the first part of it, or of several, one after the other; or only time.
#[derive(Clone, Debug)]
pub struct EpochSteps {
    passes_fs: u64,
    blocks: Blocks,
    next: usize,
    end: usize,
    /// What comes then, the last first; how many blocks of each.
    then: Vec<(Blocks, usize)>,
}

impl Epoch {
    /// As it was traced; its blocks are numbered as in its library.
    pub fn of(epoch: &KernelEpoch) -> Self {
        Self { blocks: epoch.steps().map(|(number, accesses)| (number, accesses.into())).collect() }
    }

    /// How many of its blocks run in the first `runs_fs` of `whole_fs`; at least one.
    fn part(&self, runs_fs: u64, whole_fs: u64) -> usize {
        let all = self.blocks.len();
        let part = u128::from(runs_fs) * all as u128 / u128::from(whole_fs.max(1));
        (part as usize).clamp(1, all.max(1)).min(all)
    }

    /// Its first `runs_fs` of `whole_fs`, by the number of blocks; at least one block.
    pub fn trimmed(&self, runs_fs: u64, whole_fs: u64) -> EpochSteps {
        let end = self.part(runs_fs, whole_fs);
        EpochSteps { passes_fs: 0, blocks: Arc::clone(&self.blocks), next: 0, end, then: Vec::new() }
    }

    /// All of it.
    pub fn steps(&self) -> EpochSteps {
        self.trimmed(1, 1)
    }
}

impl EpochSteps {
    /// No steps: so much time passes, of which nothing else is known.
    pub fn only_time(passes_fs: u64) -> Self {
        Self { passes_fs, ..Epoch::default().steps() }
    }

    /// How much time passes before the first step, femtoseconds.
    pub fn passes_fs(&self) -> u64 {
        self.passes_fs
    }

    /// These, and before them as much of another epoch as [`Epoch::trimmed`] says.
    pub fn after(mut self, epoch: &Epoch, runs_fs: u64, whole_fs: u64) -> Self {
        let first = epoch.trimmed(runs_fs, whole_fs);
        self.then.push((
            std::mem::replace(&mut self.blocks, first.blocks),
            std::mem::replace(&mut self.end, first.end),
        ));
        self
    }
}

impl Steps for EpochSteps {
    fn step(&mut self, accesses: &mut Vec<Access>) -> Result<Step, TraceError> {
        while self.next >= self.end {
            let Some((blocks, end)) = self.then.pop() else { return Ok(Step::End) };
            (self.blocks, self.next, self.end) = (blocks, 0, end);
        }
        let (number, its) = &self.blocks[self.next];
        accesses.clear();
        accesses.extend_from_slice(its);
        self.next += 1;
        Ok(Step::Block { number: *number })
    }
}

/// What kernel activity a library has: its blocks, and its epochs in their order.
///
/// # Errors
/// When the library is damaged.
pub fn loaded<R: ReadAt>(library: &EpochReader<R>) -> Result<(Dictionary, Vec<Epoch>), FileError> {
    let epochs = library.epochs().map(|epoch| epoch.map(|epoch| Epoch::of(&epoch)));
    Ok((library.dictionary.as_ref().clone(), epochs.collect::<Result<_, _>>()?))
}

/// The library that comes along, as text: what the kernel of a guest did, chosen by `make kernel` of a trace of tens of millions
/// of instructions.
pub const BUNDLED: &str = include_str!("../../kernel/kernel.qepochs.txt");

/// The library that comes along.
///
/// # Errors
/// When it was damaged since it was made.
pub fn bundled() -> Result<(Dictionary, Vec<Epoch>), FileError> {
    let octets = armour::decode(BUNDLED.as_bytes()).map_err(FileError::Foreign)?;
    loaded(&EpochReader::open(octets)?)
}

/// Traced epochs of kernel activity, by how long they took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epochs {
    /// Duration and number, shortest first.
    by_duration: Vec<(u64, usize)>,
}

impl Epochs {
    /// The epochs of these durations, numbered as they are given.
    pub fn new(durations_fs: &[u64]) -> Self {
        let mut by_duration: Vec<(u64, usize)> =
            durations_fs.iter().enumerate().map(|(number, duration_fs)| (*duration_fs, number)).collect();
        by_duration.sort_unstable();
        Self { by_duration }
    }

    /// How long the longest takes; none where there is none.
    pub fn longest_fs(&self) -> Option<u64> {
        self.by_duration.last().map(|(duration_fs, _)| *duration_fs)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_duration.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_duration.is_empty()
    }

    /// Number of the epoch that is nearest in duration, and how much of it runs: no more than asked for. Of several that
    /// are equally near, `tie` decides.
    pub fn nearest(&self, duration_fs: u64, tie: u64) -> Option<(usize, u64)> {
        let above = self.by_duration.partition_point(|(own, _)| *own < duration_fs);
        let up = self.by_duration.get(above).map(|(own, _)| own - duration_fs);
        let down = above.checked_sub(1).map(|below| duration_fs - self.by_duration[below].0);
        let distance = [up, down].into_iter().flatten().min()?;
        let at = |own: Option<u64>| {
            let own = own.unwrap_or(u64::MAX);
            let from = self.by_duration.partition_point(|(other, _)| *other < own);
            let to = self.by_duration.partition_point(|(other, _)| *other <= own);
            from..to
        };
        let below = at(duration_fs.checked_sub(distance));
        let over = if distance == 0 { 0..0 } else { at(duration_fs.checked_add(distance)) };
        let pick = (tie % (below.len() + over.len()) as u64) as usize;
        let index = if pick < below.len() { below.start + pick } else { over.start + pick - below.len() };
        let (own_fs, number) = self.by_duration[index];
        Some((number, own_fs.min(duration_fs)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::{Rng, SeedableRng};

    #[test]
    fn the_nearest_by_brute_force() {
        let mut random = Pcg64Mcg::seed_from_u64(3);
        for _ in 0..2_000 {
            let durations: Vec<u64> =
                (0..1 + random.next_u64() % 12).map(|_| random.next_u64() % 20).collect();
            let epochs = Epochs::new(&durations);
            assert_eq!(epochs.len(), durations.len());
            let wanted = random.next_u64() % 24;
            let least = durations.iter().map(|own| own.abs_diff(wanted)).min().unwrap();
            let near = |own: u64| own.abs_diff(wanted) == least;
            let mut seen = vec![false; durations.len()];
            for tie in 0..64 {
                let (number, runs) = epochs.nearest(wanted, tie).unwrap();
                assert!(near(durations[number]));
                assert_eq!(runs, durations[number].min(wanted));
                seen[number] = true;
            }
            let all: Vec<bool> = durations.iter().map(|own| near(*own)).collect();
            assert_eq!(seen, all, "every one that is equally near has its turn");
        }
    }

    #[test]
    fn an_epoch_is_cut_in_proportion() {
        let blocks: Vec<(u32, Box<[Access]>)> = (0..10).map(|number| (number, Box::default())).collect();
        let epoch = Epoch { blocks: blocks.into() };
        let count = |mut steps: EpochSteps| {
            let mut accesses = Vec::new();
            std::iter::from_fn(|| match steps.step(&mut accesses) {
                Ok(Step::Block { number }) => Some(number),
                _ => None,
            })
            .count()
        };
        assert_eq!(count(epoch.steps()), 10);
        assert_eq!(
            [count(epoch.trimmed(55, 100)), count(epoch.trimmed(1, 100)), count(epoch.trimmed(9, 3))],
            [5, 1, 10]
        );
        assert_eq!(count(Epoch::default().steps()), 0);
        let one_after_the_other = epoch.trimmed(3, 10).after(&epoch, 2, 10).after(&Epoch::default(), 1, 1);
        let mut accesses = Vec::new();
        let mut steps = one_after_the_other.clone();
        let numbers = std::iter::from_fn(|| match steps.step(&mut accesses) {
            Ok(Step::Block { number }) => Some(number),
            _ => None,
        });
        assert_eq!(numbers.collect::<Vec<_>>(), [0, 1, 0, 1, 2]);
    }

    #[test]
    fn without_a_trace_there_is_none() {
        assert!(Epochs::default().is_empty());
        assert_eq!(Epochs::default().nearest(5, 0), None);
    }
}
