//! Intervals that were open when recording ended: their start waits in the CPU's state.

use super::layout::CpuState;
use super::memory::Mapping;
use quaver_abi::record::{EventKind, EventRecord};

/// Drops what is left of an earlier recording. Nothing is attached, so plain writes do.
pub(crate) fn forget(cpus: &Mapping<CpuState>, cpu: usize) {
    let state = cpus.at(cpu);
    // SAFETY: inside the mapping and aligned; no program runs while nothing is attached.
    unsafe {
        (*state).thread_ns = 0;
        (*state).irq_ns = 0;
        (*state).softirq_ns = 0;
        (*state).idle_ns = 0;
        (*state).in_net_rx = 0;
        (*state).vector_ns = Default::default();
        (*state).hrtimer = Default::default();
        (*state).timer = Default::default();
        (*state).cross_call = Default::default();
        (*state).raised_irq_ns = 0;
        (*state).last_enqueued = 0;
        // What was taken meanwhile belongs to no recording.
        (*state).seen_ns = 0;
        (*state).pending_head = (*state).pending_tail;
        (*state).stream_enters = 0;
        (*state).woken_thread = 0;
    }
}

/// Adds a record for each interval of `state` that has a start but no end. A CPU switches threads in no hard interrupt: one that
/// began before the thread did that runs now has ended unseen, as those do during which the programs were attached.
pub(crate) fn close(cpu: u16, state: &CpuState, end_ns: u64, events: &mut Vec<EventRecord>) {
    if state.recorded == 0 {
        return;
    }
    let mut add = |kind: EventKind, start_ns: u64, id: u32, aux: u64| {
        if start_ns != 0 && start_ns <= end_ns {
            events.push(EventRecord { start_ns, end_ns, aux, id, cpu, kind: kind as u8, detail: 0 });
        }
    };
    add(EventKind::Thread, state.thread_ns, state.thread_id, u64::from(state.thread_priority));
    add(EventKind::Irq, state.irq_ns, state.irq_number, 0);
    add(EventKind::Softirq, state.softirq_ns, state.softirq_vector, 0);
    add(EventKind::IdleState, state.idle_ns, state.idle_state, 0);
    let has_ended = |start_ns: u64| start_ns < state.thread_ns;
    for (vector, start_ns) in
        state.vector_ns.iter().enumerate().filter(|(_, start_ns)| !has_ended(**start_ns))
    {
        add(EventKind::Vector, *start_ns, vector as u32, 0);
    }
    for (kind, open) in [
        (EventKind::Hrtimer, state.hrtimer[0]),
        (EventKind::Hrtimer, state.hrtimer[1]),
        (EventKind::Timer, state.timer),
        (EventKind::CrossCall, state.cross_call[0]),
        (EventKind::CrossCall, state.cross_call[1]),
    ] {
        if open.key != 0 && (kind != EventKind::CrossCall || !has_ended(open.start_ns)) {
            add(kind, open.start_ns, 0, open.aux);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::OpenInterval;
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn a_hard_interrupt_ends_before_the_next_thread_runs() {
        let mut state = CpuState { recorded: 1, thread_ns: 500, thread_id: 7, ..CpuState::new_zeroed() };
        state.cross_call = [100, 600].map(|start_ns| OpenInterval { start_ns, key: 1, aux: 9 });
        state.vector_ns[1..3].copy_from_slice(&[200, 700]);
        let mut events = Vec::new();
        close(0, &state, 1_000, &mut events);
        let mut kept: Vec<(u8, u64)> = events.iter().map(|event| (event.kind, event.start_ns)).collect();
        kept.sort_by_key(|(_, start_ns)| *start_ns);
        let wanted = [(EventKind::Thread, 500), (EventKind::CrossCall, 600), (EventKind::Vector, 700)];
        assert_eq!(kept, wanted.map(|(kind, start_ns)| (kind as u8, start_ns)));
    }
}
