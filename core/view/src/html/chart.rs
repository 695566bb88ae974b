//! Frames of charts: title, drawing, words, and what a script needs to find them.

use super::markup::Markup;
use super::svg;
use crate::chart::{Arrangement, Chart, Group, Rendering};

/// A chart by itself.
pub(super) fn chart<'a>(page: &'a mut Markup, chart: &Chart) -> &'a mut Markup {
    let drawn = svg::draw(&chart.plot);
    if drawn.is_empty() {
        return page;
    }
    page.raw("<figure id=\"").text(&chart.id).raw("\"");
    if chart.rendering == Rendering::Interactive {
        page.raw(" data-chart");
    }
    page.raw(">").element("h3", "", &chart.title).raw("\n<div class=\"drawing\" role=\"img\" aria-label=\"");
    page.text(&chart.title).raw("\">").append(&drawn).raw("</div>\n");
    page.said("figcaption", "", &chart.note).raw("</figure>")
}

/// Several charts.
pub(super) fn group<'a>(page: &'a mut Markup, group: &Group, id: &str) -> &'a mut Markup {
    match &group.arrangement {
        Arrangement::Beside => page.raw("<div class=\"beside\">\n"),
        Arrangement::OneOf(label) => {
            page.raw("<div class=\"one-of\" id=\"").text(id).raw("\" data-label=\"").text(label).raw("\">\n")
        }
    };
    group.charts.iter().for_each(|each| {
        chart(page, each).raw("\n");
    });
    page.raw("</div>")
}
