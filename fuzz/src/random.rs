//! Runs the checks on made-up octets, without a fuzzer: `random [MILLIONS [SEED]]`. Each input is random octets, or
//! small ones, or the one before with some octets changed, so that much of it nearly is a message.

use quaver_fuzz::checks;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }

    fn octet(&mut self, small: bool) -> u8 {
        let octet = self.next() as u8;
        if small { octet % 12 } else { octet }
    }
}

fn make(random: &mut Random, input: &mut Vec<u8>) {
    let small = random.below(2) == 0;
    match random.below(4) {
        0 => {
            let length = random.below(200);
            input.clear();
            input.extend((0..length).map(|_| random.octet(small)));
        }
        1 => {
            // Lengths at which messages begin to be.
            let length = [11, 12, 24, 40, 41, 44, 48, 112, 116, 132][random.below(10)];
            input.resize(length, random.octet(small));
        }
        _ => {
            for _ in 0..=random.below(6) {
                if !input.is_empty() {
                    let at = random.below(input.len());
                    input[at] = random.octet(small);
                }
            }
        }
    }
    if input.len() >= 4 && random.below(4) == 0 {
        // A command, or the start of an extension's header.
        input[..4].copy_from_slice(&[0, 0, 0, random.octet(true)]);
    }
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|number| number.parse::<u64>().expect("a number"));
    let (millions, seed) = (numbers.next().unwrap_or(1), numbers.next().unwrap_or(1));
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
