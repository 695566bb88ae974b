//! What became of every packet: each that was seen was captured, or dropped at a place that has a name.

use super::Rings;
use super::files::now_ns;
use super::write::{Fates, Written};
use quaver_measure::host::counters::{InterfaceCounters, PathCounters};
use quaver_measure::host::root::HostRoot;
use quaver_measure::stamp::capture::{TapCounts, TapInterface};
use quaver_store::pcapng::InterfaceStatistics;
use std::path::PathBuf;
use std::time::Duration;

/// One interface.
#[derive(Clone, Debug)]
pub(super) struct InterfaceCount {
    pub(super) name: String,
    pub(super) link_type: u16,
    /// What the packet socket counted.
    pub(super) tap: TapCounts,
    /// What the writing thread did.
    pub(super) fates: Fates,
    /// What the interface counted meanwhile; none for `any`, or where `/proc` does not tell.
    pub(super) counters: Option<InterfaceCounters>,
}

/// A place where packets were dropped, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Its name in JSON.
    pub(super) name: &'static str,
    /// What it is, for people.
    pub(super) words: &'static str,
    pub(super) packets: u64,
}

impl InterfaceCount {
    /// Packets that came to the packet socket past the filter in the kernel.
    pub(super) fn seen(&self) -> u64 {
        self.tap.ring.seen
    }

    /// Where packets were dropped that were seen. With `captured` they add up to `seen`.
    pub(super) fn places(&self) -> [Place; 7] {
        let fates = &self.fates;
        let place = |name, words, packets| Place { name, words, packets };
        let handled = fates.captured + fates.filtered + fates.direction + fates.after_limit + fates.unwritten;
        [
            place("ring", "no room in the ring", self.tap.ring.dropped),
            place("filter", "filter that runs here", fates.filtered),
            place("direction", "went the other way", fates.direction),
            place("after_limit", "after the limit", fates.after_limit),
            place("unwritten", "could not be written", fates.unwritten),
            place("undecoded", "not understood in the ring", self.tap.delivered.saturating_sub(handled)),
            place("unaccounted", "never handed over", self.tap.unaccounted),
        ]
    }

    /// Packets that the filter in the kernel kept out: what the interface counted and the socket did not see. The
    /// counters are read a moment before and after, so this is near the truth and not in the sum.
    pub(super) fn kept_out(&self) -> Option<u64> {
        let counters = self.counters.as_ref()?;
        Some((counters.rx_packets + counters.tx_packets).saturating_sub(self.seen()))
    }
}

/// What a capture did.
pub(super) struct Accounts {
    pub(super) interfaces: Vec<InterfaceCount>,
    pub(super) took: Duration,
    pub(super) began_ns: i64,
    pub(super) ended_ns: i64,
    pub(super) files: Vec<PathBuf>,
    /// What should be known.
    pub(super) notes: Vec<String>,
    before: PathCounters,
}

impl Accounts {
    /// Reads what the interfaces have counted so far.
    pub(super) fn begin(interfaces: &[TapInterface]) -> Self {
        let before = PathCounters::read(&HostRoot::system());
        let count = |interface: &TapInterface| InterfaceCount {
            name: interface.name.clone(),
            link_type: interface.link.link_type(),
            tap: TapCounts::default(),
            fates: Fates::default(),
            counters: None,
        };
        Self {
            interfaces: interfaces.iter().map(count).collect(),
            took: Duration::ZERO,
            began_ns: now_ns(),
            ended_ns: 0,
            files: Vec::new(),
            notes: Vec::new(),
            before,
        }
    }

    /// Takes what each thread and the kernel counted.
    pub(super) fn finish(&mut self, rings: &Rings, written: &Written) {
        self.ended_ns = now_ns();
        let counted = PathCounters::read(&HostRoot::system()).since(&self.before);
        for ((interface, tap), fates) in self.interfaces.iter_mut().zip(rings).zip(&written.fates) {
            interface.tap = *tap;
            interface.fates = *fates;
            interface.counters = counted.interfaces.get(&interface.name).copied();
        }
        self.notes.extend(written.notes.iter().cloned());
    }

    /// Packets captured.
    pub(super) fn captured(&self) -> u64 {
        self.interfaces.iter().map(|interface| interface.fates.captured).sum()
    }

    /// Packets that came when nothing could be written any more.
    pub(super) fn unwritten(&self) -> u64 {
        self.interfaces.iter().map(|interface| interface.fates.unwritten).sum()
    }

    /// As the file keeps it.
    pub(super) fn statistics(&self) -> Vec<InterfaceStatistics> {
        let of = |interface: &InterfaceCount| InterfaceStatistics {
            taken_ns: self.ended_ns,
            start_ns: Some(self.began_ns),
            end_ns: Some(self.ended_ns),
            received: interface.counters.map(|counters| counters.rx_packets + counters.tx_packets),
            dropped_by_interface: interface.counters.map(|counters| counters.rx_dropped),
            accepted_by_filter: Some(interface.seen() - interface.fates.filtered.min(interface.seen())),
            dropped_by_os: Some(interface.tap.ring.dropped),
            delivered: Some(interface.fates.captured),
            comment: Some(sentence(interface)),
            ..InterfaceStatistics::default()
        };
        self.interfaces.iter().map(of).collect()
    }
}

/// `seen 10 = captured 7 + no room in the ring 3`.
fn sentence(interface: &InterfaceCount) -> String {
    let mut text = format!("seen {} = captured {}", interface.seen(), interface.fates.captured);
    for place in interface.places().iter().filter(|place| place.packets > 0) {
        text += &format!(" + {} {}", place.words, place.packets);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_measure::stamp::capture::RingStatistics;

    #[test]
    fn places_and_captured_add_up_to_what_was_seen() {
        let ring = RingStatistics { seen: 100, dropped: 10, freezes: 1 };
        let tap = TapCounts { ring, delivered: 88, unaccounted: 2 };
        let fates = Fates {
            captured: 50,
            filtered: 20,
            direction: 7,
            after_limit: 6,
            unwritten: 4,
            ..Fates::default()
        };
        let count = InterfaceCount { name: "e".to_owned(), link_type: 1, tap, fates, counters: None };
        let dropped: u64 = count.places().iter().map(|place| place.packets).sum();
        assert_eq!(dropped + fates.captured, count.seen());
        assert_eq!(count.kept_out(), None);
        let text = sentence(&count);
        assert!(text.starts_with("seen 100 = captured 50 + no room in the ring 10 + "), "{text}");
        let counters = InterfaceCounters { rx_packets: 120, tx_packets: 5, ..InterfaceCounters::default() };
        assert_eq!(InterfaceCount { counters: Some(counters), ..count }.kept_out(), Some(25));
    }
}
