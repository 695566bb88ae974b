//! Figures of flows while they are captured (`--qos`).

use crate::frames;
use crate::record::{Frame, LinkKind};
use quaver_abi::stamp::{Layer, PacketStamps};
use quaver_capture_analysis::flows::{CaptureFigures, DelayKind, FlowFigures, FlowTable, TableSettings};
use quaver_page::table::{Align, Style, Table};
use quaver_page::units;
use std::sync::{Mutex, PoisonError};

/// Flows shown at once.
const SHOWN: usize = 16;

/// The flows of a capture.
pub(super) struct Flows {
    table: FlowTable,
    layer: Layer,
}

impl Flows {
    /// Whether the layer's stamps are `wall_clock` time: an interface's own clock may count from wherever it was set.
    pub(super) fn new(layer: Layer, wall_clock: bool) -> Self {
        Self {
            table: FlowTable::new(TableSettings { wall_clock, ..TableSettings::live(layer.name()) }),
            layer,
        }
    }

    pub(super) fn packet(&mut self, link: LinkKind, frame: &Frame<'_>, stamps: &PacketStamps) {
        let facts = frames::decode(link.link_type(), frame.data, frame.original_length, Some(frame.time_ns));
        let time_ns = stamps.get(self.layer).map(|stamp| stamp.time_ns);
        self.table.packet(time_ns, stamps, &facts);
    }

    pub(super) fn figures(&mut self) -> CaptureFigures {
        self.table.figures()
    }

    pub(super) fn finish(self) -> CaptureFigures {
        self.table.finish()
    }
}

/// Prints the figures on standard error if there are newer ones than `last`; their number, which `figures` has beside them.
pub(super) fn show(figures: &Mutex<(u64, Option<CaptureFigures>)>, last: u64) -> u64 {
    let figures = figures.lock().unwrap_or_else(PoisonError::into_inner);
    if let (true, Some(figures)) = (figures.0 > last, &figures.1)
        && !figures.flows.is_empty()
    {
        eprintln!("{}", page(figures, Style::PLAIN));
    }
    figures.0
}

/// A table of the flows with most packets.
pub(super) fn page(figures: &CaptureFigures, style: Style) -> String {
    let mut columns = vec![("flow", Align::Left)];
    let numbers =
        ["packets", "a second", "lost", "reordered", "copies", "delay p50", "PDV p99", "IPDV p99", "dT sd"];
    columns.extend(numbers.map(|name| (name, Align::Right)));
    let mut table = Table::new(&columns);
    let mut flows: Vec<&FlowFigures> = figures.flows.iter().collect();
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.packets));
    for flow in flows.iter().take(SHOWN) {
        table.row(row(flow));
    }
    if flows.len() > SHOWN {
        table.note(format!("{} more flows are not shown", flows.len() - SHOWN));
    }
    let ended = flows.iter().take(SHOWN).filter(|flow| flow.detail_until.is_some()).count();
    if ended > 0 {
        table.note(format!(
            "loss, delay and dT of {ended} of these stand as they were when newer flows got the room"
        ));
    }
    let departed = figures.departed;
    if departed.flows > 0 {
        let packets = units::count(departed.packets);
        table.note(format!("{} older flows made way, with {packets} packets", units::count(departed.flows)));
    }
    table.render(style)
}

fn row(flow: &FlowFigures) -> Vec<String> {
    let none = || "-".to_owned();
    let sequence = |count: fn(&quaver_capture_analysis::flows::SequenceCounts) -> u64| {
        flow.sequence.as_ref().map_or_else(none, |counts| units::count(count(counts)))
    };
    let delay = flow.delay.as_ref();
    // Of other clocks only the variation is known.
    let one_way = delay.filter(|delay| delay.kind == DelayKind::OneWay);
    let duration = |value: Option<i64>| value.map_or_else(none, units::duration);
    vec![
        name(flow),
        units::count(flow.packets),
        flow.packets_per_s.map_or_else(none, |rate| units::count(rate.round() as u64)),
        sequence(|counts| counts.lost),
        sequence(|counts| counts.reordered),
        sequence(|counts| counts.duplicate),
        duration(one_way.and_then(|delay| delay.figures.p50_delay_ns)),
        duration(delay.and_then(|delay| delay.figures.p99_pdv_ns).and_then(|ns| i64::try_from(ns).ok())),
        duration(delay.and_then(|delay| delay.figures.p99_ipdv_ns)),
        flow.delta_t.as_ref().map_or_else(none, |spread| units::duration_f64(spread.sd_ns)),
    ]
}

fn name(flow: &FlowFigures) -> String {
    let key = &flow.key;
    let end = |address: std::net::IpAddr, port: Option<u16>| match port {
        Some(port) => std::net::SocketAddr::from((address, port)).to_string(),
        None => address.to_string(),
    };
    let kind = key.kind.name();
    let gap = if kind.is_empty() { "" } else { " " };
    format!(
        "{} > {}{gap}{kind}",
        end(key.source, key.source_port),
        end(key.destination, key.destination_port)
    )
}
