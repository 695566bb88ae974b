//! The live clock against a machine whose truth is known, conversion by conversion.

mod world;

use super::*;
use crate::PairOffset;
use world::{Event, World};

const MS: i64 = 1_000_000;
const INTERVAL: i64 = 100 * MS;
/// True time at which the clock starts.
const BEGIN: i64 = 5_000 * MS;
/// True time at which things happen: anchors are due at full tenths of a second after the start of about 150 ms.
const THEN: i64 = BEGIN + 4_000 * MS;

/// A conversion that was made, and when.
#[derive(Clone, Copy, Debug)]
struct Made {
    /// True time of the reading, and of the conversion.
    taken_ns: i64,
    made_ns: i64,
    cycles: u64,
    instant: LiveInstant,
}

impl Made {
    fn error_ns(&self, world: &World) -> u64 {
        let monotonic = self.instant.monotonic_ns.abs_diff(world.monotonic_at(self.taken_ns));
        monotonic.max(self.instant.realtime_ns.abs_diff(world.realtime_at(self.taken_ns)))
    }

    fn holds(&self, world: &World) -> bool {
        self.instant.bound_ns == u32::MAX || self.error_ns(world) <= self.instant.bound_ns.into()
    }
}

/// What came of a run.
struct Outcome {
    world: World,
    marks: Vec<(i64, Mark)>,
    made: Vec<Made>,
}

impl Outcome {
    /// Marks of kinds that open an epoch.
    fn breaks(&self) -> Vec<(i64, MarkKind)> {
        let notice = |kind: &MarkKind| {
            matches!(
                kind,
                MarkKind::LeapPending { .. }
                    | MarkKind::TaiSet { .. }
                    | MarkKind::CoresDisagree { .. }
                    | MarkKind::Uncorrected { .. }
            )
        };
        let breaks = self.marks.iter().map(|(at, mark)| (*at, mark.kind));
        breaks.filter(|(_, kind)| !notice(kind)).collect()
    }

    /// Largest bound of what was converted right away in a stretch of true time.
    fn worst_bound_ns(&self, from: i64, until: i64) -> u32 {
        let live = self.made.iter().filter(|m| m.taken_ns == m.made_ns);
        live.filter(|m| (from..until).contains(&m.taken_ns)).map(|m| m.instant.bound_ns).max().unwrap()
    }
}

/// Runs the clock for `seconds`, with readings each millisecond or so, each converted at once and once more up to two
/// seconds later. `heard`: whether the kernel tells when CLOCK_REALTIME is set.
fn run(world: World, seconds: i64, cross_core: Option<CrossCore>, heard: bool) -> Outcome {
    let options = LiveOptions { cross_core, ..LiveOptions::new(Counter::Hardware) };
    let (mut ticker, reader) = LiveTicker::new(world.clone(), options);
    let (mut due, mut marks, mut made) =
        (world.now() + ticker.wait().as_nanos() as i64, Vec::new(), Vec::<Made>::new());
    let mut told = heard;
    while world.now() < BEGIN + seconds * 1_000 * MS {
        world.wait_until(world.now() + world.random(2 * MS));
        if told && world.now() >= THEN {
            ticker.clock_was_set();
            told = false;
        }
        if world.now() >= due {
            ticker.anchor();
            due = world.now() + ticker.wait().as_nanos() as i64;
        }
        let known = marks.len();
        marks.extend(reader.marks().into_iter().skip(known).map(|mark| (world.now(), mark)));
        let taken_ns = world.now();
        let cycles = world.cycles_at(taken_ns);
        made.push(Made { taken_ns, made_ns: taken_ns, cycles, instant: reader.convert(cycles) });
        let old = made[made.len() - 1 - world.random(made.len().min(2_000) as i64) as usize];
        made.push(Made { made_ns: world.now(), instant: reader.convert(old.cycles), ..old });
    }
    Outcome { world, marks, made }
}

/// Whatever happens: what does not hold was converted before the break was seen, and lies in the stretch that was marked
/// then; and within an epoch time does not go back.
fn check(outcome: &Outcome) {
    let mut worst = None;
    for made in &outcome.made {
        if made.holds(&outcome.world) {
            continue;
        }
        let marked = outcome.marks.iter().any(|(at, mark)| {
            made.made_ns <= *at && made.instant.epoch < mark.epoch && made.taken_ns > *at - INTERVAL - 2 * MS
        });
        assert!(marked, "{made:?} off by {} with {:?}", made.error_ns(&outcome.world), outcome.marks);
        worst = worst.max(Some(made.error_ns(&outcome.world)));
    }
    let mut sorted: Vec<&Made> = outcome.made.iter().filter(|m| !m.instant.fallback).collect();
    sorted.sort_by_key(|made| (made.instant.epoch, made.cycles));
    for pair in sorted.windows(2).filter(|pair| pair[0].instant.epoch == pair[1].instant.epoch) {
        let (a, b) = (pair[0].instant, pair[1].instant);
        assert!(a.monotonic_ns <= b.monotonic_ns && a.realtime_ns <= b.realtime_ns, "{pair:?}");
    }
    println!("marks {:?}; worst outside the bound {worst:?}", outcome.marks);
}

/// Runs with one event, checks, and that nothing is marked but within an anchor period of it.
fn after(event: Event) -> Outcome {
    let outcome = run(World::new(7, &[(THEN, event)]), 8, None, false);
    check(&outcome);
    outcome
}

fn first_break_within_an_interval(outcome: &Outcome) -> MarkKind {
    let (at, kind) = outcome.breaks()[0];
    assert!((THEN..THEN + INTERVAL + 3 * MS).contains(&at), "{at} {kind:?}");
    kind
}

#[test]
fn with_nothing_to_tell_there_is_one_epoch_and_a_narrow_bound() {
    for seed in 0..5 {
        let outcome = run(World::new(seed, &[]), 8, None, false);
        check(&outcome);
        assert_eq!(outcome.marks, []);
        assert!(outcome.made.iter().all(|made| made.holds(&outcome.world) && !made.instant.fallback));
        let bound_ns = outcome.worst_bound_ns(BEGIN + 2_000 * MS, i64::MAX);
        assert!(bound_ns < 120, "{bound_ns}");
    }
}

#[test]
fn steps_of_realtime_are_marked_with_their_size() {
    for step_ns in [1_000_000_000, -1_000_000_000, 1_000, -1_000] {
        let outcome = after(Event::Step(step_ns));
        let MarkKind::RealtimeStepped { step_ns: seen } = first_break_within_an_interval(&outcome) else {
            panic!("{:?}", outcome.marks);
        };
        assert!((seen - step_ns).abs() < 30, "{seen}");
        assert_eq!(outcome.breaks().len(), 1);
    }
}

#[test]
fn a_step_that_the_kernel_tells_of_is_marked_at_once() {
    let outcome = run(World::new(3, &[(THEN, Event::Step(-1_000_000_000))]), 8, None, true);
    check(&outcome);
    let (at, kind) = outcome.breaks()[0];
    assert!(matches!(kind, MarkKind::RealtimeStepped { .. }) && at < THEN + 3 * MS, "{kind:?} {}", at - THEN);
    assert_eq!(outcome.breaks().len(), 1);
}

#[test]
fn leap_second_is_announced_and_told_from_a_step() {
    let outcome = after(Event::Leap);
    let MarkKind::LeapSecond { step_ns } = first_break_within_an_interval(&outcome) else {
        panic!("{:?}", outcome.marks);
    };
    assert!((step_ns + 1_000_000_000).abs() < 30);
    assert_eq!(outcome.breaks().len(), 1);
    let pending = outcome.marks.iter().find(|(_, m)| m.kind == MarkKind::LeapPending { inserted: true });
    assert!(pending.unwrap().0 < THEN);
    let tai = MarkKind::TaiSet { tai: TaiState::Known { offset_s: 38 } };
    assert!(outcome.marks.iter().any(|(_, mark)| mark.kind == tai));
}

#[test]
fn slew_of_500_ppm_that_nobody_told_falls_back_until_the_rate_is_known() {
    for ppb in [500_000, -500_000] {
        let outcome = after(Event::Faster { ppb, told: false });
        let kind = first_break_within_an_interval(&outcome);
        assert!(matches!(kind, MarkKind::Parted { residual_ns } if residual_ns.abs() < 51_000), "{kind:?}");
        let again = outcome.breaks().iter().find(|(_, kind)| *kind == MarkKind::CounterAgain).unwrap().0;
        assert!(again < THEN + 5 * INTERVAL, "{}", again - THEN);
        assert!(outcome.made.iter().any(|made| made.instant.fallback));
        assert!(outcome.worst_bound_ns(again + 2_000 * MS, i64::MAX) < 120);
    }
}

#[test]
fn slew_that_adjtime_tells_of_is_in_the_bound() {
    let world = World::new(
        1,
        &[(THEN, Event::Slew { ppb: 500_000 }), (THEN + 2_035 * MS, Event::Slew { ppb: -500_000 })],
    );
    let outcome = run(world, 8, None, false);
    check(&outcome);
    assert_eq!(first_break_within_an_interval(&outcome), MarkKind::RateSet { change_ppb: 500_000 });
    assert!(
        outcome.breaks().iter().all(|(_, kind)| matches!(kind, MarkKind::RateSet { .. })),
        "{:?}",
        outcome.marks
    );
    assert_eq!(outcome.breaks().len(), 2);
    assert!(outcome.worst_bound_ns(BEGIN + 7_500 * MS, i64::MAX) < 120);
}

#[test]
fn change_of_frequency_by_1_ppm_is_marked_whether_told_or_not() {
    for ppb in [1_000, -1_000] {
        let outcome = after(Event::Faster { ppb, told: true });
        assert_eq!(first_break_within_an_interval(&outcome), MarkKind::RateSet { change_ppb: ppb });
        assert_eq!(outcome.breaks().len(), 1);
        // Untold, it is marked as soon as it leaves the bound: at the first anchor a whole period after it.
        let outcome = after(Event::Faster { ppb, told: false });
        let (at, kind) = outcome.breaks()[0];
        assert!(matches!(kind, MarkKind::RateChanged { .. } | MarkKind::Parted { .. }), "{kind:?}");
        assert!(at < THEN + 2 * INTERVAL + 3 * MS);
    }
}

#[test]
fn jumps_of_the_counter_fall_back_to_kernel_time() {
    // A second, a millisecond, five microseconds, an hour; each way.
    for cycles in [2_600_000_000, 2_600_000, 13_000, 9_360_000_000_000] {
        for jump in [cycles, -cycles] {
            if jump < -5 * 2_600_000_000 {
                continue;
            }
            let mut outcome = run(World::new(7, &[(THEN, Event::Jump(jump))]), 8, None, false);
            // Of a reading from before a jump back, nobody can say what it is once the counter has come there again.
            let back_ns = i64::max(0, -jump) * 5 / 13;
            let clear =
                |m: &Made| m.taken_ns >= THEN || back_ns < 100 * MS || m.made_ns - m.taken_ns < back_ns - MS;
            outcome.made.retain(clear);
            check(&outcome);
            let kind = first_break_within_an_interval(&outcome);
            assert!(matches!(kind, MarkKind::Parted { .. }), "{kind:?}");
            assert!(outcome.breaks().iter().any(|(_, kind)| *kind == MarkKind::CounterAgain));
            assert!(outcome.worst_bound_ns(BEGIN + 7_000 * MS, i64::MAX) < 120);
        }
    }
}

#[test]
fn a_counter_that_begins_anew_forgets_what_was() {
    // Back by all but two seconds: to a machine that was started two seconds ago.
    let world = World::new(2, &[(THEN, Event::Jump(-((THEN - 2_000 * MS) * 13 / 5)))]);
    let outcome = run(world, 8, None, false);
    check(&outcome);
    assert!(matches!(first_break_within_an_interval(&outcome), MarkKind::Parted { .. }));
    let late = |made: &&Made| made.taken_ns < THEN && made.made_ns > THEN + INTERVAL + 3 * MS;
    assert!(outcome.made.iter().filter(late).count() > 100);
    assert!(outcome.made.iter().filter(late).all(|made| made.instant.bound_ns == u32::MAX));
}

#[test]
fn suspend_is_marked() {
    let outcome = after(Event::Suspend(700 * MS));
    let kinds: Vec<_> = outcome.breaks().into_iter().map(|(_, kind)| kind).collect();
    assert!(kinds.iter().any(|kind| matches!(kind, MarkKind::Parted { .. })), "{kinds:?}");
    assert!(kinds.iter().any(|kind| matches!(kind, MarkKind::RealtimeStepped { .. })), "{kinds:?}");
}

#[test]
fn counters_that_are_apart_are_marked_when_seen_and_in_the_bound_when_known() {
    let moved = |at| (BEGIN + at * MS, Event::OtherCpu);
    let moves = [moved(4_000), moved(5_777), moved(6_020), moved(7_300)];
    let outcome = run(World::new(1, &moves).ahead(2_600), 8, None, false);
    check(&outcome);
    assert!(
        matches!(first_break_within_an_interval(&outcome), MarkKind::Parted { residual_ns } if residual_ns < -900)
    );
    let pair = PairOffset { from: 0, to: 1, offset_ns: 990, bound_ns: 60, backward_ns: 900, exchanges: 100 };
    let known = run(World::new(1, &moves).ahead(2_600), 8, Some(CrossCore { pairs: vec![pair] }), false);
    check(&known);
    assert_eq!(known.marks.len(), 1, "{:?}", known.marks);
    assert_eq!(known.marks[0].1.kind, MarkKind::CoresDisagree { offset_ns: 930 });
    assert!(known.made.iter().all(|made| made.holds(&known.world) && made.instant.bound_ns > 1_000));
}

#[test]
fn a_clocksource_that_distrusts_the_counter_ends_its_use() {
    let world = World::new(1, &[(THEN, Event::Trust(false)), (THEN + 1_500 * MS, Event::Trust(true))]);
    let outcome = run(world, 8, None, false);
    check(&outcome);
    assert_eq!(first_break_within_an_interval(&outcome), MarkKind::ClocksourceChanged);
    let again = outcome.breaks()[1];
    assert!(again.1 == MarkKind::CounterAgain && again.0 > THEN + 1_500 * MS, "{again:?}");
    let between = |made: &&Made| (THEN + INTERVAL + 3 * MS..THEN + 1_500 * MS).contains(&made.taken_ns);
    assert!(outcome.made.iter().filter(between).all(|made| made.instant.fallback));
}

#[test]
fn without_anchors_for_a_second_the_kernel_is_asked() {
    let world = World::new(9, &[]);
    let (mut ticker, reader) = LiveTicker::new(world.clone(), LiveOptions::new(Counter::Hardware));
    for _ in 0..20 {
        world.wait_until(world.now() + ticker.wait().as_nanos() as i64);
        ticker.anchor();
    }
    let begin = world.now();
    for (after_ms, fallback) in [(900, false), (1_100, true), (60_000, true)] {
        world.wait_until(begin + after_ms * MS);
        let (taken_ns, cycles) = (world.now(), world.cycles_at(world.now()));
        let made = Made { taken_ns, made_ns: taken_ns, cycles, instant: reader.convert(cycles) };
        assert!(made.holds(&world) && made.instant.fallback == fallback, "{made:?}");
        assert!(made.instant.bound_ns < 600);
    }
}

#[test]
fn a_clock_that_something_happens_to_all_the_time_keeps_the_latest_marks() {
    let (ticker, reader) = LiveTicker::new(World::new(4, &[]), LiveOptions::new(Counter::Hardware));
    let mark = |epoch| {
        let kind = MarkKind::RateSet { change_ppb: 300 };
        Mark { from_cycles: 0, until_cycles: 0, epoch, kind }
    };
    for epoch in 0..100_000 {
        ticker.shared.told().keep(vec![mark(epoch)]);
    }
    let kept = reader.marks();
    assert!((MOST_MARKS / 2..=MOST_MARKS).contains(&kept.len()));
    let epochs: Vec<u32> = kept.iter().map(|mark| mark.epoch).collect();
    let latest = 100_000 - kept.len() as u32..100_000;
    assert!(epochs.iter().copied().eq(latest));
}
