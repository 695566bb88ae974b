//! Bars of categories, and values with their intervals.

use super::{Anchor, Svg, cut_to, room_of, widest};
use crate::axis::{Axis, Colour};
use crate::html::markup::Markup;
use crate::plot::{BarSeries, Bars, Ranges};
use crate::ticks::Scale;

const ROW: f64 = 24.0;
const HIGH: f64 = 230.0;
const ABOVE: f64 = 24.0;
const MOST_LABEL: f64 = 240.0;

pub(super) fn draw(plot: &Bars, wide: f64) -> Markup {
    if plot.categories.is_empty() || plot.series.is_empty() {
        return Markup::default();
    }
    let scale = Scale::over(&plot.value, plot.ends(), 0.04).with_zero();
    if plot.horizontal { lying(plot, &scale, wide) } else { standing(plot, &scale, wide) }
}

impl Bars {
    /// Values that the axis must have room for.
    fn ends(&self) -> impl Iterator<Item = f64> {
        let whiskers = |series: &BarSeries| {
            series.whiskers.iter().flatten().flat_map(|(low, high)| [*low, *high]).collect::<Vec<_>>()
        };
        let beside = self.series.iter().flat_map(move |series| {
            series
                .values
                .iter()
                .copied()
                .chain(whiskers(series))
                .chain(series.targets.iter().flatten().copied())
                .collect::<Vec<_>>()
        });
        let sums = (0..self.categories.len()).map(|at| {
            self.series
                .iter()
                .filter_map(|series| series.values.get(at))
                .filter(|value| value.is_finite())
                .sum()
        });
        let stacked = self.stacked;
        beside.filter(move |_| !stacked).chain(sums.filter(move |_| stacked))
    }

    /// Each bar of a category: its part, from which value to which, and of how many places side by side the which.
    fn parts(&self, category: usize) -> Vec<(&BarSeries, f64, f64, usize)> {
        let mut foot = 0.0;
        let value =
            |series: &BarSeries| series.values.get(category).copied().filter(|value| value.is_finite());
        let mut parts = Vec::new();
        for (place, series) in self.series.iter().enumerate() {
            let Some(value) = value(series) else { continue };
            let from = if self.stacked { foot } else { 0.0 };
            foot = from + value;
            parts.push((series, from, foot, if self.stacked { 0 } else { place }));
        }
        parts
    }

    fn places(&self) -> f64 {
        if self.stacked { 1.0 } else { self.series.len() as f64 }
    }

    fn tip(&self, category: usize, series: &BarSeries) -> String {
        let cell = |value: f64| self.value.quantity.cell(value);
        let name = if series.name.is_empty() { String::new() } else { format!(", {}", series.name) };
        let mut words = format!("{}{name}: {}", self.categories[category], cell(series.values[category]));
        if let Some(Some((low, high))) = series.whiskers.get(category) {
            words += &format!(", from {} to {}", cell(*low), cell(*high));
        }
        if let Some(Some(target)) = series.targets.get(category) {
            words += &format!("; to compare: {}", cell(*target));
        }
        words
    }
}

/// The scale below rows, with its lines, and what it measures.
fn scale_below(svg: &mut Svg, axis: &Axis, scale: &Scale, (left, right): (f64, f64), foot: f64) {
    for (value, text) in scale.ticks(((right - left) / 64.0) as usize) {
        let Some(share) = scale.at(value) else { continue };
        let x = left + (right - left) * share;
        svg.line((x, 0.0), (x, foot), "grid");
        svg.words((x, foot + 15.0), if share > 0.97 { Anchor::End } else { Anchor::Middle }, "soft", &text);
    }
    svg.words(((left + right) / 2.0, foot + 32.0), Anchor::Middle, "", &axis.label);
}

fn lying(plot: &Bars, scale: &Scale, wide: f64) -> Markup {
    let left = widest(plot.categories.iter().map(String::as_str)).min(MOST_LABEL) + 12.0;
    let right = wide - 12.0;
    let row = if plot.stacked { ROW } else { ROW.max(12.0 * plot.places() + 8.0) };
    let foot = row * plot.categories.len() as f64;
    let x = |value: f64| left + (right - left) * scale.at(value).unwrap_or(0.0);
    let mut svg = Svg::new();
    scale_below(&mut svg, &plot.value, scale, (left, right), foot);
    for (category, name) in plot.categories.iter().enumerate() {
        let top = row * category as f64;
        svg.words((0.0, top + row / 2.0 + 4.0), Anchor::Start, "", &cut_to(name, MOST_LABEL));
        let high = (row - 6.0) / plot.places();
        for (series, from, to, place) in plot.parts(category) {
            let y = top + 3.0 + high * place as f64;
            let (start, end) = (x(from.min(to)), x(from.max(to)));
            if end - start >= 0.05 {
                svg.boxed(
                    (start, y),
                    (end - start, high - 0.5),
                    series.colour,
                    1.0,
                    &plot.tip(category, series),
                );
            }
            whisker(
                &mut svg,
                series,
                category,
                |value| (x(value), y + high / 2.0),
                |value| [(x(value), y - 2.0), (x(value), y + high + 2.0)],
            );
        }
    }
    svg.framed(wide, foot + 38.0)
}

fn standing(plot: &Bars, scale: &Scale, wide: f64) -> Markup {
    let marks = scale.ticks(6);
    let left = widest(marks.iter().map(|(_, text)| text.as_str())) + 12.0;
    let right = wide - 8.0;
    let foot = ABOVE + HIGH;
    let y = |value: f64| foot - HIGH * scale.at(value).unwrap_or(0.0);
    let mut svg = Svg::new();
    svg.words((0.0, 12.0), Anchor::Start, "", &plot.value.label);
    for (value, text) in &marks {
        svg.line((left, y(*value)), (right, y(*value)), if *value == 0.0 { "axis" } else { "grid" });
        svg.words((left - 6.0, y(*value) + 4.0), Anchor::End, "soft", text);
    }
    let room = (right - left) / plot.categories.len() as f64;
    // Names that would run into each other stand in two rows, and are cut where that is not enough.
    let two_rows = widest(plot.categories.iter().map(String::as_str)) + 8.0 > room;
    let bar = (room * 0.8 / plot.places()).min(38.0);
    for (category, name) in plot.categories.iter().enumerate() {
        let middle = left + room * (category as f64 + 0.5);
        let lower = if two_rows && category % 2 == 1 { 14.0 } else { 0.0 };
        let words = cut_to(name, if two_rows { room * 2.0 - 6.0 } else { room });
        // The outermost names stay on the drawing.
        let half = room_of(&words) / 2.0;
        svg.words(
            (middle.clamp(half.min(middle), (wide - half).max(middle.min(wide - half))), foot + 16.0 + lower),
            Anchor::Middle,
            "soft",
            &words,
        );
        for (series, from, to, place) in plot.parts(category) {
            let x = middle + bar * (place as f64 - plot.places() / 2.0);
            let (top, low) = (y(from.max(to)), y(from.min(to)));
            svg.boxed((x, top), (bar - 1.5, low - top), series.colour, 1.0, &plot.tip(category, series));
            let centre = x + (bar - 1.5) / 2.0;
            whisker(
                &mut svg,
                series,
                category,
                |value| (centre, y(value)),
                |value| [(x - 2.0, y(value)), (x + bar + 0.5, y(value))],
            );
        }
    }
    svg.framed(wide, foot + if two_rows { 38.0 } else { 24.0 })
}

/// The whisker of a bar along its middle, and the mark to compare with across it.
fn whisker(
    svg: &mut Svg,
    series: &BarSeries,
    category: usize,
    along: impl Fn(f64) -> (f64, f64),
    across: impl Fn(f64) -> [(f64, f64); 2],
) {
    if let Some(Some((low, high))) = series.whiskers.get(category) {
        svg.line(along(*low), along(*high), "whisker");
    }
    if let Some(Some(target)) = series.targets.get(category) {
        let [from, to] = across(*target);
        svg.line(from, to, "target");
    }
}

/// Values with their intervals, one below the other.
pub(super) fn ranges(plot: &Ranges, wide: f64) -> Markup {
    if plot.rows.is_empty() {
        return Markup::default();
    }
    let values = plot.rows.iter().flat_map(|row| {
        let (low, high) = row.interval.unwrap_or((row.at, row.at));
        [row.at, low, high]
    });
    let scale = Scale::over(&plot.value, values.chain(plot.zero), 0.04);
    let left = widest(plot.rows.iter().map(|row| row.name.as_str())).min(MOST_LABEL) + 16.0;
    let right = wide - widest(plot.rows.iter().map(|row| row.words.as_str())).min(MOST_LABEL * 1.4) - 20.0;
    let x = |value: f64| left + (right - left) * scale.at(value).unwrap_or(0.0);
    let foot = ROW * plot.rows.len() as f64;
    let mut svg = Svg::new();
    scale_below(&mut svg, &plot.value, &scale, (left, right), foot);
    if let Some(zero) = plot.zero {
        svg.line((x(zero), 0.0), (x(zero), foot), "axis");
    }
    for (at, row) in plot.rows.iter().enumerate() {
        let y = ROW * (at as f64 + 0.5);
        svg.words((0.0, y + 4.0), Anchor::Start, "", &cut_to(&row.name, MOST_LABEL));
        if let Some((low, high)) = row.interval {
            svg.boxed((x(low), y - 1.5), (x(high) - x(low), 3.0), row.colour, 0.55, "");
        }
        let tip = format!("{}: {}", row.name, plot.value.quantity.cell(row.at));
        super::xy::one_mark(&mut svg, (x(row.at), y), diamond(row.colour), 4.2, &tip);
        svg.words((wide, y + 4.0), Anchor::End, "soft", &row.words);
    }
    svg.framed(wide, foot + 38.0)
}

/// Colours that have no mark of their own are drawn as muted ones.
fn diamond(colour: Colour) -> Colour {
    if matches!(colour, Colour::Ink | Colour::Faint) { Colour::Muted } else { colour }
}
