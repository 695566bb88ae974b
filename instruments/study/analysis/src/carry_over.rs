//! Whether what ran before a cell shows in it.

use super::design::shuffle;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const SEED: u64 = 0x6361_7272_7921;
const DRAWS: usize = 2_000;

/// Test for what ran before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CarryOver {
    /// p of the hypothesis that it makes no difference.
    pub p: f64,
    /// Cells looked at.
    pub cells: u64,
}

/// One cell that counts: its block, place, arm, the arm's boot, and its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) block: u32,
    pub(super) position: u32,
    pub(super) arm: usize,
    pub(super) boot: usize,
    pub(super) value: f64,
}

/// Cells of one block in the order in which they ran.
struct Block {
    cells: Vec<CellResidual>,
    /// Whether the cell at a place was measured right after the one before it in this list.
    follows: Vec<bool>,
}

#[derive(Clone, Copy)]
struct CellResidual {
    arm: usize,
    boot: usize,
    left: f64,
}

/// Holds what is left of each cell's value, after its arm's and its block's middle are taken off, against the arm that ran
/// right before it: by the spread between predecessors. The order of arms was drawn, so where nothing is carried over any
/// other order would have given the same values: p is the share of orders, drawn as those of the study were, whose spread is
/// as large (R. A. Fisher, as in [`super::sign_flip_p`]). A boot carries nothing over. None with too few cells.
pub(super) fn check(cells: &[Placed]) -> Option<CarryOver> {
    check_with(cells, DRAWS)
}

/// The same with so many draws.
pub(super) fn check_with(cells: &[Placed], draws: usize) -> Option<CarryOver> {
    let mut blocks = blocks(cells);
    let count: usize = blocks.iter().map(|block| followers(block).count()).sum();
    if blocks.len() < 3 || count < 12 {
        return None;
    }
    let arms = cells.iter().map(|cell| cell.arm + 1).max().unwrap_or(0);
    let observed = spread(&blocks, arms);
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let mut as_far = 0;
    for _ in 0..draws {
        for block in &mut blocks {
            block
                .cells
                .chunk_by_mut(|one, next| one.boot == next.boot)
                .for_each(|run| shuffle(run, &mut random));
        }
        as_far += usize::from(spread(&blocks, arms) >= observed * (1.0 - 1e-9));
    }
    Some(CarryOver { p: (as_far + 1) as f64 / (draws + 1) as f64, cells: count as u64 })
}

fn blocks(cells: &[Placed]) -> Vec<Block> {
    let mut placed: BTreeMap<u32, BTreeMap<u32, CellResidual>> = BTreeMap::new();
    for (cell, left) in cells.iter().zip(leftovers(cells)) {
        let ran = CellResidual { arm: cell.arm, boot: cell.boot, left };
        placed.entry(cell.block).or_default().insert(cell.position, ran);
    }
    let block = |places: BTreeMap<u32, CellResidual>| {
        let follows =
            places.keys().map(|at| at.checked_sub(1).is_some_and(|before| places.contains_key(&before)));
        Block { follows: follows.collect(), cells: places.into_values().collect() }
    };
    placed.into_values().map(block).collect()
}

/// Pairs of a cell and the one that ran right before it, in the same boot.
fn followers(block: &Block) -> impl Iterator<Item = (CellResidual, CellResidual)> {
    let pairs = block.cells.windows(2).zip(&block.follows[1..]);
    pairs
        .filter(|(pair, follows)| **follows && pair[0].boot == pair[1].boot)
        .map(|(pair, _)| (pair[0], pair[1]))
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
fn spread(blocks: &[Block], arms: usize) -> f64 {
    let mut sums = vec![(0.0, 0.0); arms];
    for (before, cell) in blocks.iter().flat_map(followers) {
        sums[before.arm].0 += cell.left;
        sums[before.arm].1 += 1.0;
    }
    sums.iter().filter(|(_, count)| *count > 0.0).map(|(sum, count)| sum * sum / count).sum()
}
