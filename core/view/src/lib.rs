#![forbid(unsafe_code)]
//! What a person sees of a result: a [`Document`] that an instrument builds once, and that is rendered for the terminal
//! ([`write_terminal`]) and as an HTML page ([`write_html`]).
//!
//! Instruments hand over quantities ([`Cell`]) and never format a number, choose a unit, align a column, escape a name
//! or draw. Nothing here reads a clock, a file or the environment.

mod axis;
mod cell;
mod chart;
mod distribution;
mod document;
mod gnuplot;
mod html;
mod plot;
mod terminal;
mod text;
mod ticks;
mod unit;

pub use axis::{Axis, Colour, Quantity};
pub use cell::{Cell, bar};
pub use chart::{Arrangement, Chart, Group, Rendering};
pub use document::{
    Block, Cause, Causes, Column, ColumnOf, Document, Fact, Finding, Remedy, Row, Section, Shown, Table,
    Tile, Tone,
};
pub use gnuplot::gnuplot;
pub use html::write_html;
pub use plot::{
    Arrow, BarSeries, Bars, Binned, Data, Distribution, DistributionView, Fill, Guide, Lane, Matrix, Numbers,
    Plot, Range, Ranges, Series, Span, Timeline, Xy,
};
pub use terminal::{Style, plain, write_terminal};
pub use text::{Emphasis, Text, safe, wrap};
pub use unit::Unit;
