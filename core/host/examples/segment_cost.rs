//! Cost of a record on a hot path: pushes at the rate of a video stream (135,000 a second) into a segment, and
//! counts what the pushes cost and how many of them the kernel interrupted by a page fault.
//!
//! `segment_cost DIRECTORY SECONDS [sync-every-seconds]` — the last makes another thread call `sync` meanwhile,
//! as the kernel's writeback does by itself every half minute.

use quaver_abi::record::PacketRecord;
use quaver_clock::{Counter, CycleCounter, HardwareCounter, nominal_scale};
use quaver_host::segment::SegmentWriter;
use quaver_probe::thread::{ThreadSettings, ThreadUsage};
use std::path::Path;
use std::time::{Duration, Instant};

const PERIOD_NS: u64 = 7_410;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, seconds, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: segment_cost DIRECTORY SECONDS [sync-every-seconds]");
        std::process::exit(2);
    };
    let seconds: u64 = seconds.parse().expect("SECONDS is a whole number");
    if let Some(every) = rest.first() {
        let every: u64 = every.parse().expect("sync-every-seconds is a whole number");
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(every));
                let begin = Instant::now();
                // SAFETY: no memory involved.
                unsafe { libc::sync() };
                eprintln!("sync took {:?}", begin.elapsed());
            }
        });
    }
    back_to_back(Path::new(directory));
    at_stream_rate(Path::new(directory), seconds);
}

fn record(key: u64, app_cycles: u64) -> PacketRecord {
    PacketRecord { key, app_cycles, payload_bytes: 1_400, ..PacketRecord::default() }
}

fn back_to_back(directory: &Path) {
    const COUNT: u64 = 1_000_000;
    const BATCH: u64 = 1_000;
    let path = directory.join("segment-cost-burst.seg");
    let begin = Instant::now();
    let mut writer = SegmentWriter::create(&path, COUNT).expect("a segment can be made there");
    println!("create for {COUNT} records of 64 bytes: {:?}", begin.elapsed());
    let usage = ThreadUsage::now();
    // By batches, whose median a preemption does not move.
    let mut batches_ns: Vec<f64> = (0..COUNT / BATCH)
        .map(|batch| {
            let begin = HardwareCounter.read();
            for key in batch * BATCH..(batch + 1) * BATCH {
                writer.push(record(std::hint::black_box(key), key + 1));
            }
            nominal_scale(Counter::Hardware).ns(HardwareCounter.read() - begin) as f64 / BATCH as f64
        })
        .collect();
    batches_ns.sort_by(f64::total_cmp);
    let faults = ThreadUsage::now().since(&usage).minor_faults;
    let at = |share: f64| batches_ns[((batches_ns.len() - 1) as f64 * share) as usize];
    println!("back to back: median {:.2}, best {:.2} ns a record, {faults} faults", at(0.5), at(0.0));
    drop(writer);
    std::fs::remove_file(&path).expect("the file made above");
}

fn at_stream_rate(directory: &Path, seconds: u64) {
    let scale = nominal_scale(Counter::Hardware);
    let count = seconds * 1_000_000_000 / PERIOD_NS;
    let path = directory.join("segment-cost.seg");
    let mut writer = SegmentWriter::create(&path, count).expect("a segment can be made there");
    ThreadSettings::measuring(Some(1), Some(50)).prepare().expect("nothing is required");
    let mut costs = vec![0u32; count as usize];
    let clock = HardwareCounter;
    let period = scale.cycles(PERIOD_NS);
    let start = clock.read();
    let usage = ThreadUsage::now();
    for (index, cost) in costs.iter_mut().enumerate() {
        let deadline = start + index as u64 * period;
        while clock.read() < deadline {}
        let before = clock.read();
        writer.push(record(index as u64, before));
        *cost = (clock.read() - before) as u32;
    }
    let used = ThreadUsage::now().since(&usage);
    let mut alone: Vec<u64> = (0..100_000)
        .map(|_| {
            let before = clock.read();
            scale.ns(clock.read() - before)
        })
        .collect();
    alone.sort_unstable();
    println!(
        "two readings of the counter with nothing between: {} ns, part of every cost below",
        alone[50_000]
    );
    println!(
        "at {PERIOD_NS} ns a record: {} page faults in {count} records, {} switches",
        used.minor_faults, used.involuntary_switches
    );
    // Only the first record of a page can fault: whatever else is slow hits the others as often.
    let (mut first, mut others): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    for (index, cost) in costs.iter().enumerate() {
        let to = if (index + 1) % 64 == 0 { &mut first } else { &mut others };
        to.push(scale.ns((*cost).into()));
    }
    print("first record of a page", first);
    print("the others", others);
    drop(writer);
    std::fs::remove_file(&path).expect("the file made above");
}

fn print(name: &str, mut costs_ns: Vec<u64>) {
    costs_ns.sort_unstable();
    let at = |share: f64| costs_ns[((costs_ns.len() - 1) as f64 * share) as usize];
    let slow = costs_ns.iter().filter(|ns| **ns >= 1_000).count();
    println!(
        "  {name}: p50 {} p99 {} p99.9 {} p99.99 {} max {} ns; {:.4} % take 1 us or more",
        at(0.5),
        at(0.99),
        at(0.999),
        at(0.9999),
        at(1.0),
        100.0 * slow as f64 / costs_ns.len() as f64,
    );
}
