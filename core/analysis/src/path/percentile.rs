//! Percentiles of delay in which a lost packet counts as infinitely late.

use serde::Serialize;

/// A percentile of delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", content = "ns", rename_all = "snake_case")]
pub enum Quantile {
    /// A delay in nanoseconds.
    Finite(i64),
    /// So many packets were lost that it lies among them: larger than any delay.
    Lost,
}

impl Quantile {
    /// The delay, None if it lies among the lost packets.
    pub const fn finite(self) -> Option<i64> {
        match self {
            Self::Finite(ns) => Some(ns),
            Self::Lost => None,
        }
    }
}

/// A share in hundred-thousandths, so that 99.999 % is a whole number.
pub const WHOLE: u32 = 100_000;

/// The delays of a test, sorted, with its losses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelaysWithLoss {
    sorted_ns: Vec<i64>,
    late: u64,
    lost: u64,
    threshold_ns: Option<i64>,
}

impl DelaysWithLoss {
    /// Takes the delays of the packets that arrived and the number of those that did not.
    ///
    /// `threshold_ns` is the loss threshold (Tmax of RFC 7679, section 3.2): a packet with a larger delay counts as
    /// lost. None means that the receiver waited until its end and no arrival counts as lost.
    pub fn new(mut delays_ns: Vec<i64>, lost: u64, threshold_ns: Option<i64>) -> Self {
        delays_ns.sort_unstable();
        let in_time = threshold_ns.map_or(delays_ns.len(), |t| delays_ns.partition_point(|&d| d <= t));
        let late = (delays_ns.len() - in_time) as u64;
        delays_ns.truncate(in_time);
        Self { sorted_ns: delays_ns, late, lost: lost + late, threshold_ns }
    }

    /// Delays that count, ascending.
    pub fn sorted_ns(&self) -> &[i64] {
        &self.sorted_ns
    }

    /// Packets that count as lost, those beyond the threshold among them.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Packets that arrived, but beyond the threshold.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The loss threshold, to be reported beside every figure that losses enter (RFC 7679, section 3.8.2).
    pub fn threshold_ns(&self) -> Option<i64> {
        self.threshold_ns
    }

    /// All packets, lost ones too.
    pub fn count(&self) -> u64 {
        self.sorted_ns.len() as u64 + self.lost
    }

    /// Smallest x with F(x) >= p, lost packets being +infinity (RFC 2330, section 11.3; RFC 7679, section 5.1).
    ///
    /// `share` is p in hundred-thousandths, held at [`WHOLE`]. 0 gives the smallest. None without packets.
    pub fn percentile(&self, share: u32) -> Option<Quantile> {
        let count = self.count();
        let rank = (u128::from(count) * u128::from(share.min(WHOLE))).div_ceil(u128::from(WHOLE)) as u64;
        (count > 0).then(|| self.at(rank.max(1) - 1))
    }

    /// The share, 0 to 1, of all packets with a delay of at most `delay_ns`: F(x) of RFC 2330, section 11.3. The
    /// inverse percentile of RFC 7679, section 5.4. None without packets.
    pub fn share_within(&self, delay_ns: i64) -> Option<f64> {
        let within = self.sorted_ns.partition_point(|&d| d <= delay_ns);
        (self.count() > 0).then(|| within as f64 / self.count() as f64)
    }

    /// The median of RFC 7679, section 5.2, in nanoseconds: for an even number the mean of the two central values.
    /// The outer None: no packets. The inner None: it lies among the lost.
    pub fn median_ns(&self) -> Option<Option<f64>> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let (lower, upper) = (self.at((count - 1) / 2), self.at(count / 2));
        Some(match (lower, upper) {
            (Quantile::Finite(a), Quantile::Finite(b)) => Some((i128::from(a) + i128::from(b)) as f64 / 2.0),
            _ => None,
        })
    }

    fn at(&self, index: u64) -> Quantile {
        self.sorted_ns.get(index as usize).map_or(Quantile::Lost, |&ns| Quantile::Finite(ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_lost_packet_is_infinitely_late() {
        // RFC 7679, section 5.1: 100, 110, undefined, 90, 500.
        let delays = DelaysWithLoss::new(vec![100, 110, 90, 500], 1, None);
        assert_eq!(delays.percentile(50_000), Some(Quantile::Finite(110)));
        assert_eq!(delays.percentile(80_000), Some(Quantile::Finite(500)));
        assert_eq!(delays.percentile(80_001), Some(Quantile::Lost));
        assert_eq!(delays.percentile(WHOLE), Some(Quantile::Lost));
        assert_eq!(delays.median_ns(), Some(Some(110.0)));
        assert_eq!(delays.share_within(103), Some(0.4));
        assert!(Quantile::Finite(i64::MAX) < Quantile::Lost);
    }

    #[test]
    fn example_of_the_empirical_distribution() {
        // RFC 2330, section 11.3.
        let delays = DelaysWithLoss::new(vec![-2, 7, 7, 4, 18, -5], 0, None);
        assert_eq!(delays.percentile(50_000), Some(Quantile::Finite(4)));
        assert_eq!(delays.percentile(25_000), Some(Quantile::Finite(-2)));
        assert_eq!(delays.percentile(0), Some(Quantile::Finite(-5)));
        assert_eq!(delays.median_ns(), Some(Some(5.5)));
        assert_eq!(delays.share_within(7), Some(5.0 / 6.0));
    }

    #[test]
    fn the_threshold_makes_late_packets_lost() {
        let delays = DelaysWithLoss::new(vec![10, 20, 30, 40], 1, Some(30));
        assert_eq!((delays.count(), delays.lost(), delays.late()), (5, 2, 1));
        assert_eq!(delays.sorted_ns(), [10, 20, 30]);
        assert_eq!(delays.threshold_ns(), Some(30));
        assert_eq!(delays.percentile(60_000), Some(Quantile::Finite(30)));
        assert_eq!(delays.percentile(61_000), Some(Quantile::Lost));
    }

    #[test]
    fn nothing_sent_and_all_lost() {
        let nothing = DelaysWithLoss::new(Vec::new(), 0, None);
        assert_eq!(
            (nothing.percentile(50_000), nothing.median_ns(), nothing.share_within(0)),
            (None, None, None)
        );
        let lost = DelaysWithLoss::new(Vec::new(), 3, None);
        assert_eq!((lost.percentile(0), lost.median_ns()), (Some(Quantile::Lost), Some(None)));
    }

    proptest! {
        #[test]
        fn agrees_with_counting(
            packets in prop::collection::vec(prop::option::of(-50i64..50), 1..60),
            share in 0u32..=WHOLE,
        ) {
            let delays: Vec<i64> = packets.iter().flatten().copied().collect();
            let lost = packets.iter().filter(|p| p.is_none()).count() as u64;
            let quantile = DelaysWithLoss::new(delays.clone(), lost, None).percentile(share);
            let enough = |x: i64| {
                let within = delays.iter().filter(|&&d| d <= x).count() as u64;
                within >= 1 && within * u64::from(WHOLE) >= u64::from(share) * packets.len() as u64
            };
            let slow = (-50..50).find(|&x| enough(x)).map_or(Quantile::Lost, Quantile::Finite);
            prop_assert_eq!(quantile, Some(slow));
        }
    }
}
