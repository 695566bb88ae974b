//! What a right receiver must count, worked out from the relay's log by brute force and from the definitions.

use super::log::{Class, Departure, Record};
use super::packet::Field;
use quaver_arrivals::path::direction::Direction;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers that Jitlat's packets can have: after 0xFFFF_FFFE comes 0, since 0xFFFF_FFFF is the sentinel.
const NUMBERS: i64 = 0xffff_ffff;

/// What a receiver knows of the flow, and so can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader {
    /// Number of the flow's first packet in a count without end.
    pub first: u64,
    /// How many packets the flow has; a number beyond is impossible.
    pub packets: u64,
    /// Packets carry a session tag: one with a wrong tag is somebody else's.
    pub tagged: bool,
    /// Packets carry a code over all their octets: any wrong bit makes a packet invalid.
    pub keyed: bool,
}

impl Reader {
    /// Of a flow from 0, with a tag and no key: as Quaver sends them.
    pub fn of(packets: u64) -> Self {
        Self { first: 0, packets, tagged: true, keyed: false }
    }

    /// The place in the flow of a packet with this number; none if it has none.
    fn place(&self, number: i64) -> Option<u64> {
        let number = i64::from(number as i32 as u32);
        let first = (self.first % NUMBERS as u64) as i64;
        let place = (number - first).rem_euclid(NUMBERS) as u64;
        (number < NUMBERS && place < self.packets).then_some(place)
    }
}

/// Counts of one direction of one flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Truth {
    /// Different test packets that arrived at the relay: what was sent, if nothing was lost on the way to it.
    pub sent: u64,
    /// Test packets that the relay sent on, each copy counted.
    pub delivered: u64,
    /// Of these, with a wrong tag.
    pub foreign: u64,
    /// Of these, with wrong bits that the receiver can tell.
    pub invalid: u64,
    /// Packets of the flow of which no valid copy was delivered.
    pub lost: u64,
    /// Valid copies delivered beyond the first of each packet.
    pub duplicates: u64,
    /// First valid copies that left after one with a higher number (RFC 4737, section 3.3).
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

fn is_in(field: Field, bit: usize, record: &Record) -> bool {
    field.range(record.octets).contains(&(bit / 8))
}

impl Truth {
    /// Counts for a receiver that makes of each packet what can be made of it.
    pub fn of(records: &[Record], flow: u32, direction: Direction, reader: &Reader) -> Self {
        let sent: BTreeSet<i64> =
            of_lane(records, flow, direction).filter_map(|record| record.sequence).collect();
        let mut truth = Self { sent: sent.len() as u64, ..Self::default() };
        let mut copies: BTreeMap<u64, u64> = BTreeMap::new();
        for (record, departure) in departures(records, flow, direction) {
            truth.delivered += 1;
            let wrong_tag = record.flipped.iter().any(|bit| is_in(Field::Tag, *bit, record));
            if reader.tagged && wrong_tag {
                truth.foreign += 1;
                continue;
            }
            let told = reader.keyed && !record.flipped.is_empty();
            let place = departure.sequence.and_then(|number| reader.place(number));
            let Some(place) = place.filter(|_| !told) else {
                truth.invalid += 1;
                continue;
            };
            let is_late = copies.last_key_value().is_some_and(|(highest, _)| *highest > place);
            let seen = copies.entry(place).or_default();
            *seen += 1;
            truth.duplicates += u64::from(*seen > 1);
            truth.reordered += u64::from(*seen == 1 && is_late);
        }
        truth.lost = reader.packets - copies.len() as u64;
        truth
    }
}
