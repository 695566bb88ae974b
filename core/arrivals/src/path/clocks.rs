//! How far apart the clocks of the two ends are, from probes over the control connection.
//!
//! A probe leaves the client at T1, is stamped by the server at T2 and is back at T3, all by the wall clocks of the
//! ends. What it says of the offset of the clocks, server minus client, is T2 - T1 - RTT/2, with an error of at
//! most RTT/2, reached when one direction takes all the time. (Jitlat's document prints T2 - T1 + RTT/2. Its own
//! figures need the minus: with a plus, the 31.340420 s of figure 17 would be an RTT, 3.231 s, more, and the minimum
//! corrected by it negative.)

use super::direction::Direction;
use schemars::JsonSchema;
use serde::Serialize;

/// One probe of the control connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RttProbe {
    /// When the client sent it, by the client's wall clock.
    pub t1_ns: i64,
    /// When the server handled it, by the server's wall clock.
    pub t2_ns: i64,
    /// When the client had it back, by the client's wall clock.
    pub t3_ns: i64,
}

impl RttProbe {
    /// T3 - T1. Negative if the client's clock was set back in between.
    pub fn rtt_ns(&self) -> i64 {
        self.t3_ns.saturating_sub(self.t1_ns)
    }

    /// T2 - T1 - RTT/2, server minus client; the half is rounded towards zero.
    pub fn offset_ns(&self) -> i64 {
        self.t2_ns.saturating_sub(self.t1_ns).saturating_sub(self.rtt_ns() / 2)
    }
}

/// What the probes say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClockEstimate {
    /// Jitlat's relative clock error: the median of the probes' offsets, the element [n/2] of the sorted array,
    /// which of five probes is `array[2]`. Server minus client.
    pub jitlat_error_ns: i64,
    /// Smallest round-trip time of the control connection.
    pub min_rtt_ns: i64,
    /// Offset by the probe of least RTT, which queued least. Server minus client.
    pub offset_ns: i64,
    /// The true offset, at that probe, lies within `offset_ns` ± this: half the least RTT, rounded up.
    pub bound_ns: i64,
    /// Probes used.
    pub probes: usize,
}

/// Estimates the offset of the clocks. None without a probe.
///
/// Probes with a negative RTT (a step of the client's clock) say nothing and are left out, also of Jitlat's median.
pub fn estimate(probes: &[RttProbe]) -> Option<ClockEstimate> {
    let sound: Vec<&RttProbe> = probes.iter().filter(|p| p.rtt_ns() >= 0).collect();
    let best = sound.iter().min_by_key(|p| p.rtt_ns())?;
    let mut offsets: Vec<i64> = sound.iter().map(|p| p.offset_ns()).collect();
    offsets.sort_unstable();
    Some(ClockEstimate {
        jitlat_error_ns: offsets[offsets.len() / 2],
        min_rtt_ns: best.rtt_ns(),
        offset_ns: best.offset_ns(),
        bound_ns: best.rtt_ns() / 2 + best.rtt_ns() % 2,
        probes: sound.len(),
    })
}

/// A delay, or a stamp difference like it, without the offset of the clocks (server minus client): it is subtracted
/// where the server received, and added where the server sent.
pub fn correct(delay_ns: i64, offset_ns: i64, direction: Direction) -> i64 {
    match direction {
        Direction::Up => delay_ns.saturating_sub(offset_ns),
        Direction::Down => delay_ns.saturating_add(offset_ns),
    }
}

/// Why latencies cannot be believed as they are (Jitlat, annex A.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ClockWarning {
    /// A packet arrived before it was sent.
    NegativeLatency {
        /// Smallest latency.
        min_latency_ns: i64,
    },
    /// One way took longer than there and back.
    AboveRoundTrip {
        /// Smallest latency.
        min_latency_ns: i64,
        /// Smallest round-trip time.
        min_rtt_ns: i64,
    },
}

/// What is wrong with a smallest latency, beside the smallest round-trip time if that is known.
pub fn warning(min_latency_ns: i64, min_rtt_ns: Option<i64>) -> Option<ClockWarning> {
    if min_latency_ns < 0 {
        return Some(ClockWarning::NegativeLatency { min_latency_ns });
    }
    let min_rtt_ns = min_rtt_ns.filter(|&rtt| min_latency_ns > rtt)?;
    Some(ClockWarning::AboveRoundTrip { min_latency_ns, min_rtt_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A probe over a path with these one-way delays, the server's clock ahead by `offset`.
    fn probe(t1_ns: i64, up: i64, down: i64, offset: i64) -> RttProbe {
        RttProbe { t1_ns, t2_ns: t1_ns + up + offset, t3_ns: t1_ns + up + down }
    }

    #[test]
    fn figure_17_of_jitlat() {
        let (latency, error, corrected) = (32_955_267_000, 31_340_420_000, 1_614_847_000);
        assert_eq!(correct(latency, error, Direction::Up), corrected);
        let probes = [probe(1_260_285_400_000_000_000, 1_615_500_000, 1_615_500_000, error)];
        let clocks = estimate(&probes).expect("a probe");
        assert_eq!((clocks.jitlat_error_ns, clocks.min_rtt_ns), (error, 3_231_000_000));
        assert_eq!(
            warning(latency, Some(clocks.min_rtt_ns)),
            Some(ClockWarning::AboveRoundTrip { min_latency_ns: latency, min_rtt_ns: 3_231_000_000 })
        );
        assert_eq!(warning(corrected, Some(clocks.min_rtt_ns)), None);
        // The sign that the document prints does not fit its figure.
        let plus = probes[0].t2_ns - probes[0].t1_ns + probes[0].rtt_ns() / 2;
        assert!(correct(latency, plus, Direction::Up) < 0);
    }

    #[test]
    fn figure_16_of_jitlat_is_a_negative_error() {
        // The minimum lies 790 us off half the RTT and nobody is warned.
        let clocks = estimate(&[probe(5, 1_615_500_000, 1_615_500_000, -80_000)]).expect("a probe");
        assert_eq!(clocks.jitlat_error_ns, -80_000);
        assert_eq!(warning(1_614_710_000, Some(clocks.min_rtt_ns)), None);
    }

    #[test]
    fn median_of_five_and_the_least_rtt() {
        let probes =
            [(9, 1), (1, 1), (1, 21), (1, 5), (30, 2)].map(|(up, down)| probe(1000, up * 100, down * 100, 7));
        let offsets = probes.map(|p| p.offset_ns());
        assert_eq!(offsets, [407, 7, -993, -193, 1407]);
        let clocks = estimate(&probes).expect("probes");
        assert_eq!(clocks.jitlat_error_ns, 7); // -993, -193, 7, 407, 1407
        assert_eq!((clocks.min_rtt_ns, clocks.offset_ns, clocks.bound_ns, clocks.probes), (200, 7, 100, 5));
        // Of an even number the upper of the two central ones.
        assert_eq!(estimate(&probes[..4]).expect("probes").jitlat_error_ns, 7);
    }

    #[test]
    fn probes_over_a_step_of_the_clients_clock_are_left_out() {
        let stepped = RttProbe { t1_ns: 1000, t2_ns: 1100, t3_ns: 900 };
        assert_eq!(estimate(&[stepped]), None);
        assert_eq!(estimate(&[]), None);
        let clocks = estimate(&[stepped, probe(0, 5, 5, 3)]).expect("one is sound");
        assert_eq!((clocks.offset_ns, clocks.probes), (3, 1));
    }

    #[test]
    fn the_two_directions() {
        // The server is ahead by 30: what it receives looks late, what it sends looks early.
        assert_eq!(correct(10 + 30, 30, Direction::Up), 10);
        assert_eq!(correct(10 - 30, 30, Direction::Down), 10);
        assert_eq!(warning(-20, None), Some(ClockWarning::NegativeLatency { min_latency_ns: -20 }));
        assert_eq!((warning(0, None), warning(5, Some(5))), (None, None));
    }

    proptest! {
        #[test]
        fn the_true_offset_is_within_the_bound(
            delays in prop::collection::vec((0i64..1_000_000, 0i64..1_000_000), 1..9),
            offset in -2_000_000_000_000_000_000i64..2_000_000_000_000_000_000,
        ) {
            let start_ns = 1_700_000_000_000_000_000;
            let probes: Vec<_> = delays.iter().map(|&(up, down)| probe(start_ns, up, down, offset)).collect();
            let clocks = estimate(&probes).expect("a probe");
            prop_assert!((clocks.offset_ns - offset).abs() <= clocks.bound_ns);
            prop_assert_eq!(clocks.min_rtt_ns, delays.iter().map(|d| d.0 + d.1).min().expect("one"));
        }

        #[test]
        fn any_stamps_are_survived(t1_ns in any::<i64>(), t2_ns in any::<i64>(), t3_ns in any::<i64>()) {
            let clocks = estimate(&[RttProbe { t1_ns, t2_ns, t3_ns }]);
            prop_assert_eq!(clocks.is_some(), t3_ns >= t1_ns);
        }
    }
}
