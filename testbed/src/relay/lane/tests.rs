use super::*;
use crate::relay::packet::Field;
use crate::relay::script::{Corrupt, Delay, Duplicate, Queue, Rule, Select, Span};
use crate::relay::truth::{Reader, Truth, departures};

const UTC: i64 = 1_700_000_000_000_000_000;
const PERIOD_NS: u64 = 1_000;

fn octets(sequence: i32) -> Vec<u8> {
    let mut octets = UTC.to_be_bytes().to_vec();
    octets.extend(sequence.to_be_bytes());
    octets.extend([0x55; 20]);
    octets
}

fn script(up: impl Into<Vec<Rule>>) -> Script {
    Script { up: up.into(), ..Script::default() }
}

/// A lane run on a clock of its own: all that is due leaves before the next packet arrives.
struct Run {
    lane: Lane,
    now_ns: u64,
    left: Vec<i64>,
}

impl Run {
    fn new(script: &Script) -> Self {
        Self { lane: Lane::new(script, 0, Direction::Up), now_ns: 0, left: Vec::new() }
    }

    fn until(&mut self, end_ns: u64) {
        while let Some(next_ns) = self.lane.next_ns().filter(|next| *next <= end_ns) {
            self.now_ns = self.now_ns.max(next_ns);
            while let Some(leaving) = self.lane.leave(self.now_ns) {
                self.left.push(packet::sequence(Protocol::Jitlat, &leaving.octets).unwrap());
            }
        }
        self.now_ns = end_ns;
    }

    fn send(&mut self, sequences: impl IntoIterator<Item = i32>) {
        for sequence in sequences {
            self.lane.arrive(&octets(sequence), self.now_ns, UTC);
            self.until(self.now_ns + PERIOD_NS);
        }
    }

    fn end(mut self) -> (Vec<i64>, Vec<Record>) {
        self.until(self.now_ns + 10_000_000_000);
        (self.left, std::iter::from_fn(|| self.lane.take_record(false)).collect())
    }
}

fn run(script: &Script, count: i32) -> (Vec<i64>, Vec<Record>) {
    let mut run = Run::new(script);
    run.send(0..count);
    run.send([-1]);
    run.end()
}

fn order(rules: impl Into<Vec<Rule>>, count: i32) -> Vec<i64> {
    let mut left = run(&script(rules), count).0;
    assert_eq!(left.pop(), Some(-1), "the sentinel leaves last");
    left
}

#[test]
fn without_rules_all_passes_in_order() {
    assert_eq!(order([], 5), vec![0, 1, 2, 3, 4]);
}

#[test]
fn a_held_packet_leaves_right_after_as_many_later_ones() {
    assert_eq!(order([Rule::packets([1]).held(2)], 5), vec![0, 2, 3, 1, 4]);
    assert_eq!(order([Rule::packets([0, 1]).held(1)], 4), vec![2, 0, 1, 3]);
    // Of two that swap places, the second counts as later when it leaves, and not before.
    assert_eq!(order([Rule::packets([0]).held(1), Rule::packets([1]).held(1)], 4), vec![2, 0, 1, 3]);
}

#[test]
fn dropped_packets_pass_nobody() {
    let rules = [Rule::packets([2]).dropped(), Rule::packets([1]).held(1)];
    assert_eq!(order(rules, 5), vec![0, 3, 1, 4]);
}

#[test]
fn copies_follow_at_once_or_after_later_packets() {
    assert_eq!(order([Rule::packets([1]).copied(2)], 3), vec![0, 1, 1, 1, 2]);
    let later = Duplicate { copies: 1, spacing: Span::default(), later: 2 };
    let rule = Rule { duplicate: Some(later), ..Rule::packets([1]) };
    assert_eq!(order([rule], 5), vec![0, 1, 2, 3, 1, 4]);
    let spaced = Duplicate { copies: 2, spacing: Span::from_ns(PERIOD_NS + 1), later: 0 };
    let rule = Rule { duplicate: Some(spaced), ..Rule::packets([0]) };
    assert_eq!(order([rule], 4), vec![0, 1, 0, 2, 0, 3]);
}

#[test]
fn copies_of_a_held_packet_stay_with_it() {
    assert_eq!(
        order([Rule::packets([0]).held(1).copied(1), Rule::packets([1]).copied(1)], 3),
        vec![1, 1, 0, 0, 2]
    );
}

#[test]
fn a_delay_makes_packets_overtake_unless_order_is_kept() {
    let slow = Rule::packets([1]).delayed(Delay::Constant(Span::from_ns(2 * PERIOD_NS + 1)));
    assert_eq!(order([slow.clone()], 5), vec![0, 2, 3, 1, 4]);
    let all = Rule { keep_order: true, ..Rule::on(Select::All).delayed(Delay::Constant(Span::default())) };
    assert_eq!(order([slow, all], 5), vec![0, 1, 2, 3, 4].into_iter().collect::<Vec<i64>>());
}

#[test]
fn departures_are_timed_to_the_nanosecond() {
    let delay = Rule::on(Select::All).delayed(Delay::Constant(Span::from_ns(300)));
    let (_, records) = run(&script([delay]), 3);
    let stays: Vec<u64> = records.iter().map(|record| record.left[0].at_ns - record.arrived_ns).collect();
    assert_eq!(stays, vec![300, 300, 300, 0]);
}

#[test]
fn a_sentinel_that_comes_before_copies_are_made_leaves_after_them() {
    for (spacing_ns, later) in [(0, 6), (50_000, 0), (50_000, 6)] {
        let copies = Duplicate { copies: 2, spacing: Span::from_ns(spacing_ns), later };
        let script = script([Rule { duplicate: Some(copies), ..Rule::on(Select::All) }]);
        let mut run = Run::new(&script);
        // A relay that was not let run has all of them before it at once.
        for sequence in [0, 1, 2, -1, -1] {
            run.lane.arrive(&octets(sequence), 0, UTC);
        }
        run.until(PERIOD_NS);
        let (mut left, _) = run.end();
        assert_eq!(left.split_off(9), [-1, -1], "{spacing_ns} {later}: {left:?}");
        left.sort_unstable();
        assert_eq!(left, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
    }
}

#[test]
fn what_is_held_at_the_end_leaves_at_the_time_out_or_with_the_sentinel() {
    let script = Script { release_after: Span::from_ns(5_000), ..script([Rule::packets([2, 3]).held(9)]) };
    let mut silent = Run::new(&script);
    silent.send(0..4);
    let (left, records) = silent.end();
    assert_eq!(left, vec![0, 1, 2, 3]);
    assert_eq!(records[3].left[0].released, Release::TimeOut);
    assert_eq!(records[3].left[0].at_ns - records[3].arrived_ns, 5_000);
    let (left, records) = run(&script, 4);
    assert_eq!(left, vec![0, 1, 2, 3, -1]);
    assert_eq!(records[3].left[0].released, Release::Sentinel);
}

#[test]
fn a_sentinel_waits_for_delayed_packets_unless_it_is_not_to() {
    let slow = script([Rule::packets([1]).delayed(Delay::Constant(Span::from_ns(50_000)))]);
    assert_eq!(run(&slow, 3).0, vec![0, 2, 1, -1]);
    let untouched = Script { sentinels: Sentinels::Untouched, ..slow.clone() };
    assert_eq!(run(&untouched, 3).0, vec![0, 2, -1, 1]);
    let drop = Rule::packets([3]).dropped();
    let impaired = Script { sentinels: Sentinels::Impaired, up: vec![drop], ..slow };
    assert_eq!(run(&impaired, 3).0, vec![0, 1, 2]);
}

#[test]
fn cookies_pass_uncounted() {
    let mut run = Run::new(&script([Rule::packets([0]).dropped()]));
    run.lane.arrive(b"a cookie of some bytes", 0, UTC);
    assert!(run.lane.leave(0).is_some());
    run.send(7..9);
    let (left, records) = run.end();
    assert_eq!(left, vec![8]);
    let numbers: Vec<Option<u64>> = records.iter().map(|record| record.number).collect();
    assert_eq!(numbers, vec![None, Some(0), Some(1)]);
    assert_eq!((records[0].class, records[0].sequence), (Class::Other, None));
    assert_eq!((records[1].dropped_by, records[1].sequence), (Some(0), Some(7)));
}

#[test]
fn corruption_is_logged_with_both_numbers() {
    let rule = Rule::packets([1]).corrupted(Field::Sequence, 1);
    let (left, records) = run(&script([rule]), 3);
    let bit = records[1].flipped[0];
    assert_eq!(records[1].sequence, Some(1));
    assert_eq!(records[1].left[0].sequence, Some(i64::from(1_i32 ^ (1 << (95 - bit)))));
    assert_eq!(left[1], records[1].left[0].sequence.unwrap());
}

#[test]
fn a_refused_packet_counts_as_lost() {
    let mut lane = Lane::new(&script([]), 0, Direction::Up);
    for sequence in 0..2 {
        lane.arrive(&octets(sequence), 0, UTC);
    }
    let first = lane.leave(0).unwrap();
    lane.failed(&first);
    assert!(lane.leave(0).is_some());
    let records: Vec<Record> = std::iter::from_fn(|| lane.take_record(true)).collect();
    let truth = Truth::of(&records, 0, Direction::Up, &Reader::of(2));
    assert_eq!(truth, Truth { sent: 2, delivered: 1, lost: 1, ..Truth::default() });
}

#[test]
fn truth_counts_by_the_definitions() {
    // RFC 4737, section 3.3, on arrivals 0 2 1 3 3 (4 lost) 6 5 5 (7 corrupted) 8: 1 and 5 come after a higher number.
    let top_bit = Corrupt { field: Field::Sequence, bits: vec![0], random: 0 };
    let rules = [
        Rule::packets([1, 5]).held(1),
        Rule::packets([3, 5]).copied(1),
        Rule::packets([4]).dropped(),
        Rule { corrupt: Some(top_bit), ..Rule::packets([7]) },
    ];
    let (_, records) = run(&script(rules), 9);
    let truth = Truth::of(&records, 0, Direction::Up, &Reader::of(9));
    let expected =
        Truth { sent: 9, delivered: 10, invalid: 1, lost: 2, duplicates: 2, reordered: 2, foreign: 0 };
    assert_eq!(truth, expected);
    assert_eq!(Truth::of(&records, 0, Direction::Down, &Reader::of(0)), Truth::default());
}

#[test]
fn truth_reads_corrupted_packets_as_the_receiver_can() {
    let flip = |number, field, bit| Rule {
        corrupt: Some(Corrupt { field, bits: vec![bit], random: 0 }),
        ..Rule::packets([number])
    };
    // 2 arrives as 3, 4 with another tag, 5 with wrong padding or code, 6 as a number beyond the flow.
    let rules = [
        flip(2, Field::Sequence, 31),
        flip(4, Field::Tag, 5),
        flip(5, Field::Payload, 70),
        flip(6, Field::Sequence, 28),
    ];
    let (_, records) = run(&script(rules), 8);
    let truth = |tagged, keyed| {
        let reader = Reader { tagged, keyed, ..Reader::of(8) };
        let truth = Truth::of(&records, 0, Direction::Up, &reader);
        assert_eq!((truth.sent, truth.delivered, truth.reordered), (8, 8, 0));
        (truth.foreign, truth.invalid, truth.lost, truth.duplicates)
    };
    assert_eq!(truth(false, false), (0, 1, 2, 1));
    assert_eq!(truth(true, false), (1, 1, 3, 1));
    assert_eq!(truth(true, true), (1, 3, 4, 0));
}

#[test]
fn truth_is_right_across_the_wrap() {
    // -3 -2 0 1: the sentinel's number is left out.
    let mut run = Run::new(&script([Rule::packets([1, 2]).held(1)]));
    run.send([-3, -2, 0, 1]);
    let (_, records) = run.end();
    let reader = Reader { first: 7 * 0xffff_ffff - 2, ..Reader::of(4) };
    let truth = Truth::of(&records, 0, Direction::Up, &reader);
    assert_eq!(truth, Truth { sent: 4, delivered: 4, reordered: 2, ..Truth::default() });
}

#[test]
fn nothing_appears_or_vanishes_but_by_the_rules() {
    let everything = [
        Rule::chance(0.2).dropped(),
        Rule::chance(0.2).held(5),
        Rule::chance(0.3).copied(3),
        Rule::chance(0.3).delayed(Delay::Uniform(Span::from_ns(0), Span::from_ns(9_000))),
        Rule::on(Select::All).delayed(Delay::Queue(Queue {
            drain: Span::from_ns(PERIOD_NS),
            load: 0.8,
            shape: 1.6,
            most: Span::from_ns(80_000),
        })),
    ];
    for seed in 0..20 {
        let script = Script { seed, ..script(everything.clone()) };
        let (left, records) = run(&script, 500);
        let mut decider = Decider::new(&script.up, seed, 0);
        let mut expected = 1;
        for record in &records[..500] {
            let (number, fate) = decider.next(32);
            let copies = if fate.dropped_by.is_some() { 0 } else { 1 + fate.copies.len() };
            assert_eq!((record.number, record.left.len(), record.waiting), (Some(number), copies, 0));
            assert!(record.left.iter().all(|one| one.at_ns >= record.arrived_ns + fate.delay_ns));
            expected += copies;
        }
        assert_eq!(left.len(), expected);
        let mut orders: Vec<u64> =
            records.iter().flat_map(|record| &record.left).map(|one| one.order).collect();
        orders.sort_unstable();
        assert_eq!(orders, (0..expected as u64).collect::<Vec<_>>());
        let numbers: Vec<_> =
            departures(&records, 0, Direction::Up).iter().map(|(_, one)| one.sequence).collect();
        assert_eq!(numbers, left[..left.len() - 1].iter().copied().map(Some).collect::<Vec<_>>());
    }
}
