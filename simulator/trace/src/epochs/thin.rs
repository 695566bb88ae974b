//! A smaller library of a large one.

use super::{Activity, EpochReader, EpochWriter, KernelEpoch, RegionMap};
use crate::container::{FileError, ReadAt};
use std::collections::{BTreeMap, BTreeSet};

/// No epoch of a library of so many bytes has more instructions than so many times them: it would leave little room for others.
const MOST_SHARE: u64 = 1;
/// Instructions that may be worth looking at, for each byte of the library.
const LOOKED_AT: u64 = 60;

/// What epochs are alike in: class, vector or task where the kernel works for itself, and duration to half a power of two. System
/// calls are one kind, or they would crowd out all else.
type Kind = (u8, String, u32);

fn kind(epoch: &KernelEpoch) -> Kind {
    let within = match epoch.about.activity {
        Activity::Interrupt(vector) => vector.to_string(),
        Activity::KernelThread => epoch.about.task.to_string(),
        _ => String::new(),
    };
    let power = epoch.instructions.max(1).ilog2();
    let upper = u32::from(epoch.instructions >= 3 << power >> 1);
    (epoch.about.activity.numbers().0, within, power * 2 + upper)
}

/// A library of at most so many bytes, of epochs of `library`, in the order in which they were: of each duration, to half a power of
/// two, the fewer the longer it is (by the root), and of these first one of each kind; before all others the shortest of each class.
/// Epochs that would take too much of it are left out.
///
/// # Errors
/// When the library is damaged, or so few bytes do not hold one epoch.
pub fn thinned<R: ReadAt>(library: &EpochReader<R>, most_octets: u64) -> Result<Vec<u8>, FileError> {
    let mut seen: BTreeMap<Kind, u32> = BTreeMap::new();
    let mut by_duration: BTreeMap<u32, Vec<(u32, usize, u64)>> = BTreeMap::new();
    let mut shortest: BTreeMap<u8, (u64, usize)> = BTreeMap::new();
    for (place, epoch) in library.epochs().enumerate() {
        let epoch = epoch?;
        if epoch.instructions <= most_octets.saturating_mul(MOST_SHARE) && !epoch.about.cut {
            let kind = kind(&epoch);
            let of_class = shortest.entry(kind.0).or_insert((epoch.instructions, place));
            *of_class = (*of_class).min((epoch.instructions, place));
            let of_duration = by_duration.entry(kind.2).or_default();
            let rank = seen.entry(kind).or_default();
            of_duration.push((*rank, place, epoch.instructions));
            *rank += 1;
        }
    }
    let firsts: BTreeSet<usize> = shortest.into_values().map(|(_, place)| place).collect();
    let mut order = Vec::new();
    for mut of_duration in by_duration.into_values() {
        of_duration.sort_unstable();
        for (taken_before, (_, place, instructions)) in (1_u64..).zip(of_duration) {
            let key = if firsts.contains(&place) { 0 } else { taken_before * instructions.isqrt() };
            order.push((key, instructions, place));
        }
    }
    order.sort_unstable();
    let mut left = most_octets.saturating_mul(LOOKED_AT);
    let looked_at = order.iter().take_while(|(_, instructions, _)| {
        let fits = left > 0;
        left = left.saturating_sub(*instructions);
        fits
    });
    let candidates: Vec<usize> = looked_at.map(|(_, _, place)| *place).collect();
    let wanted: BTreeSet<usize> = candidates.iter().copied().collect();
    let mut kept: BTreeMap<usize, KernelEpoch> = BTreeMap::new();
    for (place, epoch) in library.epochs().enumerate() {
        if wanted.contains(&place) {
            kept.insert(place, epoch?);
        }
    }
    let regions = RegionMap::of(library)?;
    let written = |count: usize| {
        let chosen: BTreeSet<usize> = candidates[..count].iter().copied().collect();
        let epochs: Vec<&KernelEpoch> =
            kept.iter().filter(|(place, _)| chosen.contains(place)).map(|(_, epoch)| epoch).collect();
        write(library, &epochs, &regions)
    };
    // The largest number that fits; bytes hardly ever become fewer by one epoch more.
    let (mut fits, mut too_many) = (0, candidates.len() + 1);
    let mut best = None;
    while fits + 1 < too_many {
        let middle = fits.midpoint(too_many);
        let octets = written(middle)?;
        if octets.len() as u64 <= most_octets {
            (fits, best) = (middle, Some(octets));
        } else {
            too_many = middle;
        }
    }
    best.ok_or_else(|| FileError::Foreign(format!("{most_octets} bytes do not hold one of its epochs")))
}

fn write<R: ReadAt>(
    library: &EpochReader<R>,
    epochs: &[&KernelEpoch],
    regions: &RegionMap,
) -> Result<Vec<u8>, FileError> {
    let mut facts = library.facts.clone();
    let accesses = epochs.iter().flat_map(|epoch| &epoch.accesses);
    facts.regions = Some(regions.of_lines(&accesses.map(|access| RegionMap::line(access.address)).collect()));
    facts.changes.push(format!("{} of {} epochs, of all kinds and durations", epochs.len(), library.count()));
    let mut writer = EpochWriter::new(Vec::new(), &facts)?;
    let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
    for epoch in epochs {
        for (number, _) in &epoch.blocks {
            numbers.entry(*number).or_insert(0);
        }
    }
    // In the order of the large library, so that blocks that lie side by side stay so.
    for (old, new) in &mut numbers {
        *new = writer.define(library.dictionary.blocks[*old as usize].clone());
    }
    for epoch in epochs {
        let steps = epoch.steps().map(|(number, accesses)| (numbers[&number], accesses));
        writer.add(&epoch.about, steps)?;
    }
    writer.finish()
}
