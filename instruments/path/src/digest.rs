//! From the packets of a path measurement, of a run or of a Jitlat log, to its results.

pub mod ends;
mod warnings;

use crate::facts::{
    ClockStepFacts, CorrectedDelay, EndClock, FlowFacts, FollowedDrift, PathFacts, RollingFigures,
    StatedClock,
};
use crate::samples::read_path_samples;
use anyhow::Context;
use quaver_abi::wire::jitlat::Singleton;
use quaver_arrivals::distribution::Distribution;
use quaver_arrivals::path::Arrival;
use quaver_arrivals::path::arrival::{Classified, Numbering, classify};
use quaver_arrivals::path::clocks::{self, ClockEstimate};
use quaver_arrivals::path::direction::Direction;
use quaver_arrivals::path::offset::{Clocks, End, Evidence, FlowTimes, OffsetSource, ReadStep, Timed, timed};
use quaver_arrivals::path::summary::{FlowInput, FlowSummary, flow_summary};
use quaver_instrument::facts::RunFacts;
use quaver_store::run::RunDir;
use schemars::JsonSchema;
use serde::Serialize;
use std::net::SocketAddr;

/// Version of [`PathSummary`]. Version 1 lacked keys that are always there since.
pub const VERSION: u32 = 2;

/// `summary.json` of a path measurement.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PathSummary {
    /// [`VERSION`].
    pub version: u32,
    /// The peer.
    pub peer: String,
    /// What was spoken.
    pub protocol: String,
    /// Whether all that was asked for is there.
    pub complete: bool,
    /// How far the clocks are apart, server less client, and how that changes; none where nothing tells of it.
    pub clock: Option<Clocks>,
    /// What each end's kernel says of its clock.
    pub clocks: Vec<EndClock>,
    /// Steps of a wall clock during the test.
    pub clock_steps: Vec<ClockStepFacts>,
    /// From the client to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up: Option<FlowResults>,
    /// From the server to the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down: Option<FlowResults>,
    /// Packets without a reply (RFC 6673); none where nobody replies to packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip_loss: Option<RoundTripLoss>,
    /// Figures of a test that kept no packets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rolling: Vec<RollingFigures>,
    /// The flows of a test that kept no packets, else those of which the receiver said nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rolling_flows: Vec<FlowFacts>,
    /// What the reader should know before believing the numbers.
    pub warnings: Vec<String>,
}

/// Loss there or back (RFC 6673).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RoundTripLoss {
    /// Packets that were sent there.
    pub sent: u64,
    /// Of them, those to which no reply came.
    pub lost: u64,
    /// The same as a part of the packets sent; none where none was sent.
    pub share: Option<f64>,
    /// Of those without a reply, packets of which nobody can tell on which way they were lost.
    pub way_unknown: u64,
}

/// Results of one flow.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FlowResults {
    /// What it was.
    pub flow: FlowFacts,
    /// What came of it.
    #[serde(flatten)]
    pub figures: FlowSummary,
    /// Delay without the way from the program to the departure; none where not every packet's departure is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_from_departure: Option<DepartureDelay>,
}

/// A flow, with its results where its packets were kept.
#[derive(Clone, Copy, Debug)]
pub struct KnownFlow<'a> {
    /// What it was.
    pub flow: &'a FlowFacts,
    /// What came of it; none where only figures were kept.
    pub results: Option<&'a FlowResults>,
    /// First copies that the program at the receiver saw.
    pub unique: u64,
    /// Of them came after one sent later.
    pub reordered: u64,
    /// Further copies.
    pub duplicate: u64,
}

/// One-way delay from the departure at the sender's kernel or network interface.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DepartureDelay {
    /// What stamped the departures: `hardware` or `kernel`.
    pub stamped_by: String,
    /// As the two clocks show it.
    pub as_measured: Distribution,
    /// Without the clocks' offset in the middle of the test; none where it is not known.
    pub corrected: Option<Distribution>,
}

impl DepartureDelay {
    fn of(flow: &FlowFacts, clock: Option<&Clocks>) -> Option<Self> {
        let departures = flow.departures.as_ref()?;
        let as_measured = departures.delay.clone()?;
        let shift_ns = clock.and_then(|clock| Some(clocks::correct(0, clock.offset_ns?, flow.direction)));
        let corrected = shift_ns.map(|shift_ns| shifted(&as_measured, shift_ns));
        Some(Self { stamped_by: departures.stamped_by.clone(), as_measured, corrected })
    }
}

/// A distribution whose values were all moved by as much.
fn shifted(values: &Distribution, by_ns: i64) -> Distribution {
    let moved = |ns: i64| ns.saturating_add(by_ns);
    Distribution {
        min_ns: moved(values.min_ns),
        mean_ns: values.mean_ns + by_ns as f64,
        p50_ns: moved(values.p50_ns),
        p90_ns: moved(values.p90_ns),
        p99_ns: moved(values.p99_ns),
        p99_9_ns: moved(values.p99_9_ns),
        p99_99_ns: moved(values.p99_99_ns),
        p99_999_ns: moved(values.p99_999_ns),
        max_ns: moved(values.max_ns),
        ..values.clone()
    }
}

/// A path measurement with its analysis.
pub struct PathDigest {
    /// Results.
    pub summary: PathSummary,
    /// The packets of each flow, sorted into arrivals and others, in the order of the facts.
    pub flows: Vec<(FlowFacts, Classified)>,
    /// The arrivals of each flow by one clock, in the same order.
    pub timed: Vec<Vec<Arrival>>,
    /// Facts of the run or of the log.
    pub run: RunFacts,
}

/// Analyses a stored run.
pub fn analyze(run: &RunDir) -> anyhow::Result<PathDigest> {
    let manifest = run.read_manifest()?;
    let facts: PathFacts = run
        .read_facts(manifest.path.as_ref())?
        .with_context(|| format!("read {}: it has no facts of a path", run.manifest().display()))?;
    let packets = if run.has_table(&manifest, &run.samples())? {
        read_path_samples(&run.samples(), facts.flows.len())?
    } else {
        vec![Vec::new(); facts.flows.len()]
    };
    let mut digest = digest(&facts, &packets, quaver_instrument::facts::run_facts(run, &manifest));
    digest.summary.complete &= manifest.complete;
    digest.summary.warnings.splice(0..0, warnings::of_run(&manifest));
    Ok(digest)
}

/// Analyses packets, flow by flow, with what is known of them.
pub fn digest(facts: &PathFacts, packets: &[Vec<Singleton>], run: RunFacts) -> PathDigest {
    // Where only figures were kept, there are no packets to tell anything by.
    let kept = facts.rolling.is_empty();
    let full = matches!(facts.protocol.as_str(), "stamp" | "twamp" | "owamp");
    let numbering = if full { Numbering::Full } else { Numbering::Jitlat };
    let classified = |(flow, packets): (&FlowFacts, &Vec<Singleton>)| {
        // A sender that went away in the middle did not say how many it had sent, and did not send all.
        let sent = flow.sent.or_else(|| flow.cut_short.is_none().then_some(flow.planned));
        (flow.clone(), classify(packets, numbering, sent))
    };
    // Packets of which no word came back are neither lost nor arrived.
    let is_heard = |(flow, found): &(FlowFacts, Classified)| !flow.is_unheard() || !found.arrivals.is_empty();
    let (flows, unheard): (Vec<_>, Vec<_>) =
        facts.flows.iter().zip(packets).filter(|_| kept).map(classified).partition(is_heard);
    let (Timed { clocks, flows: timed }, rolling) =
        if kept { (by_packets(facts, &flows), Vec::new()) } else { by_least_delays(facts) };
    let mut summary = PathSummary {
        version: VERSION,
        peer: facts.peer.clone(),
        protocol: facts.protocol.clone(),
        complete: facts.flows.iter().all(|flow| flow.cut_short.is_none()),
        clock: clocks,
        clocks: facts.clocks.clone(),
        clock_steps: facts.clock_steps.clone(),
        up: None,
        down: None,
        round_trip_loss: None,
        rolling,
        rolling_flows: if kept {
            unheard.into_iter().map(|(flow, _)| flow).collect()
        } else {
            facts.flows.clone()
        },
        warnings: Vec::new(),
    };
    for ((flow, classified), timed) in flows.iter().zip(&timed) {
        let figures = flow_summary(&FlowInput {
            classified,
            timed,
            target_period_ns: flow.period_ns,
            own_drops: flow.own_drops,
            loss_timeout_ns: None,
            min_rtt_ns: summary.clock.as_ref().and_then(|clock| clock.min_rtt_ns),
        });
        let delay_from_departure = DepartureDelay::of(flow, summary.clock.as_ref());
        let results = FlowResults { flow: flow.clone(), figures, delay_from_departure };
        match flow.direction {
            Direction::Up => summary.up = Some(results),
            Direction::Down => summary.down = Some(results),
        }
    }
    summary.round_trip_loss =
        round_trip_loss(facts, &summary).filter(|_| matches!(facts.protocol.as_str(), "stamp" | "twamp"));
    summary.warnings = warnings::of(&summary);
    PathDigest { summary, flows, timed: timed.into_iter().map(|flow| flow.arrivals).collect(), run }
}

/// A packet may have reached the reflector without a reply: then it is no loss on the way there, and one of the round trip.
fn round_trip_loss(facts: &PathFacts, summary: &PathSummary) -> Option<RoundTripLoss> {
    let flows = summary.known_flows();
    let there = flows.iter().find(|known| known.flow.direction == Direction::Up)?;
    let sent = there.flow.sent?;
    let stamped = there
        .results
        .map(|results| results.figures.delay.as_ref().map_or(0, |delay| delay.as_measured.count));
    let answered = facts.answered.or(stamped).unwrap_or(there.unique);
    let lost = sent.saturating_sub(answered);
    let share = (sent > 0).then(|| lost as f64 / sent as f64);
    Some(RoundTripLoss { sent, lost, share, way_unknown: facts.way_unknown.min(lost) })
}

/// What packets say of the clocks.
fn by_packets(facts: &PathFacts, flows: &[(FlowFacts, Classified)]) -> Timed {
    let times = flows.iter().map(|(flow, classified)| FlowTimes {
        direction: flow.direction,
        arrivals: &classified.arrivals,
        period_ns: flow.schedule.starts_with("periodic").then_some(flow.period_ns),
    });
    by_one_clock(facts, &times.collect::<Vec<_>>())
}

/// What the least delays of flows say of the clocks whose packets were not kept, and the figures of these by one clock.
/// The drift was taken out as packets came; the offset is taken out here.
fn by_least_delays(facts: &PathFacts) -> (Timed, Vec<RollingFigures>) {
    let arrival = |(sequence, &(sent_ns, received_ns)): (usize, &(i64, i64))| Arrival {
        sequence: sequence as u64,
        sent_ns,
        received_ns,
    };
    let least = |figures: &RollingFigures| -> Vec<Arrival> {
        figures.followed.iter().flat_map(|followed| followed.least.iter().enumerate().map(arrival)).collect()
    };
    let mut rolling = facts.rolling.clone();
    let direction = |figures: &RollingFigures| {
        facts.flows.iter().map(|flow| flow.direction).find(|direction| direction.name() == figures.direction)
    };
    let all: Vec<Vec<Arrival>> = rolling.iter().map(least).collect();
    let known = rolling.iter().zip(&all).filter(|(_, arrivals)| !arrivals.is_empty());
    let times: Vec<FlowTimes<'_>> = known
        .filter_map(|(figures, arrivals)| {
            Some(FlowTimes { direction: direction(figures)?, arrivals, period_ns: None })
        })
        .collect();
    let timed = by_one_clock(facts, &times);
    let one_clock = timed.clocks.as_ref().is_some_and(|clocks| clocks.source == OffsetSource::SameClock);
    for (times, flow) in times.iter().zip(&timed.flows) {
        let name = times.direction.name();
        let Some(figures) = rolling.iter_mut().find(|figures| figures.direction == name) else { continue };
        if let Some(followed) = figures.followed.as_mut().filter(|_| one_clock) {
            followed.bound_ns = followed.most_taken_ns;
        }
        let measured_ns = times.arrivals[0].delay_ns();
        let by_ns = flow.arrivals[0].delay_ns().saturating_sub(measured_ns);
        figures.corrected = flow.bound_ns.and_then(|bound_ns| moved(figures, by_ns, bound_ns));
        figures.followed.iter_mut().for_each(|followed: &mut FollowedDrift| followed.least.clear());
    }
    (timed, rolling)
}

/// The delays of a flow, all moved by as much.
fn moved(figures: &RollingFigures, by_ns: i64, bound_ns: i64) -> Option<CorrectedDelay> {
    let drift_bound_ns = figures.followed.as_ref()?.bound_ns;
    Some(CorrectedDelay {
        min_ns: figures.min_delay_ns?.saturating_add(by_ns),
        mean_ns: figures.mean_delay_ns? + by_ns as f64,
        max_ns: figures.max_delay_ns?.saturating_add(by_ns),
        quantiles_ns: figures.delay_quantiles_ns?.map(|ns| ns.saturating_add(by_ns)),
        bound_ns: bound_ns.saturating_add(drift_bound_ns),
    })
}

/// What least delays, round trips and readings say of the clocks.
fn by_one_clock(facts: &PathFacts, times: &[FlowTimes<'_>]) -> Timed {
    let probes = facts.rtt_probes();
    let step = |step: &ClockStepFacts| ReadStep {
        end: if step.end == "server" { End::Server } else { End::Client },
        step_ns: step.step_ns,
    };
    let read_steps: Vec<ReadStep> = facts.clock_steps.iter().map(step).collect();
    timed(&Evidence {
        flows: times,
        probes: &probes,
        stated: facts.stated_clock.map(stated),
        boot_gap_ns: facts.boot_gap_ns,
        // Only ends that read both of their clocks see steps of them. A log does not tell steps.
        read_steps: facts.boot_gap_ns.filter(|_| facts.stated_clock.is_none()).map(|_| read_steps.as_slice()),
    })
}

/// What a log states of the clocks. Its estimate is the median of several, whose round trips it does not tell; the
/// true offset then lies within half of the least one only if that was the median's.
fn stated(clock: StatedClock) -> ClockEstimate {
    ClockEstimate {
        jitlat_error_ns: clock.error_ns,
        min_rtt_ns: clock.min_rtt_ns,
        offset_ns: clock.error_ns,
        bound_ns: clock.min_rtt_ns / 2 + clock.min_rtt_ns % 2,
        probes: 0,
    }
}

impl PathSummary {
    /// The flows that there are.
    pub fn flows(&self) -> impl Iterator<Item = &FlowResults> {
        self.up.iter().chain(&self.down)
    }

    /// All flows, also those whose packets were not kept.
    pub fn known_flows(&self) -> Vec<KnownFlow<'_>> {
        let kept = self.flows().map(|results| {
            let packets = &results.figures.packets;
            let (unique, reordered, duplicate) = (packets.unique, packets.reordered, packets.duplicate);
            KnownFlow { flow: &results.flow, results: Some(results), unique, reordered, duplicate }
        });
        let rolling = self.rolling_flows.iter().map(|flow| {
            let figures = self.rolling.iter().find(|figures| figures.direction == flow.direction.name());
            let (unique, reordered, duplicate) =
                figures.map_or((0, 0, 0), |seen| (seen.unique, seen.reordered, seen.duplicate));
            KnownFlow { flow, results: None, unique, reordered, duplicate }
        });
        kept.chain(rolling).collect()
    }

    /// Whether the two ends may have two clocks: not where both have one address.
    fn peer_is_remote(&self) -> bool {
        let host = |text: &str| text.parse::<SocketAddr>().ok().map(|address| address.ip());
        self.known_flows().iter().any(|known| host(&known.flow.source) != host(&known.flow.destination))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::{flow_facts, run};
    use quaver_abi::wire::jitlat::FLAG_UNSTAMPED;

    #[test]
    fn what_a_sender_that_went_away_never_sent_is_not_lost() {
        let row = |tx_seq: i32| {
            let tx_real_time_ns = 1_000_000_000 + i64::from(tx_seq) * 1_000_000;
            Singleton { tx_real_time_ns, tx_seq, rx_real_time_ns: tx_real_time_ns + 50_000, flags: 0 }
        };
        let packets = [(0..40).filter(|number| *number != 7).map(row).collect()];
        for (cut_short, lost) in [(Some("the server closed the connection".to_owned()), 1), (None, 61)] {
            let flow = FlowFacts { sent: None, cut_short, ..flow_facts(Direction::Down, 100) };
            let facts = PathFacts { flows: vec![flow], ..PathFacts::default() };
            let figures = digest(&facts, &packets, run()).summary.down.unwrap().figures;
            assert_eq!((figures.loss.packets, figures.packets.sent), (lost, 39 + lost));
        }
    }

    #[test]
    fn a_packet_that_reached_the_reflector_without_a_reply_is_lost_there_and_back() {
        let row = |(tx_seq, flags): (i32, i32)| {
            let tx_real_time_ns = 1_000_000_000 + i64::from(tx_seq) * 1_000_000;
            Singleton { tx_real_time_ns, tx_seq, rx_real_time_ns: tx_real_time_ns + 50_000, flags }
        };
        // Of ten packets 3 is lost on the way there, and the reply to 5 on the way back.
        let up = (0..10)
            .filter(|number| *number != 3)
            .map(|number| (number, i32::from(number == 5) * FLAG_UNSTAMPED));
        let packets = [
            up.map(row).collect(),
            (0..9).filter(|number| *number != 4).map(|number| row((number, 0))).collect(),
        ];
        for answered in [Some(8), None] {
            let flows = vec![flow_facts(Direction::Up, 10), flow_facts(Direction::Down, 9)];
            let facts = PathFacts { protocol: "stamp".into(), flows, answered, ..PathFacts::default() };
            let summary = digest(&facts, &packets, run()).summary;
            let lost = |flow: Option<FlowResults>| flow.unwrap().figures.loss.packets;
            let there_and_back = summary.round_trip_loss.unwrap();
            assert_eq!((there_and_back.sent, there_and_back.lost), (10, 2));
            assert_eq!((lost(summary.up), lost(summary.down)), (1, 1));
        }
    }
}
