//! A map of values: a cell for each row and column, the stronger the larger its value.

use super::{Anchor, Svg, widest};
use crate::axis::Axis;
use crate::html::markup::Markup;
use crate::plot::Matrix;
use crate::ticks::Scale;

const ROW: f64 = 26.0;
const HEAD: f64 = 44.0;

pub(super) fn draw(plot: &Matrix) -> Markup {
    let (rows, columns) = (plot.rows.len(), plot.columns.len());
    if rows == 0 || columns == 0 || plot.values.iter().all(|value| value.is_nan()) {
        return Markup::default();
    }
    let axis = Axis { quantity: plot.quantity, log: plot.log, ..Axis::default() };
    let scale = Scale::over(&axis, plot.values.iter().copied(), 0.0);
    let written: Vec<String> = plot
        .values
        .iter()
        .map(|value| if value.is_nan() { String::new() } else { plot.quantity.cell(*value).to_string() })
        .collect();
    // Colours of values that read the same would say more than the values do.
    let mut seen = written.iter().filter(|text| !text.is_empty());
    let flat = seen.next().is_none_or(|first| seen.all(|text| text == first));
    let left = widest(plot.rows.iter().map(String::as_str).chain([plot.row_label.as_str()])) + 14.0;
    // Of many cells the values stand beside the pointer only.
    let wordy = columns <= 16;
    let texts = widest(written.iter().map(String::as_str));
    let heads = widest(plot.columns.iter().map(String::as_str));
    let cell =
        if wordy { (heads.max(texts) + 14.0).max(44.0) } else { (900.0 / columns as f64).clamp(6.0, 44.0) };
    let mut svg = Svg::new();
    svg.words((0.0, 34.0), Anchor::Start, "", &plot.row_label);
    svg.words((left, 14.0), Anchor::Start, "", &plot.column_label);
    let every = ((heads + 6.0) / cell).ceil().max(1.0) as usize;
    for (column, name) in plot.columns.iter().enumerate().step_by(every) {
        svg.words((left + cell * (column as f64 + 0.5), 34.0), Anchor::Middle, "soft", name);
    }
    for (row, name) in plot.rows.iter().enumerate() {
        let y = HEAD + ROW * row as f64;
        svg.words((0.0, y + ROW / 2.0 + 4.0), Anchor::Start, "soft", name);
        for (column, column_name) in plot.columns.iter().enumerate() {
            let at = row * columns + column;
            let Some(share) = plot.values.get(at).and_then(|value| scale.at(*value)) else { continue };
            let strength = if flat { 0.08 } else { 0.08 + 0.62 * share };
            let tip =
                format!("{} {name}, {} {column_name}: {}", plot.row_label, plot.column_label, written[at]);
            let x = left + cell * column as f64;
            let gap = if wordy { 2.0 } else { 0.5 };
            svg.boxed((x, y), (cell - gap, ROW - gap), crate::axis::Colour::Series(0), strength, &tip);
            if wordy {
                svg.words((x + cell / 2.0 - 1.0, y + ROW / 2.0 + 4.0), Anchor::Middle, "over", &written[at]);
            }
        }
    }
    svg.framed(left + cell * columns as f64, HEAD + ROW * rows as f64)
}
