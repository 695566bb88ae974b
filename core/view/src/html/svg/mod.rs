//! Still drawings as SVG.

use super::markup::Markup;
use crate::chart::{Colour, Plot};

/// Shapes around (0, 0) with a radius of about one: one for each colour of a series, then the one of further series and
/// that of what is unexplained, which is stroked. So nobody needs colours to tell marks.
pub(super) const MARKS: [&str; 10] = [
    "M1 0A1 1 0 1 1 -1 0A1 1 0 1 1 1 0Z",
    "M-.9 -.9h1.8v1.8h-1.8Z",
    "M0 -1.2L1.15 .9L-1.15 .9Z",
    "M0 -1.3L1.3 0L0 1.3L-1.3 0Z",
    "M0 1.2L1.15 -.9L-1.15 -.9Z",
    "M-1.1 -.5h2.2v1h-2.2Z",
    "M-.5 -1.1h1v2.2h-1Z",
    "M-1.2 -.4h.8v-.8h.8v.8h.8v.8h-.8v.8h-.8v-.8h-.8Z",
    "M-.6 -.6h1.2v1.2h-1.2Z",
    "M-1 -1L1 1M1 -1L-1 1",
];

/// Number of a colour's shape.
fn mark(colour: Colour) -> usize {
    match colour {
        Colour::Series(at) => usize::from(at).min(8),
        Colour::Muted | Colour::Faint => 8,
        Colour::Ink => 9,
    }
}

/// A mark as a small picture beside words.
pub(super) fn mark_picture(colour: Colour) -> Markup {
    let mut out = Markup::default();
    out.raw("<svg width=\"16\" height=\"16\" viewBox=\"-1.6 -1.6 3.2 3.2\" aria-hidden=\"true\"><path d=\"");
    out.raw(MARKS[mark(colour)]).raw("\" style=\"fill:var(").raw(colour.variable()).raw(");stroke:var(");
    out.raw(colour.variable()).raw(if mark(colour) == 9 {
        ");stroke-width:.4\"/></svg>"
    } else {
        ");stroke-width:0\"/></svg>"
    });
    out
}

/// The drawing.
pub(super) fn draw(_plot: &Plot) -> Markup {
    Markup::default()
}
