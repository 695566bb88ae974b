//! The document as an HTML page: one file that works offline and fetches nothing.
//!
//! Words, tables and still drawings are written here and are readable without scripts. Scripts add zoom and choice: of
//! drawings that are shown one at a time, only the first has a still form. The content security policy of the page forbids every request.

mod chart;
mod embed;
mod markup;
mod svg;
mod table;

use crate::chart::{Chart, Rendering};
use crate::document::{Block, Document, Finding, Section, Shown, Tone};
use markup::Markup;
use std::io::{self, Write};

const STYLE: &str = include_str!("../../assets/view.css");
const PLOT_STYLE: &str = include_str!("../../assets/uplot/uPlot.min.css");
const PLOT_LICENCE: &str = include_str!("../../assets/uplot/LICENSE");
const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n";
const HOW: &str = "<p class=\"how\">In a drawing: drag to zoom in, double-click to see all of it; or use its buttons, or the keys \
<kbd>+</kbd> <kbd>−</kbd> <kbd>←</kbd> <kbd>→</kbd> <kbd>0</kbd> on the focused drawing. A click on a name in its legend hides that series.</p>\n";
const SCRIPTS: [&str; 5] = [
    include_str!("../../assets/uplot/uPlot.iife.min.js"),
    include_str!("../../assets/view.js"),
    include_str!("../../assets/plot.js"),
    include_str!("../../assets/timeline.js"),
    include_str!("../../assets/start.js"),
];

/// Writes the page.
pub fn write_html(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    let scripted = charts(document).any(|chart| chart.rendering == Rendering::Interactive);
    let mut page = Markup::default();
    head(&mut page, document, scripted);
    body(&mut page, document, scripted);
    out.write_all(page.as_bytes())?;
    if scripted {
        let mut drawings = embed::Drawings::default();
        for chart in charts(document).filter(|chart| chart.rendering == Rendering::Interactive) {
            drawings.add(chart)?;
        }
        drawings.write(out)?;
        // The library's licence asks that its text goes with every copy.
        writeln!(out, "<script type=\"text/plain\" id=\"uplot-licence\">{PLOT_LICENCE}</script>")?;
        embed::write_json(out, "view-marks", &svg::MARKS)?;
        for script in SCRIPTS {
            writeln!(out, "<script>{script}</script>")?;
        }
    }
    out.write_all(b"</body>\n</html>\n")?;
    out.flush()
}

/// Whether a part is shown here.
fn in_html(shown: Shown) -> bool {
    shown != Shown::TerminalOnly
}

fn sections(document: &Document) -> impl Iterator<Item = &Section> {
    document.sections.iter().filter(|section| in_html(section.shown))
}

/// Every chart of the page.
pub(crate) fn charts(document: &Document) -> impl Iterator<Item = &Chart> {
    fn of(block: &Block) -> &[Chart] {
        match block {
            Block::Chart(chart) => std::slice::from_ref(chart),
            Block::Charts(group) => &group.charts,
            Block::Only(shown, block) if in_html(*shown) => of(block),
            _ => &[],
        }
    }
    sections(document).flat_map(|section| section.blocks.iter().flat_map(of))
}

fn head(page: &mut Markup, document: &Document, scripted: bool) {
    page.raw(HEAD).raw("<meta name=\"generator\" content=\"quaver ").text(&document.version).raw("\">\n");
    page.element("title", "", &format!("{} · {}", document.title, document.verb));
    if scripted {
        page.raw("\n<style>").raw(PLOT_STYLE).raw("</style>");
    }
    page.raw("\n<style>").raw(STYLE).raw("</style>\n</head>\n<body>\n");
}

fn body(page: &mut Markup, document: &Document, scripted: bool) {
    page.raw("<header class=\"top\">\n").element("p", "brand", &document.verb).raw("\n");
    match &document.verdict {
        Some(verdict) => {
            page.said("h1", "", verdict).raw("\n").element("p", "run", &document.title);
        }
        None => {
            page.element("h1", "", &document.title);
        }
    }
    links(page, document);
    page.raw("</header>\n<main>\n");
    if document.incomplete {
        page.raw("<p class=\"notice\" role=\"status\">This run was cut short. Everything below covers what was kept.</p>\n");
    }
    if scripted {
        page.raw("<noscript><p class=\"notice\">Without scripts the drawings stand still, and where one of several can be chosen, the first is shown.</p></noscript>\n");
        page.raw(HOW);
    }
    tiles(page, document);
    warnings(page, document);
    sections(document).for_each(|part| section(page, part));
    facts(page, document);
    page.raw("</main>\n<footer><p>Written by quaver ").text(&document.version);
    page.raw(". This file is complete: it fetches nothing.");
    if scripted {
        page.raw(" Plots by uPlot (MIT licence).");
    }
    page.raw("</p></footer>\n<div id=\"tip\" class=\"tip\" role=\"tooltip\" hidden></div>\n");
}

fn has_facts(document: &Document) -> bool {
    document.facts.iter().any(|fact| in_html(fact.shown) && !fact.value.is_empty())
}

fn links(page: &mut Markup, document: &Document) {
    page.raw("<nav aria-label=\"Sections\">\n");
    for section in sections(document) {
        page.raw("<a href=\"#").text(&section.id).raw("\">");
        page.text(section.link.as_ref().unwrap_or(&section.title)).raw("</a>\n");
    }
    if has_facts(document) {
        page.raw("<a href=\"#facts\">Host and run</a>\n");
    }
    page.raw("</nav>\n");
}

fn tiles(page: &mut Markup, document: &Document) {
    if document.tiles.is_empty() {
        return;
    }
    page.raw("<section class=\"tiles\" aria-label=\"Key figures\">\n");
    for tile in &document.tiles {
        page.raw("<div class=\"tile\">").element("span", "tile-name", &tile.name);
        page.element("span", "tile-value", &tile.value.to_string());
        page.said("span", "tile-note", &tile.note).raw("</div>\n");
    }
    page.raw("</section>\n");
}

fn warnings(page: &mut Markup, document: &Document) {
    if document.warnings.is_empty() {
        return;
    }
    page.raw("<section id=\"warnings\" aria-labelledby=\"warnings-title\">\n<h2 id=\"warnings-title\">Warnings</h2>\n<ul class=\"warnings\">");
    document.warnings.iter().for_each(|warning| {
        page.said("li", "", warning);
    });
    page.raw("</ul>\n</section>\n");
}

fn section(page: &mut Markup, section: &Section) {
    page.raw("<section id=\"")
        .text(&section.id)
        .raw("\" aria-labelledby=\"")
        .text(&section.id)
        .raw("-title\">\n");
    page.raw(if section.folded { "<details><summary>" } else { "" });
    page.raw("<h2 id=\"").text(&section.id).raw("-title\">").text(&section.title).raw("</h2>");
    page.raw(if section.folded { "</summary>" } else { "" }).raw("\n");
    page.said("p", "lead", &section.note);
    for (at, part) in section.blocks.iter().enumerate() {
        block(page, part, &format!("{}-{at}", section.id));
    }
    page.raw(if section.folded { "</details>" } else { "" }).raw("</section>\n\n");
}

/// `id` is that of the block, unique in the page.
fn block(page: &mut Markup, block: &Block, id: &str) {
    match block {
        Block::Heading(title) => page.element("h3", "", title),
        Block::Text(text) => page.said("p", "", text),
        Block::Note(text) => page.said("p", "note", text),
        Block::List(items) => {
            page.raw("<ul class=\"list\">");
            items.iter().for_each(|item| {
                page.said("li", "", item);
            });
            page.raw("</ul>")
        }
        Block::Table(table) => table::table(page, table, id),
        Block::Causes(causes) => table::causes(page, causes, id),
        Block::Findings(all) => findings(page, all),
        Block::Chart(chart) => chart::chart(page, chart),
        Block::Charts(group) => chart::group(page, group, id),
        Block::Preformatted(text) => {
            // Lines are kept, what else controls is not.
            page.raw("<pre>");
            text.replace('\t', "        ").lines().for_each(|line| {
                page.text(line).raw("\n");
            });
            page.raw("</pre>")
        }
        Block::Only(shown, inner) if in_html(*shown) => return self::block(page, inner, id),
        Block::Only(..) => return,
    }
    .raw("\n");
}

fn findings<'a>(page: &'a mut Markup, findings: &[Finding]) -> &'a mut Markup {
    page.raw("<dl class=\"findings\">\n");
    for finding in findings {
        page.open(
            "dt",
            match finding.tone {
                Tone::Plain => "",
                Tone::Good => "good",
                Tone::Caution => "caution",
                Tone::Bad => "bad",
                Tone::Quiet => "quiet",
            },
        );
        page.said("b", "", &finding.label.as_str().into()).raw(" ").sentence(&finding.name).raw("</dt>\n");
        for (class, texts) in [("", &finding.details), ("remedy", &finding.remedies)] {
            texts.iter().for_each(|text| {
                page.said("dd", class, text).raw("\n");
            });
        }
    }
    page.raw("</dl>")
}

fn facts(page: &mut Markup, document: &Document) {
    if !has_facts(document) {
        return;
    }
    page.raw("<section id=\"facts\" aria-labelledby=\"facts-title\">\n<h2 id=\"facts-title\">Host and run</h2>\n<table class=\"pairs facts\"><tbody>");
    for fact in document.facts.iter().filter(|fact| in_html(fact.shown) && !fact.value.is_empty()) {
        let name = fact.name.chars().next().into_iter().flat_map(char::to_uppercase).collect::<String>();
        let name = name + fact.name.get(fact.name.chars().next().map_or(0, char::len_utf8)..).unwrap_or("");
        page.raw("<tr><th scope=\"row\">")
            .text(&name)
            .raw("</th>")
            .said("td", "", &fact.value)
            .raw("</tr>\n");
    }
    page.raw("</tbody></table>\n</section>\n");
}

/// The data that a page's scripts draw from.
#[cfg(test)]
pub(crate) fn unpacked(page: &str) -> serde_json::Value {
    use base64::prelude::{BASE64_STANDARD, Engine};
    let (_, rest) = page.split_once("id=\"view-data\">").unwrap();
    let packed = BASE64_STANDARD.decode(rest.split_once('<').unwrap().0).unwrap();
    serde_json::from_reader(flate2::read::DeflateDecoder::new(packed.as_slice())).unwrap()
}

#[cfg(test)]
#[path = "../html_tests.rs"]
mod tests;
