//! Sequences of packets: successive pairs, copies, reordering, and the line that a constant
//! stream's arrivals follow.

use crate::model::{Layer, MISSING, PacketTable};
use quaver_arrivals::distribution::median;

/// ΔT of one layer in arrival order (Chasing, section III-A) into `into`, which is emptied first. Only pairs of
/// neighbouring rows with successive sequence numbers and both stamps have one. Returns the count of stamps.
pub fn delta_t(packets: &PacketTable, layer: Layer, into: &mut Vec<i64>) -> u64 {
    into.clear();
    let (seq, app) = (&packets.seq, &packets.app_ns);
    let column = packets.column(layer).map(|column| column.before_app_ns.as_slice());
    if column.is_none() && layer != Layer::Application {
        return 0;
    }
    let stamp = |row: usize| match column {
        None => Some(app[row]),
        Some(before) => match before.get(row) {
            Some(&before) if before != MISSING => Some(app[row] - before),
            _ => None,
        },
    };
    let mut stamped = 0;
    let mut previous: Option<(u64, i64)> = None;
    for (row, &number) in seq.iter().enumerate() {
        let now = stamp(row);
        stamped += u64::from(now.is_some());
        if let (Some((before, then)), Some(now)) = (previous, now)
            && before.checked_add(1) == Some(number)
        {
            into.push(now - then);
        }
        previous = now.map(|now| (number, now));
    }
    stamped
}

/// Copies and order of the received packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Different sequence numbers.
    pub distinct: u64,
    /// Copies after the first (RFC 5560).
    pub duplicates: u64,
    /// First copies with a number below the next expected one (RFC 4737, section 3): NextExp never decreases.
    pub reordered: u64,
    /// Numbers from the smallest to the largest, both included.
    pub span: u64,
}

/// Copies and order of packets that arrived as `seq`.
pub fn order(seq: &[u64]) -> Order {
    let (Some(&low), Some(&high)) = (seq.iter().min(), seq.iter().max()) else { return Order::default() };
    let mut result = Order { span: (high - low).saturating_add(1), ..Order::default() };
    let mut seen = NumberSet::new(low, result.span, seq.len());
    let mut next_expected = 0u64;
    for &number in seq {
        if !seen.insert(number) {
            result.duplicates += 1;
            continue;
        }
        result.distinct += 1;
        if number < next_expected {
            result.reordered += 1;
        } else {
            next_expected = number.saturating_add(1);
        }
    }
    result
}

/// A set of numbers: a bit map where the range is dense enough, else a tree (a corrupt number must not make us
/// allocate the range up to it).
enum NumberSet {
    Map { low: u64, bits: Vec<u64> },
    Tree(std::collections::BTreeSet<u64>),
}

impl NumberSet {
    fn new(low: u64, span: u64, count: usize) -> Self {
        let dense = (count as u64).saturating_mul(64).max(1 << 20);
        if span <= dense {
            Self::Map { low, bits: vec![0; (span as usize).div_ceil(64)] }
        } else {
            Self::Tree(std::collections::BTreeSet::new())
        }
    }

    fn insert(&mut self, number: u64) -> bool {
        match self {
            Self::Map { low, bits } => {
                let index = (number - *low) as usize;
                let mask = 1u64 << (index % 64);
                let word = &mut bits[index / 64];
                let new = *word & mask == 0;
                *word |= mask;
                new
            }
            Self::Tree(tree) => tree.insert(number),
        }
    }
}

/// The line that the arrivals of a constant stream follow: `origin + period · (seq - first)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamLine {
    /// Sequence number at the origin.
    pub first_seq: u64,
    /// Typical arrival (median) of that number, CLOCK_MONOTONIC.
    pub origin_ns: f64,
    /// Slope, drift of the sender's clock against ours included.
    pub period_ns: f64,
}

impl StreamLine {
    /// Typical arrival of a number.
    pub fn at(&self, seq: u64) -> i64 {
        let steps = seq.wrapping_sub(self.first_seq) as i64;
        // The product is rounded by itself: an instant since boot has more digits than a float keeps.
        (self.origin_ns.round() as i64).saturating_add((steps as f64 * self.period_ns).round() as i64)
    }
}

const BLOCKS: usize = 64;

/// Fits the line to arrivals, robustly: medians of residuals in 64 blocks, slope by Theil and Sen (the median of
/// the slopes of all pairs of blocks), intercept by the median of all residuals. `period_ns` is the first guess
/// where it is known. None for fewer than two different numbers.
pub fn fit_line(seq: &[u64], app_ns: &[i64], period_ns: Option<f64>) -> Option<StreamLine> {
    let (&first_seq, &first_ns) = (seq.first()?, app_ns.first()?);
    let steps = |row: usize| seq[row].wrapping_sub(first_seq) as i64;
    let last = seq.len().min(app_ns.len()) - 1;
    let guess = match period_ns {
        Some(period) => period,
        None if steps(last) > 0 => (app_ns[last] - first_ns) as f64 / steps(last) as f64,
        None => return None,
    };
    let mut residuals: Vec<i64> = Vec::new();
    let residual = |row: usize, slope: f64| {
        (app_ns[row] - first_ns).saturating_sub((steps(row) as f64 * slope).round() as i64)
    };
    let size = (last + 1).div_ceil(BLOCKS);
    let mut blocks: Vec<(f64, f64)> = Vec::with_capacity(BLOCKS);
    for start in (0..=last).step_by(size) {
        let end = (start + size).min(last + 1);
        residuals.clear();
        residuals.extend((start..end).map(|row| residual(row, guess)));
        let middle = steps((start + end - 1) / 2) as f64;
        blocks.push((middle, median(&mut residuals)? as f64));
    }
    let period = guess + theil_sen(&blocks);
    residuals.clear();
    residuals.extend((0..=last).map(|row| residual(row, period)));
    let shift = median(&mut residuals)?;
    Some(StreamLine { first_seq, origin_ns: first_ns.saturating_add(shift) as f64, period_ns: period })
}

fn theil_sen(points: &[(f64, f64)]) -> f64 {
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (index, a) in points.iter().enumerate() {
        for b in &points[index + 1..] {
            if b.0 != a.0 {
                slopes.push((b.1 - a.1) / (b.0 - a.0));
            }
        }
    }
    if slopes.is_empty() {
        return 0.0;
    }
    let middle = slopes.len() / 2;
    *slopes.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LayerColumn;
    use proptest::prelude::*;

    #[test]
    fn rfc_4737_examples() {
        let cases: [(&[u64], u64); 4] = [
            (&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10], 1),
            (&[1, 2, 3, 4, 7, 5, 6, 8, 9, 10], 2),
            (&[1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11], 3),
            (&[1, 2, 3, 6, 7, 4, 5, 8, 9, 10, 12, 13, 11, 14, 15, 16], 3),
        ];
        for (arrivals, reordered) in cases {
            let order = order(arrivals);
            assert_eq!(order.reordered, reordered, "{arrivals:?}");
            assert_eq!(order.duplicates, 0);
        }
    }

    #[test]
    fn copies_are_not_reordered() {
        let result = order(&[1, 1, 1, 2, 3, 3, 3, 4]);
        assert_eq!(result, Order { distinct: 4, duplicates: 4, reordered: 0, span: 4 });
        assert_eq!(order(&[]), Order::default());
        let wild = order(&[1, u64::MAX, 2, 2]);
        assert_eq!((wild.distinct, wild.duplicates, wild.reordered), (3, 1, 1));
    }

    #[test]
    fn pairs_beside_a_loss_have_no_delta() {
        let packets = PacketTable {
            seq: vec![1, 2, 4, 5, 3, 6],
            app_ns: vec![100, 200, 400, 510, 520, 600],
            app_cpu: vec![0; 6],
            stack_cpu: vec![0; 6],
            layers: vec![LayerColumn { layer: Layer::Receive, before_app_ns: vec![1, 2, MISSING, 4, 5, 6] }],
        };
        let mut deltas = Vec::new();
        assert_eq!(delta_t(&packets, Layer::Application, &mut deltas), 6);
        assert_eq!(deltas, [100, 110]);
        assert_eq!(delta_t(&packets, Layer::Receive, &mut deltas), 5);
        assert_eq!(deltas, [99]);
        assert_eq!(delta_t(&packets, Layer::Softirq, &mut deltas), 0);
        assert!(deltas.is_empty());
    }

    #[test]
    fn a_line_is_learned_in_spite_of_spikes_and_losses() {
        let seq: Vec<u64> = (1000..101_000).filter(|n| n % 37 != 0).collect();
        let app: Vec<i64> = seq
            .iter()
            .map(|&n| {
                let ideal = 5_000_000_000_000 + ((n - 1000) as f64 * 7419.7667).round() as i64;
                ideal + i64::from(n % 50 == 0) * 300_000
            })
            .collect();
        let line = fit_line(&seq, &app, None).expect("enough packets");
        assert!((line.period_ns - 7419.7667).abs() < 0.001, "{line:?}");
        assert!((line.at(51_001) - (5_000_000_000_000 + (50_001f64 * 7419.7667) as i64)).abs() < 100);
        let known = fit_line(&seq, &app, Some(7419.0)).expect("enough packets");
        assert!((known.period_ns - 7419.7667).abs() < 0.001, "{known:?}");
        assert!(fit_line(&[], &[], None).is_none());
        assert!(fit_line(&[3], &[3], None).is_none());
    }

    proptest! {
        #[test]
        fn order_agrees_with_the_definition(arrivals in prop::collection::vec(0u64..40, 0..80)) {
            let mut expected = Order::default();
            let mut seen = std::collections::BTreeSet::new();
            let mut next = 0;
            for &n in &arrivals {
                if seen.insert(n) {
                    expected.distinct += 1;
                    if n >= next { next = n + 1 } else { expected.reordered += 1 }
                } else {
                    expected.duplicates += 1;
                }
            }
            let result = order(&arrivals);
            prop_assert_eq!((result.distinct, result.duplicates, result.reordered),
                (expected.distinct, expected.duplicates, expected.reordered));
        }
    }
}
