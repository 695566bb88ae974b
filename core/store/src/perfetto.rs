//! A run as a Perfetto trace, for ui.perfetto.dev.
//!
//! The messages are the few of Perfetto's `trace.proto` that a timeline needs, with the field numbers of its
//! public definition. Time stamps are CLOCK_MONOTONIC, which the trace declares as its clock.

mod sched;
pub mod threads;

use crate::error::StoreError;
use crate::events::sort_events;
use crate::labels::{event_name, name_key};
use crate::run::{beside, rename_into_place};
use prost::Message;
use quaver_abi::record::{EventKind, EventRecord};
use quaver_analysis::model::{Layer, Names, PacketTable};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// `BUILTIN_CLOCK_MONOTONIC`.
const MONOTONIC: u32 = 3;
/// `BUILTIN_CLOCK_BOOTTIME`, which the kernel's own events are of unless they say otherwise. Here it is the same.
const BOOTTIME: u32 = 6;
/// All packets of the trace are one sequence.
const SEQUENCE: u32 = 1;
/// `SEQ_INCREMENTAL_STATE_CLEARED`.
const STATE_CLEARED: u32 = 1;

pub const SLICE_BEGIN: i32 = 1;
pub const SLICE_END: i32 = 2;
pub const INSTANT: i32 = 3;
pub const COUNTER: i32 = 4;
/// `CounterDescriptor.Unit.UNIT_TIME_NS`.
pub const UNIT_TIME_NS: i32 = 1;

const RECEIVE_TRACK: u64 = 1;
const APPLICATION_TRACK: u64 = 2;
const COUNTER_TRACKS: u64 = 100;
const LATE_TRACKS: u64 = 1_000;
const CPU_TRACKS: u64 = 1 << 32;

#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    #[prost(message, optional, tag = "1")]
    pub ftrace_events: Option<sched::FtraceEventBundle>,
    #[prost(message, optional, tag = "6")]
    pub clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "13")]
    pub sequence_flags: Option<u32>,
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
    #[prost(int32, optional, tag = "2")]
    pub primary_trace_clock: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CounterDescriptor {
    #[prost(int32, optional, tag = "3")]
    pub unit: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    pub r#type: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    pub track_uuid: Option<u64>,
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DebugAnnotation {
    #[prost(uint64, optional, tag = "3")]
    pub uint_value: Option<u64>,
    #[prost(string, optional, tag = "10")]
    pub name: Option<String>,
}

/// A stretch of a late packet with the name of its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedWindow<'a> {
    /// First instant, CLOCK_MONOTONIC nanoseconds.
    pub start_ns: i64,
    /// First instant after it.
    pub end_ns: i64,
    /// Cause.
    pub name: &'a str,
    /// Sequence number of the packet.
    pub seq: u64,
}

/// What to draw.
#[derive(Clone, Copy, Debug)]
pub struct Drawing<'a> {
    /// Events, in any order.
    pub events: &'a [EventRecord],
    /// Names for the events.
    pub names: &'a Names,
    /// Packets.
    pub packets: &'a PacketTable,
    /// Late packets and their causes, in any order; those that overlap are drawn below each other.
    pub windows: &'a [NamedWindow<'a>],
    /// Draw only what touches these instants (CLOCK_MONOTONIC nanoseconds, both included); none: all. A whole
    /// run of millions of packets makes gigabytes.
    pub between_ns: Option<(i64, i64)>,
}

impl Drawing<'_> {
    fn touches(&self, start_ns: i64, end_ns: i64) -> bool {
        self.between_ns.is_none_or(|(from, to)| end_ns >= from && start_ns <= to)
    }
}

/// What was drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCounts {
    /// Intervals on CPU tracks.
    pub intervals: u64,
    /// Of these, intervals that outlast the one around them (records of a lossy trace) and are drawn in parts.
    pub split: u64,
    /// Points on CPU tracks.
    pub points: u64,
    /// Packets.
    pub packets: u64,
    /// Late windows.
    pub windows: u64,
}

/// Writes a Perfetto trace to a file, whole or not at all.
///
/// # Errors
/// The file cannot be written.
pub fn write_perfetto(path: &Path, drawing: &Drawing<'_>) -> Result<TraceCounts, StoreError> {
    let part = beside(path);
    let file = File::create(&part).map_err(|e| StoreError::io("create", path, e))?;
    let mut writer = BufWriter::with_capacity(1 << 20, file);
    let drawn = draw(drawing, &mut writer).and_then(|drawn| writer.flush().map(|()| drawn));
    let drawn = drawn.map_err(|e| {
        // A part of a trace is of no use; the error that matters is the one at hand.
        let _ = std::fs::remove_file(&part);
        StoreError::io("write", path, e)
    })?;
    rename_into_place(&part, path)?;
    Ok(drawn)
}

/// Writes a Perfetto trace to `out`, which should be buffered.
///
/// # Errors
/// Those of `out`.
pub fn draw(drawing: &Drawing<'_>, out: &mut dyn Write) -> io::Result<TraceCounts> {
    let mut trace = Trace { out, buffer: Vec::new(), drawn: TraceCounts::default() };
    trace.begin()?;
    trace.cpus(drawing)?;
    trace.scheduling(drawing)?;
    trace.packets(drawing)?;
    trace.delta_t(drawing)?;
    trace.late(drawing)?;
    Ok(trace.drawn)
}

/// A trace as it is written.
pub struct Trace<'a> {
    pub out: &'a mut dyn Write,
    pub buffer: Vec<u8>,
    pub drawn: TraceCounts,
}

impl Trace<'_> {
    /// Appends a packet: field 1 of the message `Trace`.
    fn packet(&mut self, packet: TracePacket) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.push(0x0a);
        packet.encode_length_delimited(&mut self.buffer).map_err(io::Error::other)?;
        self.out.write_all(&self.buffer)
    }

    /// Writes the clock that all time stamps are of.
    pub fn begin(&mut self) -> io::Result<()> {
        let clock = |id| Clock { clock_id: Some(id), timestamp: Some(0) };
        let clocks = vec![clock(MONOTONIC), clock(BOOTTIME)];
        self.packet(TracePacket {
            clock_snapshot: Some(ClockSnapshot { clocks, primary_trace_clock: Some(MONOTONIC as i32) }),
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(STATE_CLEARED),
            ..TracePacket::default()
        })
    }

    /// Describes a track; a unit makes it one of a counter.
    pub fn track(&mut self, uuid: u64, name: String, unit: Option<i32>) -> io::Result<()> {
        let counter = unit.map(|unit| CounterDescriptor { unit: Some(unit) });
        self.packet(TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_descriptor: Some(TrackDescriptor { uuid: Some(uuid), name: Some(name), counter }),
            ..TracePacket::default()
        })
    }

    /// Writes an event of a track at a time in nanoseconds.
    pub fn event(&mut self, ns: u64, kind: i32, track: u64, event: TrackEvent) -> io::Result<()> {
        let event = TrackEvent { r#type: Some(kind), track_uuid: Some(track), ..event };
        self.packet(TracePacket {
            timestamp: Some(ns),
            trusted_packet_sequence_id: Some(SEQUENCE),
            timestamp_clock_id: Some(MONOTONIC),
            track_event: Some(event),
            ..TracePacket::default()
        })
    }

    /// A track for each CPU: what ran, nested.
    fn cpus(&mut self, drawing: &Drawing<'_>) -> io::Result<()> {
        let mut by_cpu: BTreeMap<u16, Vec<EventRecord>> = BTreeMap::new();
        for event in drawing.events {
            let (start, end) = (event.start_ns.cast_signed(), event.end_ns.cast_signed());
            let elsewhere = [EventKind::TaskName, EventKind::SystemCall, EventKind::Frame];
            let of_cpu = !elsewhere.iter().any(|kind| *kind as u8 == event.kind);
            if of_cpu && drawing.touches(start, end) {
                by_cpu.entry(event.cpu).or_default().push(*event);
            }
        }
        let mut labels = Labels { names: drawing.names, known: HashMap::new() };
        for (cpu, mut events) in by_cpu {
            sort_events(&mut events);
            let track = CPU_TRACKS + u64::from(cpu);
            self.track(track, format!("CPU {cpu}"), None)?;
            self.cpu(track, &events, &mut labels)?;
        }
        Ok(())
    }

    /// Begins and ends of one CPU's events, properly nested: an interval that outlasts the one around it is
    /// cut there, and its rest follows as a part of its own.
    fn cpu(&mut self, track: u64, events: &[EventRecord], labels: &mut Labels<'_>) -> io::Result<()> {
        let mut rests: BinaryHeap<Reverse<(u64, Reverse<u64>, usize)>> = BinaryHeap::new();
        let mut open: Vec<u64> = Vec::new();
        let mut next = 0;
        loop {
            let whole = events.get(next).map(|e| (e.start_ns, Reverse(e.end_ns), next));
            let rest = rests.peek().map(|rest| rest.0);
            let (start, Reverse(mut end), row) = match (whole, rest) {
                (Some(whole), Some(rest)) if rest < whole => rest,
                (None, Some(rest)) => rest,
                (Some(whole), _) => whole,
                (None, None) => break,
            };
            let is_rest = rest == Some((start, Reverse(end), row));
            if is_rest {
                rests.pop();
            } else {
                next += 1;
            }
            while let Some(top) = open.pop_if(|top| *top <= start) {
                self.event(top, SLICE_END, track, TrackEvent::default())?;
            }
            let event = &events[row];
            let named = TrackEvent { name: Some(labels.of(event)), ..TrackEvent::default() };
            if !EventKind::from_repr(event.kind).is_some_and(EventKind::is_interval) {
                self.drawn.points += 1;
                self.event(start, INSTANT, track, named)?;
                continue;
            }
            self.drawn.intervals += u64::from(!is_rest);
            end = end.max(start);
            if let Some(top) = open.last().filter(|top| **top < end) {
                self.drawn.split += u64::from(!is_rest);
                rests.push(Reverse((*top, Reverse(end), row)));
                end = *top;
            }
            self.event(start, SLICE_BEGIN, track, named)?;
            open.push(end);
        }
        while let Some(top) = open.pop() {
            self.event(top, SLICE_END, track, TrackEvent::default())?;
        }
        Ok(())
    }

    /// An instant where the stack had the packet and one where the application had it, with an arrow between.
    fn packets(&mut self, drawing: &Drawing<'_>) -> io::Result<()> {
        self.track(RECEIVE_TRACK, "Packets in the network stack".to_owned(), None)?;
        self.track(APPLICATION_TRACK, "Packets in the application".to_owned(), None)?;
        for row in 0..drawing.packets.len() {
            let app_ns = drawing.packets.app_ns[row];
            if !drawing.touches(app_ns, app_ns) {
                continue;
            }
            self.drawn.packets += 1;
            let event = TrackEvent {
                name: Some(format!("packet {}", drawing.packets.seq[row])),
                flow_ids: vec![row as u64 + 1],
                ..TrackEvent::default()
            };
            if let Some(ns) = drawing.packets.stamp_ns(row, Layer::Receive) {
                self.event(ns.cast_unsigned(), INSTANT, RECEIVE_TRACK, event.clone())?;
            }
            self.event(app_ns.cast_unsigned(), INSTANT, APPLICATION_TRACK, event)?;
        }
        Ok(())
    }

    /// A counter for each layer: ΔT of successive packets (none across a loss or a reordering).
    fn delta_t(&mut self, drawing: &Drawing<'_>) -> io::Result<()> {
        let packets = drawing.packets;
        let stamped = |layer: &Layer| *layer == Layer::Application || packets.column(*layer).is_some();
        for layer in Layer::ALL.into_iter().filter(stamped) {
            let track = COUNTER_TRACKS + layer as u64;
            self.track(track, format!("ΔT {}", layer.name()), Some(UNIT_TIME_NS))?;
            for row in 1..packets.len() {
                let successive = packets.seq[row - 1].checked_add(1) == Some(packets.seq[row]);
                let pair = (packets.stamp_ns(row - 1, layer), packets.stamp_ns(row, layer));
                let (true, (Some(before), Some(now))) = (successive, pair) else { continue };
                if drawing.touches(now, now) {
                    let counter_value = Some(now.saturating_sub(before));
                    let event = TrackEvent { counter_value, ..TrackEvent::default() };
                    self.event(now.cast_unsigned(), COUNTER, track, event)?;
                }
            }
        }
        Ok(())
    }

    /// Late windows, on as many tracks as there are at one time.
    fn late(&mut self, drawing: &Drawing<'_>) -> io::Result<()> {
        let mut windows: Vec<&NamedWindow<'_>> =
            drawing.windows.iter().filter(|w| drawing.touches(w.start_ns, w.end_ns)).collect();
        windows.sort_by_key(|w| (w.start_ns, w.end_ns, w.seq));
        let mut free_from: Vec<i64> = Vec::new();
        for window in windows {
            let lane = free_from.iter().position(|free| *free <= window.start_ns).unwrap_or(free_from.len());
            let track = LATE_TRACKS + lane as u64;
            let end_ns = window.end_ns.max(window.start_ns);
            match free_from.get_mut(lane) {
                Some(free) => *free = end_ns,
                None => {
                    free_from.push(end_ns);
                    self.track(track, "Late packets".to_owned(), None)?;
                }
            }
            let packet = DebugAnnotation { name: Some("packet".to_owned()), uint_value: Some(window.seq) };
            let event = TrackEvent {
                name: Some(window.name.to_owned()),
                debug_annotations: vec![packet],
                ..TrackEvent::default()
            };
            self.event(window.start_ns.cast_unsigned(), SLICE_BEGIN, track, event)?;
            self.event(end_ns.cast_unsigned(), SLICE_END, track, TrackEvent::default())?;
            self.drawn.windows += 1;
        }
        Ok(())
    }
}

/// Names of events, made once each.
struct Labels<'a> {
    names: &'a Names,
    known: HashMap<(u8, u32, u64), String>,
}

impl Labels<'_> {
    fn of(&mut self, event: &EventRecord) -> String {
        self.known.entry(name_key(event)).or_insert_with(|| event_name(event, self.names)).clone()
    }
}

#[cfg(test)]
mod tests;
