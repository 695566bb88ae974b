//! Aligned columns that fit the terminal. Words are wrapped where there is no room, numbers never: where they do not fit,
//! each row is written below its name, each number behind its heading.

use super::{Style, on_terminal};
use crate::cell::{Cell, bar, heights};
use crate::document::{Row, Table, Tone};
use crate::text::{pack, safe, width, wrap};

/// Words are not wrapped to less than this.
const LEAST_WORDS: usize = 12;
/// A column keeps its longest word whole up to so many characters, and up to two fifths of the line.
const LONG_WORD: usize = 32;
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
        let Some((widths, gap)) = self.widths(style.columns()) else { return self.stacked(style) };
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
    /// be too long. Where numbers alone are too long, they stand closer; none where even that is too long.
    fn widths(&self, limit: usize) -> Option<(Vec<usize>, usize)> {
        let long = LONG_WORD.min(limit * 2 / 5);
        let longest_word = |text: &str| text.split_whitespace().map(width).max().unwrap_or(0);
        let mut widths: Vec<usize> = self.columns.iter().map(|(heading, _)| width(heading)).collect();
        let mut least: Vec<usize> = self.columns.iter().map(|(heading, _)| longest_word(heading)).collect();
        for row in &self.rows {
            if let Line::Cells(_, cells) = row {
                for (at, cell) in cells.iter().enumerate() {
                    widths[at] = width(cell).max(widths[at]);
                    let words = !self.columns[at].1;
                    let kept = if words { longest_word(cell).clamp(LEAST_WORDS, long) } else { width(cell) };
                    least[at] = kept.min(width(cell)).max(least[at]);
                }
            }
        }
        let over = |widths: &[usize], gap: usize| {
            (widths.iter().sum::<usize>() + GAP + gap * (widths.len().max(1) - 1)).saturating_sub(limit)
        };
        while over(&widths, GAP) > 0 {
            // The widest column of words gives way first, then the widest heading above numbers.
            let shrinks = (0..widths.len()).filter(|at| widths[*at] > least[*at]);
            let first = |at: &usize| (!self.columns[*at].1, widths[*at], std::cmp::Reverse(*at));
            let Some(widest) = shrinks.max_by_key(first) else { break };
            widths[widest] -= 1;
        }
        [GAP, 1].into_iter().find(|gap| over(&widths, *gap) == 0).map(|gap| (widths, gap))
    }

    /// Rows that are too wide for the terminal: the name of each, below it what its columns say.
    fn stacked(&self, style: Style) -> String {
        let ranked = self.columns.first().is_some_and(|(heading, _)| heading == "#");
        // Of ranked rows the words are the name; else it stands first.
        let name = if ranked { self.columns.iter().position(|(_, number)| !number) } else { Some(0) };
        let mut out = String::new();
        for row in &self.rows {
            let (tone, cells) = match row {
                Line::Cells(tone, cells) => (tone, cells),
                Line::Whole(text) => {
                    out.extend([text.as_str(), "\n"]);
                    continue;
                }
            };
            let rank = if ranked { format!("{} ", cells[0]) } else { String::new() };
            let title = match name {
                Some(0) if self.columns[0].1 => format!("{} {}", self.columns[0].0, cells[0]),
                name => name.map_or_else(String::new, |at| cells[at].clone()),
            };
            for line in wrap(&format!("{rank}{title}"), style.columns() - GAP) {
                out += &format!("  {}\n", style.toned(*tone, &line));
            }
            let told = (usize::from(ranked)..cells.len()).filter(|at| Some(*at) != name);
            let items = told.filter(|at| !cells[*at].trim().is_empty());
            let items =
                items.map(|at| format!("{} {}", self.columns[at].0, cells[at].trim()).trim().to_owned());
            for line in pack(items, style.columns() - 2 * GAP) {
                out += &format!("    {}\n", style.toned(*tone, &line));
            }
        }
        out
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
