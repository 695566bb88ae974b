use super::*;
use crate::sync::{KernelEvent, KernelKind};
use proptest::prelude::*;

const US: u64 = 1_000;

fn event(at_ns: u64, thread: u32, kind: SyncKind, object: u64) -> AnyEvent {
    AnyEvent::Sync(SyncEvent::plain(at_ns, thread, kind, object))
}

fn start(at_ns: u64, thread: u32, creator: u32) -> AnyEvent {
    AnyEvent::Sync(SyncEvent {
        detail: creator,
        ..SyncEvent::plain(at_ns, thread, SyncKind::ThreadStart, u64::from(thread) << 12)
    })
}

fn cut(events: &[AnyEvent], end_ns: u64) -> (Vec<Step>, SyncResults) {
    let mut cutter = Cutter::new(Settings::default(), 330 * US);
    let mut steps = Vec::new();
    events.iter().for_each(|event| cutter.event(event, &mut |step| steps.push(step)));
    let results = cutter.finish(end_ns, &mut |step| steps.push(step));
    (steps, results)
}

fn subframes(steps: &[Step], thread: u32) -> Vec<(u64, u64, Ended, u64, u64, u64)> {
    let of = |step: &Step| match step {
        Step::Ended(one) if one.thread == ThreadId(thread) => {
            Some((one.begin_ns, one.end_ns, one.why, one.own_ns, one.blocked_ns, one.lost_ns))
        }
        _ => None,
    };
    steps.iter().filter_map(of).collect()
}

#[test]
fn a_thread_that_only_works_is_cut_by_the_clock() {
    let (steps, _) = cut(&[start(100 * US, 1, 0)], 1_000 * US);
    let all = subframes(&steps, 1);
    let ends: Vec<u64> = all.iter().map(|one| one.1 / US).collect();
    assert_eq!(ends, [430, 760, 1_000]);
    assert_eq!(all[2], (760 * US, 1_000 * US, Ended::AtExit, 240 * US, 0, 0));
    assert!(matches!(steps[0], Step::Began { thread: ThreadId(1), parent: None, .. }));
}

#[test]
fn creation_join_and_end_force_an_end_and_a_child_knows_its_parent() {
    let events = [
        start(0, 1, 0),
        event(100 * US, 1, SyncKind::Create, 0),
        start(105 * US, 2, 1),
        event(120 * US, 1, SyncKind::JoinEntry, 2 << 12),
        event(200 * US, 2, SyncKind::ThreadExit, 2 << 12),
        event(205 * US, 1, SyncKind::JoinExit, 2 << 12),
        event(250 * US, 1, SyncKind::ThreadExit, 1 << 12),
    ];
    let (steps, _) = cut(&events, 250 * US);
    assert_eq!(subframes(&steps, 2), [(105 * US, 200 * US, Ended::AtExit, 95 * US, 0, 0)]);
    let first = subframes(&steps, 1);
    assert_eq!(first[0], (0, 100 * US, Ended::AtCreate, 100 * US, 0, 0));
    assert_eq!(first[1], (100 * US, 205 * US, Ended::AtJoin, 20 * US, 85 * US, 0));
    assert_eq!(first[2], (205 * US, 250 * US, Ended::AtExit, 45 * US, 0, 0));
    let born = steps
        .iter()
        .any(|step| matches!(step, Step::Began { thread: ThreadId(2), parent: Some(ThreadId(1)), .. }));
    let joined = |step: &Step| matches!(step, Step::Ended(one) if one.joined == Some(ThreadId(2)));
    assert!(born && steps.iter().any(joined), "{steps:?}");
}

#[test]
fn what_a_thread_waits_for_is_in_one_subframe_and_what_is_lost_of_it_is_no_waiting() {
    // Thread 1 waits from 100 us on, is signalled at 1,000 us and returns 60 us later: 50 us beyond the threshold.
    let events = [
        start(0, 1, 0),
        start(0, 2, 0),
        event(100 * US, 1, SyncKind::WaitEntry, 77),
        event(1_000 * US, 2, SyncKind::SignalEntry, 77),
        event(1_005 * US, 2, SyncKind::SignalExit, 77),
        event(1_060 * US, 1, SyncKind::WaitExit, 77),
    ];
    let (steps, results) = cut(&events, 1_100 * US);
    assert_eq!(results.late.total_ns, 50 * US);
    let first = subframes(&steps, 1);
    assert_eq!(first[0], (0, 1_060 * US, Ended::InTime, 100 * US, 910 * US, 50 * US));
    assert_eq!(first[1].0, 1_060 * US);
    let second = subframes(&steps, 2);
    assert_eq!(second.iter().map(|one| one.1 / US).collect::<Vec<_>>(), [330, 660, 990, 1_100]);
    let waits = steps.iter().filter(|step| matches!(step, Step::Waits { .. } | Step::GoesOn { .. })).count();
    assert_eq!(waits, 2);
}

#[test]
fn a_wake_up_tells_what_both_threads_have_done_so_far() {
    let barrier = |at_ns, thread, kind| event(at_ns, thread, kind, 99);
    let events = [
        start(0, 1, 0),
        start(0, 2, 0),
        event(100 * US, 1, SyncKind::WaitEntry, 77),
        event(200 * US, 2, SyncKind::SignalEntry, 77),
        event(205 * US, 2, SyncKind::SignalExit, 77),
        event(260 * US, 1, SyncKind::WaitExit, 77),
        barrier(270 * US, 1, SyncKind::BarrierEntry),
        barrier(300 * US, 2, SyncKind::BarrierEntry),
        barrier(301 * US, 2, SyncKind::BarrierExit),
        barrier(302 * US, 1, SyncKind::BarrierExit),
    ];
    let (steps, _) = cut(&events, 320 * US);
    let woken: Vec<_> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Woken { wakeup, own, others } => Some((*wakeup, *own, *others)),
            _ => None,
        })
        .collect();
    let wakeup = |released_us: u64, waited_us: u64, met| Wakeup {
        thread: ThreadId(1),
        by: ThreadId(2),
        released_ns: released_us * US,
        waited_ns: waited_us * US,
        met,
    };
    let so_far = |own_us: u64, blocked_us: u64, lost_us: u64| SoFar {
        own_ns: own_us * US,
        blocked_ns: blocked_us * US,
        lost_ns: lost_us * US,
    };
    // Lost are 50 of the 60 us that the wake-up took; they are no part of what it had done before.
    assert_eq!(woken[0], (wakeup(200, 100, false), so_far(100, 110, 0), so_far(260, 0, 0)));
    assert_eq!(woken[1], (wakeup(300, 30, true), so_far(110, 142, 50), so_far(301, 1, 0)));
    assert_eq!(woken.len(), 2);
}

#[test]
fn other_lost_time_counts_in_the_subframe_in_which_it_ends() {
    let kernel = |at_ns, kind| AnyEvent::Kernel(KernelEvent { at_ns, cpu: 0, kind });
    let thread = ThreadId(1);
    let switch = |prev, next| KernelKind::Switch {
        prev: ThreadId(prev),
        next: ThreadId(next),
        prev_state: quaver_abi::record::OffCpu::from_raw(0),
        priorities: None,
    };
    let events = [
        start(0, 1, 0),
        kernel(10 * US, switch(0, 1)),
        kernel(50 * US, KernelKind::IrqEnter { timer: true }),
        kernel(70 * US, KernelKind::IrqExit),
    ];
    let (steps, results) = cut(&events, 330 * US);
    assert_eq!(results.threads[0].thread, thread);
    assert_eq!(results.threads[0].other.total_ns, 20 * US);
    assert_eq!(subframes(&steps, 1)[0], (0, 330 * US, Ended::InTime, 310 * US, 0, 20 * US));
}

#[test]
fn parts_never_exceed_the_subframe_but_for_what_began_before() {
    // The call of unlock began in one subframe and ended in the next, 400 us later.
    let events = [
        start(0, 1, 0),
        event(300 * US, 1, SyncKind::UnlockEntry, 5),
        event(700 * US, 1, SyncKind::UnlockExit, 5),
    ];
    let (steps, _) = cut(&events, 990 * US);
    let all = subframes(&steps, 1);
    assert_eq!(all[0].5 + all[1].5, 0);
    assert_eq!(all[2], (660 * US, 990 * US, Ended::InTime, 0, 0, 390 * US));
}

#[test]
fn events_out_of_order_and_numbers_given_again_end_no_subframe_twice() {
    let events = [
        start(0, 1, 0),
        event(400 * US, 1, SyncKind::ThreadExit, 1 << 12),
        start(350 * US, 1, 0),
        event(100 * US, 1, SyncKind::LockEntry, 9),
        event(90 * US, 1, SyncKind::LockExit, 9),
    ];
    let (steps, _) = cut(&events, 500 * US);
    let all = subframes(&steps, 1);
    let lengths: u64 = all.iter().map(|one| one.1 - one.0).sum();
    assert_eq!(lengths, 500 * US, "{all:?}");
    assert!(all.windows(2).all(|two| two[0].1 == two[1].0), "{all:?}");
}

proptest! {
    #[test]
    fn whoever_looks_often_sees_the_same_as_who_looks_at_the_end(
        drawn in proptest::collection::vec((0_u64..200_000, 1_u32..5, 0_usize..28, 0_u64..3), 1..120),
        looks in proptest::collection::vec(0_u64..400_000, 0..200),
    ) {
        let mut at_ns = 0;
        let events: Vec<AnyEvent> = drawn
            .iter()
            .map(|&(gap_ns, thread, kind, object)| {
                at_ns += gap_ns;
                let plain = SyncEvent::plain(at_ns, thread, SyncKind::ALL[kind], object << 12);
                AnyEvent::Sync(SyncEvent { detail: thread % 3, ..plain })
            })
            .collect();
        let (whole, results) = cut(&events, at_ns + 1_000_000);
        let mut cutter = Cutter::new(Settings::default(), 330 * US);
        let mut steps = Vec::new();
        let mut looks = looks.iter();
        let mut now_ns = 0;
        for event in &events {
            let AnyEvent::Sync(sync) = event else { continue };
            while now_ns < sync.at_ns
                && let Some(&gap_ns) = looks.next()
            {
                now_ns = (now_ns + gap_ns).min(sync.at_ns);
                cutter.until(now_ns, &mut |step| steps.push(step));
            }
            cutter.event(event, &mut |step| steps.push(step));
        }
        let again = cutter.finish(at_ns + 1_000_000, &mut |step| steps.push(step));
        prop_assert_eq!(steps, whole.clone());
        prop_assert_eq!(again, results.clone());
        // What is lost is lost in some subframe, but for threads that the protocol counts anew.
        for thread in whole.iter().filter_map(|step| match step {
            Step::Began { thread, .. } => Some(*thread),
            _ => None,
        }) {
            let all = subframes(&whole, thread.0);
            prop_assert!(all.iter().all(|one| one.0 <= one.1));
        }
    }
}
