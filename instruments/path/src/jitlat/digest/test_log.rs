//! From a test that was just made to the header of its log.

use crate::facts::ChronyFacts;
use crate::jitlat_log::{Ending, LogFacts, LogHeader, NtpErrors, RttProbeTimes, date_line};
use quaver_abi::wire::jitlat::{Command, PROTO_TCP, PROTO_UDP};
use quaver_arrivals::path::clocks::{RttProbe, estimate};
use quaver_arrivals::path::direction::Direction;
use quaver_path_flow::Transport;
use quaver_path_record::{Completion, FlowOutcome, HostClocks, Protocol, TestOutcome};

/// What the log says where the user ended the test.
const BY_THE_USER: &str = "the user ended the test";

/// The header of a log of one of the test's flows, made at this time (nanoseconds since 1970).
pub fn log_header(outcome: &TestOutcome, flow: &FlowOutcome, now_ns: i64) -> LogHeader {
    let probes: Vec<RttProbe> = outcome
        .rtt_probes
        .iter()
        .map(|probe| RttProbe { t1_ns: probe.t1_ns, t2_ns: probe.t2_ns, t3_ns: probe.t3_ns })
        .collect();
    let clocks = estimate(&probes);
    LogHeader {
        created: date_line(now_ns.div_euclid(1_000_000_000)),
        command: match flow.direction {
            Direction::Up => Command::Sending,
            Direction::Down => Command::SendMe,
        },
        npkts: flow.packets.or(flow.packets_sent()).unwrap_or(flow.rows),
        pktlen: flow.packet_bytes,
        proto: match flow.transport {
            Transport::Udp => PROTO_UDP,
            Transport::Tcp => PROTO_TCP,
        },
        period_ns: flow.schedule.mean_period_ns(),
        src_ip: flow.source.ip(),
        dst_ip: flow.destination.ip(),
        src_port: flow.source.port(),
        dst_port: flow.destination.port(),
        dscp: u32::from(flow.dscp),
        clock_error_ns: clocks.map(|clocks| clocks.jitlat_error_ns),
        min_rtt_ns: clocks.map(|clocks| clocks.min_rtt_ns),
        facts: facts(outcome, flow),
    }
}

fn facts(outcome: &TestOutcome, flow: &FlowOutcome) -> LogFacts {
    let probe_times = |probe: &quaver_path_record::RttProbe| RttProbeTimes {
        t1_ns: probe.t1_ns,
        t2_ns: probe.t2_ns,
        t3_ns: probe.t3_ns,
    };
    LogFacts {
        direction: Some(flow.direction),
        protocol: Some(match outcome.protocol {
            Protocol::Legacy => "legacy".to_owned(),
            Protocol::Extended(version) => format!("extension {version}"),
            other => other.name().to_owned(),
        }),
        stamps: flow.receiver.and_then(|receiver| stamps(receiver.stamped_by)),
        // Jitlat stamps when it sends; its log is kept as it is.
        departures: None,
        sent: flow.sender.map(|sender| sender.packets),
        client_ntp: ntp_errors(&outcome.client_clock),
        server_ntp: ntp_errors(&outcome.server_clock),
        client_chrony: chrony(&outcome.client_clock),
        server_chrony: chrony(&outcome.server_clock),
        rtt_probes: outcome.rtt_probes.iter().map(probe_times).collect(),
        // A Jitlat server does not read its monotonic clock for others.
        boot_gap_ns: None,
        ending: Some(match &outcome.completion {
            Completion::ServerLost(why) => Ending::Interrupted(why.clone()),
            Completion::Interrupted => Ending::Interrupted(BY_THE_USER.to_owned()),
            Completion::Complete if flow.complete => Ending::Complete,
            Completion::Complete => Ending::Interrupted("not all results of the flow arrived".to_owned()),
        }),
    }
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

/// The errors of a clock that something disciplines; of another the kernel knows none. The later reading counts.
fn ntp_errors(clocks: &HostClocks) -> Option<NtpErrors> {
    let clock = clocks.after.as_ref().or(clocks.before.as_ref()).filter(|clock| clock.is_synchronised())?;
    let ns = |ns: i64| u64::try_from(ns).ok();
    Some(NtpErrors { estimated_ns: ns(clock.esterror_ns)?, max_ns: ns(clock.maxerror_ns)? })
}

/// What chronyd said of a clock; the later reading counts.
fn chrony(clocks: &HostClocks) -> Option<ChronyFacts> {
    clocks.after.as_ref().or(clocks.before.as_ref())?.chrony.map(ChronyFacts::from)
}
