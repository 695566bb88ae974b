//! Reorder density (RFC 5236).

use super::duplication::first_copies;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// DT of tests: a receiver that holds 32 packets, 0.6 s of a call, puts all within it into order. RFC 5236 leaves the
/// choice to the application.
pub const DISPLACEMENT_THRESHOLD: u64 = 32;

/// Reorder density: how far packets are displaced (RFC 5236, section 3.6).
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ReorderDensity {
    /// DT: a packet displaced by more than this is taken as lost.
    pub displacement_threshold: u64,
    /// Count of packets for each displacement: receive index minus number. Below 0 it came early, above 0 late.
    pub counts: BTreeMap<i64, u64>,
    /// Packets counted.
    pub packets: u64,
    /// Copies, and packets displaced by more than the threshold.
    pub discarded: u64,
}

impl ReorderDensity {
    /// Part of the packets with this displacement; none where no packet was counted.
    pub fn density(&self, displacement: i64) -> Option<f64> {
        let count = self.counts.get(&displacement).copied().unwrap_or(0);
        (self.packets > 0).then(|| count as f64 / self.packets as f64)
    }
}

/// The packets that reorder density looks at: those about to be indexed, and those that came early.
struct Indexing {
    /// First copies that are not in the window yet.
    arrivals: std::vec::IntoIter<u64>,
    /// The next packets in order of arrival.
    window: VecDeque<u64>,
    /// All numbers of the window, and of early packets whose turn has not come.
    present: BTreeSet<u64>,
    index: u64,
    /// No number is left that an index could stand for.
    exhausted: bool,
}

impl Indexing {
    /// Takes the next packet into the window that is not given up; false where there is none.
    ///
    /// The index passes a number only if its packet has come or is given up, so a smaller one comes after that.
    fn take_in(&mut self) -> bool {
        let index = self.index;
        let next = if self.exhausted { None } else { self.arrivals.find(|&number| number >= index) };
        self.present.extend(next);
        self.window.extend(next);
        next.is_some()
    }

    /// Moves the index on to a number whose packet is here: those between have not come in time and count as lost.
    fn skip_lost(&mut self) {
        if let Some(&next) = self.present.range(self.index..).next() {
            self.index = next;
        }
    }

    fn advance(&mut self) {
        self.present.remove(&self.index);
        match self.index.checked_add(1) {
            Some(next) => self.index = next,
            None => self.exhausted = true,
        }
    }
}

/// Reorder density of numbers in order of arrival, with the displacement threshold DT (RFC 5236, section 4.1).
///
/// Receive indices begin with the smallest number in sight and pass over the lost ones, that is those which are not
/// among the next DT arrivals either.
pub fn reorder_density(arrivals: &[u64], displacement_threshold: u64) -> ReorderDensity {
    let mut result = ReorderDensity { displacement_threshold, ..ReorderDensity::default() };
    let mut indexing = Indexing {
        arrivals: first_copies(arrivals).into_iter(),
        window: VecDeque::new(),
        present: BTreeSet::new(),
        index: 0,
        exhausted: false,
    };
    while indexing.window.len() as u64 <= displacement_threshold && indexing.take_in() {}
    while let Some(&number) = indexing.window.front() {
        indexing.skip_lost();
        indexing.window.pop_front();
        let displacement = i128::from(indexing.index) - i128::from(number);
        if displacement.unsigned_abs() <= u128::from(displacement_threshold) {
            let end = if displacement < 0 { i64::MIN } else { i64::MAX };
            *result.counts.entry(i64::try_from(displacement).unwrap_or(end)).or_default() += 1;
            result.packets += 1;
            indexing.advance();
        } else {
            indexing.present.remove(&number);
        }
        indexing.take_in();
    }
    result.discarded = arrivals.len() as u64 - result.packets;
    result
}

#[cfg(test)]
mod tests;
