//! What an event is called in files and timelines.

use quaver_abi::record::{EventKind, EventRecord, GapPlace, OffCpu, SleepObject, Vector};
use quaver_analysis::model::Names;

/// Softirqs in the order of `/proc/softirqs`.
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// Name of a kind of event in `events.parquet`; none for a number that this version does not know.
pub fn kind_name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Nmi => "nmi",
        EventKind::Irq => "irq",
        EventKind::Vector => "vector",
        EventKind::Softirq => "softirq",
        EventKind::Thread => "thread",
        EventKind::Hrtimer => "hrtimer",
        EventKind::Timer => "timer",
        EventKind::Work => "work",
        EventKind::CrossCall => "cross-call",
        EventKind::IdleState => "idle-state",
        EventKind::SystemCall => "system-call",
        EventKind::Steal => "steal",
        EventKind::Wakeup => "wakeup",
        EventKind::Migrate => "migrate",
        EventKind::PageFault => "page-fault",
        EventKind::IpiSend => "ipi-send",
        EventKind::TlbFlush => "tlb-flush",
        EventKind::SoftirqRaise => "softirq-raise",
        EventKind::Sleep => "sleep",
        EventKind::Frame => "frame",
        EventKind::Sample => "sample",
        EventKind::LoopGap => "loop-gap",
        EventKind::TaskName => "task-name",
    }
}

/// Name of what an event's `detail` numbers; none of a kind whose detail is no enumeration.
pub(crate) fn detail_name(kind: EventKind, detail: u8) -> Option<&'static str> {
    match kind {
        EventKind::Thread => Some(OffCpu::from_raw(detail).into()),
        EventKind::Sleep => Some(SleepObject::from_raw(detail).into()),
        EventKind::LoopGap => GapPlace::from_repr(detail).map(Into::into),
        _ => None,
    }
}

/// Name of one event, for people: its kind and what it was (`irq 41 virtio3-rx`, `thread stress-ng (812)`).
pub fn event_name(event: &EventRecord, names: &Names) -> String {
    let Some(kind) = EventKind::from_repr(event.kind) else { return format!("kind {}", event.kind) };
    let plain = kind_name(kind);
    match kind {
        EventKind::Irq => match names.irq.get(&event.id) {
            Some(device) => format!("irq {} {device}", event.id),
            None => format!("irq {}", event.id),
        },
        EventKind::Vector => format!("vector {}", vector_name(event.id)),
        EventKind::Softirq | EventKind::SoftirqRaise => {
            let vector = SOFTIRQS.get(event.id as usize).copied().unwrap_or("unknown");
            format!("{plain} {vector}")
        }
        EventKind::Thread if event.id == 0 => "idle".to_owned(),
        EventKind::Thread
        | EventKind::Wakeup
        | EventKind::Migrate
        | EventKind::PageFault
        | EventKind::Sleep
        | EventKind::Sample
        | EventKind::TaskName => match names.task.get(&event.id) {
            Some(name) => format!("{plain} {name} ({})", event.id),
            None => format!("{plain} {}", event.id),
        },
        EventKind::Nmi
        | EventKind::Hrtimer
        | EventKind::Timer
        | EventKind::Work
        | EventKind::CrossCall
        | EventKind::Frame => match names.symbol.get(&event.aux) {
            Some(symbol) => format!("{plain} {symbol}"),
            None if event.aux == 0 => plain.to_owned(),
            None => format!("{plain} {:#x}", event.aux),
        },
        EventKind::IpiSend => match names.symbol.get(&event.aux) {
            Some(symbol) => format!("{plain} {symbol}"),
            None if event.aux == 0 => format!("{plain} reschedule"),
            None => format!("{plain} {:#x}", event.aux),
        },
        EventKind::IdleState => match names.idle_state.get(&event.id) {
            Some(state) => format!("{plain} {state}"),
            None => format!("{plain} {}", event.id),
        },
        EventKind::SystemCall => match names.call.get(&event.aux) {
            Some(call) => format!("{plain} {call}"),
            None => format!("{plain} {}", event.aux),
        },
        EventKind::Steal => format!("{plain} {} ns", event.aux),
        EventKind::LoopGap => match GapPlace::from_repr(event.detail) {
            Some(GapPlace::UserCode) => format!("{plain} in its own code"),
            Some(GapPlace::Call) => format!("{plain} in a receive call"),
            Some(GapPlace::EmptyPoll) => format!("{plain} in an empty poll"),
            Some(GapPlace::Send) => format!("{plain} in a send call"),
            None => plain.to_owned(),
        },
        EventKind::TlbFlush => plain.to_owned(),
    }
}

/// What the name of an event depends on: events of one key share it.
pub(crate) fn name_key(event: &EventRecord) -> (u8, u32, u64) {
    let by_address = matches!(
        EventKind::from_repr(event.kind),
        Some(
            EventKind::Nmi
                | EventKind::Hrtimer
                | EventKind::Timer
                | EventKind::Work
                | EventKind::CrossCall
                | EventKind::IpiSend
                | EventKind::Frame
                | EventKind::SystemCall
                | EventKind::Steal
        )
    );
    let part = if event.kind == EventKind::LoopGap as u8 { u64::from(event.detail) } else { 0 };
    if by_address { (event.kind, 0, event.aux) } else { (event.kind, event.id, part) }
}

fn vector_name(id: u32) -> &'static str {
    match Vector::from_repr(id) {
        Some(Vector::LocalTimer) => "local-timer",
        Some(Vector::Reschedule) => "reschedule",
        Some(Vector::CallFunction) => "call-function",
        Some(Vector::CallFunctionSingle) => "call-function-single",
        Some(Vector::IrqWork) => "irq-work",
        Some(Vector::Thermal) => "thermal",
        Some(Vector::Threshold) => "threshold",
        Some(Vector::DeferredError) => "deferred-error",
        Some(Vector::Spurious) => "spurious",
        Some(Vector::ErrorApic) => "apic-error",
        Some(Vector::Platform) => "platform",
        None => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_it_was() {
        let mut names = Names::default();
        names.irq.insert(41, "virtio3-rx".to_owned());
        names.task.insert(812, "stress-ng".to_owned());
        names.symbol.insert(0xffff_0000, "tick_nohz_handler".to_owned());
        let name = |kind: EventKind, id, aux| {
            event_name(&EventRecord { kind: kind as u8, id, aux, ..EventRecord::default() }, &names)
        };
        assert_eq!(name(EventKind::Irq, 41, 0), "irq 41 virtio3-rx");
        assert_eq!(name(EventKind::Irq, 9, 0), "irq 9");
        assert_eq!(name(EventKind::Thread, 812, 120), "thread stress-ng (812)");
        assert_eq!(name(EventKind::Thread, 0, 0), "idle");
        assert_eq!(name(EventKind::Softirq, 3, 0), "softirq NET_RX");
        assert_eq!(name(EventKind::Hrtimer, 0, 0xffff_0000), "hrtimer tick_nohz_handler");
        assert_eq!(name(EventKind::Vector, 2, 0), "vector reschedule");
        assert_eq!(event_name(&EventRecord { kind: 99, ..EventRecord::default() }, &names), "kind 99");
    }

    /// Names of an event with and without known names, by kind.
    const NAMES: [(u8, &str, &str); 23] = [
        (1, "nmi 0x9", "nmi f"),
        (2, "irq 7", "irq 7 card"),
        (3, "vector threshold", "vector threshold"),
        (4, "softirq SCHED", "softirq SCHED"),
        (5, "thread 7", "thread hog (7)"),
        (6, "hrtimer 0x9", "hrtimer f"),
        (7, "timer 0x9", "timer f"),
        (8, "work 0x9", "work f"),
        (9, "cross-call 0x9", "cross-call f"),
        (10, "idle-state 7", "idle-state C6"),
        (11, "steal 9 ns", "steal 9 ns"),
        (12, "system-call 9", "system-call mmap"),
        (20, "wakeup 7", "wakeup hog (7)"),
        (21, "migrate 7", "migrate hog (7)"),
        (22, "page-fault 7", "page-fault hog (7)"),
        (23, "ipi-send 0x9", "ipi-send f"),
        (24, "tlb-flush", "tlb-flush"),
        (25, "softirq-raise SCHED", "softirq-raise SCHED"),
        (26, "sleep 7", "sleep hog (7)"),
        (28, "sample 7", "sample hog (7)"),
        (29, "loop-gap", "loop-gap"),
        (30, "frame 0x9", "frame f"),
        (40, "task-name 7", "task-name hog (7)"),
    ];

    #[test]
    fn a_detail_has_a_name_where_it_numbers_something() {
        use quaver_abi::record::{Sleep, served};
        let fair = OffCpu::Preempted as u8 | served::KNOWN | served::BY_FAIR_SERVER;
        assert_eq!(detail_name(EventKind::Thread, fair), Some("preempted"));
        assert_eq!(detail_name(EventKind::Thread, 63), Some("unknown"));
        assert_eq!(detail_name(EventKind::Sleep, 6 | Sleep::FOR_DISK), Some("timer-fd"));
        assert_eq!(detail_name(EventKind::LoopGap, 3), Some("empty-poll"));
        assert_eq!((detail_name(EventKind::LoopGap, 9), detail_name(EventKind::Irq, 1)), (None, None));
    }

    #[test]
    fn every_kind_has_its_name_and_events_of_one_key_share_it() {
        let known = Names {
            irq: [(7, "card".to_owned())].into(),
            task: [(7, "hog".to_owned())].into(),
            symbol: [(9, "f".to_owned())].into(),
            idle_state: [(7, "C6".to_owned())].into(),
            call: [(9, "mmap".to_owned())].into(),
            ..Names::default()
        };
        for (kind, unknown, name) in NAMES {
            let event = EventRecord { kind, id: 7, aux: 9, ..EventRecord::default() };
            assert_eq!(event_name(&event, &Names::default()), unknown);
            assert_eq!(event_name(&event, &known), name);
            // The operand that the name is made of is in the key, and the other is not.
            let other = |id, aux| name_key(&EventRecord { id, aux, ..event }) == name_key(&event);
            let by_address = unknown.ends_with('9') || unknown.ends_with("9 ns");
            assert_eq!((other(8, 9), other(7, 8)), (by_address, !by_address), "{name}");
            assert_eq!(name_key(&event).0, kind);
        }
        let name = |kind: EventKind, id, aux| {
            event_name(&EventRecord { kind: kind as u8, id, aux, ..EventRecord::default() }, &known)
        };
        assert_eq!(
            (name(EventKind::IpiSend, 0, 0), name(EventKind::Work, 0, 0)),
            ("ipi-send reschedule".into(), "work".into())
        );
        assert_eq!(
            (name(EventKind::Softirq, 10, 0), name(EventKind::Vector, 12, 0)),
            ("softirq unknown".into(), "vector unknown".into())
        );
        let vectors = (1..12).map(|id| name(EventKind::Vector, id, 0).split_off("vector ".len()));
        let expected = "local-timer reschedule call-function call-function-single irq-work thermal threshold deferred-error spurious apic-error platform";
        assert_eq!(vectors.collect::<Vec<_>>().join(" "), expected);
        let softirqs = (0..10).map(|id| name(EventKind::Softirq, id, 0).split_off("softirq ".len()));
        let expected = "HI TIMER NET_TX NET_RX BLOCK IRQ_POLL TASKLET SCHED HRTIMER RCU";
        assert_eq!(softirqs.collect::<Vec<_>>().join(" "), expected);
    }
}
