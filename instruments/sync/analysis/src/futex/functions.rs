//! Calls of the thread library that probes tell of, as events. What a thread asks the kernel for inside of one is no event of its
//! own.

use crate::sync::{SyncEvent, ThreadId};
use quaver_abi::kernel_side::{KernelSideKind, KernelSideRecord};
use quaver_abi::sync::{SyncKind, SyncOutcome};
use std::collections::BTreeMap;

/// What functions of the thread library return, as errno(3) numbers it.
const EINTR: u32 = 4;
const ETIMEDOUT: u32 = 110;
/// PTHREAD_BARRIER_SERIAL_THREAD.
const SERIAL: u32 = u32::MAX;

/// Follows which calls are open.
#[derive(Debug, Default)]
pub struct FunctionCalls {
    open: BTreeMap<u32, SyncEvent>,
}

impl FunctionCalls {
    /// The event that a record tells of, if it is one of a probe.
    pub fn take(&mut self, record: &KernelSideRecord) -> Option<SyncEvent> {
        let kind = SyncKind::from_repr(u8::try_from(record.operand).ok()?);
        match KernelSideKind::from_repr(record.kind)? {
            KernelSideKind::FunctionEnter => {
                let event = SyncEvent {
                    at_ns: record.at_ns,
                    object: record.value,
                    call_site: 0,
                    thread: ThreadId(record.thread),
                    detail: if kind? == SyncKind::WaitEntry { record.other } else { 0 },
                    cpu: record.cpu,
                    process: 0,
                    kind: kind?,
                    outcome: SyncOutcome::Ok,
                    flags: 0,
                };
                self.open.insert(record.thread, event);
                Some(event)
            }
            KernelSideKind::FunctionExit => {
                // Of a call that began before the probes nobody knows what it was about.
                let open = self.open.remove(&record.thread)?;
                let outcome = match record.value as u32 {
                    0 => SyncOutcome::Ok,
                    SERIAL => SyncOutcome::Serial,
                    ETIMEDOUT => SyncOutcome::Timeout,
                    EINTR => SyncOutcome::Interrupted,
                    _ => SyncOutcome::Failed,
                };
                Some(SyncEvent { at_ns: record.at_ns, cpu: record.cpu, kind: kind?, outcome, ..open })
            }
            KernelSideKind::Exit => {
                self.open.remove(&record.thread);
                None
            }
            _ => None,
        }
    }

    /// Whether a thread is inside such a call.
    pub fn is_inside(&self, thread: ThreadId) -> bool {
        self.open.contains_key(&thread.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_keeps_its_object_until_it_returns() {
        let record = |at_ns, kind: KernelSideKind, of: SyncKind, value| KernelSideRecord {
            at_ns,
            value,
            thread: 7,
            other: 9,
            operand: of as u32,
            kind: kind as u8,
            ..Default::default()
        };
        use KernelSideKind::{FunctionEnter, FunctionExit};
        let mut calls = FunctionCalls::default();
        assert_eq!(calls.take(&record(5, FunctionExit, SyncKind::WaitExit, 0)), None, "it began before");
        let entry = calls.take(&record(10, FunctionEnter, SyncKind::WaitEntry, 0xc0)).unwrap();
        assert_eq!((entry.object, entry.detail, entry.kind), (0xc0, 9, SyncKind::WaitEntry));
        assert!(calls.is_inside(ThreadId(7)) && !calls.is_inside(ThreadId(8)));
        let exit = calls.take(&record(20, FunctionExit, SyncKind::WaitExit, 110)).unwrap();
        assert_eq!((exit.at_ns, exit.object, exit.detail), (20, 0xc0, 9));
        assert_eq!((exit.kind, exit.outcome), (SyncKind::WaitExit, SyncOutcome::Timeout));
        assert!(!calls.is_inside(ThreadId(7)));
        calls.take(&record(30, FunctionEnter, SyncKind::BarrierEntry, 0xb0));
        let exit = calls.take(&record(31, FunctionExit, SyncKind::BarrierExit, u64::from(SERIAL))).unwrap();
        assert_eq!(exit.outcome, SyncOutcome::Serial);
    }
}
