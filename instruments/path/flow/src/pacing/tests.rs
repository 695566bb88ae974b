use super::super::schedule::FlowSchedule;
use super::*;

/// A clock and a sleeper: each wait ends `wake_ns` after its instant, each call of the sender takes `call_ns`, and at the
/// given instants the machine does something else for a while.
struct Machine {
    now_ns: u64,
    wake_ns: u64,
    call_ns: u64,
    /// When, and for how long; in order.
    stalls: VecDeque<(u64, u64)>,
}

impl Machine {
    fn new(wake_ns: u64, call_ns: u64, stalls: &[(u64, u64)]) -> Self {
        Self { now_ns: 0, wake_ns, call_ns, stalls: stalls.iter().copied().collect() }
    }

    fn stall(&mut self) {
        while let Some((_, for_ns)) = self.stalls.pop_front_if(|(at_ns, _)| *at_ns <= self.now_ns) {
            self.now_ns += for_ns;
        }
    }
}

/// (deadline, when it was sent) of all packets, and how the flow ended.
fn sent(pacing: &mut Pacing, most_packets: u64, machine: Machine) -> (Vec<(u64, u64)>, bool, u64) {
    let (machine, mut sent) = (std::cell::RefCell::new(machine), Vec::new());
    let wait = |until_ns: u64| {
        let mut machine = machine.borrow_mut();
        if until_ns > machine.now_ns {
            machine.now_ns = until_ns + machine.wake_ns;
        }
        machine.stall();
        Some(machine.now_ns)
    };
    let finished = pacing.walk(most_packets, wait, |_, deadlines| {
        let mut machine = machine.borrow_mut();
        let now_ns = machine.now_ns;
        sent.extend(deadlines.iter().map(|due_ns| (*due_ns, now_ns)));
        machine.now_ns += machine.call_ns;
        true
    });
    (sent, finished, machine.into_inner().now_ns)
}

fn pacing(schedule: &FlowSchedule, late: LatePolicy) -> Pacing {
    Pacing { most_at_once: 64, ..Pacing::new(schedule.offsets(), late, None) }
}

fn deadlines(sent: &[(u64, u64)]) -> Vec<u64> {
    sent.iter().map(|(due_ns, _)| *due_ns).collect()
}

/// Mean period of what was sent less the schedule's, parts per million.
fn mean_off_ppm(sent: &[(u64, u64)], period_ns: u64) -> f64 {
    let (first, last) = (sent[0].1, sent[sent.len() - 1].1);
    let mean_ns = (last - first) as f64 / (sent.len() - 1) as f64;
    (mean_ns / period_ns as f64 - 1.0) * 1e6
}

const MS: u64 = 1_000_000;
/// Stalls of 0.5 to 40 ms, as on a busy machine.
const STALLS: [(u64, u64); 5] = [
    (10 * MS, 1_500_000),
    (100 * MS, 40 * MS),
    (500 * MS, MS / 2),
    (900 * MS, 7 * MS),
    (1_500 * MS, 12 * MS),
];

#[test]
fn on_time_each_policy_sends_each_packet_alone_and_at_its_deadline() {
    for late in LatePolicy::ALL {
        let mut pacing = pacing(&FlowSchedule::every(100), late);
        let (sent, finished, _) = sent(&mut pacing, 1_000, Machine::new(7, 3, &[]));
        let expected: Vec<_> =
            (0..1_000).map(|slot| (slot * 100, if slot == 0 { 0 } else { slot * 100 + 7 })).collect();
        assert_eq!((sent, finished), (expected, true), "{}", late.name());
        assert_eq!(pacing.counts, PacingCounts::default());
    }
}

#[test]
fn a_stall_shows_what_each_policy_is() {
    // At 250 the machine goes away until 750.
    let run = |late| {
        let mut pacing = pacing(&FlowSchedule::every(100), late);
        let (sent, ..) = sent(&mut pacing, 9, Machine::new(0, 1, &[(250, 500)]));
        (sent, pacing.counts.misses, pacing.counts.late)
    };
    let on_time = [(0, 0), (100, 100), (200, 200)];
    let (sent, misses, late) = run(LatePolicy::Skip);
    assert_eq!(sent[..3], on_time);
    assert_eq!(
        sent[3..],
        [(800, 800), (900, 900), (1_000, 1_000), (1_100, 1_100), (1_200, 1_200), (1_300, 1_300)]
    );
    assert_eq!((misses, late), (5, 0), "300 to 700 are never sent");
    let (sent, misses, late) = run(LatePolicy::SendLate);
    assert_eq!(sent[..3], on_time);
    assert_eq!(sent[3..], [(300, 800), (400, 850), (500, 900), (600, 950), (700, 1_000), (800, 1_050)]);
    assert_eq!((misses, late), (0, 6), "half a period apart");
    let (sent, misses, late) = run(LatePolicy::Burst);
    assert_eq!(sent[..3], on_time);
    assert_eq!(sent[3..], [300, 400, 500, 600, 700, 800].map(|due_ns| (due_ns, 800)), "all at once");
    assert_eq!((misses, late), (0, 5), "that of 800 is on time");
}

#[test]
fn a_periodic_schedule_keeps_its_mean_within_a_millionth_through_stalls() {
    for late in [LatePolicy::SendLate, LatePolicy::Burst] {
        for wake_ns in [0, 300, 60_000] {
            let mut pacing = pacing(&FlowSchedule::every(MS), late);
            let (sent, finished, _) = sent(&mut pacing, 100_000, Machine::new(wake_ns, 5_000, &STALLS));
            assert!(finished && sent.len() == 100_000);
            assert_eq!(deadlines(&sent), FlowSchedule::every(MS).offsets().take(100_000).collect::<Vec<_>>());
            let off = mean_off_ppm(&sent, MS);
            assert!(off.abs() < 1.0, "{} with {wake_ns} ns: {off} ppm", late.name());
            assert_eq!((pacing.counts.misses, pacing.counts.unsent), (0, 0));
        }
    }
    // Wake-ups that take longer than half a period, and than a whole one.
    for wake_ns in [700_000, 2_300_000] {
        let mut pacing = pacing(&FlowSchedule::every(MS), LatePolicy::SendLate);
        let (sent, ..) = sent(&mut pacing, 100_000, Machine::new(wake_ns, 5_000, &STALLS));
        let late_ns = sent[50_000..].iter().map(|(due_ns, sent_ns)| sent_ns - due_ns).max().unwrap();
        assert!(late_ns < 2 * wake_ns + MS, "{late_ns} ns behind for good");
    }
    let mut skipping = pacing(&FlowSchedule::every(MS), LatePolicy::Skip);
    let (sent, ..) = sent(&mut skipping, 100_000, Machine::new(0, 5_000, &STALLS));
    assert!(mean_off_ppm(&sent, MS) > 500.0, "the mean of a schedule that skips is longer");
    assert_eq!(skipping.counts.misses, (sent[sent.len() - 1].0 / MS) + 1 - 100_000);
}

#[test]
fn late_packets_of_send_late_keep_half_a_period() {
    let mut pacing = pacing(&FlowSchedule::every(MS), LatePolicy::SendLate);
    let (sent, ..) = sent(&mut pacing, 5_000, Machine::new(50_000, 5_000, &STALLS));
    assert!(sent.windows(2).all(|two| two[1].1 - two[0].1 >= MS / 2));
    assert!(sent.windows(2).filter(|two| two[1].1 - two[0].1 == MS / 2 + 50_000).count() > 50, "and no more");
}

#[test]
fn random_and_recorded_schedules_send_every_slot_by_default() {
    let poisson = FlowSchedule::Poisson { mean_ns: 100_000, seed: 11 };
    let recorded = FlowSchedule::Recorded { offsets_ns: poisson.offsets().take(30_000).collect() };
    for schedule in [poisson, recorded] {
        let late = LatePolicy::usual(&schedule);
        assert_eq!(late, LatePolicy::Burst);
        let mut pacing = pacing(&schedule, late);
        let (sent, finished, _) = sent(&mut pacing, 30_000, Machine::new(20_000, 4_000, &STALLS));
        assert!(finished);
        assert_eq!(deadlines(&sent), schedule.offsets().take(30_000).collect::<Vec<_>>());
        assert!(sent.iter().all(|(due_ns, sent_ns)| sent_ns >= due_ns), "none early");
        assert!(pacing.counts.late > 100 && pacing.counts.misses == 0);
    }
    assert_eq!(LatePolicy::usual(&FlowSchedule::every(20_000)), LatePolicy::SendLate);
    assert_eq!(LatePolicy::usual(&FlowSchedule::every(19_999)), LatePolicy::Burst);
}

#[test]
fn packets_of_one_deadline_go_together() {
    let offsets_ns = [10, 10, 10, 20, 20].as_slice().into();
    let schedule = FlowSchedule::Recorded { offsets_ns };
    for (late, stall_ns) in [(LatePolicy::Skip, 0), (LatePolicy::Burst, 1_000)] {
        let mut pacing = pacing(&schedule, late);
        let (sent, finished, _) = sent(&mut pacing, u64::MAX, Machine::new(0, 0, &[(15, stall_ns)]));
        assert_eq!((deadlines(&sent), finished), (vec![10, 10, 10, 20, 20], true));
        assert_eq!(pacing.counts.misses, 0);
    }
    let mut skipping = pacing(&schedule, LatePolicy::Skip);
    let (sent, ..) = sent(&mut skipping, u64::MAX, Machine::new(0, 0, &[(0, 500)]));
    assert_eq!((deadlines(&sent), skipping.counts.misses), (vec![20, 20], 3), "nothing came after these");
}

#[test]
fn gathered_packets_wait_for_the_last_of_them() {
    let mut pacing = Pacing { gather_ns: 300, ..pacing(&FlowSchedule::every(100), LatePolicy::Burst) };
    let (sent, ..) = sent(&mut pacing, 12, Machine::new(0, 0, &[]));
    assert_eq!(sent, (0..12).map(|slot| (slot * 100, slot / 4 * 400 + 300)).collect::<Vec<_>>());
    assert_eq!(pacing.counts.late, 0, "they are late by what was asked for");
}

#[test]
fn late_trains_go_whole_and_half_their_time_apart() {
    let trains = Pacing {
        gather_ns: 300,
        train: 4,
        most_at_once: 4,
        ..pacing(&FlowSchedule::every(100), LatePolicy::SendLate)
    };
    let mut pacing = trains;
    // Away from 700 to 2300.
    let (sent, ..) = sent(&mut pacing, 24, Machine::new(0, 0, &[(700, 1_600)]));
    let at: Vec<(u64, usize)> =
        sent.chunk_by(|a, b| a.1 == b.1).map(|train| (train[0].1, train.len())).collect();
    assert_eq!(at, [(300, 4), (2_300, 4), (2_500, 4), (2_700, 4), (2_900, 4), (3_100, 4)]);
    assert_eq!(deadlines(&sent), FlowSchedule::every(100).offsets().take(24).collect::<Vec<_>>());
}

/// A call takes ten periods: whatever the policy, the flow is over when its time is, and all slots are accounted for.
#[test]
fn a_flow_with_a_time_ends_with_it_however_late_its_sender() {
    let (period_ns, lasting_ns) = (10_000, 200 * MS);
    let slots = lasting_ns / period_ns;
    let periodic = FlowSchedule::every(period_ns);
    let random = FlowSchedule::Poisson { mean_ns: period_ns, seed: 3 };
    for (schedule, exact) in [(periodic, Some(slots)), (random, None)] {
        for late in LatePolicy::ALL {
            let mut pacing = Pacing::new(schedule.offsets(), late, Some(lasting_ns));
            let (sent, finished, ended_ns) =
                sent(&mut pacing, u64::MAX, Machine::new(0, 10 * period_ns, &[]));
            let name = late.name();
            assert!(finished && ended_ns <= lasting_ns + GRACE_NS.0 + 10 * period_ns, "{name}: {ended_ns}");
            let due = schedule.offsets().take_while(|due_ns| *due_ns < lasting_ns).count() as u64;
            assert!(exact.is_none_or(|exact| exact == due));
            let PacingCounts { misses, unsent, .. } = pacing.counts;
            assert_eq!(sent.len() as u64 + misses + unsent, due, "{name}: {:?}", pacing.counts);
            assert_eq!(unsent > due / 2, late != LatePolicy::Skip, "{name}: {:?}", pacing.counts);
            let capped = &mut Pacing::new(schedule.offsets(), late, Some(lasting_ns));
            let (sent, ..) = self::sent(capped, 5_000, Machine::new(0, 10 * period_ns, &[]));
            assert!(
                sent.len() as u64 + capped.counts.unsent <= 5_000,
                "no more unsent than there are packets"
            );
        }
    }
}

#[test]
fn the_last_packet_of_a_time_may_be_late_a_little() {
    let run = |wake_ns| {
        let mut pacing = Pacing::new(FlowSchedule::every(MS).offsets(), LatePolicy::Burst, Some(10 * MS));
        let (sent, finished, _) = sent(&mut pacing, u64::MAX, Machine::new(wake_ns, 0, &[]));
        (sent.len(), finished, pacing.counts.unsent)
    };
    assert_eq!(run(2 * MS), (10, true, 0));
    let mut pacing = Pacing::new(FlowSchedule::every(MS).offsets(), LatePolicy::SendLate, Some(10 * MS));
    let (sent, ..) = sent(&mut pacing, u64::MAX, Machine::new(0, 0, &[(8 * MS, 50 * MS)]));
    assert_eq!((sent.len(), pacing.counts.unsent), (8, 2), "its time is over");
}

#[test]
fn a_stop_is_no_end() {
    let mut pacing = pacing(&FlowSchedule::every(100), LatePolicy::Burst);
    assert!(!pacing.walk(10, |_| None, |_, _| true), "while it waited");
    let mut turns = 0;
    let mut go_on = |_: &mut Pacing, _: &[u64]| {
        turns += 1;
        turns < 3
    };
    assert!(!pacing.walk(10, Some, &mut go_on), "when it sent");
    assert_eq!(turns, 3);
}
