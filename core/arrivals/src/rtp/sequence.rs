//! Loss, copies and order by the sequence numbers, extended over their wraps.

use super::RtpPacket;
use crate::path::duplication::duplication;
use crate::path::loss_pattern::{loss_pattern, loss_runs};
use crate::path::reordering::reordering_of_numbers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What the numbers tell. Losses before the smallest number and after the largest cannot be known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SequenceFigures {
    /// Bits of the number on the wire. Of 16, at most 32,767 packets lost in a row can be told.
    pub bits: u32,
    /// Numbers from the smallest received to the largest.
    pub expected: u64,
    /// Packets received, copies included.
    pub received: u64,
    /// Different packets received.
    pub unique: u64,
    /// Numbers of which no packet came: `expected` = `unique` + `lost`.
    pub lost: u64,
    /// Part of the expected packets that was lost.
    pub loss_share: f64,
    /// What a receiver report says: from the first packet on expected, less received with copies; below 0 where there
    /// are more copies than losses.
    pub cumulative_lost: i64,
    /// Loss periods.
    pub loss_periods: u64,
    /// From length of a loss period to how many there are.
    pub loss_period_lengths: BTreeMap<u64, u64>,
    /// From loss distance to how often it occurred.
    pub loss_distances: BTreeMap<u64, u64>,
    /// Copies beyond the first.
    pub duplicate: u64,
    /// Packets of which more than one copy came.
    pub replicated: u64,
    /// First copies that came after one with a larger number.
    pub reordered: u64,
    /// Part of the different packets that was reordered.
    pub reordered_share: f64,
    /// From reordering extent to packets that have it.
    pub reordering_extents: BTreeMap<u64, u64>,
}

/// Figures of packets in order of arrival.
pub(super) fn of(packets: &[RtpPacket], bits: u32) -> SequenceFigures {
    let smallest = packets.iter().map(|packet| packet.sequence).min().unwrap_or(0);
    let numbers: Vec<u64> = packets.iter().map(|packet| packet.sequence - smallest).collect();
    let (Some(first), Some(largest)) = (numbers.first(), numbers.iter().max()) else {
        return SequenceFigures { bits, ..SequenceFigures::default() };
    };
    let expected = largest + 1;
    let loss = loss_pattern(&loss_runs(numbers.iter().copied(), expected), expected);
    let copies = duplication(&numbers);
    let order = reordering_of_numbers(&numbers);
    SequenceFigures {
        bits,
        expected,
        received: numbers.len() as u64,
        unique: copies.unique,
        lost: loss.lost,
        loss_share: loss.loss_share.unwrap_or(0.0),
        cumulative_lost: (expected - first).cast_signed() - (numbers.len() as u64).cast_signed(),
        loss_periods: loss.periods,
        loss_period_lengths: loss.period_lengths,
        loss_distances: loss.distances,
        duplicate: copies.duplicate,
        replicated: copies.replicated,
        reordered: order.reordered,
        reordered_share: order.ratio.unwrap_or(0.0),
        reordering_extents: order.extents,
    }
}

/// First copies in the order of their numbers: mostly the packets as they came.
pub(super) fn in_order(packets: &[RtpPacket]) -> Cow<'_, [RtpPacket]> {
    if packets.windows(2).all(|pair| pair[0].sequence < pair[1].sequence) {
        return Cow::Borrowed(packets);
    }
    let mut sorted = packets.to_vec();
    // Stable, so of the copies the first to come stays first.
    sorted.sort_by_key(|packet| packet.sequence);
    sorted.dedup_by_key(|packet| packet.sequence);
    Cow::Owned(sorted)
}
