//! A live view: a picture that a thread draws on the terminal four times a second, the keys that all such views share, and the
//! parts that pictures are made of.

mod keys;
pub mod parts;
mod terminal;

pub use keys::Key;
pub use ratatui::buffer::Buffer;
pub use ratatui::layout::Rect;
pub use ratatui::style::{Color, Modifier, Style};
pub use terminal::LiveView;

use std::time::Duration;

/// What is known, and how it looks. Its copies are drawn, so that whoever measures waits for the copying alone.
pub trait Picture: Clone + Send + 'static {
    /// What the user chose to see.
    type Choice: Clone + Default + Send;

    /// Draws all of it.
    fn draw(&self, choice: &Self::Choice, moment: Moment, look: Look, area: Rect, buffer: &mut Buffer);

    /// Changes the choice, as a key asks that is none of those of every view (`q`, Ctrl-C, `p`, `?`).
    fn press(&self, key: Key, choice: &mut Self::Choice);
}

/// When a picture is drawn, and what every view has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Since the view was opened.
    pub now: Duration,
    /// The picture stands still.
    pub paused: bool,
    /// The keys are explained.
    pub help: bool,
    /// The user asked to end.
    pub ending: bool,
}

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Colours.
    pub colour: bool,
    /// ASCII characters only.
    pub ascii: bool,
}

impl Look {
    /// Of standard output.
    pub fn of_stdout() -> Self {
        Self {
            colour: quaver_instrument::terminal::style().colour,
            ascii: quaver_instrument::terminal::is_ascii(),
        }
    }

    /// In a colour, where there are colours.
    pub fn coloured(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    /// What leads.
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What explains.
    pub fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// What is bad news.
    pub fn alarm(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }
}
