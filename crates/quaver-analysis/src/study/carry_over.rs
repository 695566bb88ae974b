//! Whether what ran before a cell shows in it.

use super::design::shuffle;
use super::summary::CarryOver;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use std::collections::BTreeMap;

const SEED: u64 = 0x6361_7272_7921;
const DRAWS: usize = 2_000;

/// One cell that counts: its block, place, arm and value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) block: u32,
    pub(super) position: u32,
    pub(super) arm: usize,
    pub(super) value: f64,
}

/// Holds what is left of each cell's value, after its arm's and its block's middle are taken off, against the arm that ran
/// right before it. The spread between predecessors is compared with that after shuffling what is left within blocks. None
/// with too few cells.
pub(super) fn check(cells: &[Placed]) -> Option<CarryOver> {
    let left = leftovers(cells);
    let by_place: BTreeMap<(u32, u32), usize> =
        cells.iter().map(|c| ((c.block, c.position), c.arm)).collect();
    // Cells of a block whose predecessor is known, with it.
    let mut blocks: BTreeMap<u32, (Vec<f64>, Vec<usize>)> = BTreeMap::new();
    for (cell, left) in cells.iter().zip(&left) {
        let before = cell.position.checked_sub(1).and_then(|place| by_place.get(&(cell.block, place)));
        if let Some(before) = before {
            let (values, befores) = blocks.entry(cell.block).or_default();
            values.push(*left);
            befores.push(*before);
        }
    }
    let count: usize = blocks.values().map(|(values, _)| values.len()).sum();
    if blocks.len() < 3 || count < 12 {
        return None;
    }
    let mut blocks: Vec<(Vec<f64>, Vec<usize>)> = blocks.into_values().collect();
    let observed = spread(&blocks);
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let mut as_far = 0;
    for _ in 0..DRAWS {
        blocks.iter_mut().for_each(|(values, _)| shuffle(values, &mut random));
        as_far += usize::from(spread(&blocks) >= observed * (1.0 - 1e-9));
    }
    Some(CarryOver { p: (as_far + 1) as f64 / (DRAWS + 1) as f64, cells: count as u64 })
}

/// What is left, in units of each arm's own spread, so that an arm that scatters widely does not decide alone.
fn leftovers(cells: &[Placed]) -> Vec<f64> {
    let mut left: Vec<f64> = cells.iter().map(|cell| cell.value).collect();
    take_off(&mut left, |at| cells[at].arm as u64);
    let mut squares: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (cell, value) in cells.iter().zip(&left) {
        let (sum, count) = squares.entry(cell.arm).or_default();
        *sum += value * value;
        *count += 1.0;
    }
    for (cell, value) in cells.iter().zip(&mut left) {
        let (sum, count) = squares[&cell.arm];
        let sd = (sum / count).sqrt();
        *value = if sd > 0.0 { *value / sd } else { 0.0 };
    }
    take_off(&mut left, |at| u64::from(cells[at].block));
    left
}

fn take_off(values: &mut [f64], group: impl Fn(usize) -> u64) {
    let mut sums: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for (at, value) in values.iter().enumerate() {
        let (sum, count) = sums.entry(group(at)).or_default();
        *sum += value;
        *count += 1.0;
    }
    for (at, value) in values.iter_mut().enumerate() {
        let (sum, count) = sums[&group(at)];
        *value -= sum / count;
    }
}

/// Sum of squares between predecessors.
fn spread(blocks: &[(Vec<f64>, Vec<usize>)]) -> f64 {
    let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for (value, before) in blocks.iter().flat_map(|(values, befores)| values.iter().zip(befores)) {
        let (sum, count) = sums.entry(*before).or_default();
        *sum += value;
        *count += 1.0;
    }
    sums.values().map(|(sum, count)| sum * sum / count).sum()
}
