//! Runs the checks on made-up recordings of synchronisation, without a fuzzer: `recordings [THOUSANDS [SEED]]`. Each is
//! a recording of a few threads whose headers, chunks and records are changed at random.

use quaver_abi::sync::SyncRecord;
use quaver_fuzz::recordings::{made, recording};
use quaver_fuzz::splitmix::{Random, numbers};

fn thread(random: &mut Random) -> Vec<SyncRecord> {
    let count = record_count(random.next());
    let mut cycles = random.below(1 << 20);
    let record = |_| {
        cycles += random.below(1000);
        SyncRecord {
            cycles: if random.below(50) == 0 { random.field() } else { cycles },
            object: random.below(8),
            call_site: random.below(4),
            kind: random.below(30) as u8,
            outcome: random.below(256) as u8,
            cpu: random.below(3) as u16,
            detail: random.below(5) as u32,
        }
    };
    (0..count).map(record).collect()
}

/// Mostly a few records, now and then chunks of them.
fn record_count(seed: u64) -> u64 {
    if seed.is_multiple_of(8) { seed / 8 % 600 } else { seed / 8 % 20 }
}

fn make(random: &mut Random) -> Vec<u8> {
    let threads: Vec<Vec<SyncRecord>> = (0..random.below(4)).map(|_| thread(random)).collect();
    let mut octets = made(&threads);
    let pages = octets.len() as u64 / 4096;
    for _ in 0..random.below(4) {
        // A word of a header: of the segment, of a chunk, of a ring.
        let at = (random.below(pages) * 4096 + random.below(24) * 8) as usize;
        let value = random.field().to_le_bytes();
        let width = [1, 4, 8][random.below(3) as usize];
        octets[at..at + width].copy_from_slice(&value[..width]);
    }
    for _ in 0..random.below(3) {
        let at = random.below(octets.len() as u64) as usize;
        octets[at] = random.next() as u8;
    }
    if random.below(4) == 0 {
        octets.truncate(random.below(octets.len() as u64) as usize);
    }
    octets
}

fn main() {
    let (thousands, mut random) = numbers(100);
    let read = (0..thousands * 1000).filter(|_| recording(&make(&mut random))).count();
    println!("recording: {thousands} thousand inputs, {read} read, the rest refused");
}
