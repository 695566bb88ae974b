//! Frames by their markers.

use super::RtpPacket;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Frames between the first marker and the last; of interlaced ST 2110-20, fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FrameFigures {
    /// They are fields.
    pub fields: bool,
    /// Most frequent length in packets; none with fewer than two markers.
    pub packets_per_frame: Option<u64>,
    /// Frames.
    pub frames: u64,
    /// Of these, frames of which every packet came.
    pub complete: u64,
    /// Packets that did not come, of all these frames.
    pub missing_packets: u64,
    /// Frames whose last packet, which bears the marker, did not come.
    pub lost_ends: u64,
    /// Frames of another length although their ends came.
    pub odd_lengths: u64,
}

/// Frames of first copies in the order of their numbers.
pub(super) fn of(in_order: &[RtpPacket], fields: bool) -> FrameFigures {
    let mut result = FrameFigures { fields, ..FrameFigures::default() };
    let ends: Vec<usize> = (0..in_order.len()).filter(|at| in_order[*at].marker()).collect();
    let mut lengths: BTreeMap<u64, u64> = BTreeMap::new();
    let length = |pair: &[usize]| in_order[pair[1]].sequence - in_order[pair[0]].sequence;
    ends.windows(2).for_each(|pair| *lengths.entry(length(pair)).or_default() += 1);
    // The shortest of those that occur most often: two frames with a lost end look like one long frame.
    let Some(usual) = lengths.into_iter().rev().max_by_key(|(_, count)| *count).map(|(length, _)| length)
    else {
        return result;
    };
    result.packets_per_frame = Some(usual);
    for pair in ends.windows(2) {
        let between = &in_order[pair[0] + 1..=pair[1]];
        let (first, length) = (in_order[pair[0]].sequence + 1, length(pair));
        result.missing_packets += length - between.len() as u64;
        let frames = length / usual;
        let ends_lost = frames.saturating_sub(1);
        let whole = length.is_multiple_of(usual)
            && (1..frames)
                .all(|k| between.binary_search_by_key(&(first + k * usual - 1), |p| p.sequence).is_err());
        if !whole {
            result.frames += 1;
            result.odd_lengths += 1;
            result.complete += u64::from(between.len() as u64 == length);
            continue;
        }
        result.frames += frames;
        result.lost_ends += ends_lost;
        let mut rest = between;
        for k in 1..=frames {
            let (frame, after) = rest.split_at(rest.partition_point(|p| p.sequence < first + k * usual));
            result.complete += u64::from(frame.len() as u64 == usual);
            rest = after;
        }
    }
    result
}
