//! Switches and wake-ups as the kernel's own events: Perfetto's tables of thread states, and its queries of critical paths, are made
//! of these.

use super::{Drawing, SEQUENCE, Trace, TracePacket};
use prost::Message;
use quaver_abi::record::{EventKind, EventRecord, OffCpu, WakeContext, Wakeup};
use std::collections::BTreeMap;
use std::io;

/// Bits of `common_flags`: in an interrupt handler, in a softirq (`TRACE_FLAG_HARDIRQ`, `TRACE_FLAG_SOFTIRQ`).
const HARDIRQ: u32 = 0x08;
const SOFTIRQ: u32 = 0x10;

#[derive(Clone, PartialEq, Message)]
pub struct FtraceEventBundle {
    #[prost(uint32, optional, tag = "1")]
    pub cpu: Option<u32>,
    #[prost(message, optional, tag = "4")]
    pub compact_sched: Option<CompactSched>,
}

/// Columns of switches and of wake-ups. Times are distances from the one before.
#[derive(Clone, PartialEq, Message)]
pub struct CompactSched {
    #[prost(uint64, repeated, tag = "1")]
    pub switch_timestamp: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub switch_prev_state: Vec<i64>,
    #[prost(int32, repeated, tag = "3")]
    pub switch_next_pid: Vec<i32>,
    #[prost(int32, repeated, tag = "4")]
    pub switch_next_prio: Vec<i32>,
    #[prost(string, repeated, tag = "5")]
    pub intern_table: Vec<String>,
    #[prost(uint32, repeated, tag = "6")]
    pub switch_next_comm_index: Vec<u32>,
    #[prost(uint64, repeated, tag = "7")]
    pub waking_timestamp: Vec<u64>,
    #[prost(int32, repeated, tag = "8")]
    pub waking_pid: Vec<i32>,
    #[prost(int32, repeated, tag = "9")]
    pub waking_target_cpu: Vec<i32>,
    #[prost(int32, repeated, tag = "10")]
    pub waking_prio: Vec<i32>,
    #[prost(uint32, repeated, tag = "11")]
    pub waking_comm_index: Vec<u32>,
    #[prost(uint32, repeated, tag = "12")]
    pub waking_common_flags: Vec<u32>,
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
        let mut by_cpu: BTreeMap<u16, [Vec<EventRecord>; 2]> = BTreeMap::new();
        for event in drawing.events {
            let kind = EventKind::from_repr(event.kind);
            let which = match kind {
                // What takes no time is no interval of a state.
                Some(EventKind::Thread) if event.end_ns > event.start_ns => 0,
                // That the thread is to be woken; that it was woken is another record of some tracers.
                Some(EventKind::Wakeup) if event.detail == 1 => 1,
                _ => continue,
            };
            if drawing.touches(event.start_ns.cast_signed(), event.end_ns.cast_signed()) {
                by_cpu.entry(event.cpu).or_default()[which].push(*event);
            }
        }
        for (cpu, [mut threads, mut wakeups]) in by_cpu {
            threads.sort_by_key(|event| event.start_ns);
            wakeups.sort_by_key(|event| event.start_ns);
            let mut columns = Columns { drawing, sched: CompactSched::default(), names: BTreeMap::new() };
            columns.switches(&threads);
            columns.wakeups(&wakeups);
            self.packet(TracePacket {
                ftrace_events: Some(FtraceEventBundle {
                    cpu: Some(cpu.into()),
                    compact_sched: Some(columns.sched),
                }),
                trusted_packet_sequence_id: Some(SEQUENCE),
                ..TracePacket::default()
            })?;
        }
        Ok(())
    }
}

/// The columns of a CPU as they are filled.
struct Columns<'a> {
    drawing: &'a Drawing<'a>,
    sched: CompactSched,
    names: BTreeMap<u32, u32>,
}

impl Columns<'_> {
    /// The place of a thread's name.
    fn name(&mut self, thread: u32) -> u32 {
        *self.names.entry(thread).or_insert_with(|| {
            let known = self.drawing.names.task.get(&thread);
            let idle = if thread == 0 { "swapper" } else { "" };
            self.sched.intern_table.push(known.map_or(idle, String::as_str).to_owned());
            self.sched.intern_table.len() as u32 - 1
        })
    }

    /// Switches between the threads of the CPU. Between two intervals that do not touch, it is idle.
    fn switches(&mut self, threads: &[EventRecord]) {
        let (mut last_ns, mut before) = (0, None::<&EventRecord>);
        let mut switch = |at_ns: u64, from: Option<&EventRecord>, to: Option<&EventRecord>| {
            let next = to.map_or(0, |event| event.id);
            let name = self.name(next);
            let sched = &mut self.sched;
            sched.switch_timestamp.push(at_ns.saturating_sub(std::mem::replace(&mut last_ns, at_ns)));
            sched.switch_prev_state.push(from.map_or(0, state));
            sched.switch_next_pid.push(next.cast_signed());
            sched.switch_next_prio.push(to.map_or(120, |event| (event.aux as u32).cast_signed()));
            sched.switch_next_comm_index.push(name);
        };
        // Perfetto takes the first switch of a CPU only to know what it left.
        if let Some(first) = threads.first() {
            switch(first.start_ns.saturating_sub(1), None, None);
        }
        for thread in threads {
            if let Some(left) = before.take_if(|left| left.end_ns < thread.start_ns) {
                switch(left.end_ns, Some(left), None);
            }
            switch(thread.start_ns, before, Some(thread));
            before = Some(thread);
        }
        if let Some(last) = before {
            switch(last.end_ns, Some(last), None);
        }
    }

    fn wakeups(&mut self, wakeups: &[EventRecord]) {
        let mut last_ns = 0;
        for event in wakeups {
            let wakeup = Wakeup::from_aux(event.aux);
            let name = self.name(event.id);
            let sched = &mut self.sched;
            sched.waking_timestamp.push(event.start_ns - std::mem::replace(&mut last_ns, event.start_ns));
            sched.waking_pid.push(event.id.cast_signed());
            sched.waking_target_cpu.push(wakeup.cpu.into());
            sched.waking_prio.push(120);
            sched.waking_comm_index.push(name);
            sched.waking_common_flags.push(match wakeup.context {
                WakeContext::Interrupt | WakeContext::Vector | WakeContext::Timer => HARDIRQ,
                WakeContext::Softirq | WakeContext::Stream => SOFTIRQ,
                WakeContext::Task | WakeContext::Unknown => 0,
            });
        }
    }
}
