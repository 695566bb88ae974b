//! What a right receiver must count, worked out from the relay's log by brute force and from the definitions.

use super::log::{Class, Departure, Direction, Record};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Counts of one direction of one flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Truth {
    /// Test packets that arrived at the relay: what was sent, if nothing was lost on the way to it.
    pub sent: u64,
    /// Test packets that the relay sent on, each copy counted.
    pub delivered: u64,
    /// Of these, copies with a flipped bit.
    pub corrupted: u64,
    /// Sent, and no copy delivered intact.
    pub lost: u64,
    /// Intact copies delivered beyond the first of each packet.
    pub duplicates: u64,
    /// First intact copies that left after one with a higher sequence number (RFC 4737, section 3.3).
    pub reordered: u64,
}

/// Departures of test packets in the order in which they left, with their records.
pub fn departures(records: &[Record], flow: u32, direction: Direction) -> Vec<(&Record, Departure)> {
    let mut left: Vec<_> = of_lane(records, flow, direction)
        .flat_map(|record| record.left.iter().filter(|one| !one.failed).map(move |one| (record, *one)))
        .collect();
    left.sort_unstable_by_key(|(_, departure)| departure.order);
    left
}

fn of_lane(records: &[Record], flow: u32, direction: Direction) -> impl Iterator<Item = &Record> {
    let here = move |record: &&Record| record.flow == flow && record.direction == direction;
    records.iter().filter(here).filter(|record| record.class == Class::Test)
}

impl Truth {
    /// Counts for a receiver that tells every corrupted packet, of a sender whose sequence numbers go up from
    /// `first` in steps of 1 and begin again at `-2^31` after `2^31 - 1`.
    pub fn of(records: &[Record], flow: u32, direction: Direction, first: i32) -> Self {
        let place = |sequence: i64| u64::from((sequence as i32 as u32).wrapping_sub(first as u32));
        let sent: BTreeSet<u64> =
            of_lane(records, flow, direction).filter_map(|record| record.sequence).map(place).collect();
        let left = departures(records, flow, direction);
        let mut truth = Self { sent: sent.len() as u64, delivered: left.len() as u64, ..Self::default() };
        let mut copies: BTreeMap<u64, u64> = BTreeMap::new();
        let mut highest = None;
        for (record, departure) in left {
            if !record.flipped.is_empty() {
                truth.corrupted += 1;
                continue;
            }
            let Some(sequence) = departure.sequence.map(place) else { continue };
            let seen = copies.entry(sequence).or_default();
            *seen += 1;
            if *seen > 1 {
                truth.duplicates += 1;
            } else if highest > Some(sequence) {
                truth.reordered += 1;
            }
            highest = highest.max(Some(sequence));
        }
        truth.lost = sent.iter().filter(|sequence| !copies.contains_key(sequence)).count() as u64;
        truth
    }
}
