//! What a relay keeps of the datagrams that it carried.

use super::log::{Class, Record, Release};
use quaver_arrivals::path::direction::Direction;
use serde::Serialize;
use std::io::Write;
use std::net::SocketAddr;

/// Where records go.
pub enum Keep {
    /// Nowhere: only totals are kept.
    Totals,
    /// Into [`Report::records`].
    Memory,
    /// As a line of JSON each.
    Lines(Box<dyn Write + Send>),
}

/// What a relay saw and did, one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Test packets that arrived.
    pub arrived: u64,
    /// Of these, dropped by a rule.
    pub dropped: u64,
    /// Copies sent on, first ones included.
    pub sent_on: u64,
    /// Of these, beyond the first.
    pub copies: u64,
    /// Of these, with flipped bits.
    pub corrupted: u64,
    /// Of these, let go by a time-out or a sentinel.
    pub let_go: u64,
    /// Copies that the system refused to send.
    pub failed: u64,
    /// Copies that still waited at the end.
    pub waiting: u64,
    /// Sentinels.
    pub sentinels: u64,
    /// Other datagrams.
    pub others: u64,
}

/// Totals of both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct BothTotals {
    /// From clients to the server.
    pub up: Totals,
    /// From the server to clients.
    pub down: Totals,
}

impl BothTotals {
    pub(super) fn add(&mut self, record: &Record) {
        let totals = match record.direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        };
        match record.class {
            Class::Test => {}
            Class::Sentinel => return totals.sentinels += 1,
            Class::Other => return totals.others += 1,
        }
        totals.arrived += 1;
        totals.dropped += u64::from(record.dropped_by.is_some());
        totals.waiting += u64::from(record.waiting);
        for departure in &record.left {
            if departure.failed {
                totals.failed += 1;
                continue;
            }
            totals.sent_on += 1;
            totals.copies += u64::from(departure.copy > 0);
            totals.corrupted += u64::from(!record.flipped.is_empty());
            totals.let_go += u64::from(matches!(departure.released, Release::TimeOut | Release::Sentinel));
        }
    }
}

/// What a relay leaves.
#[derive(Debug, Default)]
pub struct Report {
    /// The story of each datagram, flow by flow, each in order of arrival as far as stories ended in it.
    pub records: Vec<Record>,
    /// Counts.
    pub totals: BothTotals,
    /// The client's socket of each flow.
    pub clients: Vec<SocketAddr>,
    /// Datagrams of clients beyond the most that are served.
    pub refused: u64,
    /// Datagrams that the kernel dropped before the relay could read them: of these it knows nothing.
    pub unread: u64,
}
