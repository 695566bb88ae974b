//! Drawings of a simulated run: bars of cores, and threads over time.

use crate::digest::{CoreFigures, PARTS, RUNNING_PARTS, SLICES, SimLane, SimLanes, SimSummary};
use crate::intervals::SimState;
use crate::page::{figure, simulated};
use quaver_page::units::{count, percent};
use serde::Serialize;
use std::fmt::Write as _;

/// Lanes of the overview.
const MOST_LANES: usize = 32;
/// Arrows of the overview: those of the longest waits.
const MOST_ARROWS: usize = 32;
const LABEL: f64 = 84.0;
const WIDTH: f64 = 900.0;
const LANE: f64 = 22.0;

/// Colours of [`PARTS`].
const COLOURS: [&str; PARTS.len()] = [
    "var(--layer-0)",
    "var(--layer-5)",
    "var(--layer-6)",
    "var(--layer-4)",
    "var(--layer-2)",
    "var(--layer-3)",
    "var(--layer-1)",
    "var(--event-1)",
    "var(--event-2)",
    "var(--event-0)",
    "var(--event-3)",
    "var(--layer-8)",
    "var(--line)",
    "var(--faint)",
];

/// The colour of a part of the time.
pub(super) fn colour(part: usize) -> &'static str {
    COLOURS.get(part).copied().unwrap_or("var(--cause-other)")
}

/// A row of bars, one after the other.
struct Row {
    label: String,
    /// Length, colour and words of each.
    bars: Vec<(f64, &'static str, String)>,
}

/// Rows of bars on one scale, and what the scale says.
fn bars(rows: &[Row], most: f64, label: f64, wide: f64, said: &dyn Fn(f64) -> String) -> String {
    let most = if most > 0.0 { most } else { 1.0 };
    let x = |value: f64| label + wide * (value / most).clamp(0.0, 1.0);
    let height = LANE * rows.len() as f64;
    let mut inside = String::new();
    for part in 0..=4 {
        let (at, value) = (label + wide * f64::from(part) / 4.0, most * f64::from(part) / 4.0);
        let anchor = ["start", "middle", "middle", "middle", "end"][part as usize];
        let _ = write!(
            inside,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"0\" y2=\"{height}\" style=\"stroke:var(--line);stroke-width:.6\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" class=\"soft\" style=\"text-anchor:{anchor}\">{}</text>",
            height + 16.0,
            escaped(&said(value))
        );
    }
    for (number, row) in rows.iter().enumerate() {
        let y = LANE * number as f64;
        let _ = write!(
            inside,
            "<text x=\"0\" y=\"{:.1}\" class=\"soft\">{}</text>",
            y + 15.0,
            escaped(&row.label)
        );
        let mut from = 0.0;
        for (length, colour, words) in &row.bars {
            let (left, right) = (x(from), x(from + length));
            from += length;
            if right - left < 0.05 {
                continue;
            }
            let _ = write!(
                inside,
                "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{:.1}\" style=\"fill:{colour}\"><title>{}</title></rect>",
                y + 3.0,
                right - left,
                LANE - 6.0,
                escaped(words)
            );
        }
    }
    framed(&inside, label + wide + 4.0, height + 22.0)
}

pub(super) fn framed(inside: &str, wide: f64, high: f64) -> String {
    let style = "font:12px system-ui,sans-serif;fill:var(--soft)";
    format!(
        "<svg viewBox=\"0 0 {wide:.0} {high:.0}\" role=\"img\" aria-hidden=\"true\" style=\"{style}\">{inside}</svg>"
    )
}

/// Names and colours of the parts that are there in some row.
fn keys(rows: &[Row], parts: usize) -> Vec<(&'static str, &'static str)> {
    let there = |part: usize| rows.iter().any(|row| row.bars.get(part).is_some_and(|bar| bar.0 > 0.0));
    (0..parts).filter(|part| there(*part)).map(|part| (PARTS[part].0, colour(part))).collect()
}

/// What each core's whole time went to.
pub(super) fn core_time(summary: &SimSummary) -> (Option<String>, Vec<(&'static str, &'static str)>) {
    let whole = summary.chip.duration_fs as f64;
    let row = |core: &CoreFigures| {
        let bar = |(part, fs): (usize, &u64)| {
            let share = *fs as f64 / whole;
            let name = PARTS.get(part).map_or("", |(name, _)| name);
            (share, colour(part), format!("core {}: {name} {}", core.core, percent(share)))
        };
        Row {
            label: format!("core {}", core.core),
            bars: core.parts_fs.iter().enumerate().map(bar).collect(),
        }
    };
    if summary.chip.duration_fs == 0 {
        return (None, Vec::new());
    }
    let rows: Vec<Row> = summary.cores.iter().map(row).collect();
    let keys = keys(&rows, PARTS.len());
    (Some(bars(&rows, 1.0, LABEL, WIDTH, &percent)), keys)
}

/// Cycles an instruction of each core, in parts.
pub(super) fn cpi(
    used: &[&CoreFigures],
    cycle_fs: u64,
) -> (Option<String>, Vec<(&'static str, &'static str)>) {
    let row = |core: &&CoreFigures| {
        let bar = |(part, cpi): (usize, f64)| {
            (cpi, colour(part), format!("core {}: {} {}", core.core, PARTS[part].0, figure(cpi)))
        };
        let stack = core.cpi_stack(cycle_fs).into_iter().enumerate();
        Row { label: format!("core {}", core.core), bars: stack.map(bar).collect() }
    };
    let rows: Vec<Row> = used.iter().map(row).collect();
    let keys = keys(&rows, RUNNING_PARTS);
    (drawn(&rows, LABEL, WIDTH, &figure), keys)
}

/// The rows, on a scale whose quarters are round numbers; nothing where there is nothing to be seen.
fn drawn(rows: &[Row], label: f64, wide: f64, said: &dyn Fn(f64) -> String) -> Option<String> {
    let sum = |row: &Row| row.bars.iter().map(|bar| bar.0).sum::<f64>();
    let most = rows.iter().map(sum).fold(0.0, f64::max);
    (most > 0.0).then(|| bars(rows, rounded(most), label, wide, said))
}

/// The next number above of which a quarter has one or two digits: 4, 8, 20 or 40 times a power of ten.
fn rounded(most: f64) -> f64 {
    let power = 10f64.powf(most.log10().floor() - 1.0);
    let steps = [10.0, 12.0, 16.0, 20.0, 24.0, 28.0, 32.0, 40.0, 48.0, 60.0, 80.0, 100.0];
    let step = steps.into_iter().find(|step| step * power >= most * 0.999_999);
    step.unwrap_or(100.0) * power
}

/// Misses over looks of each core.
pub(super) fn ratios(used: &[&CoreFigures], of: fn(&CoreFigures) -> (u64, u64)) -> Option<String> {
    let row = |core: &&CoreFigures| {
        let (misses, looks) = of(core);
        let ratio = misses as f64 / looks.max(1) as f64;
        let words = format!("core {}: {} of {} ({})", core.core, count(misses), count(looks), percent(ratio));
        Row { label: format!("core {}", core.core), bars: vec![(ratio, "var(--layer-0)", words)] }
    };
    let rows: Vec<Row> = used.iter().map(row).collect();
    drawn(&rows, 62.0, 420.0, &percent)
}

/// Lines that each core needed from elsewhere, in a thousand of its instructions.
pub(super) fn sharing(used: &[&CoreFigures]) -> (Option<String>, Vec<(&'static str, &'static str)>) {
    let kinds =
        [("from memory", colour(6)), ("from other cores", colour(5)), ("made writable", "var(--layer-4)")];
    let row = |core: &&CoreFigures| {
        let lines = [core.from_memory, core.from_remote, core.upgrades];
        let bar = |(lines, (name, colour)): (u64, (&str, &'static str))| {
            let each = lines as f64 * 1e3 / core.instructions.max(1) as f64;
            (
                each,
                colour,
                format!("core {}: {} lines {name}, {} in 1000", core.core, count(lines), figure(each)),
            )
        };
        Row { label: format!("core {}", core.core), bars: lines.into_iter().zip(kinds).map(bar).collect() }
    };
    let rows: Vec<Row> = used.iter().map(row).collect();
    (drawn(&rows, LABEL, WIDTH, &figure), kinds.to_vec())
}

/// All threads over the whole run.
#[derive(Serialize)]
pub(super) struct Overview {
    svg: String,
    keys: Vec<(&'static str, &'static str)>,
    words: String,
}

const fn state_colour(state: SimState) -> &'static str {
    match state {
        SimState::Runs => "var(--layer-0)",
        SimState::Ready => "var(--layer-4)",
        SimState::Lock => "var(--cause-0)",
        SimState::Condition => "var(--layer-3)",
        SimState::Barrier => "var(--layer-2)",
        SimState::Join => "var(--event-0)",
        SimState::Kernel => "var(--layer-8)",
    }
}

/// Each thread a lane, each slice of time a column filled with what the thread did.
pub(super) fn overview(lanes: &SimLanes) -> Option<Overview> {
    let chosen: Vec<&SimLane> = lanes.lanes.iter().take(MOST_LANES).collect();
    if chosen.is_empty() || lanes.end_fs == 0 {
        return None;
    }
    let x = |fs: u64| LABEL + WIDTH * (fs as f64 / lanes.end_fs as f64).min(1.0);
    let height = LANE * chosen.len() as f64;
    let mut inside = String::new();
    for (row, lane) in chosen.iter().enumerate() {
        let y = LANE * row as f64;
        let _ = write!(
            inside,
            "<text x=\"0\" y=\"{:.1}\" class=\"soft\">thread {}</text><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
             height=\"{:.1}\" style=\"fill:var(--faint)\"/>",
            y + 15.0,
            lane.thread,
            x(lane.first_fs),
            y + 2.0,
            (x(lane.last_fs) - x(lane.first_fs)).max(1.0),
            LANE - 4.0
        );
        columns(&mut inside, lane, lanes, y, &x);
    }
    arrows(&mut inside, lanes, &chosen, &x);
    axis(&mut inside, height, lanes.end_fs);
    let there =
        |state: SimState| chosen.iter().any(|lane| lane.slices.iter().any(|slice| slice[state as usize] > 0));
    let keys = SimState::ALL.into_iter().filter(|state| there(*state));
    Some(Overview {
        svg: framed(&inside, LABEL + WIDTH + 4.0, height + 22.0),
        keys: keys.map(|state| (state.name(), state_colour(state))).collect(),
        words: words(lanes, chosen.len()),
    })
}

fn words(lanes: &SimLanes, shown: usize) -> String {
    let mut words = format!(
        "A column is {}, filled with what the thread did in it. Arrows go from who ended one of the longest waits to who waited.",
        simulated(lanes.slice_fs).replace(" us", " µs")
    );
    let more = lanes.lanes.len() - shown + lanes.threads_left_out.len();
    if more > 0 {
        let _ = write!(words, " {} more threads are not drawn.", count(more as u64));
    }
    words
}

/// One path a state: the columns of a lane, stacked from its foot.
fn columns(inside: &mut String, lane: &SimLane, lanes: &SimLanes, y: f64, x: &dyn Fn(u64) -> f64) {
    let room = LANE - 4.0;
    for state in SimState::ALL {
        let mut path = String::new();
        for (at, slice) in lane.slices.iter().enumerate().take(SLICES) {
            let from_fs = at as u64 * lanes.slice_fs;
            let (left, right) = (x(from_fs), x(from_fs + lanes.slice_fs));
            let part = |fs: u64| (fs as f64 / lanes.slice_fs as f64).min(1.0) * room;
            let below: f64 = slice[..state as usize].iter().map(|fs| part(*fs)).sum();
            let high = part(slice[state as usize]).min(room - below);
            // Less than a tenth of a pixel is not to be seen.
            if high >= 0.1 {
                let (foot, wide) = (y + 2.0 + room - below, right - left);
                let _ = write!(path, "M{left:.1} {foot:.1}h{wide:.2}v-{high:.1}h-{wide:.2}z");
            }
        }
        if !path.is_empty() {
            let _ = write!(inside, "<path d=\"{path}\" style=\"fill:{}\"/>", state_colour(state));
        }
    }
}

/// From who ended a wait to who waited, for the longest waits.
fn arrows(inside: &mut String, lanes: &SimLanes, chosen: &[&SimLane], x: &dyn Fn(u64) -> f64) {
    let row = |thread: u32| chosen.iter().position(|lane| lane.thread == thread);
    let mut waits: Vec<_> = lanes.spans.iter().filter(|span| span.woken_by.is_some()).collect();
    waits.sort_by_key(|span| (std::cmp::Reverse(span.length_fs()), span.end_fs));
    for span in waits.into_iter().take(MOST_ARROWS) {
        let (Some(by), Some(thread)) = (span.woken_by, span.thread) else { continue };
        let (Some(from), Some(to)) = (row(by), row(thread)) else { continue };
        if from == to {
            continue;
        }
        let middle = |row: usize| LANE * row as f64 + LANE / 2.0;
        let (at, from, to) = (x(span.end_fs), middle(from), middle(to));
        let way = if to > from { -5.0 } else { 5.0 };
        let _ = write!(
            inside,
            "<path d=\"M{at:.1} {from:.1}V{to:.1}m-2.5 {way}l2.5 {:.1}l2.5 {way}\" \
             style=\"stroke:var(--ink);stroke-width:1;fill:none;opacity:.6\"><title>{}</title></path>",
            -way,
            escaped(&format!(
                "thread {by} ended the wait of thread {thread} for a {} at {}",
                span.state.name(),
                simulated(span.end_fs)
            ))
        );
    }
}

/// Four times, counted from the start of the program.
pub(super) fn axis(inside: &mut String, height: f64, length_fs: u64) {
    for part in 0..=4_u64 {
        let at = LABEL + WIDTH * part as f64 / 4.0;
        let anchor = ["start", "middle", "middle", "middle", "end"][part as usize];
        let _ = write!(
            inside,
            "<line x1=\"{at}\" x2=\"{at}\" y1=\"0\" y2=\"{height}\" style=\"stroke:var(--line);stroke-width:.6\"/>\
             <text x=\"{at}\" y=\"{:.1}\" class=\"soft\" style=\"text-anchor:{anchor}\">{}</text>",
            height + 16.0,
            escaped(&simulated(length_fs / 4 * part))
        );
    }
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace(" us", " µs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_at_round_numbers() {
        for (most, wanted) in [(0.5, 0.6), (1.0, 1.0), (1.01, 1.2), (3.3, 4.0), (97.0, 100.0), (0.031, 0.032)]
        {
            assert!((rounded(most) - wanted).abs() < 1e-9, "{most}: {}", rounded(most));
        }
    }

    #[test]
    fn each_part_has_a_colour_of_its_own() {
        let different: std::collections::BTreeSet<&str> = COLOURS.into_iter().collect();
        assert_eq!(different.len(), PARTS.len());
    }
}
