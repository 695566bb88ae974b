//! Delay over time, thinned to the least and the largest of each slice of time, which loses no spike.

use crate::facts::FlowFacts;
use quaver_arrivals::path::Arrival;
use quaver_arrivals::path::arrival::Classified;
use quaver_arrivals::path::loss_pattern::loss_runs;
use quaver_view::Numbers;

/// Most slices of time; two flows of so many take 2.8 MB of the page where delays differ by less than 2 s.
const MOST_SLICES: usize = 1 << 17;

/// Most losses that have a mark of their own.
const MOST_MARKS: usize = 10_000;

/// Time cut into slices of equal length. Each flow begins with its own first arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    slices: usize,
    /// Length of a slice.
    pub(super) slice_ns: f64,
}

/// Arrival of the first packet.
fn start_ns(arrivals: &[Arrival]) -> i64 {
    arrivals.first().map_or(0, |first| first.received_ns)
}

impl Grid {
    /// A grid over the longest flow, not much finer than the packets. Losses at the end make it longer, but at most
    /// twice: how many were planned is no measurement.
    pub(super) fn over(flows: &[(FlowFacts, Classified)]) -> Self {
        let span_ns = |arrivals: &[Arrival]| {
            let start_ns = arrivals.first().map_or(0, |first| first.received_ns);
            let last_ns = arrivals.iter().map(|arrival| arrival.received_ns).max().unwrap_or(start_ns);
            last_ns.saturating_sub(start_ns).max(0)
        };
        let whole_ns = |(flow, classified): &(FlowFacts, Classified)| {
            let span_ns = span_ns(&classified.arrivals);
            let highest = classified.arrivals.iter().map(|arrival| arrival.sequence).max().unwrap_or(0);
            let missing = classified.counts.sent.saturating_sub(highest.saturating_add(1));
            let after_ns = i64::try_from(missing.saturating_mul(flow.period_ns)).unwrap_or(i64::MAX);
            span_ns.saturating_add(after_ns.min(span_ns))
        };
        let length_ns = flows.iter().map(whole_ns).max().unwrap_or(0).max(1);
        let packets = flows.iter().map(|(_, classified)| classified.arrivals.len()).max().unwrap_or(0);
        let mut slices = MOST_SLICES;
        while slices > 1_024 && slices >= packets.saturating_mul(8) {
            slices /= 2;
        }
        Self { slices, slice_ns: length_ns as f64 / slices as f64 }
    }

    /// The whole time.
    pub(super) fn length_ns(&self) -> f64 {
        self.slices as f64 * self.slice_ns
    }

    fn index(&self, after_ns: i64) -> usize {
        ((after_ns.max(0) as f64 / self.slice_ns) as usize).min(self.slices - 1)
    }

    /// Least and largest delay of each slice; not-a-number where nothing arrived.
    pub(super) fn extremes(&self, arrivals: &[Arrival]) -> [Numbers; 2] {
        let [mut low, mut high] = [vec![f64::NAN; self.slices], vec![f64::NAN; self.slices]];
        let start_ns = start_ns(arrivals);
        for arrival in arrivals {
            let slice = self.index(arrival.received_ns.saturating_sub(start_ns));
            let delay_ns = arrival.delay_ns() as f64;
            low[slice] = delay_ns.min(low[slice]);
            high[slice] = delay_ns.max(high[slice]);
        }
        [low.into(), high.into()]
    }

    /// Instants of losses, ascending. A lost packet has no time of arrival; it stands between those of its neighbours.
    /// Of too many, one in each slice.
    pub(super) fn losses(&self, arrivals: &[Arrival], classified: &Classified, period_ns: u64) -> Numbers {
        let start_ns = start_ns(arrivals);
        let mut came: Vec<(u64, i64)> = arrivals
            .iter()
            .map(|arrival| (arrival.sequence, arrival.received_ns.saturating_sub(start_ns)))
            .collect();
        came.sort_unstable();
        let mut marks: Vec<i64> = Vec::new();
        let arrived = came.iter().map(|(sequence, _)| *sequence).chain(classified.unstamped.iter().copied());
        for run in loss_runs(arrived, classified.counts.sent) {
            let next = came.partition_point(|(sequence, _)| *sequence < run.first);
            let before_ns = next.checked_sub(1).map_or(0, |at| came[at].1);
            let to_end_ns = i64::try_from(run.length.saturating_mul(period_ns)).unwrap_or(i64::MAX);
            let after_ns = came.get(next).map_or(before_ns.saturating_add(to_end_ns), |(_, ns)| *ns);
            let between_ns = after_ns.min(self.length_ns() as i64).saturating_sub(before_ns).max(0) as f64;
            // The packets are spread evenly; more than slices cannot be told apart.
            let steps = run.length.min(self.slices as u64);
            marks.extend((0..steps).map(|step| {
                before_ns.saturating_add((between_ns * (step as f64 + 0.5) / steps as f64) as i64)
            }));
        }
        marks.sort_unstable();
        if marks.len() > MOST_MARKS {
            marks.dedup_by_key(|mark| self.index(*mark));
        }
        marks.into_iter().map(|ns| ns as f64).collect()
    }
}
