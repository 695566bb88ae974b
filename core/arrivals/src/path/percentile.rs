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
    lost: u64,
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
        Self { sorted_ns: delays_ns, lost: lost + late }
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
        assert!(Quantile::Finite(i64::MAX) < Quantile::Lost);
    }

    #[test]
    fn example_of_the_empirical_distribution() {
        // RFC 2330, section 11.3.
        let delays = DelaysWithLoss::new(vec![-2, 7, 7, 4, 18, -5], 0, None);
        assert_eq!(delays.percentile(50_000), Some(Quantile::Finite(4)));
        assert_eq!(delays.percentile(25_000), Some(Quantile::Finite(-2)));
        assert_eq!(delays.percentile(0), Some(Quantile::Finite(-5)));
    }

    #[test]
    fn the_threshold_makes_late_packets_lost() {
        let delays = DelaysWithLoss::new(vec![10, 20, 30, 40], 1, Some(30));
        assert_eq!((delays.count(), delays.lost), (5, 2));
        assert_eq!(delays.sorted_ns, [10, 20, 30]);
        assert_eq!(delays.percentile(60_000), Some(Quantile::Finite(30)));
        assert_eq!(delays.percentile(61_000), Some(Quantile::Lost));
    }

    #[test]
    fn nothing_sent_and_all_lost() {
        let nothing = DelaysWithLoss::new(Vec::new(), 0, None);
        assert_eq!(nothing.percentile(50_000), None);
        let lost = DelaysWithLoss::new(Vec::new(), 3, None);
        assert_eq!(lost.percentile(0), Some(Quantile::Lost));
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
