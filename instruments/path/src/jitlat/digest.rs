//! From Jitlat's tests and logs to results, and from a test to its log.

mod header;

pub use header::{log_header, run_log_header};
use quaver_arrivals::path::direction::Direction;

use crate::facts::{ChronyFacts, EndClock, FlowFacts, PathFacts, StatedClock};
use crate::jitlat_log::{Ending, LogHeader, NtpErrors, parse_date_line};
use quaver_abi::wire::jitlat::{PROTO_TCP, PROTO_UDP, Singleton};
use quaver_arrivals::path::arrival::{Classified, Numbering, classify};
use quaver_arrivals::path::jitlat_figures::{FigureOptions, JitlatFigures, PageVersion, jitlat_figures};
use quaver_store::utc::rfc3339_utc;
use std::num::NonZeroU32;

/// The packets of a log, sorted into arrivals and others.
pub fn classified(header: &LogHeader, packets: &[Singleton]) -> Classified {
    classify(packets, Numbering::Jitlat, Some(header.sent()))
}

/// The numbers of Jitlat's page.
pub fn page_figures(
    header: &LogHeader,
    classified: &Classified,
    version: PageVersion,
    bins: NonZeroU32,
) -> JitlatFigures {
    let options = FigureOptions {
        version,
        bins,
        payload_bytes: header.pktlen,
        target_period_ns: header.period_ns,
        direction: header.direction(),
        clock_error_ns: header.clock_error_ns,
        min_rtt_ns: header.min_rtt_ns,
    };
    jitlat_figures(classified, &options)
}

/// When the log was made, RFC 3339; empty where its first line is no date that is known here.
pub fn made(header: &LogHeader) -> String {
    let ns = parse_date_line(&header.created).and_then(|seconds| seconds.checked_mul(1_000_000_000));
    ns.map(rfc3339_utc).unwrap_or_default()
}

/// What a log tells of its path, as a run would.
pub fn path_facts(header: &LogHeader) -> PathFacts {
    let up = header.direction() == Direction::Up;
    let server = if up { header.destination() } else { header.source() };
    let facts = &header.facts;
    let protocol = facts.protocol.clone().filter(|protocol| protocol != "legacy");
    let clocks = [
        end_clock("client", facts.client_ntp, facts.client_chrony),
        end_clock("server", facts.server_ntp, facts.server_chrony),
    ];
    let stated = header.clock_error_ns.zip(header.min_rtt_ns);
    PathFacts {
        answered: None,
        way_unknown: 0,
        peer: server.ip().to_string(),
        protocol: protocol.unwrap_or_else(|| "jitlat".to_owned()),
        flows: vec![flow_facts(header)],
        round_trips: facts.rtt_probes.clone(),
        stated_clock: stated.map(|(error_ns, min_rtt_ns)| StatedClock { error_ns, min_rtt_ns }),
        clocks: clocks.into_iter().flatten().collect(),
        clock_steps: Vec::new(),
        boot_gap_ns: facts.boot_gap_ns,
        rolling: Vec::new(),
    }
}

/// A log has errors only of a clock that something disciplines.
fn end_clock(end: &str, errors: Option<NtpErrors>, chrony: Option<ChronyFacts>) -> Option<EndClock> {
    let ns = |ns: u64| i64::try_from(ns).ok();
    (errors.is_some() || chrony.is_some()).then(|| EndClock {
        end: end.to_owned(),
        synchronised: errors.is_some(),
        max_error_ns: errors.and_then(|errors| ns(errors.max_ns)),
        estimated_error_ns: errors.and_then(|errors| ns(errors.estimated_ns)),
        chrony,
    })
}

fn flow_facts(header: &LogHeader) -> FlowFacts {
    let facts = &header.facts;
    // Jitlat stamps in the application, both ways.
    let stamps = facts.stamps.clone().unwrap_or_else(|| "application".to_owned());
    FlowFacts {
        direction: header.direction(),
        transport: match header.proto {
            PROTO_UDP => "UDP".to_owned(),
            PROTO_TCP => "TCP".to_owned(),
            other => format!("protocol {other}"),
        },
        source: header.source().to_string(),
        destination: header.destination().to_string(),
        dscp: u8::try_from(header.dscp).unwrap_or(u8::MAX),
        payload_bytes: header.pktlen,
        period_ns: header.period_ns,
        schedule: "periodic".to_owned(),
        planned: header.npkts,
        sent: facts.sent,
        sent_stamped_by: "application".to_owned(),
        received_stamped_by: stamps,
        own_drops: None,
        foreign: 0,
        achieved: None,
        departures: facts.departures.clone(),
        segments: None,
        segments_at_server: None,
        moved: None,
        cut_short: match &facts.ending {
            Some(Ending::Interrupted(why)) => Some(why.clone()),
            _ => None,
        },
    }
}
