//! The plots of a path as text: bars for histograms, dots for the burstiness plot.

use super::path_plots::{Bars, DelayPlot, PathPlots};
use super::table::{Style, printable, width, wrap};
use super::units;
use quaver_analysis::path::histogram::Histogram;
use std::io::IsTerminal;

/// Width where no terminal tells its own.
const DEFAULT_COLUMNS: usize = 80;
/// Plots are neither narrower nor wider. Columns.
const COLUMNS: std::ops::RangeInclusive<usize> = 40..=160;
/// Most bars of a histogram of delays: more bins are drawn several to a bar.
const MOST_BARS: usize = 20;
/// Rows of the burstiness plot.
const DOT_ROWS: usize = 14;

/// Room and characters for plots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlotStyle {
    /// Columns to fill.
    pub columns: usize,
    /// Draw with ASCII characters only.
    pub ascii: bool,
    /// Colour.
    pub style: Style,
}

impl PlotStyle {
    /// What standard output can show: the terminal's width, else that of `COLUMNS`, else 80; ASCII where the locale
    /// is not UTF-8; colour as [`Style::of_stdout`].
    pub fn of_stdout() -> Self {
        let stdout = std::io::stdout();
        let terminal = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout).ok()).flatten();
        let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let columns = terminal
            .map(|size| usize::from(size.ws_col))
            .filter(|columns| *columns > 0)
            .or(asked)
            .unwrap_or(DEFAULT_COLUMNS);
        // As setlocale(3) looks: the first that is set decides.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .iter()
            .filter_map(|name| std::env::var(name).ok())
            .find(|value| !value.is_empty());
        let utf8 = locale.is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        Self { columns, ascii: !utf8, style: Style::of_stdout() }
    }

    fn columns(self) -> usize {
        self.columns.clamp(*COLUMNS.start(), *COLUMNS.end())
    }

    /// A bar that fills a part (0 to 1) of `cells`. What is not zero is seen.
    fn bar(self, part: f64, cells: usize) -> String {
        if !self.ascii {
            return units::bar(part, cells);
        }
        let filled = (part.clamp(0.0, 1.0) * cells as f64).round() as usize;
        "#".repeat(if part > 0.0 { filled.max(1) } else { 0 })
    }
}

/// All plots of a flow, one below the other; `delays` are the distributions that are wanted.
pub fn plots(plots: &PathPlots<'_>, delays: &[DelayPlot], style: PlotStyle) -> String {
    let mut out = String::new();
    for plot in delays {
        if let Some(histogram) = plots.histogram(*plot) {
            out += &delay_histogram(plot.name(), histogram, style);
        }
    }
    out += &burstiness(plots, style);
    for bars in plots.bars() {
        out += &bar_histogram(&bars, style);
    }
    out
}

fn heading(title: &str, style: PlotStyle) -> String {
    let lines = wrap(&printable(title), style.columns());
    lines.iter().fold("\n".to_owned(), |text, line| format!("{text}{}\n", style.style.bold(line)))
}

/// A row of a histogram.
struct BarRow {
    label: String,
    height: f64,
    notes: [String; 2],
}

/// Rows with labels to the left, bars, and up to two notes to the right.
fn bar_rows(rows: &[BarRow], style: PlotStyle) -> String {
    let widest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let labels = widest(&mut rows.iter().map(|row| width(&row.label)));
    let notes = [0, 1].map(|at| widest(&mut rows.iter().map(|row| width(&row.notes[at]))));
    let taken = 2 + labels + 2 + 2 + notes[0] + 2 + notes[1];
    let cells = style.columns().saturating_sub(taken).max(4);
    let highest = rows.iter().map(|row| row.height).fold(0.0, f64::max);
    let mut out = String::new();
    for row in rows {
        let bar = style.bar(if highest > 0.0 { row.height / highest } else { 0.0 }, cells);
        let pad = " ".repeat(cells.saturating_sub(width(&bar)));
        let [first, second] = &row.notes;
        let line = format!("{pad}  {first:>0$}  {second:>1$}", notes[0], notes[1]);
        let label = format!("  {:>labels$}", row.label);
        out += &format!("{}  {}{}\n", style.style.dim(&label), style.style.remedy(&bar), line.trim_end());
    }
    out
}

fn delay_histogram(name: &str, histogram: &Histogram, style: PlotStyle) -> String {
    let bins_a_bar = histogram.counts.len().div_ceil(MOST_BARS).max(1);
    let shares = histogram.cumulative();
    let edge = |at: usize| histogram.min_ns as f64 + at as f64 * histogram.bin_ns as f64;
    let mut rows = Vec::new();
    for (at, counts) in histogram.counts.chunks(bins_a_bar).enumerate() {
        let first = at * bins_a_bar;
        let last = first + counts.len() - 1;
        // Bins that lie wholly behind the limit are there because their width is whole nanoseconds.
        if edge(first) > histogram.limit_ns as f64 {
            break;
        }
        let count: u64 = counts.iter().sum();
        let middle_ns = (edge(first) + edge(last + 1)) / 2.0;
        rows.push(BarRow {
            label: units::duration_f64(middle_ns),
            height: count as f64,
            notes: [units::count(count), units::percent(shares[last])],
        });
    }
    let mut out = heading(&format!("{name}: packets, and part of all up to there"), style);
    out += &bar_rows(&rows, style);
    if histogram.above > 0 {
        let beyond = format!(
            "  {} beyond the 99th percentile, {}\n",
            units::count(histogram.above),
            units::duration(histogram.limit_ns)
        );
        out += &style.style.dim(&beyond);
    }
    out
}

fn bar_histogram(bars: &Bars, style: PlotStyle) -> String {
    let whole = bars.bars.iter().all(|(_, height)| height.fract() == 0.0);
    let note = |height: f64| if whole { units::count(height as u64) } else { units::percent(height) };
    let row = |(value, height): &(i64, f64)| BarRow {
        label: value.to_string(),
        height: *height,
        notes: [note(*height), String::new()],
    };
    // The longest lengths say most; the rest of many is in the files.
    let skipped = bars.bars.len().saturating_sub(2 * MOST_BARS);
    let rows: Vec<BarRow> = bars.bars.iter().skip(skipped).map(row).collect();
    let mut out = heading(&format!("{}: {}, by {}", bars.title, bars.unit, bars.of), style);
    if skipped > 0 {
        out +=
            &style.style.dim(&format!("  ({} smaller values are left out)\n", units::count(skipped as u64)));
    }
    out + &bar_rows(&rows, style)
}

/// Latency over time of arrival: a dot where a packet is.
fn burstiness(plots: &PathPlots<'_>, style: PlotStyle) -> String {
    let arrivals = plots.arrivals;
    let (Some(first), Some(low), Some(high)) = (
        arrivals.first(),
        arrivals.iter().map(|arrival| arrival.delay_ns()).min(),
        arrivals.iter().map(|arrival| arrival.delay_ns()).max(),
    ) else {
        return String::new();
    };
    let after = |received_ns: i64| received_ns.saturating_sub(first.received_ns);
    let span_ns = arrivals.iter().map(|arrival| after(arrival.received_ns)).max().unwrap_or(0).max(1);
    let labels = [units::duration(high), units::duration(low)];
    let gutter = labels.iter().map(|label| width(label)).max().unwrap_or(0);
    let cells = style.columns().saturating_sub(gutter + 5).max(10);
    let mut canvas = Canvas::new(cells, style.ascii);
    for arrival in arrivals {
        let x = after(arrival.received_ns).max(0) as f64 / span_ns as f64;
        let height = arrival.delay_ns().saturating_sub(low) as f64;
        let y = if high == low { 0.5 } else { height / (high as f64 - low as f64) };
        canvas.dot(x, y);
    }
    let mut out = heading("burstiness: latency over time of arrival", style);
    let (side, corner, floor) = if style.ascii { ('|', '+', "-") } else { ('│', '└', "─") };
    for (at, row) in canvas.rows().iter().enumerate() {
        let label = match at {
            0 => labels[0].as_str(),
            _ if at + 1 == DOT_ROWS => labels[1].as_str(),
            _ => "",
        };
        let label = style.style.dim(&format!("  {label:>gutter$} {side}"));
        out += &format!("{label}{}\n", style.style.remedy(row.trim_end()));
    }
    let floor = format!("  {:>gutter$} {corner}{}\n", "", floor.repeat(cells));
    let end = units::duration(span_ns);
    let room = cells.saturating_sub(3);
    out += &style.style.dim(&format!("{floor}  {:>gutter$}  0 s{end:>room$}\n", ""));
    out
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
        let place = |share: f64, dots: usize| ((share.clamp(0.0, 1.0) * dots as f64) as usize).min(dots - 1);
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
mod tests {
    use super::*;
    use crate::path_plots::example::Example;

    fn style(columns: usize, ascii: bool) -> PlotStyle {
        PlotStyle { columns, ascii, style: Style::PLAIN }
    }

    #[test]
    fn every_plot_keeps_to_its_width() {
        let example = Example::new();
        for (columns, ascii) in [(40, true), (80, false), (80, true), (160, false), (3, true)] {
            let text = plots(&example.plots(), &DelayPlot::ALL, style(columns, ascii));
            let widest = text.lines().map(width).max().unwrap();
            assert!(widest <= columns.max(40), "{columns}: {widest}\n{text}");
            assert_eq!(text.is_ascii(), ascii, "{text}");
            assert!(!text.contains('\x1b'));
        }
    }

    #[test]
    fn what_is_drawn() {
        let example = Example::new();
        insta::assert_snapshot!("unicode", plots(&example.plots(), &DelayPlot::ALL, style(72, false)));
        insta::assert_snapshot!("ascii", plots(&example.plots(), &[DelayPlot::Pdv], style(60, true)));
    }

    #[test]
    fn colour_only_where_asked() {
        let example = Example::new();
        let coloured = PlotStyle { style: Style { colour: true }, ..style(80, false) };
        assert!(plots(&example.plots(), &[DelayPlot::Pdv], coloured).contains("\x1b[32m"));
    }

    #[test]
    fn one_packet_and_none() {
        let example = Example::new();
        let one = PathPlots { arrivals: &example.arrivals[..1], line: None, ..example.plots() };
        let dots = |text: String| text.chars().filter(|c| ('\u{2801}'..='\u{28ff}').contains(c)).count();
        assert_eq!(dots(burstiness(&one, style(80, false))), 1);
        let none = PathPlots { arrivals: &[], ..example.plots() };
        assert_eq!(burstiness(&none, style(80, false)), "");
    }
}
