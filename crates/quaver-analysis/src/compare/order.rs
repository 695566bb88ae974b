//! The order of blocks: every arm once a round, each round shuffled anew.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Arms by block: `rounds` times all of `arms`, each time in an order of its own.
pub fn shuffled_rounds(arms: u16, rounds: u32, seed: u64) -> Vec<u16> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut blocks = Vec::with_capacity(usize::from(arms) * rounds as usize);
    for _ in 0..rounds {
        let start = blocks.len();
        blocks.extend(0..arms);
        // Fisher and Yates.
        for at in (1..usize::from(arms)).rev() {
            blocks.swap(start + at, start + below(&mut random, at + 1));
        }
    }
    blocks
}

/// An index below `end`, which is small: what the remainder prefers is too little to matter.
pub(super) fn below(random: &mut Pcg64Mcg, end: usize) -> usize {
    (random.next_u64() % end.max(1) as u64) as usize
}
