//! Runs the checks on made-up bytes, without a fuzzer: `random [MILLIONS [SEED]]`. Each input is random bytes, or
//! small ones, or the one before with some bytes changed, so that much of it nearly is a message.

use quaver_fuzz::checks;
use quaver_fuzz::splitmix::{Random, numbers};

fn octet(random: &mut Random, small: bool) -> u8 {
    let octet = random.next() as u8;
    if small { octet % 12 } else { octet }
}

fn make(random: &mut Random, input: &mut Vec<u8>) {
    let small = random.below(2) == 0;
    match random.below(4) {
        0 => {
            let length = random.below(200) as usize;
            input.clear();
            input.extend((0..length).map(|_| octet(random, small)));
        }
        1 => {
            // Lengths at which messages begin to be.
            let length = [11, 12, 24, 40, 41, 44, 48, 112, 116, 132][random.below(10) as usize];
            input.resize(length, octet(random, small));
        }
        _ => {
            for _ in 0..=random.below(6) {
                if !input.is_empty() {
                    let at = random.below(input.len() as u64) as usize;
                    input[at] = octet(random, small);
                }
            }
        }
    }
    if input.len() >= 4 && random.below(4) == 0 {
        // A command, or the start of an extension's header.
        input[..4].copy_from_slice(&[0, 0, 0, octet(random, true)]);
    }
}

fn main() {
    let (millions, Random(seed)) = numbers(1);
    for (name, check) in checks::ALL {
        let mut random = Random(seed);
        let mut input = Vec::new();
        for _ in 0..millions * 1_000_000 {
            make(&mut random, &mut input);
            check(&input);
        }
        println!("{name}: {millions} million inputs, seed {seed}");
    }
}
