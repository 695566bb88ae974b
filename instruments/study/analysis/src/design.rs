//! Which arm runs when.

use quaver_analysis::order::below;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;

/// Fewer blocks tell too little about how blocks differ.
pub const LEAST_BLOCKS: u32 = 5;
/// Level of every test here.
pub(super) const LEVEL: f64 = 0.05;

pub(super) fn shuffle<T>(items: &mut [T], random: &mut Pcg64Mcg) {
    for end in (1..items.len()).rev() {
        items.swap(end, below(random, end + 1));
    }
}

/// The order of `arms` arms in one block, the first being 0: every order is as likely as any other. A block's order depends
/// on the seed and its own number only, so that more blocks can follow without another order of the earlier ones.
pub fn block_order(seed: u64, block: u32, arms: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..arms).collect();
    let of_block = seed ^ u64::from(block + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    shuffle(&mut order, &mut Pcg64Mcg::seed_from_u64(of_block));
    order
}

/// The order of one block where arms need different boots (`boots` has a number for each arm): all arms of a boot one after
/// the other, so that a block takes as many boots as there are. The order of boots is drawn, and that of the arms in each.
/// Of one boot only, this is [`block_order`].
pub fn boot_order(seed: u64, block: u32, boots: &[usize]) -> Vec<Vec<usize>> {
    let order = block_order(seed, block, boots.len());
    let count = boots.iter().max().map_or(0, |most| most + 1);
    // Another seed: the order of arms favours boots with many of them.
    let drawn = block_order(seed ^ 0x626f_6f74, block, count);
    let of = |boot: usize| order.iter().copied().filter(|arm| boots[*arm] == boot).collect::<Vec<usize>>();
    drawn.into_iter().map(of).filter(|arms| !arms.is_empty()).collect()
}

/// Blocks with which an effect of any one of `factors` can be told from chance: the smallest p of a sign-flip test over n
/// blocks is 2/2ⁿ, and Holm multiplies the smallest by the number of factors. At least [`LEAST_BLOCKS`].
pub fn blocks_needed(factors: usize) -> u32 {
    let enough = |blocks: &u32| factors as f64 * 2.0 * 0.5f64.powi(*blocks as i32) <= LEVEL;
    (LEAST_BLOCKS..64).find(enough).unwrap_or(64)
}
