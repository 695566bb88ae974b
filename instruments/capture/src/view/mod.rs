//! What a person sees of a capture: what was captured and how well, which flows there are, and what became of their packets.

pub(crate) mod flows;

use crate::summary::{CaptureSummary, InterfaceSummary};
use flows::numbered;
use quaver_capture_analysis::flows::CaptureFigures;
use quaver_view::{Cell, Document, Section, Table, Text, text};

/// Flows whose whole RTP analysis a page has room for.
const RTP_SHOWN: usize = 3;

/// The document of a capture.
pub fn document(summary: &CaptureSummary) -> Document {
    let mut document = Document::new("quaver analyze", &summary.file);
    document.version = env!("CARGO_PKG_VERSION").into();
    head(&mut document, summary);
    document.sections.extend(interfaces(&summary.interfaces));
    document.sections.extend(layers(&summary.figures));
    document.sections.extend(flows::sections(&summary.figures));
    for (number, flow) in numbered(&summary.figures).take(RTP_SHOWN) {
        let Some(rtp) = &flow.rtp else { continue };
        let mut section = quaver_instrument::rtp::section(rtp);
        section.id = format!("rtp-{number}");
        section.title = format!("Flow {number}, {}: {}", flows::ends(&flow.key), section.title);
        section.link = Some(format!("Flow {number}"));
        document.section(section);
    }
    document.warnings = summary.warnings.iter().map(Text::from).collect();
    document
}

fn head(document: &mut Document, summary: &CaptureSummary) {
    let figures = &summary.figures;
    document.fact("file", format_and_writer(summary));
    if let Some((first, last)) = figures.first_ns.zip(figures.last_ns) {
        let long = Cell::Duration(last.saturating_sub(first));
        document.fact("start", text!("{}, {long} from the first packet to the last", instant(first)));
    }
    let mut packets =
        format!("{}, {} bytes on the wire", Cell::Count(figures.packets), Cell::Count(figures.octets));
    if figures.without_network.packets > 0 {
        packets.push_str(&format!(
            "; {} in which no IP header was found",
            Cell::Count(figures.without_network.packets)
        ));
    }
    document.fact("packets", packets).fact("times", times(summary));
    document.fact("comment", summary.comment.as_deref().unwrap_or_default());
    document.verdict = Some(match summary.complete {
        false => "This capture was not read to its end. The figures cover the part that was read.".into(),
        true => {
            let (packets, flows) =
                (Cell::several(figures.packets, "packet"), Cell::several(figures.flows.len() as u64, "flow"));
            text!("The capture has {packets} in {flows}.")
        }
    });
}

fn format_and_writer(summary: &CaptureSummary) -> String {
    let by = [&summary.application, &summary.os, &summary.hardware];
    let by: Vec<&str> = by.into_iter().flatten().map(String::as_str).collect();
    let mut words = summary.format.to_owned();
    words.extend(summary.compression.map(|compression| format!(", {compression}")));
    if !by.is_empty() {
        words.push_str(&format!(", by {}", by.join(" · ")));
    }
    words
}

fn times(summary: &CaptureSummary) -> Text {
    let layer = summary.layer;
    let coarsest = summary.interfaces.iter().map(|interface| interface.resolution_ns).max().unwrap_or(1);
    let resolution = Cell::Duration(i64::try_from(coarsest).unwrap_or(i64::MAX));
    match quaver_abi::stamp::Layer::ALL.iter().any(|known| known.name() == layer) {
        true => text!("stamps of layer {layer}, resolution {resolution}"),
        false => text!("{layer}, resolution {resolution}; the file does not name the stamping layer"),
    }
}

/// An instant by the wall clock; of a clock that counts from elsewhere its nanoseconds.
fn instant(ns: i64) -> String {
    let since = u64::try_from(ns).ok().map(std::time::Duration::from_nanos);
    match since.and_then(|since| std::time::UNIX_EPOCH.checked_add(since)) {
        Some(time) => humantime::format_rfc3339_nanos(time).to_string(),
        None => format!("{ns} ns"),
    }
}

/// What each interface counted, from the wire to the file: what passed the filter is in the file or was dropped.
fn interfaces(interfaces: &[InterfaceSummary]) -> Option<Section> {
    let mut table = Table::new([
        "interface",
        "received",
        "interface dropped",
        "passed filter",
        "kernel dropped",
        "in the file",
        "truncated",
    ]);
    let known = |value: Option<u64>| Cell::from(value.map(Cell::Count));
    // A file of many interfaces mostly has packets of few.
    let busy = interfaces.iter().filter(|interface| interface.in_file > 0 || interfaces.len() <= 8);
    for interface in busy.take(16) {
        table.row([
            interface.name.as_deref().unwrap_or("unnamed").into(),
            known(interface.received),
            known(interface.dropped_by_interface),
            known(interface.accepted_by_filter),
            known(interface.dropped_by_os.or(interface.dropped_before_packets)),
            Cell::Count(interface.in_file),
            Cell::Count(interface.cut),
        ]);
        if let Some(filter) = &interface.filter {
            table.note(Text::from("filter: ").code(filter));
        }
        if let Some(comment) = &interface.comment {
            table.note(comment);
        }
    }
    let section = Section::new("captured", "Captured").note("packets by place; -: not in the file");
    (!interfaces.is_empty()).then(|| section.with(table))
}

/// Bounds of the stamps by layer, and the time from one layer to the next.
fn layers(figures: &CaptureFigures) -> Vec<Section> {
    let mut sections = Vec::new();
    if figures.layers.is_empty() {
        return sections;
    }
    let mut table = Table::new(["layer", "clock", "packets", "bound p50", "bound max"]);
    for layer in &figures.layers {
        let bound = |ns: Option<i64>| ns.map_or(Cell::Unknown, Cell::Duration);
        table.row([
            layer.layer.name().into(),
            layer.clock.name().into(),
            Cell::Count(layer.packets),
            bound(layer.bound.map(|bound| bound.p50_ns)),
            bound(layer.bound.map(|bound| bound.max_ns)),
        ]);
        if layer.bound_unknown > 0 && layer.bound.is_some() {
            let without = Cell::Count(layer.bound_unknown);
            table.note(text!("{}: bounds where known; {without} stamps have none", layer.layer.name()));
        }
    }
    sections.push(
        Section::new("stamps", "Stamps")
            .note("by layer, in packet order; a stamp's error is at most its bound")
            .with(table),
    );
    if !figures.stages.is_empty() {
        let mut table = flows::spread_table("");
        for stage in &figures.stages {
            let name = format!("{} to {}", stage.from.name(), stage.to.name());
            table.row(flows::spread(name.into(), &stage.time));
        }
        sections.push(
            Section::new("layers", "Time between layers")
                .note("per packet; negative values are within the bounds")
                .with(table),
        );
    }
    sections
}
