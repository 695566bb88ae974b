//! The HTML report: one file that works offline and fetches nothing.
//!
//! Words and tables are rendered here and are readable without scripts; plots are drawn in the browser from
//! data blocks. The content security policy of the page forbids every request.

pub mod drawn;
pub mod embed;
mod event_name;
pub mod late;
pub mod page;
pub mod series;
pub mod table;
mod timeline;

use super::ReportInput;
use quaver_analysis::model::Layer;
use serde::Serialize;
use std::io::{self, Write};

const PAGE: &str = include_str!("../../assets/report/report.html");
const STYLE: &str = include_str!("../../assets/report/report.css");
/// What the pages are made of, beside each page's own text.
const PARTS: [(&str, &str); 5] = [
    ("compare_table.html", include_str!("../../assets/report/compare_table.html")),
    ("document.html", include_str!("../../assets/report/document.html")),
    ("causes.html", include_str!("../../assets/report/causes.html")),
    ("zoom.html", include_str!("../../assets/report/zoom.html")),
    ("tail_or_cdf.html", include_str!("../../assets/report/tail_or_cdf.html")),
];
pub const SCRIPTS: [&str; 7] = [
    include_str!("../../../view/assets/uplot/uPlot.iife.min.js"),
    include_str!("../../assets/report/format.js"),
    include_str!("../../assets/report/data.js"),
    include_str!("../../assets/report/axes.js"),
    include_str!("../../assets/report/plots.js"),
    include_str!("../../assets/report/timeline.js"),
    include_str!("../../assets/report/main.js"),
];
const PLOT_STYLE: &str = include_str!("../../../view/assets/uplot/uPlot.min.css");

const PLOT_LICENCE: &str = include_str!("../../../view/assets/uplot/LICENSE");

/// Most worst packets that get a timeline.
const TIMELINES: usize = 20;

/// Why a report was not written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The page could not be filled in; a mistake of ours.
    #[error("fill in the report page: {0}")]
    Page(#[from] minijinja::Error),
    /// Writing failed.
    #[error("write the report: {0}; free some space or choose another place")]
    Write(#[from] io::Error),
}

/// Writes the report of a run: below 15 MB whatever the length of the run.
pub fn write_html(out: &mut dyn Write, input: &ReportInput<'_>) -> Result<(), ReportError> {
    let grid = series::Grid::over(input.packets);
    let chosen = late::choose(input.packets, input.late, late::MOST_POINTS);
    let worst = late::worst(input.packets, input.late, TIMELINES);
    let page = page::Page::of(input, worst.len());

    write_head(out, PAGE, &page, &SCRIPTS)?;
    write_data(out, input, &grid, &chosen, &worst)?;
    write_end(out, &SCRIPTS)
}

/// The page up to its data, which these scripts draw.
pub fn write_head(
    out: &mut dyn Write,
    template: &str,
    page: &impl Serialize,
    scripts: &[&str],
) -> Result<(), ReportError> {
    let mut engine = minijinja::Environment::new();
    engine.add_template("page.html", template)?;
    for (name, text) in PARTS {
        engine.add_template(name, text)?;
    }
    let context = minijinja::context! {
        page => minijinja::value::Serde(page), style => STYLE, plot_style => PLOT_STYLE, scripted => !scripts.is_empty(),
    };
    out.write_all(engine.get_template("page.html")?.render(context)?.as_bytes())?;
    Ok(())
}

/// Scripts, and the end of the page.
pub fn write_end(out: &mut dyn Write, scripts: &[&str]) -> Result<(), ReportError> {
    if !scripts.is_empty() {
        // The library's licence asks that its text goes with every copy.
        writeln!(out, "<script type=\"text/plain\" id=\"uplot-licence\">{PLOT_LICENCE}</script>")?;
    }
    for script in scripts {
        writeln!(out, "<script>{script}</script>")?;
    }
    out.write_all(b"</body>\n</html>\n")?;
    out.flush()?;
    Ok(())
}

/// What the scripts need besides the blocks of numbers.
#[derive(Serialize)]
struct Data<'a> {
    period_ns: f64,
    threshold_ns: i64,
    slices: usize,
    slice_ns: f64,
    bins_per_octave: f64,
    packets: usize,
    late: usize,
    late_drawn: usize,
    layers: Vec<LayerData>,
    causes: Vec<&'a str>,
    timelines: Vec<timeline::Timeline>,
}

#[derive(Serialize)]
struct LayerData {
    name: &'static str,
    not_positive: u64,
    /// Bins of the histogram that are not empty: number and count.
    bins: Vec<(usize, u64)>,
}

/// Data blocks: `slices-N` holds least then largest ΔT of layer N; `late-*` the columns of the late packets.
fn write_data(
    out: &mut dyn Write,
    input: &ReportInput<'_>,
    grid: &series::Grid,
    chosen: &[usize],
    worst: &[usize],
) -> io::Result<()> {
    let mut layers: Vec<Layer> = input.packets.layers.iter().map(|column| column.layer).collect();
    layers.push(Layer::Application);
    let mut described = Vec::new();
    for (at, layer) in layers.iter().enumerate() {
        let thinned = series::thin(input.packets, *layer, grid);
        let mut octets = embed::octets_of(&thinned.least_ns);
        octets.extend(embed::octets_of(&thinned.largest_ns));
        embed::write_block(out, &format!("slices-{at}"), &octets)?;
        described.push(LayerData {
            name: layer.name(),
            not_positive: thinned.not_positive,
            bins: thinned.bins.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect(),
        });
    }
    let points = late::points(input.packets, input.late, chosen, grid.start_ns, &layers);
    for (id, column) in [
        ("late-time", &points.time_ns),
        ("late-lateness", &points.lateness_ns),
        ("late-cause", &points.cause),
    ] {
        embed::write_block(out, id, &embed::octets_of(column))?;
    }
    for (at, column) in points.delta_ns.iter().enumerate() {
        embed::write_block(out, &format!("late-delta-{at}"), &embed::octets_of(column))?;
    }
    let data = Data {
        period_ns: input.summary.period_ns,
        threshold_ns: input.summary.lateness.threshold_ns,
        slices: grid.slices,
        slice_ns: grid.slice_ns,
        bins_per_octave: series::BINS_PER_OCTAVE,
        packets: input.packets.len(),
        late: input.late.len(),
        late_drawn: points.cause.len(),
        layers: described,
        causes: input.summary.causes.iter().map(|cause| cause.name.as_str()).collect(),
        timelines: timeline::timelines(input, worst, grid.start_ns),
    };
    embed::write_json(out, "data", &data)
}

#[cfg(test)]
#[path = "html_tests.rs"]
mod tests;
