//! Lanes with intervals over one stretch of time.

use super::{Anchor, Svg, cut_to, widest};
use crate::axis::{Axis, Colour, Quantity};
use crate::html::markup::Markup;
use crate::plot::{Lane, Span, Timeline};
use crate::ticks::Scale;
use std::collections::{BTreeMap, BTreeSet};

const ROW: f64 = 20.0;
const GAP: f64 = 10.0;
const TOP: f64 = 32.0;
const MOST_LABEL: f64 = 170.0;
/// Spans wider than this have words, pixels.
const WORDY: f64 = 34.0;
/// Spans narrower than this are thin, pixels.
const THIN: f64 = 2.0;
/// More thin spans than these in a lane are drawn without their words.
const MOST_THIN: usize = 40;

pub(super) fn draw(plot: &Timeline, wide: f64) -> Markup {
    let (from, to) = plot.span;
    if plot.lanes.is_empty() || from.is_nan() || to <= from {
        return Markup::default();
    }
    let names = plot.lanes.iter().flat_map(|lane| [lane.name.as_str(), lane.detail.as_str()]);
    let left = widest(names).min(MOST_LABEL) + 12.0;
    let right = wide - 8.0;
    let x = |ns: f64| left + (right - left) * ((ns - from) / (to - from)).clamp(0.0, 1.0);
    let mut places = Vec::new();
    let mut y = TOP;
    for lane in &plot.lanes {
        let high = lane.high();
        places.push((y, high));
        y += high + GAP;
    }
    let mut svg = Svg::new();
    if let Some((start, end)) = plot.zone {
        svg.inside.raw("<rect class=\"zone\" x=\"").number(x(start)).raw("\" y=\"").number(TOP - 8.0);
        svg.inside
            .raw("\" width=\"")
            .number((x(end) - x(start)).max(1.0))
            .raw("\" height=\"")
            .number(y - TOP)
            .raw("\"/>");
    }
    axis(&mut svg, plot, &x, y);
    for (lane, (top, high)) in plot.lanes.iter().zip(&places) {
        draw_lane(&mut svg, lane, (*top, *high), (left, right), &x);
    }
    for arrow in &plot.arrows {
        let middle = |lane: usize| places.get(lane).map(|(top, high)| top + high / 2.0);
        if let (Some(start), Some(end)) = (middle(arrow.from.1), middle(arrow.to.1)) {
            svg.line((x(arrow.from.0), start), (x(arrow.to.0), end), "arrow");
            let up = if end < start { 5.0 } else { -5.0 };
            svg.line((x(arrow.to.0) - 3.0, end + up), (x(arrow.to.0), end), "arrow");
            svg.line((x(arrow.to.0) + 3.0, end + up), (x(arrow.to.0), end), "arrow");
        }
    }
    svg.framed(wide, y)
}

impl Lane {
    fn high(&self) -> f64 {
        let deepest = self.spans.iter().map(|span| span.depth).max().unwrap_or(0);
        let words = if self.detail.is_empty() { 1.0 } else { 1.6 };
        ROW * (f64::from(deepest) + 1.0).max(words)
    }
}

fn axis(svg: &mut Svg, plot: &Timeline, x: &dyn Fn(f64) -> f64, foot: f64) {
    let (from, to) = plot.span;
    let (origin, name) = plot.origin.as_ref().map_or((0.0, ""), |(at, name)| (*at, name.as_str()));
    let shown = Axis::linear("", Quantity::Duration).range(from - origin, to - origin);
    for (value, text) in
        Scale::over(&shown, std::iter::empty(), 0.0).ticks(((x(to) - x(from)) / 100.0) as usize)
    {
        let at = x(value + origin);
        svg.line((at, TOP - 8.0), (at, foot), "grid");
        let text = match (plot.origin.is_some(), value) {
            (true, 0.0) => name.to_owned(),
            (true, value) if value > 0.0 => format!("+{text}"),
            _ => text,
        };
        let anchor = match at {
            at if at > x(to) - 30.0 => Anchor::End,
            at if at < x(from) + 24.0 => Anchor::Start,
            _ => Anchor::Middle,
        };
        svg.words((at, 14.0), anchor, "soft", &text);
    }
    if let Some((start, end)) = plot.zone {
        for ns in [start, end] {
            svg.line((x(ns), TOP - 12.0), (x(ns), foot), "guide");
        }
    }
}

fn draw_lane(
    svg: &mut Svg,
    lane: &Lane,
    (top, high): (f64, f64),
    (left, right): (f64, f64),
    x: &dyn Fn(f64) -> f64,
) {
    let room = left - 8.0;
    let first = if lane.detail.is_empty() { top + high / 2.0 + 4.0 } else { top + 12.0 };
    svg.words((0.0, first), Anchor::Start, "", &cut_to(&lane.name, room));
    if !lane.detail.is_empty() {
        svg.words((0.0, top + 27.0), Anchor::Start, "soft", &cut_to(&lane.detail, room));
    }
    svg.line((left, top + high + 0.5), (right, top + high + 0.5), "grid");
    fills(svg, lane, (top, high), (left, right));
    // Long intervals first, so that short ones and instants stay visible on top of them.
    let mut spans: Vec<&Span> = lane.spans.iter().collect();
    spans.sort_by(|one, other| (other.end - other.start).total_cmp(&(one.end - one.start)));
    let foot = |depth: u8| top + high - ROW * f64::from(depth);
    let is_thin = |span: &&Span| x(span.end) - x(span.start) < THIN;
    let thin = spans.iter().filter(|span| is_thin(span)).count();
    let kept = if thin > MOST_THIN { spans.len() - thin } else { spans.len() };
    for span in &spans[..kept] {
        let instant = span.end <= span.start;
        let (start, wide) =
            (x(span.start), if instant { 1.5 } else { (x(span.end) - x(span.start)).max(1.5) });
        let colour = if instant { Colour::Ink } else { span.colour };
        let y = foot(span.depth) - ROW + 1.0;
        let took = if instant {
            String::new()
        } else {
            format!(": {}", Quantity::Duration.cell(span.end - span.start))
        };
        svg.boxed((start, y), (wide, ROW - 2.0), colour, 1.0, &format!("{}{took}", span.label));
        if !instant && wide > WORDY {
            let class = if matches!(colour, Colour::Faint) { "inside faint" } else { "inside" };
            svg.words((start + 5.0, y + 13.5), Anchor::Start, class, &cut_to(&span.label, wide - 8.0));
        }
    }
    cloud(svg, &spans[kept..], &foot, x);
}

/// Many spans of less than two pixels: neighbours of a row and colour are one line, without their words.
fn cloud(svg: &mut Svg, spans: &[&Span], foot: &dyn Fn(u8) -> f64, x: &dyn Fn(f64) -> f64) {
    let colour = |span: &Span| if span.end <= span.start { Colour::Ink } else { span.colour };
    let mut paths: BTreeMap<(u8, &str), (Colour, BTreeSet<i64>)> = BTreeMap::new();
    for span in spans {
        let (_, places) = paths
            .entry((span.depth, colour(span).variable()))
            .or_insert_with(|| (colour(span), BTreeSet::new()));
        places.insert((x(span.start) / THIN) as i64);
    }
    for ((depth, _), (colour, places)) in paths {
        let mut path = Markup::default();
        let mut places = places.into_iter().peekable();
        while let Some(first) = places.next() {
            let mut last = first;
            while places.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            path.raw("M").number(first as f64 * THIN).raw(" ").number(foot(depth) - ROW / 2.0);
            path.raw("h").number((last - first + 1) as f64 * THIN);
        }
        svg.stroked(&path, colour, false, ROW - 2.0);
    }
}

/// What each slice was filled with, stacked from the foot; one path a colour.
fn fills(svg: &mut Svg, lane: &Lane, (top, high): (f64, f64), (left, right): (f64, f64)) {
    let mut below: Vec<f64> = Vec::new();
    for fill in &lane.fills {
        below.resize(fill.shares.len().max(below.len()), 0.0);
        let wide = (right - left) / fill.shares.len().max(1) as f64;
        let mut path = Markup::default();
        for (at, share) in fill.shares.iter().enumerate() {
            let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0 - below[at].min(1.0)) };
            // Less than a tenth of a pixel is not to be seen.
            if share * high >= 0.1 {
                let foot = top + high * (1.0 - below[at]);
                path.raw("M")
                    .number(left + wide * at as f64)
                    .raw(" ")
                    .number(foot)
                    .raw("h")
                    .number(wide)
                    .raw("v");
                path.number(-share * high).raw("h").number(-wide).raw("Z");
                below[at] += share;
            }
        }
        svg.filled(&path, fill.colour, 1.0);
    }
}
