//! From a stored run of `quaver probe` to the header of a Jitlat log of one of its flows.

use crate::facts::{DepartureFacts, FlowFacts, PathFacts};
use crate::jitlat_log::{Ending, LogFacts, LogHeader, NtpErrors, RttProbeTimes, date_line};
use anyhow::Context;
use quaver_abi::wire::jitlat::{Command, PROTO_TCP, PROTO_UDP};
use quaver_arrivals::path::clocks::{RttProbe, estimate};
use quaver_arrivals::path::direction::Direction;
use std::net::SocketAddr;

/// The header of a log that is made at this time (nanoseconds since 1970).
///
/// # Errors
/// Where the facts hold no address, which only a run that somebody changed does.
pub fn run_log_header(facts: &PathFacts, flow: &FlowFacts, now_ns: i64) -> anyhow::Result<LogHeader> {
    let address = |text: &str| -> anyhow::Result<SocketAddr> {
        text.parse().with_context(|| format!("read the run's facts: {text:?} is no address with a port"))
    };
    let (source, destination) = (address(&flow.source)?, address(&flow.destination)?);
    let probes: Vec<RttProbe> = facts
        .round_trips
        .iter()
        .map(|trip| RttProbe { t1_ns: trip.t1_ns, t2_ns: trip.t2_ns, t3_ns: trip.t3_ns })
        .collect();
    let clocks = estimate(&probes);
    let stated = facts.stated_clock;
    Ok(LogHeader {
        created: date_line(now_ns.div_euclid(1_000_000_000)),
        command: match flow.direction {
            Direction::Up => Command::Sending,
            Direction::Down => Command::SendMe,
        },
        npkts: flow.planned,
        pktlen: flow.payload_bytes,
        proto: if flow.transport == "TCP" { PROTO_TCP } else { PROTO_UDP },
        period_ns: flow.period_ns,
        src_ip: source.ip(),
        dst_ip: destination.ip(),
        src_port: source.port(),
        dst_port: destination.port(),
        dscp: u32::from(flow.dscp),
        clock_error_ns: clocks.map(|clocks| clocks.jitlat_error_ns).or(stated.map(|stated| stated.error_ns)),
        min_rtt_ns: clocks.map(|clocks| clocks.min_rtt_ns).or(stated.map(|stated| stated.min_rtt_ns)),
        facts: log_facts(facts, flow),
    })
}

fn log_facts(facts: &PathFacts, flow: &FlowFacts) -> LogFacts {
    let ntp = |end: &str| {
        let clock = facts.clocks.iter().find(|clock| clock.end == end && clock.synchronised)?;
        let ns = |ns: Option<i64>| u64::try_from(ns?).ok();
        Some(NtpErrors { estimated_ns: ns(clock.estimated_error_ns)?, max_ns: ns(clock.max_error_ns)? })
    };
    let chrony = |end: &str| facts.clocks.iter().find(|clock| clock.end == end)?.chrony;
    let times = facts.round_trips.iter().map(|trip| RttProbeTimes {
        t1_ns: trip.t1_ns,
        t2_ns: trip.t2_ns,
        t3_ns: trip.t3_ns,
    });
    LogFacts {
        direction: Some(flow.direction),
        protocol: Some(if facts.protocol == "jitlat" { "legacy".to_owned() } else { facts.protocol.clone() }),
        stamps: Some(flow.received_stamped_by.clone()),
        departures: flow.departures.clone().map(|facts| DepartureFacts { delay: None, ..facts }),
        sent: flow.sent,
        client_ntp: ntp("client"),
        server_ntp: ntp("server"),
        client_chrony: chrony("client"),
        server_chrony: chrony("server"),
        rtt_probes: times.collect(),
        boot_gap_ns: facts.boot_gap_ns,
        ending: Some(flow.cut_short.clone().map_or(Ending::Complete, Ending::Interrupted)),
    }
}
