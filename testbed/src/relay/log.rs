//! What happened to each datagram: the truth that measurements are held against.

use quaver_arrivals::path::direction::Direction;
use serde::Serialize;
use std::collections::VecDeque;

/// What a datagram was taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// A test packet.
    Test,
    /// The end mark of a Jitlat flow.
    Sentinel,
    /// Passed untouched.
    Other,
}

/// What let a datagram leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// Its time had come.
    Due,
    /// As many later packets had left as it waited for.
    Passed,
    /// It was on hold and nothing arrived for as long as the script says.
    TimeOut,
    /// It was on hold and a sentinel arrived.
    Sentinel,
}

/// One copy of a datagram that left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Departure {
    /// Place among all that left in this flow and direction, from 0.
    pub order: u64,
    /// When, in nanoseconds since the relay's start.
    pub at_ns: u64,
    /// 0 for the first, 1 and so on for further copies.
    pub copy: u32,
    /// Sequence number as it left; differs from that which arrived when bits of it were flipped.
    pub sequence: Option<i64>,
    /// What let it leave.
    pub released: Release,
    /// The system refused to send it.
    pub failed: bool,
}

/// The story of one datagram that arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Record {
    /// Counts the clients' sockets from 0.
    pub flow: u32,
    /// Which way it goes.
    pub direction: Direction,
    /// What it was taken for.
    pub class: Class,
    /// Arrival number among the test packets of this flow and direction, from 0; none for what passes uncounted.
    pub number: Option<u64>,
    /// Sequence number as it arrived.
    pub sequence: Option<i64>,
    /// Length in bytes.
    pub octets: usize,
    /// When, in nanoseconds since the relay's start.
    pub arrived_ns: u64,
    /// Place of the rule that dropped it.
    pub dropped_by: Option<usize>,
    /// Bits flipped, counted from the most significant bit of its first byte.
    pub flipped: Vec<usize>,
    /// Its time of sending was written over.
    pub restamped: bool,
    /// What left of it.
    pub left: Vec<Departure>,
    /// Copies that have yet to leave. 0 at last unless the relay was stopped before.
    pub waiting: u32,
}

/// Records of one flow and direction, of which the oldest may be taken when their story has ended.
#[derive(Debug, Default)]
pub struct Story {
    records: VecDeque<Record>,
    taken: usize,
}

impl Story {
    /// Adds a record; its place, for [`Self::at`].
    pub fn push(&mut self, record: Record) -> usize {
        self.records.push_back(record);
        self.taken + self.records.len() - 1
    }

    /// The record at a place. Not to be asked for one that was taken.
    pub fn at(&mut self, place: usize) -> &mut Record {
        &mut self.records[place - self.taken]
    }

    /// The oldest record if nothing more can happen to it, or in any case when `at_end`.
    pub fn take(&mut self, at_end: bool) -> Option<Record> {
        self.records.front().filter(|record| at_end || record.waiting == 0)?;
        self.taken += 1;
        self.records.pop_front()
    }
}
