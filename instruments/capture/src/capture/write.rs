//! The writing thread: block by block, packet by packet, into the file and the figures.

use super::accounts::FileAccount;
use super::breach::Breaches;
use super::fates::Fates;
use super::files::Output;
use super::order::{Order, Waiting};
use super::qos::Flows;
use crate::pipeline::Resolver;
use crate::record::{Blocks, Frame, Layers, LinkKind, PacketKind, RawCounts, StampedBlock, Tap, ring_layer};
use quaver_abi::stamp::{Layer, PacketStamps};
use quaver_capture_analysis::flows::CaptureFigures;
use quaver_clock::live::LiveReader;
use quaver_instrument::rights;
use quaver_pcapng::{PacketDirection, PacketRecord, Reception, WriteError};
use quaver_probe::thread::{Setting, ThreadSettings};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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
    /// What became of raw cycles; none where nobody asked for them.
    pub(super) raw: Option<RawCounts>,
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
    pub(super) order: Order,
    /// Of each tap.
    pub(super) links: Vec<LinkKind>,
    /// Taps of each interface.
    pub(super) rings: usize,
    /// Longest wait for a block.
    pub(super) wait: Duration,
    pub(super) layer: Layer,
    pub(super) only_outgoing: bool,
    pub(super) output: Option<Output>,
    /// Folder of its files; none where it makes none.
    pub(super) place: Option<PathBuf>,
    /// The account of the first file.
    pub(super) told: FileAccount,
    pub(super) limits: Limits,
    pub(super) cpu: Option<u16>,
    pub(super) flows: Option<Flows>,
    pub(super) breaches: Option<Breaches>,
    pub(super) live: Arc<Live>,
}

impl Writer {
    /// Writes until the capture thread has ended and all is written. The caller gets the layers back: this thread has no right to
    /// take their programs out.
    pub(super) fn run(mut self) -> (Written, Layers) {
        let settings =
            ThreadSettings { cpu: self.cpu, required: vec![Setting::Cpu], ..ThreadSettings::default() };
        let mut notes = Vec::new();
        if let Err(refused) = settings.prepare() {
            notes.push(format!("writing thread: {refused}"));
        }
        // Before it sees the first packet.
        rights::keep_output(self.place.as_deref());
        let mut to = Desk {
            fates: vec![Fates::default(); self.links.len() / self.rings],
            output: self.output.take(),
            told: self.told.clone(),
            flows: self.flows.take(),
            failed: None,
            limited: false,
            captured: 0,
        };
        let mut told = Instant::now();
        while !self.blocks.is_finished() {
            let taken = self.blocks.next(self.order.left().map_or(self.wait, |left| left.min(self.wait)));
            let idle = taken.is_none();
            if let Some(taken) = taken {
                self.take(taken);
            }
            self.write_due(&mut to, false);
            if idle {
                // Programs write a record of every packet of the interface, those too that a filter keeps out: were they left
                // there until a packet passes, that one's would have no room.
                self.layers.refresh(true);
            }
            if idle || self.blocks.is_empty() {
                to.flush(self.layer);
            }
            if to.limited || to.failed.is_some() {
                self.live.ended.store(true, Ordering::Release);
            }
            if (idle || told.elapsed() >= EACH) && to.output.as_ref().is_some_and(Output::has_no_reader) {
                to.failed.get_or_insert(WriteError::Io(std::io::ErrorKind::BrokenPipe.into()));
            }
            if told.elapsed() >= EACH {
                told = Instant::now();
                self.tell(&mut to);
            }
        }
        self.write_due(&mut to, true);
        to.flush(self.layer);
        self.live.captured.store(to.captured, Ordering::Relaxed);
        notes.extend(self.breaches.take().map(|breaches| breaches.notes).unwrap_or_default());
        let written = Written {
            fates: to.fates,
            output: to.output,
            told: to.told,
            failed: to.failed,
            figures: to.flows.map(Flows::finish),
            stamps_lost: self.layers.lost(),
            stamps_unmatched: self.layers.unmatched(),
            raw: self.layers.raw_counts(),
            limited: to.limited,
            notes,
        };
        (written, self.layers)
    }

    fn take(&mut self, taken: StampedBlock) {
        let StampedBlock { tap, stamp, early, block } = taken;
        let application = self.resolver.resolve(stamp);
        self.layers.refresh(false);
        self.order.push(tap, Waiting { block, early, application, came: Instant::now() });
    }

    /// Writes what is before all that can still come, or `all`.
    fn write_due(&mut self, to: &mut Desk, all: bool) {
        loop {
            let taps = self.blocks.taps();
            let next = self.order.next(all, |tap, block| taps[tap].progress(block));
            let Some((tap, mut waiting, until_ns)) = next else { break };
            self.block(tap, &mut waiting, until_ns, to);
            if waiting.block.next_time_ns().is_some() {
                self.order.put_back(tap, waiting);
            }
        }
        self.live.captured.store(to.captured, Ordering::Relaxed);
        if to.failed.is_none() && to.output.as_ref().is_some_and(Output::is_old) {
            to.rotate(self.blocks.taps(), self.layer);
        }
    }

    fn block(&mut self, tap: usize, waiting: &mut Waiting, until_ns: Option<i64>, to: &mut Desk) {
        let (layers, link, interface) = (&mut self.layers, self.links[tap], tap / self.rings);
        let taps = self.blocks.taps();
        let filter = taps[tap].filter().filter(|filter| filter.runs_here());
        let Waiting { block, early, application, .. } = waiting;
        while until_ns.is_none_or(|until| block.next_time_ns().is_some_and(|next| next <= until)) {
            let Some(frame) = block.next_frame() else { return };
            let fates = &mut to.fates[interface];
            if to.limited {
                fates.after_limit += 1;
            } else if self.only_outgoing && frame.kind != PacketKind::Outgoing {
                fates.direction += 1;
            } else if filter.is_some_and(|filter| !filter.passes_frame(&frame)) {
                fates.filtered += 1;
            } else if to.failed.is_some() {
                fates.unwritten += 1;
            } else {
                let mut stamps = layers.stamps(&frame, link, early);
                stamps.set(Layer::Application, *application);
                if to.output.as_ref().is_some_and(Output::is_full) {
                    to.rotate(taps, self.layer);
                }
                to.packet(interface, link, &frame, &stamps, self.layer);
                to.look_at_limits(self.limits);
            }
        }
    }

    fn tell(&mut self, to: &mut Desk) {
        if let Some(flows) = &mut to.flows {
            let found = flows.figures();
            if let Some(breaches) = &mut self.breaches {
                breaches.look(&found, || to.output.as_mut().is_some_and(Output::keep_around));
            }
            let mut figures = self.live.figures.lock().unwrap_or_else(PoisonError::into_inner);
            *figures = (figures.0 + 1, Some(found));
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
        interface: usize,
        link: LinkKind,
        frame: &Frame<'_>,
        stamps: &PacketStamps,
        wanted: Layer,
    ) {
        if self.failed.is_some() {
            self.fates[interface].unwritten += 1;
            return;
        }
        let shown = if stamps.get(wanted).is_some() { wanted } else { ring_layer(frame) };
        let other_layer = shown != wanted;
        if let Some(output) = &mut self.output {
            let (direction, reception) = way(frame.kind);
            let record = PacketRecord {
                direction,
                reception,
                ..PacketRecord::new(shown, stamps, frame.data, frame.original_length)
            };
            match output.packet(interface as u32, &record) {
                Ok(()) => {}
                // The packet is among those that the output has and could not write.
                Err(error @ WriteError::Io(_)) => {
                    self.count(interface, frame.original_length, other_layer, stamps);
                    self.fail(error, wanted);
                    return;
                }
                Err(error) => {
                    self.fates[interface].unwritten += 1;
                    self.flush(wanted);
                    self.failed.get_or_insert(error);
                    return;
                }
            }
        }
        if let Some(flows) = &mut self.flows {
            flows.packet(link, frame, stamps);
        }
        if let Some(time) = stamps.get(shown) {
            self.told.has(time.time_ns);
        }
        self.count(interface, frame.original_length, other_layer, stamps);
    }

    fn count(&mut self, interface: usize, original_length: u32, other_layer: bool, stamps: &PacketStamps) {
        self.captured += 1;
        self.fates[interface].capture(original_length, other_layer, stamps);
    }

    /// The output takes no more: what it has not written is not captured.
    fn fail(&mut self, error: WriteError, wanted: Layer) {
        if let Some(output) = &mut self.output {
            for packet in output.give_up() {
                let other_layer = packet.stamps.shown != Some(wanted);
                let fates = &mut self.fates[packet.interface as usize];
                fates.take_back(packet.original_length, other_layer, &packet.stamps.stamps);
                self.captured -= 1;
            }
        }
        self.failed = Some(error);
    }

    fn look_at_limits(&mut self, limits: Limits) {
        let octets = self.output.as_ref().map_or(0, Output::octets);
        self.limited = limits.packets.is_some_and(|most| self.captured >= most)
            || limits.octets.is_some_and(|most| octets >= most);
    }

    fn flush(&mut self, wanted: Layer) {
        if self.failed.is_none()
            && let Some(Err(error)) = self.output.as_mut().map(Output::flush)
        {
            self.fail(error, wanted);
        }
    }

    /// Begins another file; this one tells its own stretch.
    fn rotate(&mut self, taps: &[Tap], wanted: Layer) {
        // So that it is told what is in the file, and no more.
        self.flush(wanted);
        if self.failed.is_some() {
            return;
        }
        let counted = self.told.stretch(taps, &self.fates);
        self.failed = self.output.as_mut().and_then(|output| output.rotate(&counted).err());
    }
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
