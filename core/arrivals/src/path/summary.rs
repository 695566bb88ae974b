//! All figures of one flow together: what `summary.json`, the page and the report of a path measurement show.

use super::advice::{PathAdvice, path_advice};
use super::arrival::{Arrival, Classified, delays_ns};
use super::burstiness::{LeastSquares, burstiness};
use super::bursts::{BurstSummary, GMIN, burst_summary};
use super::clocks::{ClockWarning, warning};
use super::density::{DISPLACEMENT_THRESHOLD, ReorderDensity, reorder_density};
use super::duplication::{Duplication, duplication};
use super::edge::Edge;
use super::gilbert::{Gilbert, GilbertElliottFit, gilbert, gilbert_elliott};
use super::loss_pattern::{LossPattern, LossRun, loss_pattern, loss_runs};
use super::offset::TimedFlow;
use super::percentile::DelaysWithLoss;
use super::reordering::{Reordering, reordering};
use super::steps::LevelShift;
use super::variation::{InterarrivalJitter, ipdv, pdv_ns};
use crate::distribution::{Distribution, distribution};
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;

/// A flow, and what is known of it beside its packets.
#[derive(Clone, Copy, Debug)]
pub struct FlowInput<'a> {
    /// Its packets.
    pub classified: &'a Classified,
    /// Those that enter the analysis by one clock.
    pub timed: &'a TimedFlow,
    /// Target period, nanoseconds; the mean of a random schedule.
    pub target_period_ns: u64,
    /// What the receiver's own socket had no room for, of whatever kind: not lost by the path.
    pub own_drops: Option<u64>,
    /// How long after a packet's sending the receiver still waited for it; none: until its end.
    pub loss_timeout_ns: Option<i64>,
    /// Least round trip of the control connection.
    pub min_rtt_ns: Option<i64>,
}

/// What became of the packets.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Fates {
    /// Sent.
    pub sent: u64,
    /// Arrived, copies and invalid ones too.
    pub received: u64,
    /// Arrived, each counted once.
    pub unique: u64,
    /// Copies.
    pub duplicate: u64,
    /// Could not be what was sent.
    pub invalid: u64,
    /// First copies that came after one sent later (RFC 4737, section 3.3).
    pub reordered: u64,
}

/// What was lost (RFC 7680).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Loss {
    /// Packets of which no copy arrived.
    pub packets: u64,
    /// The same as a part of the packets sent; none where none was sent.
    pub share: Option<f64>,
    /// Of these at most so many were dropped by the receiver's own socket: its kernel counts sentinels, copies and
    /// packets of others too. None where it cannot tell.
    pub own_drops: Option<u64>,
    /// After how long a packet counts as lost, nanoseconds; none: not before the receiver ended.
    pub timeout_ns: Option<i64>,
    /// Runs of lost packets (RFC 3357).
    pub pattern: LossPattern,
    /// Bursts and gaps (RFC 3611, section 4.7.2); none where nothing was lost.
    pub bursts: Option<BurstSummary>,
    /// Gilbert's model; none where nothing was lost.
    pub gilbert: Option<Gilbert>,
    /// The Gilbert-Elliott model; none where all or nothing was lost.
    pub gilbert_elliott: Option<GilbertElliottFit>,
}

/// One-way delay (RFC 7679).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Delay {
    /// As the two clocks show it.
    pub as_measured: Distribution,
    /// By one clock: without the clocks' offset, its drift and its steps; none where the offset is not known.
    pub corrected: Option<Distribution>,
    /// The corrected values can be wrong by so much either way, nanoseconds.
    pub bound_ns: Option<i64>,
    /// Percentiles of all packets sent, a lost one being later than any other; corrected where the offset is known.
    pub with_loss: DelayWithLoss,
    /// Why the values as measured cannot be believed.
    pub warning: Option<ClockWarning>,
}

impl Delay {
    /// Whether the clocks are known well enough to believe the corrected values.
    pub fn is_known(&self) -> bool {
        let median_ns = self.corrected.as_ref().map(|corrected| corrected.p50_ns);
        median_ns.zip(self.bound_ns).is_some_and(|(median_ns, bound_ns)| median_ns >= bound_ns)
    }
}

/// Percentiles of delay with lost packets as +infinity (RFC 7679, section 5.1); none: lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DelayWithLoss {
    /// Median.
    pub p50_ns: Option<i64>,
    /// 90th percentile.
    pub p90_ns: Option<i64>,
    /// 99th percentile.
    pub p99_ns: Option<i64>,
    /// 99.9th percentile.
    pub p99_9_ns: Option<i64>,
}

/// How delay varies, by one clock.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Variation {
    /// Delay less the least delay (PDV, RFC 5481).
    pub pdv: Distribution,
    /// Delay less that of the packet sent before, signed (IPDV, RFC 5481; RFC 3393).
    pub ipdv: Distribution,
    /// Interarrival jitter after the last packet (RFC 3550, section 6.4.1), nanoseconds.
    pub interarrival_jitter_ns: f64,
    /// The largest that it was, nanoseconds.
    pub largest_interarrival_jitter_ns: f64,
    /// PDV can be wrong by so much either way, since the clocks drift, nanoseconds.
    pub bound_ns: i64,
}

/// Mean periods, nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Periods {
    /// As asked for.
    pub target_ns: f64,
    /// Between packets sent, by the stamps of those that arrived.
    pub sent_ns: Option<f64>,
    /// Between packets received.
    pub received_ns: Option<f64>,
}

/// All figures of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FlowSummary {
    /// Packets by fate.
    pub packets: Fates,
    /// Loss.
    pub loss: Loss,
    /// Delay; none where nothing arrived.
    pub delay: Option<Delay>,
    /// Delay variation; none where nothing arrived.
    pub variation: Option<Variation>,
    /// Periods.
    pub periods: Periods,
    /// Line through delay over time of arrival (Jitlat, section 1).
    pub burstiness: Option<LeastSquares>,
    /// Lower edge of the delays as measured, without steps: its slope is the skew of the two clocks.
    pub skew: Option<Edge>,
    /// Lasting shifts of the least delay as measured: a clock stepped, or the way changed.
    pub level_shifts: Vec<LevelShift>,
    /// Reordering (RFC 4737).
    pub reordering: Reordering,
    /// Reorder density (RFC 5236); none where all came in order.
    pub density: Option<ReorderDensity>,
    /// Duplication (RFC 5560).
    pub duplication: Duplication,
    /// Buffers, and how a call would sound.
    pub advice: PathAdvice,
}

/// Computes all figures of a flow.
pub fn flow_summary(input: &FlowInput<'_>) -> FlowSummary {
    let Classified { arrivals: measured, copies, unstamped, counts } = input.classified;
    let arrivals = &input.timed.arrivals;
    let arrived = measured.iter().map(|arrival| arrival.sequence).chain(unstamped.iter().copied());
    let runs = loss_runs(arrived, counts.sent);
    let out_of_order = counts.out_of_sequence > 0;
    let sequences = || arrivals.iter().map(|arrival| arrival.sequence).collect::<Vec<u64>>();
    FlowSummary {
        packets: Fates {
            sent: counts.sent,
            received: counts.received,
            unique: counts.unique,
            duplicate: counts.duplicate,
            invalid: counts.invalid,
            reordered: counts.out_of_sequence,
        },
        loss: loss(input, &runs),
        delay: delay(input),
        variation: variation(input.timed),
        periods: periods(arrivals, input.target_period_ns),
        burstiness: burstiness(arrivals),
        skew: input.timed.edge.clone(),
        level_shifts: input.timed.shifts.clone(),
        reordering: reordering(arrivals),
        density: out_of_order.then(|| reorder_density(&sequences(), DISPLACEMENT_THRESHOLD)),
        duplication: duplication(copies),
        advice: advice(input),
    }
}

fn advice(input: &FlowInput<'_>) -> PathAdvice {
    let (timed, classified) = (input.timed, input.classified);
    let sent = classified.counts.sent - classified.unstamped.len() as u64;
    path_advice(&without(&timed.arrivals, &classified.unstamped), sent, timed.bound_ns)
}

/// Arrivals of a flow that never had packets of these numbers.
fn without<'a>(arrivals: &'a [Arrival], numbers: &[u64]) -> Cow<'a, [Arrival]> {
    if numbers.is_empty() {
        return Cow::Borrowed(arrivals);
    }
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    let below = |sequence: u64| numbers.partition_point(|number| *number < sequence) as u64;
    let renumbered =
        |arrival: &Arrival| Arrival { sequence: arrival.sequence - below(arrival.sequence), ..*arrival };
    Cow::Owned(arrivals.iter().map(renumbered).collect())
}

fn loss(input: &FlowInput<'_>, runs: &[LossRun]) -> Loss {
    let counts = &input.classified.counts;
    let period_ns = input.target_period_ns as f64;
    Loss {
        packets: counts.lost,
        share: (counts.sent > 0).then(|| counts.lost as f64 / counts.sent as f64),
        own_drops: input.own_drops.map(|dropped| dropped.min(counts.lost)),
        timeout_ns: input.loss_timeout_ns,
        pattern: loss_pattern(runs, counts.sent),
        bursts: (!runs.is_empty()).then(|| burst_summary(runs, counts.sent, GMIN, period_ns)),
        gilbert: (!runs.is_empty()).then(|| gilbert(runs, counts.sent)),
        gilbert_elliott: gilbert_elliott(runs, counts.sent),
    }
}

fn delay(input: &FlowInput<'_>) -> Option<Delay> {
    let mut delays = delays_ns(&input.classified.arrivals);
    if delays.is_empty() {
        return None;
    }
    let bound_ns = input.timed.bound_ns;
    let by_one_clock = || delays_ns(&input.timed.arrivals);
    let best = if bound_ns.is_some() { by_one_clock() } else { delays.clone() };
    let all = DelaysWithLoss::new(best, input.classified.counts.lost, input.loss_timeout_ns);
    let percentile = |share| all.percentile(share).and_then(super::percentile::Quantile::finite);
    let as_measured = distribution(&mut delays);
    Some(Delay {
        warning: warning(as_measured.min_ns, input.min_rtt_ns),
        as_measured,
        corrected: bound_ns.map(|_| distribution(&mut by_one_clock())),
        bound_ns,
        with_loss: DelayWithLoss {
            p50_ns: percentile(50_000),
            p90_ns: percentile(90_000),
            p99_ns: percentile(99_000),
            p99_9_ns: percentile(99_900),
        },
    })
}

fn variation(timed: &TimedFlow) -> Option<Variation> {
    let arrivals = &timed.arrivals;
    let delays = delays_ns(arrivals);
    let mut interarrival = InterarrivalJitter::default();
    let largest = delays.iter().map(|delay| interarrival.add(*delay)).fold(0.0, f64::max);
    let mut pdv = pdv_ns(&delays);
    let mut ipdv: Vec<i64> = ipdv(arrivals).into_iter().map(|one| one.ipdv_ns).collect();
    (!delays.is_empty()).then(|| Variation {
        pdv: distribution(&mut pdv),
        ipdv: distribution(&mut ipdv),
        interarrival_jitter_ns: interarrival.j_ns(),
        largest_interarrival_jitter_ns: largest,
        bound_ns: timed.drift_bound_ns,
    })
}

fn periods(arrivals: &[Arrival], target_period_ns: u64) -> Periods {
    let span = |first: i64, last: i64, intervals: u64| {
        (intervals > 0).then(|| (i128::from(last) - i128::from(first)) as f64 / intervals as f64)
    };
    let first = arrivals.iter().min_by_key(|arrival| arrival.sequence);
    let last = arrivals.iter().max_by_key(|arrival| arrival.sequence);
    let sent_ns = first.zip(last).and_then(|(first, last)| {
        span(first.sent_ns, last.sent_ns, last.sequence.saturating_sub(first.sequence))
    });
    let received_ns = arrivals
        .first()
        .zip(arrivals.last())
        .and_then(|(first, last)| span(first.received_ns, last.received_ns, arrivals.len() as u64 - 1));
    Periods { target_ns: target_period_ns as f64, sent_ns, received_ns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::arrival::{Numbering, classify};
    use crate::path::clocks::ClockEstimate;
    use crate::path::direction::Direction;
    use crate::path::offset::{Evidence, FlowTimes, timed};
    use quaver_abi::wire::jitlat::Singleton;

    /// Packets each millisecond, number and delay as given, in order of arrival.
    fn packets(given: &[(i32, i64)]) -> Vec<Singleton> {
        let packet = |(tx_seq, delay_ns): &(i32, i64)| {
            let tx_real_time_ns = i64::from(*tx_seq) * 1_000_000;
            Singleton {
                tx_real_time_ns,
                tx_seq: *tx_seq,
                rx_real_time_ns: tx_real_time_ns + delay_ns,
                flags: 0,
            }
        };
        given.iter().map(packet).collect()
    }

    fn summary(given: &[(i32, i64)], sent: u64, stated: Option<ClockEstimate>) -> FlowSummary {
        let classified = classify(&packets(given), Numbering::Jitlat, Some(sent));
        let (direction, period_ns) = (Direction::Up, Some(1_000_000));
        let flow = FlowTimes { direction, arrivals: &classified.arrivals, period_ns };
        let timed = timed(&Evidence { flows: &[flow], stated, ..Evidence::default() });
        flow_summary(&FlowInput {
            classified: &classified,
            timed: &timed.flows[0],
            target_period_ns: 1_000_000,
            own_drops: Some(1),
            loss_timeout_ns: None,
            min_rtt_ns: stated.map(|clock| clock.min_rtt_ns),
        })
    }

    #[test]
    fn figures_of_a_small_flow() {
        let clock =
            ClockEstimate { jitlat_error_ns: 90, min_rtt_ns: 40, offset_ns: 100, bound_ns: 20, probes: 5 };
        let flow =
            summary(&[(0, 120), (2, 110), (1, 1_000_150), (2, 130), (3, 125), (6, 110)], 8, Some(clock));
        let fates = &flow.packets;
        assert_eq!(
            (fates.sent, fates.received, fates.unique, fates.duplicate, fates.invalid, fates.reordered),
            (8, 6, 5, 1, 0, 1)
        );
        assert_eq!((flow.loss.packets, flow.loss.share, flow.loss.own_drops), (3, Some(0.375), Some(1)));
        assert_eq!(flow.loss.pattern.periods, 2);
        let delay = flow.delay.unwrap();
        assert_eq!((delay.as_measured.min_ns, delay.as_measured.p50_ns), (110, 120));
        assert_eq!(
            (delay.corrected.unwrap().min_ns, delay.bound_ns),
            (10, Some(30)),
            "a drift of 10 ns could hide"
        );
        assert_eq!((delay.with_loss.p50_ns, delay.with_loss.p90_ns), (Some(25), None));
        assert_eq!(delay.warning, Some(ClockWarning::AboveRoundTrip { min_latency_ns: 110, min_rtt_ns: 40 }));
        let variation = flow.variation.unwrap();
        assert_eq!((variation.pdv.min_ns, variation.pdv.max_ns), (0, 1_000_040));
        assert_eq!(variation.ipdv.count, 3);
        assert_eq!(flow.periods.sent_ns, Some(1_000_000.0));
        assert_eq!((flow.reordering.reordered, flow.duplication.duplicate), (1, 1));
        assert!(flow.density.is_some());
    }

    #[test]
    fn a_socket_that_dropped_sentinels_dropped_no_more_packets_than_are_lost() {
        let list: Vec<(i32, i64)> = (0..4).map(|number| (number, 100)).collect();
        assert_eq!(summary(&list, 4, None).loss.own_drops, Some(0));
        assert_eq!(summary(&list, 9, None).loss.own_drops, Some(1));
    }

    #[test]
    fn a_call_is_rated_where_the_delay_is_known() {
        let clock =
            ClockEstimate { jitlat_error_ns: 0, min_rtt_ns: 40, offset_ns: 0, bound_ns: 20, probes: 5 };
        let list: Vec<(i32, i64)> = (0..40).map(|number| (number, 5_000_000_000)).collect();
        let advised = |clock| {
            let advice = summary(&list, 40, clock).advice;
            (advice.buffers.len(), advice.voice.is_empty())
        };
        assert_eq!((advised(None), advised(Some(clock))), ((2, true), (2, false)));
    }

    #[test]
    fn a_flow_of_which_nothing_arrived_has_losses_only() {
        let flow = summary(&[], 4, None);
        assert_eq!((flow.loss.packets, flow.loss.share), (4, Some(1.0)));
        assert!(flow.delay.is_none() && flow.variation.is_none() && flow.burstiness.is_none());
        assert_eq!(flow.periods.received_ns, None);
        assert!(summary(&[], 0, None).loss.share.is_none());
    }
}
