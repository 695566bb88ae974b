//! What became of every packet: each that was seen was captured, or dropped at a place that has a name.

use super::Rings;
use super::fates::Fates;
use crate::record::{RingStatistics, Tap, TapCounts, TapInterface};
use quaver_clock::realtime_ns;
use quaver_host::counters::{InterfaceCounters, PathCounters};
use quaver_host::root::HostRoot;
use quaver_pcapng::InterfaceStatistics;
use std::path::PathBuf;
use std::time::Duration;

/// One interface.
#[derive(Clone, Debug)]
pub(super) struct InterfaceCount {
    pub(super) name: String,
    pub(super) link_type: u16,
    /// What its packet sockets counted, all together and each.
    pub(super) tap: TapCounts,
    pub(super) rings: Vec<TapCounts>,
    /// What the writing thread did.
    pub(super) fates: Fates,
    /// What the interface counted meanwhile; none for `any`, or where `/proc` does not tell.
    pub(super) counters: Option<InterfaceCounters>,
}

/// A place where packets were dropped, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DropSite {
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
    pub(super) fn places(&self) -> [DropSite; 7] {
        let fates = &self.fates;
        let place = |name, words, packets| DropSite { name, words, packets };
        let handled = fates.handled();
        [
            place("ring", "ring full", self.tap.ring.dropped),
            place("filter", "userspace filter", fates.filtered),
            place("direction", "other direction", fates.direction),
            place("after_limit", "after the limit", fates.after_limit),
            place("unwritten", "write failed", fates.unwritten),
            place("undecoded", "undecodable ring entry", self.tap.delivered.saturating_sub(handled)),
            place("unaccounted", "not delivered by the kernel", self.tap.unaccounted),
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
    /// All that was counted at the end.
    counters: PathCounters,
}

impl Accounts {
    /// Reads what the interfaces have counted so far.
    pub(super) fn begin(interfaces: &[TapInterface]) -> Self {
        let before = PathCounters::read(&HostRoot::system());
        let count = |interface: &TapInterface| InterfaceCount {
            name: interface.name.clone(),
            link_type: interface.link.link_type(),
            tap: TapCounts::default(),
            rings: Vec::new(),
            fates: Fates::default(),
            counters: None,
        };
        Self {
            interfaces: interfaces.iter().map(count).collect(),
            took: Duration::ZERO,
            began_ns: realtime_ns(),
            ended_ns: 0,
            files: Vec::new(),
            notes: Vec::new(),
            before,
            counters: PathCounters::default(),
        }
    }

    /// The account of the first file, which begins with the capture.
    pub(super) fn first_file(&self) -> FileAccount {
        FileAccount {
            began_ns: self.began_ns,
            counters: self.before.clone(),
            of: vec![OfInterface::default(); self.interfaces.len()],
        }
    }

    /// Takes what each thread and the kernel counted.
    pub(super) fn finish(&mut self, rings: &Rings, fates: &[Fates]) {
        self.ended_ns = realtime_ns();
        self.counters = PathCounters::read(&HostRoot::system());
        let counted = self.counters.since(&self.before);
        let each = (rings.len() / self.interfaces.len().max(1)).max(1);
        for ((interface, rings), fates) in self.interfaces.iter_mut().zip(rings.chunks(each)).zip(fates) {
            interface.tap = rings.iter().copied().sum();
            interface.rings = rings.to_vec();
            interface.fates = *fates;
            interface.counters = counted.interfaces.get(&interface.name).copied();
        }
    }

    /// Packets captured.
    pub(super) fn captured(&self) -> u64 {
        self.interfaces.iter().map(|interface| interface.fates.captured).sum()
    }

    /// Packets that came when nothing could be written any more.
    pub(super) fn unwritten(&self) -> u64 {
        self.interfaces.iter().map(|interface| interface.fates.unwritten).sum()
    }

    /// As the last file keeps it: all that the files before it have not told.
    pub(super) fn statistics(&self, told: &FileAccount) -> Vec<InterfaceStatistics> {
        let counters = self.counters.since(&told.counters);
        let rest = self.interfaces.iter().zip(&told.of).map(|(whole, told)| InterfaceCount {
            tap: since(&whole.tap, &told.tap),
            fates: whole.fates.since(&told.fates),
            counters: counters.interfaces.get(&whole.name).map(|of| carried(*of, told.on_the_way, 0)),
            ..whole.clone()
        });
        rest.map(|count| statistics(&count, told.began_ns, self.ended_ns)).collect()
    }
}

/// What was counted of one interface since `earlier`.
fn since(now: &TapCounts, earlier: &TapCounts) -> TapCounts {
    let ring = RingStatistics {
        seen: now.ring.seen.saturating_sub(earlier.ring.seen),
        dropped: now.ring.dropped.saturating_sub(earlier.ring.dropped),
        freezes: now.ring.freezes.saturating_sub(earlier.ring.freezes),
    };
    TapCounts { ring, delivered: now.delivered.saturating_sub(earlier.delivered), ..*now }
}

/// What an interface received, with the packets that were on the way when a file began, and without those on the way when
/// it ended: each packet is told by the file that tells what became of it.
fn carried(counters: InterfaceCounters, before: u64, now: u64) -> InterfaceCounters {
    InterfaceCounters { rx_packets: (counters.rx_packets + before).saturating_sub(now), ..counters }
}

fn statistics(count: &InterfaceCount, began_ns: i64, ended_ns: i64) -> InterfaceStatistics {
    let accepted = count.seen() - count.fates.filtered.min(count.seen());
    InterfaceStatistics {
        taken_ns: ended_ns,
        start_ns: Some(began_ns),
        end_ns: Some(ended_ns),
        // Counters are read at another moment than the socket's; what came to the socket was received.
        received: count.counters.map(|counters| (counters.rx_packets + counters.tx_packets).max(accepted)),
        dropped_by_interface: count.counters.map(|counters| counters.rx_dropped),
        accepted_by_filter: Some(accepted),
        dropped_by_os: Some(count.tap.ring.dropped),
        delivered: Some(count.fates.captured),
        comment: Some(sentence(count)),
        ..InterfaceStatistics::default()
    }
}

/// What files in turn have told. Each tells the packets that came to the writing thread while it was written, and those
/// that were dropped meanwhile; so what all of them tell adds up to what the capture tells at its end.
#[derive(Clone, Debug)]
pub(super) struct FileAccount {
    /// When the file of now began, or the time of its earliest packet, if that is earlier.
    began_ns: i64,
    /// What interfaces had counted then.
    counters: PathCounters,
    /// What was told of each interface.
    of: Vec<OfInterface>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfInterface {
    tap: TapCounts,
    fates: Fates,
    /// Packets that the socket had counted, and that belong to a later file.
    on_the_way: u64,
}

impl FileAccount {
    /// A packet with this time is in the file. It may have come before the file began.
    pub(super) fn has(&mut self, time_ns: i64) {
        self.began_ns = self.began_ns.min(time_ns);
    }

    /// What the file of now has to tell, where another begins.
    pub(super) fn stretch(&mut self, taps: &[Tap], fates: &[Fates]) -> Vec<InterfaceStatistics> {
        let each = (taps.len() / self.of.len().max(1)).max(1);
        let of_ring = |tap: &Tap| tap.statistics().unwrap_or_default();
        let rings: Vec<_> = taps.chunks(each).map(|rings| rings.iter().map(of_ring).sum()).collect();
        let names = taps.iter().step_by(each).map(|tap| tap.interface().name.as_str());
        let counters = PathCounters::read(&HostRoot::system());
        let counted = self.next(names, &rings, fates, &counters);
        self.counters = counters;
        counted
    }

    fn next<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        rings: &[RingStatistics],
        fates: &[Fates],
        counters: &PathCounters,
    ) -> Vec<InterfaceStatistics> {
        let (began_ns, ended_ns) = (self.began_ns, realtime_ns());
        let counters = counters.since(&self.counters);
        let mut counted = Vec::new();
        for (((of, name), ring), now) in self.of.iter_mut().zip(names).zip(rings).zip(fates) {
            let fates = now.since(&of.fates);
            // Packets that are on the way belong to a later file: seen is what came here or never will.
            let dropped = ring.dropped.saturating_sub(of.tap.ring.dropped);
            let freezes = ring.freezes.saturating_sub(of.tap.ring.freezes);
            let seen = fates.handled() + dropped;
            let tap = TapCounts {
                ring: RingStatistics { seen, dropped, freezes },
                delivered: fates.handled(),
                unaccounted: 0,
            };
            of.fates = *now;
            of.tap.ring.seen += seen;
            of.tap.ring.dropped += dropped;
            of.tap.ring.freezes += freezes;
            of.tap.delivered += tap.delivered;
            let on_the_way = ring.seen.saturating_sub(of.tap.ring.seen);
            let counters =
                counters.interfaces.get(name).map(|counters| carried(*counters, of.on_the_way, on_the_way));
            of.on_the_way = on_the_way;
            let count = InterfaceCount {
                name: name.to_owned(),
                link_type: 0,
                tap,
                rings: Vec::new(),
                fates,
                counters,
            };
            counted.push(statistics(&count, began_ns, ended_ns));
        }
        self.began_ns = ended_ns;
        counted
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
        let count = InterfaceCount {
            name: "e".to_owned(),
            link_type: 1,
            tap,
            rings: vec![tap],
            fates,
            counters: None,
        };
        let dropped: u64 = count.places().iter().map(|place| place.packets).sum();
        assert_eq!(dropped + fates.captured, count.seen());
        assert_eq!(count.kept_out(), None);
        let text = sentence(&count);
        assert!(text.starts_with("seen 100 = captured 50 + ring full 10 + "), "{text}");
        let counters = InterfaceCounters { rx_packets: 120, tx_packets: 5, ..InterfaceCounters::default() };
        assert_eq!(InterfaceCount { counters: Some(counters), ..count }.kept_out(), Some(25));
    }

    #[test]
    fn what_files_in_turn_tell_adds_up_and_each_adds_up_by_itself() {
        let ring = |seen, dropped| RingStatistics { seen, dropped, freezes: dropped / 10 };
        let fates = |captured, filtered| Fates { captured, filtered, ..Fates::default() };
        let mut told =
            FileAccount { began_ns: 1, counters: PathCounters::default(), of: vec![OfInterface::default()] };
        let none = PathCounters::default();
        let mut stretch = |seen, dropped, captured, filtered| {
            let names = ["e"].into_iter();
            told.next(names, &[ring(seen, dropped)], &[fates(captured, filtered)], &none).remove(0)
        };
        // Of the 130 seen, 20 are on the way.
        let mut files = vec![stretch(130, 10, 70, 30), stretch(130, 10, 75, 45), stretch(300, 40, 200, 50)];
        assert_eq!(
            files[0].comment.as_deref(),
            Some("seen 110 = captured 70 + ring full 10 + userspace filter 30")
        );
        let whole = InterfaceCount {
            name: "e".to_owned(),
            link_type: 1,
            tap: TapCounts { ring: ring(400, 60), delivered: 340, unaccounted: 0 },
            rings: Vec::new(),
            fates: fates(280, 60),
            counters: None,
        };
        let accounts = Accounts { interfaces: vec![whole], ended_ns: i64::MAX, ..Accounts::begin(&[]) };
        files.extend(accounts.statistics(&told));
        let sum = |of: fn(&InterfaceStatistics) -> Option<u64>| files.iter().filter_map(of).sum::<u64>();
        assert_eq!((sum(|file| file.delivered), sum(|file| file.dropped_by_os)), (280, 60));
        // Seen less what the filter here kept out.
        assert_eq!(sum(|file| file.accepted_by_filter), 400 - 60);
        for pair in files.windows(2) {
            assert_eq!(pair[0].end_ns, pair[1].start_ns);
        }
    }
}
