//! Drawings of threads: what each waited for over the run, and one wait with who ended it.

use crate::page::SyncInput;
use quaver_page::units::{count, duration};
use quaver_sync_analysis::lanes::{Lane, Span, WaitingFor};
use quaver_sync_analysis::sync::{Bin, ClassFigures, SyncClass, SyncResults, ThreadId, Wait};
use serde::Serialize;
use std::fmt::Write as _;

/// Lanes of the overview: those of the threads that were late longest.
const MOST_LANES: usize = 32;
/// Lanes beside the two of a drawn wait.
const MOST_OTHERS: usize = 6;
/// Waits of others drawn around one.
const MOST_BOXES: usize = 400;
const LABEL: f64 = 92.0;
const WIDTH: f64 = 900.0;
const LANE: f64 = 22.0;

/// All threads over the whole run.
#[derive(Serialize)]
pub(super) struct Overview {
    svg: String,
    keys: Vec<(&'static str, String)>,
    words: String,
}

fn colour(what: WaitingFor) -> &'static str {
    ["var(--cause-0)", "var(--cause-1)", "var(--cause-2)", "var(--event-0)"][what as usize]
}

/// Each thread a lane, each slice of time a column filled with what part of it the thread waited.
pub(super) fn overview(input: &SyncInput<'_>) -> Option<Overview> {
    let lanes = input.lanes;
    let late = |thread: ThreadId| {
        let found = input.summary.results.threads.iter().find(|one| one.thread == thread);
        found.map_or(0, |one| one.late.total_ns)
    };
    let mut chosen: Vec<&Lane> = lanes.lanes.iter().collect();
    chosen.sort_by_key(|lane| std::cmp::Reverse(late(lane.thread)));
    let left_out = chosen.len().saturating_sub(MOST_LANES) as u64 + lanes.threads_left_out;
    chosen.truncate(MOST_LANES);
    chosen.sort_by_key(|lane| (lane.first_ns, lane.thread));
    if chosen.is_empty() {
        return None;
    }
    let length_ns = (lanes.to_ns - lanes.from_ns) as f64;
    let x = |ns: u64| LABEL + WIDTH * (ns.saturating_sub(lanes.from_ns) as f64 / length_ns).min(1.0);
    let height = LANE * chosen.len() as f64;
    let mut inside = String::new();
    for (row, lane) in chosen.iter().enumerate() {
        let y = LANE * row as f64;
        label(&mut inside, y, lane.thread);
        let (from, to) = (x(lane.first_ns), x(lane.last_ns));
        let _ = write!(
            inside,
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" style=\"fill:var(--faint)\"/>",
            y + 2.0,
            (to - from).max(1.0),
            LANE - 4.0
        );
        columns(&mut inside, lane, y, length_ns);
    }
    arrows(&mut inside, input, &chosen, &x);
    axis(&mut inside, height, 0, length_ns as u64);
    let slice = duration((length_ns / lanes.lanes[0].slices.len() as f64) as i64);
    let mut words = format!("A column is {slice}; how far it is filled is how much of it the thread waited.");
    if left_out > 0 {
        let _ = write!(words, " {} threads that were late for less are left out.", count(left_out));
    }
    Some(Overview {
        svg: framed(&inside, height + 22.0),
        keys: WaitingFor::ALL.map(|what| (what.name(), format!("background:{}", colour(what)))).to_vec(),
        words: words.replace(" us", " µs"),
    })
}

/// One path a kind: the columns of a lane, stacked from its foot.
fn columns(inside: &mut String, lane: &Lane, y: f64, length_ns: f64) {
    let wide = WIDTH / lane.slices.len() as f64;
    let slice_ns = length_ns / lane.slices.len() as f64;
    let room = LANE - 4.0;
    for what in WaitingFor::ALL {
        let mut path = String::new();
        for (at, slice) in lane.slices.iter().enumerate() {
            let part = |ns: u64| (ns as f64 / slice_ns).min(1.0) * room;
            let below: f64 = slice[..what as usize].iter().map(|ns| part(*ns)).sum();
            let high = part(slice[what as usize]).min(room - below);
            // Less than a tenth of a pixel is not to be seen.
            if high >= 0.1 {
                let foot = y + 2.0 + room - below;
                let _ = write!(
                    path,
                    "M{:.1} {foot:.1}h{wide:.1}v-{high:.1}h-{wide:.1}z",
                    LABEL + wide * at as f64
                );
            }
        }
        if !path.is_empty() {
            let _ = write!(inside, "<path d=\"{path}\" style=\"fill:{}\"/>", colour(what));
        }
    }
}

/// From who ended a wait to who waited, for the longest waits.
fn arrows(inside: &mut String, input: &SyncInput<'_>, chosen: &[&Lane], x: &dyn Fn(u64) -> f64) {
    let row = |thread: ThreadId| chosen.iter().position(|lane| lane.thread == thread);
    for wait in &input.summary.results.longest {
        if let (Some(from), Some(to)) = (row(wait.waker), row(wait.thread)) {
            arrow(inside, (x(wait.released_ns), from), (x(wait.ended_ns), to), 0.55);
        }
    }
}

fn arrow(inside: &mut String, (x0, row0): (f64, usize), (x1, row1): (f64, usize), opacity: f64) {
    let middle = |row: usize| LANE * row as f64 + LANE / 2.0;
    let _ = write!(
        inside,
        "<path d=\"M{x0:.1} {:.1}L{x1:.1} {:.1}\" style=\"stroke:var(--ink);stroke-width:1;fill:none;opacity:{opacity}\" \
         marker-end=\"url(#head)\"/>",
        middle(row0),
        middle(row1)
    );
}

fn label(inside: &mut String, y: f64, thread: ThreadId) {
    let _ = write!(inside, "<text x=\"0\" y=\"{:.1}\" class=\"soft\">thread {}</text>", y + 15.0, thread.0);
}

/// Four times, counted from the left edge, which is `origin_ns` into the run.
fn axis(inside: &mut String, height: f64, origin_ns: u64, length_ns: u64) {
    for part in 0..=4 {
        let at = LABEL + WIDTH * f64::from(part) / 4.0;
        let ns = origin_ns + length_ns / 4 * part as u64;
        let anchor = ["start", "middle", "middle", "middle", "end"][part as usize];
        let _ = write!(
            inside,
            "<line x1=\"{at}\" x2=\"{at}\" y1=\"0\" y2=\"{height}\" style=\"stroke:var(--line);stroke-width:.6\"/>\
             <text x=\"{at}\" y=\"{:.1}\" class=\"soft\" style=\"text-anchor:{anchor}\">{}</text>",
            height + 16.0,
            duration(ns.cast_signed()).replace(" us", " µs")
        );
    }
}

fn framed(inside: &str, height: f64) -> String {
    format!(
        "<svg viewBox=\"0 0 {:.0} {height:.0}\" role=\"img\" aria-hidden=\"true\"><defs><marker id=\"head\" viewBox=\"0 0 6 6\" \
         refX=\"5\" refY=\"3\" markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0L6 3L0 6z\" \
         style=\"fill:var(--ink)\"/></marker></defs>{inside}</svg>",
        LABEL + WIDTH + 4.0
    )
}

/// One wait: the lanes of who waited, of who ended it and of others that waited meanwhile, and the causes below.
pub(super) fn wait(input: &SyncInput<'_>, wait: &Wait) -> String {
    let before_ns = (wait.took_ns() / 2).min(wait.released_ns - wait.entered_ns.min(wait.released_ns));
    let from_ns = wait.released_ns - before_ns.max(wait.took_ns() / 8).min(wait.released_ns);
    let to_ns = wait.ended_ns + wait.took_ns() / 8 + 1;
    let length_ns = (to_ns - from_ns) as f64;
    let x = |ns: u64| LABEL + WIDTH * (ns.clamp(from_ns, to_ns) - from_ns) as f64 / length_ns;
    let around: Vec<&Span> = input
        .lanes
        .spans
        .iter()
        .filter(|span| span.start_ns < to_ns && span.end_ns > from_ns)
        .take(MOST_BOXES)
        .collect();
    let mut rows = vec![wait.waker, wait.thread];
    rows.dedup();
    for span in &around {
        if rows.len() < 2 + MOST_OTHERS && !rows.contains(&span.thread) {
            rows.push(span.thread);
        }
    }
    let mut inside = String::new();
    rows.iter().enumerate().for_each(|(row, thread)| label(&mut inside, LANE * row as f64, *thread));
    for span in around {
        let Some(row) = rows.iter().position(|thread| *thread == span.thread) else { continue };
        let title = format!(
            "{} {} for {}",
            span.what.name(),
            input.names.object(span.process, span.object),
            duration((span.end_ns - span.start_ns).cast_signed())
        );
        boxed(&mut inside, (x(span.start_ns), x(span.end_ns)), row, colour(span.what), &title);
    }
    let waiter = rows.iter().position(|thread| *thread == wait.thread).unwrap_or(0);
    let waker = rows.iter().position(|thread| *thread == wait.waker).unwrap_or(0);
    arrow(&mut inside, (x(wait.released_ns), waker), (x(wait.ended_ns), waiter), 1.0);
    let height = causes(&mut inside, wait, rows.len(), &x);
    axis(&mut inside, height, from_ns.saturating_sub(input.lanes.from_ns), to_ns - from_ns);
    framed(&inside, height + 22.0)
}

/// The pieces of a wait, each with its cause where there is room to say it; where they end.
fn causes(inside: &mut String, wait: &Wait, row: usize, x: &dyn Fn(u64) -> f64) -> f64 {
    let _ = write!(inside, "<text x=\"0\" y=\"{:.1}\" class=\"soft\">why</text>", LANE * row as f64 + 15.0);
    for piece in &wait.pieces {
        let ends = (x(piece.start_ns), x(piece.end_ns));
        let name = piece.cause.name();
        let title = format!("{name}, {}", duration((piece.end_ns - piece.start_ns).cast_signed()));
        let place = piece.cause as usize;
        let colours =
            ["--layer-0", "--layer-1", "--layer-2", "--layer-3", "--layer-4", "--layer-5", "--layer-6"];
        let colour = format!("var({})", colours.get(place).copied().unwrap_or("--layer-7"));
        boxed(inside, ends, row, &colour, &title);
        if ends.1 - ends.0 > 8.0 * name.len() as f64 {
            let _ = write!(
                inside,
                "<text x=\"{:.1}\" y=\"{:.1}\" style=\"fill:var(--on-colour)\">{name}</text>",
                ends.0 + 4.0,
                LANE * row as f64 + 15.0
            );
        }
    }
    LANE * (row + 1) as f64
}

fn boxed(inside: &mut String, (from, to): (f64, f64), row: usize, colour: &str, title: &str) {
    let _ = write!(
        inside,
        "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" style=\"fill:{colour}\"><title>{}</title></rect>",
        LANE * row as f64 + 3.0,
        (to - from).max(0.6),
        LANE - 6.0,
        escaped(title)
    );
}

/// Symbols of programs may hold what ends text in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace(" us", " µs")
}

/// Late operations of a class by size, on the scale of all classes.
pub(super) fn histogram(class: &ClassFigures, results: &SyncResults) -> String {
    sizes(&class.bins, decades(results.classes.iter().flat_map(|one| &one.bins)))
}

/// Powers of ten, in nanoseconds, that all bins lie between.
pub fn decades<'a>(bins: impl Iterator<Item = &'a Bin>) -> (f64, f64) {
    let (mut least, mut most) = (f64::MAX, 1.0_f64);
    for bin in bins {
        least = least.min(bin.from_ns.max(1.0));
        most = most.max(bin.to_ns);
    }
    let least = least.min(most).log10().floor();
    (least, most.log10().ceil().max(least + 1.0))
}

/// Operations by size, between two powers of ten; the largest bar is as high as the drawing.
pub fn sizes(bins: &[Bin], (least, most): (f64, f64)) -> String {
    const HIGH: f64 = 110.0;
    const WIDE: f64 = 430.0;
    let x = |ns: f64| WIDE * (ns.max(1.0).log10() - least) / (most - least);
    let largest = bins.iter().map(|bin| bin.count).max().unwrap_or(1).max(1) as f64;
    let mut inside = String::new();
    for power in least as i32..=most as i32 {
        let ns = 10_i64.pow(power.unsigned_abs());
        let anchor = if power == least as i32 {
            "start"
        } else if power == most as i32 {
            "end"
        } else {
            "middle"
        };
        let _ = write!(
            inside,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"0\" y2=\"{HIGH}\" style=\"stroke:var(--line);stroke-width:.6\"/>\
             <text x=\"{at:.1}\" y=\"{}\" style=\"font:11px system-ui,sans-serif;fill:var(--soft);text-anchor:{anchor}\">{}</text>",
            HIGH + 15.0,
            duration(ns).replace(".00", "").replace(".0", "").replace(" us", " µs"),
            at = x(ns as f64)
        );
    }
    for bin in bins {
        let high = (HIGH - 4.0) * bin.count as f64 / largest;
        let (from, to) = (x(bin.from_ns), x(bin.to_ns));
        let _ = write!(
            inside,
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{high:.1}\" style=\"fill:var(--layer-0)\"><title>{}</title></rect>",
            HIGH - high,
            (to - from - 0.5).max(0.5),
            escaped(&format!(
                "{} from {} to {}",
                count(bin.count),
                duration(bin.from_ns as i64),
                duration(bin.to_ns as i64)
            ))
        );
    }
    format!("<svg viewBox=\"0 0 {WIDE} {}\" role=\"img\" aria-hidden=\"true\">{inside}</svg>", HIGH + 20.0)
}

/// What part of the jitter is of which class, a bar a program (the paper's figure 9).
pub fn break_down(programs: &[(String, [f64; 6])]) -> String {
    const NAME: f64 = 230.0;
    const WIDE: f64 = 700.0;
    let mut inside = String::new();
    for (row, (name, shares)) in programs.iter().enumerate() {
        let y = LANE * row as f64;
        let _ = write!(inside, "<text x=\"0\" y=\"{:.1}\" class=\"soft\">{}</text>", y + 15.0, escaped(name));
        let mut from = NAME;
        for class in SyncClass::ALL {
            let wide = WIDE * shares[class as usize];
            let title =
                format!("{}, {} {}", name, class.name(), quaver_page::units::percent(shares[class as usize]));
            if wide > 0.0 {
                let _ = write!(
                    inside,
                    "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{:.1}\" style=\"fill:{}\"><title>{}</title></rect>",
                    y + 3.0,
                    LANE - 6.0,
                    class_colour(class),
                    escaped(&title)
                );
            }
            from += wide;
        }
    }
    let high = LANE * programs.len() as f64;
    format!("<svg viewBox=\"0 0 {} {high}\" role=\"img\" aria-hidden=\"true\">{inside}</svg>", NAME + WIDE)
}

/// Colour of a class in the break-down and its key.
pub fn class_colour(class: SyncClass) -> &'static str {
    [
        "var(--layer-0)",
        "var(--layer-1)",
        "var(--layer-2)",
        "var(--layer-3)",
        "var(--layer-4)",
        "var(--layer-5)",
    ][class as usize]
}
