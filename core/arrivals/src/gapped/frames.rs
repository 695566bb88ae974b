//! Which frame a packet belongs to, and where in it.

use super::VideoPacket;
use super::format::{Scan, VideoFormat};
use std::collections::BTreeMap;

/// A first copy in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    /// Frames since the first whole one.
    pub(super) frame: u64,
    /// Place in the frame from 0: the j of the standard. Less than N_PACKETS.
    pub(super) index: u64,
    pub(super) arrived_ns: i64,
}

/// The last packet of a frame; where interlaced, of its second field.
fn ends_frame(packet: &VideoPacket, scan: Scan) -> bool {
    packet.marker && (scan == Scan::Progressive || packet.second_field)
}

/// First copies in the order of their numbers.
fn in_order(packets: &[VideoPacket]) -> Vec<VideoPacket> {
    let mut sorted = packets.to_vec();
    // Stable, so of the copies the first to come stays first.
    sorted.sort_by_key(|packet| (packet.sequence, packet.arrived_ns));
    sorted.dedup_by_key(|packet| packet.sequence);
    sorted
}

/// N_PACKETS as seen: the most frequent distance from the end of one frame to that of the next, the smallest of several.
/// None without two ends of frames.
pub fn packets_per_frame(packets: &[VideoPacket], scan: Scan) -> Option<u64> {
    let sorted = in_order(packets);
    let ends: Vec<u64> =
        sorted.iter().filter(|packet| ends_frame(packet, scan)).map(|packet| packet.sequence).collect();
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for pair in ends.windows(2) {
        *counts.entry(pair[1] - pair[0]).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    counts.into_iter().find(|(_, count)| *count == most).map(|(distance, _)| distance)
}

/// Places the packets after the first end of a frame. Numbers that are missing keep their places, and where an end is
/// missing the frame ends after N_PACKETS.
pub(super) fn placed(packets: &[VideoPacket], format: &VideoFormat) -> Vec<Placed> {
    let mut placed = Vec::new();
    let mut start: Option<(u64, u64)> = None;
    for packet in in_order(packets) {
        if let Some((frame, first)) = &mut start {
            let beyond = (packet.sequence - *first) / format.packets_per_frame();
            *frame += beyond;
            *first += beyond * format.packets_per_frame();
            placed.push(Placed {
                frame: *frame,
                index: packet.sequence - *first,
                arrived_ns: packet.arrived_ns,
            });
        }
        if ends_frame(&packet, format.scan()) {
            let frame = start.map_or(0, |(frame, _)| frame + 1);
            let Some(after) = packet.sequence.checked_add(1) else { break };
            start = Some((frame, after));
        }
    }
    placed
}
