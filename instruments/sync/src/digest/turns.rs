//! Turns of threads on a CPU that no switch told of.
//!
//! Kernels do not tell of every switch: on some hosts a switch away from some threads of the system never reaches the
//! tracepoint. A thread that was preempted by one of those would stand in a run queue until its next switch, however long it
//! computes meanwhile.

use quaver_abi::kernel_side::{KernelSideKind as Kind, KernelSideRecord};
use quaver_abi::record::OffCpu;
use std::collections::BTreeMap;

/// Follows which thread has which CPU, as far as records told.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// By CPU.
    current: BTreeMap<u16, u32>,
}

impl Turns {
    /// To be told of each record in the order of time. The switch that must lie before it, where none was told. BPF tells when it was
    /// once the thread leaves the CPU, within 2 s (`hidden_switch` of `sync.bpf.c`). Else that is not known: it has the instant of the
    /// record, by which it was over.
    pub(super) fn before(&mut self, record: &KernelSideRecord) -> Option<KernelSideRecord> {
        if record.kind == Kind::Switch as u8 {
            self.comes(record.cpu, record.other);
            return None;
        }
        let thread = current_of(record)?;
        let before = self.comes(record.cpu, thread)?;
        (before != thread).then_some(KernelSideRecord {
            at_ns: record.at_ns,
            value: 0,
            thread: before,
            other: thread,
            operand: 0,
            cpu: record.cpu,
            kind: Kind::Switch as u8,
            detail: OffCpu::Preempted as u8,
        })
    }

    /// A thread has a CPU, and so no other one. Who had it; 0 where that one is elsewhere by now.
    fn comes(&mut self, cpu: u16, thread: u32) -> Option<u32> {
        let before = self.current.insert(cpu, thread);
        if thread != 0 && before != Some(thread) {
            let elsewhere =
                self.current.iter_mut().filter(|(at, current)| **at != cpu && **current == thread);
            elsewhere.for_each(|(_, current)| *current = 0);
        }
        before
    }
}

/// The thread that had the CPU when the record was made; none where the record does not tell.
fn current_of(record: &KernelSideRecord) -> Option<u32> {
    let tells = matches!(
        Kind::from_repr(record.kind)?,
        Kind::FutexEnter
            | Kind::FutexExit
            | Kind::IrqEnter
            | Kind::IrqExit
            | Kind::SoftirqEnter
            | Kind::SoftirqExit
            | Kind::SystemCall
            | Kind::FunctionEnter
            | Kind::FunctionExit
            | Kind::Sample
    );
    (tells && record.thread != 0).then_some(record.thread)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at_ns: u64, cpu: u16, kind: Kind, thread: u32, other: u32) -> KernelSideRecord {
        let detail = OffCpu::Preempted as u8;
        KernelSideRecord { at_ns, value: 0, thread, other, operand: 0, cpu, kind: kind as u8, detail }
    }

    #[test]
    fn a_thread_that_is_seen_to_run_has_its_cpu_again() {
        let mut turns = Turns::default();
        assert_eq!(turns.before(&record(10, 1, Kind::Sample, 7, 0)), None, "nobody was known there");
        assert_eq!(turns.before(&record(20, 1, Kind::Switch, 7, 70)), None);
        let told = turns.before(&record(30, 1, Kind::Sample, 7, 0));
        assert_eq!(told, Some(record(30, 1, Kind::Switch, 70, 7)));
        assert_eq!(turns.before(&record(40, 1, Kind::Sample, 7, 0)), None, "once is enough");
        // Who is woken need not run, and an idle CPU is nobody's.
        assert_eq!(turns.before(&record(50, 1, Kind::Wakeup, 8, 0)), None);
        assert_eq!(turns.before(&record(60, 1, Kind::IrqEnter, 0, 0)), None);
    }

    #[test]
    fn a_thread_that_moved_left_its_cpu() {
        let mut turns = Turns::default();
        assert_eq!(turns.before(&record(10, 0, Kind::Switch, 0, 7)), None);
        assert_eq!(turns.before(&record(20, 1, Kind::Switch, 0, 7)), None);
        let told = turns.before(&record(30, 0, Kind::FutexEnter, 8, 0));
        assert_eq!(told, Some(record(30, 0, Kind::Switch, 0, 8)), "it is not the one that moved that leaves");
    }
}
