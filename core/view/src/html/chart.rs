//! Frames of charts: title, drawing, legend, words, and what a script needs to find them.

use super::markup::Markup;
use super::svg;
use crate::axis::Colour;
use crate::chart::{Arrangement, Chart, Group, Rendering};
use crate::plot::{Data, Plot, Series};

/// Width of a drawing by itself, and of one beside others.
const WIDE: [f64; 2] = [1080.0, 540.0];

/// A chart by itself.
pub(super) fn chart<'a>(page: &'a mut Markup, chart: &Chart) -> &'a mut Markup {
    framed(page, chart, WIDE[0], true)
}

/// One that is not `first` of several waits for the script that shows it, which draws it then.
fn framed<'a>(page: &'a mut Markup, chart: &Chart, wide: f64, first: bool) -> &'a mut Markup {
    let drawn = svg::draw(&chart.plot, wide);
    if drawn.is_empty() {
        return page;
    }
    page.raw("<figure id=\"").text(&chart.id).raw("\"");
    if chart.rendering == Rendering::Interactive {
        page.raw(" data-chart");
    }
    let is_drawn_later = !first
        && chart.rendering == Rendering::Interactive
        && matches!(chart.plot, Plot::Xy(_) | Plot::Distribution(_) | Plot::Timeline(_));
    page.raw(if is_drawn_later { " hidden>" } else { ">" });
    let drawn = if is_drawn_later { Markup::default() } else { drawn };
    if !chart.title.is_empty() {
        page.element("h3", "", &chart.title);
    }
    page.raw("\n<div class=\"drawing\" role=\"img\" aria-label=\"")
        .text(&chart.title)
        .raw("\">")
        .append(&drawn)
        .raw("</div>\n");
    legend(page, &chart.plot);
    page.said("figcaption", "", &chart.note).raw("</figure>")
}

/// What a colour means in a drawing, and how that is drawn there.
struct Key<'a> {
    name: &'a str,
    colour: Colour,
    /// As a line, dashed or not; else as a mark.
    line: Option<bool>,
}

fn legend(page: &mut Markup, plot: &Plot) {
    let keys = plot.keys();
    if keys.is_empty() || keys.len() < 2 && !matches!(plot, Plot::Timeline(_)) {
        return;
    }
    page.raw("<div class=\"legend\">");
    for key in keys {
        page.raw("<span>");
        match key.line {
            Some(dashed) => page.append(&svg::line_picture(key.colour, dashed)),
            None => page.append(&svg::mark_picture(key.colour)),
        };
        page.text(key.name).raw("</span>");
    }
    page.raw("</div>\n");
}

impl Plot {
    fn keys(&self) -> Vec<Key<'_>> {
        match self {
            Self::Xy(plot) => plot.series.iter().map(Key::of_series).collect(),
            Self::Distribution(plot) => plot
                .series
                .iter()
                .map(|one| Key { name: &one.name, colour: one.colour, line: Some(false) })
                .collect(),
            Self::Bars(plot) => plot
                .series
                .iter()
                .map(|one| Key { name: &one.name, colour: one.colour, line: None })
                .collect(),
            Self::Timeline(plot) => {
                plot.keys.iter().map(|(name, colour)| Key { name, colour: *colour, line: None }).collect()
            }
            Self::Ranges(_) | Self::Matrix(_) => Vec::new(),
        }
    }
}

impl<'a> Key<'a> {
    fn of_series(series: &'a Series) -> Self {
        let line = match series.data {
            Data::Line { .. } | Data::Spread { .. } | Data::Steps { .. } | Data::Rug { .. } => {
                Some(series.dashed)
            }
            Data::Slices { .. } | Data::Columns { .. } | Data::Points { .. } => None,
        };
        Self { name: &series.name, colour: series.colour, line }
    }
}

/// Several charts.
pub(super) fn group<'a>(page: &'a mut Markup, group: &Group, id: &str) -> &'a mut Markup {
    let wide = match &group.arrangement {
        Arrangement::Beside => {
            page.raw("<div class=\"beside\">\n");
            WIDE[1]
        }
        Arrangement::OneOf(label) => {
            page.raw("<div class=\"one-of\" id=\"").text(id).raw("\" data-label=\"").text(label).raw("\">\n");
            WIDE[0]
        }
    };
    let is_choice = matches!(group.arrangement, Arrangement::OneOf(_));
    for (at, chart) in group.charts.iter().enumerate() {
        framed(page, chart, wide, at == 0 || !is_choice).raw("\n");
    }
    page.raw("</div>")
}
