//! Flows of a capture, be it a file or one that goes on: rates, ΔT, loss and order, delay.

use quaver_arrivals::rtp::RtpKind;
use quaver_capture_analysis::flows::{
    CaptureFigures, DelayKind, FlowFigures, FlowKey, FlowKind, SequenceCounts, SpreadFigures,
};
use quaver_view::{Block, Cell, Document, Section, Table, text};
use std::net::{IpAddr, SocketAddr};

/// Flows that a page has room for.
const FLOWS_SHOWN: usize = 12;
/// Flows shown at once of a capture that goes on.
const LIVE_SHOWN: usize = 16;

/// The flows that are shown, each with its number.
pub(super) fn numbered(figures: &CaptureFigures) -> impl Iterator<Item = (usize, &FlowFigures)> {
    figures.flows.iter().take(FLOWS_SHOWN).enumerate().map(|(at, flow)| (at + 1, flow))
}

/// The sections of a capture's flows.
pub(super) fn sections(figures: &CaptureFigures) -> Vec<Section> {
    let mut sections = vec![flows(figures)];
    sections.extend(delta_t(figures));
    sections.extend(sequence(figures));
    sections.extend(delay(figures));
    sections.extend(pairs(figures));
    sections
}

/// The document of a capture that goes on.
pub(crate) fn live_document(figures: &CaptureFigures) -> Document {
    let mut document = Document::new("quaver capture", "flows so far");
    document.section(live(figures));
    document
}

/// The flows with most packets, a row each.
pub(crate) fn live(figures: &CaptureFigures) -> Section {
    let mut table = Table::new([
        "flow",
        "packets",
        "per s",
        "lost",
        "reordered",
        "duplicates",
        "delay p50",
        "PDV p99",
        "lost, 10 s",
        "PDV, 10 s",
        "J",
        "MOS",
    ]);
    let mut flows: Vec<&FlowFigures> = figures.flows.iter().collect();
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.packets));
    for (number, flow) in (1..).zip(flows.iter().take(LIVE_SHOWN)) {
        // Both ends have no room beside the figures.
        table.note(text!("{} {}", ends(&flow.key), flow.key.kind.name()));
        table.row(live_row(number, flow));
    }
    if flows.len() > LIVE_SHOWN {
        table.note(text!("{} more flows are not shown", flows.len() - LIVE_SHOWN));
    }
    let frozen = flows.iter().take(LIVE_SHOWN).filter(|flow| flow.detail_until.is_some()).count();
    if frozen > 0 {
        table.note(text!("loss, delay and ΔT of {frozen} flows are frozen: newer flows took their memory"));
    }
    let departed = figures.departed;
    if departed.flows > 0 {
        let (flows, packets) = (Cell::Count(departed.flows), Cell::Count(departed.packets));
        table.note(text!("{flows} older flows evicted, with {packets} packets"));
    }
    if flows.iter().any(|flow| flow.recent.is_some()) {
        table.note(text!(
            "10 s: share lost, and PDV p99 of the worst second; J: interarrival jitter (RFC 3550), now; MOS: at most, behind a buffer of that PDV"
        ));
    }
    Section::new("flows", "Flows").note("by number of packets").with(table)
}

fn live_row(number: u64, flow: &FlowFigures) -> [Cell; 12] {
    let sequence = |of: fn(&SequenceCounts) -> u64| {
        Cell::from(flow.sequence.as_ref().map(|counts| Cell::Count(of(counts))))
    };
    let delay = flow.delay.as_ref();
    let recent = flow.recent.as_ref();
    // Of other clocks only the variation is known.
    let one_way = delay.filter(|delay| delay.kind == DelayKind::OneWay);
    let duration = |ns: Option<i64>| Cell::from(ns.map(Cell::Duration));
    let pdv_ns = delay.and_then(|delay| delay.figures.p99_pdv_ns).and_then(|ns| i64::try_from(ns).ok());
    [
        Cell::Index(number),
        Cell::Count(flow.packets),
        flow.packets_per_s.map(|rate| Cell::Rate(rate, "")).into(),
        sequence(|counts| counts.lost),
        sequence(|counts| counts.reordered),
        sequence(|counts| counts.duplicate),
        duration(one_way.and_then(|delay| delay.figures.p50_delay_ns)),
        duration(pdv_ns),
        recent.map(|recent| Cell::Share(recent.loss_share)).into(),
        duration(recent.and_then(|recent| i64::try_from(recent.worst_pdv_p99_ns?).ok())),
        recent.map(|recent| Cell::FineDuration(recent.interarrival_ns)).into(),
        recent.and_then(|recent| recent.mos).map(|mos| Cell::from(format!("{mos:.2}"))).into(),
    ]
}

fn flows(figures: &CaptureFigures) -> Section {
    let mut table = Table::new(["", "from", "to", "carries", "packets", "packets/s", "rate"])
        .empty("No packet has an IP header that was captured whole.");
    for (number, flow) in numbered(figures) {
        table.row([
            Cell::Index(number as u64),
            end(flow.key.source, flow.key.source_port).into(),
            end(flow.key.destination, flow.key.destination_port).into(),
            carries(flow).into(),
            Cell::Count(flow.packets),
            flow.packets_per_s.map(|rate| Cell::Rate(rate, "")).into(),
            flow.bits_per_s.map(Cell::BitRate).into(),
        ]);
    }
    let more = figures.flows.len().saturating_sub(FLOWS_SHOWN);
    if more > 0 {
        let rest: u64 = figures.flows.iter().skip(FLOWS_SHOWN).map(|flow| flow.packets).sum();
        let (more, rest) = (Cell::Count(more as u64), Cell::Count(rest));
        table.note(text!("and {more} more with {rest} packets (all in --json)"));
    }
    Section::new("flows", "Flows").note("by number of packets").with(table)
}

/// Both ends of a flow.
pub(crate) fn ends(key: &FlowKey) -> String {
    format!("{} to {}", end(key.source, key.source_port), end(key.destination, key.destination_port))
}

fn end(address: IpAddr, port: Option<u16>) -> String {
    port.map_or_else(|| address.to_string(), |port| SocketAddr::new(address, port).to_string())
}

fn carries(flow: &FlowFigures) -> String {
    let mut words = stream(flow);
    words.extend(flow.key.tunnel.map(|tunnel| format!(", in {tunnel}")));
    if flow.key.clock_step > 0 {
        words.push_str(&format!(", after clock step {}", flow.key.clock_step));
    }
    words
}

fn stream(flow: &FlowFigures) -> String {
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
            let restart = match flow.key.restart {
                0 => String::new(),
                number => format!(", restart {number}"),
            };
            format!("{} {ssrc:#010x}{restart}", kind.name())
        }
        (FlowKind::Stamp | FlowKind::StampReply, Some(session)) => {
            format!("{} {session}", flow.key.kind.name())
        }
        (kind, _) => kind.name().to_owned(),
    }
}

/// A table of distributions with a column before them.
pub(super) fn spread_table(first: &str) -> Table {
    Table::new([first, "min", "mean", "p50", "p99", "p99.9", "max", "sd"])
}

/// A row of [`spread_table`].
pub(super) fn spread(first: Cell, values: &SpreadFigures) -> [Cell; 8] {
    [
        first,
        Cell::Duration(values.min_ns),
        Cell::FineDuration(values.mean_ns),
        Cell::Duration(values.p50_ns),
        Cell::percentile(values.p99_ns, values.count, 100),
        Cell::percentile(values.p99_9_ns, values.count, 1_000),
        Cell::Duration(values.max_ns),
        Cell::FineDuration(values.sd_ns),
    ]
}

fn delta_t(figures: &CaptureFigures) -> Option<Section> {
    let mut table = spread_table("flow");
    for (number, flow) in numbered(figures) {
        if let Some(values) = &flow.delta_t {
            table.row(spread(Cell::Index(number as u64), values));
        }
    }
    let note = "between two packets of a flow; for numbered packets, between successive numbers";
    section_of(Section::new("delta-t", "ΔT").note(note), table)
}

/// The section, where its table has rows.
fn section_of(section: Section, table: Table) -> Option<Section> {
    (!table.rows.is_empty()).then(|| section.with(table))
}

fn sequence(figures: &CaptureFigures) -> Option<Section> {
    let mut table = Table::new([
        "flow",
        "expected",
        "lost",
        "share",
        "loss periods",
        "longest",
        "duplicates",
        "reordered",
    ]);
    for (number, flow) in numbered(figures) {
        let Some(counts) = &flow.sequence else { continue };
        table.row([
            Cell::Index(number as u64),
            Cell::Count(counts.expected),
            Cell::Count(counts.lost),
            Cell::Share(counts.loss_share),
            Cell::Count(counts.loss_periods),
            Cell::Count(counts.longest_loss_period),
            Cell::Count(counts.duplicate),
            Cell::Count(counts.reordered),
        ]);
    }
    let note = "by the sender's sequence numbers, smallest to largest received";
    section_of(Section::new("loss", "Loss and order").note(note), table)
}

fn delay(figures: &CaptureFigures) -> Option<Section> {
    let mut table = Table::new([
        "flow",
        "sender's time",
        "min delay",
        "PDV p50",
        "p99",
        "p99.9",
        "max",
        "interarrival jitter",
        "drift",
    ]);
    let (mut one_way, mut drifts) = (false, false);
    for (number, flow) in numbered(figures) {
        let Some(delay) = &flow.delay else { continue };
        one_way |= delay.kind == DelayKind::OneWay;
        drifts |= delay.skew_ppm.is_some();
        let values = &delay.figures;
        let pdv = |ns: Option<u64>, one_in: u64| {
            let ns = ns.map(|ns| i64::try_from(ns).unwrap_or(i64::MAX));
            Cell::from(ns.map(|ns| Cell::percentile(ns, values.counts.unique, one_in)))
        };
        table.row([
            Cell::Index(number as u64),
            kind(delay.kind).into(),
            values.min_delay_ns.filter(|_| delay.kind == DelayKind::OneWay).map(Cell::Duration).into(),
            pdv(values.p50_pdv_ns, 2),
            pdv(values.p99_pdv_ns, 100),
            pdv(values.p99_9_pdv_ns, 1_000),
            pdv(values.max_pdv_ns, 1),
            Cell::FineDuration(delay.interarrival_ns),
            delay.skew_ppm.map(|ppm| Cell::from(format!("{ppm:.2} ppm"))).into(),
        ]);
    }
    let note = "where packets carry their sending time; PDV is above the minimum delay";
    let mut section = section_of(Section::new("delay", "Delay").note(note), table)?;
    if one_way {
        section.push(Block::Note("Delay includes the offset of the two wall clocks; PDV does not.".into()));
    }
    if drifts {
        section.push(Block::Note(
            "Drift: how much faster the capturing clock ran than the sender's. It was taken out of the figures beside it.".into(),
        ));
    }
    section.push(Block::Note("Interarrival jitter: RFC 3550, 6.4.1, by the sender's time.".into()));
    Some(section)
}

/// Streams that came by two paths.
fn pairs(figures: &CaptureFigures) -> Option<Section> {
    let mut table = Table::new([
        "flows",
        "expected",
        "by both",
        "by the first",
        "by the second",
        "lost",
        "share",
        "difference min",
        "p50",
        "max",
    ]);
    let place = |key: &FlowKey| figures.flows.iter().position(|flow| flow.key == *key).map_or(0, |at| at + 1);
    for pair in &figures.pairs {
        let difference = |of: fn(&SpreadFigures) -> i64| {
            Cell::from(pair.difference.as_ref().map(|spread| Cell::Duration(of(spread))))
        };
        table.row([
            format!("{} and {}", place(&pair.first), place(&pair.second)).into(),
            Cell::Count(pair.expected),
            Cell::Count(pair.both),
            Cell::Count(pair.only_first),
            Cell::Count(pair.only_second),
            Cell::Count(pair.lost),
            Cell::Share(pair.loss_share),
            difference(|spread| spread.min_ns),
            difference(|spread| spread.p50_ns),
            difference(|spread| spread.max_ns),
        ]);
    }
    let note = "the same packets of RTP by two paths (ST 2022-7); lost: neither brought them";
    let mut section = section_of(Section::new("pairs", "Redundant streams").note(note), table)?;
    section.push(Block::Note("Difference: arrival by the second path less that by the first.".into()));
    Some(section)
}

fn kind(kind: DelayKind) -> &'static str {
    match kind {
        DelayKind::OneWay => "wall clock",
        DelayKind::Offset => "own clock",
        DelayKind::Media => "RTP timestamp",
    }
}
