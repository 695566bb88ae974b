//! Runs the checks on made-up captures, without a fuzzer: `captures [MILLIONS [SEED]]`. Each is a header of one of the
//! formats and some blocks that are nearly right: lengths, types, counts and orders are changed at random.

use quaver_fuzz::captures::capture;
use quaver_fuzz::splitmix::{Random, numbers};

/// A number such as lengths are: small mostly, else near the ends of 32 bits.
fn any_length(random: &mut Random) -> u32 {
    match random.below(8) {
        0 => random.next() as u32,
        1 => u32::MAX - random.below(64) as u32,
        2 => random.below(1 << 22) as u32,
        _ => random.below(120) as u32,
    }
}

fn word(big: bool, value: u32) -> [u8; 4] {
    if big { value.to_be_bytes() } else { value.to_le_bytes() }
}

fn half(big: bool, value: u16) -> [u8; 2] {
    if big { value.to_be_bytes() } else { value.to_le_bytes() }
}

fn options(random: &mut Random, big: bool, into: &mut Vec<u8>) {
    for _ in 0..random.below(4) {
        let code = match random.below(4) {
            0 => 2989,
            1 => 2988,
            _ => random.below(17) as u16,
        };
        let start = into.len();
        into.extend([half(big, code), [0; 2]].concat());
        if code >= 2988 {
            into.extend(word(big, 32_473));
            let of_stamps = if random.below(2) == 0 { b"QVTS" } else { b"QVTA" };
            into.extend(if code == 2989 { of_stamps } else { b"QVRF" });
            into.extend([1, random.below(8) as u8, random.below(9) as u8, 0]);
        }
        into.extend((0..random.below(40)).map(|at| (at as u8).wrapping_mul(start as u8)));
        let octets = (into.len() - start - 4) as u16;
        let claimed = if random.below(8) == 0 { random.next() as u16 } else { octets };
        into[start + 2..start + 4].copy_from_slice(&half(big, claimed));
        into.resize(into.len().next_multiple_of(4), 0);
    }
}

fn block(random: &mut Random, big: bool, into: &mut Vec<u8>) {
    let kind = match random.below(12) {
        0 => 0x0a0d_0d0a,
        1 | 2 => 1,
        3 => 3,
        4 => 5,
        5 => 0x0bad,
        6 => random.next() as u32,
        _ => 6,
    };
    let start = into.len();
    into.extend([word(big, kind), [0; 4]].concat());
    let words: &[u32] = match kind {
        0x0a0d_0d0a => &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX],
        1 => &[1, 0],
        _ => &[0, 0, 7, 9, 20],
    };
    for value in words {
        let value = if random.below(10) == 0 { any_length(random) } else { *value };
        into.extend(word(big, value));
    }
    into.extend((0..random.below(12) * 4).map(|at| at as u8));
    options(random, big, into);
    let right = (into.len() - start + 4) as u32;
    let wrong = random.below(16) == 0;
    let length = if wrong { any_length(random) } else { right };
    into[start + 4..start + 8].copy_from_slice(&word(big, length));
    into.extend(word(big, if random.below(24) == 0 { any_length(random) } else { length }));
}

fn make(random: &mut Random, file: &mut Vec<u8>) {
    file.clear();
    let big = random.below(2) == 0;
    if random.below(4) == 0 {
        let magic = [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34][random.below(3) as usize];
        file.extend(word(big, magic));
        (0..5).for_each(|_| file.extend(word(big, any_length(random))));
        for _ in 0..random.below(6) {
            let kept = random.below(40) as u32;
            let claimed = if random.below(8) == 0 { any_length(random) } else { kept };
            [any_length(random), any_length(random), claimed, any_length(random)]
                .into_iter()
                .for_each(|value| file.extend(word(big, value)));
            file.extend((0..kept).map(|at| at as u8));
        }
    } else {
        let header = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, if big { 0x1_0000 } else { 1 }, u32::MAX, u32::MAX, 28];
        header.into_iter().for_each(|value| file.extend(word(big, value)));
        (0..random.below(8)).for_each(|_| block(random, big, file));
    }
    for _ in 0..random.below(3) {
        let at = random.below(file.len() as u64) as usize;
        file[at] = random.next() as u8;
    }
    if random.below(4) == 0 {
        file.truncate(random.below(file.len() as u64) as usize);
    }
}

fn main() {
    let (millions, mut random) = numbers(1);
    let mut file = Vec::new();
    for _ in 0..millions * 1_000_000 {
        make(&mut random, &mut file);
        capture(&file);
    }
    println!("capture: {millions} million inputs");
}
