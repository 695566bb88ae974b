//! What happened around a late packet: its own way, the events on every CPU, and what the analysis made of them.

use super::event_name::event_name;
use crate::ReportInput;
use quaver_abi::record::{EventKind, EventRecord};
use quaver_analysis::attribution::{LatePacket, Part, Piece};
use quaver_analysis::model::{Layer, NO_CPU};
use serde::Serialize;

/// Most boxes of one timeline; of more, the shortest are left out and counted.
const MOST_BOXES: usize = 600;

/// One row of boxes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Lane {
    /// What its boxes are.
    name: String,
    /// `stage`, `arrival`, `cause` or `event`.
    kind: &'static str,
    /// Boxes.
    boxes: Vec<TimeBox>,
}

/// An interval, or an instant where both ends are equal. Times are nanoseconds after the timeline's start.
#[derive(Clone, Debug, Serialize)]
struct TimeBox {
    start_ns: i64,
    end_ns: i64,
    label: String,
    /// Row within the lane, from the bottom: what interrupts stands above what it interrupted.
    depth: u8,
    /// Index of the cause, −1 for unexplained; none where it is not a piece of late time.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<i32>,
}

/// A late packet and its surroundings.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Timeline {
    seq: u64,
    lateness_ns: i64,
    /// Leading cause, −1 for unexplained.
    cause: i32,
    /// Start after the start of the run.
    offset_ns: i64,
    span_ns: i64,
    /// When the packet was due at the application, and when it came, after the timeline's start.
    due_ns: i64,
    came_ns: i64,
    lanes: Vec<Lane>,
    /// Boxes that were left out because they are too many; all are shorter than those that are shown.
    left_out: usize,
}

/// Timelines of the late packets at `chosen`.
pub(super) fn timelines(input: &ReportInput<'_>, chosen: &[usize], run_start_ns: i64) -> Vec<Timeline> {
    let windows: Vec<Window> =
        chosen.iter().filter_map(|at| Window::around(input, &input.late[*at])).collect();
    let events = events_in(input.events, &windows);
    windows.iter().zip(events).map(|(window, events)| draw(input, window, events, run_start_ns)).collect()
}

struct Window {
    late: LatePacket,
    /// Its row in the packet table.
    row: usize,
    due_ns: i64,
    came_ns: i64,
    start_ns: i64,
    end_ns: i64,
}

impl Window {
    fn around(input: &ReportInput<'_>, late: &LatePacket) -> Option<Self> {
        let row = late.row as usize;
        let came_ns = *input.packets.app_ns.get(row)?;
        let due_ns = came_ns - late.lateness_ns;
        let first_ns = Layer::ALL
            .iter()
            .filter_map(|layer| input.packets.stamp_ns(row, *layer))
            .min()
            .unwrap_or(due_ns)
            // A packet that left its source long ago must not squeeze the rest into one pixel.
            .max(due_ns - late.lateness_ns.max(50_000))
            .min(due_ns);
        let margin_ns = ((came_ns - first_ns) / 8).max(2 * input.summary.period_ns as i64).max(2_000);
        Some(Self {
            late: *late,
            row,
            due_ns,
            came_ns,
            start_ns: first_ns - margin_ns,
            end_ns: came_ns + margin_ns,
        })
    }

    fn clip(&self, start_ns: i64, end_ns: i64) -> (i64, i64) {
        let clip = |ns: i64| ns.clamp(self.start_ns, self.end_ns) - self.start_ns;
        (clip(start_ns), clip(end_ns))
    }
}

/// The events of each window, in one pass over all events.
fn events_in<'a>(events: &'a [EventRecord], windows: &[Window]) -> Vec<Vec<&'a EventRecord>> {
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

fn draw(input: &ReportInput<'_>, window: &Window, events: Vec<&EventRecord>, run_start_ns: i64) -> Timeline {
    let mut lanes =
        vec![packet_lane(input, window), arrivals_lane(input, window), causes_lane(input, window)];
    let mut cpus: Vec<u16> = events.iter().map(|event| event.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    for cpu in cpus {
        let boxes = events
            .iter()
            .filter(|event| event.cpu == cpu)
            .filter_map(|event| event_box(input, window, event));
        lanes.push(Lane { name: cpu_name(input, window, cpu), kind: "event", boxes: boxes.collect() });
    }
    let left_out = thin_out(&mut lanes);
    lanes.retain(|lane| !lane.boxes.is_empty());
    Timeline {
        seq: input.packets.seq[window.row],
        lateness_ns: window.late.lateness_ns,
        cause: number(window.late.cause),
        offset_ns: window.start_ns - run_start_ns,
        span_ns: window.end_ns - window.start_ns,
        due_ns: window.due_ns - window.start_ns,
        came_ns: window.came_ns - window.start_ns,
        lanes,
        left_out,
    }
}

fn number(cause: Option<u32>) -> i32 {
    cause.map_or(super::late::UNEXPLAINED, |cause| cause as i32)
}

fn cpu_name(input: &ReportInput<'_>, window: &Window, cpu: u16) -> String {
    let row = window.row;
    let mut roles = Vec::new();
    if input.packets.app_cpu.get(row) == Some(&cpu) {
        roles.push("receiver");
    }
    if cpu != NO_CPU && input.packets.stack_cpu.get(row) == Some(&cpu) {
        roles.push("network stack");
    }
    if roles.is_empty() { format!("CPU {cpu}") } else { format!("CPU {cpu} ({})", roles.join(", ")) }
}

/// The packet's own way: a box between each two stamps.
fn packet_lane(input: &ReportInput<'_>, window: &Window) -> Lane {
    let stamps: Vec<(Layer, i64)> = Layer::ALL
        .iter()
        .filter_map(|layer| input.packets.stamp_ns(window.row, *layer).map(|ns| (*layer, ns)))
        .collect();
    let boxes = stamps
        .windows(2)
        .map(|pair| {
            let (start_ns, end_ns) = window.clip(pair[0].1, pair[1].1);
            let label = format!("{} → {}", pair[0].0.name(), pair[1].0.name());
            TimeBox { start_ns, end_ns: end_ns.max(start_ns), label, depth: 0, cause: None }
        })
        .collect();
    Lane { name: "this packet".to_owned(), kind: "stage", boxes }
}

/// When this packet and its neighbours reached the application.
fn arrivals_lane(input: &ReportInput<'_>, window: &Window) -> Lane {
    let packets = input.packets;
    let row = window.row;
    let inside = |at: &usize| (window.start_ns..=window.end_ns).contains(&packets.app_ns[*at]);
    let before = (0..row).rev().take_while(inside);
    let after = (row..packets.len()).take_while(inside);
    let boxes = before
        .take(MOST_BOXES / 4)
        .chain(after.take(MOST_BOXES / 4))
        .map(|at| {
            let (start_ns, end_ns) = window.clip(packets.app_ns[at], packets.app_ns[at]);
            TimeBox { start_ns, end_ns, label: format!("packet #{}", packets.seq[at]), depth: 0, cause: None }
        })
        .collect();
    Lane { name: "arrivals".to_owned(), kind: "arrival", boxes }
}

/// The late time around the packet, taken apart.
fn causes_lane(input: &ReportInput<'_>, window: &Window) -> Lane {
    let from = input.pieces.partition_point(|piece| piece.end_ns <= window.start_ns);
    let pieces = input.pieces[from..].iter().take_while(|piece| piece.start_ns < window.end_ns);
    let boxes = pieces
        .map(|piece| {
            let (start_ns, end_ns) = window.clip(piece.start_ns, piece.end_ns);
            TimeBox {
                start_ns,
                end_ns,
                label: piece_name(input, piece),
                depth: 0,
                cause: Some(number(piece.cause)),
            }
        })
        .collect();
    Lane { name: "late time".to_owned(), kind: "cause", boxes }
}

fn piece_name(input: &ReportInput<'_>, piece: &Piece) -> String {
    let Some(cause) = piece.cause.and_then(|cause| input.summary.causes.get(cause as usize)) else {
        return "unexplained".to_owned();
    };
    match piece.part {
        Part::Body | Part::Unexplained => cause.name.clone(),
        Part::EntryExit => format!("{} (getting in or out)", cause.name),
        Part::CatchUp => format!("{} (catching up afterwards)", cause.name),
    }
}

fn event_box(input: &ReportInput<'_>, window: &Window, event: &EventRecord) -> Option<TimeBox> {
    let kind = EventKind::from_raw(event.kind)?;
    let depth = match kind {
        EventKind::Thread
        | EventKind::Wakeup
        | EventKind::Migrate
        | EventKind::PageFault
        | EventKind::IpiSend
        | EventKind::TlbFlush => 0,
        EventKind::IdleState | EventKind::Work | EventKind::Softirq => 1,
        EventKind::Timer | EventKind::Irq | EventKind::Vector => 2,
        EventKind::Hrtimer | EventKind::CrossCall | EventKind::Nmi => 3,
        EventKind::SoftirqRaise | EventKind::TaskName => return None,
    };
    let (start_ns, end_ns) = window.clip(event.start_ns as i64, event.end_ns as i64);
    let mut label = event_name(event, kind, input.names);
    if kind.is_interval() {
        let whole_ns = (event.end_ns.saturating_sub(event.start_ns)) as i64;
        if whole_ns > end_ns - start_ns {
            label.push_str(&format!(" ({} in all)", crate::units::duration(whole_ns)));
        }
    }
    Some(TimeBox { start_ns, end_ns: end_ns.max(start_ns), label, depth, cause: None })
}

/// Leaves out the shortest boxes where there are too many to draw; the packet's own lanes stay whole.
fn thin_out(lanes: &mut [Lane]) -> usize {
    let length = |time_box: &TimeBox| time_box.end_ns - time_box.start_ns;
    let mut lengths: Vec<i64> = lanes
        .iter()
        .filter(|lane| lane.kind == "event")
        .flat_map(|lane| lane.boxes.iter().map(length))
        .collect();
    let before = lengths.len();
    if before <= MOST_BOXES {
        return 0;
    }
    let (_, least, _) = lengths.select_nth_unstable_by(MOST_BOXES, |a, b| b.cmp(a));
    let least = *least;
    let mut after = 0;
    for lane in lanes.iter_mut().filter(|lane| lane.kind == "event") {
        lane.boxes.retain(|time_box| length(time_box) > least);
        after += lane.boxes.len();
    }
    before - after
}
