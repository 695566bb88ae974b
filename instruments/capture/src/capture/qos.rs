//! Figures of flows while they are captured (`--qos`).

use crate::frames;
use crate::record::{Frame, LinkKind};
use crate::view::flows::live_document;
use quaver_abi::stamp::{Layer, PacketStamps};
use quaver_capture_analysis::flows::{CaptureFigures, FlowTable, TableSettings};
use quaver_instrument::terminal;
use std::sync::{Mutex, PoisonError};

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
        let time_ns = stamps.get(self.layer).map(|stamp| stamp.time_ns);
        let (link_type, near_ns) = (link.link_type(), Some(frame.time_ns));
        frames::decode(link_type, frame.data, frame.original_length, near_ns, |facts| {
            self.table.packet(time_ns, stamps, facts);
        });
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
        quaver_instrument::tell!("{}", terminal::page(&live_document(figures), terminal::style_of_stderr()));
    }
    figures.0
}
