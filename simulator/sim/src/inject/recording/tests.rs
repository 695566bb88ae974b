use super::*;
use crate::inject::{Injection, InjectionConfig, Occasion};
use quaver_abi::sync::{SyncKind, SyncOutcome};
use std::collections::BTreeSet;
use std::sync::Arc;

const N_NS: u64 = 10_000;

/// Events in the order in which they are said; thread n has the identifier 100 + n.
struct Made(Vec<(SyncEvent, u32)>);

impl Made {
    fn at(&mut self, at_ns: u64, thread: u32, kind: SyncKind, object: u64) -> &mut SyncEvent {
        let event = SyncEvent {
            at_ns,
            object,
            call_site: 1,
            thread: ThreadId(100 + thread),
            detail: 0,
            cpu: thread as u16,
            process: 0,
            kind,
            outcome: SyncOutcome::Ok,
            flags: 0,
        };
        self.0.push((event, thread));
        &mut self.0.last_mut().unwrap().0
    }

    fn recording(mut self) -> Recording {
        self.0.sort_by_key(|(event, _)| event.at_ns);
        let mut builder = Recording::builder(Settings { threshold_ns: N_NS, ..Settings::default() });
        self.0.iter().for_each(|(event, number)| builder.event(event, *number));
        builder.finish(RecordingFacts { run: "made".into(), sha256: "0".into(), threshold_ns: N_NS })
    }
}

/// Barriers of `threads`, one a millisecond; `last` comes last to each, and `took_ns` says what each of the others takes to
/// leave it.
fn barriers(threads: u32, count: u64, last: u32, took_ns: &dyn Fn(u64, u32) -> u64) -> Recording {
    let mut made = Made(Vec::new());
    for round in 0..count {
        let met_ns = 1_000_000 * (round + 1);
        for thread in (0..threads).filter(|thread| *thread != last) {
            made.at(met_ns - 1_000 + u64::from(thread), thread, SyncKind::BarrierEntry, 8);
            made.at(met_ns + took_ns(round, thread), thread, SyncKind::BarrierExit, 8);
        }
        made.at(met_ns, last, SyncKind::BarrierEntry, 8);
        made.at(met_ns + 1, last, SyncKind::BarrierExit, 8);
    }
    made.recording()
}

fn seeded(recording: &Arc<Recording>, seed: u64) -> Injection {
    let injection =
        InjectionConfig { seed, recording: Some(recording.facts.clone()), ..InjectionConfig::default() };
    Injection::new(&injection, 16).recorded_in(Arc::clone(recording))
}

/// One simulated barrier of all but `by`: who is late, and how long, femtoseconds.
fn meet(injection: &mut Injection, number: u64, by: u32, threads: u32) -> Vec<(u32, u64)> {
    let woken: Vec<Thread> = (0..threads).filter(|thread| *thread != by).map(Thread).collect();
    let each = woken.iter().map(|thread| {
        let occasion = Occasion { number, by, woken: &woken };
        injection.enters(thread.0);
        (thread.0, injection.draw(thread.0, SyncClass::BroadcastWait, Some(occasion)).duration_fs)
    });
    each.filter(|(_, duration_fs)| *duration_fs > 0).collect()
}

/// Every fifth barrier has three late threads, every seventh five; what they take has the round in it.
fn blocks(round: u64, thread: u32) -> u64 {
    let late = match (round % 5, round % 7) {
        (0, _) => thread < 3,
        (_, 0) => (8..13).contains(&thread),
        _ => false,
    };
    if late { 20_000 + 16 * (round % 1_000) + u64::from(thread) } else { 3_000 }
}

#[test]
fn a_recording_has_exactly_what_was_late_and_who_was_late_together() {
    let recording = barriers(16, 3_500, 15, &blocks);
    assert_eq!((recording.threads, recording.is_empty()), (16, false));
    assert_eq!(recording.timed(SyncClass::BroadcastWait), 15 * 3_500);
    let (threes, fives) = (3_500 / 5, 3_500 / 7 - 3_500 / 35);
    assert_eq!(
        recording.joint().by_late,
        BTreeMap::from([(0, 3_500 - threes - fives), (3, threes), (5, fives)])
    );
    let expected: u64 = (0..3_500)
        .flat_map(|round| (0..15).map(move |thread| blocks(round, thread)))
        .filter(|took_ns| *took_ns > N_NS)
        .sum();
    assert_eq!(recording.late_ns(SyncClass::BroadcastWait).iter().sum::<u64>(), expected);
    // Who comes last wakes the others: a broadcast, in time.
    assert_eq!(
        (recording.timed(SyncClass::Broadcast), recording.late_ns(SyncClass::Broadcast)),
        (3_500, vec![])
    );
}

#[test]
fn what_is_injected_at_barriers_is_whole_blocks_of_the_recording_and_adds_up_to_it() {
    let recording = Arc::new(barriers(16, 3_500, 15, &blocks));
    // Each lateness names its round, so that a mixture of blocks would show.
    let round_of =
        |(thread, duration_fs): &(u32, u64)| (duration_fs / 1_000_000 - 20_000 - u64::from(*thread)) / 16;
    let mut injection = seeded(&recording, 3);
    let (mut total_ns, rounds) = (0, 20_000_u64);
    for number in 0..rounds {
        let late = meet(&mut injection, number, 15, 16);
        let of: BTreeSet<u64> = late.iter().map(round_of).collect();
        assert!(of.len() <= 1, "of one broadcast of the recording: {late:?}");
        let threads: Vec<u32> = late.iter().map(|(thread, _)| *thread).collect();
        assert!([&[][..], &[0, 1, 2], &[8, 9, 10, 11, 12]].contains(&threads.as_slice()), "{threads:?}");
        total_ns += late.iter().map(|(_, duration_fs)| duration_fs / 1_000_000).sum::<u64>();
    }
    let drawn = injection.recorded().unwrap().clone();
    assert_eq!((drawn.joint.broadcasts(), drawn.joint.left_out, drawn.joint.other_size), (rounds, 0, 0));
    let by_values: u64 = drawn.late_ns[&SyncClass::BroadcastWait].iter().map(|(ns, count)| ns * count).sum();
    assert_eq!(by_values, total_ns, "all that was drawn was injected");
    // Draws are independent, so counts are binomial; the draws follow from the seed. Five standard deviations.
    for (late, count) in recording.joint().by_late {
        let p = count as f64 / 3_500.0;
        let bound = 5.0 * (rounds as f64 * p * (1.0 - p)).sqrt();
        let found = drawn.joint.by_late.get(&late).copied().unwrap_or(0) as f64;
        assert!((found - rounds as f64 * p).abs() <= bound, "{late} late: {found}, {p}");
    }
    let blocks_ns: Vec<u64> = (0..3_500)
        .map(|round| (0..15).map(|thread| blocks(round, thread)).filter(|ns| *ns > N_NS).sum())
        .collect();
    let mean_ns = blocks_ns.iter().sum::<u64>() as f64 / 3_500.0;
    let square = blocks_ns.iter().map(|ns| (*ns as f64 - mean_ns).powi(2)).sum::<f64>() / 3_500.0;
    let bound_ns = 5.0 * (rounds as f64 * square).sqrt();
    assert!((total_ns as f64 - rounds as f64 * mean_ns).abs() <= bound_ns, "{total_ns} {mean_ns} {bound_ns}");
}

#[test]
fn a_seed_draws_the_same_again_and_another_one_draws_others() {
    let recording = Arc::new(barriers(16, 350, 15, &blocks));
    let run = |seed: u64, order: &[u64]| {
        let mut injection = seeded(&recording, seed);
        let mut all: Vec<_> =
            order.iter().map(|number| (*number, meet(&mut injection, *number, 15, 16))).collect();
        all.sort_unstable();
        all
    };
    let order: Vec<u64> = (0..200).collect();
    let back: Vec<u64> = order.iter().rev().copied().collect();
    assert_eq!(run(1, &order), run(1, &back), "whichever barrier comes first");
    assert_ne!(run(1, &order), run(2, &order));
}

#[test]
fn the_lateness_of_who_comes_last_falls_to_who_came_last_in_the_recording() {
    let recording = Arc::new(barriers(16, 100, 15, &|_, thread| if thread < 3 { 50_000 } else { 1_000 }));
    let mut injection = seeded(&recording, 1);
    let late = |by: u32, injection: &mut Injection| -> Vec<u32> {
        let number = u64::from(by);
        meet(injection, number, by, 16).into_iter().map(|(thread, _)| thread).collect()
    };
    assert_eq!(late(15, &mut injection), [0, 1, 2]);
    assert_eq!(late(1, &mut injection), [0, 2, 15]);
    assert_eq!(late(7, &mut injection), [0, 1, 2]);
    assert_eq!(injection.recorded().unwrap().joint.left_out, 0);
    // Two threads are not room for three latenesses: one has nowhere to go, which is counted.
    assert_eq!(meet(&mut injection, 90, 2, 3).len(), 2);
    let joint = &injection.recorded().unwrap().joint;
    assert_eq!((joint.other_size, joint.left_out, joint.left_out_ns), (1, 1, 50_000));
}

#[test]
fn one_broadcast_of_a_size_does_not_stand_for_all_of_that_size() {
    // Of 99 broadcasts each wakes threads 1 to 3, of whom 1 is late in two of three and 3 in all. One more wakes 1 and 2, in time.
    let mut made = Made(Vec::new());
    for round in 0..100 {
        let at_ns = 1_000_000 * (round + 1);
        let woken = if round == 50 { 2 } else { 3 };
        made.at(at_ns, 0, SyncKind::BroadcastEntry, 32);
        made.at(at_ns + 500, 0, SyncKind::BroadcastExit, 32);
        for thread in 1..=woken {
            made.at(at_ns - 1_000, thread, SyncKind::WaitEntry, 32).detail = 16;
            let late = woken == 3 && (thread == 3 || thread == 1 && round % 3 != 0);
            let took_ns = if late { 20_000 } else { 2_000 } + u64::from(thread);
            made.at(at_ns + took_ns, thread, SyncKind::WaitExit, 32);
        }
    }
    let recording = Arc::new(made.recording());
    assert_eq!(recording.joint().by_late, BTreeMap::from([(0, 1), (1, 34), (2, 65)]));
    let mut injection = seeded(&recording, 3);
    let mut late = [0_u64; 4];
    for number in 0..3_000 {
        let woken = [Thread(1), Thread(2)];
        for thread in woken {
            let occasion = Occasion { number, by: 0, woken: &woken };
            injection.enters(thread.0);
            let draw = injection.draw(thread.0, SyncClass::BroadcastWait, Some(occasion));
            late[thread.0 as usize] += u64::from(draw.duration_fs > 0);
        }
    }
    // 65 of 100, within five standard deviations; what 3 had falls to nobody, for it does not wait.
    assert!(late[1].abs_diff(1_950) <= 130, "{late:?}");
    assert_eq!(late[2], 0);
    let joint = &injection.recorded().unwrap().joint;
    assert_eq!(joint.other_size, joint.left_out, "each of the 99 has one that 3 had");
    assert!(joint.left_out.abs_diff(2_970) <= 28, "{joint:?}");
}

#[test]
fn each_thread_has_its_own_rate_and_its_own_lateness() {
    // Thread 1 is late in one of four locks, thread 2 in all, thread 3 never locks.
    let mut made = Made(Vec::new());
    for round in 0..400 {
        for thread in [1, 2] {
            let at_ns = 1_000_000 * (2 * round + u64::from(thread));
            made.at(at_ns, thread, SyncKind::LockEntry, 16);
            made.at(at_ns + 100, 0, SyncKind::UnlockEntry, 16);
            made.at(at_ns + 200, 0, SyncKind::UnlockExit, 16);
            let late = thread == 2 || round % 4 == 0;
            let took_ns = if late { 30_000 * u64::from(thread) + round } else { 5_000 };
            made.at(at_ns + 100 + took_ns, thread, SyncKind::LockExit, 16);
        }
    }
    let recording = Arc::new(made.recording());
    assert_eq!(recording.timed(SyncClass::LockUnlock), 800);
    assert_eq!(recording.late_ns(SyncClass::LockUnlock).len(), 500);
    let mut injection = seeded(&recording, 5);
    let mut of = |thread: u32| -> Vec<u64> {
        let draws = (0..4_000).map(|_| {
            injection.enters(thread);
            injection.draw(thread, SyncClass::LockUnlock, None).duration_fs / 1_000_000
        });
        draws.filter(|ns| *ns > 0).collect()
    };
    let (first, second, other) = (of(1), of(2), of(3));
    assert!(first.iter().all(|ns| (30_000..30_400).contains(ns) && ns % 4 == 0));
    assert!(second.len() == 4_000 && second.iter().all(|ns| (60_000..60_400).contains(ns)));
    // Five standard deviations of 4,000 draws at 1/4, and at 5/8 of all.
    assert!(first.len().abs_diff(1_000) <= 137, "{}", first.len());
    assert!(other.len().abs_diff(2_500) <= 153, "{}", other.len());
    assert!(of(1).len().abs_diff(first.len()) <= 2 * 137);
}

#[test]
fn the_time_in_which_the_mutex_is_held_is_not_injected() {
    let mut made = Made(Vec::new());
    for round in 0..10 {
        let at_ns = 1_000_000 * (round + 1);
        made.at(at_ns, 1, SyncKind::WaitEntry, 32).detail = 16;
        made.at(at_ns + 1_000, 0, SyncKind::BroadcastEntry, 32);
        made.at(at_ns + 1_500, 0, SyncKind::BroadcastExit, 32);
        // The waker gives its mutex back 80 us later; the woken thread runs 15 us, or 2 us, after that.
        made.at(at_ns + 81_000, 0, SyncKind::UnlockEntry, 16);
        made.at(at_ns + 81_200, 0, SyncKind::UnlockExit, 16);
        let after_ns = if round < 4 { 15_000 } else { 2_000 };
        made.at(at_ns + 81_000 + after_ns, 1, SyncKind::WaitExit, 32);
    }
    let recording = made.recording();
    assert_eq!(recording.late_ns(SyncClass::BroadcastWait), [15_000; 4]);
    assert_eq!(recording.joint().by_late, BTreeMap::from([(0, 6), (1, 4)]));
    assert_eq!(recording.held_ns, 10 * 80_000);
}

#[test]
fn nothing_recorded_is_nothing_to_inject() {
    let recording = Made(Vec::new()).recording();
    assert!(recording.is_empty() && recording.joint().broadcasts() == 0);
    let recording = Arc::new(recording);
    let mut injection = seeded(&recording, 1);
    assert_eq!(meet(&mut injection, 1, 0, 4), []);
    assert_eq!(injection.draw(1, SyncClass::Unlock, None).duration_fs, 0);
}
