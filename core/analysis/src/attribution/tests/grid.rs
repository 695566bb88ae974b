//! The grid on which something outside of this kernel stops its CPUs, and what is booked to it.

use super::scene::*;
use crate::attribution::causes::CauseTable;
use crate::attribution::engine::Draft;
use crate::attribution::outside::LoopGaps;
use crate::attribution::{NO_TRACING, PacketPosition, Part};
use crate::model::{Circumstances, Names};
use quaver_abi::record::{EventKind, EventRecord, GapPlace, Vector};

const MS: i64 = 1_000_000;
/// The receiver's CPU, and the source's.
const RECEIVER_CPU: u16 = 1;
const SOURCE_CPU: u16 = 0;
const LENGTH_NS: i64 = 30_000;

fn long_turn(cpu: u16, from: i64, length_ns: i64, place: GapPlace) -> EventRecord {
    EventRecord { detail: place as u8, ..event(EventKind::LoopGap, cpu, from, from, 0, length_ns as u64) }
}

fn guest() -> Circumstances {
    Circumstances { virtual_machine: true, traced_cpus: vec![0, 1], ..Circumstances::default() }
}

fn gaps_of(events: &[EventRecord]) -> LoopGaps {
    LoopGaps::new(events, &guest(), 0..=i64::MAX)
}

/// When the tick number `number` of a host comes whose clock gains 7 ppm, with up to 1 us of its own.
fn host_tick(number: i64) -> i64 {
    3 * MS + number * 10 * MS + number * 70 + number * number % 11 * 100
}

/// Ten seconds of a host's tick: one turn in eight is in the loop's own code, the others in a call.
fn ticked() -> Vec<EventRecord> {
    let place = |number: i64| if number % 8 == 0 { GapPlace::UserCode } else { GapPlace::EmptyPoll };
    (0..1_000).map(|n| long_turn(RECEIVER_CPU, host_tick(n), LENGTH_NS, place(n))).collect()
}

/// A late stretch of which nothing is known.
fn unexplained(place: PacketPosition, cpu: u16, from: i64, to: i64) -> Draft {
    Draft {
        start_ns: from,
        end_ns: to,
        cause: None,
        part: Part::Unexplained,
        place,
        cpu,
        event: u32::MAX,
        edges: false,
        shift_ns: 0,
        taken: false,
        inferred: false,
        lent: None,
    }
}

/// What is booked to a late stretch in which nothing is recorded: cause and time; and the time in long calls.
fn booked(
    gaps: &mut LoopGaps,
    place: PacketPosition,
    cpu: u16,
    from: i64,
    to: i64,
) -> (Vec<(String, i64)>, i64) {
    let names = Names::default();
    let mut causes = CauseTable::default();
    let mut drafts = vec![unexplained(place, cpu, from, to)];
    let mut found = Vec::new();
    gaps.carve(&mut drafts, |key| {
        found.push(key);
        causes.intern(key, &names)
    });
    let total: i64 = drafts.iter().map(|draft| draft.end_ns - draft.start_ns).sum();
    assert_eq!(total, to - from, "no time is lost or made");
    let time = |cause: u32| -> i64 {
        let of = drafts.iter().filter(|draft| draft.cause == Some(cause));
        of.map(|draft| draft.end_ns - draft.start_ns).sum()
    };
    let mut booked = Vec::new();
    for key in found {
        let cause = causes.intern(key, &names);
        booked.push((key.name(&names), time(cause)));
    }
    (booked, gaps.in_calls_ns(&drafts))
}

const EVERY: &str = "host worked for or beside this CPU, every 10 ms";

#[test]
fn a_call_that_became_long_on_the_grid_was_stopped_from_outside() {
    let mut gaps = gaps_of(&ticked());
    assert_eq!(gaps.period_ns(), Some(10 * MS));
    for number in [9, 500, 999] {
        let at = host_tick(number);
        let found = booked(&mut gaps, PacketPosition::Receiver, RECEIVER_CPU, at - 5_000, at + 20_000);
        assert_eq!(found, (vec![(EVERY.to_owned(), 20_000)], 0));
    }
}

#[test]
fn a_call_that_became_long_off_the_grid_stays_unexplained() {
    let mut events = ticked();
    for place in [GapPlace::Call, GapPlace::EmptyPoll, GapPlace::Send] {
        events.retain(|event| event.start_ns < 9_000 * MS as u64);
        let cpu = if place == GapPlace::Send { SOURCE_CPU } else { RECEIVER_CPU };
        let position = if place == GapPlace::Send { PacketPosition::Stack } else { PacketPosition::Receiver };
        for off_ns in [10_000, 250_000, 4 * MS, 9 * MS] {
            let at = host_tick(950) + off_ns;
            events.push(long_turn(cpu, at, LENGTH_NS, place));
            let mut gaps = gaps_of(&events);
            let found = booked(&mut gaps, position, cpu, at, at + LENGTH_NS);
            assert_eq!(found, (vec![], LENGTH_NS), "{place:?} {off_ns}");
            events.pop();
        }
    }
}

#[test]
fn a_send_call_on_the_grid_of_the_receivers_cpu_was_stopped_too() {
    let mut events = ticked();
    let at = host_tick(400) + 100;
    events.push(long_turn(SOURCE_CPU, at, LENGTH_NS, GapPlace::Send));
    let mut gaps = gaps_of(&events);
    let found = booked(&mut gaps, PacketPosition::Stack, SOURCE_CPU, at, at + LENGTH_NS);
    assert_eq!(found, (vec![(EVERY.to_owned(), LENGTH_NS)], 0));
    // The source's call says nothing of a packet that is past it.
    let found = booked(&mut gaps, PacketPosition::Receiver, SOURCE_CPU, at, at + LENGTH_NS);
    assert_eq!(found, (vec![], 0));
}

/// Softirqs of 1.4 us on the source's CPU, one in a millisecond; those that the host's tick meets take 20 us more.
fn softirqs(met: impl Fn(i64) -> bool) -> Vec<EventRecord> {
    let usual = (0..10_000).map(|n| n * MS + 500_000).map(|at| (at, at + 1_400));
    let stopped = (0..1_000).filter(|&n| met(n)).map(|n| (host_tick(n) - 300, host_tick(n) + 21_100));
    let run = |(from, to)| event(EventKind::Softirq, SOURCE_CPU, from, to, 3, 1);
    usual.chain(stopped).map(run).collect()
}

/// What is booked of the time of the event with this number, and what its own cause keeps.
fn booked_of_event(events: &[EventRecord], number: usize) -> (Vec<(String, i64)>, i64) {
    let names = Names::default();
    let (from, to) = (events[number].start_ns as i64, events[number].end_ns as i64);
    let draft = Draft { event: number as u32, ..unexplained(PacketPosition::Stack, SOURCE_CPU, from, to) };
    let mut drafts = vec![Draft { part: Part::Body, cause: Some(0), ..draft }];
    let mut causes = CauseTable::default();
    let mut found = Vec::new();
    gaps_of(events).carve(&mut drafts, |key| {
        found.push(key.name(&names));
        1 + causes.intern(key, &names)
    });
    assert!(drafts.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns), "{drafts:?}");
    assert_eq!((drafts[0].start_ns, drafts[drafts.len() - 1].end_ns), (from, to));
    let time = |of_stop: bool| -> i64 {
        let of = drafts.iter().filter(|draft| (draft.cause != Some(0)) == of_stop);
        of.map(|draft| draft.end_ns - draft.start_ns).sum()
    };
    (found.into_iter().map(|name| (name, time(true))).collect(), time(false))
}

#[test]
fn a_softirq_that_the_grid_met_was_stopped_there() {
    let mut events = ticked();
    events.extend(softirqs(|n| n % 3 == 0));
    let number = events.len() - 100;
    assert_eq!(booked_of_event(&events, number), (vec![(EVERY.to_owned(), 20_000)], 1_400));
    // One that was long at another time had more work.
    events.push(event(EventKind::Softirq, SOURCE_CPU, 5_555 * MS, 5_555 * MS + 21_400, 3, 1));
    assert_eq!(booked_of_event(&events, events.len() - 1), (vec![], 21_400));
    // So had all, where those that the grid met are as few as chance makes them.
    let long = |n: i64| event(EventKind::Softirq, SOURCE_CPU, n * 331_777, n * 331_777 + 21_400, 3, 1);
    let mut uneven = ticked();
    uneven.extend(softirqs(|n| n < 8));
    let number = uneven.len() - 1;
    uneven.extend((0..9_000).map(long));
    assert_eq!(booked_of_event(&uneven, number), (vec![], 21_400));
}

#[test]
fn a_period_of_calls_alone_may_be_the_kernels_own() {
    let mut events = ticked();
    events.iter_mut().for_each(|event| event.detail = GapPlace::EmptyPoll as u8);
    let mut gaps = gaps_of(&events);
    assert_eq!(gaps.period_ns(), None);
    let at = host_tick(500);
    let found = booked(&mut gaps, PacketPosition::Receiver, RECEIVER_CPU, at, at + LENGTH_NS);
    assert_eq!(found, (vec![], LENGTH_NS));
    // Also where the loop's own code is stopped at other times.
    let elsewhere = |n: i64| long_turn(RECEIVER_CPU, n * 10_618_034, LENGTH_NS, GapPlace::UserCode);
    events.extend((0..900).map(elsewhere));
    assert_eq!(gaps_of(&events).period_ns(), None);
}

#[test]
fn a_grid_is_found_among_turns_that_chance_made_long() {
    // Thirty others for each tick, as on a machine whose calls are uneven.
    let mut events = ticked();
    let uneven = |n: i64| long_turn(RECEIVER_CPU, n * 331_777 + n * n % 977 * 100, 3_000, GapPlace::Call);
    events.extend((0..30_000).map(uneven));
    let mut gaps = gaps_of(&events);
    assert_eq!(gaps.period_ns(), Some(10 * MS));
    let on_grid = (0..1_000).filter(|&number| {
        let at = host_tick(number);
        let (causes, _) =
            booked(&mut gaps, PacketPosition::Receiver, RECEIVER_CPU, at + 4_000, at + LENGTH_NS);
        causes.iter().any(|(name, _)| name == EVERY)
    });
    assert!(on_grid.count() > 950);
    let uneven_on_grid = (0..30_000).filter(|&number| {
        let turn = uneven(number);
        let at = turn.start_ns as i64;
        // Turns that do not touch a tick's.
        let phase = (at - 3 * MS - at / (10 * MS) * 70).rem_euclid(10 * MS);
        let (causes, _) = booked(&mut gaps, PacketPosition::Receiver, RECEIVER_CPU, at, at + 3_000);
        (100_000..9_900_000).contains(&phase) && !causes.is_empty()
    });
    assert_eq!(uneven_on_grid.count(), 0);
}

#[test]
fn a_grid_of_gaps_is_named_and_chance_is_not() {
    let turns = |begin: fn(i64) -> i64| -> Vec<EventRecord> {
        let turn = |number| long_turn(RECEIVER_CPU, begin(number), 3_000, GapPlace::UserCode);
        (1..100).map(turn).collect()
    };
    let within = |events: &[EventRecord], until_ns: i64| {
        LoopGaps::new(events, &Circumstances::default(), 0..=until_ns).period_ns()
    };
    let period = |events: &[EventRecord]| within(events, i64::MAX);
    let grid = turns(|number| number * 10_000_000 + number % 7 * 1_000);
    assert_eq!(period(&grid), Some(10_000_000));
    assert_eq!(within(&grid, 40_000_000), None, "four of them are chance");
    assert_eq!(period(&turns(|number| 77_000_000 + number * 5_000)), None, "a burst is one event");
    assert_eq!(period(&turns(|number| number * 7_000_000 + number % 7 * 1_000)), Some(1_000_000));
    assert_eq!(period(&turns(|number| number * 1_618_034)), None);
    // The kernel's own tick has a period as well.
    let mut ticks = turns(|number| number * 4_000_000);
    let tick = |number: i64| {
        vector(Vector::LocalTimer, RECEIVER_CPU, number * 4_000_000 + 100, number * 4_000_000 + 900)
    };
    ticks.extend((1..100).map(tick));
    assert_eq!(period(&ticks), None);
}

#[test]
fn a_run_that_recorded_nothing_blames_nothing_outside() {
    let late = |blind: &[&str]| {
        let circumstances =
            Circumstances { blind: blind.iter().map(|&phrase| phrase.to_owned()).collect(), ..guest() };
        let mut gaps = LoopGaps::new(&ticked(), &circumstances, 0..=i64::MAX);
        let at = host_tick(8);
        booked(&mut gaps, PacketPosition::Receiver, RECEIVER_CPU, at, at + LENGTH_NS).0.len()
    };
    assert_eq!(late(&[]), 1);
    assert_eq!(late(&["machine-check threshold interrupts (the kernel has no tracepoint)"]), 1);
    assert_eq!(late(&[&format!("{NO_TRACING}: no tracing tier could run")]), 0);
    assert_eq!(late(&["other threads (sched_switch)"]), 0);
}
