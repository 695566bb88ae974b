//! Aligned columns and, on a terminal, a little colour.

use std::io::IsTerminal;

/// Whether text is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Write ANSI colour sequences.
    pub colour: bool,
}

impl Style {
    /// No colour.
    pub const PLAIN: Self = Self { colour: false };

    /// Colour where standard output is a terminal and `NO_COLOR` (no-color.org) is unset or empty.
    pub fn of_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colour: !refused && std::io::stdout().is_terminal() }
    }

    /// The same for standard error, where a page goes whose program has standard output for itself.
    pub fn of_stderr() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colour: !refused && std::io::stderr().is_terminal() }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Headings and what matters most.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// What matters less.
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// What is wrong or costs most.
    pub fn alarm(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    /// What should be looked at.
    pub fn caution(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// What to do.
    pub fn remedy(self, text: &str) -> String {
        self.wrap("32", text)
    }
}

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells that are padded to common widths. Cells hold plain text, without colour.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
enum Row {
    Cells(Vec<String>),
    /// A line under a row that spans all columns.
    Note(String),
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[(&str, Align)]) -> Self {
        Self {
            columns: columns.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells are empty, surplus ones are not shown.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) -> &mut Self {
        let mut cells: Vec<String> = cells.into_iter().map(|cell| printable(&cell.into())).collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(Row::Cells(cells));
        self
    }

    /// Adds a line that spans all columns; its text may be coloured and is written as it is.
    pub fn note(&mut self, text: impl Into<String>) -> &mut Self {
        self.rows.push(Row::Note(text.into()));
        self
    }

    /// The lines, each indented by two spaces. The heading is left out where no column has a name.
    pub fn render(&self, style: Style) -> String {
        let mut widths: Vec<usize> = self.columns.iter().map(|(name, _)| width(name)).collect();
        for row in &self.rows {
            if let Row::Cells(cells) = row {
                for (cell, widest) in cells.iter().zip(&mut widths) {
                    *widest = width(cell).max(*widest);
                }
            }
        }
        let mut out = String::new();
        if self.columns.iter().any(|(name, _)| !name.is_empty()) {
            let names: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
            out.push_str(&style.dim(&self.line(&names, &widths)));
            out.push('\n');
        }
        for row in &self.rows {
            match row {
                Row::Cells(cells) => out.push_str(&self.line(cells, &widths)),
                Row::Note(text) => out.push_str(text),
            }
            out.push('\n');
        }
        out
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::from("  ");
        for (at, (cell, widest)) in cells.iter().zip(widths).enumerate() {
            if at > 0 {
                line.push_str("  ");
            }
            let pad: String = " ".repeat(widest.saturating_sub(width(cell)));
            match self.columns[at].1 {
                Align::Left => line.extend([cell.as_str(), &pad]),
                Align::Right => line.extend([pad.as_str(), cell]),
            }
        }
        line.trim_end().to_owned()
    }
}

/// Width on a terminal. Everything that we print takes one cell a character.
pub fn width(text: &str) -> usize {
    text.chars().count()
}

/// Text of others (thread and device names) made safe for a terminal: control characters are shown as `�`,
/// so that a thread name cannot send an escape sequence.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Text cut to `limit` characters, with an ellipsis where something was cut.
pub fn cut(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(limit.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// Text broken at spaces into lines of at most `limit` characters; a longer word stands alone.
pub fn wrap(text: &str, limit: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && width(&line) + 1 + width(word) > limit {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// Words with a capital and a full stop.
pub fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str().trim_end_matches('.')),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_trailing_blanks_cut() {
        let mut table = Table::new(&[("layer", Align::Left), ("max", Align::Right)]);
        table.row(["application", "7.41 us"]).row(["softirq", "1 ns"]).note("  note");
        assert_eq!(
            table.render(Style::PLAIN),
            "  layer            max\n  application  7.41 us\n  softirq         1 ns\n  note\n"
        );
    }

    #[test]
    fn names_cannot_drive_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\n"), "a�[2Jb�");
        assert_eq!(cut("abcdef", 4), "abc…");
    }

    #[test]
    fn text_is_wrapped_at_spaces() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("", 8), Vec::<String>::new());
    }

    #[test]
    fn a_sentence_has_a_capital_and_a_full_stop() {
        assert_eq!([sentence("why not"), sentence("done."), sentence("")], ["Why not.", "Done.", ""]);
    }

    #[test]
    fn plain_style_writes_no_escape() {
        assert_eq!(Style::PLAIN.alarm("x"), "x");
        assert_eq!(Style { colour: true }.alarm("x"), "\x1b[1;31mx\x1b[0m");
    }
}
