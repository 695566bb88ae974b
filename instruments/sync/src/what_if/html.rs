//! The page of `quaver sync what-if`: the compensation curve, the thread that lost most, threads and frames. Drawings are made here, so
//! that they need no scripts.

use crate::compensate::page as sync_compensation;
use crate::what_if::digest::{Column, Drawn, WhatIf};
use crate::what_if::page::{
    FRAME_COLUMNS, THREAD_COLUMNS, frame_rows, frame_words, limit_heads, loss_words, model_words, power_cell,
    program_words, residency_rows, rows_of, signed, slow_down_cell, thread_cells,
};
use quaver_dvfs::power::Sensitivity;
use quaver_page::RunFacts;
use quaver_page::html::ReportError;
use quaver_page::html::drawn::{Frame, write_drawn};
use quaver_page::html::page::{Tile, micro};
use quaver_page::html::table::Table;
use quaver_page::table::sentence;
use quaver_page::units::{count, duration, duration_f64};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write;

const PAGE: &str = include_str!("../../../../core/page/assets/report/sync_what_if.html");
/// Rows of the table of threads.
const THREADS: usize = 256;
/// Colour of what a thread lost; what it owes and its frequency have those of the curves.
const LOST: &str = "var(--ink)";
/// Colours of the curves.
const COLOURS: [&str; 4] = ["var(--layer-0)", "var(--layer-2)", "var(--layer-4)", "var(--layer-3)"];
const LABEL: f64 = 84.0;
const WIDTH: f64 = 900.0;

/// Writes the page.
pub fn write_html(out: &mut dyn Write, answer: &WhatIf, run: &RunFacts) -> Result<(), ReportError> {
    write_drawn(out, PAGE, &Page::of(answer, run))
}

/// Everything that the template shows. Strings of others are escaped by the template; drawings escape what they hold.
#[derive(Serialize)]
struct Page {
    #[serde(flatten)]
    frame: Frame,
    loss: String,
    model: String,
    keys: Vec<(String, String)>,
    curve: Option<String>,
    slow_downs: Table,
    power: Table,
    residency: Table,
    sensitivity: Table,
    drawn: Option<String>,
    drawn_keys: [(&'static str, String); 3],
    drawn_thread: u32,
    threads: Table,
    frames: Table,
    frame_words: String,
    compensated: Table,
    compensated_note: String,
}

impl Page {
    fn of(answer: &WhatIf, run: &RunFacts) -> Self {
        let limits = limit_heads(answer);
        let heads: Vec<&str> = std::iter::once("highest").chain(limits.iter().map(String::as_str)).collect();
        let (residency_heads, residency) = residency_rows(answer);
        let residency_heads: Vec<&str> = residency_heads.iter().map(String::as_str).collect();
        let facts = answer.compensated.as_ref();
        let done = facts.map(sync_compensation::rows).unwrap_or_default().into_iter();
        let drawn = answer.drawn.as_ref().filter(|drawn| !drawn.columns.is_empty());
        Self {
            frame: frame(answer, run),
            loss: answer.program.as_ref().map(loss_words).map(micro).unwrap_or_default(),
            model: micro(model_words(answer)),
            keys: answer
                .curves
                .iter()
                .zip(COLOURS)
                .map(|(curve, colour)| (curve.name.clone(), format!("background:{colour}")))
                .collect(),
            curve: curve(answer),
            slow_downs: Table::new(&heads, rows_of(answer, slow_down_cell)),
            power: Table::new(&heads, rows_of(answer, power_cell)),
            residency: Table::new(&residency_heads, residency),
            sensitivity: sensitivity(&answer.power),
            drawn_thread: drawn.map_or(0, |drawn| drawn.thread),
            drawn: drawn.map(over_time),
            drawn_keys: [("lost so far", LOST), ("owed", COLOURS[0]), ("frequency over rest", COLOURS[2])]
                .map(|(name, colour)| (name, format!("background:{colour}"))),
            threads: Table::new(&THREAD_COLUMNS, answer.threads.iter().take(THREADS).map(thread_cells)),
            frames: match &answer.frames {
                Some(frames) => Table::new(&FRAME_COLUMNS, frame_rows(frames)),
                None => Table::new(&FRAME_COLUMNS, Vec::<Vec<String>>::new()),
            },
            frame_words: answer
                .frames
                .as_ref()
                .map(frame_words)
                .map(|words| micro(sentence(&words)))
                .unwrap_or_default(),
            compensated: Table::new(&["", ""], done.map(|(name, value)| vec![name.to_owned(), value])),
            compensated_note: facts.map(sync_compensation::note).map(micro).unwrap_or_default(),
        }
    }
}

fn verdict(answer: &WhatIf) -> String {
    let Some(program) = &answer.program else {
        return answer.frames.as_ref().map_or_else(String::new, |frames| {
            let of = count(frames.without.frames);
            let without =
                format!("{} of {of} frames miss their deadline without", count(frames.without.missed));
            let best = frames.with.iter().map(|one| one.deadlines.missed).min();
            best.map_or(format!("{without} a controller."), |best| {
                format!("{without}, {} with the best controller.", count(best))
            })
        });
    };
    let own = answer.table.factor(answer.table.highest());
    let first = answer.curves.first();
    let point = first.and_then(|curve| curve.points.iter().rev().find(|one| one.highest <= own + 1e-9));
    match point {
        Some(point) => format!(
            "Slow-down {} without, {} with up to {:.2} times the frequency at rest.",
            signed(program.slow_down),
            signed(point.slow_down),
            point.highest
        ),
        None => "Nothing to give back.".to_owned(),
    }
}

fn tiles(answer: &WhatIf) -> Vec<Tile> {
    let Some(program) = &answer.program else { return Vec::new() };
    vec![
        Tile {
            name: "Lost",
            value: duration(program.lost_ns.cast_signed()),
            note: "by the rule of fork and join".to_owned(),
        },
        Tile {
            name: "On the critical path",
            value: duration(program.lost_on_path_ns.cast_signed()),
            note: "as far as that is known".to_owned(),
        },
        Tile {
            name: "Subframes",
            value: count(program.subframes),
            note: format!("of {}", duration(answer.subframe_ns.cast_signed())),
        },
    ]
}

fn sensitivity(all: &[Sensitivity]) -> Table {
    let row = |one: &Sensitivity| {
        vec![
            format!("{:.0} %", one.model.dynamic_share * 100.0),
            format!("{:.1}", one.model.idle_activity),
            format!("V^{:.0}", one.model.leakage_exponent),
            signed(one.overhead),
        ]
    };
    Table::new(&["switching", "an idle core switches", "leakage with", "overhead"], all.iter().map(row))
}

fn frame(answer: &WhatIf, run: &RunFacts) -> Frame {
    let program = answer.program.as_ref().map(program_words).unwrap_or_default();
    let frame = Frame::of("sync what-if", run, [("Program", program)]);
    let frame = frame.saying(verdict(answer), answer.complete, tiles(answer), &answer.warnings);
    // An example has no run, and the version is of who answers.
    let name = if run.name.is_empty() { "example".to_owned() } else { frame.name };
    Frame { name, version: env!("CARGO_PKG_VERSION").to_owned(), ..frame }
}

/// One scale of a drawing: from a value to a place.
struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let share = if self.to > self.from { (value - self.from) / (self.to - self.from) } else { 0.0 };
        self.start + (self.end - self.start) * share.clamp(0.0, 1.0)
    }
}

fn framed(inside: &str, high: f64) -> String {
    let style = "font:12px system-ui,sans-serif;fill:var(--soft)";
    let wide = LABEL + WIDTH + 16.0;
    format!(
        "<svg viewBox=\"0 0 {wide:.0} {high:.0}\" role=\"img\" aria-hidden=\"true\" style=\"{style}\">{inside}</svg>"
    )
}

fn text(inside: &mut String, x: f64, y: f64, anchor: &str, said: &str) {
    let said = said.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace(" us", " µs");
    let _ = write!(
        inside,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"soft\" style=\"text-anchor:{anchor}\">{said}</text>"
    );
}

fn line(inside: &mut String, from: (f64, f64), to: (f64, f64), style: &str) {
    let _ = write!(
        inside,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" style=\"{style}\"/>",
        from.0, from.1, to.0, to.1
    );
}

/// Four lines across with what they say.
fn grid(inside: &mut String, scale: &Scale, said: &dyn Fn(f64) -> String) {
    for part in 0..=4 {
        let value = scale.from + (scale.to - scale.from) * f64::from(part) / 4.0;
        let y = scale.at(value);
        line(inside, (LABEL, y), (LABEL + WIDTH, y), "stroke:var(--line);stroke-width:.6");
        text(inside, LABEL - 6.0, y + 4.0, "end", &said(value));
    }
}

/// Slow-down against the highest frequency: a line a controller, and one without.
fn curve(answer: &WhatIf) -> Option<String> {
    let limits: Vec<f64> = answer.curves.first()?.points.iter().map(|point| point.highest).collect();
    let without = answer.program.as_ref()?.slow_down?;
    let all = answer.curves.iter().flat_map(|curve| &curve.points).filter_map(|point| point.slow_down);
    let most = all.clone().fold(without, f64::max).max(1e-6) * 1.05;
    let least = all.fold(0.0, f64::min);
    let (first, last) = (*limits.first()?, *limits.last()?);
    let across = Scale { from: first, to: last, start: LABEL, end: LABEL + WIDTH };
    let up = Scale { from: least, to: most, start: 270.0, end: 10.0 };
    let mut inside = String::new();
    grid(&mut inside, &up, &|value| format!("{:.2} %", value * 100.0));
    for limit in &limits {
        text(&mut inside, across.at(*limit), 288.0, "middle", &format!("{limit:.2}"));
    }
    text(&mut inside, LABEL + WIDTH / 2.0, 306.0, "middle", "highest frequency over rest");
    let y = up.at(without);
    line(
        &mut inside,
        (LABEL, y),
        (LABEL + WIDTH, y),
        "stroke:var(--ink);stroke-width:1;stroke-dasharray:5 4",
    );
    text(&mut inside, LABEL + WIDTH, y - 5.0, "end", "without a controller");
    for (curve, colour) in answer.curves.iter().zip(COLOURS) {
        let mut path = String::new();
        for (at, point) in curve.points.iter().enumerate() {
            let Some(slow_down) = point.slow_down else { continue };
            let (x, y) = (across.at(point.highest), up.at(slow_down));
            let _ = write!(path, "{}{x:.1} {y:.1}", if at == 0 { "M" } else { "L" });
            let _ = write!(
                inside,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" style=\"fill:{colour}\"><title>{}, up to {:.2}: {}</title></circle>",
                curve.name,
                point.highest,
                signed(point.slow_down)
            );
        }
        let _ = write!(inside, "<path d=\"{path}\" style=\"stroke:{colour};stroke-width:1.6;fill:none\"/>");
    }
    Some(framed(&inside, 314.0))
}

/// A thread over time: lost and owed above, frequency below.
fn over_time(drawn: &Drawn) -> String {
    let end_ns = drawn.columns.last().map_or(1, |column| column.at_ns) as f64;
    let x = Scale { from: 0.0, to: end_ns, start: LABEL, end: LABEL + WIDTH };
    let lost = drawn.columns.iter().map(|one| one.lost_so_far_ns as f64);
    let owed = drawn.columns.iter().map(|one| one.owed_ns);
    let most = lost.chain(owed.clone()).fold(1.0, f64::max);
    let up = Scale { from: owed.fold(0.0, f64::min), to: most, start: 190.0, end: 10.0 };
    let mut inside = String::new();
    grid(&mut inside, &up, &duration_f64);
    steps(&mut inside, drawn, &x, LOST, &|one| up.at(one.lost_so_far_ns as f64));
    steps(&mut inside, drawn, &x, COLOURS[0], &|one| up.at(one.owed_ns));
    let ratios = drawn.columns.iter().map(|one| one.ratio);
    let (low, high) = (ratios.clone().fold(1.0, f64::min), ratios.fold(1.05, f64::max));
    let speed = Scale { from: low, to: high, start: 300.0, end: 220.0 };
    grid(&mut inside, &speed, &|value| format!("{value:.2}"));
    steps(&mut inside, drawn, &x, COLOURS[2], &|one| speed.at(one.ratio));
    for part in 0..=4 {
        let value = end_ns * f64::from(part) / 4.0;
        let anchor = ["start", "middle", "middle", "middle", "end"][part as usize];
        text(&mut inside, x.at(value), 318.0, anchor, &duration_f64(value));
    }
    framed(&inside, 326.0)
}

fn steps(inside: &mut String, drawn: &Drawn, x: &Scale, colour: &str, y: &dyn Fn(&Column) -> f64) {
    let mut path = String::new();
    for column in &drawn.columns {
        let (at, high) = (x.at(column.at_ns as f64), y(column));
        let _ = match path.is_empty() {
            true => write!(path, "M{:.1} {high:.1}H{at:.1}", x.start),
            false => write!(path, "V{high:.1}H{at:.1}"),
        };
    }
    let _ = write!(inside, "<path d=\"{path}\" style=\"stroke:{colour};stroke-width:1.2;fill:none\"/>");
}
