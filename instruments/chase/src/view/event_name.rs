//! An event in a few words.

use quaver_abi::record::{EventKind, EventRecord, GapPlace, Vector};
use quaver_analysis::model::Names;
use quaver_view::Cell;

/// Names of softirq vectors, in the order of `/proc/softirqs`.
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// What the event was, by the names that are known.
pub(super) fn event_name(event: &EventRecord, kind: EventKind, names: &Names) -> String {
    let thread = |tid: u32| match (tid, names.task.get(&tid)) {
        (0, _) => "idle".to_owned(),
        (_, Some(name)) => format!("{name} ({tid})"),
        (_, None) => format!("thread {tid}"),
    };
    let function = || names.symbol.get(&event.aux).cloned().unwrap_or_else(|| format!("{:#x}", event.aux));
    match kind {
        EventKind::Nmi => "NMI".to_owned(),
        EventKind::Irq => match names.irq.get(&event.id) {
            Some(name) => format!("irq {} {name}", event.id),
            None => format!("irq {}", event.id),
        },
        EventKind::Vector => vector_name(event.id).to_owned(),
        EventKind::Softirq => match SOFTIRQS.get(event.id as usize) {
            Some(name) => format!("softirq {name}"),
            None => format!("softirq {}", event.id),
        },
        EventKind::Thread => thread(event.id),
        EventKind::Hrtimer => format!("hrtimer {}", function()),
        EventKind::Timer => format!("timer {}", function()),
        EventKind::Work => format!("work {}", function()),
        EventKind::CrossCall => format!("cross call {}", function()),
        EventKind::IdleState => match names.idle_state.get(&event.id) {
            Some(name) => format!("idle state {name}"),
            None => format!("idle state {}", event.id),
        },
        EventKind::Wakeup => format!("wake-up of {}", thread(event.id)),
        EventKind::Migrate => {
            format!(
                "{} migrates from CPU {} to CPU {}",
                thread(event.id),
                event.aux >> 32,
                event.aux & 0xffff_ffff
            )
        }
        EventKind::PageFault => format!("page fault of {}", thread(event.id)),
        EventKind::IpiSend if event.detail == 1 => format!("interrupt sent to {} CPUs", event.id),
        EventKind::IpiSend => format!("interrupt sent to CPU {}", event.id),
        EventKind::TlbFlush => "TLB flush".to_owned(),
        EventKind::Steal => format!("{} taken by the hypervisor", Cell::Duration(event.aux as i64)),
        EventKind::LoopGap => match GapPlace::from_repr(event.detail) {
            Some(GapPlace::UserCode) => "long turn of the receiver: in its own code".to_owned(),
            Some(GapPlace::Call) => "long turn of the receiver: in a receive call".to_owned(),
            Some(GapPlace::EmptyPoll) => "long turn of the receiver: in an empty poll".to_owned(),
            Some(GapPlace::Send) => "long send call of the source".to_owned(),
            None => "long turn of the receiver".to_owned(),
        },
        EventKind::SoftirqRaise => "softirq raised".to_owned(),
        EventKind::Sleep => format!("sleep of {}", thread(event.id)),
        EventKind::Frame => format!("frame {}", function()),
        EventKind::SystemCall => match names.call.get(&event.aux) {
            Some(name) => format!("system call {name}"),
            None => format!("system call {}", event.aux),
        },
        EventKind::Sample => format!("sample of {}", thread(event.id)),
        EventKind::TaskName => thread(event.id),
    }
}

fn vector_name(raw: u32) -> &'static str {
    match Vector::from_repr(raw) {
        Some(Vector::LocalTimer) => "local timer interrupt",
        Some(Vector::Reschedule) => "reschedule interrupt",
        Some(Vector::CallFunction) => "call-function interrupt (many CPUs)",
        Some(Vector::CallFunctionSingle) => "call-function interrupt",
        Some(Vector::IrqWork) => "irq_work interrupt",
        Some(Vector::Thermal) => "thermal interrupt",
        Some(Vector::Threshold) => "machine-check threshold interrupt",
        Some(Vector::DeferredError) => "deferred-error interrupt",
        Some(Vector::Spurious) => "spurious interrupt",
        Some(Vector::ErrorApic) => "APIC error interrupt",
        Some(Vector::Platform) => "platform interrupt",
        None => "unknown vector",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_used_and_unknown_ones_are_numbers() {
        let names = Names {
            irq: [(41, "virtio3-rx".to_owned())].into(),
            task: [(77, "stress".to_owned())].into(),
            symbol: [(0xff00, "tick_nohz_handler".to_owned())].into(),
            ..Names::default()
        };
        let name = |kind: EventKind, id, aux| {
            event_name(&EventRecord { id, aux, kind: kind as u8, ..EventRecord::default() }, kind, &names)
        };
        assert_eq!(name(EventKind::Irq, 41, 0), "irq 41 virtio3-rx");
        assert_eq!(name(EventKind::Irq, 42, 0), "irq 42");
        assert_eq!(name(EventKind::Thread, 77, 0), "stress (77)");
        assert_eq!(name(EventKind::Thread, 0, 0), "idle");
        assert_eq!(name(EventKind::Softirq, 3, 0), "softirq NET_RX");
        assert_eq!(name(EventKind::Hrtimer, 0, 0xff00), "hrtimer tick_nohz_handler");
        assert_eq!(name(EventKind::Timer, 0, 0xabc), "timer 0xabc");
        assert_eq!(name(EventKind::Migrate, 77, (1 << 32) | 2), "stress (77) migrates from CPU 1 to CPU 2");
    }
}
