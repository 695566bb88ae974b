//! Which packets were lost, and how the losses lie together: loss distance and loss periods (RFC 3357).
//!
//! Everything here works on runs of lost packets, so its cost is that of the packets received and not of the
//! numbers that a sender claims to have used.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Successive numbers of which no packet arrived: one loss period (RFC 3357, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LossRun {
    /// Number of the first lost packet.
    pub first: u64,
    /// How many were lost in a row, at least 1.
    pub length: u64,
}

impl LossRun {
    /// Number of the last lost packet.
    pub fn last(&self) -> u64 {
        self.first + (self.length - 1)
    }
}

/// The loss periods of a test of packets 0 to `sent` - 1, ascending. `received` may hold numbers in any order, more
/// than once, and beyond the test; the last are not looked at.
pub fn loss_runs(received: impl IntoIterator<Item = u64>, sent: u64) -> Vec<LossRun> {
    let mut numbers: Vec<u64> = received.into_iter().filter(|&number| number < sent).collect();
    // The usual order is that of sending, and sorted numbers are found to be so in one pass.
    numbers.sort_unstable();
    let mut runs = Vec::new();
    let mut next = 0;
    for number in numbers {
        if number > next {
            runs.push(LossRun { first: next, length: number - next });
        }
        next = next.max(number + 1);
    }
    if sent > next {
        runs.push(LossRun { first: next, length: sent - next });
    }
    runs
}

/// How many packets were lost.
pub fn lost(runs: &[LossRun]) -> u64 {
    runs.iter().map(|run| run.length).sum()
}

/// From the end of the period before to the start of this one.
fn distance_before(runs: &[LossRun], at: usize) -> Option<u64> {
    let before = runs.get(at.checked_sub(1)?)?;
    Some(runs[at].first - before.last())
}

/// The loss pattern of a test (RFC 3357). Histograms are from a length or distance to how often it occurred.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct LossPattern {
    /// Packets sent.
    pub sent: u64,
    /// Packets of which no copy arrived.
    pub lost: u64,
    /// Part of the sent packets that was lost; none where nothing was sent.
    pub loss_share: Option<f64>,
    /// Loss periods: runs of lost packets without a received one between them (RFC 3357, section 6.2).
    pub periods: u64,
    /// Loss distances (RFC 3357, section 4). The first loss has none and is not here.
    pub distances: BTreeMap<u64, u64>,
    /// Lengths of the loss periods (RFC 3357, section 6.3): Jitlat's loss-length histogram.
    pub period_lengths: BTreeMap<u64, u64>,
    /// Lengths between loss periods (RFC 3357, section 6.4). The first period has none and is not here.
    pub inter_period_lengths: BTreeMap<u64, u64>,
}

impl LossPattern {
    /// Mean length of a loss period in packets; none where nothing was lost.
    pub fn mean_period_length(&self) -> Option<f64> {
        (self.periods > 0).then(|| self.lost as f64 / self.periods as f64)
    }

    /// BurstR (ITU-T G.107, section 7.5): mean length of the loss periods over the one that random loss of the same
    /// share would have, 1 / (1 - share). Above 1 where losses cluster; none where all or nothing was lost.
    pub fn burst_ratio(&self) -> Option<f64> {
        let share = self.loss_share?;
        (share < 1.0).then_some(self.mean_period_length()? * (1.0 - share))
    }
}

/// Sums the loss periods of a test of `sent` packets up.
pub fn loss_pattern(runs: &[LossRun], sent: u64) -> LossPattern {
    let lost = lost(runs);
    let mut pattern = LossPattern {
        sent,
        lost,
        loss_share: (sent > 0).then(|| lost as f64 / sent as f64),
        periods: runs.len() as u64,
        ..LossPattern::default()
    };
    for (at, run) in runs.iter().enumerate() {
        *pattern.period_lengths.entry(run.length).or_default() += 1;
        if run.length > 1 {
            *pattern.distances.entry(1).or_default() += run.length - 1;
        }
        if let Some(distance) = distance_before(runs, at) {
            *pattern.distances.entry(distance).or_default() += 1;
            *pattern.inter_period_lengths.entry(distance).or_default() += 1;
        }
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn without(lost: &[u64], sent: u64) -> Vec<u64> {
        (0..sent).filter(|number| !lost.contains(number)).collect()
    }

    #[test]
    fn worked_example_of_rfc_3357() {
        // Of packets 1 to 10, 2, 5, 7, 9 and 10 are lost; ours begin with 0.
        let runs = loss_runs(without(&[1, 4, 6, 8, 9], 10), 10);
        let pattern = loss_pattern(&runs, 10);
        assert_eq!(pattern.periods, 4);
        assert_eq!(runs.iter().map(|run| run.length).collect::<Vec<_>>(), [1, 1, 1, 2]);
        assert_eq!(pattern.inter_period_lengths, BTreeMap::from([(2, 2), (3, 1)]));
        assert_eq!(pattern.distances, BTreeMap::from([(1, 1), (2, 2), (3, 1)]));
        assert_eq!(pattern.period_lengths, BTreeMap::from([(1, 3), (2, 1)]));
        assert_eq!((pattern.lost, pattern.loss_share), (5, Some(0.5)));
        assert_eq!(pattern.mean_period_length(), Some(1.25));
        assert_eq!(pattern.burst_ratio(), Some(0.625));
    }

    #[test]
    fn nothing_sent_nothing_lost_everything_lost() {
        let none = loss_pattern(&loss_runs([], 0), 0);
        assert_eq!((none.loss_share, none.burst_ratio()), (None, None));
        let whole = loss_pattern(&loss_runs(0..5, 5), 5);
        assert_eq!((whole.lost, whole.loss_share, whole.mean_period_length()), (0, Some(0.0), None));
        let all = loss_pattern(&loss_runs([], u64::MAX), u64::MAX);
        assert_eq!((all.lost, all.periods, all.burst_ratio()), (u64::MAX, 1, None));
    }

    #[test]
    fn copies_order_and_foreign_numbers_do_not_matter() {
        assert_eq!(loss_runs([4, 1, 1, 9, u64::MAX, 4], 6), loss_runs([1, 4], 6));
        assert_eq!(
            loss_runs([1, 4], 6),
            [(0, 1), (2, 2), (5, 1)].map(|(first, length)| LossRun { first, length })
        );
    }

    fn histogram(values: &[u64]) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        values.iter().for_each(|value| *counts.entry(*value).or_default() += 1);
        counts
    }

    /// By the definitions, number by number.
    fn twin(received: &[bool]) -> (Vec<u64>, Vec<u64>, Vec<u64>) {
        let (mut distances, mut lengths, mut between) = (Vec::new(), Vec::new(), Vec::new());
        let mut before: Option<usize> = None;
        for at in (0..received.len()).filter(|&at| !received[at]) {
            let distance = before.map_or(0, |before| (at - before) as u64);
            distances.push(distance);
            if at > 0 && !received[at - 1] {
                *lengths.last_mut().expect("the loss before opened a period") += 1;
            } else {
                lengths.push(1);
                between.push(distance);
            }
            before = Some(at);
        }
        (distances, lengths, between)
    }

    proptest! {
        #[test]
        fn agrees_with_counting_number_by_number(
            received in prop::collection::vec(prop::bool::weighted(0.6), 0..200),
        ) {
            let sent = received.len() as u64;
            let numbers = (0..sent).filter(|&at| received[at as usize]);
            let runs = loss_runs(numbers, sent);
            let pattern = loss_pattern(&runs, sent);
            let (distances, lengths, between) = twin(&received);
            prop_assert_eq!(runs.iter().map(|run| run.length).collect::<Vec<_>>(), lengths);
            // The first has none before it.
            prop_assert_eq!(pattern.distances, histogram(distances.get(1..).unwrap_or_default()));
            prop_assert_eq!(pattern.inter_period_lengths, histogram(between.get(1..).unwrap_or_default()));
        }
    }
}
