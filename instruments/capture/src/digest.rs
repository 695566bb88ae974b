//! From a capture, ours or anybody's, to what is said of it.

use crate::frames;
use crate::summary::{CaptureSummary, InterfaceSummary};
use quaver_abi::stamp::{Layer, StampClock};
use quaver_arrivals::rtp::Tai;
use quaver_capture_analysis::flows::{CaptureFigures, FlowTable, TableSettings};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_pcapng as pcapng;
use quaver_pcapng::{CaptureReader, CapturedInterface, CapturedPacket, ReadError, Uncompressed};
use quaver_store::error::StoreError;
use quaver_view::Cell;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Version of the shape of [`CaptureSummary`].
const SCHEMA: &str = "quaver.capture/1";
/// Where a packet's time is taken from, where no layer was asked for and the file names none.
const FILE_TIME: &str = "the capture's own time";

/// Notes of a capture that are told again.
const MOST_NOTES: usize = 16;

/// What an interface's packets were, beside what the file says of it.
#[derive(Clone, Copy, Default)]
struct PacketCounts {
    packets: u64,
    cut: u64,
    drops: Option<u64>,
}

/// Whether a file begins as a capture does.
pub fn is_capture(path: &Path) -> anyhow::Result<bool> {
    let mut first = Vec::new();
    let file = File::open(path).map_err(|error| StoreError::io("open", path, error))?;
    let read = Uncompressed::new(file).and_then(|file| file.take(4).read_to_end(&mut first));
    match read {
        Err(error) if error.kind() != ErrorKind::InvalidData => {
            Err(StoreError::io("read", path, error).into())
        }
        // Compressed data of which nothing can be read: the sentence is that of the reader.
        Err(_) if first.len() < 4 => Ok(true),
        // What is left of a damaged file may still be one.
        _ => Ok(first.first_chunk().is_some_and(|four| pcapng::is_magic(*four))),
    }
}

/// Reads and analyses a capture. With `layer`, times are the stamps of that layer, else the packets' own.
pub fn analyze(path: &Path, layer: Option<Layer>) -> anyhow::Result<CaptureSummary> {
    let file = File::open(path).map_err(|error| StoreError::io("open", path, error))?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    digest(file, name, layer).map_err(|error| of_file(path, error))
}

/// The sentence for a file that cannot be read.
fn of_file(path: &Path, error: Unread) -> anyhow::Error {
    match error {
        Unread::File(ReadError::Io(error)) => StoreError::io("read", path, error).into(),
        Unread::File(error) => failure(ExitCode::BadInput, format!("read {}: {error}", path.display())),
        Unread::Layer(message) => failure(ExitCode::Usage, format!("read {}: {message}", path.display())),
    }
}

/// Why there are no results.
#[derive(Debug)]
enum Unread {
    File(ReadError),
    Layer(String),
}

impl From<ReadError> for Unread {
    fn from(error: ReadError) -> Self {
        Self::File(error)
    }
}

fn digest(source: impl Read, name: String, layer: Option<Layer>) -> Result<CaptureSummary, Unread> {
    let source = Uncompressed::new(source).map_err(ReadError::Io)?;
    let compression = source.compression();
    let mut reader = CaptureReader::new(source)?;
    let mut table: Option<(FlowTable, &'static str)> = None;
    let mut kept: Vec<PacketCounts> = Vec::new();
    while let Some(packet) = reader.next_packet()? {
        let place = packet.interface;
        kept.resize(kept.len().max(place + 1), PacketCounts::default());
        kept[place].take(&packet);
        let (table, _) = table.get_or_insert_with(|| new_table(&packet, layer));
        let stamps = packet.stamps.map(|option| option.stamps).unwrap_or_default();
        let time_ns = match layer {
            Some(layer) => stamps.get(layer).map(|stamp| stamp.time_ns),
            None => packet.time_ns,
        };
        frames::decode(packet.link_type, packet.data, packet.original_length, packet.time_ns, |facts| {
            table.packet(time_ns, &stamps, facts);
        });
    }
    let (mut table, layer_word) =
        table.unwrap_or_else(|| (FlowTable::new(TableSettings::file(FILE_TIME)), FILE_TIME));
    if let Some(tai) = tai(&reader) {
        table.set_tai(tai);
    }
    let figures = table.finish();
    if let Some(layer) = layer.filter(|_| figures.packets > 0 && figures.unstamped == figures.packets) {
        return Err(Unread::Layer(no_layer(layer, &figures)));
    }
    let mut summary = summary(&reader, name, layer_word, figures, &kept);
    summary.compression = compression;
    Ok(summary)
}

/// What the facts of the run say of TAI. Times are of CLOCK_REALTIME already, so nothing lies between.
fn tai<R: Read>(reader: &CaptureReader<R>) -> Option<Tai> {
    let mut facts =
        reader.interfaces().filter_map(|interface| interface.statistics.as_ref()?.run_facts.as_ref());
    let offset_s = facts.find_map(|facts| facts.get("tai_offset_s")?.as_i64())?;
    Some(Tai { offset_s: i32::try_from(offset_s).ok()?, realtime_minus_monotonic_ns: Some(0) })
}

impl PacketCounts {
    fn take(&mut self, packet: &CapturedPacket<'_>) {
        self.packets += 1;
        self.cut += u64::from(packet.data.len() < packet.original_length as usize);
        if let Some(drops) = packet.drops_before {
            self.drops = Some(self.drops.unwrap_or(0).saturating_add(drops));
        }
    }
}

/// A table for the times that the first packet has.
fn new_table(first: &CapturedPacket<'_>, layer: Option<Layer>) -> (FlowTable, &'static str) {
    let shown = layer.or(first.stamps.and_then(|option| option.shown));
    let word = shown.map_or(FILE_TIME, Layer::name);
    let clock = shown.zip(first.stamps).and_then(|(layer, option)| option.stamps.get(layer));
    // A packet's own time is the wall clock's by the format; the interface's clock is what it was set to.
    let wall_clock = clock.is_none_or(|stamp| stamp.clock != StampClock::Phc);
    (FlowTable::new(TableSettings { wall_clock, ..TableSettings::file(word) }), word)
}

fn no_layer(layer: Layer, figures: &CaptureFigures) -> String {
    let asked = layer.name();
    if figures.layers.is_empty() {
        return format!(
            "no packet has a stamp of layer {asked}: this capture has one time per packet; remove --layer"
        );
    }
    let there: Vec<&str> = figures.layers.iter().map(|found| found.layer.name()).collect();
    format!("no packet has a stamp of layer {asked}; choose one of: {}", there.join(", "))
}

fn summary<R: Read>(
    reader: &CaptureReader<R>,
    file: String,
    layer: &'static str,
    figures: CaptureFigures,
    kept: &[PacketCounts],
) -> CaptureSummary {
    let section = reader.section().cloned().unwrap_or_default();
    let interfaces: Vec<InterfaceSummary> = reader
        .interfaces()
        .enumerate()
        .map(|(place, interface)| of_interface(interface, kept.get(place).copied().unwrap_or_default()))
        .collect();
    let mut warnings: Vec<String> = reader
        .cautions()
        .map(|(sentence, times)| match times {
            1 => sentence.to_owned(),
            times => format!("{sentence} ({times} times)"),
        })
        .collect();
    warnings.extend(cautions(&figures, &interfaces));
    warnings.extend(interfaces.iter().filter_map(|interface| interface.run_facts.as_ref()).flat_map(noted));
    CaptureSummary {
        schema: SCHEMA,
        file,
        format: reader.format().name(),
        compression: None,
        complete: reader.is_whole(),
        application: section.application,
        hardware: section.hardware,
        os: section.os,
        comment: section.comment,
        interfaces,
        layer,
        figures,
        warnings,
    }
}

fn of_interface(interface: &CapturedInterface, kept: PacketCounts) -> InterfaceSummary {
    let counted = interface.statistics.clone().unwrap_or_default();
    InterfaceSummary {
        name: interface.name.clone(),
        description: interface.description.clone(),
        link_type: interface.link_type,
        decoded: frames::is_known(interface.link_type),
        snap_length: interface.snap_length,
        filter: interface.filter.clone(),
        resolution_ns: interface.resolution_ns,
        in_file: kept.packets,
        cut: kept.cut,
        dropped_before_packets: kept.drops,
        received: counted.received,
        dropped_by_interface: counted.dropped_by_interface,
        accepted_by_filter: counted.accepted_by_filter,
        dropped_by_os: counted.dropped_by_os,
        delivered: counted.delivered,
        comment: counted.comment,
        run_facts: counted.run_facts,
    }
}

/// What a capture of ours noted of itself, such as steps of its clock that no packet shows.
fn noted(facts: &serde_json::Value) -> Vec<String> {
    let notes = facts.get("notes").and_then(serde_json::Value::as_array);
    let notes = notes.into_iter().flatten().filter_map(serde_json::Value::as_str);
    notes.map(|note| format!("noted while capturing: {note}")).take(MOST_NOTES).collect()
}

/// What is to be known before the figures are believed.
fn cautions(figures: &CaptureFigures, interfaces: &[InterfaceSummary]) -> Vec<String> {
    let mut found = Vec::new();
    let dropped: u64 = interfaces.iter().map(InterfaceSummary::dropped).sum();
    if dropped > 0 {
        found.push(format!(
            "{dropped} packets were dropped while capturing: loss of flows may be local, not on the network"
        ));
    }
    for step in &figures.clock_steps {
        let least = quaver_view::Cell::Duration(step.least_ns);
        found.push(format!(
            "the capturing clock was set back by {least} or more before packet {}, or captures were put together there: flows \
             begin anew, and no figure spans it",
            step.packet
        ));
    }
    let backwards = figures.backwards - figures.clock_steps.len() as u64;
    if backwards > 0 {
        found.push(format!(
            "{backwards} packets precede their predecessor in time: merged interfaces or queues"
        ));
    }
    if figures.unstamped > 0 {
        found.push(format!(
            "without a stamp of this layer, so counted but excluded from times: {}",
            Cell::several(figures.unstamped, "packet")
        ));
    }
    if figures.beyond.packets > 0 {
        found.push(format!(
            "of untracked flows (table full): {}",
            Cell::several(figures.beyond.packets, "packet")
        ));
    }
    if figures.counted_only > 0 {
        found.push(format!(
            "only counted: {}; capture with a filter to have the figures of one",
            Cell::several(figures.counted_only, "flow")
        ));
    }
    if figures.flows.iter().any(|flow| flow.rtp_left_out > 0) {
        found.push("full RTP analysis covers only the first four million packets".to_owned());
    }
    let cut = figures.flows.iter().filter(|flow| flow.numbers_cut).count() as u64;
    if cut > 0 {
        found.push(format!(
            "loss, order and delay of {} are not known: further numbers may lie in what the snap length cut of trains \
             (UDP_SEGMENT, GRO); capture with a larger --snaplen",
            Cell::several(cut, "flow")
        ));
    }
    for key in figures.used_at_once() {
        found.push(format!(
            "RTP {:#010x}, {}: several senders used this source at the same time; each has its own numbers, and a flow of its own \
             (restart)",
            key.id.unwrap_or(0),
            crate::view::flows::ends(&key)
        ));
    }
    let coarse = interfaces.iter().map(|interface| interface.resolution_ns).max().unwrap_or(1);
    if coarse > 1 {
        found.push(format!(
            "timestamp resolution is {coarse} ns, which limits all times (tcpdump \
             --time-stamp-precision=nano captures nanoseconds)"
        ));
    }
    let mut unknown: Vec<u16> = interfaces
        .iter()
        .filter(|interface| !interface.decoded && interface.in_file > 0)
        .map(|interface| interface.link_type)
        .collect();
    unknown.sort_unstable();
    unknown.dedup();
    found.extend(unknown.iter().map(|link_type| format!("link type {link_type} is not decoded: no flows")));
    found
}
