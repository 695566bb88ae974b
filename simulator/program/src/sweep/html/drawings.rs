//! Drawings of a sweep: a figure over one axis as lines, over two as a map.

use crate::sweep::digest::{SeedSpread, SweepGroup, SweepSummary};
use crate::sweep::page::{Shown, spread_text};
use serde::Serialize;
use std::fmt::Write as _;

const WIDE: f64 = 520.0;
const HIGH: f64 = 240.0;
/// Room for what stands beside and below.
const LEFT: f64 = 70.0;
const BELOW: f64 = 44.0;
const ABOVE: f64 = 10.0;
/// Cells of a map.
const CELL_HIGH: f64 = 30.0;
/// Most values of an axis that are drawn as a map's rows or columns.
const MOST_CELLS: usize = 40;
/// What is less of a map's values is not coloured.
const NO_DIFFERENCE: f64 = 0.01;
/// From so many times the least value on the largest one is drawn on a logarithmic scale.
const FAR_APART: f64 = 10.0;
/// Words along an axis: about so many pixels a character.
const CHARACTER: f64 = 6.6;

/// Name and colour of a trace.
#[derive(Serialize)]
pub(super) struct Key {
    name: String,
    colour: String,
}

/// A drawing, and what it is of.
#[derive(Serialize)]
pub(super) struct Drawing {
    words: String,
    /// The trace, where it has a drawing of its own.
    name: Option<String>,
    svg: String,
}

/// The traces' colours, where lines need them.
pub(super) fn keys(summary: &SweepSummary) -> Vec<Key> {
    if summary.axes.len() != 1 {
        return Vec::new();
    }
    let key = |(at, name): (usize, &String)| Key { name: name.clone(), colour: colour(at) };
    summary.traces.iter().enumerate().map(key).collect()
}

fn colour(trace: usize) -> String {
    format!("var(--layer-{})", trace % 9)
}

/// The drawings of a figure; none where there are no axes, or more than two.
pub(super) fn of(summary: &SweepSummary, groups: &[SweepGroup<'_>], figure: &Shown) -> Vec<Drawing> {
    match summary.axes.len() {
        1 => lines(summary, groups, figure).into_iter().collect(),
        2 => (0..summary.traces.len()).filter_map(|trace| map(summary, groups, figure, trace)).collect(),
        _ => Vec::new(),
    }
}

/// From values to places, with a little room at both ends.
struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>, logarithmic: bool) -> Self {
        let (low, high) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let room = if high > low { 0.0 } else { low.abs().max(1.0) * 0.1 };
        Self { low: low - room, high: high + room, logarithmic: logarithmic && low - room > 0.0 }
    }

    /// Figures of traces that are far apart would all be flat lines but on a logarithmic scale, which has no place for nothing.
    fn of_figure(found: &[(usize, usize, SeedSpread)], text: fn(f64) -> String) -> Self {
        let values = || found.iter().flat_map(|(.., spread)| [spread.min, spread.max]);
        let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        Self::of(values(), low > 0.0 && text(low) != text(0.0) && high / low > FAR_APART)
    }

    /// 0 to 1.
    fn at(&self, value: f64) -> f64 {
        let of = |value: f64| if self.logarithmic { value.ln() } else { value };
        ((of(value) - of(self.low)) / (of(self.high) - of(self.low))).clamp(0.0, 1.0)
    }

    fn value(&self, share: f64) -> f64 {
        if self.logarithmic {
            return self.low * (self.high / self.low).powf(share);
        }
        self.low + (self.high - self.low) * share
    }
}

/// Places of an axis' values, 0 to 1: as numbers where they are ones (by their ratio where that is even), else side by side.
fn places(summary: &SweepSummary, axis: usize) -> Vec<f64> {
    let values = &summary.axes[axis].values;
    let numbers: Option<Vec<f64>> = values.iter().map(|label| label.number()).collect();
    let side_by_side = || {
        let last = values.len().saturating_sub(1).max(1) as f64;
        (0..values.len()).map(|at| at as f64 / last).collect()
    };
    let Some(numbers) = numbers.filter(|numbers| numbers.len() > 1) else { return side_by_side() };
    let ratio = |two: &[f64]| two[1] / two[0];
    let even = numbers.len() > 2
        && numbers.iter().all(|number| *number > 0.0)
        && numbers
            .windows(2)
            .all(|two| ratio(two) > 1.2 && (ratio(two) / ratio(&numbers) - 1.0).abs() < 0.05);
    let scale = Scale::of(numbers.iter().copied(), even);
    numbers.iter().map(|number| scale.at(*number)).collect()
}

fn lines(summary: &SweepSummary, groups: &[SweepGroup<'_>], figure: &Shown) -> Option<Drawing> {
    let found: Vec<(usize, usize, SeedSpread)> = groups
        .iter()
        .filter_map(|group| Some((group.trace, *group.values.first()?, group.spread(figure.column)?)))
        .collect();
    if found.is_empty() {
        return None;
    }
    let scale = Scale::of_figure(&found, figure.text);
    let places = places(summary, 0);
    let x = |value: usize| LEFT + (WIDE - LEFT - 16.0) * (0.02 + 0.96 * places[value]);
    let y = |value: f64| ABOVE + (HIGH - ABOVE - BELOW) * (1.0 - scale.at(value));
    let mut inside = grid(&scale, figure);
    inside.push_str(&along(summary, &x));
    for trace in 0..summary.traces.len() {
        let mut points: Vec<(usize, SeedSpread)> =
            found.iter().filter(|one| one.0 == trace).map(|one| (one.1, one.2)).collect();
        points.sort_by(|one, other| places[one.0].total_cmp(&places[other.0]));
        draw_line(&mut inside, (summary, trace, figure), &points, (&x, &y));
    }
    let words = format!("{} over {}", figure.head, summary.axes[0].name);
    Some(Drawing { words, name: None, svg: framed(&inside, WIDE, HIGH) })
}

/// Lines across, with their values.
fn grid(scale: &Scale, figure: &Shown) -> String {
    let mut inside = String::new();
    for part in 0..=4 {
        let share = f64::from(part) / 4.0;
        let y = ABOVE + (HIGH - ABOVE - BELOW) * (1.0 - share);
        let _ = write!(
            inside,
            "<line x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{y:.1}\" y2=\"{y:.1}\" style=\"stroke:var(--line);stroke-width:.6\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" style=\"fill:var(--soft);text-anchor:end\">{}</text>",
            WIDE - 8.0,
            LEFT - 6.0,
            y + 4.0,
            escaped(&(figure.text)(scale.value(share)))
        );
    }
    inside
}

/// The values below, as many as find room, and what they are of.
fn along(summary: &SweepSummary, x: &dyn Fn(usize) -> f64) -> String {
    let mut inside = String::new();
    let mut order: Vec<usize> = (0..summary.axes[0].values.len()).collect();
    order.sort_by(|one, other| x(*one).total_cmp(&x(*other)));
    let mut free = f64::NEG_INFINITY;
    for value in order {
        let label = summary.label(0, value);
        let half = label.chars().count() as f64 * CHARACTER / 2.0;
        if x(value) - half > free {
            free = x(value) + half + 4.0;
            let _ = write!(
                inside,
                "<text x=\"{:.1}\" y=\"{:.0}\" style=\"fill:var(--soft);text-anchor:middle\">{}</text>",
                x(value),
                HIGH - BELOW + 18.0,
                escaped(&label)
            );
        }
    }
    let _ = write!(
        inside,
        "<text x=\"{:.0}\" y=\"{:.0}\" style=\"text-anchor:middle\">{}</text>",
        (LEFT + WIDE) / 2.0,
        HIGH - 8.0,
        escaped(&summary.axes[0].name)
    );
    inside
}

/// From a value's number and from a figure to places.
type Places<'a> = (&'a dyn Fn(usize) -> f64, &'a dyn Fn(f64) -> f64);

fn draw_line(
    inside: &mut String,
    (summary, trace, figure): (&SweepSummary, usize, &Shown),
    points: &[(usize, SeedSpread)],
    (x, y): Places<'_>,
) {
    let colour = colour(trace);
    let place = |value: usize, of: f64| format!("{:.1},{:.1} ", x(value), y(of));
    if points.iter().any(|(_, spread)| spread.max > spread.min) {
        let upper = points.iter().map(|(value, spread)| place(*value, spread.max));
        let lower = points.iter().rev().map(|(value, spread)| place(*value, spread.min));
        let band: String = upper.chain(lower).collect();
        let _ = write!(inside, "<polygon points=\"{band}\" style=\"fill:{colour};opacity:.16\"/>");
    }
    let line: String = points.iter().map(|(value, spread)| place(*value, spread.mean)).collect();
    let _ =
        write!(inside, "<polyline points=\"{line}\" style=\"fill:none;stroke:{colour};stroke-width:1.6\"/>");
    for (value, spread) in points {
        let words = format!(
            "{}, {} = {}: {}",
            summary.traces[trace],
            summary.axes[0].name,
            summary.label(0, *value),
            spread_text(figure, *spread)
        );
        let _ = write!(
            inside,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" style=\"fill:{colour}\"><title>{}</title></circle>",
            x(*value),
            y(spread.mean),
            escaped(&words)
        );
    }
}

fn map(summary: &SweepSummary, groups: &[SweepGroup<'_>], figure: &Shown, trace: usize) -> Option<Drawing> {
    let of_trace = groups.iter().filter(|group| group.trace == trace);
    let found: Vec<(usize, usize, SeedSpread)> = of_trace
        .filter_map(|group| match group.values {
            [row, column] => Some((*row, *column, group.spread(figure.column)?)),
            _ => None,
        })
        .collect();
    let (rows, columns) = (summary.axes[0].values.len(), summary.axes[1].values.len());
    if found.is_empty() || rows.max(columns) > MOST_CELLS {
        return None;
    }
    let scale = Scale::of(found.iter().map(|(.., spread)| spread.mean), false);
    let means = || found.iter().map(|(.., spread)| spread.mean);
    let (least, most) = (means().fold(f64::INFINITY, f64::min), means().fold(f64::NEG_INFINITY, f64::max));
    let widest = |axis: usize, values: usize| {
        (0..values).map(|value| summary.label(axis, value).chars().count()).max().unwrap_or(0) as f64
            * CHARACTER
    };
    let left = (widest(0, rows) + 14.0).max(summary.axes[0].name.chars().count() as f64 * CHARACTER + 14.0);
    let texts: Vec<String> = found.iter().map(|(.., spread)| (figure.text)(spread.mean)).collect();
    // Colours that told of tiny differences would say more than the figures do.
    let flat = most - least <= NO_DIFFERENCE * most.abs().max(least.abs())
        || texts.windows(2).all(|two| two[0] == two[1]);
    let text_wide = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0) as f64 * CHARACTER;
    let cell = (widest(1, columns).max(text_wide) + 14.0).max(44.0);
    let mut inside = String::new();
    let _ = write!(
        inside,
        "<text x=\"0\" y=\"34\">{}</text><text x=\"{left:.0}\" y=\"14\">{}</text>",
        escaped(&summary.axes[0].name),
        escaped(&summary.axes[1].name)
    );
    let head = 42.0;
    for column in 0..columns {
        let x = left + cell * (column as f64 + 0.5);
        let label = escaped(&summary.label(1, column));
        let _ = write!(
            inside,
            "<text x=\"{x:.1}\" y=\"34\" style=\"fill:var(--soft);text-anchor:middle\">{label}</text>"
        );
    }
    for row in 0..rows {
        let y = head + CELL_HIGH * (row as f64 + 0.5) + 4.0;
        let label = escaped(&summary.label(0, row));
        let _ = write!(inside, "<text x=\"0\" y=\"{y:.1}\" style=\"fill:var(--soft)\">{label}</text>");
    }
    for ((row, column, spread), text) in found.iter().zip(&texts) {
        let (x, y) = (left + cell * *column as f64, head + CELL_HIGH * *row as f64);
        let strength = if flat { 8.0 } else { 8.0 + 62.0 * scale.at(spread.mean) };
        let _ = write!(
            inside,
            "<g class=\"cell\"><title>{}</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
             style=\"fill:var(--layer-1);fill-opacity:{:.2}\"/><text x=\"{:.1}\" y=\"{:.1}\" \
             style=\"text-anchor:middle;fill:var(--ink)\">{}</text></g>",
            escaped(&spread_text(figure, *spread)),
            cell - 2.0,
            CELL_HIGH - 2.0,
            strength / 100.0,
            x + cell / 2.0 - 1.0,
            y + CELL_HIGH / 2.0 + 3.0,
            escaped(text)
        );
    }
    let svg = framed(&inside, left + cell * columns as f64, head + CELL_HIGH * rows as f64);
    let name = summary.traces[trace].clone();
    Some(Drawing { words: format!("{name}: {}", figure.head), name: Some(name), svg })
}

fn framed(inside: &str, wide: f64, high: f64) -> String {
    let style = format!("font:12px system-ui,sans-serif;fill:var(--ink);width:{wide:.0}px;max-width:100%");
    format!(
        "<svg viewBox=\"0 0 {wide:.0} {high:.0}\" role=\"img\" aria-hidden=\"true\" style=\"{style}\">{inside}</svg>"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace(" us", " µs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::digest::{Label, SweepAxis};
    use crate::sweep::page::tests::summary;

    #[test]
    fn values_lie_by_their_size_by_their_ratio_or_side_by_side() {
        let with = |values: Vec<Label>| {
            let mut summary = summary(1);
            summary.axes = vec![SweepAxis { name: "a".into(), values }];
            places(&summary, 0).iter().map(|place| (place * 100.0).round() as i32).collect::<Vec<_>>()
        };
        assert_eq!(with([0, 1, 4].map(Label::Integer).to_vec()), [0, 25, 100]);
        assert_eq!(with([128, 256, 512].map(Label::Integer).to_vec()), [0, 50, 100]);
        assert_eq!(with(["b", "a", "c"].map(|text| Label::Text(text.into())).to_vec()), [0, 50, 100]);
        assert_eq!(with(vec![Label::Integer(7)]), [0]);
        assert_eq!(with([512, 128].map(Label::Integer).to_vec()), [100, 0]);
    }

    #[test]
    fn a_flat_figure_has_a_scale() {
        let flat = Scale::of([3.0, 3.0].into_iter(), false);
        assert!((flat.at(3.0) - 0.5).abs() < 1e-9 && flat.value(0.0) < 3.0);
    }

    #[test]
    fn figures_that_are_far_apart_have_a_logarithmic_scale() {
        let scale = |values: &[f64]| {
            let spread = |value: f64| SeedSpread { min: value, mean: value, max: value };
            let found: Vec<_> = values.iter().map(|value| (0, 0, spread(*value))).collect();
            Scale::of_figure(&found, |value| format!("{value:.2}"))
        };
        let far = scale(&[1.0, 100.0]);
        assert!((far.value(0.5) - 10.0).abs() < 1e-9 && (far.at(10.0) - 0.5).abs() < 1e-9);
        assert!((scale(&[1.0, 3.0]).value(0.5) - 2.0).abs() < 1e-9, "near");
        for nothing in [0.0, 1e-9] {
            assert!((scale(&[nothing, 100.0]).value(0.5) - 50.0).abs() < 1e-8, "zero has no logarithm");
        }
    }
}
