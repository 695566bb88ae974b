//! The header of a Jitlat log of one flow: of a stored run of `quaver probe`, or of a test that was just made.

use crate::facts::{DepartureFacts, FlowFacts, PathFacts};
use crate::jitlat_log::{Ending, LogFacts, LogHeader, NtpErrors, date_line};
use crate::test_facts::{of_flow, of_test};
use anyhow::Context;
use quaver_abi::wire::jitlat::{Command, PROTO_TCP, PROTO_UDP};
use quaver_arrivals::path::clocks::estimate;
use quaver_arrivals::path::direction::Direction;
use quaver_path_record::{Completion, FlowOutcome, TestOutcome};
use std::net::SocketAddr;

/// What the log says where the user ended the test.
const BY_THE_USER: &str = "the user ended the test";

/// The header of a log of a run's flow that is made at this time (nanoseconds since 1970).
///
/// # Errors
/// Where the facts hold no address, which only a run that somebody changed does.
pub fn run_log_header(facts: &PathFacts, flow: &FlowFacts, now_ns: i64) -> anyhow::Result<LogHeader> {
    let address = |text: &str| -> anyhow::Result<SocketAddr> {
        text.parse().with_context(|| format!("read the run's facts: {text:?} is no address with a port"))
    };
    Ok(header(facts, flow, [address(&flow.source)?, address(&flow.destination)?], now_ns))
}

/// The header of a log of one of the test's flows, made at this time (nanoseconds since 1970).
pub fn log_header(outcome: &TestOutcome, flow: &FlowOutcome, now_ns: i64) -> LogHeader {
    let addresses = [flow.source, flow.destination];
    let header = header(&of_test(outcome), &of_flow(flow, None), addresses, now_ns);
    let facts = LogFacts {
        stamps: flow.receiver.and_then(|receiver| stamps(receiver.stamped_by)),
        // Jitlat stamps when it sends; its log is kept as it is.
        departures: None,
        sent: flow.sender.map(|sender| sender.packets),
        // A Jitlat server does not read its monotonic clock for others.
        boot_gap_ns: None,
        ending: Some(match &outcome.completion {
            Completion::ServerLost(why) => Ending::Interrupted(why.clone()),
            Completion::Interrupted => Ending::Interrupted(BY_THE_USER.to_owned()),
            Completion::Complete if flow.complete => Ending::Complete,
            Completion::Complete => Ending::Interrupted("not all results of the flow arrived".to_owned()),
        }),
        ..header.facts
    };
    LogHeader { npkts: flow.packets.or(flow.packets_sent()).unwrap_or(flow.rows), facts, ..header }
}

/// Who stamped the arrivals: one name, or names with how many each.
fn stamps(stamped_by: [u64; 3]) -> Option<String> {
    let named: Vec<(&str, u64)> = ["hardware", "kernel", "application"]
        .into_iter()
        .zip(stamped_by)
        .filter(|(_, packets)| *packets > 0)
        .collect();
    match named[..] {
        [] => None,
        [(name, _)] => Some(name.to_owned()),
        _ => Some(
            named.iter().map(|(name, packets)| format!("{name} {packets}")).collect::<Vec<_>>().join(", "),
        ),
    }
}

fn header(
    facts: &PathFacts,
    flow: &FlowFacts,
    [source, destination]: [SocketAddr; 2],
    now_ns: i64,
) -> LogHeader {
    let clocks = estimate(&facts.rtt_probes());
    let stated = facts.stated_clock;
    LogHeader {
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
    }
}

fn log_facts(facts: &PathFacts, flow: &FlowFacts) -> LogFacts {
    let ntp = |end: &str| {
        let clock = facts.clocks.iter().find(|clock| clock.end == end && clock.synchronised)?;
        let ns = |ns: Option<i64>| u64::try_from(ns?).ok();
        Some(NtpErrors { estimated_ns: ns(clock.estimated_error_ns)?, max_ns: ns(clock.max_error_ns)? })
    };
    let chrony = |end: &str| facts.clocks.iter().find(|clock| clock.end == end)?.chrony;
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
        rtt_probes: facts.round_trips.clone(),
        boot_gap_ns: facts.boot_gap_ns,
        ending: Some(flow.cut_short.clone().map_or(Ending::Complete, Ending::Interrupted)),
    }
}
