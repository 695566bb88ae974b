//! Switches and wake-ups as the kernel's own events: Perfetto's tables of thread states, and its queries of critical paths, are made
//! of these.

use super::{Drawing, SEQUENCE, Trace, TracePacket};
use prost::Message;
use quaver_abi::record::{EventKind, EventRecord, OffCpu, WakeContext, Wakeup};
use std::collections::BTreeMap;
use std::io;

/// Events of a message.
const BUNDLE: usize = 1_000;
/// Bits of `common_flags`: in an interrupt handler, in a softirq (`TRACE_FLAG_HARDIRQ`, `TRACE_FLAG_SOFTIRQ`).
const HARDIRQ: u32 = 0x08;
const SOFTIRQ: u32 = 0x10;

#[derive(Clone, PartialEq, Message)]
pub struct FtraceEventBundle {
    #[prost(uint32, optional, tag = "1")]
    pub cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    pub event: Vec<FtraceEvent>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    pub timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pub pid: Option<u32>,
    #[prost(message, optional, tag = "4")]
    pub sched_switch: Option<SchedSwitch>,
    #[prost(uint32, optional, tag = "5")]
    pub common_flags: Option<u32>,
    #[prost(message, optional, tag = "20")]
    pub sched_waking: Option<SchedWaking>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedSwitch {
    #[prost(string, optional, tag = "1")]
    pub prev_comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub prev_pid: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub prev_prio: Option<i32>,
    #[prost(int64, optional, tag = "4")]
    pub prev_state: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub next_comm: Option<String>,
    #[prost(int32, optional, tag = "6")]
    pub next_pid: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    pub next_prio: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedWaking {
    #[prost(string, optional, tag = "1")]
    pub comm: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub pid: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub target_cpu: Option<i32>,
}

/// The state in which a thread leaves its CPU, as the kernel prints it. One whose reason is unknown counts as runnable.
fn state(event: &EventRecord) -> i64 {
    match OffCpu::from_raw(event.detail) {
        OffCpu::Unknown | OffCpu::Preempted | OffCpu::Yielded | OffCpu::Throttled => 0,
        OffCpu::Uninterruptible => 2,
        OffCpu::Stopped | OffCpu::Frozen => 4,
        OffCpu::Traced => 8,
        OffCpu::Exited => 16,
        OffCpu::Parked => 64,
        _ => 1,
    }
}

impl Trace<'_> {
    pub(super) fn scheduling(&mut self, drawing: &Drawing<'_>) -> io::Result<()> {
        let comm = |thread: u32| match thread {
            0 => Some("swapper".to_owned()),
            thread => drawing.names.task.get(&thread).cloned(),
        };
        let mut by_cpu: BTreeMap<u16, (Vec<EventRecord>, Vec<FtraceEvent>)> = BTreeMap::new();
        for event in drawing.events {
            if !drawing.touches(event.start_ns.cast_signed(), event.end_ns.cast_signed()) {
                continue;
            }
            let (threads, events) = by_cpu.entry(event.cpu).or_default();
            match EventKind::from_repr(event.kind) {
                Some(EventKind::Thread) => threads.push(*event),
                Some(EventKind::Wakeup) => events.push(waking(event, comm(event.id))),
                _ => {}
            }
        }
        for (cpu, (mut threads, mut events)) in by_cpu {
            threads.sort_by_key(|event| event.start_ns);
            switches(&threads, comm, &mut events);
            events.sort_by_key(|event| event.timestamp);
            for events in events.chunks(BUNDLE) {
                let bundle = FtraceEventBundle { cpu: Some(cpu.into()), event: events.to_vec() };
                self.packet(TracePacket {
                    ftrace_events: Some(bundle),
                    trusted_packet_sequence_id: Some(SEQUENCE),
                    ..TracePacket::default()
                })?;
            }
        }
        Ok(())
    }
}

fn waking(event: &EventRecord, comm: Option<String>) -> FtraceEvent {
    let wakeup = Wakeup::from_aux(event.aux);
    let flags = match wakeup.context {
        WakeContext::Interrupt | WakeContext::Vector | WakeContext::Timer => HARDIRQ,
        WakeContext::Softirq | WakeContext::Stream => SOFTIRQ,
        WakeContext::Task | WakeContext::Unknown => 0,
    };
    FtraceEvent {
        timestamp: Some(event.start_ns),
        pid: Some(wakeup.current),
        common_flags: Some(flags),
        sched_waking: Some(SchedWaking {
            comm,
            pid: Some(event.id.cast_signed()),
            target_cpu: Some(i32::from(wakeup.cpu)),
        }),
        ..FtraceEvent::default()
    }
}

/// Switches between the threads of a CPU. Between two intervals that do not touch, it is idle.
fn switches(threads: &[EventRecord], comm: impl Fn(u32) -> Option<String>, out: &mut Vec<FtraceEvent>) {
    let priority = |event: &EventRecord| Some(event.aux as u32 as i32);
    let mut switch = |at_ns: u64, from: Option<&EventRecord>, to: Option<&EventRecord>| {
        let [from_id, to_id] = [from, to].map(|event| event.map_or(0, |event| event.id));
        out.push(FtraceEvent {
            timestamp: Some(at_ns),
            pid: Some(from_id),
            sched_switch: Some(SchedSwitch {
                prev_comm: comm(from_id),
                prev_pid: Some(from_id.cast_signed()),
                prev_prio: from.map_or(Some(120), priority),
                prev_state: Some(from.map_or(0, state)),
                next_comm: comm(to_id),
                next_pid: Some(to_id.cast_signed()),
                next_prio: to.map_or(Some(120), priority),
            }),
            ..FtraceEvent::default()
        });
    };
    let mut before: Option<&EventRecord> = None;
    for thread in threads {
        if let Some(left) = before.filter(|left| left.end_ns < thread.start_ns) {
            switch(left.end_ns, Some(left), None);
            before = None;
        }
        switch(thread.start_ns, before, Some(thread));
        before = Some(thread);
    }
    if let Some(last) = before {
        switch(last.end_ns, Some(last), None);
    }
}
