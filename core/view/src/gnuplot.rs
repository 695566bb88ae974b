//! The drawings of a document as a script of gnuplot 5 that has its data in it: `gnuplot plots.gp` makes a PNG of each.

use crate::axis::{Axis, Quantity};
use crate::chart::Chart;
use crate::document::Document;
use crate::html::charts;
use crate::plot::{Bars, Data, Guide, Plot, Timeline, Xy};
use std::fmt::Write;

const HEAD: &str = "\
# In place of these two lines, `set terminal qt persist` shows windows.
set terminal pngcairo size 1000,600 noenhanced
set encoding utf8
";

/// The script; none of a document without drawings.
pub fn gnuplot(document: &Document) -> Option<String> {
    let drawn: String = charts(document).filter_map(chart).collect();
    (!drawn.is_empty()).then(|| HEAD.to_owned() + &drawn)
}

/// A block of data, and how `plot` takes it: `using 1:2 with lines`.
struct Part {
    rows: String,
    how: String,
    name: String,
}

impl Part {
    /// Rows of numbers. One that is missing, or that a logarithmic axis has no place for, breaks the line.
    fn of(
        name: &str,
        how: &str,
        (x, y): (&Axis, &Axis),
        rows: impl Iterator<Item = (f64, Vec<f64>)>,
    ) -> Self {
        let fits = |axis: &Axis, value: f64| value.is_finite() && (!axis.log || value > 0.0);
        let row = |(along, up): (f64, Vec<f64>)| {
            let there = fits(x, along) && up.iter().all(|value| fits(y, *value));
            let up = up.iter().fold(along.to_string(), |row, value| format!("{row} {value}"));
            if there { up + "\n" } else { "\n".to_owned() }
        };
        Self { rows: rows.map(row).collect(), how: how.to_owned(), name: name.to_owned() }
    }
}

fn chart(chart: &Chart) -> Option<String> {
    let none = Axis::default();
    let (mut settings, parts) = match &chart.plot {
        Plot::Xy(plot) => xy(plot),
        Plot::Distribution(plot) => xy(&plot.first_view()?),
        Plot::Bars(plot) => bars(plot),
        Plot::Timeline(plot) => timeline(plot),
        Plot::Ranges(plot) => {
            let names = plot.rows.iter().map(|row| row.name.as_str());
            let rows = (0..).zip(&plot.rows).map(|(at, row)| {
                let (low, high) = row.interval.unwrap_or((row.at, row.at));
                (row.at, vec![f64::from(at), low, high])
            });
            let how = "using 1:2:3:4 with xerrorbars pointtype 7";
            let part = Part::of("", how, (&plot.value, &none), rows);
            (axis("x", &plot.value) + &names_of("y", names), vec![part])
        }
        Plot::Matrix(plot) => {
            let columns = plot.columns.len().max(1);
            let cell =
                |(at, value): (usize, &f64)| ((at % columns) as f64, vec![(at / columns) as f64, *value]);
            let rows = plot.values.iter().enumerate().map(cell);
            let how = "using 1:2:3 with points pointtype 5 pointsize 2 palette";
            let names = names_of("x", plot.columns.iter().map(String::as_str))
                + &names_of("y", plot.rows.iter().map(String::as_str));
            (names, vec![Part::of("", how, (&none, &none), rows)])
        }
    };
    let parts: Vec<Part> = parts.into_iter().filter(|part| !part.rows.trim().is_empty()).collect();
    if parts.is_empty() {
        return None;
    }
    let id = chart.id.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let block = |number: usize| format!("$d_{id}_{number}");
    let mut out = format!("\nreset\nset grid\nset output {}\n", quoted(&format!("{}.png", chart.id)));
    settings += &format!("set title {}\n", quoted(&chart.title));
    for (number, part) in parts.iter().enumerate() {
        let _ = write!(out, "{} << END\n{}END\n", block(number), part.rows);
    }
    let plots = parts.iter().enumerate().map(|(number, part)| {
        let name =
            if part.name.is_empty() { "notitle".to_owned() } else { format!("title {}", quoted(&part.name)) };
        format!("{} {} {name}", block(number), part.how)
    });
    Some(out + &settings + "plot " + &plots.collect::<Vec<_>>().join(", \\\n    ") + "\n")
}

fn xy(plot: &Xy) -> (String, Vec<Part>) {
    let axes = (&plot.x, &plot.y);
    let pairs = |x: &[f64], y: &[f64]| -> Vec<(f64, Vec<f64>)> {
        x.iter().zip(y).map(|(x, y)| (*x, vec![*y])).collect()
    };
    let mut parts = Vec::new();
    for series in &plot.series {
        let (how, rows) = match &series.data {
            Data::Line { x, y, marks } => {
                (if *marks { "with linespoints" } else { "with lines" }, pairs(x, y))
            }
            Data::Steps { x, y } => ("with steps", pairs(x, y)),
            Data::Columns { x, y, .. } => ("with impulses", pairs(x, y)),
            Data::Points { x, y } => ("with points", pairs(x, y)),
            Data::Rug { x } => ("with points pointtype 2", x.iter().map(|x| (*x, vec![0.0])).collect()),
            Data::Spread { x, y, low, high } => {
                let band = (0..x.len()).map(|at| (x[at], vec![y[at], low[at], high[at]]));
                ("using 1:2:3:4 with yerrorlines", band.collect())
            }
            Data::Slices { start, step, low, high } => {
                let at = |at: usize| (start + step * (at as f64 + 0.5), vec![low[at], high[at]]);
                ("using 1:2:3 with filledcurves", (0..low.len()).map(at).collect())
            }
        };
        parts.push(Part::of(&series.name, how, axes, rows.into_iter()));
    }
    let guide = |guide: &Guide| {
        let [from, to] = match guide.upright {
            true => ["0", "1"].map(|end| format!("first {}, graph {end}", guide.at)),
            false => ["0", "1"].map(|end| format!("graph {end}, first {}", guide.at)),
        };
        format!("set arrow from {from} to {to} nohead dashtype 2\n")
    };
    let guides: String = plot.guides.iter().map(guide).collect();
    (axis("x", &plot.x) + &axis("y", &plot.y) + &guides, parts)
}

/// Stacked parts are drawn from the longest on, each up to where it ends.
fn bars(plot: &Bars) -> (String, Vec<Part>) {
    let (mut upto, mut parts) = (vec![0.0; plot.categories.len()], Vec::new());
    let width = if plot.stacked { 0.8 } else { 0.8 / plot.series.len().max(1) as f64 };
    for (number, series) in plot.series.iter().enumerate() {
        let shift = if plot.stacked { 0.0 } else { width * (number as f64 + 0.5) - 0.4 };
        let rows: Vec<(f64, Vec<f64>)> = upto
            .iter_mut()
            .zip(series.values.iter())
            .enumerate()
            .map(|(at, (before, value))| {
                *before += if value.is_nan() { 0.0 } else { *value };
                (at as f64 + shift, vec![if plot.stacked { *before } else { *value }, width])
            })
            .collect();
        let none = Axis::default();
        parts.push(Part::of(&series.name, "using 1:2:3 with boxes", (&none, &plot.value), rows.into_iter()));
    }
    if plot.stacked {
        parts.reverse();
    }
    let names = names_of("x", plot.categories.iter().map(String::as_str));
    (axis("y", &plot.value) + &names + "set style fill solid 0.8\n", parts)
}

fn timeline(plot: &Timeline) -> (String, Vec<Part>) {
    let none = Axis::default();
    let spans = (0..).zip(&plot.lanes).flat_map(|(at, lane)| {
        lane.spans
            .iter()
            .map(move |span| (span.start, vec![-f64::from(at) + f64::from(span.depth) / 10.0, span.end]))
    });
    let how = "using 1:2:1:3:($2-0.04):($2+0.04) with boxxyerror";
    let names: Vec<String> = (0..)
        .zip(&plot.lanes)
        .map(|(at, lane): (i32, _)| format!("{} {}", quoted(&lane.name), -at))
        .collect();
    let time = Axis::linear("time", Quantity::Instant);
    let settings = format!("{}set ytics ({})\nset style fill solid\n", axis("x", &time), names.join(", "));
    (settings, vec![Part::of("", how, (&none, &none), spans)])
}

/// Label, scale and ends of an axis, in the unit of its values.
fn axis(which: &str, axis: &Axis) -> String {
    let unit = match axis.quantity {
        Quantity::Duration | Quantity::Instant => " (ns)",
        Quantity::Bytes => " (bytes)",
        _ => "",
    };
    let mut out = format!("set {which}label {}\n", quoted(&format!("{}{unit}", axis.label)));
    if axis.log {
        let _ = writeln!(out, "set logscale {which}");
    }
    if !axis.names.is_empty() {
        out += &names_of(which, axis.names.iter().map(String::as_str));
    }
    out
}

/// Names of the places 0, 1, 2 of an axis.
fn names_of<'a>(which: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.enumerate().map(|(at, name)| format!("{} {at}", quoted(name))).collect();
    let turn = if which == "x" { " rotate by -30" } else { "" };
    format!("set {which}tics{turn} ({})\n", names.join(", "))
}

/// In single quotes nothing but the quote itself means anything.
fn quoted(text: &str) -> String {
    format!("'{}'", crate::text::safe(text).replace('\'', "''"))
}
