#![forbid(unsafe_code)]
//! What a person sees of a result: a [`Document`] that an instrument builds once, and that is rendered for the terminal
//! ([`write_terminal`]) and as an HTML page ([`write_html`]).
//!
//! Instruments hand over quantities ([`Cell`]) and never format a number, choose a unit, align a column, escape a name
//! or draw. Nothing here reads a clock, a file or the environment.

mod cell;
mod chart;
mod distribution;
mod document;
mod figures;
mod html;
mod terminal;
mod text;
mod ticks;

pub use cell::Cell;
pub use chart::{
    Arrangement, Arrow, Axis, BarSeries, Bars, Binned, Chart, Colour, Data, Distribution, DistributionView,
    Fill, Group, Guide, Lane, Matrix, Numbers, Plot, Quantity, Range, Ranges, Rendering, Series, Span,
    Timeline, Xy,
};
pub use document::{
    Block, Cause, Causes, Column, Document, Fact, Remedy, Row, Section, Shown, Table, Tile, Tone,
};
pub use figures::{Better, Figure, Figures, Unit};
pub use html::write_html;
pub use terminal::{Style, plain, write_terminal};
pub use text::{Emphasis, Text};
