//! The document on a terminal, or as plain text.

mod causes;
mod grid;
mod plot;

use crate::chart::Chart;
use crate::document::{Block, Document, Fact, Finding, Section, Shown, Tone};
use crate::text::{Emphasis, Text, safe, width, wrap};
use std::io::{self, Write};

/// What the terminal can show. The caller decides, for only it knows the terminal and the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Write ANSI colour sequences.
    pub colour: bool,
    /// Characters in a line: 40 to 200, others count as the nearer end.
    pub width: usize,
    /// Draw with ASCII characters only. Words are written as they are.
    pub ascii: bool,
}

impl Style {
    /// No colour, 100 characters.
    pub const PLAIN: Self = Self { colour: false, width: 100, ascii: false };

    fn columns(self) -> usize {
        self.width.clamp(40, 200)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn caution(self, text: &str) -> String {
        self.paint("33", text)
    }

    fn remedy(self, text: &str) -> String {
        self.paint("32", text)
    }

    fn toned(self, tone: Tone, text: &str) -> String {
        match tone {
            Tone::Plain => text.to_owned(),
            Tone::Good => self.remedy(text),
            Tone::Caution => self.caution(text),
            Tone::Bad => self.paint("1;31", text),
            Tone::Quiet => self.dim(text),
        }
    }
}

/// The document as plain text of 100 columns.
pub fn plain(document: &Document) -> String {
    TextPage { out: String::new(), style: Style::PLAIN }.of(document)
}

/// Writes the document for a terminal.
pub fn write_terminal(out: &mut dyn Write, document: &Document, style: Style) -> io::Result<()> {
    out.write_all(TextPage { out: String::new(), style }.of(document).as_bytes())
}

/// What a tabulator stands for where lines are kept.
const TAB: &str = "        ";
/// A finding's label takes at least this, so that what stands below the names is aligned.
const LABEL: usize = 7;

/// The text as it grows.
struct TextPage {
    out: String,
    style: Style,
}

impl TextPage {
    fn of(mut self, document: &Document) -> String {
        let style = self.style;
        let (verb, title) = (safe(&document.verb), safe(&document.title));
        if width(&verb) + 3 + width(&title) <= style.columns() {
            self.line(&format!("{} · {title}", style.bold(&verb)));
        } else {
            self.paragraph(&Text::from(verb), "", "", |line| style.bold(line));
            self.paragraph(&Text::from(title), "  ", "  ", str::to_owned);
        }
        self.facts(&document.facts);
        if document.incomplete {
            let words = "This run was cut short; what follows covers what was kept.";
            self.paragraph(&words.into(), "  ", "  ", |line| style.toned(Tone::Bad, line));
        }
        if let Some(verdict) = &document.verdict {
            self.out.push('\n');
            self.paragraph(verdict, "  ", "  ", |line| style.bold(line));
        }
        for section in &document.sections {
            self.section(section);
        }
        if !document.warnings.is_empty() {
            self.heading("Warnings", &Text::default());
            for warning in &document.warnings {
                let first = format!("  {} ", style.caution("!"));
                self.paragraph(warning, &first, "    ", str::to_owned);
            }
        }
        if let Some(path) = &document.report_path {
            self.line(&format!("\n{}  {}", style.bold("Report"), safe(path)));
        }
        self.out
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn facts(&mut self, facts: &[Fact]) {
        let shown = || facts.iter().filter(|fact| on_terminal(fact.shown) && !fact.value.is_empty());
        let names = shown().map(|fact| width(&fact.name)).max().unwrap_or(0).max(8);
        for fact in shown() {
            let name = format!("{:<names$}", safe(&fact.name).to_lowercase());
            if names + 4 > self.style.columns() / 3 {
                // Beside the name there would be no room for words.
                self.line(&format!("  {}", self.style.dim(&name)));
                self.paragraph(&fact.value, "    ", "    ", str::to_owned);
                continue;
            }
            let first = format!("  {}  ", self.style.dim(&name));
            self.paragraph(&fact.value, &first, &" ".repeat(names + 4), str::to_owned);
        }
    }

    /// The heading, and what is seen below it: beside it where there is room.
    fn heading(&mut self, title: &str, note: &Text) {
        let (title, words) = (safe(title), safe(&note.to_string()));
        let style = self.style;
        self.out.push('\n');
        if words.is_empty() || width(&title) + 2 + width(&words) > style.columns() {
            self.paragraph(&Text::from(title), "", "", |line| style.bold(line));
            self.paragraph(note, "  ", "  ", |line| style.dim(line));
        } else {
            self.line(&format!("{}  {}", style.bold(&title), style.dim(&words)));
        }
    }

    fn section(&mut self, section: &Section) {
        if on_terminal(section.shown) {
            let before = self.out.len();
            self.heading(&section.title, &section.note);
            let heading = self.out.len();
            let mut below_table = false;
            for block in &section.blocks {
                let start = self.out.len();
                self.block(block);
                // What follows a table stands apart from it.
                if below_table && self.out.len() > start && !self.out[start..].starts_with('\n') {
                    self.out.insert(start, '\n');
                }
                below_table = matches!(block, Block::Table(_) | Block::Causes(_));
            }
            // A section of drawings that only the page has is none here.
            if self.out.len() == heading && !section.blocks.is_empty() {
                self.out.truncate(before);
            }
        }
    }

    fn block(&mut self, block: &Block) {
        let style = self.style;
        match block {
            Block::Heading(title) => {
                self.out.push('\n');
                self.paragraph(&title.into(), "  ", "  ", |line| style.bold(line));
            }
            Block::Text(text) => self.paragraph(text, "  ", "  ", str::to_owned),
            Block::Note(text) => self.paragraph(text, "  ", "  ", |line| style.dim(line)),
            Block::List(items) => {
                items.iter().for_each(|item| self.paragraph(item, "  - ", "    ", str::to_owned))
            }
            Block::Table(table) => {
                if !table.title.is_empty() {
                    self.paragraph(&Text::from(&table.title), "  ", "  ", |line| style.bold(line));
                }
                if table.rows.is_empty() && !table.empty.is_empty() {
                    self.paragraph(&table.empty, "  ", "  ", str::to_owned);
                } else {
                    self.out.push_str(&grid::of_table(table, style).render(style));
                }
            }
            Block::Causes(causes) => self.out.push_str(&causes::render(causes, style)),
            Block::Findings(findings) => findings.iter().for_each(|finding| self.finding(finding)),
            Block::Chart(chart) => self.chart(chart),
            Block::Charts(group) => group.charts.iter().for_each(|chart| self.chart(chart)),
            Block::Preformatted(text) => {
                text.replace('\t', TAB).lines().for_each(|line| self.line(&format!("  {}", safe(line))));
            }
            Block::Only(shown, block) if on_terminal(*shown) => self.block(block),
            Block::Only(..) => {}
        }
    }

    fn finding(&mut self, finding: &Finding) {
        let style = self.style;
        let label = match safe(&finding.label) {
            label if label.is_empty() => String::new(),
            label => format!("{label:<LABEL$}  "),
        };
        let (used, below) = (2 + width(&label), " ".repeat(LABEL + 4));
        let names = lines(&finding.name, style.columns() - used.max(LABEL + 4), style);
        self.line(&format!(
            "  {}{}",
            style.toned(finding.tone, &label),
            names.first().map_or("", |name| name)
        ));
        names.iter().skip(1).for_each(|name| self.line(&format!("{below}{name}")));
        finding.details.iter().for_each(|detail| self.paragraph(detail, &below, &below, str::to_owned));
        let remedies = finding.remedies.iter();
        remedies.for_each(|remedy| self.paragraph(remedy, &below, &below, |line| style.remedy(line)));
    }

    fn chart(&mut self, chart: &Chart) {
        let style = self.style;
        if !chart.on_terminal {
            return;
        }
        let drawn = plot::draw(&chart.plot, style);
        if drawn.is_empty() {
            return;
        }
        self.out.push('\n');
        let title = Text::from(&chart.title);
        self.paragraph(&title, "", "", |line| style.bold(line));
        self.out.push_str(&drawn);
        self.paragraph(&chart.note, "  ", "  ", |line| style.dim(line));
    }

    /// Words wrapped at the terminal's width, `first` before the first line and `rest` before the others.
    fn paragraph(&mut self, text: &Text, first: &str, rest: &str, paint: impl Fn(&str) -> String) {
        let style = self.style;
        for (at, line) in lines(text, style.columns() - width(rest), style).iter().enumerate() {
            let line = format!("{}{}", if at == 0 { first } else { rest }, paint(line));
            self.line(&line);
        }
    }
}

/// Whether a part is shown here.
fn on_terminal(shown: Shown) -> bool {
    shown != Shown::HtmlOnly
}

/// The lines of a text, what is strong in bold.
fn lines(text: &Text, limit: usize, style: Style) -> Vec<String> {
    let lines = wrap(&safe(&text.to_string()), limit);
    if !style.colour || text.parts().all(|(emphasis, _)| emphasis != Emphasis::Strong) {
        return lines;
    }
    // Wrapping changes nothing but blanks, so the other characters keep their order.
    let mut strong = text.parts().flat_map(|(emphasis, words)| {
        words.chars().filter(|c| !c.is_whitespace()).map(move |_| emphasis == Emphasis::Strong)
    });
    let painted = |line: &String| {
        let mut out = String::new();
        let mut run = String::new();
        let mut bold = false;
        for c in line.chars() {
            let now = if c == ' ' { bold } else { strong.next().unwrap_or(false) };
            if now != bold {
                out.push_str(&if bold { style.bold(&run) } else { run.clone() });
                run.clear();
                bold = now;
            }
            run.push(c);
        }
        out + &if bold { style.bold(&run) } else { run }
    };
    lines.iter().map(painted).collect()
}

#[cfg(test)]
#[path = "../terminal_tests.rs"]
mod tests;
