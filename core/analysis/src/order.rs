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

/// A number below `limit`, each as likely as any other.
pub fn below(random: &mut Pcg64Mcg, limit: usize) -> usize {
    let limit = limit as u64;
    // Values above the last whole multiple of the limit would favour small numbers.
    let last = u64::MAX - u64::MAX % limit;
    loop {
        let drawn = random.next_u64();
        if drawn < last {
            return (drawn % limit) as usize;
        }
    }
}
