//! Tables and causes.

use super::in_html;
use super::markup::Markup;
use super::svg;
use crate::axis::Colour;
use crate::cell::Cell;
use crate::document::{Cause, Causes, Row, Table, Tone};

/// A table; `id` is that of the block.
pub(super) fn table<'a>(page: &'a mut Markup, table: &Table, id: &str) -> &'a mut Markup {
    if !table.title.is_empty() {
        page.element("h3", "", &table.title).raw("\n");
    }
    if table.rows.is_empty() && !table.empty.is_empty() {
        return page.said("p", "", &table.empty);
    }
    let shown: Vec<usize> = (0..table.columns.len()).filter(|at| in_html(table.columns[*at].shown)).collect();
    let headed = shown.iter().any(|at| !table.columns[*at].heading.is_empty());
    let first = table.first_rows.filter(|first| *first < table.rows.len());
    if first.is_some() {
        fold(page, id, table.rows.len(), "rows");
    }
    page.raw(if headed {
        "<div class=\"scroll\"><table>"
    } else {
        "<div class=\"scroll\"><table class=\"pairs\">"
    });
    if headed {
        headings(page, table, &shown);
    }
    page.raw("<tbody>\n");
    for (number, row) in table.rows.iter().enumerate() {
        let more = first.is_some_and(|first| number >= first);
        match row {
            Row::Cells(tone, cells) => {
                page.raw("<tr").raw(class(*tone, more)).raw(">");
                for (place, at) in shown.iter().enumerate() {
                    cell(page, &cells[*at], place == 0, table.numeric(*at));
                }
            }
            Row::Note(text) => {
                page.raw("<tr").raw(class(Tone::Plain, more)).raw("><td class=\"remark\" colspan=\"");
                page.integer(shown.len().max(1)).raw("\">").sentence(text).raw("</td>");
            }
        }
        page.raw("</tr>\n");
    }
    page.raw("</tbody></table></div>").raw(if first.is_some() { "</div>" } else { "" })
}

fn class(tone: Tone, more: bool) -> &'static str {
    match (tone, more) {
        (Tone::Plain, false) => "",
        (Tone::Plain, true) => " class=\"more\"",
        (Tone::Good, false) => " class=\"good\"",
        (Tone::Good, true) => " class=\"good more\"",
        (Tone::Caution, false) => " class=\"caution\"",
        (Tone::Caution, true) => " class=\"caution more\"",
        (Tone::Bad, false) => " class=\"bad\"",
        (Tone::Bad, true) => " class=\"bad more\"",
        (Tone::Quiet, false) => " class=\"quiet\"",
        (Tone::Quiet, true) => " class=\"quiet more\"",
    }
}

/// Begins a table of which a box to tick folds a part, so that no script is needed.
fn fold(page: &mut Markup, id: &str, count: usize, what: &'static str) {
    page.raw("<div class=\"long\"><input type=\"checkbox\" id=\"")
        .text(id)
        .raw("-all\"><label for=\"")
        .text(id);
    page.raw("-all\">all ").text(&Cell::Count(count as u64).to_string()).raw(" ").raw(what).raw("</label>\n");
}

fn headings(page: &mut Markup, table: &Table, shown: &[usize]) {
    page.raw("<thead><tr>");
    for at in shown {
        let column = &table.columns[*at];
        page.raw(if table.numeric(*at) {
            "<th scope=\"col\" class=\"number\">"
        } else {
            "<th scope=\"col\">"
        });
        if column.note.is_empty() {
            page.text(&column.heading);
        } else {
            page.raw("<abbr title=\"").text(&column.note).raw("\">").text(&column.heading).raw("</abbr>");
        }
        page.raw("</th>");
    }
    page.raw("</tr></thead>\n");
}

fn cell(page: &mut Markup, cell: &Cell, first: bool, numeric: bool) {
    let heads = first && !numeric;
    page.raw(match (heads, cell, numeric) {
        (true, ..) => "<th scope=\"row\">",
        (_, Cell::Bars(_), _) => "<td class=\"wide\">",
        (_, Cell::Unknown, true) => "<td class=\"number unknown\">",
        (_, Cell::Unknown, false) => "<td class=\"unknown\">",
        (_, _, true) => "<td class=\"number\">",
        (_, _, false) => "<td>",
    });
    match cell {
        Cell::Text(text) => page.sentence(text),
        Cell::Link { words, path } => {
            page.raw("<a href=\"").text(&address(path)).raw("\">").text(words).raw("</a>")
        }
        Cell::Bars(shares) => shares.iter().enumerate().fold(page, |page, (at, share)| {
            bar(page, *share, if at + 1 == shares.len() { Colour::of_cause(Some(0)) } else { Colour::Muted })
        }),
        cell => page.text(&cell.to_string()),
    }
    .raw(if heads { "</th>" } else { "</td>" });
}

/// A path as an address: it names no scheme, whatever the folders are called (RFC 3986, section 4.2).
fn address(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte);
    let encoded = path
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") });
    encoded.collect()
}

/// A bar; what is not zero is seen, and nothing else.
fn bar(page: &mut Markup, share: f64, colour: Colour) -> &mut Markup {
    page.raw("<span class=\"bar\">");
    if share > 0.0 {
        page.raw("<i style=\"width:").number(share.min(1.0) * 100.0);
        page.raw("%;background:var(").raw(colour.variable()).raw(")\"></i>");
    }
    page.raw("</span>")
}

/// A bar whose end is striped where the time is inferred.
fn divided_bar<'a>(page: &'a mut Markup, cause: &Cause, colour: Colour) -> &'a mut Markup {
    let part = |share: f64| if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
    let inferred = part(cause.inferred).min(part(cause.share));
    let solid = part(cause.share) - inferred;
    page.raw("<span class=\"bar\">");
    for (class, part) in [("", solid), (" class=\"inferred\"", inferred)] {
        if part > 0.0 {
            page.raw("<i").raw(class).raw(" style=\"width:").number(part * 100.0);
            page.raw("%;background-color:var(").raw(colour.variable()).raw(")\"></i>");
        }
    }
    page.raw("</span>")
}

/// Causes below this share are folded, where there are more than [`LEAST_SHOWN`].
const SHARE_SHOWN: f64 = 0.01;
/// Causes that are shown whatever their share.
const LEAST_SHOWN: usize = 3;

/// Causes in rank order; those of a hundredth or less are folded. `id` is that of the block.
pub(super) fn causes<'a>(page: &'a mut Markup, causes: &Causes, id: &str) -> &'a mut Markup {
    let shown: Vec<usize> =
        (0..causes.columns.len()).filter(|at| in_html(causes.columns[*at].shown)).collect();
    let large = causes.causes.iter().take_while(|cause| cause.share > SHARE_SHOWN).count().max(LEAST_SHOWN);
    let folds = causes.causes.len() > large + 1;
    if folds {
        fold(page, id, causes.causes.len(), "causes");
    }
    page.raw("<div class=\"scroll\"><table class=\"causes\">\n<thead><tr><th scope=\"col\"><span class=\"hidden\">Mark</span></th>");
    page.raw("<th scope=\"col\">Source</th><th scope=\"col\">Share</th>");
    for at in &shown {
        page.raw("<th scope=\"col\" class=\"number\">").text(&causes.columns[*at].heading).raw("</th>");
    }
    page.raw("</tr></thead>\n<tbody>\n");
    let ranked = causes.causes.iter().enumerate().map(|(rank, cause)| (Some(rank), cause));
    for (rank, cause) in ranked.chain(causes.unexplained.iter().map(|rest| (None, rest))) {
        let colour = Colour::of_cause(rank);
        let more = folds && rank.is_some_and(|rank| rank >= large);
        page.raw("<tr")
            .raw(class(Tone::Plain, more))
            .raw("><td class=\"mark\">")
            .append(&svg::mark_picture(colour))
            .raw("</td>");
        source(page, cause, &causes.causes[..rank.unwrap_or_default()]);
        page.raw("<td class=\"wide\">").element("span", "share", &Cell::Share(cause.share).to_string());
        divided_bar(page, cause, colour).raw("</td>");
        for at in &shown {
            page.raw("<td class=\"number\" data-name=\"").text(&causes.columns[*at].heading).raw("\">");
            page.text(&cause.figures.get(*at).unwrap_or(&Cell::Empty).to_string()).raw("</td>");
        }
        page.raw("</tr>\n");
    }
    page.raw("</tbody></table></div>").raw(if folds { "</div>" } else { "" });
    if causes.causes.iter().any(|cause| cause.inferred > 0.0) {
        page.element(
            "p",
            "detail",
            "Bars are solid where records show the time, and striped where it is inferred.",
        );
    }
    page
}

/// A cause, and what removes it: said once where several share it.
fn source(page: &mut Markup, cause: &Cause, earlier: &[Cause]) {
    page.raw("<td class=\"source\">").element("strong", "", &cause.name);
    cause.details.iter().chain(&cause.html_details).for_each(|detail| {
        page.said("span", "detail", detail);
    });
    let same = earlier.iter().find(|other| !cause.remedies.is_empty() && other.remedies == cause.remedies);
    if let Some(same) = same {
        page.raw("<span class=\"detail\">remedy: as for ").text(&same.name).raw("</span>");
    }
    for remedy in cause.remedies.iter().filter(|_| same.is_none()) {
        page.raw("<span class=\"remedy\">");
        if !remedy.when.is_empty() {
            page.element("b", "", &remedy.when).raw(" ");
        }
        page.sentence(&remedy.what).raw("</span>");
    }
    page.raw("</td>");
}
