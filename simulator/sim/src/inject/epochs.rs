//! Kernel activity that was traced once, to be run again for as long as jitter lasts.

use quaver_trace::armour;
use quaver_trace::block::Dictionary;
use quaver_trace::epochs::{Activity, EpochReader, KernelEpoch, Region, RegionMap, STACK_OCTETS};
use quaver_trace::file::{FileError, ReadAt};
use quaver_trace::step::{Access, Step, Steps, TraceError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What the kernel did from an entry to the exit: blocks of the machine's dictionary, with their accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// Number of each block, and its accesses.
    pub blocks: Blocks,
    /// Of each access in turn, whose data it is; fewer where it is not known, which is taken for common.
    pub regions: Arc<[Region]>,
    /// Why the kernel was active; none of activity that was not traced.
    pub activity: Option<Activity>,
}

type Blocks = Arc<[(u32, Box<[Access]>)]>;

/// What of the kernel's data belongs to the core or thread for which it is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KernelData {
    /// Nothing: all cores touch the addresses that were recorded.
    Same,
    /// What is known to: data of processors, stacks, memory of the program. All else is common.
    #[default]
    Known,
    /// That, and each line that only one processor was seen to touch.
    Split,
}

/// For whom the kernel is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// What belongs to it.
    pub data: KernelData,
    /// The core.
    pub core: u32,
    /// Cores of the chip.
    pub cores: u32,
    /// The thread that is held up; none if the core idles.
    pub thread: Option<u32>,
}

impl Owner {
    /// Where its own data is that was recorded at this address.
    fn place(&self, region: Region, address: u64) -> u64 {
        let of_core = |core: u32| (u64::from(core) + 1) << OWNER_BIT;
        let of_thread = self
            .thread
            .map_or(of_core(self.core), |thread| (1 << THREAD_BIT) | (u64::from(thread) + 1) << OWNER_BIT);
        match (region, self.data) {
            (_, KernelData::Same) | (Region::Common, _) | (Region::Alone, KernelData::Known) => address,
            (Region::PerCpu { ahead, back }, _) => {
                (address - back) ^ of_core((self.core + ahead) % self.cores.max(1))
            }
            // All recorded stacks are one here: the thread's.
            (Region::Stack, _) => (STACK | (address % STACK_OCTETS)) ^ of_thread,
            (Region::User, _) => address ^ of_thread,
            (Region::Alone, KernelData::Split) => address ^ of_core(self.core),
        }
    }
}

/// Bits of addresses that are the same in all that was recorded say whose data it is: of which core, or from the other bit on of
/// which thread.
const OWNER_BIT: u32 = 48;
/// Where each thread's stack is, before its owner is known.
const STACK: u64 = 0xffff_c900_0000_0000;
/// See [`OWNER_BIT`].
const THREAD_BIT: u32 = 61;

/// The steps of an epoch, of the first part of it, or of several, one after the other; or only time.
#[derive(Clone, Debug)]
pub struct EpochSteps {
    passes_fs: u64,
    epoch: Epoch,
    next: usize,
    /// Accesses of the epoch before those of the next block.
    accessed: usize,
    end: usize,
    /// What comes then, the last first; how many blocks of each.
    then: Vec<(Epoch, usize)>,
    owner: Option<Owner>,
}

impl Epoch {
    /// As it was traced; its blocks are numbered as in its library.
    pub fn of(epoch: &KernelEpoch, regions: &RegionMap) -> Self {
        Self {
            blocks: epoch.steps().map(|(number, accesses)| (number, accesses.into())).collect(),
            regions: epoch
                .accesses
                .iter()
                .map(|access| regions.region(&epoch.about, access.address))
                .collect(),
            activity: Some(epoch.about.activity),
        }
    }

    /// The same with its blocks behind `before` others.
    pub fn behind(&self, before: u32) -> Self {
        let blocks = self.blocks.iter().map(|(block, accesses)| (block + before, accesses.clone()));
        Self { blocks: blocks.collect(), ..self.clone() }
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
        let epoch = self.clone();
        EpochSteps { passes_fs: 0, epoch, next: 0, accessed: 0, end, then: Vec::new(), owner: None }
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

    /// The same, active for `owner`. A thread of the kernel's own has a stack of its core.
    pub fn of(mut self, owner: Owner) -> Self {
        let of_core = self.epoch.activity == Some(Activity::KernelThread);
        self.owner = Some(Owner { thread: owner.thread.filter(|_| !of_core), ..owner });
        self
    }

    /// Why the kernel is active; none where that is not known.
    pub fn activity(&self) -> Option<Activity> {
        self.epoch.activity
    }

    /// Each access that will be: its address, and what kind of region it is in.
    pub fn touched(&self) -> Vec<(u64, usize)> {
        let (mut rest, mut accesses, mut touched) = (self.clone(), Vec::new(), Vec::new());
        loop {
            let before = rest.accessed;
            let Ok(Step::Block { .. }) = rest.step(&mut accesses) else { return touched };
            // The last step may have gone on to another epoch.
            let from = if rest.next == 1 { 0 } else { before };
            touched.extend(accesses.iter().zip(from..).map(|(access, place)| {
                let region = rest.epoch.regions.get(place).copied().unwrap_or(Region::Common);
                (access.address, region.kind())
            }));
        }
    }

    /// These, and before them as much of another epoch as [`Epoch::trimmed`] says.
    pub fn after(mut self, epoch: &Epoch, runs_fs: u64, whole_fs: u64) -> Self {
        let first = epoch.trimmed(runs_fs, whole_fs);
        self.then.push((
            std::mem::replace(&mut self.epoch, first.epoch),
            std::mem::replace(&mut self.end, first.end),
        ));
        self
    }
}

impl Steps for EpochSteps {
    fn append(&mut self, accesses: &mut Vec<Access>) -> Result<Step, TraceError> {
        while self.next >= self.end {
            let Some((epoch, end)) = self.then.pop() else { return Ok(Step::End) };
            (self.epoch, self.next, self.accessed, self.end) = (epoch, 0, 0, end);
        }
        let (number, its) = &self.epoch.blocks[self.next];
        match self.owner {
            Some(owner) => accesses.extend(its.iter().zip(self.accessed..).map(|(access, place)| {
                let region = self.epoch.regions.get(place).copied().unwrap_or(Region::Common);
                Access { address: owner.place(region, access.address), ..*access }
            })),
            None => accesses.extend_from_slice(its),
        }
        self.accessed += its.len();
        self.next += 1;
        Ok(Step::Block { number: *number })
    }
}

/// What kernel activity a library has: its blocks, and its epochs in their order.
///
/// # Errors
/// When the library is damaged.
pub fn loaded<R: ReadAt>(library: &EpochReader<R>) -> Result<(Dictionary, Vec<Epoch>), FileError> {
    let regions = RegionMap::of(library)?;
    let epochs = library.epochs().map(|epoch| epoch.map(|epoch| Epoch::of(&epoch, &regions)));
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

    /// One block that touches each region once; of processors' data its own, recorded on one that is `recorded` after the first,
    /// and the next one's.
    fn of_regions(recorded: u64, activity: Activity) -> Epoch {
        let back = |owner: u64| owner * 0x8_0000;
        let per_cpu = |ahead: u32| {
            let owner = recorded + u64::from(ahead);
            (0xffff_89fe_fa40_0040 + back(owner), Region::PerCpu { ahead, back: back(owner) })
        };
        let each = [
            per_cpu(0),
            per_cpu(1),
            (0xffff_ca89_4000_3f00 + recorded * 0x8000, Region::Stack),
            (0x7f50_0000_1000, Region::User),
            (0xffff_89fe_c100_1000, Region::Alone),
            (0xffff_89fe_c100_2000, Region::Common),
        ];
        let access = |(address, _)| Access { address, instruction: 0, octets: 8, write: false };
        Epoch {
            blocks: [(0, each.map(access).into())].into(),
            regions: each.map(|(_, region)| region).into(),
            activity: Some(activity),
        }
    }

    #[test]
    fn what_a_core_or_thread_owns_is_apart_and_the_rest_is_common() {
        const SYSTEM_CALL: Activity = Activity::SystemCall(202);
        let places = |data, recorded, activity, core, thread| -> Vec<u64> {
            let owner = Owner { data, core, cores: 4, thread: Some(thread) };
            let steps = of_regions(recorded, activity).steps().of(owner);
            let touched = steps.touched();
            assert_eq!(touched.iter().map(|(_, kind)| *kind).collect::<Vec<_>>(), [0, 0, 1, 2, 3, 4]);
            touched.into_iter().map(|(address, _)| address).collect()
        };
        let equal = |one: &[u64], other: &[u64]| -> Vec<bool> {
            one.iter().zip(other).map(|(one, other)| one == other).collect()
        };
        let recorded: Vec<u64> =
            of_regions(2, SYSTEM_CALL).blocks[0].1.iter().map(|access| access.address).collect();
        assert_eq!(places(KernelData::Same, 2, SYSTEM_CALL, 1, 5), recorded);
        let here = places(KernelData::Known, 2, SYSTEM_CALL, 1, 5);
        let there = places(KernelData::Known, 2, SYSTEM_CALL, 2, 6);
        assert_eq!(equal(&here, &there), [false, false, false, false, true, true]);
        assert_eq!(here[1], there[0], "the next core's is what that core has");
        assert_eq!(
            places(KernelData::Known, 2, SYSTEM_CALL, 3, 1)[1],
            places(KernelData::Known, 2, SYSTEM_CALL, 0, 1)[0]
        );
        assert_eq!(places(KernelData::Known, 0, SYSTEM_CALL, 1, 5), here, "wherever it was recorded");
        let moved = places(KernelData::Known, 2, SYSTEM_CALL, 3, 5);
        assert_eq!(equal(&here, &moved), [false, false, true, true, true, true], "a thread keeps its stack");
        let split = places(KernelData::Split, 2, SYSTEM_CALL, 1, 5);
        assert_eq!(equal(&here, &split), [true, true, true, true, false, true]);
        // A thread of the kernel's own is its core's, whomever it holds up.
        let own = places(KernelData::Known, 2, Activity::KernelThread, 1, 5);
        assert_eq!(own[2], places(KernelData::Known, 2, Activity::KernelThread, 1, 6)[2]);
        assert_ne!(own[2], here[2]);
        let in_program = |places: &[u64]| places.iter().map(|address| address >> 63 == 0).collect::<Vec<_>>();
        for places in [&here, &split, &own] {
            assert_eq!(in_program(places), [false, false, false, true, false, false]);
        }
    }

    #[test]
    fn the_library_that_comes_along_tells_whose_data_it_is() {
        let (_, epochs) = bundled().unwrap();
        let mut by_kind = [0_u64; 5];
        for region in epochs.iter().flat_map(|epoch| epoch.regions.iter()) {
            by_kind[region.kind()] += 1;
        }
        let all: u64 = by_kind.iter().sum();
        let accesses: usize =
            epochs.iter().flat_map(|epoch| epoch.blocks.iter()).map(|(_, its)| its.len()).sum();
        assert_eq!(all, accesses as u64);
        println!("{by_kind:?} of {all}: {:?}", Region::KINDS);
        let [per_cpu, stack, user, alone, common] = by_kind;
        assert!(stack * 100 > 45 * all && per_cpu * 100 > 15 * all, "{by_kind:?}");
        assert!(user > 0 && alone > 0 && common > 0, "{by_kind:?}");
    }

    #[test]
    fn an_epoch_is_cut_in_proportion() {
        let blocks: Vec<(u32, Box<[Access]>)> = (0..10).map(|number| (number, Box::default())).collect();
        let epoch = Epoch { blocks: blocks.into(), ..Epoch::default() };
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
