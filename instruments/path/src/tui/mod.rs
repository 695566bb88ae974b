//! The live view of a path, in the terminal: what is known ([`state`]), how it looks ([`draw`]), and the terminal
//! itself ([`terminal`]).

pub mod draw;
pub mod series;
pub mod state;
pub mod terminal;

pub use state::{Phase, Stage, Totals, View, Way};
pub use terminal::LiveView;
