//! Why a thread that could run does not, row by row: its state, who held its CPU, what was in force.

use super::scene::thread;
use crate::attribution::actor::{ActorState, Span};
use crate::attribution::causes::Class;
use crate::attribution::naming::Namer;
use crate::attribution::timeline::Timeline;
use crate::attribution::waiting::{Facts, WAKE_UP};
use crate::model::{Actor, Circumstances, Names};
use quaver_abi::record::{EventRecord, OffCpu};

const SINCE: i64 = 10_000;
const IDLE: u32 = 0;
const WAITER: u32 = 7;
const HOG: u32 = 8;
const STOPPER: u32 = 9;
const SIBLING: u32 = 10;

/// A wait of thread 7 for CPU 1 from 10 µs on.
fn waits(state: ActorState, length_ns: i64) -> Span {
    let end_ns = SINCE + length_ns;
    Span {
        state,
        cpu: Some(1),
        left: Some(1),
        since_ns: SINCE,
        until_ns: end_ns,
        ..Span::unknown(SINCE, end_ns)
    }
}

struct Case {
    realtime: bool,
    is_receiver: bool,
    throttling: bool,
    fair_server: bool,
    quota: bool,
    /// The CPU idled at some time of the wait.
    idled: bool,
}

const PLAIN: Case = Case {
    realtime: false,
    is_receiver: true,
    throttling: false,
    fair_server: false,
    quota: false,
    idled: false,
};
const QUOTA: Case = Case { quota: true, ..PLAIN };
const REALTIME: Case = Case { realtime: true, ..PLAIN };
const THROTTLED: Case = Case { throttling: true, ..REALTIME };
const SERVED: Case = Case { fair_server: true, ..REALTIME };

/// Identifier of the cause while `holder` of this priority, which began at `from`, held the CPU.
fn cause_from(case: &Case, span: Span, holder: u32, priority: u64, from: i64) -> Option<&'static str> {
    let held = thread(holder, priority, 1, from, span.end_ns, OffCpu::Blocked);
    let mut events: Vec<EventRecord> = vec![held];
    if case.idled {
        events.push(thread(IDLE, 120, 1, SINCE - 500, SINCE + 5, OffCpu::Preempted));
    }
    let names = Names { task: [(STOPPER, "migration/1".to_owned())].into(), ..Names::default() };
    let timeline = Timeline::new(&events);
    let namer = Namer::new(&timeline, &names, None);
    let actor = Actor { threads: vec![WAITER, SIBLING], realtime: case.realtime, ..Actor::default() };
    let circumstances = Circumstances {
        rt_throttling: case.throttling,
        fair_server: case.fair_server,
        quota_stops: case.quota.into(),
        ..Circumstances::default()
    };
    let facts = Facts {
        actor: &actor,
        thread: Some(WAITER),
        circumstances: &circumstances,
        is_receiver: case.is_receiver,
        wake_up: WAKE_UP,
    };
    facts.cause(&namer, &span, &held).map(|key| key.id)
}

fn cause(case: &Case, span: Span, holder: u32) -> Option<&'static str> {
    cause_from(case, span, holder, if holder == STOPPER { 0 } else { 120 }, SINCE + 10)
}

/// Just below and at the length from which a wait beside an idle CPU is a stop.
const SHORT: i64 = 999_999;
const LONG: i64 = 1_000_000;

#[test]
fn beside_an_idle_cpu() {
    use ActorState::*;
    for state in [Running, Asleep, Unknown] {
        assert_eq!(cause(&QUOTA, waits(state, LONG), IDLE), None);
    }
    for length in [SHORT, LONG] {
        let preempted = waits(Preempted, length);
        assert_eq!(cause(&PLAIN, preempted, IDLE), None, "no limit is in force");
        assert_eq!(cause(&QUOTA, preempted, IDLE), Some("quota"));
        assert_eq!(
            cause(&Case { is_receiver: false, ..QUOTA }, preempted, IDLE),
            None,
            "the receiver's quota"
        );
        assert_eq!(
            cause(&Case { realtime: true, ..QUOTA }, preempted, IDLE),
            None,
            "a quota is of normal threads"
        );
        assert_eq!(cause(&THROTTLED, preempted, IDLE), Some("rt-throttle"));
        assert_eq!(cause(&Case { realtime: false, ..THROTTLED }, preempted, IDLE), None);
    }
    let moved = |length| Span { moved: true, ..waits(Preempted, length) };
    assert_eq!(cause(&QUOTA, moved(SHORT), IDLE), Some("migration"));
    assert_eq!(cause(&QUOTA, moved(LONG), IDLE), Some("quota"));
    assert_eq!(cause(&PLAIN, moved(LONG), IDLE), Some("migration"));
    assert_eq!(cause(&QUOTA, waits(Woken, SHORT), IDLE), Some("block-recv"));
    assert_eq!(cause(&QUOTA, waits(Woken, LONG), IDLE), Some("quota"));
    assert_eq!(cause(&PLAIN, waits(Woken, LONG), IDLE), Some("block-recv"));
    let queued = |at| Span { queued_ns: Some(at), ..waits(Woken, LONG) };
    assert_eq!(cause(&QUOTA, queued(SINCE), IDLE), Some("quota"));
    assert_eq!(cause(&QUOTA, queued(SINCE + 1), IDLE), Some("block-recv"), "it stood in no queue before");
}

#[test]
fn a_thread_waits_by_the_class_that_it_had_when_it_left() {
    let left = |realtime| {
        let class = if realtime { Class::RealTime(50) } else { Class::Normal };
        Span { class: Some(class), ..waits(ActorState::Preempted, SHORT) }
    };
    assert_eq!(cause(&THROTTLED, left(true), HOG), Some("rt-throttle"));
    assert_eq!(cause(&THROTTLED, left(false), HOG), Some("cfs-preempt"), "it gave its class up");
    assert_eq!(cause(&Case { realtime: false, ..THROTTLED }, left(true), HOG), Some("rt-throttle"));
    assert_eq!(cause(&QUOTA, left(true), IDLE), None, "a quota is of normal threads");
}

#[test]
fn a_deadline_thread_waits_for_its_own_runtime_whatever_the_host_limits() {
    let by = |state, holder, priority: i32| {
        let span = Span { class: Some(Class::Deadline), ..waits(state, LONG) };
        cause_from(&REALTIME, span, holder, u64::from(priority.cast_unsigned()), SINCE + 1)
    };
    use ActorState::{Preempted, Woken};
    assert_eq!(by(Preempted, IDLE, 120), Some("dl-budget"));
    assert_eq!(by(Preempted, HOG, 120), Some("dl-budget"));
    assert_eq!(by(Preempted, HOG, 10), Some("dl-budget"), "a SCHED_FIFO thread");
    assert_eq!(by(Preempted, HOG, -1), Some("rt-thread"), "another deadline comes first");
    assert_eq!(by(Woken, HOG, 120), Some("dl-budget"));
    let just_woken = Span { class: Some(Class::Deadline), ..waits(Woken, SHORT) };
    assert_eq!(cause_from(&REALTIME, just_woken, HOG, 120, SINCE - 1), Some("block-recv"));
    assert_eq!(
        cause(&THROTTLED, Span { class: Some(Class::Deadline), ..waits(Preempted, SHORT) }, IDLE),
        Some("dl-budget")
    );
}

#[test]
fn behind_itself_and_its_siblings() {
    assert_eq!(cause(&PLAIN, waits(ActorState::Preempted, SHORT), WAITER), None);
    assert_eq!(cause(&PLAIN, waits(ActorState::Unknown, SHORT), SIBLING), None);
    assert_eq!(cause(&PLAIN, waits(ActorState::Preempted, SHORT), SIBLING), Some("cfs-preempt"));
    assert_eq!(cause(&PLAIN, waits(ActorState::Unknown, SHORT), HOG), Some("cfs-preempt"));
}

#[test]
fn behind_another_thread_after_a_move() {
    let preempted = waits(ActorState::Preempted, SHORT);
    let moved = Span { moved: true, ..preempted };
    assert_eq!(cause(&PLAIN, moved, HOG), Some("cfs-preempt"), "it came back to its own CPU");
    assert_eq!(cause(&PLAIN, Span { away: true, ..moved }, HOG), Some("migration"));
    assert_eq!(cause(&PLAIN, moved, STOPPER), Some("migration"));
    assert_eq!(cause(&PLAIN, Span { taken_by: STOPPER, ..moved }, HOG), Some("migration"));
    assert_eq!(cause(&PLAIN, Span { taken_by: SIBLING, ..moved }, HOG), Some("cfs-preempt"));
    // Not moved, or woken and not preempted: whoever ran is the cause.
    assert_eq!(cause(&PLAIN, Span { away: true, ..preempted }, HOG), Some("cfs-preempt"));
    assert_eq!(cause(&PLAIN, preempted, STOPPER), Some("stopper"));
    assert_eq!(
        cause(&PLAIN, Span { state: ActorState::Woken, away: true, ..moved }, HOG),
        Some("cfs-preempt")
    );
}

#[test]
fn behind_a_thread_that_filled_a_stop() {
    let idled = |case: Case| Case { idled: true, ..case };
    let preempted = waits(ActorState::Preempted, SHORT);
    assert_eq!(cause(&idled(QUOTA), preempted, HOG), Some("quota"));
    assert_eq!(cause(&QUOTA, preempted, HOG), Some("cfs-preempt"), "the CPU was busy all the time");
    assert_eq!(cause(&idled(PLAIN), preempted, HOG), Some("cfs-preempt"), "no limit is in force");
    assert_eq!(cause(&idled(QUOTA), waits(ActorState::Woken, SHORT), HOG), Some("cfs-preempt"));
    assert_eq!(cause(&idled(QUOTA), Span { cpu: None, ..preempted }, HOG), Some("cfs-preempt"));
    // It idled in the time before the wait only.
    assert_eq!(cause(&idled(QUOTA), Span { since_ns: SINCE + 5, ..preempted }, HOG), Some("cfs-preempt"));
}

#[test]
fn a_normal_thread_before_a_real_time_one() {
    let (normal, fifo) = (120, 49);
    let from = |case: &Case, state, length, priority, from| {
        cause_from(case, waits(state, length), HOG, priority, from)
    };
    for state in [ActorState::Preempted, ActorState::Woken] {
        assert_eq!(from(&SERVED, state, SHORT, normal, SINCE + 1), Some("fair-server"));
        assert_eq!(from(&THROTTLED, state, LONG, normal, SINCE + 1), Some("rt-throttle"));
        assert_eq!(
            from(&Case { throttling: true, ..SERVED }, state, SHORT, normal, SINCE + 1),
            Some("fair-server")
        );
        assert_eq!(from(&REALTIME, state, SHORT, normal, SINCE + 1), Some("cfs-preempt"));
        assert_eq!(from(&SERVED, state, SHORT, fifo, SINCE + 1), Some("rt-thread"));
        assert_eq!(
            from(&Case { realtime: false, ..SERVED }, state, SHORT, normal, SINCE + 1),
            Some("cfs-preempt")
        );
    }
    assert_eq!(from(&SERVED, ActorState::Unknown, SHORT, normal, SINCE + 1), Some("cfs-preempt"));
    // One that ran already at the wake-up and gives way soon is part of the wake-up.
    assert_eq!(from(&SERVED, ActorState::Woken, SHORT, normal, SINCE), Some("block-recv"));
    assert_eq!(from(&SERVED, ActorState::Woken, LONG, normal, SINCE), Some("fair-server"));
    assert_eq!(from(&SERVED, ActorState::Preempted, SHORT, normal, SINCE), Some("fair-server"));
    assert_eq!(from(&PLAIN, ActorState::Woken, SHORT, normal, SINCE), Some("cfs-preempt"));
    // So is one that came before the wake-up had reached the CPU.
    let queued = Span { queued_ns: Some(SINCE + 9), ..waits(ActorState::Woken, SHORT) };
    assert_eq!(cause_from(&SERVED, queued, HOG, normal, SINCE + 9), Some("block-recv"));
    assert_eq!(cause_from(&SERVED, queued, HOG, normal, SINCE + 10), Some("fair-server"));
}
