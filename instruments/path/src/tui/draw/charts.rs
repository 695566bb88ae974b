//! Plots beside the figures: PDV and loss over time, and the histogram of PDV.

use crate::tui::series::Point;
use crate::tui::state::{PdvHistogram, Phase, Way};
use quaver_screen::parts::{columns, headed, lines, right, split, text};
use quaver_screen::{Buffer, Color, Look, Rect};
use quaver_view::Cell;

/// Rows that say what is drawn: three headings and the ends of an axis.
const WORDS: u16 = 4;

/// Draws what fits.
pub(super) fn draw(way: &Way, look: Look, area: Rect, buffer: &mut Buffer) {
    let points = way.series.points(usize::from(area.width));
    let Some(totals) = &way.totals else { return lines(buffer, area, why_empty(way), look.faint()) };
    let room = area.height.saturating_sub(WORDS);
    // Without room for the histogram, its words leave theirs to the others.
    let with_histogram = room >= 5;
    let room = if with_histogram { room } else { area.height.saturating_sub(2) };
    let lost = (room / 5).max(1);
    let pdv = if with_histogram { (room - lost) / 2 } else { room.saturating_sub(lost) };
    let (above, below) = split(area, pdv + 1);
    pdv_over_time(way, &points, look, above, buffer);
    let (above, below) = split(below, lost + 1);
    loss_over_time(&points, look, above, buffer);
    if with_histogram {
        histogram(&totals.histogram, look, below, buffer);
    }
}

fn why_empty(way: &Way) -> &'static [&'static str] {
    match (way.phase, way.live) {
        (Phase::Waiting, _) => &["Not begun."],
        (_, false) => &["Received there, told", "here at the end."],
        (_, true) => &["No packet has come."],
    }
}

fn pdv_over_time(way: &Way, points: &[Point], look: Look, area: Rect, buffer: &mut Buffer) {
    let highest = points.iter().filter_map(|point| point.max_pdv_ns).max().unwrap_or(0);
    let top = Cell::Duration(highest.cast_signed());
    let each = Cell::Duration(way.series.stretch_ns().cast_signed());
    let packets = match way.series.packets() {
        1 => "packet".to_owned(),
        packets => format!("{} packets", Cell::Count(packets)),
    };
    let forms = [
        format!("largest PDV of each {packets} ({each}), to {top}"),
        format!("PDV max per {each}, to {top}"),
        format!("PDV max, to {top}"),
    ];
    let area = headed(&forms, look, area, buffer);
    let heights: Vec<f64> =
        points.iter().map(|point| share(point.max_pdv_ns.unwrap_or(0), highest)).collect();
    columns(&heights, look, look.coloured(Color::Cyan), area, buffer);
}

fn loss_over_time(points: &[Point], look: Look, area: Rect, buffer: &mut Buffer) {
    let highest = points.iter().map(|point| point.not_arrived).fold(0.0, f64::max);
    let forms = [if highest > 0.0 {
        format!("not arrived, to {}", Cell::Share(highest))
    } else {
        "not arrived: none".to_owned()
    }];
    let area = headed(&forms, look, area, buffer);
    let heights: Vec<f64> =
        points.iter().map(|point| if highest > 0.0 { point.not_arrived / highest } else { 0.0 }).collect();
    columns(&heights, look, look.coloured(Color::Red), area, buffer);
}

fn histogram(histogram: &PdvHistogram, look: Look, area: Rect, buffer: &mut Buffer) {
    // Each bar has as many columns as fit; where none does, two bars share one.
    let wide = usize::from(area.width) / histogram.bars.len();
    let bars: Vec<u64> =
        histogram.bars.chunks(if wide == 0 { 2 } else { 1 }).map(|bars| bars.iter().sum()).collect();
    let most = bars.iter().copied().max().unwrap_or(0);
    let forms = [
        format!("PDV so far: packets, to {} a bar", Cell::Count(most)),
        format!("packets by PDV, to {}", Cell::Count(most)),
        "packets by PDV".to_owned(),
    ];
    let area = headed(&forms, look, area, buffer);
    let (place, axis) = split(area, area.height.saturating_sub(1));
    let heights: Vec<f64> =
        bars.iter().flat_map(|packets| std::iter::repeat_n(share(*packets, most), wide.max(1))).collect();
    columns(&heights, look, look.coloured(Color::Green), place, buffer);
    let axis = Rect { width: axis.width.min(heights.len() as u16), ..axis };
    text(buffer, axis, "0", look.faint());
    let limit = Cell::Duration(histogram.limit_ns.cast_signed()).to_string();
    let beyond = format!("{limit}, {} beyond", Cell::Count(histogram.above));
    let fits = histogram.above > 0 && beyond.chars().count() + 2 <= usize::from(axis.width);
    right(buffer, axis, if fits { &beyond } else { &limit }, look.faint());
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
