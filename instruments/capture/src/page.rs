//! The page of a capture: what was captured and how well, which flows there are, and what became of their packets.

use crate::summary::{CaptureSummary, InterfaceSummary};
use quaver_analysis::rtp::RtpKind;
use quaver_capture_analysis::flows::{
    CaptureFigures, DelayKind, FlowFigures, FlowKey, FlowKind, SequenceCounts, SpreadFigures,
};
use quaver_page::console::{WIDTH, heading, warnings};
use quaver_page::table::{Align, Style, Table, printable, wrap};
use quaver_page::units::{count, duration, duration_f64, percent, supports};

/// Flows that a page has room for.
const FLOWS_SHOWN: usize = 12;
/// Flows whose whole RTP analysis a page has room for.
const RTP_SHOWN: usize = 3;

/// The page of a capture.
pub fn page(summary: &CaptureSummary, style: Style) -> String {
    let mut out = String::new();
    head(&mut out, summary, style);
    interfaces(&mut out, &summary.interfaces, style);
    figures(&mut out, &summary.figures, style);
    for (number, flow) in numbered(&summary.figures) {
        let Some(rtp) = flow.rtp.as_ref().filter(|_| number <= RTP_SHOWN) else { continue };
        let title = format!("Flow {number}, {}", ends(&flow.key));
        heading(&mut out, style, &title, "");
        quaver_page::rtp::section(&mut out, rtp, style);
    }
    warnings(&mut out, &summary.warnings, style);
    out
}

/// The sections that a capture which goes on has as well: layers, flows, ΔT, loss, delay.
pub fn figures(out: &mut String, figures: &CaptureFigures, style: Style) {
    layers(out, figures, style);
    flows(out, figures, style);
    delta_t(out, figures, style);
    sequence(out, figures, style);
    delay(out, figures, style);
}

/// The flows that are shown, each with its number.
fn numbered(figures: &CaptureFigures) -> impl Iterator<Item = (usize, &FlowFigures)> {
    figures.flows.iter().take(FLOWS_SHOWN).enumerate().map(|(at, flow)| (at + 1, flow))
}

fn head(out: &mut String, summary: &CaptureSummary, style: Style) {
    out.push_str(&format!("{} · {}\n", style.bold("quaver analyze"), printable(&summary.file)));
    let figures = &summary.figures;
    let mut lines = vec![("file", by_whom(summary))];
    if let Some((first, last)) = figures.first_ns.zip(figures.last_ns) {
        let long = duration(last.saturating_sub(first));
        lines.push(("began", format!("{}, {long} from the first packet to the last", instant(first))));
    }
    let mut packets = format!("{}, {} octets on the wire", count(figures.packets), count(figures.octets));
    if figures.without_network.packets > 0 {
        packets.push_str(&format!("; {} without IP", count(figures.without_network.packets)));
    }
    lines.push(("packets", packets));
    let resolution = summary.interfaces.iter().map(|interface| interface.resolution_ns).max().unwrap_or(1);
    lines.push(("times", times(summary.layer, resolution)));
    if let Some(comment) = &summary.comment {
        lines.push(("comment", comment.clone()));
    }
    for (name, text) in lines {
        for (at, line) in wrap(&printable(&text), WIDTH - 12).iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            out.push_str(&format!("  {}  {line}\n", style.dim(&format!("{name:<8}"))));
        }
    }
    if !summary.complete {
        let text = "This capture was not read to its end; what follows covers what came before.";
        out.push_str(&format!("  {}\n", style.alarm(text)));
    }
}

fn by_whom(summary: &CaptureSummary) -> String {
    let made = [&summary.application, &summary.os, &summary.hardware];
    let made: Vec<&str> = made.into_iter().flatten().map(String::as_str).collect();
    if made.is_empty() {
        summary.format.to_owned()
    } else {
        format!("{}, by {}", summary.format, made.join(" · "))
    }
}

fn times(layer: &str, resolution_ns: u64) -> String {
    let step = duration(i64::try_from(resolution_ns).unwrap_or(i64::MAX));
    match quaver_abi::stamp::Layer::ALL.iter().any(|known| known.name() == layer) {
        true => format!("stamps of layer {layer}, in steps of {step}"),
        false => format!("{layer}, in steps of {step}; the file does not tell which layer took it"),
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
fn interfaces(out: &mut String, interfaces: &[InterfaceSummary], style: Style) {
    if interfaces.is_empty() {
        return;
    }
    heading(out, style, "Captured", "packets by place; - is not told by the file");
    let mut table = Table::new(&[
        ("interface", Align::Left),
        ("received", Align::Right),
        ("it dropped", Align::Right),
        ("past the filter", Align::Right),
        ("system dropped", Align::Right),
        ("in the file", Align::Right),
        ("cut short", Align::Right),
    ]);
    let known = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), count);
    // A file of many interfaces mostly has packets of few.
    let busy = interfaces.iter().filter(|interface| interface.in_file > 0 || interfaces.len() <= 8);
    for interface in busy.take(16) {
        table.row([
            interface.name.clone().unwrap_or_else(|| "not named".to_owned()),
            known(interface.received),
            known(interface.dropped_by_interface),
            known(interface.accepted_by_filter),
            known(interface.dropped_by_os.or(interface.dropped_before_packets)),
            count(interface.in_file),
            count(interface.cut),
        ]);
        if let Some(filter) = &interface.filter {
            table.note(style.dim(&format!("    filter: {}", printable(filter))));
        }
        if let Some(comment) = &interface.comment {
            table.note(style.dim(&format!("    {}", printable(comment))));
        }
    }
    out.push_str(&table.render(style));
}

fn layers(out: &mut String, figures: &CaptureFigures, style: Style) {
    if figures.layers.is_empty() {
        return;
    }
    heading(out, style, "Stamps", "by layer, in a packet's order; a stamp is off by its bound at most");
    let mut table = Table::new(&[
        ("layer", Align::Left),
        ("clock", Align::Left),
        ("packets", Align::Right),
        ("bound p50", Align::Right),
        ("bound max", Align::Right),
    ]);
    for layer in &figures.layers {
        let bound = |of: fn(&SpreadFigures) -> i64| match &layer.bound {
            Some(bound) if layer.bound_unknown == 0 => duration(of(bound)),
            Some(bound) => format!("{} where known", duration(of(bound))),
            None => "not known".to_owned(),
        };
        table.row([
            layer.layer.name().to_owned(),
            layer.clock.name().to_owned(),
            count(layer.packets),
            bound(|bound| bound.p50_ns),
            bound(|bound| bound.max_ns),
        ]);
    }
    out.push_str(&table.render(style));
    if figures.stages.is_empty() {
        return;
    }
    heading(out, style, "From layer to layer", "how long packets took; below zero is within the bounds");
    let mut table = spread_table("", "");
    for stage in &figures.stages {
        let name = format!("{} to {}", stage.from.name(), stage.to.name());
        spread(&mut table, name, String::new(), &stage.time);
    }
    out.push_str(&table.render(style));
}

fn flows(out: &mut String, figures: &CaptureFigures, style: Style) {
    heading(out, style, "Flows", "by number of packets");
    let mut table = Table::new(&[
        ("", Align::Right),
        ("from", Align::Left),
        ("to", Align::Left),
        ("carries", Align::Left),
        ("packets", Align::Right),
        ("packets/s", Align::Right),
        ("rate", Align::Right),
    ]);
    for (number, flow) in numbered(figures) {
        table.row([
            number.to_string(),
            end(&flow.key.source, flow.key.source_port),
            end(&flow.key.destination, flow.key.destination_port),
            carries(flow),
            count(flow.packets),
            flow.packets_per_s.map_or_else(|| "-".to_owned(), per_second),
            flow.bits_per_s.map_or_else(|| "-".to_owned(), bits),
        ]);
    }
    out.push_str(&table.render(style));
    let more = figures.flows.len().saturating_sub(FLOWS_SHOWN);
    if more > 0 {
        let rest: u64 = figures.flows.iter().skip(FLOWS_SHOWN).map(|flow| flow.packets).sum();
        let text = format!("  and {} more with {} packets: --json has all", count(more as u64), count(rest));
        out.push_str(&format!("{}\n", style.dim(&text)));
    }
    if figures.flows.is_empty() {
        out.push_str("  No packet carries IP.\n");
    }
}

fn ends(key: &FlowKey) -> String {
    format!("{} to {}", end(&key.source, key.source_port), end(&key.destination, key.destination_port))
}

fn end(address: &std::net::IpAddr, port: Option<u16>) -> String {
    match port {
        Some(port) => std::net::SocketAddr::new(*address, port).to_string(),
        None => address.to_string(),
    }
}

fn carries(flow: &FlowFigures) -> String {
    let protocol = match flow.key.protocol {
        1 => "ICMP".to_owned(),
        2 => "IGMP".to_owned(),
        6 => "TCP".to_owned(),
        17 => "UDP".to_owned(),
        58 => "ICMPv6".to_owned(),
        other => format!("IP protocol {other}"),
    };
    match (flow.key.kind, flow.key.id) {
        (FlowKind::Other, _) if flow.fragments > 0 => format!("{protocol}, fragments"),
        (FlowKind::Other, _) => protocol,
        (FlowKind::Rtp, Some(ssrc)) => {
            let kind = flow.rtp.as_ref().map(|rtp| rtp.kind).or(flow.carries).unwrap_or(RtpKind::Other);
            format!("{} {ssrc:#010x}", kind.name())
        }
        (FlowKind::Stamp | FlowKind::StampReply, Some(session)) => {
            format!("{} {session}", flow.key.kind.name())
        }
        (kind, _) => kind.name().to_owned(),
    }
}

/// Packets a second, with a fraction where they are few.
fn per_second(packets: f64) -> String {
    if packets < 10.0 { format!("{packets:.2}") } else { count(packets.round() as u64) }
}

fn bits(per_second: f64) -> String {
    let steps = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];
    let (size, unit) = steps.into_iter().find(|(size, _)| per_second >= *size).unwrap_or((1.0, "bit/s"));
    format!("{:.3} {unit}", per_second / size)
}

/// A table of distributions, with two columns of words before them.
fn spread_table(first: &str, second: &str) -> Table {
    let mut columns = vec![(first, Align::Left), (second, Align::Left)];
    columns.extend(["min", "mean", "p50", "p99", "p99.9", "max", "sd"].map(|name| (name, Align::Right)));
    Table::new(&columns)
}

fn spread(table: &mut Table, first: String, second: String, values: &SpreadFigures) {
    let beyond = |ns: i64, one_in: u64| match supports(values.count, one_in) {
        true => duration(ns),
        false => "-".to_owned(),
    };
    table.row([
        first,
        second,
        duration(values.min_ns),
        duration_f64(values.mean_ns),
        duration(values.p50_ns),
        beyond(values.p99_ns, 100),
        beyond(values.p99_9_ns, 1_000),
        duration(values.max_ns),
        duration_f64(values.sd_ns),
    ]);
}

fn delta_t(out: &mut String, figures: &CaptureFigures, style: Style) {
    let rows: Vec<_> = numbered(figures).filter_map(|(number, flow)| Some((number, flow.delta_t?))).collect();
    if rows.is_empty() {
        return;
    }
    let note = "between two packets of a flow; where packets are numbered, with successive numbers";
    heading(out, style, "Delta T", note);
    let mut table = spread_table("flow", "");
    rows.iter().for_each(|(number, values)| spread(&mut table, number.to_string(), String::new(), values));
    out.push_str(&table.render(style));
}

fn sequence(out: &mut String, figures: &CaptureFigures, style: Style) {
    let rows: Vec<_> =
        numbered(figures).filter_map(|(number, flow)| Some((number, flow.sequence?))).collect();
    if rows.is_empty() {
        return;
    }
    heading(out, style, "Loss and order", "by the senders' numbers, from the smallest to the largest seen");
    let mut table = Table::new(&[
        ("flow", Align::Left),
        ("expected", Align::Right),
        ("lost", Align::Right),
        ("in periods", Align::Right),
        ("longest", Align::Right),
        ("copies", Align::Right),
        ("reordered", Align::Right),
    ]);
    for (number, counts) in &rows {
        table.row([
            number.to_string(),
            count(counts.expected),
            lost(counts),
            count(counts.loss_periods),
            count(counts.longest_loss_period),
            count(counts.duplicate),
            count(counts.reordered),
        ]);
    }
    out.push_str(&table.render(style));
}

fn lost(counts: &SequenceCounts) -> String {
    match counts.lost {
        0 => "0".to_owned(),
        lost => format!("{} ({})", count(lost), percent(counts.loss_share)),
    }
}

fn delay(out: &mut String, figures: &CaptureFigures, style: Style) {
    let rows: Vec<_> =
        numbered(figures).filter_map(|(number, flow)| Some((number, flow.delay.as_ref()?))).collect();
    if rows.is_empty() {
        return;
    }
    heading(out, style, "Delay", "where packets tell when they were sent; PDV is over the least delay");
    let mut table = Table::new(&[
        ("flow", Align::Left),
        ("sender's time", Align::Left),
        ("least delay", Align::Right),
        ("PDV p50", Align::Right),
        ("p99", Align::Right),
        ("p99.9", Align::Right),
        ("max", Align::Right),
        ("interarrival", Align::Right),
    ]);
    for (number, delay) in &rows {
        let values = &delay.figures;
        let pdv = |ns: Option<u64>, one_in: u64| match ns {
            Some(ns) if supports(values.counts.unique, one_in) => {
                duration(i64::try_from(ns).unwrap_or(i64::MAX))
            }
            _ => "-".to_owned(),
        };
        let least = match delay.kind {
            DelayKind::OneWay => values.min_delay_ns.map_or_else(|| "-".to_owned(), duration),
            DelayKind::Offset | DelayKind::Media => "-".to_owned(),
        };
        table.row([
            number.to_string(),
            kind(delay.kind).to_owned(),
            least,
            pdv(values.p50_pdv_ns, 2),
            pdv(values.p99_pdv_ns, 100),
            pdv(values.p99_9_pdv_ns, 1_000),
            pdv(values.max_pdv_ns, 1),
            duration_f64(delay.interarrival_ns),
        ]);
    }
    out.push_str(&table.render(style));
    if rows.iter().any(|(_, delay)| delay.kind == DelayKind::OneWay) {
        let note = "  a delay is as both wall clocks say: their offset is in it, not in PDV";
        out.push_str(&format!("{}\n", style.dim(note)));
    }
    out.push_str(&format!(
        "{}\n",
        style.dim("  interarrival: the jitter of RFC 3550, 6.4.1, by the sender's time")
    ));
}

fn kind(kind: DelayKind) -> &'static str {
    match kind {
        DelayKind::OneWay => "wall clock",
        DelayKind::Offset => "its own clock",
        DelayKind::Media => "RTP timestamp",
    }
}
