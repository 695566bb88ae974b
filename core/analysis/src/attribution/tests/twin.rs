//! The brute-force twin: asks each nanosecond by itself who had it, from the raw events.

use super::scene::{event, thread};
use crate::attribution::actor::lives;
use crate::attribution::engine::{Ask, Engine, Queued};
use crate::attribution::faults::Faults;
use crate::attribution::naming::Namer;
use crate::attribution::timeline::Timeline;
use crate::model::{Actor, Circumstances, Names};
use proptest::prelude::*;
use quaver_abi::record::{EventKind, EventRecord, OffCpu};

const RECEIVER: u32 = 7;
const HOG: u32 = 8;
const LENGTH: i64 = 400;

/// Who had a nanosecond: the catalogue's identifier.
type Owner = Option<&'static str>;

fn covers(event: &EventRecord, t: i64) -> bool {
    event.start_ns as i64 <= t && t < event.end_ns as i64
}

fn innermost<'a>(
    events: &'a [EventRecord],
    cpu: u16,
    t: i64,
    kinds: &[EventKind],
) -> Option<&'a EventRecord> {
    events
        .iter()
        .filter(|e| e.cpu == cpu && covers(e, t) && kinds.iter().any(|&kind| kind as u8 == e.kind))
        .max_by_key(|e| (e.start_ns, std::cmp::Reverse(e.end_ns)))
}

/// The twin's own statement of the rules, for a normal receiver under a quota.
fn owner(events: &[EventRecord], t: i64, packet_waits: bool, blocking: bool, quota: bool) -> Owner {
    let runs = || events.iter().filter(|e| e.kind == EventKind::Thread as u8 && e.id == RECEIVER);
    let before = runs().filter(|e| e.end_ns as i64 <= t).max_by_key(|e| e.end_ns);
    let running = runs().any(|e| covers(e, t));
    let woken = before.is_some_and(|run| {
        events.iter().any(|e| {
            e.kind == EventKind::Wakeup as u8
                && e.id == RECEIVER
                && e.start_ns >= run.end_ns
                && e.start_ns as i64 <= t
        })
    });
    if innermost(events, 1, t, &[EventKind::Nmi]).is_some() {
        return Some("nmi-wd");
    }
    if innermost(events, 1, t, &[EventKind::Irq]).is_some() {
        return Some("dev-irq");
    }
    if let Some(softirq) = innermost(events, 1, t, &[EventKind::Softirq]) {
        return Some(if softirq.id == 3 { "net-rx" } else { "sched-softirq" });
    }
    if running {
        return None;
    }
    let holder = innermost(events, 1, t, &[EventKind::Thread])?;
    let left = before.map(|run| OffCpu::from_raw(run.detail));
    let asleep = left == Some(OffCpu::Blocked) && !woken && !(packet_waits && blocking);
    let leaves = before.map_or(0, |run| run.end_ns);
    let back = runs().map(|e| e.start_ns).filter(|&start| start as i64 > t).min().unwrap_or(LENGTH as u64);
    let idled = events
        .iter()
        .any(|e| e.kind == EventKind::Thread as u8 && e.id == 0 && e.start_ns < back && e.end_ns > leaves);
    match (left, holder.id) {
        _ if asleep => None,
        // A CPU that idles beside a runnable receiver: it was stopped, and the other only filled the stop.
        (Some(OffCpu::Preempted), HOG) if quota && idled => Some("quota"),
        (_, HOG) => Some("cfs-preempt"),
        (Some(OffCpu::Preempted), 0) => quota.then_some("quota"),
        (Some(OffCpu::Blocked), 0) => Some("block-recv"),
        _ => None,
    }
}

/// A schedule of one CPU: who runs how long and why it leaves; then interruptions at any time.
fn scenes() -> impl Strategy<Value = Vec<EventRecord>> {
    let turns = prop::collection::vec((0usize..3, 5i64..60, any::<bool>(), 0i64..60, any::<bool>()), 1..14);
    let others = prop::collection::vec((0usize..4, 0i64..LENGTH, 0i64..60, 0u16..2), 0..16);
    (turns, others).prop_map(|(turns, others)| {
        let mut events = Vec::new();
        let mut at = 1;
        for (who, length, blocks, wake, hole) in turns {
            let id = [0, RECEIVER, HOG][who];
            let left = if blocks { OffCpu::Blocked } else { OffCpu::Preempted };
            if !hole || id == RECEIVER {
                events.push(thread(id, 120, 1, at, at + length, left));
            }
            at += length;
            if id == RECEIVER && blocks {
                events.push(event(EventKind::Wakeup, 0, at + wake, at + wake, RECEIVER, 1));
            }
        }
        for (kind, start, length, cpu) in others {
            let (kind, id) =
                [(EventKind::Irq, 4), (EventKind::Softirq, 3), (EventKind::Softirq, 7), (EventKind::Nmi, 0)]
                    [kind];
            events.push(event(kind, cpu, start, start + length, id, 0));
        }
        events
    })
}

fn engine_owners(events: &[EventRecord], waits: bool, blocking: bool, quota: bool) -> Vec<Owner> {
    let names = Names::default();
    let timeline = Timeline::new(events);
    let namer = Namer::new(&timeline, &names, None);
    let circumstances = Circumstances { quota_stops: u64::from(quota), ..Circumstances::default() };
    let faults = Faults::default();
    let mut engine = Engine::new(&namer, &circumstances, &faults);
    let actor = Actor { threads: vec![RECEIVER], blocking, ..Actor::default() };
    let lives = lives(events, &[RECEIVER]);
    let ask = Ask { from_ns: 0, to_ns: LENGTH, shift_ns: 0, cpu: 1 };
    engine.receiver(ask, &actor, lives.first(), if waits { Queued::Yes } else { Queued::No });
    let drafts = std::mem::take(&mut engine.drafts);
    let (ranked, places) = engine.causes.rank(1, None);
    let mut owners = Vec::new();
    for draft in drafts {
        assert_eq!(draft.start_ns, owners.len() as i64, "pieces must follow each other");
        let id = draft.cause.map(|cause| {
            let id = &ranked[places[cause as usize] as usize].source;
            crate::attribution::naming::EMITTED.iter().copied().find(|emitted| emitted == id).expect("listed")
        });
        owners.extend((draft.start_ns..draft.end_ns).map(|_| id));
    }
    assert_eq!(owners.len() as i64, LENGTH, "pieces must cover the window");
    owners
}

proptest! {
    #[test]
    fn the_engine_agrees_with_its_twin(
        events in scenes(), waits in any::<bool>(), blocking in any::<bool>(), quota in any::<bool>(),
    ) {
        let owners = engine_owners(&events, waits, blocking, quota);
        for (t, found) in owners.iter().enumerate() {
            prop_assert_eq!(*found, owner(&events, t as i64, waits, blocking, quota), "at {}", t);
        }
    }

    #[test]
    fn the_time_of_a_deleted_class_becomes_unexplained_or_goes_to_what_encloses_it(
        events in scenes(), victim in 0usize..4, quota in any::<bool>(),
    ) {
        let (kind, id, name) = [
            (EventKind::Irq, 4, "dev-irq"),
            (EventKind::Softirq, 3, "net-rx"),
            (EventKind::Nmi, 0, "nmi-wd"),
            (EventKind::Thread, HOG, "cfs-preempt"),
        ][victim];
        let kept: Vec<_> =
            events.iter().copied().filter(|e| !(e.kind == kind as u8 && e.id == id)).collect();
        let before = engine_owners(&events, true, true, quota);
        let after = engine_owners(&kept, true, true, quota);
        for (t, (was, is)) in before.iter().zip(&after).enumerate() {
            let deleted = |e: &EventRecord| e.kind == kind as u8 && e.id == id && e.cpu == 1;
            let filled_a_stop =
                *was == Some("quota") && kind == EventKind::Thread && events.iter().any(|e| deleted(e) && covers(e, t as i64));
            if *was != Some(name) && !filled_a_stop {
                prop_assert_eq!(was, is, "at {}", t);
            } else if is.is_some() {
                let receiver = |e: &EventRecord| e.kind == EventKind::Thread as u8 && e.id == RECEIVER;
                let enclosed = kept.iter().any(|e| e.cpu == 1 && covers(e, t as i64) && !receiver(e));
                prop_assert!(enclosed, "at {}: {:?}", t, is);
                prop_assert_ne!(*is, Some(name));
            }
        }
    }
}
