//! From what a test left with the client to what the manifest tells.

use crate::digest::ends;
use crate::facts::{
    AchievedSchedule, ChronyFacts, ClockStepFacts, EndClock, FlowFacts, LatePolicyName, MoveFacts, NOT_KNOWN,
    PathFacts, RoundTrip, SendingFacts,
};
use quaver_path_flow::{FlowSchedule, LatePolicy, ReceiverSummary, SendReport, SenderSummary, Transport};
use quaver_path_record::{ClockEstimate, Completion, FlowOutcome, HostClocks, Protocol, Side, TestOutcome};

/// Facts of a test between two Quavers, or with a Jitlat server.
pub(crate) fn of_test(outcome: &TestOutcome) -> PathFacts {
    let why = cut_short(outcome);
    PathFacts {
        answered: None,
        way_unknown: 0,
        peer: outcome.server.to_string(),
        protocol: match outcome.protocol {
            Protocol::Extended(version) => format!("extension {version}"),
            other => other.name().to_owned(),
        },
        flows: outcome.flows.iter().map(|flow| of_flow(flow, why.as_deref())).collect(),
        round_trips: outcome.rtt_probes.iter().map(|probe| RoundTrip::from(*probe)).collect(),
        stated_clock: None,
        clocks: [end_clock("client", &outcome.client_clock), end_clock("server", &outcome.server_clock)]
            .into_iter()
            .flatten()
            .collect(),
        clock_steps: clock_steps(&outcome.clock_steps, outcome.started_ns),
        boot_gap_ns: boot_gap_ns(&outcome.client_clock, &outcome.server_clock),
        rolling: Vec::new(),
    }
}

/// Why a test did not go its full length, where it did not.
pub(crate) fn cut_short(outcome: &TestOutcome) -> Option<String> {
    match &outcome.completion {
        Completion::Complete => None,
        Completion::Interrupted => Some("interrupted by the user".to_owned()),
        Completion::ServerLost(sentence) => Some(sentence.clone()),
    }
}

/// How far apart the two ends' wall clocks stand from their monotonic clocks: medians of all readings.
fn boot_gap_ns(client: &HostClocks, server: &HostClocks) -> Option<i64> {
    let ahead_ns = |clocks: &HostClocks| {
        let mut all: Vec<i64> =
            clocks.pairs.iter().map(|pair| pair.realtime_ns.wrapping_sub(pair.monotonic_ns)).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    };
    Some(ahead_ns(server)?.saturating_sub(ahead_ns(client)?))
}

/// What a kernel knew of its clock, after the test if it was asked then.
fn end_clock(end: &str, clocks: &HostClocks) -> Option<EndClock> {
    clocks.after.or(clocks.before).map(|estimate| clock_of(end, estimate))
}

/// The same of one estimate.
pub(crate) fn clock_of(end: &str, estimate: ClockEstimate) -> EndClock {
    let synchronised = estimate.is_synchronised();
    EndClock {
        end: end.to_owned(),
        synchronised,
        max_error_ns: synchronised.then_some(estimate.maxerror_ns),
        estimated_error_ns: synchronised.then_some(estimate.esterror_ns),
        chrony: estimate.chrony.map(ChronyFacts::from),
    }
}

/// Steps of a wall clock, counted from the start of the test by that clock.
pub(crate) fn clock_steps(steps: &[quaver_path_record::ClockStep], started_ns: i64) -> Vec<ClockStepFacts> {
    let steps = steps.iter().map(|step| ClockStepFacts {
        end: match step.side {
            Side::Client => "client".to_owned(),
            Side::Server => "server".to_owned(),
        },
        step_ns: step.step_ns,
        after_ns: step.after_ns.saturating_sub(started_ns),
    });
    steps.collect()
}

/// Packets sent. A sender that went away in the middle did not send all that was asked for.
pub(crate) fn sent(flow: &FlowOutcome, complete: bool) -> Option<u64> {
    flow.packets_sent().filter(|_| complete || flow.sender.is_some())
}

/// Facts of one of its flows; `why` the test did not go its full length, where it did not.
pub(crate) fn of_flow(flow: &FlowOutcome, why: Option<&str>) -> FlowFacts {
    let receiver = flow.receiver.as_ref();
    FlowFacts {
        direction: flow.direction,
        transport: match flow.transport {
            Transport::Udp => "UDP".to_owned(),
            Transport::Tcp => "TCP".to_owned(),
        },
        source: flow.source.to_string(),
        destination: flow.destination.to_string(),
        dscp: flow.dscp,
        payload_bytes: flow.packet_bytes,
        period_ns: flow.schedule.mean_period_ns(),
        schedule: schedule_name(&flow.schedule).to_owned(),
        planned: planned(flow),
        sent: sent(flow, why.is_none()),
        sent_stamped_by: "application".to_owned(),
        received_stamped_by: receiver.map_or_else(|| NOT_KNOWN.to_owned(), stamped_by),
        own_drops: receiver.and_then(|receiver| receiver.own_drops),
        foreign: receiver.map_or(0, |receiver| receiver.foreign + receiver.unreadable),
        achieved: flow.sender.as_ref().map(|sender| {
            let sending = sending(sender, receiver);
            AchievedSchedule { sending, ..achieved(sender, flow.send_report.as_ref()) }
        }),
        departures: ends::departures(flow),
        segments: ends::segments_here(flow),
        segments_at_server: ends::segments_at_server(flow),
        moved: flow.moved.map(|moved| MoveFacts {
            times: moved.times,
            uncounted: moved.uncounted,
            to: moved.to.to_string(),
        }),
        cut_short: flow_cut_short(flow, why),
    }
}

fn schedule_name(schedule: &FlowSchedule) -> &'static str {
    match schedule {
        FlowSchedule::Periodic { random_start: Some(_), .. } => "periodic from a random start",
        FlowSchedule::Periodic { random_start: None, .. } => "periodic",
        FlowSchedule::Poisson { .. } => "Poisson",
        FlowSchedule::Recorded { .. } => "recorded",
    }
}

/// Who stamped the packets; the rarer ones with their share.
fn stamped_by(receiver: &ReceiverSummary) -> String {
    let names = ["hardware", "kernel", "application"];
    let all: u64 = receiver.stamped_by.iter().sum();
    let mut by: Vec<(u64, &str)> =
        receiver.stamped_by.into_iter().zip(names).filter(|(packets, _)| *packets > 0).collect();
    by.sort_by_key(|(packets, _)| std::cmp::Reverse(*packets));
    match by.as_slice() {
        [] => "nobody".to_owned(),
        [(_, name)] => (*name).to_owned(),
        several => several
            .iter()
            .map(|(packets, name)| format!("{name} ({packets} of {all})"))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn achieved(sender: &SenderSummary, report: Option<&SendReport>) -> AchievedSchedule {
    let held = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    AchievedSchedule {
        slope_ppm: report.and_then(|report| report.slope_ppm),
        error_p50_ns: held(sender.lateness.quantiles_ns[0]),
        error_p99_ns: held(sender.lateness.quantiles_ns[2]),
        error_max_ns: held(sender.lateness.largest_ns),
        missed: sender.misses,
        cpu_per_million_ns: sender.cpu_ns_per_million().map(|ns| ns as u64),
        sending: None,
    }
}

pub(crate) fn late_policy_name(late: LatePolicy) -> LatePolicyName {
    match late {
        LatePolicy::Skip => LatePolicyName::Skip,
        LatePolicy::SendLate => LatePolicyName::SendLate,
        LatePolicy::Burst => LatePolicyName::Burst,
    }
}

fn sending(sender: &SenderSummary, receiver: Option<&ReceiverSummary>) -> Option<SendingFacts> {
    let said = sender.sending?;
    Some(SendingFacts {
        late_policy: late_policy_name(said.late_policy),
        late: said.late,
        unsent: said.unsent,
        train_packets: said.train_packets,
        longest_train: said.longest_train,
        received_in_trains: receiver.map_or(0, |receiver| receiver.of_trains),
    })
}

/// Packets that were to be sent: those due in the flow's time, where it has one and its sender says so.
fn planned(flow: &FlowOutcome) -> u64 {
    let in_time = flow.sender.and_then(|sender| {
        let sending = sender.sending.filter(|sending| sending.finished)?;
        Some(sender.packets + sender.misses + sending.unsent)
    });
    let timed = flow.lasting.and(in_time);
    timed.or(flow.packets).or(flow.packets_sent()).unwrap_or(0)
}

/// Why a flow is not all there: the end of the whole test, or something of its own.
fn flow_cut_short(flow: &FlowOutcome, why: Option<&str>) -> Option<String> {
    if flow.complete {
        return None;
    }
    Some(why.map_or_else(
        || match &flow.receiver {
            Some(receiver) if !receiver.end_seen => {
                "the receiver missed the end of the flow; missing packets may be late, not lost".to_owned()
            }
            _ => "no report from the other end".to_owned(),
        },
        str::to_owned,
    ))
}
