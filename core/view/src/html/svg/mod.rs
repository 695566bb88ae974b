//! Still drawings as SVG, and what all of them share.

mod bars;
mod matrix;
mod timeline;
mod xy;

use super::markup::Markup;
use crate::axis::Colour;
use crate::plot::Plot;

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

/// A line as a small picture beside words.
pub(super) fn line_picture(colour: Colour, dashed: bool) -> Markup {
    let mut out = Markup::default();
    out.raw("<svg width=\"24\" height=\"10\" viewBox=\"0 0 24 10\" aria-hidden=\"true\"><path d=\"M0 5h24\" style=\"stroke:var(");
    out.raw(colour.variable()).raw(");stroke-width:2.5").raw(if dashed {
        ";stroke-dasharray:6 3\"/></svg>"
    } else {
        "\"/></svg>"
    });
    out
}

/// The drawing, about so many pixels wide; empty where there is nothing to draw.
pub(super) fn draw(plot: &Plot, wide: f64) -> Markup {
    match plot {
        Plot::Xy(plot) => xy::draw(plot, wide),
        Plot::Distribution(plot) => {
            plot.first_view().map_or_else(Markup::default, |plot| xy::draw(&plot, wide))
        }
        Plot::Bars(plot) => bars::draw(plot, wide),
        Plot::Ranges(plot) => bars::ranges(plot, wide),
        Plot::Matrix(plot) => matrix::draw(plot),
        Plot::Timeline(plot) => timeline::draw(plot, wide),
    }
}

/// Where words stand about their place.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing as it grows.
struct Svg {
    inside: Markup,
}

impl Svg {
    fn new() -> Self {
        Self { inside: Markup::default() }
    }

    /// The whole drawing. It is never shown wider than it is, and not much narrower: then it is moved sideways.
    fn framed(self, wide: f64, high: f64) -> Markup {
        let mut out = Markup::default();
        out.raw("<svg viewBox=\"0 0 ")
            .number(wide)
            .raw(" ")
            .number(high)
            .raw("\" style=\"max-width:")
            .number(wide);
        out.raw("px;min-width:")
            .number((wide * 0.7).min(760.0))
            .raw("px\">")
            .append(&self.inside)
            .raw("</svg>");
        out
    }

    fn line(&mut self, (x0, y0): (f64, f64), (x1, y1): (f64, f64), class: &'static str) {
        self.inside.raw("<path class=\"").raw(class).raw("\" d=\"M").number(x0).raw(" ").number(y0);
        self.inside.raw("L").number(x1).raw(" ").number(y1).raw("\"/>");
    }

    fn words(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &'static str, words: &str) {
        self.inside.raw("<text x=\"").number(x).raw("\" y=\"").number(y).raw(match anchor {
            Anchor::Start => "\"",
            Anchor::Middle => "\" text-anchor=\"middle\"",
            Anchor::End => "\" text-anchor=\"end\"",
        });
        if !class.is_empty() {
            self.inside.raw(" class=\"").raw(class).raw("\"");
        }
        self.inside.raw(">").text(words).raw("</text>");
    }

    /// A filled box with words beside the pointer. `opacity` is 0 to 1.
    fn boxed(
        &mut self,
        (x, y): (f64, f64),
        (wide, high): (f64, f64),
        colour: Colour,
        opacity: f64,
        tip: &str,
    ) {
        self.inside
            .raw("<rect x=\"")
            .number(x)
            .raw("\" y=\"")
            .number(y)
            .raw("\" width=\"")
            .number(wide.max(0.5));
        self.inside
            .raw("\" height=\"")
            .number(high.max(0.5))
            .raw("\" style=\"fill:var(")
            .raw(colour.variable())
            .raw(")");
        if opacity < 1.0 {
            self.inside.raw(";fill-opacity:").number(opacity);
        }
        self.inside.raw("\">");
        self.tip(tip).raw("</rect>");
    }

    fn tip(&mut self, tip: &str) -> &mut Markup {
        if tip.is_empty() { &mut self.inside } else { self.inside.element("title", "", tip) }
    }

    /// A path of moves and lines, stroked.
    fn stroked(&mut self, path: &Markup, colour: Colour, dashed: bool, stroke: f64) {
        if path.is_empty() {
            return;
        }
        self.inside
            .raw("<path d=\"")
            .append(path)
            .raw("\" style=\"fill:none;stroke:var(")
            .raw(colour.variable());
        self.inside.raw(");stroke-width:").number(stroke).raw(if dashed {
            ";stroke-dasharray:6 4\"/>"
        } else {
            "\"/>"
        });
    }

    /// A closed path, filled.
    fn filled(&mut self, path: &Markup, colour: Colour, opacity: f64) {
        if path.is_empty() {
            return;
        }
        self.inside.raw("<path d=\"").append(path).raw("\" style=\"fill:var(").raw(colour.variable());
        self.inside.raw(");fill-opacity:").number(opacity).raw("\"/>");
    }
}

/// Room that a character of 12 px needs at most, pixels. Pages ask for the font of the system, so this goes by the advances
/// of DejaVu Sans, the widest of those that are usual on Linux, rounded up.
fn advance(character: char) -> f64 {
    match character {
        ' ' | '!' | '\'' | '(' | ')' | ',' | '-' | '.' | '/' | ':' | ';' | 'I' | 'J' | '[' | '\\' | ']'
        | '|' | '·' => 4.9,
        'f' | 'i' | 'j' | 'l' | 'r' | 't' => 5.0,
        '%' | '@' | 'M' | 'W' | 'm' => 12.0,
        '#' | '&' | '+' | '<' | '=' | '>' | '~' | 'w' | 'A'..='Z' => 10.1,
        'µ' | '\0'..='\x7f' => 7.7,
        _ => 12.0,
    }
}

/// Room that words of 12 px need at most, pixels.
fn room_of(words: &str) -> f64 {
    words.chars().map(advance).sum()
}

/// Room of the longest of some words, pixels.
fn widest<'a>(words: impl Iterator<Item = &'a str>) -> f64 {
    words.map(room_of).fold(0.0, f64::max)
}

/// Words that stay within `room` pixels, with an ellipsis where something was cut. At least one character is kept.
fn cut_to(words: &str, room: f64) -> String {
    if room_of(words) <= room {
        return words.to_owned();
    }
    let mut left = room - advance('…');
    let fits = |character: &char| {
        left -= advance(*character);
        left >= 0.0
    };
    let kept = words.chars().take_while(fits).count().max(1);
    words.chars().take(kept).chain(['…']).collect()
}

#[cfg(test)]
#[path = "svg_tests.rs"]
mod tests;
