use super::*;
use proptest::prelude::*;
use quaver_abi::stamp::StampClock;
use quaver_clock::live::{LiveClock, LiveOptions};
use quaver_clock::{CounterSupport, CycleCounter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// 2 cycles a nanosecond from an origin; the bound tells the cycles' last digits, so that mixed-up stamps show.
#[derive(Clone, Debug)]
struct Line;

const ORIGIN_NS: i64 = 1_795_000_000_000_000_000;

impl Convert for Line {
    fn layer_stamp(&self, cycles: u64) -> LayerStamp {
        LayerStamp {
            clock: StampClock::Cycles,
            time_ns: ORIGIN_NS + (cycles / 2) as i64,
            bound_ns: (cycles % 97) as u32,
            epoch: 0,
        }
    }
}

/// As [`Line`], once it may.
#[derive(Clone, Debug)]
struct Held(Arc<AtomicBool>);

impl Convert for Held {
    fn layer_stamp(&self, cycles: u64) -> LayerStamp {
        // Only converter threads are held.
        while std::thread::current().name().is_some_and(|name| name.starts_with("quaver-conv"))
            && !self.0.load(Ordering::Acquire)
        {
            std::thread::park_timeout(Duration::from_micros(100));
        }
        Line.layer_stamp(cycles)
    }
}

/// Panics on a converter thread at this reading.
#[derive(Clone, Debug)]
struct Breaks(u64);

impl Convert for Breaks {
    fn layer_stamp(&self, cycles: u64) -> LayerStamp {
        let on_thread = std::thread::current().name().is_some_and(|name| name.starts_with("quaver-conv"));
        assert!(!on_thread || cycles != self.0, "broken on purpose");
        Line.layer_stamp(cycles)
    }
}

fn settings(kind: PipelineKind) -> PipelineSettings {
    PipelineSettings::new(kind, CounterSupport::detect(Path::new("/")).counter)
}

fn kinds() -> Vec<PipelineKind> {
    let mut kinds = PipelineKind::ALL.to_vec();
    kinds.push(PipelineKind::Threaded { converters: 3 });
    kinds
}

/// Sends `readings` through a pipeline in blocks, as a capture would.
fn through(kind: PipelineKind, ring_slots: usize, readings: &[u64]) -> (Vec<LayerStamp>, Resolved, u64) {
    let settings = PipelineSettings { ring_slots, ..settings(kind) };
    let (mut stamper, mut resolver) = start(&settings, Line).unwrap();
    let (mut all, mut some) = (Vec::new(), Vec::new());
    for block in readings.chunks(64) {
        let raws: Vec<RawStamp> = block.iter().map(|cycles| stamper.stamp_of(*cycles)).collect();
        resolver.resolve_all(&raws, &mut some);
        all.append(&mut some);
    }
    (all, resolver.counts(), stamper.ring_full())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Same readings, same instants and bounds, same order, whoever converts and however small the rings are;
    /// and every stamp is accounted for.
    #[test]
    fn all_kinds_agree(
        readings in prop::collection::vec(0u64..1 << 62, 1..600),
        ring_slots in 1usize..100,
    ) {
        let expected: Vec<LayerStamp> = readings.iter().map(|cycles| Line.layer_stamp(*cycles)).collect();
        for kind in kinds() {
            let (stamps, counts, ring_full) = through(kind, ring_slots, &readings);
            prop_assert_eq!(&stamps, &expected, "{}", kind);
            let count = readings.len() as u64;
            let wanted = match kind {
                PipelineKind::InlineClock | PipelineKind::InlineCycles => (count, 0, 0),
                PipelineKind::Batch => (0, 0, count),
                PipelineKind::Threaded { .. } => (0, count - ring_full, ring_full),
            };
            prop_assert_eq!((counts.inline, counts.by_threads, counts.here), wanted, "{}", kind);
            prop_assert_eq!(counts.unclaimed, 0);
        }
    }
}

#[test]
fn a_full_ring_is_counted_and_loses_nothing() {
    let go = Arc::new(AtomicBool::new(false));
    let settings = PipelineSettings { ring_slots: 4, ..settings(PipelineKind::Threaded { converters: 1 }) };
    let (mut stamper, mut resolver) = start(&settings, Held(Arc::clone(&go))).unwrap();
    let raws: Vec<RawStamp> = (0..100).map(|cycles| stamper.stamp_of(cycles)).collect();
    // The thread holds one at the most beside what the ring holds.
    let handed_over = 100 - stamper.ring_full();
    assert!((4..=5).contains(&handed_over), "{handed_over}");
    go.store(true, Ordering::Release);
    let mut stamps = Vec::new();
    resolver.resolve_all(&raws, &mut stamps);
    assert_eq!(stamps, (0..100).map(|cycles| Line.layer_stamp(cycles)).collect::<Vec<_>>());
    let counts = resolver.counts();
    assert_eq!((counts.by_threads, counts.here), (handed_over, 100 - handed_over));
}

#[test]
fn stamps_that_nobody_asks_for_and_stamps_asked_for_twice_harm_no_others() {
    for kind in [PipelineKind::Threaded { converters: 1 }, PipelineKind::Threaded { converters: 3 }] {
        let (mut stamper, mut resolver) = start(&settings(kind), Line).unwrap();
        let raws: Vec<RawStamp> = (0..300).map(|cycles| stamper.stamp_of(cycles)).collect();
        for (at, raw) in raws.iter().enumerate().filter(|(at, _)| at % 7 == 0) {
            assert_eq!(resolver.resolve(*raw), Line.layer_stamp(at as u64));
        }
        assert_eq!(resolver.resolve(raws[3]), Line.layer_stamp(3), "passed over before");
        assert_eq!(resolver.resolve(raws[7]), Line.layer_stamp(7), "resolved before");
        assert_eq!((resolver.counts().by_threads, resolver.counts().here), (43, 2));
    }
}

#[test]
fn a_converter_that_breaks_owes_nothing() {
    let settings = settings(PipelineKind::Threaded { converters: 1 });
    let (mut stamper, mut resolver) = start(&settings, Breaks(20)).unwrap();
    let raws: Vec<RawStamp> = (0..50).map(|cycles| stamper.stamp_of(cycles)).collect();
    let mut stamps = Vec::new();
    resolver.resolve_all(&raws, &mut stamps);
    assert_eq!(stamps, (0..50).map(|cycles| Line.layer_stamp(cycles)).collect::<Vec<_>>());
    assert_eq!((resolver.counts().by_threads, resolver.counts().here), (20, 30));
}

/// Threads of this process that convert for `marker`, a clone of which each of them holds.
fn held_by_threads(marker: &Arc<AtomicBool>, ours: usize) -> usize {
    Arc::strong_count(marker) - ours
}

#[test]
fn converters_end_with_the_resolver_whatever_is_left_undone() {
    for undone in [0, 1_000] {
        let go = Arc::new(AtomicBool::new(true));
        let settings =
            PipelineSettings { ring_slots: 16, ..settings(PipelineKind::Threaded { converters: 2 }) };
        let (mut stamper, resolver) = start(&settings, Held(Arc::clone(&go))).unwrap();
        assert_eq!(held_by_threads(&go, 2), 2, "test and resolver hold one each");
        for cycles in 0..undone {
            stamper.stamp_of(cycles);
        }
        // Dropping waits for the threads.
        drop(resolver);
        assert_eq!(held_by_threads(&go, 1), 0);
        for cycles in 0..100 {
            assert_eq!(stamper.stamp_of(cycles).cycles(), Some(cycles), "stamping goes on");
        }
    }
}

#[test]
fn what_the_stamper_left_is_converted_after_it_has_gone() {
    let (mut stamper, mut resolver) =
        start(&settings(PipelineKind::Threaded { converters: 2 }), Line).unwrap();
    let raws: Vec<RawStamp> = (0..1_000).map(|cycles| stamper.stamp_of(cycles)).collect();
    drop(stamper);
    for (at, raw) in raws.iter().enumerate() {
        assert_eq!(resolver.resolve(*raw), Line.layer_stamp(at as u64));
    }
    assert_eq!(resolver.counts().by_threads, 1_000);
    let stray = RawStamp { detail: 5_000, ..raws[0] };
    assert_eq!(resolver.resolve(stray), Line.layer_stamp(0), "its thread has ended");
}

#[test]
fn a_converter_that_is_refused_its_cpu_is_an_error() {
    use quaver_probe::thread::Setting;
    let thread =
        ThreadSettings { cpu: Some(u16::MAX), required: vec![Setting::Cpu], ..ThreadSettings::default() };
    let settings =
        PipelineSettings { converters: vec![thread], ..settings(PipelineKind::Threaded { converters: 1 }) };
    let error = start(&settings, Line).unwrap_err();
    assert!(error.to_string().contains("pin thread to CPU 65535"), "{error}");
    let none = PipelineSettings { kind: PipelineKind::Threaded { converters: 0 }, ..settings };
    assert!(start(&none, Line).unwrap_err().to_string().contains("give 1 to 16"));
}

/// The kernel's clock lies between what the live clock makes of raw stamps taken around it, whoever converts them.
#[test]
fn the_kernels_clock_lies_between_raw_stamps_taken_around_it() {
    let counter = CounterSupport::detect(Path::new("/")).counter;
    let live = LiveClock::start(LiveOptions::new(counter)).unwrap();
    let (mut clock, mut asked) = start(&settings(PipelineKind::InlineClock), live.reader()).unwrap();
    for kind in kinds().into_iter().filter(|kind| *kind != PipelineKind::InlineClock) {
        let (mut stamper, mut resolver) = start(&settings(kind), live.reader()).unwrap();
        let raws: Vec<[RawStamp; 3]> = (0..1_000)
            .map(|_| {
                let before = stamper.stamp_of(counter.read());
                let kernel = clock.stamp();
                [before, kernel, stamper.stamp_of(counter.read())]
            })
            .collect();
        let held = raws.iter().filter(|[before, kernel, after]| {
            let (before, kernel, after) =
                (resolver.resolve(*before), asked.resolve(*kernel), resolver.resolve(*after));
            assert_eq!(kernel.clock, StampClock::Realtime);
            before.time_ns - i64::from(before.bound_ns) <= kernel.time_ns
                && kernel.time_ns <= after.time_ns + i64::from(after.bound_ns)
        });
        let held = held.count();
        assert!(held >= 999 || !live.marks().is_empty(), "{kind}: {held} of 1000");
    }
}

#[test]
fn names_are_read_back() {
    for kind in kinds() {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    for wrong in ["", "thread", "threaded:0", "threaded:17", "threaded:x"] {
        assert!(wrong.parse::<PipelineKind>().is_err(), "{wrong}");
    }
    assert_eq!(PipelineKind::default(), PipelineKind::Batch);
}
