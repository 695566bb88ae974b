//! Drawings of characters: rows of bars for distributions and categories, dots for series.

use super::Style;
use crate::axis::Axis;
use crate::cell::{Cell, bar};
use crate::plot::{Bars, Binned, Data, Distribution, Plot, Xy};
use crate::text::{cut, safe, width};
use crate::ticks::Scale;

/// Most bars of a distribution: more bins are drawn several to a bar.
const MOST_BARS: usize = 20;
/// Most rows of a bar chart; the last ones say most.
const MOST_ROWS: usize = 40;
/// Rows of dots.
const DOT_ROWS: usize = 14;
/// A name is not longer.
const MOST_LABEL: usize = 28;

/// The drawing; empty where this kind has none or there is nothing to draw.
pub(super) fn draw(plot: &Plot, style: Style) -> String {
    match plot {
        Plot::Distribution(plot) => distribution(plot, style),
        Plot::Bars(plot) => bars(plot, style),
        Plot::Xy(plot) => dots(plot, style),
        Plot::Ranges(_) | Plot::Matrix(_) | Plot::Timeline(_) => String::new(),
    }
}

/// A row: a label to the left, a bar, and notes to the right.
struct BarRow {
    label: String,
    height: f64,
    notes: [String; 2],
}

fn bar_rows(rows: &[BarRow], style: Style) -> String {
    let widest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let labels = widest(&mut rows.iter().map(|row| width(&row.label)));
    let notes = [0, 1].map(|at| widest(&mut rows.iter().map(|row| width(&row.notes[at]))));
    let cells = style.columns().saturating_sub(2 + labels + 2 + 2 + notes[0] + 2 + notes[1]).max(4);
    let highest = rows.iter().map(|row| row.height).fold(0.0, f64::max);
    let mut out = String::new();
    for row in rows {
        let bar = bar(if highest > 0.0 { row.height / highest } else { 0.0 }, cells, style.ascii);
        let pad = " ".repeat(cells.saturating_sub(width(&bar)));
        let [first, second] = &row.notes;
        let line = format!("{pad}  {first:>0$}  {second:>1$}", notes[0], notes[1]);
        let label = format!("  {:>labels$}", row.label);
        out += &format!("{}  {}{}\n", style.dim(&label), style.remedy(&bar), line.trim_end());
    }
    out
}

fn distribution(plot: &Distribution, style: Style) -> String {
    let mut out = String::new();
    for series in &plot.series {
        let rows = rows_of(series, &plot.x);
        if rows.is_empty() {
            continue;
        }
        if plot.series.len() > 1 {
            out += &format!("  {}\n", style.dim(&safe(&series.name)));
        }
        out += &bar_rows(&rows, style);
        if series.above > 0.0 {
            let limit = series.edges.last().map_or(Cell::Missing, |edge| plot.x.quantity.cell(*edge));
            out += &style.dim(&format!("  {} more at {limit} or above\n", Cell::Count(series.above as u64)));
        }
    }
    out
}

/// Bins, several to a bar where they are many: middle, count, and share of all up to there.
fn rows_of(series: &Binned, axis: &Axis) -> Vec<BarRow> {
    let used = |at: &usize| series.counts[*at] > 0.0;
    let bins = 0..series.counts.len().min(series.edges.len().saturating_sub(1));
    let (Some(first), Some(last)) = (bins.clone().find(used), bins.rev().find(used)) else {
        return Vec::new();
    };
    let each = (last - first + 1).div_ceil(MOST_BARS);
    let mut up_to = series.below + series.counts[..first].iter().sum::<f64>();
    let mut rows = Vec::new();
    for start in (first..=last).step_by(each) {
        let end = (start + each).min(last + 1);
        let count: f64 = series.counts[start..end].iter().sum();
        up_to += count;
        let (low, high) = (series.edges[start], series.edges[end]);
        let middle = if axis.log && low > 0.0 { (low * high).sqrt() } else { (low + high) / 2.0 };
        rows.push(BarRow {
            label: axis.quantity.cell(middle).to_string(),
            height: count,
            notes: [Cell::Count(count as u64).to_string(), Cell::Share(up_to / series.total()).to_string()],
        });
    }
    rows
}

fn bars(plot: &Bars, style: Style) -> String {
    let skipped = plot.categories.len().saturating_sub(MOST_ROWS);
    let mut rows = Vec::new();
    for (at, name) in plot.categories.iter().enumerate().skip(skipped) {
        for series in &plot.series {
            let Some(value) = series.values.get(at).filter(|value| value.is_finite()) else { continue };
            let label = if plot.series.len() > 1 { format!("{name}, {}", series.name) } else { name.clone() };
            let notes = [plot.value.quantity.cell(*value).to_string(), String::new()];
            rows.push(BarRow {
                label: cut(&safe(&label), MOST_LABEL.min(style.columns() / 3)),
                height: value.abs(),
                notes,
            });
        }
    }
    let left_out = Cell::Count(skipped as u64);
    let words = if skipped == 0 {
        String::new()
    } else {
        style.dim(&format!("  ({left_out} smaller ones are left out)")) + "\n"
    };
    words + &bar_rows(&rows, style)
}

/// Points of all series over both axes: a dot where something is.
fn dots(plot: &Xy, style: Style) -> String {
    if plot.series.iter().all(|series| series.data.is_empty()) {
        return String::new();
    }
    let x = Scale::over(&plot.x, plot.series.iter().flat_map(|series| series.data.ends_x()), 0.0);
    let y = Scale::over(&plot.y, plot.series.iter().flat_map(|series| series.data.ends_y()), 0.0);
    let labels = [y.to, y.from].map(|value| plot.y.quantity.cell(value).to_string());
    let gutter = labels.iter().map(|label| width(label)).max().unwrap_or(0);
    let cells = style.columns().saturating_sub(gutter + 5).max(10);
    let mut canvas = Canvas::new(cells, style.ascii);
    for series in &plot.series {
        series.data.each(|along, up| {
            if let (Some(along), Some(up)) = (x.at(along), y.at(up)) {
                canvas.dot(along, up);
            }
        });
    }
    let (side, corner, floor) = if style.ascii { ('|', '+', "-") } else { ('│', '└', "─") };
    let mut out = String::new();
    for (at, row) in canvas.rows().iter().enumerate() {
        let label = match at {
            0 => labels[0].as_str(),
            _ if at + 1 == DOT_ROWS => labels[1].as_str(),
            _ => "",
        };
        let label = style.dim(&format!("  {label:>gutter$} {side}"));
        out += &format!("{label}{}\n", style.remedy(row.trim_end()));
    }
    let ends = [x.from, x.to].map(|value| plot.x.quantity.cell(value).to_string());
    let room = cells.saturating_sub(width(&ends[0]));
    let floor = format!("  {:>gutter$} {corner}{}", "", floor.repeat(cells));
    let below = format!("  {:>gutter$}  {}{:>room$}", "", ends[0], ends[1]);
    out + &format!("{}\n{}\n", style.dim(&floor), style.dim(&below))
}

impl Data {
    /// Every point, of slices both ends.
    fn each(&self, mut point: impl FnMut(f64, f64)) {
        match self {
            Self::Line { x, y, .. }
            | Self::Spread { x, y, .. }
            | Self::Steps { x, y }
            | Self::Columns { x, y, .. }
            | Self::Points { x, y } => x.iter().zip(y.iter()).for_each(|(x, y)| point(*x, *y)),
            Self::Rug { .. } => {}
            Self::Slices { start, step, low, high } => {
                for (at, (low, high)) in low.iter().zip(high.iter()).enumerate() {
                    let x = start + step * (at as f64 + 0.5);
                    point(x, *low);
                    point(x, *high);
                }
            }
        }
    }
}

/// A grid of cells; in Unicode each has two by four dots (Braille), in ASCII one.
struct Canvas {
    cells: usize,
    ascii: bool,
    /// The dots of each cell as the Braille block numbers them.
    dots: Vec<u8>,
}

impl Canvas {
    fn new(cells: usize, ascii: bool) -> Self {
        Self { cells, ascii, dots: vec![0; cells * DOT_ROWS] }
    }

    /// Sets the dot nearest to a place: both coordinates 0 to 1, y upwards.
    fn dot(&mut self, x: f64, y: f64) {
        /// Bits by row from the top and column.
        const BRAILLE: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let place = |share: f64, dots: usize| ((share * dots as f64) as usize).min(dots - 1);
        let column = place(x, self.cells * 2);
        let row = place(1.0 - y, DOT_ROWS * 4);
        self.dots[row / 4 * self.cells + column / 2] |= BRAILLE[row % 4][column % 2];
    }

    fn rows(&self) -> Vec<String> {
        let cell = |dots: &u8| match (dots, self.ascii) {
            (0, _) => ' ',
            (_, true) => '*',
            (dots, false) => char::from_u32(0x2800 + u32::from(*dots)).unwrap_or('*'),
        };
        self.dots.chunks(self.cells).map(|row| row.iter().map(cell).collect()).collect()
    }
}

#[cfg(test)]
#[path = "../plot_tests.rs"]
mod tests;
