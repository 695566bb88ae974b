//! Bursts and gaps of loss, by the definition of RFC 3611, section 4.7.2.
//!
//! A burst is the longest sequence of packets that begins and ends with a lost one and holds no run of Gmin or more
//! received packets. Everything else is gap, and so is a single loss with Gmin received packets on both sides. The
//! test counts as preceded and followed by received packets.

use super::loss_pattern::LossRun;
use schemars::JsonSchema;
use serde::Serialize;

/// Gmin that RFC 3611 recommends: a burst then has at least one loss in 16 packets.
pub const GMIN: u64 = 16;

/// One burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Burst {
    /// Number of its first packet, which was lost.
    pub first: u64,
    /// Number of its last packet, which was lost.
    pub last: u64,
    /// Lost packets in it, at least 2.
    pub lost: u64,
}

impl Burst {
    /// Packets in it, received and lost.
    pub fn packets(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// Bursts and gaps of a test. What does not exist has no density and no duration (RFC 3611 sends zeroes there).
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct BurstSummary {
    /// Received packets in a row that end a burst.
    pub gmin: u64,
    /// Bursts.
    pub bursts: u64,
    /// Gaps: stretches of packets that belong to no burst.
    pub gaps: u64,
    /// Part of the packets in bursts that was lost.
    pub burst_density: Option<f64>,
    /// Part of the packets in gaps that was lost.
    pub gap_density: Option<f64>,
    /// Mean length of a burst, in packets.
    pub mean_burst_packets: Option<f64>,
    /// Mean length of a gap, in packets.
    pub mean_gap_packets: Option<f64>,
    /// Mean duration of a burst: from its first packet to the end of its last, at the sender's mean period.
    pub burst_duration_ns: Option<f64>,
    /// Mean duration of a gap.
    pub gap_duration_ns: Option<f64>,
}

/// The bursts among the losses of a test, in order. Packets that came too late to be played count as lost, where the
/// caller knows which.
pub fn bursts(runs: &[LossRun], gmin: u64) -> Vec<Burst> {
    let mut found: Vec<Burst> = Vec::new();
    for run in runs {
        let last = run.last();
        match found.last_mut() {
            Some(open) if run.first - open.last - 1 < gmin => {
                open.last = last;
                open.lost += run.length;
            }
            _ => found.push(Burst { first: run.first, last, lost: run.length }),
        }
    }
    found.retain(|burst| burst.lost > 1);
    found
}

/// Sums bursts and gaps of `sent` packets up. `period_ns` is the time from packet to packet when sending.
pub fn burst_summary(runs: &[LossRun], sent: u64, gmin: u64, period_ns: f64) -> BurstSummary {
    let bursts = bursts(runs, gmin);
    let burst_packets: u64 = bursts.iter().map(Burst::packets).sum();
    let burst_lost: u64 = bursts.iter().map(|burst| burst.lost).sum();
    let lost: u64 = runs.iter().map(|run| run.length).sum();
    let gap_packets = sent.saturating_sub(burst_packets);
    let gaps = gaps(&bursts, sent);
    let mean_burst_packets = ratio(burst_packets, bursts.len() as u64);
    let mean_gap_packets = ratio(gap_packets, gaps);
    BurstSummary {
        gmin,
        bursts: bursts.len() as u64,
        gaps,
        burst_density: ratio(burst_lost, burst_packets),
        gap_density: ratio(lost - burst_lost, gap_packets),
        mean_burst_packets,
        mean_gap_packets,
        burst_duration_ns: mean_burst_packets.map(|packets| packets * period_ns),
        gap_duration_ns: mean_gap_packets.map(|packets| packets * period_ns),
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Stretches of packets between, before and after the bursts; an empty one is none.
fn gaps(bursts: &[Burst], sent: u64) -> u64 {
    let mut next = 0;
    let mut gaps = 0;
    for burst in bursts {
        gaps += u64::from(burst.first > next);
        next = burst.last + 1;
    }
    gaps + u64::from(sent > next)
}

#[cfg(test)]
mod tests {
    use super::super::loss_pattern::loss_runs;
    use super::*;
    use proptest::prelude::*;

    fn runs(received: &[bool]) -> Vec<LossRun> {
        let sent = received.len() as u64;
        loss_runs((0..sent).filter(|&at| received[at as usize]), sent)
    }

    /// A string of r and x as flags, with a count before what repeats: "20r x r x 20r".
    fn flags(text: &str) -> Vec<bool> {
        text.split(' ')
            .flat_map(|word| {
                let (count, what) = word.split_at(word.len() - 1);
                vec![what == "r"; if count.is_empty() { 1 } else { count.parse().expect("a count") }]
            })
            .collect()
    }

    #[test]
    fn a_burst_between_two_gaps_with_a_lone_loss() {
        // 20 received, a burst of 2 + 15 + 1 packets with 3 lost, 16 received, a lone loss, 26 received: 80 + 1.
        let flags = flags("20r 2x 15r x 16r x 26r");
        let runs = runs(&flags);
        assert_eq!(bursts(&runs, GMIN), [Burst { first: 20, last: 37, lost: 3 }]);
        let summary = burst_summary(&runs, 81, GMIN, 20e6);
        assert_eq!((summary.bursts, summary.gaps), (1, 2));
        assert_eq!(summary.burst_density, Some(3.0 / 18.0));
        assert_eq!(summary.gap_density, Some(1.0 / 63.0));
        assert_eq!((summary.mean_burst_packets, summary.mean_gap_packets), (Some(18.0), Some(31.5)));
        assert_eq!((summary.burst_duration_ns, summary.gap_duration_ns), (Some(360e6), Some(630e6)));
    }

    #[test]
    fn sixteen_received_end_a_burst_and_fifteen_do_not() {
        assert_eq!(bursts(&runs(&flags("x 16r x")), GMIN), []);
        assert_eq!(bursts(&runs(&flags("x 15r x")), GMIN), [Burst { first: 0, last: 16, lost: 2 }]);
    }

    #[test]
    fn the_ends_of_the_test_count_as_received() {
        // A loss at either end with fewer than 16 packets beside it is still alone.
        let summary = burst_summary(&runs(&flags("x 20r x")), 22, GMIN, 1e6);
        assert_eq!((summary.bursts, summary.gaps, summary.gap_density), (0, 1, Some(2.0 / 22.0)));
        assert_eq!((summary.burst_density, summary.burst_duration_ns), (None, None));
    }

    #[test]
    fn all_lost_and_nothing_sent() {
        let all = burst_summary(&loss_runs([], 9), 9, GMIN, 1e6);
        assert_eq!((all.bursts, all.gaps, all.burst_density, all.gap_density), (1, 0, Some(1.0), None));
        let none = burst_summary(&[], 0, GMIN, 1e6);
        assert_eq!((none.bursts, none.gaps, none.gap_duration_ns), (0, 0, None));
    }

    /// Whether packets `from` to `to` are such a sequence: ends lost, two or more lost, no Gmin received in a row.
    fn is_burst_sequence(received: &[bool], from: usize, to: usize, gmin: usize) -> bool {
        let part = &received[from..=to];
        let lost = part.iter().filter(|&&r| !r).count();
        let full = |at: usize| at + gmin <= part.len() && part[at..at + gmin].iter().all(|&r| r);
        !part[0] && !part[part.len() - 1] && lost > 1 && !(0..part.len()).any(full)
    }

    /// All longest sequences, by trying every pair of ends.
    fn twin(received: &[bool], gmin: usize) -> Vec<(u64, u64)> {
        let n = received.len();
        let all: Vec<(usize, usize)> = (0..n)
            .flat_map(|from| (from..n).map(move |to| (from, to)))
            .filter(|&(from, to)| is_burst_sequence(received, from, to, gmin))
            .collect();
        let inside = |a: (usize, usize), b: (usize, usize)| a != b && b.0 <= a.0 && a.1 <= b.1;
        let longest = all.iter().filter(|&&a| !all.iter().any(|&b| inside(a, b)));
        longest.map(|&(from, to)| (from as u64, to as u64)).collect()
    }

    proptest! {
        #[test]
        fn agrees_with_the_longest_sequences(
            received in prop::collection::vec(prop::bool::weighted(0.75), 0..60), gmin in 1usize..6,
        ) {
            let runs = runs(&received);
            let found = bursts(&runs, gmin as u64);
            let ends: Vec<(u64, u64)> = found.iter().map(|burst| (burst.first, burst.last)).collect();
            prop_assert_eq!(&ends, &twin(&received, gmin));
            let inside = |at: u64| ends.iter().any(|&(from, to)| from <= at && at <= to);
            let sent = received.len() as u64;
            let gap_starts = (0..sent).filter(|&at| !inside(at) && (at == 0 || inside(at - 1))).count() as u64;
            let gap: Vec<bool> =
                (0..sent).filter(|&at| !inside(at)).map(|at| received[at as usize]).collect();
            let summary = burst_summary(&runs, sent, gmin as u64, 1.0);
            prop_assert_eq!(summary.gaps, gap_starts);
            let density = (!gap.is_empty())
                .then(|| gap.iter().filter(|&&r| !r).count() as f64 / gap.len() as f64);
            prop_assert_eq!(summary.gap_density, density);
        }
    }
}
