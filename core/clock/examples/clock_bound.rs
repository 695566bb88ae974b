//! The live clock against the kernel's: how often a converted reading meets the bracket of `clock_gettime` around it, how wide
//! its bound is, how far it lies from the middle, and what a reading and a conversion cost.
//!
//! `clock_bound [SECONDS [INTERVAL_MS]]` (60, 100) prints JSON. It sleeps 100 µs between samples.

use quaver_clock::live::{LiveClock, LiveOptions, LiveReader};
use quaver_clock::{Counter, CounterSupport, CycleCounter, check_cross_core, nominal_scale, realtime_ns};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| {
        let given = arguments.next();
        given.map_or(default, |text| text.parse().expect("SECONDS and INTERVAL_MS are whole numbers"))
    };
    let (seconds, interval_ms) = (number(60), number(100));
    let support = CounterSupport::detect(Path::new("/"));
    let counter = support.counter;
    let cpus: Vec<u16> = (0..std::thread::available_parallelism().map_or(1, usize::from) as u16).collect();
    let cross_core = check_cross_core(counter, &cpus, Duration::from_millis(20)).ok();
    let cross_limit_ns = cross_core.as_ref().map(|cross| cross.limit_ns());
    let interval = Duration::from_millis(interval_ms);
    let clock = LiveClock::start(LiveOptions { interval, cross_core, ..LiveOptions::new(counter) })
        .expect("the clock starts");
    let mut measured = measure(&clock.reader(), counter, Duration::from_secs(seconds));
    let state = clock.state();
    let clock_facts = json!({
        "counter": counter.name(),
        "clocksource": support.clocksource,
        "counter_hz": state.counter_hz,
        "rate_error_ppb": state.rate_error * 1e9,
        "half_bracket_ns": state.half_bracket_ns,
        "cross_core_ns": state.cross_core_ns,
        "cross_core_limit_ns": cross_limit_ns,
        "anchors": clock.anchors(),
        "epoch": state.epoch,
        "marks": clock.marks().iter().map(|mark| format!("{:?}", mark.kind)).collect::<Vec<_>>(),
        "tai_offset_s": state.kernel.tai.offset_s(),
        "synchronised": state.kernel.synchronised,
    });
    measured["clock"] = clock_facts;
    measured["cost"] = cost(&clock.reader(), counter);
    println!("{}", serde_json::to_string_pretty(&measured).expect("JSON of plain values"));
}

fn measure(reader: &LiveReader, counter: Counter, length: Duration) -> Value {
    let (mut bounds, mut errors, mut widths) = (Vec::new(), Vec::new(), Vec::new());
    let (mut within, mut fallback) = (0_u64, 0_u64);
    let begin = Instant::now();
    while begin.elapsed() < length {
        let before = realtime_ns();
        let cycles = counter.read();
        let after = realtime_ns();
        let instant = reader.convert(cycles);
        let bound_ns = i64::from(instant.bound_ns);
        let meets = instant.realtime_ns + bound_ns >= before && instant.realtime_ns - bound_ns <= after;
        within += u64::from(meets);
        fallback += u64::from(instant.fallback);
        bounds.push(bound_ns);
        errors.push((instant.realtime_ns - (before + (after - before) / 2)).abs());
        widths.push(after - before);
        std::thread::sleep(Duration::from_micros(100));
    }
    json!({
        "seconds": length.as_secs(),
        "samples": bounds.len(),
        "within": within,
        "share_within": within as f64 / bounds.len().max(1) as f64,
        "fallback": fallback,
        "bound_ns": quantiles(bounds),
        "error_from_middle_ns": quantiles(errors),
        "bracket_ns": quantiles(widths),
    })
}

fn quantiles(mut values: Vec<i64>) -> Value {
    values.sort_unstable();
    let at = |share: f64| values.get(((values.len().saturating_sub(1)) as f64 * share) as usize);
    json!({ "min": at(0.0), "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999), "max": at(1.0) })
}

/// Nanoseconds of a raw reading, a reading and its conversion, and a call of the kernel's clock; medians of blocks.
fn cost(reader: &LiveReader, counter: Counter) -> Value {
    let scale = nominal_scale(counter);
    let block = |call: &dyn Fn()| {
        let mut costs: Vec<f64> = (0..101)
            .map(|_| {
                let begin = counter.read();
                (0..1_000).for_each(|_| call());
                scale.ns(counter.read() - begin) as f64 / 1_000.0
            })
            .collect();
        costs.sort_unstable_by(f64::total_cmp);
        costs[50]
    };
    json!({
        "reading_ns": block(&|| { std::hint::black_box(counter.read()); }),
        "reading_and_conversion_ns": block(&|| { std::hint::black_box(reader.convert(counter.read())); }),
        "clock_gettime_ns": block(&|| { std::hint::black_box(realtime_ns()); }),
    })
}
