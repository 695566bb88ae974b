//! What is in a library.

use super::{Activity, EpochReader, KernelEpoch, Region, RegionMap};
use crate::container::{FileError, ReadAt};
use serde::Serialize;
use std::collections::BTreeMap;

/// How values are spread. Percentiles are exact, by nearest rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Least.
    pub min: u64,
    /// Half are at most this.
    pub p50: u64,
    /// Nine of ten are at most this.
    pub p90: u64,
    /// 99 of 100 are at most this.
    pub p99: u64,
    /// Greatest.
    pub max: u64,
    /// How many are at least 2^n and less than 2^(n + 1), by n.
    pub by_power_of_two: BTreeMap<u32, u64>,
}

impl Spread {
    fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let rank = |part: usize| {
            let place = (values.len() * part).div_ceil(100).saturating_sub(1);
            values.get(place).copied().unwrap_or(0)
        };
        let mut by_power_of_two = BTreeMap::new();
        values.iter().for_each(|value| *by_power_of_two.entry(value.max(&1).ilog2()).or_default() += 1);
        let min = values.first().copied().unwrap_or(0);
        Self { min, p50: rank(50), p90: rank(90), p99: rank(99), max: rank(100), by_power_of_two }
    }
}

/// Epochs of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassSummary {
    /// The class.
    pub class: &'static str,
    /// How many epochs.
    pub epochs: u64,
    /// Their instructions together.
    pub instructions: u64,
    /// Those with the bottom half of an interrupt.
    pub bottom_halves: u64,
    /// Their durations in instructions.
    pub duration: Spread,
    /// Epochs and instructions by what they were within the class: number of the system call, vector, or name of the task.
    pub within: BTreeMap<String, (u64, u64)>,
}

/// A library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EpochSummary {
    /// How many epochs.
    pub epochs: u64,
    /// Blocks that ran.
    pub blocks: u64,
    /// Instructions: the entries of the library, one each.
    pub instructions: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Accesses by whose data they touch, by the names of [`Region::KINDS`].
    pub regions: BTreeMap<&'static str, u64>,
    /// Whether data of processors can be told from other data.
    pub tells_processors: bool,
    /// Durations of all in instructions.
    pub duration: Spread,
    /// By class; those that there are.
    pub classes: Vec<ClassSummary>,
}

#[derive(Default)]
struct Gathered {
    durations: Vec<u64>,
    bottom_halves: u64,
    within: BTreeMap<String, (u64, u64)>,
}

fn within(epoch: &KernelEpoch) -> Option<String> {
    match epoch.about.activity {
        Activity::SystemCall(number) => Some(number.to_string()),
        Activity::Interrupt(vector) => Some(format!("{vector:#04x}")),
        Activity::KernelThread => Some(epoch.about.task.to_string()),
        _ => None,
    }
}

/// Reads all epochs and counts.
///
/// # Errors
/// When the library is damaged.
pub fn summary_of<R: ReadAt>(library: &EpochReader<R>) -> Result<EpochSummary, FileError> {
    let mut gathered: BTreeMap<u8, Gathered> = BTreeMap::new();
    let (mut blocks, mut loads, mut stores) = (0, 0, 0);
    let map = RegionMap::of(library)?;
    let mut regions = [0; Region::KINDS.len()];
    for epoch in library.epochs() {
        let epoch = epoch?;
        blocks += epoch.blocks.len() as u64;
        for access in &epoch.accesses {
            regions[map.region(&epoch.about, access.address).kind()] += 1;
        }
        let writes = epoch.accesses.iter().filter(|access| access.write).count();
        stores += writes as u64;
        loads += (epoch.accesses.len() - writes) as u64;
        let class = gathered.entry(epoch.about.activity.numbers().0).or_default();
        class.durations.push(epoch.instructions);
        class.bottom_halves += u64::from(epoch.about.bottom_half);
        if let Some(name) = within(&epoch) {
            let (epochs, instructions) = class.within.entry(name).or_default();
            *epochs += 1;
            *instructions += epoch.instructions;
        }
    }
    let all: Vec<u64> = gathered.values().flat_map(|class| class.durations.iter().copied()).collect();
    let classes = gathered.into_iter().map(|(class, of)| ClassSummary {
        class: Activity::CLASSES[usize::from(class)].name(),
        epochs: of.durations.len() as u64,
        instructions: of.durations.iter().sum(),
        bottom_halves: of.bottom_halves,
        duration: Spread::of(of.durations),
        within: of.within,
    });
    Ok(EpochSummary {
        epochs: all.len() as u64,
        blocks,
        instructions: all.iter().sum(),
        loads,
        stores,
        regions: Region::KINDS.into_iter().zip(regions).collect(),
        tells_processors: map.tells_processors(),
        duration: Spread::of(all),
        classes: classes.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let spread = Spread::of((1..=100).collect());
        assert_eq!((spread.min, spread.p50, spread.p90, spread.p99, spread.max), (1, 50, 90, 99, 100));
        assert_eq!(spread.by_power_of_two[&6], 37, "64 to 100");
        assert_eq!(Spread::of(vec![7]).p50, 7);
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
