//! Aligned columns that fit the terminal. Words are wrapped where there is no room, numbers never.

use super::{Style, on_terminal};
use crate::cell::{Cell, bar, heights};
use crate::document::{Row, Table, Tone};
use crate::text::{safe, width, wrap};

/// Words are not wrapped to less than this.
const LEAST_WORDS: usize = 12;
/// Length of a bar in a table.
const BAR: usize = 20;
/// Blanks before a line, and between columns.
const GAP: usize = 2;

/// Rows of cells as they are written.
pub(super) struct Grid {
    /// Heading, and whether the column is aligned at its right edge.
    pub(super) columns: Vec<(String, bool)>,
    pub(super) rows: Vec<Line>,
}

/// Where the columns stand.
#[derive(Clone, Copy)]
struct ColumnLayout<'a> {
    widths: &'a [usize],
    gap: usize,
}

/// A row.
pub(super) enum Line {
    Cells(Tone, Vec<String>),
    /// Written as it is.
    Whole(String),
}

/// The rows and columns of a table that a terminal shows.
pub(super) fn of_table(table: &Table, style: Style) -> Grid {
    let shown: Vec<usize> =
        (0..table.columns.len()).filter(|at| on_terminal(table.columns[*at].shown)).collect();
    let columns = shown.iter().map(|at| (safe(&table.columns[*at].heading), table.numeric(*at))).collect();
    let mut rows = Vec::new();
    let first = table.terminal_first.unwrap_or(table.rows.len());
    for row in table.rows.iter().take(first) {
        match row {
            Row::Cells(tone, cells) => {
                rows.push(Line::Cells(*tone, shown.iter().map(|at| written(&cells[*at], style)).collect()));
            }
            Row::Note(text) => {
                let lines = wrap(&safe(&text.to_string()), style.columns() - GAP);
                rows.extend(lines.iter().map(|line| Line::Whole(style.dim(&format!("  {line}")))));
            }
        }
    }
    if table.rows.len() > first {
        rows.push(Line::Whole(style.dim(&format!("  and {} more", table.rows.len() - first))));
    }
    Grid { columns, rows }
}

/// A cell as it is written.
pub(super) fn written(cell: &Cell, style: Style) -> String {
    match cell {
        Cell::Bars(shares) => {
            let bar = bar(shares.last().copied().unwrap_or(0.0), BAR, style.ascii);
            format!("{bar:<BAR$}")
        }
        Cell::Heights(counts) if style.ascii => heights(counts, "_.-=+*%#"),
        cell => safe(&cell.to_string()),
    }
}

impl Grid {
    /// The lines, each indented. The headings are left out where no column has one.
    pub(super) fn render(&self, style: Style) -> String {
        let (widths, gap) = self.widths(style.columns());
        let place = ColumnLayout { widths: &widths, gap };
        let mut out = String::new();
        if self.columns.iter().any(|(heading, _)| !heading.is_empty()) {
            let headings: Vec<&str> = self.columns.iter().map(|(heading, _)| heading.as_str()).collect();
            self.row(&mut out, &headings, place, true, |line| style.dim(line));
        }
        for row in &self.rows {
            match row {
                Line::Cells(tone, cells) => {
                    let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
                    self.row(&mut out, &cells, place, false, |line| style.toned(*tone, line));
                }
                Line::Whole(text) => out.extend([text.as_str(), "\n"]),
            }
        }
        out
    }

    /// Widths of the columns and blanks between them: those of the longest cells, and less for words where the line would
    /// be too long. Where numbers alone are too long, they stand closer.
    fn widths(&self, limit: usize) -> (Vec<usize>, usize) {
        let mut widths: Vec<usize> = self.columns.iter().map(|(heading, _)| width(heading)).collect();
        for row in &self.rows {
            if let Line::Cells(_, cells) = row {
                for (cell, widest) in cells.iter().zip(&mut widths) {
                    *widest = width(cell).max(*widest);
                }
            }
        }
        let mut over = (widths.iter().sum::<usize>() + GAP * widths.len()).saturating_sub(limit);
        while over > 0 {
            // The widest column of words gives way first.
            let words = (0..widths.len()).filter(|at| !self.columns[*at].1 && widths[*at] > LEAST_WORDS);
            let Some(widest) = words.max_by_key(|at| (widths[*at], std::cmp::Reverse(*at))) else { break };
            widths[widest] -= 1;
            over -= 1;
        }
        (widths, if over > 0 { 1 } else { GAP })
    }

    fn row(
        &self,
        out: &mut String,
        cells: &[&str],
        ColumnLayout { widths, gap }: ColumnLayout<'_>,
        at_foot: bool,
        paint: impl Fn(&str) -> String,
    ) {
        let wrapped: Vec<Vec<String>> = cells
            .iter()
            .zip(widths)
            .map(
                |(cell, limit)| {
                    if width(cell) > *limit { wrap(cell, *limit) } else { vec![(*cell).to_owned()] }
                },
            )
            .collect();
        let high = wrapped.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..high {
            let mut text = String::new();
            for (at, parts) in wrapped.iter().enumerate() {
                // Headings of one line stand at the foot, cells at the top.
                let skipped = if at_foot { high - parts.len() } else { 0 };
                let part =
                    line.checked_sub(skipped).and_then(|line| parts.get(line)).map_or("", String::as_str);
                let pad = " ".repeat(widths[at].saturating_sub(width(part)));
                text.push_str(&" ".repeat(if at == 0 { GAP } else { gap }));
                let right = self.columns[at].1;
                text.extend(if right { [pad.as_str(), part] } else { [part, pad.as_str()] });
            }
            // Colour starts behind the indent.
            let text = text.trim_end();
            let (indent, text) = text.split_at(text.len().min(GAP));
            out.extend([indent, &paint(text), "\n"]);
        }
    }
}
