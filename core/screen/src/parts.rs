//! Words, headings and bars, each in the cells it is given and in no others.

use crate::Look;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// `words` at the left end of a row; the last column shows where they are cut.
pub fn text(buffer: &mut Buffer, row: Rect, words: &str, style: Style) {
    if row.is_empty() {
        return;
    }
    buffer.set_stringn(row.x, row.y, words, usize::from(row.width), style);
    if words.chars().count() > usize::from(row.width) {
        buffer.set_stringn(row.right() - 1, row.y, "…", 1, style);
    }
}

/// `words` at the right end of a row.
pub fn right(buffer: &mut Buffer, row: Rect, words: &str, style: Style) {
    let width = (words.chars().count() as u16).min(row.width);
    text(buffer, Rect { x: row.right() - width, width, ..row }, words, style);
}

/// A line each.
pub fn lines(buffer: &mut Buffer, area: Rect, words: &[&str], style: Style) {
    for (row, words) in area.rows().zip(words) {
        text(buffer, row, words, style);
    }
}

/// A part of so many rows, and what is below it.
pub fn split(area: Rect, rows: u16) -> (Rect, Rect) {
    let rows = rows.min(area.height);
    let below = Rect { y: area.y + rows, height: area.height - rows, ..area };
    (Rect { height: rows, ..area }, below)
}

/// A part of so many columns, and what is right of it.
pub fn beside(area: Rect, columns: u16) -> (Rect, Rect) {
    let columns = columns.min(area.width);
    let rest = Rect { x: area.x + columns, width: area.width - columns, ..area };
    (Rect { width: columns, ..area }, rest)
}

/// A heading, in the longest form that fits, and the rows below it.
pub fn headed(forms: &[String], look: Look, area: Rect, buffer: &mut Buffer) -> Rect {
    let (heading, below) = split(area, 1);
    let fits = |form: &&String| form.chars().count() <= usize::from(area.width);
    if let Some(form) = forms.iter().find(fits).or(forms.last()) {
        text(buffer, heading, form, look.faint());
    }
    below
}

/// Bars upwards, one a column, from heights of 0 to 1. What is not zero is seen.
pub fn columns(heights: &[f64], look: Look, style: Style, area: Rect, buffer: &mut Buffer) {
    const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let steps = if look.ascii { 1 } else { 8 };
    for (column, height) in area.columns().zip(heights) {
        let full = (height.clamp(0.0, 1.0) * f64::from(area.height) * f64::from(steps)).round() as u32;
        let mut left = if *height > 0.0 { full.max(1) } else { 0 };
        for row in column.rows().rev() {
            let here = left.min(steps);
            left -= here;
            let symbol = match here {
                0 => break,
                _ if look.ascii => "#",
                eighths => EIGHTHS[eighths as usize],
            };
            text(buffer, row, symbol, style);
        }
    }
}

/// Replaces what an ASCII terminal lacks.
pub fn in_ascii(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        let sign = match cell.symbol() {
            "µ" => "u",
            "≤" => "<",
            "…" => "~",
            _ => continue,
        };
        cell.set_symbol(sign);
    }
}
