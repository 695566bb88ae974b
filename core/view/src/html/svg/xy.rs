//! Series over two axes.

use super::{Anchor, MARKS, Svg, mark, room_of, widest};
use crate::axis::Colour;
use crate::html::markup::Markup;
use crate::plot::{Data, Series, Xy};
use crate::ticks::Scale;
use std::collections::BTreeSet;

const HIGH: f64 = 250.0;
const ABOVE: f64 = 24.0;
const BELOW: f64 = 42.0;
const RIGHT: f64 = 16.0;

/// Where values lie on the drawing.
struct Pane {
    x: Scale,
    y: Scale,
    left: f64,
    right: f64,
}

impl Pane {
    fn x(&self, value: f64) -> Option<f64> {
        self.x.at(value).map(|share| self.left + (self.right - self.left) * share)
    }

    fn y(&self, value: f64) -> Option<f64> {
        self.y.at(value).map(|share| ABOVE + HIGH * (1.0 - share))
    }

    fn foot(&self) -> f64 {
        ABOVE + HIGH
    }
}

pub(super) fn draw(plot: &Xy, wide: f64) -> Markup {
    if plot.series.iter().all(|series| series.data.is_empty()) {
        return Markup::default();
    }
    let x = Scale::over(&plot.x, plot.series.iter().flat_map(|series| series.data.ends_x()), 0.0);
    let guides = plot.guides.iter().filter(|guide| !guide.upright).map(|guide| guide.at);
    let mut y =
        Scale::over(&plot.y, plot.series.iter().flat_map(|series| series.data.ends_y()).chain(guides), 0.06);
    if plot.series.iter().any(|series| matches!(series.data, Data::Columns { .. })) && plot.y.range.is_none()
    {
        y = y.with_zero();
    }
    let rows: Vec<&Series> = plot.series.iter().filter(|one| matches!(one.data, Data::Rug { .. })).collect();
    y = y.with_rows(if plot.y.range.is_some() { 0 } else { rows.len() });
    let marks = y.ticks(7);
    let left = widest(marks.iter().map(|(_, text)| text.as_str())) + 12.0;
    let pane = Pane { x, y, left, right: wide - RIGHT };
    let mut svg = Svg::new();
    axes(&mut svg, plot, &pane, &marks);
    for series in &plot.series {
        draw_series(&mut svg, series, plot, &pane);
    }
    for (row, series) in rows.into_iter().enumerate() {
        rug(&mut svg, series, row, &pane);
    }
    for guide in &plot.guides {
        let scale = if guide.upright { &pane.x } else { &pane.y };
        let ends = if !scale.holds(guide.at) {
            None
        } else if guide.upright {
            pane.x(guide.at).map(|x| ((x, ABOVE), (x, pane.foot())))
        } else {
            pane.y(guide.at).map(|y| ((pane.left, y), (pane.right, y)))
        };
        let Some((from, to)) = ends else { continue };
        svg.line(from, to, "guide");
        let (place, anchor) = match guide.upright {
            false => ((pane.right - 4.0, to.1 - 5.0), Anchor::End),
            true if from.0 + 4.0 + room_of(&guide.label) > pane.right => {
                ((from.0 - 4.0, ABOVE + 12.0), Anchor::End)
            }
            true => ((from.0 + 4.0, ABOVE + 12.0), Anchor::Start),
        };
        svg.words(place, anchor, "haloed", &guide.label);
    }
    svg.framed(wide, ABOVE + HIGH + BELOW)
}

fn axes(svg: &mut Svg, plot: &Xy, pane: &Pane, marks: &[(f64, String)]) {
    svg.words((0.0, 12.0), Anchor::Start, "", &plot.y.label);
    for (value, text) in marks {
        let Some(y) = pane.y(*value) else { continue };
        svg.line((pane.left, y), (pane.right, y), "grid");
        svg.words((pane.left - 6.0, y + 4.0), Anchor::End, "soft", text);
    }
    let room = pane.right - pane.left;
    let mut free = f64::NEG_INFINITY;
    for (value, text) in pane.x.ticks((room / 72.0) as usize) {
        let Some(x) = pane.x(value) else { continue };
        svg.line((x, ABOVE), (x, pane.foot()), "grid");
        let half = room_of(&text) / 2.0;
        let edge = pane.right + RIGHT;
        if x.min(edge - half) - half > free {
            // Fonts differ in width: what reaches the edge ends there.
            let (at, anchor) = if x > edge - half { (edge, Anchor::End) } else { (x, Anchor::Middle) };
            svg.words((at, pane.foot() + 16.0), anchor, "soft", &text);
            free = x.min(edge - half) + half + 6.0;
        }
    }
    svg.line((pane.left, pane.foot()), (pane.right, pane.foot()), "axis");
    svg.words(((pane.left + pane.right) / 2.0, pane.foot() + 36.0), Anchor::Middle, "", &plot.x.label);
}

fn draw_series(svg: &mut Svg, series: &Series, plot: &Xy, pane: &Pane) {
    let (colour, dashed) = (series.colour, series.dashed);
    let joined = |x: &[f64], y: &[f64]| -> Vec<Option<(f64, f64)>> {
        x.iter().zip(y).map(|(x, y)| Some((pane.x(*x)?, pane.y(*y)?))).collect()
    };
    match &series.data {
        Data::Line { x, y, marks } => {
            let points = joined(x, y);
            svg.stroked(&line(&points), colour, dashed, 1.8);
            if *marks {
                for (at, (px, py)) in
                    points.iter().enumerate().filter_map(|(at, point)| Some((at, (*point)?)))
                {
                    let words = format!(
                        "{}: {} at {}",
                        series.name,
                        plot.y.quantity.cell(y[at]),
                        plot.x.words(x[at])
                    );
                    one_mark(svg, (px, py), colour, 3.2, &words);
                }
            }
        }
        Data::Spread { x, y, low, high } => {
            let upper = joined(x, high);
            let lower: Vec<_> = joined(x, low).into_iter().rev().collect();
            let both: Vec<_> = upper.into_iter().chain(lower).flatten().map(Some).collect();
            svg.filled(&line(&both), colour, 0.16);
            let middle = joined(x, y);
            svg.stroked(&line(&middle), colour, dashed, 1.8);
            let marked = if x.len() <= MOST_SPREADS { middle.len() } else { 0 };
            for (at, place) in middle.into_iter().enumerate().take(marked) {
                let (Some(place), cell) = (place, |of: &[f64]| plot.y.quantity.cell(of[at])) else {
                    continue;
                };
                let (name, at) = (&series.name, plot.x.words(x[at]));
                let words = format!("{name}: {}, from {} to {} at {at}", cell(y), cell(low), cell(high));
                one_mark(svg, place, colour, 3.2, &words);
            }
        }
        Data::Slices { start, step, low, high } => {
            svg.filled(&slices(pane, (*start, *step), low, high), colour, 1.0);
        }
        Data::Steps { x, y } => {
            let mut points = Vec::new();
            let mut before: Option<f64> = None;
            for (x, y) in x.iter().zip(y.iter()) {
                let at = pane.x(*x);
                points.extend([at.zip(before), at.zip(pane.y(*y))]);
                before = pane.y(*y);
            }
            svg.stroked(&line(&points), colour, dashed, 1.8);
        }
        Data::Columns { x, y, width } => {
            for (x, y) in x.iter().zip(y.iter()) {
                let ends = (pane.x(x - width / 2.0), pane.x(x + width / 2.0), pane.y(*y));
                let (Some(from), Some(to), Some(top)) = ends else { continue };
                let words =
                    format!("{}: {} at {}", series.name, plot.y.quantity.cell(*y), plot.x.quantity.cell(*x));
                svg.boxed((from, top), (to - from - 1.0, pane.foot() - top), colour, 1.0, &words);
            }
        }
        Data::Points { x, y } => {
            let mut all = joined(x, y);
            x.iter().zip(&mut all).filter(|(x, _)| !pane.x.holds(**x)).for_each(|(_, point)| *point = None);
            points(svg, &all, colour);
        }
        Data::Rug { .. } => {}
    }
}

pub(super) fn one_mark(svg: &mut Svg, (x, y): (f64, f64), colour: Colour, radius: f64, tip: &str) {
    svg.inside
        .raw("<path transform=\"translate(")
        .number(x)
        .raw(" ")
        .number(y)
        .raw(") scale(")
        .number(radius);
    svg.inside
        .raw(")\" d=\"")
        .raw(MARKS[mark(colour)])
        .raw("\" style=\"fill:var(")
        .raw(colour.variable())
        .raw(")");
    svg.inside.raw(if mark(colour) == 9 { ";stroke:var(--ink);stroke-width:.4\">" } else { "\">" });
    svg.tip(tip).raw("</path>");
}

/// Instants at the foot.
fn rug(svg: &mut Svg, series: &Series, row: usize, pane: &Pane) {
    let Data::Rug { x } = &series.data else { return };
    let mut path = Markup::default();
    let mut drawn = f64::NEG_INFINITY;
    for at in x.iter().filter(|x| pane.x.holds(**x)).filter_map(|x| pane.x(*x)) {
        if at >= drawn + 1.0 {
            path.raw("M").number(at).raw(" ").number(pane.foot() - 10.0 * row as f64 - 2.0).raw("v-8");
            drawn = at;
        }
    }
    svg.stroked(&path, series.colour, false, 1.5);
}

/// Bands of no more values have a mark at each.
const MOST_SPREADS: usize = 32;
/// Side of a mark in a cloud of them, pixels.
const DOT: f64 = 3.0;
/// More marks than these are drawn as a cloud.
const MOST_MARKS: usize = 500;

/// Marks; of those that would cover each other one is drawn. Of many only the places are drawn, as one path: each a
/// square of three pixels, neighbours along joined.
fn points(svg: &mut Svg, points: &[Option<(f64, f64)>], colour: Colour) {
    let mut taken = BTreeSet::new();
    let cell = |(x, y): (f64, f64)| ((y / DOT) as i64, (x / DOT) as i64);
    let seen: Vec<(f64, f64)> =
        points.iter().flatten().filter(|point| taken.insert(cell(**point))).copied().collect();
    if seen.len() <= MOST_MARKS {
        seen.into_iter().for_each(|place| one_mark(svg, place, colour, 3.0, ""));
        return;
    }
    let mut path = Markup::default();
    let mut cells = taken.into_iter().peekable();
    while let Some((row, first)) = cells.next() {
        let mut last = first;
        while cells.next_if_eq(&(row, last + 1)).is_some() {
            last += 1;
        }
        path.raw("M").number(first as f64 * DOT).raw(" ").number((row as f64 + 0.5) * DOT);
        path.raw("h").number((last - first + 1) as f64 * DOT);
    }
    svg.stroked(&path, colour, false, DOT);
}

/// Points joined, with gaps. Of the points in one column of a pixel the first, the extremes and the last are kept.
fn line(points: &[Option<(f64, f64)>]) -> Markup {
    let mut path = Markup::default();
    let mut stroke = Vec::new();
    let mut at = 0;
    while at < points.len() {
        let Some(first) = points[at] else {
            joined(&mut path, std::mem::take(&mut stroke));
            at += 1;
            continue;
        };
        let column = |point: (f64, f64)| point.0.floor() as i64;
        let run: Vec<(f64, f64)> = points[at..]
            .iter()
            .map_while(|point| point.filter(|point| column(*point) == column(first)))
            .collect();
        at += run.len();
        let kept = if run.len() <= 4 {
            run
        } else {
            let by_y = |one: &&(f64, f64), other: &&(f64, f64)| one.1.total_cmp(&other.1);
            [Some(&first), run.iter().min_by(by_y), run.iter().max_by(by_y), run.last()]
                .into_iter()
                .flatten()
                .copied()
                .collect()
        };
        stroke.extend(kept);
    }
    joined(&mut path, stroke);
    path
}

/// Adds a stroke through points. Those inside a level or upright part of it are left out: steps have many.
fn joined(path: &mut Markup, points: Vec<(f64, f64)>) {
    let mut kept: Vec<(f64, f64)> = Vec::with_capacity(points.len());
    for point in points {
        if let [.., before, middle] = kept[..] {
            let between = |one: f64, other: f64, third: f64| (one <= other) == (other <= third);
            let level = before.1 == middle.1 && middle.1 == point.1 && between(before.0, middle.0, point.0);
            let upright = before.0 == middle.0 && middle.0 == point.0 && between(before.1, middle.1, point.1);
            if level || upright {
                kept.pop();
            }
        }
        kept.push(point);
    }
    let mut from = None;
    for (x, y) in kept {
        match from {
            None => path.raw("M").number(x).raw(" ").number(y),
            Some((_, from_y)) if from_y == y => path.raw("H").number(x),
            Some((from_x, _)) if from_x == x => path.raw("V").number(y),
            Some(_) => path.raw("L").number(x).raw(" ").number(y),
        };
        from = Some((x, y));
    }
}

/// Least to largest of all slices in each column of a pixel.
fn slices(pane: &Pane, (start, step): (f64, f64), low: &[f64], high: &[f64]) -> Markup {
    let mut columns: Vec<Option<(f64, f64)>> = vec![None; (pane.right - pane.left).ceil() as usize + 1];
    for (at, (low, high)) in low.iter().zip(high).enumerate() {
        let ends = (
            pane.x(start + step * at as f64),
            pane.x(start + step * (at + 1) as f64),
            pane.y(*low),
            pane.y(*high),
        );
        let (Some(from), Some(to), Some(low), Some(high)) = ends else { continue };
        let first = (from - pane.left) as usize;
        let last = ((to - pane.left).ceil() as usize).max(first + 1).min(columns.len());
        for column in &mut columns[first..last] {
            let (top, foot) = column.unwrap_or((high, low));
            *column = Some((top.min(high), foot.max(low)));
        }
    }
    let mut path = Markup::default();
    for (at, column) in columns.iter().enumerate() {
        let Some((top, foot)) = column else { continue };
        path.raw("M")
            .number(pane.left + at as f64)
            .raw(" ")
            .number(*top)
            .raw("h1v")
            .number((foot - top).max(1.0))
            .raw("h-1Z");
    }
    path
}
