use crate::document::{Cause, Causes, Column, Finding, Remedy, Table};
use crate::{
    Axis, Block, Cell, Chart, Colour, Data, Document, Group, Quantity, Section, Series, Shown, Text, Tone,
    Xy, write_html,
};
use serde_json::json;
use sha2::{Digest, Sha256};

fn page(document: &Document) -> String {
    let mut out = Vec::new();
    write_html(&mut out, document).unwrap();
    String::from_utf8(out).unwrap()
}

/// What stands in the page's body, without the frame that all pages have.
fn main(document: &Document) -> String {
    let page = page(document);
    let (_, rest) = page.split_once("<main>\n").unwrap();
    rest.split_once("</main>").unwrap().0.to_owned()
}

#[test]
fn a_table() {
    let mut document = Document::new("quaver x", "x");
    let mut table =
        Table::new([Column::from("layer"), Column::new("p50").note("half of \"them\""), Column::from("")]);
    table.row::<Cell>(["<b>".into(), Cell::Duration(7_410), Cell::Bars(vec![0.25, 1.5])]);
    table.toned::<Cell>(Tone::Bad, ["b".into(), Cell::Unknown, Cell::Empty]);
    table.note("remark");
    document.section(Section::new("s", "Title").with(table.first_rows(1)));
    let wanted = "\
<section id=\"s\" aria-labelledby=\"s-title\">
<h2 id=\"s-title\">Title</h2>
<div class=\"long\"><input type=\"checkbox\" id=\"s-0-all\"><label for=\"s-0-all\">all 3 rows</label>
<div class=\"scroll\"><table><thead><tr><th scope=\"col\">layer</th><th scope=\"col\" class=\"number\"><abbr title=\"half of &quot;them&quot;\">p50</abbr></th><th scope=\"col\"></th></tr></thead>
<tbody>
<tr><th scope=\"row\">&lt;b&gt;</th><td class=\"number\">7.41 µs</td><td class=\"wide\"><span class=\"bar\"><i style=\"width:25%;background:var(--muted)\"></i></span><span class=\"bar\"><i style=\"width:100%;background:var(--c0)\"></i></span></td></tr>
<tr class=\"bad more\"><th scope=\"row\">b</th><td class=\"number unknown\">not known</td><td></td></tr>
<tr class=\"more\"><td class=\"remark\" colspan=\"3\">remark</td></tr>
</tbody></table></div></div>
</section>

";
    assert_eq!(main(&document), wanted, "{}", main(&document));
}

#[test]
fn causes_with_remedies() {
    let mut document = Document::new("quaver x", "x");
    let cause = Cause {
        name: "thread <x>".into(),
        share: 0.5,
        inferred: 0.125,
        figures: vec![Cell::Count(1_480)],
        details: vec![Text::from("network stack · ").code("rt-thread")],
        html_details: vec!["another thread <ran>".into()],
        remedies: vec![Remedy::new("now", "do"), Remedy::new("", "think")],
    };
    let unexplained = Cause { name: "unexplained".into(), share: 0.5, ..Cause::default() };
    let causes = Causes {
        columns: vec!["packets".into()],
        causes: vec![cause],
        unexplained: Some(unexplained),
        ..Causes::default()
    };
    document.section(Section::new("causes", "Sources").with(causes));
    assert!(!crate::plain(&document).contains("another thread"), "for the page only");
    let text = main(&document);
    let wanted = "<td class=\"source\"><strong>thread &lt;x&gt;</strong><span class=\"detail\">network stack · <code>rt-thread</code></span>\
<span class=\"detail\">another thread &lt;ran&gt;</span><span class=\"remedy\"><b>now</b> do</span><span class=\"remedy\">think</span></td><td class=\"wide\"><span class=\"share\">50.0 %</span>\
<span class=\"bar\"><i style=\"width:37.5%;background-color:var(--c0)\"></i>\
<i class=\"inferred\" style=\"width:12.5%;background-color:var(--c0)\"></i></span></td><td class=\"number\" data-name=\"packets\">1,480</td></tr>";
    assert!(text.contains(wanted), "{text}");
    assert!(text.contains("background-color:var(--ink)"), "{text}");
}

#[test]
fn blocks_tiles_facts_and_warnings() {
    let mut document = Document::new("quaver x", "run");
    document.version = "1".into();
    document.verdict = Some(Text::from("All ").strong("well"));
    document.tile("Packets", Cell::Count(1_000), "sent").fact("host", "h<").fact("empty", "").warn("w&");
    document.section(Section::new("only", "Terminal").shown(Shown::TerminalOnly));
    document.section(
        Section::new("a", "A long title")
            .link("Short")
            .folded()
            .note("lead")
            .with("text")
            .with(Block::Note("note".into()))
            .with(Block::List(vec!["item".into()]))
            .with(Block::Preformatted("a <\n\x1bb".into()))
            .with(Table::new(["a"]).empty("nothing"))
            .with(Block::Heading("sub".into())),
    );
    let text = page(&document);
    let wanted = [
        "<title>run · quaver x</title>",
        "<h1>All <strong>well</strong></h1>\n<p class=\"run\">run</p>",
        "<nav aria-label=\"Sections\">\n<a href=\"#a\">Short</a>\n<a href=\"#facts\">Host and run</a>\n</nav>",
        "<div class=\"tile\"><span class=\"tile-name\">Packets</span><span class=\"tile-value\">1,000</span><span class=\"tile-note\">sent</span></div>",
        "<ul class=\"warnings\"><li>w&amp;</li></ul>",
        "<section id=\"a\" aria-labelledby=\"a-title\">\n<details><summary><h2 id=\"a-title\">A long title</h2></summary>\n\
<p class=\"lead\">lead</p><p>text</p>\n<p class=\"note\">note</p>\n<ul class=\"list\"><li>item</li></ul>\n\
<pre>a &lt;\n�b\n</pre>\n<p>nothing</p>\n<h3>sub</h3>\n</details></section>",
        "<tbody><tr><th scope=\"row\">Host</th><td>h&lt;</td></tr>\n</tbody>",
        "<footer><p>Written by quaver 1. This file is complete: it fetches nothing.</p></footer>",
    ];
    for part in wanted {
        assert!(text.contains(part), "{part}\n\n{text}");
    }
    assert!(!text.contains("Terminal") && !text.contains("<script"), "{text}");
}

/// Every place that takes words of others.
#[test]
fn hostile_names_are_text_everywhere() {
    let evil = "</script><img src=x onerror=alert(1)>\"'\x1b]0;\u{202e}";
    let mut document = Document::new(evil, evil);
    document.version = evil.into();
    document.verdict = Some(Text::from(evil).strong(evil).code(evil));
    document.tile(evil, evil, evil).fact(evil, evil).warn(evil);
    let mut table = Table::new([Column::new(evil).note(evil)]).title(evil);
    table.row([evil]).note(evil);
    let cause = Cause {
        name: evil.into(),
        share: f64::NAN,
        inferred: f64::NAN,
        figures: vec![evil.into()],
        details: vec![evil.into()],
        html_details: vec![evil.into()],
        remedies: vec![Remedy::new(evil, evil)],
    };
    let causes = Causes { columns: vec![evil.into()], causes: vec![cause], ..Causes::default() };
    let section = Section::new(evil, evil).link(evil).note(evil).with(table).with(causes);
    document.section(section.with(Block::Preformatted(evil.into())).with(Block::Heading(evil.into())));
    let text = page(&document);
    assert!(!text.contains("<img") && !text.contains("</script>") && !text.contains("\"'"), "{text}");
    assert!(!text.contains(['\x1b', '\u{202e}']), "{text}");
    let plain = crate::plain(&document);
    assert!(!plain.contains(['\x1b', '\u{202e}']), "{plain}");
}

fn with_chart(chart: Chart) -> String {
    let mut document = Document::new("quaver x", "x");
    document.section(Section::new("s", "S").with(chart));
    page(&document)
}

fn chart() -> Chart {
    let (x, y) = (vec![0.0, 1.0].into(), vec![1.0, 2.0].into());
    let line = Data::Line { x, y, marks: false };
    let axis = || Axis::linear("a", Quantity::Count);
    Chart::new("c", "</script>", Xy::new(axis(), axis()).with(Series::new("<i>", Colour::Series(0), line)))
}

#[test]
fn a_drawing_that_can_be_zoomed_has_a_still_form_and_data() {
    let text = with_chart(chart().linked("t"));
    assert!(text.contains("<figure id=\"c\" data-chart><h3>&lt;/script&gt;</h3>\n<div class=\"drawing\" role=\"img\" aria-label=\"&lt;/script&gt;\"><svg"));
    let axis = json!({ "label": "a", "quantity": "count", "log": false, "range": null });
    let line = json!({ "name": "<i>", "colour": "--c0", "dashed": false, "shape": "line", "x": [0, 1], "y": [1, 2], "marks": false });
    let plot = json!({ "kind": "xy", "x": axis, "y": axis, "series": [line], "guides": [] });
    let wanted = json!({ "charts": { "c": { "linked": "t", "plot": plot } }, "columns": [] });
    assert_eq!(super::unpacked(&text), wanted);
    assert!(text.contains("id=\"uplot-licence\">") && text.contains("Plots by uPlot (MIT licence)."));
    assert_eq!(text.matches("<script").count(), text.matches("</script>").count());
}

#[test]
fn of_several_drawings_the_first_has_a_still_form() {
    let named = |id: &str| Chart { id: id.into(), ..chart() };
    let mut document = Document::new("quaver x", "x");
    let still = Chart { title: "still".into(), ..named("c").still() };
    document.section(Section::new("s", "S").with(Group::one_of("Layer", [named("a"), named("b"), still])));
    let text = page(&document);
    let figure = |id: &str| {
        let (_, rest) = text.split_once(&format!("<figure id=\"{id}\"")).unwrap();
        rest.split_once("</figure>").unwrap().0
    };
    assert!(figure("a").starts_with(" data-chart>") && figure("a").contains("<svg viewBox"));
    assert!(figure("b").starts_with(" data-chart hidden>") && !figure("b").contains("<svg viewBox"));
    assert!(figure("c").starts_with(">") && figure("c").contains("<svg viewBox"));
    let data = super::unpacked(&text);
    let charts: Vec<&String> = data["charts"].as_object().unwrap().keys().collect();
    assert_eq!(charts, ["a", "b"]);
}

#[test]
fn a_page_of_still_drawings_needs_no_scripts() {
    let text = with_chart(chart().still());
    assert!(
        text.contains("<svg")
            && !text.contains("<script")
            && !text.contains("data-chart")
            && !text.contains("uPlot"),
        "{text}"
    );
}

#[test]
fn every_request_is_forbidden() {
    let text = with_chart(chart());
    assert!(text.contains(
        "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\""
    ));
    // The library names its home in a comment of its own; nothing of ours names a place.
    let ours: String = text.lines().filter(|line| !line.contains("uPlot")).collect();
    assert!(!ours.contains("src=") && !ours.contains("url(") && !ours.contains("@import"));
}

#[test]
fn findings_with_states_and_remedies() {
    let mut document = Document::new("quaver x", "x");
    let missing =
        Finding::new(Tone::Caution, "missing", "a <clock>").detail("found: none").remedy("sudo a & b");
    document.section(Section::new("s", "Title").with(vec![missing, Finding::new(Tone::Plain, "", "b")]));
    let wanted = "<dl class=\"findings\">\n<dt class=\"caution\"><b>missing</b> a &lt;clock&gt;</dt>\n<dd>found: none</dd>\n\
<dd class=\"remedy\">sudo a &amp; b</dd>\n<dt> b</dt>\n</dl>";
    assert!(main(&document).contains(wanted), "{}", main(&document));
}

#[test]
fn committed_plot_library_has_the_recorded_digests() {
    let sums = include_str!("../assets/uplot/SHA256SUMS");
    let files: [(&str, &[u8]); 3] = [
        ("LICENSE", include_bytes!("../assets/uplot/LICENSE")),
        ("uPlot.iife.min.js", include_bytes!("../assets/uplot/uPlot.iife.min.js")),
        ("uPlot.min.css", include_bytes!("../assets/uplot/uPlot.min.css")),
    ];
    let lines = files.map(|(name, text)| {
        let digest: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{digest}  {name}\n")
    });
    assert_eq!(lines.concat(), sums);
}

#[test]
fn a_link_names_no_scheme_and_no_markup() {
    let mut table = Table::new(["run"]);
    table.row([Cell::Link { words: "<b>".into(), path: "javascript:alert(\"1\")/a b".into() }]);
    let mut document = Document::new("quaver", "links");
    document.section(Section::new("s", "S").with(table));
    let page = page(&document);
    assert!(page.contains("<a href=\"javascript%3Aalert%28%221%22%29/a%20b\">&lt;b&gt;</a>"), "{page}");
}
