//! What happened around a late packet: its own path, the events on every CPU, and what the analysis made of them.

use super::ChaseInput;
use super::event_name::event_name;
use quaver_abi::record::{EventKind, EventRecord};
use quaver_analysis::attribution::{LatePacket, Part, Piece};
use quaver_analysis::model::{Layer, NO_CPU};
use quaver_view::{Cell, Chart, Colour, Lane, Span, Timeline, text};
use std::collections::BTreeMap;

/// Most events of one timeline, and most pieces of late time; of more, the shortest are omitted and counted.
const MOST_SPANS: usize = 400;

/// Most neighbours on either side whose arrivals are shown.
const MOST_ARRIVALS: usize = 150;

/// Timelines of these late packets.
pub(super) fn timelines(input: &ChaseInput<'_>, chosen: &[&LatePacket]) -> Vec<Chart> {
    let windows: Vec<Window<'_>> = chosen.iter().filter_map(|late| Window::around(input, late)).collect();
    let events = events_in(&input.measured.events, &windows);
    windows
        .iter()
        .zip(events)
        .enumerate()
        .map(|(number, (window, events))| chart(input, number, window, events))
        .collect()
}

/// The time around a late packet, nanoseconds of CLOCK_MONOTONIC.
struct Window<'a> {
    late: &'a LatePacket,
    /// Its row in the packet table.
    row: usize,
    due_ns: i64,
    came_ns: i64,
    start_ns: i64,
    end_ns: i64,
}

impl<'a> Window<'a> {
    fn around(input: &ChaseInput<'_>, late: &'a LatePacket) -> Option<Self> {
        let row = late.row()?;
        let packets = &input.measured.packets;
        let came_ns = *packets.app_ns.get(row)?;
        let due_ns = came_ns - late.lateness_ns;
        let first_ns = Layer::ALL
            .iter()
            .filter_map(|layer| packets.stamp_ns(row, *layer))
            .min()
            .unwrap_or(due_ns)
            // A packet that left its source long ago must not squeeze the rest into one pixel.
            .max(due_ns - late.lateness_ns.max(50_000))
            .min(due_ns);
        let margin_ns = ((came_ns - first_ns) / 8).max(2 * input.summary().period_ns as i64).max(2_000);
        let (start_ns, end_ns) = (first_ns - margin_ns, came_ns + margin_ns);
        Some(Self { late, row, due_ns, came_ns, start_ns, end_ns })
    }

    /// An instant after the window's start, within it.
    fn at(&self, ns: i64) -> f64 {
        (ns.clamp(self.start_ns, self.end_ns) - self.start_ns) as f64
    }

    fn span(&self, (start_ns, end_ns): (i64, i64), label: String, colour: Colour) -> Span {
        let start = self.at(start_ns);
        Span { start, end: self.at(end_ns).max(start), label, depth: 0, colour }
    }
}

/// The events of each window, in one pass over all events.
fn events_in<'a>(events: &'a [EventRecord], windows: &[Window<'_>]) -> Vec<Vec<&'a EventRecord>> {
    let mut found: Vec<Vec<&EventRecord>> = vec![Vec::new(); windows.len()];
    for event in events {
        let (start_ns, end_ns) = (event.start_ns as i64, event.end_ns as i64);
        for (window, found) in windows.iter().zip(&mut found) {
            if start_ns <= window.end_ns && end_ns >= window.start_ns {
                found.push(event);
            }
        }
    }
    found
}

fn chart(input: &ChaseInput<'_>, number: usize, window: &Window<'_>, events: Vec<&EventRecord>) -> Chart {
    let pieces: Vec<&Piece> = pieces_in(input, window).collect();
    let pieces_drawn = pieces.iter().map(|piece| ((), piece_span(input, window, piece)));
    let (mut late_time, pieces_omitted) = longest(pieces_drawn);
    let mut lanes = vec![
        lane("this packet", path(input, window)),
        lane("arrivals", arrivals(input, window)),
        lane("late time", late_time.remove(&()).unwrap_or_default()),
    ];
    let (by_cpu, events_omitted) =
        longest(events.iter().filter_map(|event| event_span(input, window, event)));
    lanes.extend(by_cpu.into_iter().map(|(cpu, spans)| Lane {
        detail: roles(input, window, cpu).join(", "),
        ..lane(&format!("CPU {cpu}"), spans)
    }));
    lanes.retain(|lane| !lane.spans.is_empty());
    let (due, came) = (window.at(window.due_ns), window.at(window.came_ns));
    let causes: BTreeMap<u32, Option<u32>> =
        pieces.iter().map(|piece| (piece.cause.unwrap_or(u32::MAX), piece.cause)).collect();
    let plot = Timeline {
        span: (0.0, window.at(window.end_ns)),
        origin: Some((due, "due".to_owned())),
        zone: Some((due, came)),
        lanes,
        arrows: vec![],
        keys: causes.into_values().map(|cause| (name(input, cause), colour(cause))).collect(),
    };
    let seq = Cell::Sequence(input.measured.packets.seq[window.row]);
    let late = Cell::Duration(window.late.lateness_ns);
    let cause = name(input, window.late.cause);
    let first_ns = input.measured.packets.app_ns.first().copied().unwrap_or(0);
    let at = Cell::Instant(window.start_ns - first_ns);
    let omitted: String = [(events_omitted, "events"), (pieces_omitted, "pieces of late time")]
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!(" {} shorter {what} omitted.", Cell::Count(*count as u64)))
        .collect();
    Chart::new(format!("worst-{number}"), format!("{}. {seq} · {late} · {cause}", number + 1), plot)
        .note(text!("Packet {seq}: {late} late, at {at}. Leading cause: {cause}.{omitted}"))
}

fn lane(name: &str, spans: Vec<Span>) -> Lane {
    Lane { name: name.to_owned(), spans, ..Lane::default() }
}

fn name(input: &ChaseInput<'_>, cause: Option<u32>) -> String {
    let known = cause.and_then(|cause| input.summary().causes.get(cause as usize));
    known.map_or_else(|| "unexplained".to_owned(), |cause| cause.name.clone())
}

fn colour(cause: Option<u32>) -> Colour {
    Colour::of_cause(cause.map(|cause| cause as usize))
}

/// What the packet's path had to do with a CPU.
fn roles(input: &ChaseInput<'_>, window: &Window<'_>, cpu: u16) -> Vec<&'static str> {
    let packets = &input.measured.packets;
    let mut roles = Vec::new();
    if packets.app_cpu.get(window.row) == Some(&cpu) {
        roles.push("receiver");
    }
    if cpu != NO_CPU && packets.stack_cpu.get(window.row) == Some(&cpu) {
        roles.push("network stack");
    }
    roles
}

/// The packet's own path: a span between each two stamps.
fn path(input: &ChaseInput<'_>, window: &Window<'_>) -> Vec<Span> {
    let stamp = |layer: &Layer| Some((*layer, input.measured.packets.stamp_ns(window.row, *layer)?));
    let stamps: Vec<(Layer, i64)> = Layer::ALL.iter().filter_map(stamp).collect();
    let stage = |pair: &[(Layer, i64)]| {
        let [(from, start_ns), (to, end_ns)] = [pair[0], pair[1]];
        window.span((start_ns, end_ns), super::stage_name(from, to), Colour::Muted)
    };
    stamps.windows(2).map(stage).collect()
}

/// When this packet and its neighbours reached the application.
fn arrivals(input: &ChaseInput<'_>, window: &Window<'_>) -> Vec<Span> {
    let packets = &input.measured.packets;
    let inside = |row: &usize| (window.start_ns..=window.end_ns).contains(&packets.app_ns[*row]);
    let before = (0..window.row).rev().take_while(inside).take(MOST_ARRIVALS);
    let after = (window.row..packets.len()).take_while(inside).take(MOST_ARRIVALS);
    let arrival = |row: usize| {
        let label = format!("packet {}", Cell::Sequence(packets.seq[row]));
        window.span((packets.app_ns[row], packets.app_ns[row]), label, Colour::Muted)
    };
    before.chain(after).map(arrival).collect()
}

/// The late time around the packet, taken apart.
fn pieces_in<'a>(input: &ChaseInput<'a>, window: &Window<'_>) -> impl Iterator<Item = &'a Piece> {
    let (start_ns, end_ns) = (window.start_ns, window.end_ns);
    let pieces = &input.analysis.pieces;
    let from = pieces.partition_point(|piece| piece.end_ns <= start_ns);
    pieces[from..].iter().take_while(move |piece| piece.start_ns < end_ns)
}

fn piece_span(input: &ChaseInput<'_>, window: &Window<'_>, piece: &Piece) -> Span {
    let part = match piece.part {
        Part::Body | Part::Unexplained => "",
        Part::EntryExit => " (entry or exit)",
        Part::CatchUp => " (catching up)",
    };
    let label = name(input, piece.cause) + if piece.cause.is_some() { part } else { "" };
    window.span((piece.start_ns, piece.end_ns), label, colour(piece.cause))
}

/// The CPU of an event, and its span.
fn event_span(input: &ChaseInput<'_>, window: &Window<'_>, event: &EventRecord) -> Option<(u16, Span)> {
    let kind = EventKind::from_repr(event.kind)?;
    let depth = match kind {
        EventKind::Thread
        | EventKind::Wakeup
        | EventKind::Migrate
        | EventKind::PageFault
        | EventKind::Sleep
        | EventKind::IpiSend
        | EventKind::TlbFlush => 0,
        EventKind::IdleState | EventKind::Work | EventKind::Softirq | EventKind::SystemCall => 1,
        EventKind::Timer | EventKind::Irq | EventKind::Vector => 2,
        EventKind::Hrtimer | EventKind::CrossCall | EventKind::Nmi => 3,
        EventKind::Steal | EventKind::LoopGap => 4,
        EventKind::SoftirqRaise | EventKind::Sample | EventKind::Frame | EventKind::TaskName => return None,
    };
    let idle = kind == EventKind::IdleState || (kind == EventKind::Thread && event.id == 0);
    let label = event_name(event, kind, &input.measured.names);
    let ends = (event.start_ns as i64, event.end_ns as i64);
    let mut span = window.span(ends, label, if idle { Colour::Faint } else { Colour::Muted });
    span.depth = depth;
    let whole_ns = ends.1.saturating_sub(ends.0);
    if kind.is_interval() && whole_ns as f64 > span.end - span.start {
        span.label.push_str(&format!(" ({} in all)", Cell::Duration(whole_ns)));
    }
    Some((event.cpu, span))
}

/// The spans of each lane, and how many were omitted: of too many to draw, the shortest are.
fn longest<K: Ord>(spans: impl Iterator<Item = (K, Span)>) -> (BTreeMap<K, Vec<Span>>, usize) {
    let length = |span: &Span| span.end - span.start;
    let mut all: Vec<(K, Span)> = spans.collect();
    let count = all.len();
    if count > MOST_SPANS {
        let mut lengths: Vec<f64> = all.iter().map(|(_, span)| length(span)).collect();
        let (_, limit, _) = lengths.select_nth_unstable_by(MOST_SPANS, |a, b| b.total_cmp(a));
        let limit = *limit;
        let mut equal = MOST_SPANS - all.iter().filter(|(_, span)| length(span) > limit).count();
        all.retain(|(_, span)| {
            let last = length(span) == limit && equal > 0;
            equal -= usize::from(last);
            last || length(span) > limit
        });
    }
    let omitted = count - all.len();
    let mut by_lane: BTreeMap<K, Vec<Span>> = BTreeMap::new();
    all.into_iter().for_each(|(lane, span)| by_lane.entry(lane).or_default().push(span));
    (by_lane, omitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_events_the_shortest_are_omitted_and_counted() {
        let span = |length: usize| Span {
            start: 0.0,
            end: length as f64,
            label: String::new(),
            depth: 0,
            colour: Colour::Muted,
        };
        let events = |count: usize| (0..count).map(move |at| ((at % 2) as u16, span(at)));
        let (by_cpu, omitted) = longest(events(MOST_SPANS));
        assert_eq!((by_cpu[&0].len(), by_cpu[&1].len(), omitted), (200, 200, 0));
        let (by_cpu, omitted) = longest(events(MOST_SPANS + 10));
        assert_eq!(omitted, 10);
        assert!(by_cpu.values().flatten().all(|span| span.end >= 10.0));
        // Of equal ones the first are kept.
        let (equal, omitted) = longest((0..MOST_SPANS + 10).map(|_| ((), span(7))));
        assert_eq!((equal[&()].len(), omitted), (MOST_SPANS, 10));
    }
}
