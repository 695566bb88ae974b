//! The writing thread: block by block, packet by packet, into the file and the figures.

use super::accounts::FileAccount;
use super::fates::Fates;
use super::files::Output;
use super::qos::Flows;
use crate::pipeline::Resolver;
use crate::record::{Blocks, Frame, Layers, LinkKind, PacketKind, StampedBlock, Tap, ring_layer};
use quaver_abi::stamp::{Layer, LayerStamp, PacketStamps, StampClock};
use quaver_capture_analysis::flows::CaptureFigures;
use quaver_clock::live::LiveReader;
use quaver_pcapng::{PacketDirection, PacketRecord, Reception, WriteError};
use quaver_probe::thread::{Setting, ThreadSettings};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for a block.
const WAIT: Duration = Duration::from_millis(100);
/// Between two figures of the flows.
const EACH: Duration = Duration::from_secs(1);

/// What the owner sees of the writing thread while it runs.
#[derive(Debug)]
pub(super) struct Live {
    /// When the capture began.
    pub(super) started: Instant,
    /// Packets written, or taken into the figures where nothing is written.
    pub(super) captured: AtomicU64,
    /// The writing thread wants no more.
    pub(super) ended: AtomicBool,
    /// How often `figures` was set, and what it is.
    pub(super) figures: Mutex<(u64, Option<CaptureFigures>)>,
}

impl Live {
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            captured: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            figures: Mutex::default(),
        }
    }
}

/// When the writer ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// After so many packets.
    pub(super) packets: Option<u64>,
    /// After so many bytes of output.
    pub(super) octets: Option<u64>,
}

/// What the writing thread leaves.
pub(super) struct Written {
    pub(super) fates: Vec<Fates>,
    pub(super) output: Option<Output>,
    /// What files before the last have told.
    pub(super) told: FileAccount,
    pub(super) failed: Option<WriteError>,
    pub(super) figures: Option<CaptureFigures>,
    /// Packets for which the programs below had no room.
    pub(super) stamps_lost: u64,
    /// Packets that ought to bear the stamp of TC, and do not.
    pub(super) stamps_unmatched: u64,
    /// A limit was reached.
    pub(super) limited: bool,
    /// What the thread was refused.
    pub(super) notes: Vec<String>,
}

/// The writing thread's belongings.
pub(super) struct Writer {
    pub(super) blocks: Blocks,
    pub(super) layers: Layers,
    pub(super) resolver: Resolver<LiveReader>,
    pub(super) links: Vec<LinkKind>,
    pub(super) layer: Layer,
    pub(super) only_outgoing: bool,
    pub(super) output: Option<Output>,
    pub(super) limits: Limits,
    pub(super) cpu: Option<u16>,
    pub(super) flows: Option<Flows>,
    pub(super) live: Arc<Live>,
}

impl Writer {
    /// Writes until the capture thread has ended and all is written.
    pub(super) fn run(mut self) -> Written {
        let settings =
            ThreadSettings { cpu: self.cpu, required: vec![Setting::Cpu], ..ThreadSettings::default() };
        let mut notes = Vec::new();
        if let Err(refused) = settings.prepare() {
            notes.push(format!("writing thread: {refused}"));
        }
        let mut to = Desk {
            fates: vec![Fates::default(); self.links.len()],
            output: self.output.take(),
            told: FileAccount::new(self.links.len()),
            flows: self.flows.take(),
            failed: None,
            limited: false,
            captured: 0,
        };
        let mut told = Instant::now();
        while !self.blocks.is_finished() {
            let taken = self.blocks.next(WAIT);
            let idle = taken.is_none();
            if let Some(taken) = taken {
                self.block(taken, &mut to);
            }
            if idle {
                // Programs write a record of every packet of the interface, those too that a filter keeps out: were they left
                // there until a packet passes, that one's would have no room.
                self.layers.refresh(true);
            }
            if idle || self.blocks.is_empty() {
                to.flush();
            }
            if to.limited || to.failed.is_some() {
                self.live.ended.store(true, Ordering::Release);
            }
            if told.elapsed() >= EACH {
                told = Instant::now();
                self.tell(&mut to);
            }
        }
        Written {
            fates: to.fates,
            output: to.output,
            told: to.told,
            failed: to.failed,
            figures: to.flows.map(Flows::finish),
            stamps_lost: self.layers.lost(),
            stamps_unmatched: self.layers.unmatched(),
            limited: to.limited,
            notes,
        }
    }

    fn block(&mut self, taken: StampedBlock, to: &mut Desk) {
        let StampedBlock { tap, stamp, early, mut block } = taken;
        let application = self.resolver.resolve(stamp);
        self.layers.refresh(false);
        let (layers, link) = (&mut self.layers, self.links[tap]);
        let taps = self.blocks.taps();
        let filter = taps[tap].filter().filter(|filter| filter.runs_here());
        let (only_outgoing, layer, limits) = (self.only_outgoing, self.layer, self.limits);
        block.each(|frame| {
            let fates = &mut to.fates[tap];
            if to.limited {
                fates.after_limit += 1;
            } else if only_outgoing && frame.kind != PacketKind::Outgoing {
                fates.direction += 1;
            } else if filter.is_some_and(|filter| !filter.passes(frame.data, frame.original_length)) {
                fates.filtered += 1;
            } else if to.failed.is_some() {
                fates.unwritten += 1;
            } else {
                let mut stamps = layers.stamps(frame, link, &early);
                stamps.set(Layer::Application, application);
                if to.output.as_ref().is_some_and(Output::is_full) {
                    to.rotate(taps);
                }
                to.packet(tap, link, frame, &stamps, layer);
                to.look_at_limits(limits);
            }
            true
        });
        self.live.captured.store(to.captured, Ordering::Relaxed);
        if to.failed.is_none() && to.output.as_ref().is_some_and(Output::is_old) {
            to.rotate(taps);
        }
    }

    fn tell(&self, to: &mut Desk) {
        if let Some(flows) = &mut to.flows {
            let mut figures = self.live.figures.lock().unwrap_or_else(PoisonError::into_inner);
            *figures = (figures.0 + 1, Some(flows.figures()));
        }
    }
}

/// Where packets go, and what became of them.
struct Desk {
    fates: Vec<Fates>,
    output: Option<Output>,
    told: FileAccount,
    flows: Option<Flows>,
    failed: Option<WriteError>,
    limited: bool,
    captured: u64,
}

impl Desk {
    fn packet(
        &mut self,
        tap: usize,
        link: LinkKind,
        frame: &Frame<'_>,
        stamps: &PacketStamps,
        wanted: Layer,
    ) {
        if self.failed.is_some() {
            self.fates[tap].unwritten += 1;
            return;
        }
        let shown = if stamps.get(wanted).is_some() { wanted } else { ring_layer(frame) };
        if let Some(output) = &mut self.output {
            let (direction, reception) = way(frame.kind);
            let record = PacketRecord {
                direction,
                reception,
                ..PacketRecord::new(shown, stamps, frame.data, frame.original_length)
            };
            if let Err(error) = output.packet(tap as u32, &record) {
                self.failed = Some(error);
                self.fates[tap].unwritten += 1;
                return;
            }
        }
        if let Some(flows) = &mut self.flows {
            flows.packet(link, frame, stamps);
        }
        self.captured += 1;
        let fates = &mut self.fates[tap];
        fates.captured += 1;
        fates.octets += u64::from(frame.original_length);
        fates.other_layer += u64::from(shown != wanted);
        let mut before: Option<LayerStamp> = None;
        let mut disordered = false;
        for (layer, stamp) in stamps.iter() {
            fates.stamped[layer as usize - 1] += 1;
            // What an interface's own clock counts does not compare.
            if stamp.clock != StampClock::Phc {
                disordered |= before.is_some_and(|before| is_before(stamp, before));
                before = Some(stamp);
            }
        }
        fates.disordered += u64::from(disordered);
    }

    fn look_at_limits(&mut self, limits: Limits) {
        let octets = self.output.as_ref().map_or(0, Output::octets);
        self.limited = limits.packets.is_some_and(|most| self.captured >= most)
            || limits.octets.is_some_and(|most| octets >= most);
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.output.as_mut().and_then(|output| output.flush().err());
        }
    }

    /// Begins another file; this one tells its own stretch.
    fn rotate(&mut self, taps: &[Tap]) {
        let counted = self.told.stretch(taps, &self.fates);
        self.failed = self.output.as_mut().and_then(|output| output.rotate(&counted).err());
    }
}

/// Whether a stamp lies before another by more than both bounds allow.
fn is_before(stamp: LayerStamp, other: LayerStamp) -> bool {
    if stamp.bound_ns == u32::MAX || other.bound_ns == u32::MAX {
        return false;
    }
    let slack_ns = i64::from(stamp.bound_ns) + i64::from(other.bound_ns);
    stamp.time_ns.saturating_add(slack_ns) < other.time_ns
}

fn way(kind: PacketKind) -> (PacketDirection, Reception) {
    match kind {
        PacketKind::Host => (PacketDirection::Inbound, Reception::Unicast),
        PacketKind::Broadcast => (PacketDirection::Inbound, Reception::Broadcast),
        PacketKind::Multicast => (PacketDirection::Inbound, Reception::Multicast),
        PacketKind::OtherHost => (PacketDirection::Inbound, Reception::Promiscuous),
        PacketKind::Outgoing => (PacketDirection::Outbound, Reception::Unknown),
        PacketKind::Unknown(_) => (PacketDirection::Unknown, Reception::Unknown),
    }
}
