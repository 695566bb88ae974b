//! The live view of a path, in the terminal: what is known ([`state`]), and how it looks ([`draw`]).

pub mod draw;
pub mod series;
pub mod state;

pub use state::{Phase, Stage, Totals, View, Way};

/// A path on the screen.
pub type LiveView = quaver_screen::LiveView<View>;
/// What to do where standard output is no terminal.
pub const NO_TERMINAL: &str = "leave --live out, or use --json-lines for a pipe or a file";
