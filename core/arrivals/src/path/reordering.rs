//! Packets that came out of order (RFC 4737).
//!
//! Only first copies count. A packet is reordered if its number is smaller than NextExp, which is one more than the
//! largest number that came before and so never decreases (section 3.3). Positions of arrival count from 0.

use super::arrival::Arrival;
use super::duplication::first_copies;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// One reordered packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Reordered {
    /// Its number.
    pub sequence: u64,
    /// Position of its arrival among the first copies.
    pub position: usize,
    /// Position of the earliest packet that came before it and has a larger number: where the order was broken.
    pub discontinuity: usize,
    /// The largest n for which it is n-reordered: how many packets with larger numbers came right before it
    /// (section 5). 0 if the packet right before it has a smaller number.
    pub n: u64,
    /// How many packets with larger numbers came before it: what a receiver has to hold to put it into its place
    /// (byte offset, section 4.4, for packets of one size).
    pub offset_packets: u64,
}

impl Reordered {
    /// Reordering extent: positions from the discontinuity to its arrival (section 4.2).
    pub fn extent(&self) -> u64 {
        (self.position - self.discontinuity) as u64
    }
}

/// Reordering of a test. Histograms are from a value to the count of packets (or gaps, or runs) that have it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Reordering {
    /// Different packets that arrived.
    pub received: u64,
    /// Reordered packets among them.
    pub reordered: u64,
    /// Part of the received packets that was reordered (section 4.1); none where nothing arrived.
    pub ratio: Option<f64>,
    /// Extents (section 4.2): Jitlat's out-of-sequence distances.
    pub extents: BTreeMap<u64, u64>,
    /// The largest n of each reordered packet (section 5).
    pub n_reordering: BTreeMap<u64, u64>,
    /// Byte offset in packets (section 4.4).
    pub offsets_packets: BTreeMap<u64, u64>,
    /// Gaps: packets from one reordering discontinuity to the next (section 4.5).
    pub gaps: BTreeMap<u64, u64>,
    /// Reordering-free runs (section 4.6): packets in order before each reordered one, from length to count. What
    /// follows the last reordered packet is no run.
    pub runs: BTreeMap<u64, u64>,
    /// Late time offsets (section 4.3): by how much a reordered packet came after the packet where the order was
    /// broken. Largest; none without reordering or without times.
    pub max_late_time_ns: Option<u64>,
    /// Their mean.
    pub mean_late_time_ns: Option<f64>,
}

impl Reordering {
    /// Part of the received packets that is n-reordered (section 5; with n = 3, packets that make a TCP sender
    /// retransmit needlessly). None where nothing arrived or n is 0.
    pub fn degree_of_n_reordering(&self, n: u64) -> Option<f64> {
        let so_much: u64 = self.n_reordering.range(n..).map(|(_, count)| count).sum();
        (self.received > 0 && n > 0).then(|| so_much as f64 / self.received as f64)
    }

    /// r: count of the reordering-free runs (section 4.6).
    pub fn run_count(&self) -> u64 {
        self.runs.values().sum()
    }

    /// Largest byte offset, for packets of one size.
    pub fn max_offset_bytes(&self, packet_bytes: u64) -> Option<u64> {
        self.offsets_packets.keys().next_back().map(|packets| packets.saturating_mul(packet_bytes))
    }
}

/// Finds the reordered packets among first copies, in order of arrival. O(n log n).
pub fn reordered(firsts: &[u64]) -> Vec<Reordered> {
    let mut records: Vec<(u64, usize)> = Vec::new();
    let mut rising: Vec<(u64, usize)> = Vec::new();
    let mut found = Vec::new();
    for (position, &sequence) in firsts.iter().enumerate() {
        // `rising` ends with the nearest earlier packet that has a smaller number, once larger ones are gone.
        while rising.last().is_some_and(|&(earlier, _)| earlier > sequence) {
            rising.pop();
        }
        let larger_from = rising.last().map_or(0, |&(_, at)| at + 1);
        rising.push((sequence, position));
        if records.last().is_none_or(|&(largest, _)| sequence > largest) {
            records.push((sequence, position));
            continue;
        }
        // Packets in order rise in number, so the first larger one of all is the first larger one of these.
        let smaller_in_order = records.partition_point(|&(record, _)| record < sequence);
        found.push(Reordered {
            sequence,
            position,
            discontinuity: records[smaller_in_order].1,
            n: (position - larger_from) as u64,
            offset_packets: (position - smaller_in_order) as u64,
        });
    }
    leave_out_smaller_reordered(&mut found);
    found
}

/// Takes the reordered packets with smaller numbers that came before from each packet's offset: they have left the
/// receiver's buffer. A binary indexed tree over the ranks of the reordered packets counts them.
fn leave_out_smaller_reordered(found: &mut [Reordered]) {
    let mut ranks: Vec<u64> = found.iter().map(|packet| packet.sequence).collect();
    ranks.sort_unstable();
    let mut tree = vec![0u64; ranks.len() + 1];
    for packet in found {
        let rank = ranks.partition_point(|&sequence| sequence < packet.sequence);
        let mut at = rank;
        while at > 0 {
            packet.offset_packets -= tree[at];
            at &= at - 1;
        }
        at = rank + 1;
        while at < tree.len() {
            tree[at] += 1;
            at += at & at.wrapping_neg();
        }
    }
}

/// Reordering by numbers alone, in order of arrival; further copies are left out.
pub fn reordering_of_numbers(arrivals: &[u64]) -> Reordering {
    let firsts = first_copies(arrivals);
    let found = reordered(&firsts);
    summarize(firsts.len(), &found)
}

/// Reordering with late times. `arrivals` in order of arrival, first copies only.
pub fn reordering(arrivals: &[Arrival]) -> Reordering {
    let firsts: Vec<u64> = arrivals.iter().map(|arrival| arrival.sequence).collect();
    let found = reordered(&firsts);
    let mut result = summarize(firsts.len(), &found);
    // Stamps may run backwards where the clock was set; a packet is then not late by less than nothing.
    let late = |packet: &Reordered| {
        let broken_ns = arrivals[packet.discontinuity].received_ns;
        let apart_ns = i128::from(arrivals[packet.position].received_ns) - i128::from(broken_ns);
        u64::try_from(apart_ns).unwrap_or(0)
    };
    result.max_late_time_ns = found.iter().map(late).max();
    if !found.is_empty() {
        let sum: u128 = found.iter().map(|packet| u128::from(late(packet))).sum();
        result.mean_late_time_ns = Some(sum as f64 / found.len() as f64);
    }
    result
}

fn summarize(received: usize, found: &[Reordered]) -> Reordering {
    let mut result = Reordering {
        received: received as u64,
        reordered: found.len() as u64,
        ratio: (received > 0).then(|| found.len() as f64 / received as f64),
        ..Reordering::default()
    };
    let mut after = 0;
    for packet in found {
        *result.extents.entry(packet.extent()).or_default() += 1;
        *result.n_reordering.entry(packet.n).or_default() += 1;
        *result.offsets_packets.entry(packet.offset_packets).or_default() += 1;
        *result.runs.entry((packet.position - after) as u64).or_default() += 1;
        after = packet.position + 1;
    }
    result.gaps = gaps(found);
    result
}

/// Distances between successive positions where the order was broken. Several packets may be late behind one.
fn gaps(found: &[Reordered]) -> BTreeMap<u64, u64> {
    let mut broken: Vec<usize> = found.iter().map(|packet| packet.discontinuity).collect();
    broken.sort_unstable();
    broken.dedup();
    let mut gaps = BTreeMap::new();
    for pair in broken.windows(2) {
        *gaps.entry((pair[1] - pair[0]) as u64).or_default() += 1;
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// (number, extent, n, offset) of each reordered packet.
    fn figures(arrivals: &[u64]) -> Vec<(u64, u64, u64, u64)> {
        let found = reordered(&first_copies(arrivals));
        found.iter().map(|p| (p.sequence, p.extent(), p.n, p.offset_packets)).collect()
    }

    #[test]
    fn worked_examples_of_rfc_4737() {
        assert_eq!(figures(&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10]), [(4, 4, 4, 4)]);
        assert_eq!(figures(&[1, 2, 3, 4, 7, 5, 6, 8, 9, 10]), [(5, 1, 1, 1), (6, 2, 0, 1)]);
        assert_eq!(figures(&[1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11]), [(4, 4, 4, 4), (5, 5, 0, 4), (6, 6, 0, 4)]);
        let arrivals = [1, 2, 3, 6, 7, 4, 5, 8, 9, 10, 12, 13, 11, 14, 15, 16];
        assert_eq!(figures(&arrivals), [(4, 2, 2, 2), (5, 3, 0, 2), (11, 2, 2, 2)]);
        let result = reordering_of_numbers(&arrivals);
        assert_eq!(result.runs, BTreeMap::from([(0, 1), (5, 2)]));
        assert_eq!((result.run_count(), square_sum(&result)), (3, 50));
        // The order is broken at 6 (position 3) and at 12 (position 10).
        assert_eq!(result.gaps, BTreeMap::from([(7, 1)]));
        assert_eq!(result.ratio, Some(3.0 / 16.0));
        assert_eq!(result.degree_of_n_reordering(1), Some(2.0 / 16.0));
        assert_eq!(result.degree_of_n_reordering(2), Some(2.0 / 16.0));
        assert_eq!(result.degree_of_n_reordering(3), Some(0.0));
        assert_eq!(result.max_offset_bytes(80), Some(160));
    }

    #[test]
    fn nothing_in_order_copies_and_the_largest_number() {
        let none = reordering_of_numbers(&[]);
        assert_eq!(
            (none.ratio, none.degree_of_n_reordering(1), none.max_offset_bytes(1)),
            (None, None, None)
        );
        assert_eq!(figures(&[0, 1, 1, 0, 3, 3, u64::MAX]), []);
        // A second copy of 2 that comes late is no reordering; the first copy of 1 is.
        assert_eq!(figures(&[0, 2, 2, 1, 2]), [(1, 1, 1, 1)]);
        assert_eq!(figures(&[u64::MAX, u64::MAX - 1]), [(u64::MAX - 1, 1, 1, 1)]);
    }

    #[test]
    fn late_times_run_from_where_the_order_broke() {
        let arrival = |sequence, received_ns| Arrival { sequence, sent_ns: 0, received_ns };
        let result = reordering(&[arrival(0, 10), arrival(3, 20), arrival(1, 25), arrival(2, 90)]);
        assert_eq!((result.max_late_time_ns, result.mean_late_time_ns), (Some(70), Some(37.5)));
        let set_back = reordering(&[arrival(1, i64::MAX), arrival(0, i64::MIN)]);
        assert_eq!(set_back.max_late_time_ns, Some(0));
        assert_eq!(reordering(&[arrival(0, 1)]).max_late_time_ns, None);
    }

    #[test]
    fn many_packets_in_reverse_blocks() {
        // Blocks of 1,000 packets come backwards: packet i of a block (from 0) has i larger ones before it.
        let arrivals: Vec<u64> = (0..1_000_000).map(|at| at / 1000 * 1000 + (999 - at % 1000)).collect();
        let found = reordered(&arrivals);
        assert_eq!(found.len(), 999_000);
        assert!(found.iter().all(|p| p.n == p.extent() && p.offset_packets == p.position as u64 % 1000));
    }

    /// Word by word from sections 3.3, 4.2, 5 and 4.4.
    fn twin(firsts: &[u64]) -> Vec<(u64, u64, u64, u64)> {
        let mut next_expected = 0;
        let mut found = Vec::new();
        for i in 0..firsts.len() {
            let s = firsts[i];
            if s >= next_expected {
                next_expected = s + 1;
                continue;
            }
            let j = (0..i).find(|&j| firsts[j] > s).expect("a larger number came before");
            let n = (0..=i).rev().find(|&n| (i - n..i).all(|j| firsts[j] > s)).expect("n = 0 always holds");
            let larger = (0..i).filter(|&k| firsts[k] > s).count();
            found.push((s, (i - j) as u64, n as u64, larger as u64));
        }
        found
    }

    /// The counting of section 4.6: a run ends at each reordered packet.
    /// q: sum of the squared lengths of the reordering-free runs (section 4.6).
    fn square_sum(result: &Reordering) -> u128 {
        let squared = |(&length, &count): (&u64, &u64)| u128::from(length).pow(2) * u128::from(count);
        result.runs.iter().map(squared).sum()
    }

    fn run_twin(firsts: &[u64]) -> (u64, u128) {
        let (mut next_expected, mut a, mut r, mut q) = (0, 0u128, 0, 0);
        for &s in firsts {
            if s >= next_expected {
                next_expected = s + 1;
                a += 1;
            } else {
                r += 1;
                q += a * a;
                a = 0;
            }
        }
        (r, q)
    }

    proptest! {
        #[test]
        fn agrees_with_the_definitions(arrivals in prop::collection::vec(0u64..40, 0..60)) {
            let firsts = first_copies(&arrivals);
            prop_assert_eq!(figures(&arrivals), twin(&firsts));
            let result = reordering_of_numbers(&arrivals);
            prop_assert_eq!((result.run_count(), square_sum(&result)), run_twin(&firsts));
            for n in 1..5 {
                let m = twin(&firsts).iter().filter(|packet| packet.2 >= n).count();
                let degree = (!firsts.is_empty()).then(|| m as f64 / firsts.len() as f64);
                prop_assert_eq!(result.degree_of_n_reordering(n), degree);
            }
        }
    }
}
