//! From raw segments to the joined, sorted, stored form.

use crate::error::StoreError;
use crate::events::{sort_events, write_events};
use crate::gaps::{read_raw_gaps, write_gaps};
use crate::join::{
    CLOCK_SLACK_NS, Extender, Extenders, Rows, SeqIndex, TimeCursor, extend, kernel_layers, kernel_ns,
};
use crate::manifest::{AnalysisFacts, StreamPayload};
use crate::media::{MediaRows, fields_of};
use crate::packets::write_packets_and_media;
use crate::run::RunDir;
use crate::segments::{SegmentReader, open_if_any, read_if_any};
use crate::timeline::Timeline;
use crate::turns::{long_sends, long_turns};
use quaver_abi::record::{
    AnchorRecord, EventKind, EventRecord, KEY_UNKNOWN, PacketRecord, SendRecord, StampRecord, packet_flags,
    stamp_flags,
};
use quaver_analysis::model::{Layer, Names, PacketTable};
use quaver_analysis::series::fit_line;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Two stamps of one packet taken at the same place in the kernel (its receive stamp and the trace point beside
/// it) that differ by more are taken for stamps of two packets, if a nearer partner exists.
const SAME_PLACE_NS: i64 = 5_000;
/// How far ahead a nearer partner is looked for.
const LOOKAHEAD: usize = 64;

/// What joining counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinReport {
    /// Packets that the application received: rows of the table.
    pub packets: u64,
    /// Of these, packets without a kernel stamp (all, where nothing traced).
    pub packets_without_stamp: u64,
    /// Packets received that do not belong to the stream: no sequence number where one was expected.
    pub foreign_packets: u64,
    /// Packets longer than the receive buffer.
    pub truncated_packets: u64,
    /// Packets that shared a receive call, hence a stamp, with others.
    pub batched_packets: u64,
    /// Kernel stamps of the stream.
    pub stamps: u64,
    /// Of these, stamps of packets that the stack dropped.
    pub stamps_dropped: u64,
    /// Of these, stamps of packets that the application did not receive (or that we did not record).
    pub stamps_unjoined: u64,
    /// Packets that the socket buffer dropped from the first packet received on, as the socket counted (0 also
    /// where it was not asked to count); none where nothing was received.
    pub socket_dropped: Option<u64>,
    /// Packets that our source sent, where it recorded that.
    pub sent: Option<u64>,
    /// Send calls that failed.
    pub send_failed: Option<u64>,
}

/// The raw segments of a run, joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// The packets.
    pub packets: PacketTable,
    /// What the RTP headers of our receiver's packets say.
    pub media: MediaRows,
    /// What joining counted.
    pub report: JoinReport,
}

/// The packets of [`join_segments`], and what joining counted.
///
/// # Errors
/// As that.
pub fn join_packets(run: &RunDir, facts: &AnalysisFacts) -> Result<(PacketTable, JoinReport), StoreError> {
    join_segments(run, facts).map(|joined| (joined.packets, joined.report))
}

/// Joins the raw segments of a run into the table of packets.
///
/// Packets are those of our receiver (`packets.seg`). Where there are none, as with `--pid`, they are the stamped
/// packets whose receive call was seen to return.
///
/// # Errors
/// A segment cannot be read, or packets were recorded but no anchors turn cycles into time.
pub fn join_segments(run: &RunDir, facts: &AnalysisFacts) -> Result<Joined, StoreError> {
    let anchors = read_if_any::<AnchorRecord>(&run.anchors_segment())?;
    let mut timeline = Timeline::new(&anchors);
    let mut report = JoinReport::default();
    let mut rows = Rows::default();
    let packets = open_if_any::<PacketRecord>(&run.packets_segment())?;
    let stamps = open_if_any::<StampRecord>(&run.stamps_segment())?;
    let payload = facts.payload();
    match packets {
        Some(packets) => {
            read_packet_rows(run, facts, packets, timeline.as_mut(), &mut rows, &mut report)?;
            match (stamps, payload) {
                (None, _) => {}
                (Some(stamps), StreamPayload::Opaque) => join_by_order(stamps, &mut rows, &mut report)?,
                (Some(stamps), _) => join_by_key(stamps, payload, &mut rows, &mut report)?,
            }
        }
        None => {
            if let Some(stamps) = stamps {
                read_observed_rows(stamps, payload, &mut rows, &mut report)?;
            }
        }
    }
    if let Some(sends) = open_if_any::<SendRecord>(&run.sends_segment())? {
        let by_seq = facts.source_on_this_host && matches!(payload, StreamPayload::Ours { .. });
        join_sends(sends, timeline.as_mut().filter(|_| by_seq), &mut rows, &mut report)?;
    }
    report.packets = rows.len() as u64;
    report.packets_without_stamp = rows.stamped.iter().filter(|stamped| !**stamped).count() as u64;
    let media = std::mem::take(&mut rows.media);
    Ok(Joined { packets: rows.finish(), media, report })
}

/// Rows from the packets of our own receiver.
fn read_packet_rows(
    run: &RunDir,
    facts: &AnalysisFacts,
    packets: SegmentReader<PacketRecord>,
    mut timeline: Option<&mut Timeline>,
    rows: &mut Rows,
    report: &mut JoinReport,
) -> Result<(), StoreError> {
    rows.reserve(packets.at_most());
    let payload = facts.payload();
    let mut extenders = Extenders::default();
    let mut drops = DropCounter::default();
    let mut elsewhere = ScheduledElsewhere::default();
    for packet in packets {
        let packet = packet?;
        let line =
            timeline.as_deref_mut().ok_or_else(|| StoreError::NoAnchors { path: run.path().to_owned() })?;
        let app_ns = line.monotonic_ns(packet.app_cycles);
        drops.next(packet.receive_drops);
        let ours = packet.flags & packet_flags::OURS != 0;
        let rtp = packet.flags & packet_flags::RTP != 0;
        let seq = match payload {
            StreamPayload::Ours { .. } if ours && packet.key != KEY_UNKNOWN => packet.key,
            StreamPayload::Rtp if rtp && packet.key != KEY_UNKNOWN => {
                extenders.next(packet.ssrc(), packet.key)
            }
            StreamPayload::Opaque => rows.len() as u64 + drops.dropped,
            _ => {
                report.foreign_packets += 1;
                continue;
            }
        };
        report.truncated_packets += u64::from(packet.flags & packet_flags::TRUNCATED != 0);
        report.batched_packets += u64::from(packet.flags & packet_flags::BATCHED != 0);
        let row = rows.push(seq, app_ns, packet.cpu);
        let fields = fields_of(&packet);
        if fields.is_some() || !rows.media.is_empty() {
            // Rows before the first packet of RTP have nothing; mostly there are none.
            rows.media.resize(row, None);
            rows.media.push(fields);
        }
        if packet.kernel_realtime_ns > 0 {
            rows.set(row, Layer::KernelStamp, line.from_realtime_ns(packet.kernel_realtime_ns, app_ns));
        }
        if ours && facts.source_on_this_host {
            rows.set(row, Layer::Schedule, packet.deadline_ns);
            rows.set(row, Layer::Source, packet.sent_ns);
        } else if ours {
            elsewhere.add(row, &packet);
        }
    }
    elsewhere.enter(rows);
    report.socket_dropped = drops.last.map(|_| drops.dropped);
    Ok(())
}

/// Scheduled and sent instants by the clock of another host. Their distances among themselves are true; where they
/// lie on our clock, and how fast that clock runs against ours, is not known.
#[derive(Debug, Default)]
struct ScheduledElsewhere {
    packets: Vec<(usize, i64, i64)>,
}

impl ScheduledElsewhere {
    fn add(&mut self, row: usize, packet: &PacketRecord) {
        if packet.deadline_ns > 0 {
            self.packets.push((row, packet.deadline_ns, packet.sent_ns));
        }
    }

    /// Puts them on our clock: the drift between the clocks is fitted and taken out, and the fastest hundredth of
    /// the packets is taken to have had no way at all.
    fn enter(self, rows: &mut Rows) {
        let seq: Vec<u64> = self.packets.iter().map(|(row, ..)| rows.seq[*row]).collect();
        let way: Vec<i64> = self
            .packets
            .iter()
            .map(|(row, deadline, _)| rows.app_ns[*row].saturating_sub(*deadline))
            .collect();
        let Some(line) = fit_line(&seq, &way, Some(0.0)) else { return };
        let mut beyond: Vec<i64> =
            seq.iter().zip(&way).map(|(seq, way)| way.saturating_sub(line.at(*seq))).collect();
        let hundredth = (beyond.len() - 1) / 100;
        let fastest = *beyond.select_nth_unstable(hundredth).1;
        for ((row, deadline, sent), seq) in self.packets.into_iter().zip(seq) {
            let shift = line.at(seq).saturating_add(fastest);
            rows.set(row, Layer::Schedule, deadline.saturating_add(shift));
            if sent > 0 {
                rows.set(row, Layer::Source, sent.saturating_add(shift));
            }
        }
    }
}

/// The socket's wrapping count of dropped packets, made whole. What it had dropped before the first packet that
/// we saw is not ours.
#[derive(Debug, Default)]
struct DropCounter {
    last: Option<u32>,
    dropped: u64,
}

impl DropCounter {
    fn next(&mut self, cumulative: u32) {
        let step = cumulative.wrapping_sub(self.last.unwrap_or(cumulative));
        // A count that goes back (another socket, a damaged record) tells of no drop.
        self.dropped += u64::from(if step > u32::MAX / 2 { 0 } else { step });
        self.last = Some(cumulative);
    }
}

/// Whether a stamp belongs to the stream; counts it, and whether it was dropped.
fn counted(stamp: &StampRecord, payload: StreamPayload, report: &mut JoinReport) -> bool {
    let belongs = match payload {
        StreamPayload::Ours { .. } => stamp.flags & stamp_flags::OURS != 0 && stamp.key != KEY_UNKNOWN,
        StreamPayload::Rtp => stamp.flags & stamp_flags::RTP != 0 && stamp.key != KEY_UNKNOWN,
        StreamPayload::Opaque => true,
    };
    if belongs {
        report.stamps += 1;
        report.stamps_dropped += u64::from(is_dropped(stamp));
    }
    belongs
}

fn is_dropped(stamp: &StampRecord) -> bool {
    stamp.flags & stamp_flags::DROPPED != 0
}

/// Joins by sequence number. Copies of a packet are joined in order: a stamp takes the first row of its number
/// that has none yet and was received after the stamp.
fn join_by_key(
    stamps: SegmentReader<StampRecord>,
    payload: StreamPayload,
    rows: &mut Rows,
    report: &mut JoinReport,
) -> Result<(), StoreError> {
    let mut index = SeqIndex::new(&rows.seq);
    let mut cursor = TimeCursor::default();
    for stamp in stamps {
        let stamp = stamp?;
        if !counted(&stamp, payload, report) || is_dropped(&stamp) {
            continue;
        }
        let kernel = kernel_ns(&stamp);
        let seq = match payload {
            // Which wrap the number belongs to is told by the packets that were received about then.
            StreamPayload::Rtp if rows.len() > 0 => {
                extend(rows.seq[cursor.seek(&rows.app_ns, kernel)], stamp.key)
            }
            _ => stamp.key,
        };
        let row = index
            .rows(&rows.seq, seq)
            .find(|row| !rows.stamped[*row] && rows.app_ns[*row].saturating_add(CLOCK_SLACK_NS) >= kernel);
        match row {
            Some(row) => rows.stamp(row, &stamp),
            None => report.stamps_unjoined += 1,
        }
    }
    Ok(())
}

/// Joins by the order of the socket's queue: the application receives what was not dropped, in order. Stamps that
/// are missing would shift all that follow, so each pair is checked: a stamp is never after the application's,
/// and where the kernel's own receive stamp is there too, the two must lie together.
fn join_by_order(
    stamps: SegmentReader<StampRecord>,
    rows: &mut Rows,
    report: &mut JoinReport,
) -> Result<(), StoreError> {
    let mut stamps = stamps;
    let mut waiting: VecDeque<(u64, StampRecord)> = VecDeque::with_capacity(LOOKAHEAD);
    let mut dropped = 0;
    let mut seq_shift = 0;
    let mut row = 0;
    while row < rows.len() {
        while waiting.len() < LOOKAHEAD {
            let Some(stamp) = stamps.next().transpose()? else { break };
            counted(&stamp, StreamPayload::Opaque, report);
            if is_dropped(&stamp) { dropped += 1 } else { waiting.push_back((dropped, stamp)) }
        }
        match pairing(&waiting, rows, row) {
            Pairing::RowAlone => {}
            Pairing::Stamp(place) => {
                report.stamps_unjoined += place as u64;
                waiting.drain(..place);
                if let Some((dropped_before, stamp)) = waiting.pop_front() {
                    rows.stamp(row, &stamp);
                    // The socket's own count of drops is in the number already; the trace may know of more.
                    let by_socket = rows.seq[row].saturating_sub(row as u64);
                    seq_shift = seq_shift.max(dropped_before.saturating_sub(by_socket));
                }
            }
        }
        rows.seq[row] = rows.seq[row].saturating_add(seq_shift);
        row += 1;
    }
    report.stamps_unjoined += waiting.len() as u64;
    for stamp in stamps {
        let stamp = stamp?;
        counted(&stamp, StreamPayload::Opaque, report);
        report.stamps_unjoined += u64::from(!is_dropped(&stamp));
    }
    Ok(())
}

/// What a row is joined with.
enum Pairing {
    /// Nothing: its stamp is missing.
    RowAlone,
    /// The stamp at this place of those waiting.
    Stamp(usize),
}

fn pairing(waiting: &VecDeque<(u64, StampRecord)>, rows: &Rows, row: usize) -> Pairing {
    let Some((_, first)) = waiting.front() else { return Pairing::RowAlone };
    if kernel_ns(first) > rows.app_ns[row].saturating_add(CLOCK_SLACK_NS) {
        return Pairing::RowAlone;
    }
    let receive = |stamp: &StampRecord| i64::try_from(stamp.receive_ns).ok().filter(|ns| *ns > 0);
    let together = |a: i64, b: i64| a.abs_diff(b) <= SAME_PLACE_NS.unsigned_abs();
    let (Some(own), Some(first)) = (rows.get(row, Layer::KernelStamp), receive(first)) else {
        return Pairing::Stamp(0);
    };
    if together(own, first) {
        return Pairing::Stamp(0);
    }
    if first < own {
        let nearer = waiting.iter().position(|(_, s)| receive(s).is_some_and(|ns| together(ns, own)));
        return Pairing::Stamp(nearer.unwrap_or(0));
    }
    let later_rows = row + 1..rows.len().min(row + LOOKAHEAD);
    let belongs_later =
        later_rows.into_iter().any(|r| rows.get(r, Layer::KernelStamp).is_some_and(|ns| together(ns, first)));
    if belongs_later { Pairing::RowAlone } else { Pairing::Stamp(0) }
}

/// Rows from the stamps alone: the receive calls of a process that we only observed.
fn read_observed_rows(
    stamps: SegmentReader<StampRecord>,
    payload: StreamPayload,
    rows: &mut Rows,
    report: &mut JoinReport,
) -> Result<(), StoreError> {
    rows.reserve(stamps.at_most());
    let mut extender = Extender::default();
    for stamp in stamps {
        let stamp = stamp?;
        if !counted(&stamp, payload, report) {
            report.foreign_packets += 1;
            continue;
        }
        let seq = match payload {
            StreamPayload::Ours { .. } => stamp.key,
            StreamPayload::Rtp => extender.next(stamp.key),
            StreamPayload::Opaque => stamp.arrival - 1,
        };
        if is_dropped(&stamp) || stamp.flags & stamp_flags::ELSEWHERE != 0 {
            continue;
        }
        let Some(app_ns) = i64::try_from(stamp.user_ns).ok().filter(|ns| *ns > 0) else {
            report.stamps_unjoined += 1;
            continue;
        };
        report.batched_packets += u64::from(stamp.flags & stamp_flags::BATCHED != 0);
        let row = rows.push(seq, app_ns, stamp.user_cpu);
        for (layer, ns) in kernel_layers(&stamp) {
            rows.set(row, layer, ns);
        }
        rows.stamp(row, &stamp);
    }
    rows.sort_by_app();
    Ok(())
}

/// Counts what our source sent; with a timeline, also enters scheduled and sent instants where the payload did
/// not carry them.
fn join_sends(
    sends: SegmentReader<SendRecord>,
    mut timeline: Option<&mut Timeline>,
    rows: &mut Rows,
    report: &mut JoinReport,
) -> Result<(), StoreError> {
    let (mut sent, mut failed) = (0, 0);
    let mut index = timeline.as_ref().map(|_| SeqIndex::new(&rows.seq));
    for send in sends {
        let send = send?;
        if send.after_cycles == 0 {
            failed += 1;
            continue;
        }
        sent += 1;
        let (Some(line), Some(index)) = (timeline.as_deref_mut(), index.as_mut()) else { continue };
        let copies: Vec<usize> = index.rows(&rows.seq, send.seq).collect();
        for row in copies {
            if rows.get(row, Layer::Source).is_none() {
                rows.set(row, Layer::Source, line.monotonic_ns(send.before_cycles));
                rows.set(row, Layer::Schedule, send.deadline_ns);
            }
        }
    }
    (report.sent, report.send_failed) = (Some(sent), Some(failed));
    Ok(())
}

/// The events of the raw segment in the order of `events.parquet`, and the names of threads found among them.
/// An event that would end before it starts (a damaged record) becomes a point. Long send calls of our source are events
/// of the CPU that it was pinned to.
///
/// # Errors
/// The segment cannot be read.
pub fn read_raw_events(
    run: &RunDir,
    names: &mut Names,
    source_cpu: Option<u16>,
) -> Result<Vec<EventRecord>, StoreError> {
    let (mut events, mut named_at) = (Vec::new(), BTreeMap::new());
    if let Some(records) = open_if_any::<EventRecord>(&run.events_segment())? {
        let _ = events.try_reserve_exact(records.at_most().min(1 << 28));
        for record in records {
            let mut event = record?;
            if event.kind == EventKind::TaskName as u8 {
                // The records of each CPU come by themselves.
                let last = *named_at.entry(event.id).or_insert(event.named_at());
                if event.named_at().wrapping_sub(last).cast_signed() >= 0 {
                    named_at.insert(event.id, event.named_at());
                    names.task.insert(event.id, task_name(&event));
                }
                if event.named_process() != 0 {
                    names.process.insert(event.id, event.named_process());
                }
                continue;
            }
            event.end_ns = event.end_ns.max(event.start_ns);
            events.push(event);
        }
    }
    events.extend(long_turns(run)?);
    if let Some(cpu) = source_cpu {
        events.extend(long_sends(run, cpu)?);
    }
    sort_events(&mut events);
    Ok(events)
}

/// The 16 bytes of a thread's name, up to the first zero.
fn task_name(event: &EventRecord) -> String {
    let octets = [event.start_ns.to_ne_bytes(), event.end_ns.to_ne_bytes()].concat();
    let end = octets.iter().position(|octet| *octet == 0).unwrap_or(octets.len());
    String::from_utf8_lossy(&octets[..end]).into_owned()
}

/// Turns the raw segments of a packet run into `samples.parquet`, `events.parquet` and `names.json` (names already
/// there are kept, names recorded with the events added). The segments stay until [`RunDir::remove_raw`].
///
/// # Errors
/// A segment cannot be read, or a file cannot be written.
pub fn convert_raw(run: &RunDir, facts: &AnalysisFacts) -> Result<JoinReport, StoreError> {
    convert_events(run, facts.source_cpu())?;
    let joined = join_segments(run, facts)?;
    write_packets_and_media(&run.samples(), &joined.packets, &joined.media)?;
    Ok(joined.report)
}

/// Turns the raw segments of a noise run into `gaps.parquet`, `events.parquet` and `names.json`, as
/// [`convert_raw`] does.
///
/// # Errors
/// A segment cannot be read, or a file cannot be written.
pub fn convert_raw_noise(run: &RunDir) -> Result<(), StoreError> {
    convert_events(run, None)?;
    write_gaps(&run.gaps(), &read_raw_gaps(run)?)
}

fn convert_events(run: &RunDir, source_cpu: Option<u16>) -> Result<(), StoreError> {
    let mut names = run.read_names()?;
    let events = read_raw_events(run, &mut names, source_cpu)?;
    write_events(&run.events(), &events, &names)?;
    run.write_names(&names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What row 0 of `rows` (application, kernel's own stamp) is joined with, of stamps received at these instants.
    fn joined(rows: &[(i64, i64)], waiting: &[i64]) -> Option<usize> {
        let mut table = Rows::default();
        for (app_ns, kernel_ns) in rows {
            let row = table.push(0, *app_ns, 0);
            table.set(row, Layer::KernelStamp, *kernel_ns);
        }
        let stamp = |ns: &i64| (0, StampRecord { receive_ns: *ns as u64, ..StampRecord::default() });
        match pairing(&waiting.iter().map(stamp).collect(), &table, 0) {
            Pairing::RowAlone => None,
            Pairing::Stamp(place) => Some(place),
        }
    }

    #[test]
    fn a_stamp_after_the_application_is_no_stamp_of_the_packet() {
        assert_eq!(joined(&[(1_000_000, 0)], &[]), None);
        assert_eq!(joined(&[(1_000_000, 0)], &[1_000_000 + CLOCK_SLACK_NS]), Some(0));
        assert_eq!(joined(&[(1_000_000, 0)], &[1_000_001 + CLOCK_SLACK_NS]), None);
    }

    #[test]
    fn two_stamps_of_one_place_lie_together_or_are_of_two_packets() {
        let own = 900_000;
        let row = (1_000_000, own);
        let (near, far) = (SAME_PLACE_NS, SAME_PLACE_NS + 1);
        for first in [own, own - near, own + near] {
            assert_eq!(joined(&[row, (1_010_000, first)], &[first, own]), Some(0));
        }
        // Before it: stamps of packets that the application never got, up to the one beside it, if there is one.
        assert_eq!(joined(&[row], &[own - 3 * far, own - 2 * far, own - far, own + near]), Some(3));
        assert_eq!(joined(&[row], &[own - 3 * far, own - far, own + far]), Some(0));
        // Behind it: the row's own is missing if it belongs to a later row.
        assert_eq!(joined(&[row, (1_010_000, own + far + near)], &[own + far]), None);
        assert_eq!(joined(&[row, (1_010_000, own + far + far)], &[own + far]), Some(0));
        let rows = |later: usize| {
            let mut rows = vec![row; later];
            rows.push((1_010_000, own + 10 * far));
            rows
        };
        assert_eq!(joined(&rows(LOOKAHEAD - 1), &[own + 10 * far]), None);
        assert_eq!(joined(&rows(LOOKAHEAD), &[own + 10 * far]), Some(0));
    }
}
