//! What a stamp costs in a batch, by pipeline, and what the ways to read time cost that they are made of.
//!
//! `pipeline_cost [BATCHES]`: medians over interleaved batches of 1,000 stamps each (what they leave stays in the
//! first cache), nanoseconds a stamp, as `name median least`. Run it in a release build on a quiet machine.

use quaver_capture::pipeline::{
    PipelineKind, PipelineSettings, RawStamp, Stamp, StampWith, cycles_unordered, start,
};
use quaver_clock::live::{LiveClock, LiveOptions};
use quaver_clock::{
    Counter, CounterSupport, CycleCounter, cycles, cycles_and_cpu, nominal_scale, realtime_ns,
};
use std::hint::black_box;
use std::path::Path;

const STAMPS: usize = 1_000;
/// The paper's rings have room for a batch.
const RING_SLOTS: usize = 1 << 15;

fn main() {
    let batches: usize = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1_001);
    let counter = CounterSupport::detect(Path::new("/")).counter;
    let live = LiveClock::start(LiveOptions::new(counter)).expect("the clock starts");
    let mut ways: Vec<(String, Box<dyn FnMut() -> u64>)> = Vec::new();
    for kind in PipelineKind::ALL.into_iter().chain([PipelineKind::Threaded { converters: 2 }]) {
        let settings = PipelineSettings { ring_slots: RING_SLOTS, ..PipelineSettings::new(kind, counter) };
        let (mut stamper, mut resolver) = start(&settings, live.reader()).expect("the pipeline starts");
        let mut raws = vec![RawStamp::of_cycles(0); STAMPS];
        ways.push((
            kind.to_string(),
            Box::new(move || {
                let elapsed = stamper.run(Batch { counter, raws: &mut raws });
                for raw in &raws {
                    black_box(resolver.resolve(*raw));
                }
                elapsed
            }),
        ));
    }
    ways.push(("vdso-clock_gettime".into(), Box::new(move || kept(counter, || realtime_ns() as u64))));
    ways.push(("rdtsc".into(), Box::new(move || kept(counter, cycles_unordered))));
    ways.push(("lfence+rdtsc".into(), Box::new(move || kept(counter, cycles))));
    ways.push(("rdtscp".into(), Box::new(move || kept(counter, || cycles_and_cpu().0))));
    let reader = live.reader();
    ways.push((
        "convert".into(),
        Box::new(move || {
            let now = counter.read();
            let mut at = now;
            kept(counter, || {
                at -= 100;
                reader.convert(at).realtime_ns as u64
            })
        }),
    ));
    let scale = nominal_scale(counter);
    let mut results: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
    for _ in 0..batches {
        for (way, result) in ways.iter_mut().zip(&mut results) {
            result.push(scale.ns((way.1)()) as f64 / STAMPS as f64);
        }
    }
    for ((name, _), result) in ways.iter().zip(&mut results) {
        result.sort_by(f64::total_cmp);
        println!("{name} {:.2} {:.2}", result[result.len() / 2], result[0]);
    }
}

/// A batch of stamps, each kept as a capture would.
struct Batch<'a> {
    counter: Counter,
    raws: &'a mut [RawStamp],
}

impl StampWith for Batch<'_> {
    type Output = u64;

    fn run(self, stamp: &mut impl Stamp) -> u64 {
        let before = self.counter.read();
        for raw in self.raws {
            *raw = stamp.stamp();
        }
        self.counter.read() - before
    }
}

/// Cycles that a batch took.
fn timed(counter: Counter, mut stamp: impl FnMut()) -> u64 {
    let before = counter.read();
    for _ in 0..STAMPS {
        stamp();
    }
    counter.read() - before
}

/// As [`timed`], where what is read is stored as a capture would.
fn kept(counter: Counter, mut read: impl FnMut() -> u64) -> u64 {
    let mut store = vec![0u64; 1024];
    let mut at = 0;
    let elapsed = timed(counter, || {
        store[at % 1024] = read();
        at += 1;
    });
    black_box(store);
    elapsed
}
