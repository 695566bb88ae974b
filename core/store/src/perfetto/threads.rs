//! Threads of a program in a Perfetto trace: a track a thread with what it waited for, and arrows from who ended a wait to who
//! waited.

use super::{INSTANT, SLICE_BEGIN, SLICE_END, Trace, TraceCounts, TrackEvent};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// First of the threads' tracks.
const THREAD_TRACKS: u64 = 1 << 33;

/// A stretch in which a thread waited. Those of one thread do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadSpan {
    /// Who.
    pub thread: u32,
    /// First instant, CLOCK_MONOTONIC nanoseconds.
    pub start_ns: u64,
    /// First instant after it.
    pub end_ns: u64,
    /// What for.
    pub name: String,
}

/// Somebody ended a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakeUp {
    /// Who ended it.
    pub waker: u32,
    /// When.
    pub released_ns: u64,
    /// Who waited.
    pub thread: u32,
    /// When it came back.
    pub ended_ns: u64,
    /// What to call it.
    pub name: String,
}

/// Writes the trace to `out`, which should be buffered. Spans are counted as intervals, ends of wake-ups as points.
///
/// # Errors
/// Those of `out`.
pub fn draw_threads(
    spans: &[ThreadSpan],
    wake_ups: &[WakeUp],
    out: &mut dyn Write,
) -> io::Result<TraceCounts> {
    let mut trace = Trace { out, buffer: Vec::new(), drawn: TraceCounts::default() };
    trace.begin()?;
    let mut threads: BTreeSet<u32> = spans.iter().map(|span| span.thread).collect();
    threads.extend(wake_ups.iter().flat_map(|wake_up| [wake_up.waker, wake_up.thread]));
    for thread in threads {
        trace.track(track(thread), format!("thread {thread}"), None)?;
    }
    for span in spans {
        let named = TrackEvent { name: Some(span.name.clone()), ..TrackEvent::default() };
        trace.event(span.start_ns, SLICE_BEGIN, track(span.thread), named)?;
        trace.event(span.end_ns, SLICE_END, track(span.thread), TrackEvent::default())?;
        trace.drawn.intervals += 1;
    }
    for (number, wake_up) in (1..).zip(wake_ups) {
        let end =
            TrackEvent { name: Some(wake_up.name.clone()), flow_ids: vec![number], ..TrackEvent::default() };
        trace.event(wake_up.released_ns, INSTANT, track(wake_up.waker), end.clone())?;
        trace.event(wake_up.ended_ns, INSTANT, track(wake_up.thread), end)?;
        trace.drawn.points += 2;
    }
    Ok(trace.drawn)
}

fn track(thread: u32) -> u64 {
    THREAD_TRACKS + u64::from(thread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::TracePacket;
    use prost::Message;

    #[test]
    fn a_wait_is_a_slice_and_who_ended_it_an_arrow() {
        let span = ThreadSpan { thread: 7, start_ns: 10, end_ns: 30, name: "lock queue".to_owned() };
        let wake_up = WakeUp { waker: 8, released_ns: 20, thread: 7, ended_ns: 30, name: "lu".to_owned() };
        let mut octets = Vec::new();
        let drawn = draw_threads(&[span], &[wake_up], &mut octets).unwrap();
        assert_eq!((drawn.intervals, drawn.points), (1, 2));
        let mut rest = octets.as_slice();
        let mut packets = Vec::new();
        while !rest.is_empty() {
            assert_eq!(rest[0], 0x0a);
            rest = &rest[1..];
            packets.push(TracePacket::decode_length_delimited(&mut rest).unwrap());
        }
        let names: Vec<_> =
            packets.iter().filter_map(|one| one.track_descriptor.as_ref()?.name.clone()).collect();
        assert_eq!(names, ["thread 7", "thread 8"]);
        let events: Vec<_> =
            packets.iter().filter_map(|one| Some((one.timestamp?, one.track_event.clone()?))).collect();
        let seen: Vec<_> = events
            .iter()
            .map(|(ns, event)| {
                (
                    *ns,
                    event.r#type.unwrap(),
                    event.track_uuid.unwrap() - THREAD_TRACKS,
                    event.flow_ids.clone(),
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (10, SLICE_BEGIN, 7, vec![]),
                (30, SLICE_END, 7, vec![]),
                (20, INSTANT, 8, vec![1]),
                (30, INSTANT, 7, vec![1])
            ]
        );
    }
}
