//! A simulated run in a Perfetto trace: a track a core with the threads that ran there, a track a thread with what it did, and
//! arrows from who ended a wait to who waited. Times are simulated, from the start of the program.

use crate::intervals::{SimInterval, SimState};
use quaver_store::perfetto::{INSTANT, SLICE_BEGIN, SLICE_END, Trace, TraceCounts, TrackEvent};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// First of the cores' tracks.
const CORE_TRACKS: u64 = 1 << 34;
/// First of the threads' tracks.
const THREAD_TRACKS: u64 = 1 << 33;
const FS_PER_NS: u64 = 1_000_000;

/// Writes the trace to `out`, which should be buffered. Slices are counted as intervals, ends of arrows as points.
///
/// # Errors
/// Those of `out`.
pub fn draw_simulated(intervals: &[SimInterval], out: &mut dyn Write) -> io::Result<TraceCounts> {
    let mut trace = Trace { out, buffer: Vec::new(), drawn: TraceCounts::default() };
    trace.begin()?;
    let cores: BTreeSet<u32> = intervals.iter().filter_map(|interval| interval.core).collect();
    let mut threads: BTreeSet<u32> = intervals.iter().filter_map(|interval| interval.thread).collect();
    threads.extend(intervals.iter().filter_map(|interval| interval.woken_by));
    for core in cores {
        trace.track(CORE_TRACKS + u64::from(core), format!("core {core}"), None)?;
    }
    for thread in threads {
        trace.track(THREAD_TRACKS + u64::from(thread), format!("thread {thread}"), None)?;
    }
    for (number, interval) in (1..).zip(intervals) {
        slices(&mut trace, interval)?;
        arrow(&mut trace, number, interval)?;
    }
    Ok(trace.drawn)
}

fn slices(trace: &mut Trace<'_>, interval: &SimInterval) -> io::Result<()> {
    if let Some(thread) = interval.thread {
        slice(trace, interval, THREAD_TRACKS + u64::from(thread), name(interval))?;
    }
    if let Some(core) = interval.core {
        let who = interval.thread.map_or_else(|| "kernel".to_owned(), |thread| format!("thread {thread}"));
        slice(trace, interval, CORE_TRACKS + u64::from(core), who)?;
    }
    Ok(())
}

fn slice(trace: &mut Trace<'_>, interval: &SimInterval, track: u64, name: String) -> io::Result<()> {
    let named = TrackEvent { name: Some(name), ..TrackEvent::default() };
    trace.event(interval.start_fs / FS_PER_NS, SLICE_BEGIN, track, named)?;
    trace.event(interval.end_fs / FS_PER_NS, SLICE_END, track, TrackEvent::default())?;
    trace.drawn.intervals += 1;
    Ok(())
}

fn arrow(trace: &mut Trace<'_>, number: u64, interval: &SimInterval) -> io::Result<()> {
    let (Some(by), Some(thread)) = (interval.woken_by, interval.thread) else { return Ok(()) };
    let at_ns = interval.end_fs / FS_PER_NS;
    for track in [by, thread] {
        let end = TrackEvent {
            name: Some(format!("ends {}", name(interval))),
            flow_ids: vec![number],
            ..TrackEvent::default()
        };
        trace.event(at_ns, INSTANT, THREAD_TRACKS + u64::from(track), end)?;
    }
    trace.drawn.points += 2;
    Ok(())
}

fn name(interval: &SimInterval) -> String {
    let state = interval.state.name();
    match (interval.state, interval.core, interval.object) {
        (SimState::Runs, Some(core), _) => format!("runs on core {core}"),
        (SimState::Join, _, Some(thread)) => format!("join of thread {thread}"),
        (_, _, Some(object)) => format!("{state} {object:#x}"),
        _ => state.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;
    use quaver_store::perfetto::TracePacket;

    #[test]
    fn what_ran_is_on_its_core_and_its_thread_and_who_woke_is_an_arrow() {
        let runs = SimInterval {
            thread: Some(3),
            core: Some(1),
            state: SimState::Runs,
            start_fs: 10_000_000,
            end_fs: 30_900_000,
            object: None,
            woken_by: None,
        };
        let waits = SimInterval {
            core: None,
            state: SimState::Lock,
            start_fs: 30_900_000,
            end_fs: 50_000_000,
            object: Some(0x40),
            woken_by: Some(0),
            ..runs
        };
        let mut octets = Vec::new();
        let drawn = draw_simulated(&[runs, waits], &mut octets).unwrap();
        assert_eq!((drawn.intervals, drawn.points), (3, 2));
        let mut rest = octets.as_slice();
        let mut packets = Vec::new();
        while !rest.is_empty() {
            rest = &rest[1..];
            packets.push(TracePacket::decode_length_delimited(&mut rest).unwrap());
        }
        let tracks: Vec<_> =
            packets.iter().filter_map(|one| one.track_descriptor.as_ref()?.name.clone()).collect();
        assert_eq!(tracks, ["core 1", "thread 0", "thread 3"]);
        let events: Vec<_> = packets
            .iter()
            .filter_map(|one| Some((one.timestamp?, one.track_event.clone()?)))
            .map(|(ns, event)| (ns, event.name.unwrap_or_default(), event.flow_ids))
            .collect();
        let plain = |ns: u64, name: &str| (ns, name.to_owned(), vec![]);
        let arrow = |ns: u64, name: &str| (ns, name.to_owned(), vec![2]);
        assert_eq!(
            events,
            [
                plain(10, "runs on core 1"),
                plain(30, ""),
                plain(10, "thread 3"),
                plain(30, ""),
                plain(30, "lock 0x40"),
                plain(50, ""),
                arrow(50, "ends lock 0x40"),
                arrow(50, "ends lock 0x40"),
            ]
        );
    }
}
