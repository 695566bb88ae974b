//! Kernel activity that was made up, for runs without a traced one.
//!
//! What the kernel does while it holds a thread up matters to caches only: how much code and data it touches. Here that is
//! drawn from a seed, by four numbers that are ours, printed with whatever comes out, and no measurement of any kernel. A
//! library of traced activity takes its place where there is one.

use crate::inject::Epoch;
use quaver_trace::block::{Block, Class, Dictionary, Instruction, Registers};
use quaver_trace::step::Access;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use schemars::JsonSchema;
use serde::Serialize;

/// Where the kernel's code begins.
const CODE: u64 = 0xffff_ffff_8100_0000;
/// Where its data does.
const DATA: u64 = 0xffff_8880_0000_0000;
/// A line of the second level.
const LINE: u64 = 64;
/// Instructions of a block; three of them are accesses.
const BLOCK: usize = 12;

/// What kernel activity touches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MadeActivity {
    /// Seed of all that is drawn.
    pub seed: u64,
    /// Code, KiB.
    pub code_kib: u64,
    /// Data that it always touches (run queues, timers, its stack), KiB.
    pub hot_kib: u64,
    /// Data of what it works on, KiB.
    pub wide_kib: u64,
    /// Part of the accesses that go to the wide data, 0 to 1.
    pub wide_share: f64,
    /// Blocks of the longest epoch.
    pub longest_blocks: u32,
    /// From one epoch's length to the next.
    pub ratio: f64,
}

impl Default for MadeActivity {
    fn default() -> Self {
        Self {
            seed: 1,
            code_kib: 24,
            hot_kib: 24,
            wide_kib: 192,
            wide_share: 0.08,
            longest_blocks: 60_000,
            ratio: 1.2,
        }
    }
}

impl MadeActivity {
    /// Adds its blocks to those of a program, and gives the epochs, shortest first.
    pub fn epochs(&self, dictionary: &mut Dictionary) -> Vec<Epoch> {
        let first = dictionary.blocks.len() as u32;
        let octets = 4 * BLOCK as u64;
        let blocks = (self.code_kib * 1024 / octets).max(1);
        dictionary.blocks.extend(
            (0..blocks).map(|number| Block { pc: CODE + number * octets, instructions: instructions() }),
        );
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let whole = self.walk(&mut random, first, blocks as u32);
        let mut lengths = Vec::new();
        let mut length = 64.0;
        while length < whole.len() as f64 {
            lengths.push(length as usize);
            length *= self.ratio.max(1.01);
        }
        lengths.push(whole.len());
        // A longer epoch begins as the shorter ones do: the entry, then the scheduler, then what the kernel found to do.
        let epoch = |length: usize| Epoch { blocks: whole[..length].to_vec().into(), ..Epoch::default() };
        lengths.into_iter().map(epoch).collect()
    }

    fn walk(&self, random: &mut Pcg64Mcg, first: u32, blocks: u32) -> Vec<(u32, Box<[Access]>)> {
        let mut at = 0;
        (0..self.longest_blocks)
            .map(|_| {
                // Mostly straight on; every eighth block jumps to another function.
                at = if below(random, 8) == 0 {
                    below(random, u64::from(blocks)) as u32
                } else {
                    (at + 1) % blocks
                };
                let accesses = [2, 5, 8].map(|instruction| Access {
                    address: self.address(random),
                    instruction,
                    octets: 8,
                    write: instruction == 8,
                });
                (first + at, accesses.into())
            })
            .collect()
    }

    fn address(&self, random: &mut Pcg64Mcg) -> u64 {
        let wide = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let lines = |kib: u64| (kib * 1024 / LINE).max(1);
        let line = match wide < self.wide_share {
            true => lines(self.hot_kib) + below(random, lines(self.wide_kib)),
            false => below(random, lines(self.hot_kib)),
        };
        DATA + line * LINE
    }
}

fn below(random: &mut Pcg64Mcg, limit: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(limit)) >> 64) as u64
}

/// Two loads and a store among integer instructions, and a branch.
fn instructions() -> Vec<Instruction> {
    let plain = Instruction {
        octets: 4,
        class: Class::Integer,
        loads: false,
        stores: false,
        reads: Registers::of(0),
        writes: Registers::of(1),
    };
    let mut all = vec![plain; BLOCK];
    for (place, instruction) in all.iter_mut().enumerate() {
        match place {
            2 | 5 => instruction.loads = true,
            8 => (instruction.stores, instruction.writes) = (true, Registers::default()),
            _ if place == BLOCK - 1 => {
                (instruction.class, instruction.writes) = (Class::Branch, Registers::default());
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::cure::Library;

    #[test]
    fn it_follows_from_its_seed_and_lasts_from_microseconds_to_a_millisecond() {
        let made = MadeActivity { longest_blocks: 20_000, ..MadeActivity::default() };
        let mut dictionary = Dictionary::default();
        let epochs = made.epochs(&mut dictionary);
        assert_eq!(epochs, made.epochs(&mut Dictionary::default()));
        assert_ne!(epochs, MadeActivity { seed: 2, ..made }.epochs(&mut Dictionary::default()));
        assert!(epochs.windows(2).all(|two| two[0].blocks.len() < two[1].blocks.len()));
        assert_eq!(epochs.last().unwrap().blocks.len(), 20_000);
        let library = Library::timed(&Config::default(), &dictionary, epochs).unwrap();
        let durations: Vec<u64> = library.durations_fs().collect();
        assert!(durations[0] < 20_000_000_000, "{} us", durations[0] / 1_000_000_000);
        assert!(*durations.last().unwrap() > 30_000_000_000);
    }

    #[test]
    fn it_touches_what_it_says() {
        let made = MadeActivity { longest_blocks: 30_000, ..MadeActivity::default() };
        let epochs = made.epochs(&mut Dictionary::default());
        let mut lines: Vec<u64> = epochs
            .last()
            .unwrap()
            .blocks
            .iter()
            .flat_map(|(_, its)| its.iter().map(|one| one.address))
            .collect();
        let all = lines.len() as f64;
        let wide = lines.iter().filter(|address| **address >= DATA + made.hot_kib * 1024).count() as f64;
        assert!((wide / all - made.wide_share).abs() < 0.01);
        lines.sort_unstable();
        lines.dedup();
        assert!(lines.len() as u64 * LINE <= (made.hot_kib + made.wide_kib) * 1024);
        assert!(lines.iter().all(|address| address % LINE == 0 && *address >= DATA));
    }
}
