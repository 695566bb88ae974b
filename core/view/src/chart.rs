//! A drawing with its name and words, and several of them.

use crate::plot::Plot;
use crate::text::Text;

/// Whether the reader can zoom into a drawing. Without scripts every drawing is still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rendering {
    /// Zoom, series to be chosen, values beside the pointer.
    #[default]
    Interactive,
    /// Drawn once.
    Still,
}

/// A drawing with its name and words.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Identifier, unique in the document: lower-case letters, digits and `-`.
    pub id: String,
    /// What is drawn.
    pub title: String,
    /// How to read it.
    pub note: Text,
    /// What is drawn.
    pub plot: Plot,
    /// Whether it can be zoomed.
    pub rendering: Rendering,
    /// Charts with equal words here show the same part of their x axes, and the same place under the pointer.
    pub linked: Option<String>,
    /// Drawn on the terminal too.
    pub on_terminal: bool,
}

impl Chart {
    /// A chart.
    pub fn new(id: impl Into<String>, title: impl Into<String>, plot: impl Into<Plot>) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            note: Text::default(),
            plot: plot.into(),
            rendering: Rendering::Interactive,
            linked: None,
            on_terminal: false,
        }
    }

    /// Says how to read it.
    #[must_use]
    pub fn note(mut self, note: impl Into<Text>) -> Self {
        self.note = note.into();
        self
    }

    /// Drawn once, without scripts.
    #[must_use]
    pub fn still(mut self) -> Self {
        self.rendering = Rendering::Still;
        self
    }

    /// Moves with the others of this name.
    #[must_use]
    pub fn linked(mut self, name: impl Into<String>) -> Self {
        self.linked = Some(name.into());
        self
    }

    /// Draws it on the terminal too.
    #[must_use]
    pub fn on_terminal(mut self) -> Self {
        self.on_terminal = true;
        self
    }
}

/// Several charts.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Side by side, or one at a time.
    pub arrangement: Arrangement,
    /// The charts.
    pub charts: Vec<Chart>,
}

impl Group {
    /// Charts beside each other where there is room.
    pub fn beside(charts: impl IntoIterator<Item = Chart>) -> Self {
        Self { arrangement: Arrangement::Beside, charts: charts.into_iter().collect() }
    }

    /// One chart at a time, chosen by title from a list with this label, with buttons for the next and the one before.
    pub fn one_of(label: impl Into<String>, charts: impl IntoIterator<Item = Chart>) -> Self {
        Self { arrangement: Arrangement::OneOf(label.into()), charts: charts.into_iter().collect() }
    }
}

/// How the charts of a group stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// Beside each other.
    Beside,
    /// One at a time.
    OneOf(String),
}
