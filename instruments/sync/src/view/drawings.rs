//! Drawings of threads: what each waited for over the run, and one wait with who ended it.

use super::time;
use crate::digest::{SyncDigest, SyncNames};
use quaver_sync_analysis::lanes::{self, WaitingFor};
use quaver_sync_analysis::sync::{ThreadId, Wait};
use quaver_view::{Arrow, Block, Cell, Chart, Colour, Fill, Lane, Section, Shown, Span, Timeline, text};

/// Rows of the overview: those of the threads that were late longest.
const MOST_LANES: usize = 32;
/// Rows beside the two of a drawn wait.
const MOST_OTHERS: usize = 6;
/// Waits of others drawn around one.
const MOST_BOXES: usize = 400;

fn colour(what: WaitingFor) -> Colour {
    Colour::Series(what as u8)
}

/// Each thread a row, each slice of time a column filled with what part of it the thread waited.
pub(super) fn overview(digest: &SyncDigest) -> Section {
    let section = Section::new("threads-over-time", "Threads over time").shown(Shown::HtmlOnly);
    let lanes = &digest.lanes;
    let late = |thread: ThreadId| {
        let found = digest.summary.results.threads.iter().find(|one| one.thread == thread);
        found.map_or(0, |one| one.late.total_ns)
    };
    let mut chosen: Vec<&lanes::Lane> = lanes.lanes.iter().collect();
    chosen.sort_by_key(|lane| std::cmp::Reverse(late(lane.thread)));
    let left_out = chosen.len().saturating_sub(MOST_LANES) as u64 + lanes.threads_left_out;
    chosen.truncate(MOST_LANES);
    chosen.sort_by_key(|lane| (lane.first_ns, lane.thread));
    let Some(first) = chosen.first() else { return section.with("No waits recorded.") };
    let length_ns = (lanes.to_ns - lanes.from_ns) as f64;
    let slice_ns = length_ns / first.slices.len() as f64;
    let row = |thread: ThreadId| chosen.iter().position(|lane| lane.thread == thread);
    let at = |ns: u64| (ns.saturating_sub(lanes.from_ns) as f64).min(length_ns);
    let arrows = digest.summary.results.longest.iter().filter_map(|wait| {
        let (from, to) = (row(wait.waker)?, row(wait.thread)?);
        Some(Arrow { from: (at(wait.released_ns), from), to: (at(wait.ended_ns), to) })
    });
    let plot = Timeline {
        span: (0.0, length_ns),
        lanes: chosen.iter().map(|lane| row_of(lane, slice_ns, &digest.names)).collect(),
        arrows: arrows.collect(),
        keys: keys(),
        ..Timeline::default()
    };
    let slice = Cell::FineDuration(slice_ns);
    let chart = Chart::new("overview", "What each thread waited for", plot)
        .note(text!("Each column is {slice}; its fill is the share of time waited."));
    let section = section
        .note(
            "Each row is a thread, filled where it waited. Arrows go from waker to waiter for the longest waits.",
        )
        .with(chart);
    if left_out == 0 {
        return section;
    }
    section.with(Block::Note(text!("Omitted: {} with less lateness.", Cell::several(left_out, "thread"))))
}

fn keys() -> Vec<(String, Colour)> {
    WaitingFor::ALL.map(|what| (what.name().to_owned(), colour(what))).to_vec()
}

/// A thread and what filled its slices.
fn row_of(lane: &lanes::Lane, slice_ns: f64, names: &SyncNames) -> Lane {
    let fill = |what: WaitingFor| {
        let share = |slice: &[u64; 4]| (slice[what as usize] as f64 / slice_ns).min(1.0);
        Fill { colour: colour(what), shares: lane.slices.iter().map(share).collect() }
    };
    Lane { name: names.thread(lane.thread), fills: WaitingFor::ALL.map(fill).to_vec(), ..Lane::default() }
}

/// One wait: the rows of who waited, of who ended it and of others that waited meanwhile, and the causes below.
pub(super) fn wait(digest: &SyncDigest, number: usize, wait: &Wait) -> Chart {
    let lanes = &digest.lanes;
    let before_ns = (wait.took_ns() / 2).min(wait.released_ns - wait.entered_ns.min(wait.released_ns));
    let from_ns = wait.released_ns - before_ns.max(wait.took_ns() / 8).min(wait.released_ns);
    let to_ns = wait.ended_ns + wait.took_ns() / 8 + 1;
    let around = || {
        let inside = |span: &&lanes::Span| span.start_ns < to_ns && span.end_ns > from_ns;
        lanes.spans.iter().filter(inside).take(MOST_BOXES)
    };
    let mut threads = vec![wait.waker, wait.thread];
    threads.dedup();
    for span in around() {
        if threads.len() < 2 + MOST_OTHERS && !threads.contains(&span.thread) {
            threads.push(span.thread);
        }
    }
    let at = |ns: u64| ns.clamp(from_ns, to_ns) as f64 - lanes.from_ns as f64;
    let span_of = |start_ns, end_ns, name: String, colour| {
        let label = format!("{name} for {}", time(end_ns - start_ns));
        Span { start: at(start_ns), end: at(end_ns), label, depth: 0, colour }
    };
    let row = |thread: &ThreadId| {
        let own = around().filter(|span| span.thread == *thread).map(|span| {
            let object = digest.names.object(span.process, span.object);
            let name = match span.what {
                // What it waits on is the thread library's own memory of that thread.
                WaitingFor::Join => span.what.name().to_owned(),
                what => format!("{} {object}", what.name()),
            };
            span_of(span.start_ns, span.end_ns, name, colour(span.what))
        });
        Lane { name: digest.names.thread(*thread), spans: own.collect(), ..Lane::default() }
    };
    let mut rows: Vec<Lane> = threads.iter().map(row).collect();
    let pieces = wait.pieces.iter().map(|piece| {
        // Behind the colours of what threads wait for.
        let colour = Colour::Series(WaitingFor::ALL.len() as u8 + (piece.cause as u8 % 4));
        span_of(piece.start_ns, piece.end_ns, piece.cause.name().to_owned(), colour)
    });
    rows.push(Lane { name: "cause".to_owned(), spans: pieces.collect(), ..Lane::default() });
    let place = |thread: ThreadId| threads.iter().position(|one| *one == thread).unwrap_or(0);
    let (from, to) = ((at(wait.released_ns), place(wait.waker)), (at(wait.ended_ns), place(wait.thread)));
    let plot = Timeline {
        span: (at(from_ns), at(to_ns)),
        lanes: rows,
        arrows: vec![Arrow { from, to }],
        keys: keys(),
        ..Timeline::default()
    };
    let (took, thread) = (time(wait.took_ns()), digest.names.thread(wait.thread));
    let title = format!("{took} {}, {thread}", wait.class.name());
    Chart::new(format!("wait-{number}"), title, plot)
}
