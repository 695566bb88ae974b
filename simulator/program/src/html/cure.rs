//! Jitter and its cure in the report of `quaver sim run`.

use super::drawings::{axis, escaped, framed};
use super::{Figure, Table, micro};
use crate::digest::{CureSummary, TimeSlice};
use crate::page::{cure as page, figure, simulated};
use quaver_page::units::percent;
use serde::Serialize;
use std::fmt::Write as _;

const LABEL: f64 = 84.0;
const WIDTH: f64 = 900.0;
/// Height of a drawing over time.
const HIGH: f64 = 120.0;
const WITHOUT: &str = "var(--layer-1)";
const WITH: &str = "var(--layer-0)";

/// What the template shows.
#[derive(Serialize)]
pub(super) struct CureSection {
    configured: String,
    verdict: String,
    outcome: Table,
    measured: Vec<String>,
    seeds: Option<Table>,
    classes: Table,
    units: Vec<String>,
    points: Option<Table>,
    residency: Option<String>,
    changes: Vec<String>,
    power: Option<Table>,
    caches: Vec<String>,
    over_time: Vec<Figure>,
}

impl CureSection {
    pub(super) fn of(cure: &CureSummary) -> Self {
        let words = |sentences: Vec<String>| sentences.into_iter().map(micro).collect();
        let points = cure.points.len() > 1;
        Self {
            configured: page::configured(cure),
            verdict: micro(page::verdict(cure)),
            outcome: Table::new(&page::OUTCOME_COLUMNS, page::outcome_rows(cure)),
            measured: words(page::measured(cure)),
            seeds: (cure.seeds.len() > 1).then(|| seeds(cure)),
            classes: Table::new(&page::CLASS_COLUMNS, cure.classes.iter().map(page::class_cells)),
            units: words(page::units(cure)),
            points: points
                .then(|| Table::new(&page::POINT_COLUMNS, cure.points.iter().map(page::point_cells))),
            residency: points.then(|| residency(cure)),
            changes: words(page::changes(cure)),
            power: (!cure.power.is_empty()).then(|| power(cure)),
            caches: words(page::caches(cure)),
            over_time: over_time(cure),
        }
    }
}

fn share(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", percent(value.abs()))
    })
}

fn seeds(cure: &CureSummary) -> Table {
    let rows = cure.seeds.iter().map(|one| {
        vec![
            one.seed.to_string(),
            share(one.slow_down_without),
            share(one.slow_down),
            share(one.power_overhead),
            one.lost_ns.map_or("-".to_owned(), |ns| micro(simulated(ns * 1_000_000))),
        ]
    });
    Table::new(&["seed", "slower without the cure", "with it", "power", "jitter found without it"], rows)
}

fn power(cure: &CureSummary) -> Table {
    let rows = cure.power.iter().map(|one| {
        vec![
            percent(one.model.dynamic_share),
            figure(one.model.idle_activity),
            figure(one.model.leakage_exponent),
            share(one.overhead),
        ]
    });
    Table::new(&["switching", "idle activity", "leakage goes with V to the power of", "overhead"], rows)
}

/// Shares of the time with a thread, by point: a column each.
fn residency(cure: &CureSummary) -> String {
    let most = cure.points.iter().map(|point| point.active_share).fold(0.0, f64::max).max(1e-9);
    let wide = WIDTH / cure.points.len() as f64;
    let mut inside = String::new();
    for (at, point) in cure.points.iter().enumerate() {
        let (left, high) = (LABEL + wide * at as f64, HIGH * point.active_share / most);
        let _ = write!(
            inside,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{high:.1}\" style=\"fill:{WITH}\"><title>{} GHz: {}</title>\
             </rect><text x=\"{:.1}\" y=\"{:.1}\" class=\"soft\" style=\"text-anchor:middle\">{} GHz</text>",
            left + 6.0,
            HIGH - high,
            wide - 12.0,
            figure(point.ghz),
            percent(point.active_share),
            left + wide / 2.0,
            HIGH + 16.0,
            figure(point.ghz)
        );
    }
    framed(&inside, LABEL + WIDTH + 4.0, HIGH + 22.0)
}

fn over_time(cure: &CureSummary) -> Vec<Figure> {
    let end = |slices: &[TimeSlice]| slices.last().map_or(0, |slice| slice.end_fs);
    let end_fs = end(&cure.over_time).max(end(&cure.over_time_without));
    if end_fs == 0 {
        return Vec::new();
    }
    let mut figures = Vec::new();
    let mean = |slice: &TimeSlice| slice.lost_fs as f64 / slice.subframes.max(1) as f64;
    let most = |slices: &[TimeSlice]| slices.iter().map(mean).fold(0.0, f64::max);
    let most_fs = most(&cure.over_time).max(most(&cure.over_time_without));
    for (name, slices, colour) in [
        ("Jitter of a subframe over time, without the cure", &cure.over_time_without, WITHOUT),
        ("Jitter of a subframe over time, with the cure", &cure.over_time, WITH),
    ] {
        if most_fs > 0.0 && !slices.is_empty() {
            let mut inside = scale(&[(0.0, "0".to_owned()), (1.0, micro(simulated(most_fs as u64)))]);
            let bars = slices.iter().map(|slice| (slice.end_fs, mean(slice) / most_fs));
            columns(&mut inside, bars, end_fs, colour);
            axis(&mut inside, HIGH, end_fs);
            figures.push(Figure { name, svg: framed(&inside, LABEL + WIDTH + 4.0, HIGH + 22.0) });
        }
    }
    let factors: Vec<f64> = cure.points.iter().map(|point| point.factor).collect();
    if let (Some(least), Some(most)) = (factors.first(), factors.last())
        && most > least
        && !cure.over_time.is_empty()
    {
        let high = |factor: f64| (factor - least) / (most - least);
        let mut inside =
            scale(&[(0.0, figure(*least)), (high(1.0), "1.00".to_owned()), (1.0, figure(*most))]);
        line(&mut inside, &cure.over_time, end_fs, &high);
        axis(&mut inside, HIGH, end_fs);
        let name = "Frequency over that at rest, mean of the subframes";
        figures.push(Figure { name, svg: framed(&inside, LABEL + WIDTH + 4.0, HIGH + 22.0) });
    }
    figures
}

fn x(at_fs: u64, end_fs: u64) -> f64 {
    LABEL + WIDTH * at_fs as f64 / end_fs as f64
}

/// Lines across, at parts of the height, with their words.
fn scale(marks: &[(f64, String)]) -> String {
    let mut inside = String::new();
    for (part, words) in marks {
        let y = HIGH * (1.0 - part);
        let _ = write!(
            inside,
            "<line x1=\"{LABEL}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" style=\"stroke:var(--line);stroke-width:.6\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" class=\"soft\" style=\"text-anchor:end\">{}</text>",
            LABEL + WIDTH,
            LABEL - 6.0,
            (y + 4.0).max(10.0),
            escaped(words)
        );
    }
    inside
}

fn columns(inside: &mut String, bars: impl Iterator<Item = (u64, f64)>, end_fs: u64, colour: &str) {
    let (mut path, mut from_fs) = (String::new(), 0);
    for (to_fs, part) in bars {
        let (left, wide) = (x(from_fs, end_fs), x(to_fs, end_fs) - x(from_fs, end_fs));
        let high = HIGH * part.clamp(0.0, 1.0);
        if high >= 0.1 {
            let _ = write!(path, "M{left:.1} {HIGH:.1}h{wide:.2}v-{high:.1}h-{wide:.2}z");
        }
        from_fs = to_fs;
    }
    let _ = write!(inside, "<path d=\"{path}\" style=\"fill:{colour}\"/>");
}

fn line(inside: &mut String, slices: &[TimeSlice], end_fs: u64, high: &dyn Fn(f64) -> f64) {
    let mut path = String::new();
    for slice in slices.iter().filter(|slice| slice.subframes > 0) {
        let step = if path.is_empty() { 'M' } else { 'L' };
        let y = HIGH * (1.0 - high(slice.factor).clamp(0.0, 1.0));
        let _ = write!(path, "{step}{:.1} {y:.1}", x(slice.end_fs, end_fs));
    }
    let _ = write!(inside, "<path d=\"{path}\" style=\"fill:none;stroke:{WITH};stroke-width:1.5\"/>");
}
