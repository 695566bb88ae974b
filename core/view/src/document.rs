//! What a person sees of a result: the document that an instrument builds and both renderers write.

use crate::cell::Cell;
use crate::chart::{Chart, Group};
use crate::text::Text;

/// Where a part is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// On the terminal and in the HTML page.
    #[default]
    Everywhere,
    /// On the terminal only: the page says it otherwise.
    TerminalOnly,
    /// In the HTML page only: the terminal has no room.
    HtmlOnly,
}

/// A result as a person sees it.
///
/// Order on the terminal: title, facts that are marked as leading, verdict, sections, warnings, path of the report. Order
/// in HTML: verdict, title, links to the sections, tiles, warnings, sections, facts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The command that made it: `quaver chase`.
    pub verb: String,
    /// The run's name.
    pub title: String,
    /// Version of the program that writes the document, for the foot of the page.
    pub version: String,
    /// What came of it, in a sentence or two that are computed from the run's data; none without data.
    pub verdict: Option<Text>,
    /// The run was cut short.
    pub incomplete: bool,
    /// Key figures.
    pub tiles: Vec<Tile>,
    /// What the reader should know before trusting the rest.
    pub warnings: Vec<Text>,
    /// The parts, in reading order.
    pub sections: Vec<Section>,
    /// Circumstances: host, stream, command.
    pub facts: Vec<Fact>,
    /// Path of the HTML page, for the end of the terminal's.
    pub report_path: Option<String>,
}

impl Document {
    /// An empty document of a run.
    pub fn new(verb: impl Into<String>, title: impl Into<String>) -> Self {
        Self { verb: verb.into(), title: title.into(), ..Self::default() }
    }

    /// Adds a section.
    pub fn section(&mut self, section: Section) -> &mut Self {
        self.sections.push(section);
        self
    }

    /// Adds a fact that both renderers show: the terminal at its head, the page in its table of facts.
    pub fn fact(&mut self, name: impl Into<String>, value: impl Into<Text>) -> &mut Self {
        self.facts.push(Fact { name: name.into(), value: value.into(), shown: Shown::Everywhere });
        self
    }

    /// Adds a fact that only the page has room for. Empty ones are not shown.
    pub fn html_fact(&mut self, name: impl Into<String>, value: impl Into<Text>) -> &mut Self {
        self.facts.push(Fact { name: name.into(), value: value.into(), shown: Shown::HtmlOnly });
        self
    }

    /// Adds a key figure.
    pub fn tile(
        &mut self,
        name: impl Into<String>,
        value: impl Into<Cell>,
        note: impl Into<Text>,
    ) -> &mut Self {
        self.tiles.push(Tile { name: name.into(), value: value.into(), note: note.into() });
        self
    }

    /// Adds a warning.
    pub fn warn(&mut self, warning: impl Into<Text>) -> &mut Self {
        self.warnings.push(warning.into());
        self
    }
}

/// A circumstance of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// What it is; empty where it continues the one before.
    pub name: String,
    /// What is known; not shown where empty.
    pub value: Text,
    /// Where.
    pub shown: Shown,
}

/// A key figure with its name above and what it means below.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile {
    /// Name.
    pub name: String,
    /// Value.
    pub value: Cell,
    /// What it is of.
    pub note: Text,
}

/// A part of the document under one heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Identifier, unique in the document: lower-case letters, digits and `-`.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Name in the page's list of links, where the title is too long for it.
    pub link: Option<String>,
    /// What the reader sees here, in a sentence or two.
    pub note: Text,
    /// What it is made of.
    pub blocks: Vec<Block>,
    /// The page shows its heading alone until the reader opens it.
    pub folded: bool,
    /// Where it is shown.
    pub shown: Shown,
}

impl Section {
    /// An empty section.
    pub fn new(id: impl Into<String>, title: impl Into<String>) -> Self {
        Self { id: id.into(), title: title.into(), ..Self::default() }
    }

    /// Says what the reader sees.
    #[must_use]
    pub fn note(mut self, note: impl Into<Text>) -> Self {
        self.note = note.into();
        self
    }

    /// Names it in the list of links.
    #[must_use]
    pub fn link(mut self, link: impl Into<String>) -> Self {
        self.link = Some(link.into());
        self
    }

    /// Shows it in one place only.
    #[must_use]
    pub fn shown(mut self, shown: Shown) -> Self {
        self.shown = shown;
        self
    }

    /// Folds it in the page.
    #[must_use]
    pub fn folded(mut self) -> Self {
        self.folded = true;
        self
    }

    /// Adds a table, a chart, a text.
    #[must_use]
    pub fn with(mut self, block: impl Into<Block>) -> Self {
        self.blocks.push(block.into());
        self
    }

    /// Adds a table, a chart, a text, where the section is made step by step.
    pub fn push(&mut self, block: impl Into<Block>) -> &mut Self {
        self.blocks.push(block.into());
        self
    }
}

/// A piece of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A heading within the section.
    Heading(String),
    /// A paragraph.
    Text(Text),
    /// A remark below what it is about.
    Note(Text),
    /// Sentences, each with a mark.
    List(Vec<Text>),
    /// Rows and columns.
    Table(Table),
    /// What made it so, ranked, each cause with what removes it.
    Causes(Box<Causes>),
    /// What was examined, each item with what was found and what to do.
    Findings(Vec<Finding>),
    /// A drawing.
    Chart(Box<Chart>),
    /// Several drawings: side by side, or one at a time.
    Charts(Group),
    /// Text whose lines and blanks are kept.
    Preformatted(String),
    /// A piece that is shown in one place only.
    Only(Shown, Box<Block>),
}

impl Block {
    /// The piece, shown in one place only.
    #[must_use]
    pub fn only(self, shown: Shown) -> Self {
        Self::Only(shown, Box::new(self))
    }
}

/// What a row says of what it shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// To be looked at.
    Caution,
    /// Wrong, or what costs most.
    Bad,
    /// Less important.
    Quiet,
}

/// Rows and columns. Quantities stand at the right edge of their column, words at the left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Heading above it; empty for none.
    pub title: String,
    /// Columns. The heading row is left out where none has a name.
    pub columns: Vec<Column>,
    /// Rows.
    pub rows: Vec<Row>,
    /// The page shows this many rows until the reader asks for all; none: all.
    pub first_rows: Option<usize>,
    /// The terminal shows this many rows, and how many more there are; none: all.
    pub terminal_first: Option<usize>,
    /// What is said where there is no row.
    pub empty: Text,
}

/// Heading of a column, and the cell that it has of a thing.
pub type ColumnOf<'a, T> = (&'a str, &'a dyn Fn(&T) -> Cell);

impl Table {
    /// A table with these columns.
    pub fn new<C: Into<Column>>(columns: impl IntoIterator<Item = C>) -> Self {
        Self { columns: columns.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// A table of things, a row each.
    pub fn of<T>(things: impl IntoIterator<Item = T>, columns: &[ColumnOf<'_, T>]) -> Self {
        let mut table = Self::new(columns.iter().map(|(heading, _)| *heading));
        for thing in things {
            table.row(columns.iter().map(|(_, cell)| cell(&thing)));
        }
        table
    }

    /// A table of so many columns without headings.
    pub fn bare(columns: usize) -> Self {
        Self::new(std::iter::repeat_n("", columns))
    }

    /// Names it.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Says something where there is no row.
    #[must_use]
    pub fn empty(mut self, words: impl Into<Text>) -> Self {
        self.empty = words.into();
        self
    }

    /// Shows so many rows first in the page.
    #[must_use]
    pub fn first_rows(mut self, rows: usize) -> Self {
        self.first_rows = Some(rows);
        self
    }

    /// Shows so many rows on the terminal.
    #[must_use]
    pub fn terminal_first(mut self, rows: usize) -> Self {
        self.terminal_first = Some(rows);
        self
    }

    /// Adds a row; cells that are not given are empty, and there must be no more than columns.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) -> &mut Self {
        self.toned(Tone::Plain, cells)
    }

    /// Adds a row that is set apart.
    pub fn toned<C: Into<Cell>>(&mut self, tone: Tone, cells: impl IntoIterator<Item = C>) -> &mut Self {
        let mut cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        debug_assert!(cells.len() <= self.columns.len(), "more cells than columns");
        cells.resize(self.columns.len(), Cell::Empty);
        self.rows.push(Row::Cells(tone, cells));
        self
    }

    /// Adds a remark that spans all columns.
    pub fn note(&mut self, words: impl Into<Text>) -> &mut Self {
        self.rows.push(Row::Note(words.into()));
        self
    }

    /// Whether a column holds numbers, so that it is aligned at its right edge. One without any value would hold some.
    pub(crate) fn numeric(&self, column: usize) -> bool {
        let cells = || {
            self.rows.iter().filter_map(|row| match row {
                Row::Cells(_, cells) => cells.get(column),
                Row::Note(_) => None,
            })
        };
        let mut known = cells().filter_map(Cell::numeric).peekable();
        match known.peek() {
            Some(_) => known.all(|numeric| numeric),
            None => cells().any(|cell| matches!(cell, Cell::Missing)),
        }
    }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// A cell a column.
    Cells(Tone, Vec<Cell>),
    /// A remark that spans all columns.
    Note(Text),
}

/// A column of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// Heading.
    pub heading: String,
    /// What its values are, shown beside the pointer in the page.
    pub note: String,
    /// Where it is shown.
    pub shown: Shown,
}

impl Column {
    /// A column with this heading.
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..Self::default() }
    }

    /// Says what its values are.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Shows it in the page only.
    #[must_use]
    pub fn html_only(mut self) -> Self {
        self.shown = Shown::HtmlOnly;
        self
    }
}

impl From<&str> for Column {
    fn from(heading: &str) -> Self {
        Self::new(heading)
    }
}

impl From<String> for Column {
    fn from(heading: String) -> Self {
        Self::new(heading)
    }
}

/// Causes in rank order, and what no cause explains.
///
/// Where causes have colours in a chart of the document too, these are [`crate::Colour::of_cause`] of their rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Causes {
    /// What is told of each beside its share and name: `time`, `late packets`, `worst`, `example`.
    pub columns: Vec<Column>,
    /// The causes, the one with the largest share first.
    pub causes: Vec<Cause>,
    /// The terminal shows so many, then `smaller`; none: all.
    pub terminal_first: Option<usize>,
    /// All that the terminal does not show one by one, as one row.
    pub smaller: Option<Cause>,
    /// What no cause explains.
    pub unexplained: Option<Cause>,
}

/// A cause.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cause {
    /// What it is: `thread stress (fifo 50)`.
    pub name: String,
    /// Its part of the whole, 0 to 1.
    pub share: f64,
    /// Of that, what is inferred and not recorded itself: the bar is striped there.
    pub inferred: f64,
    /// A cell a column of [`Causes`].
    pub figures: Vec<Cell>,
    /// Its kind and what it consists of, a line each.
    pub details: Vec<Text>,
    /// More of the same, for which only the page has room.
    pub html_details: Vec<Text>,
    /// What removes it.
    pub remedies: Vec<Remedy>,
}

/// What to do against a cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Remedy {
    /// When it takes effect: `now`, `boot`; empty for advice.
    pub when: String,
    /// What to do.
    pub what: Text,
}

impl Remedy {
    /// A remedy.
    pub fn new(when: impl Into<String>, what: impl Into<Text>) -> Self {
        Self { when: when.into(), what: what.into() }
    }
}

/// An item that was examined: a setting, an ability, a part that a lab needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    /// What the label says of it.
    pub tone: Tone,
    /// State or identifier: `missing`; empty for none.
    pub label: String,
    /// What it is.
    pub name: Text,
    /// What was found, and what follows from it, a paragraph each.
    pub details: Vec<Text>,
    /// What to do, a line each.
    pub remedies: Vec<Text>,
}

impl Finding {
    /// An item without details.
    pub fn new(tone: Tone, label: impl Into<String>, name: impl Into<Text>) -> Self {
        Self { tone, label: label.into(), name: name.into(), ..Self::default() }
    }

    /// Adds what was found.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<Text>) -> Self {
        self.details.push(detail.into());
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<Text>) -> Self {
        self.remedies.push(remedy.into());
        self
    }
}

macro_rules! block_from {
    ($($from:ty => $to:expr),*) => {
        $(impl From<$from> for Block {
            fn from(piece: $from) -> Self { $to(piece) }
        })*
    };
}
block_from!(
    Table => Block::Table, Causes => |causes| Block::Causes(Box::new(causes)), Vec<Finding> => Block::Findings, Text => Block::Text, Group => Block::Charts,
    Chart => |chart| Block::Chart(Box::new(chart)), &str => |words: &str| Block::Text(words.into())
);
