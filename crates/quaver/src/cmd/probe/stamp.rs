//! `quaver probe --stamp`: the path to any STAMP reflector (RFC 8762).

use super::{Record, options, print};
use crate::cli::path::{DirectionName, ProbeArgs, ScheduleName};
use crate::cmd::serve::read_key;
use crate::exit_code::{ExitCode, failure};
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::report::units::{count, duration};
use anyhow::Context;
use quaver_abi::wire::jitlat::{DEFAULT_NPKTS, Singleton};
use quaver_measure::path::stamp::{
    Evidence, Protection, SenderOptions, StampKey, StampOutcome, StampProgress, send_session,
};
use quaver_store::path_facts::{Direction, FlowFacts, PathFacts, RoundTrip};
use std::time::{Duration, Instant};

/// Round trips that are kept for the estimate of the clocks' offset: those of the fastest packets.
const ROUND_TRIPS: usize = 16;

/// Measures, analyses, prints.
pub(super) fn run(args: &ProbeArgs, port: u16, interrupt: &Interrupt) -> anyhow::Result<ExitCode> {
    let options = sender_options(args, port)?;
    let record = Record::begin(args)?;
    let packets = options.count.unwrap_or(0);
    let length = Duration::from_nanos(options.period_ns.saturating_mul(packets));
    let line = Progress::timed(length, args.output.quiet);
    let start = Instant::now();
    let mut answered = 0u64;
    let sent = send_session(&options, interrupt.flag(), &mut |progress| {
        if let StampProgress::Answered(packet) = progress {
            answered += 1;
            let round_trip = packet.reply.map(|reply| duration(reply.round_trip_ns(packet.t1_ns)));
            let words =
                format!("{} answered, round trip {}", count(answered), round_trip.unwrap_or_default());
            line.show(start.elapsed(), words);
        }
    });
    drop(line);
    let outcome = match sent {
        Ok(outcome) => outcome,
        Err(error) => {
            record.discard();
            return Err(error).context(format!("measuring to the reflector {}", options.target));
        }
    };
    let silent = outcome.packets.iter().all(|packet| packet.reply.is_none());
    let (facts, up, down) = told(&outcome, &options);
    let cut_short = (!outcome.complete).then(|| "interrupted by the user".to_owned());
    let record = record.noting(ways_of_loss(&outcome));
    let (digest, report) = record.conclude(facts, &[&up, &down], cut_short)?;
    let code = print(args, &digest, &report)?;
    Ok(match (interrupt.requested(), silent) {
        (true, _) => ExitCode::Interrupted,
        (false, true) => {
            eprintln!(
                "quaver: {} answered none of {} packets: see that a STAMP reflector runs there, and that a firewall lets \
                 UDP to it through",
                options.target,
                outcome.packets.len()
            );
            ExitCode::Peer
        }
        (false, false) => code,
    })
}

fn sender_options(args: &ProbeArgs, port: u16) -> anyhow::Result<SenderOptions> {
    let unsupported = [
        (args.tcp, "--tcp"),
        (args.rolling, "--rolling"),
        (args.trace.is_some(), "--trace"),
        (args.schedule != ScheduleName::Periodic, "--schedule poisson"),
        (args.direction != DirectionName::Both, "--direction"),
        (args.json_lines, "--json-lines"),
    ];
    if let Some((_, option)) = unsupported.into_iter().find(|(asked, _)| *asked) {
        return Err(failure(ExitCode::Usage, format!("{option} is not for --stamp; leave one of them out")));
    }
    let mut options = SenderOptions::new(options::resolve(&args.host, port)?);
    options.period_ns = options::period_ns(args)?;
    options.count = Some(match (args.count, args.duration) {
        (Some(count), _) => count,
        (None, Some(time)) => options::lasting(time, options.period_ns),
        (None, None) => u64::from(DEFAULT_NPKTS),
    });
    options.packet_bytes = Some(args.size as usize);
    options.dscp = args.dscp;
    options.ssid = (quaver_measure::clock::realtime_ns() as u16) | 1;
    if let Some(path) = &args.key_file {
        let key =
            StampKey::new(&read_key(path)?).map_err(|error| failure(ExitCode::Usage, error.to_string()))?;
        options.protection = Protection::All(key);
    }
    Ok(options)
}

/// Which way packets were lost, as a sentence; none where nothing was lost.
fn ways_of_loss(outcome: &StampOutcome) -> Option<String> {
    let lost = outcome.lost();
    if lost == 0 {
        return None;
    }
    let directions = &outcome.directions;
    Some(match (directions.forward_lost, directions.backward_lost) {
        (Some(there), Some(back)) => format!(
            "of {} packets without an answer, {} were lost on the way there and {} on the way back, as the reflector's \
             own numbers tell, and {} on one of the two; the figures of \"up\" count all of them",
            count(lost),
            count(there),
            count(back),
            count(directions.undecided)
        ),
        _ => format!(
            "the reflector repeats our numbers, so nobody can say on which way the {} packets without an answer were \
             lost: the figures of both ways count all of them; a stateful reflector would tell",
            count(lost)
        ),
    })
}

/// The two directions as flows. What got lost on which way is known where the reflector numbers its replies.
fn told(outcome: &StampOutcome, options: &SenderOptions) -> (PathFacts, Vec<Singleton>, Vec<Singleton>) {
    let replies = || outcome.packets.iter().filter_map(|packet| Some((packet, packet.reply.as_ref()?)));
    // A packet number keeps its low 32 bits, as on the wire.
    let one = |sequence: u64, sent_ns: i64, received_ns: i64| Singleton {
        tx_real_time_ns: sent_ns,
        tx_seq: (sequence as u32).cast_signed(),
        rx_real_time_ns: received_ns,
        flags: 0,
    };
    let up: Vec<Singleton> =
        replies().map(|(packet, reply)| one(packet.sequence, packet.t1_ns, reply.t2_ns)).collect();
    let mut answers: Vec<_> = replies().collect();
    answers.sort_by_key(|(_, reply)| reply.t4_ns);
    // A reflector that counts its replies numbers the way back by itself, so what was lost on it shows.
    let counted = outcome.directions.evidence == Evidence::ReflectorSequence;
    let number = |own: u64, reflectors: u32| if counted { u64::from(reflectors) } else { own };
    let down: Vec<Singleton> = answers
        .iter()
        .map(|(packet, reply)| {
            one(number(packet.sequence, reply.reflector_sequence), reply.t3_ns, reply.t4_ns)
        })
        .collect();
    let mut fastest: Vec<_> =
        replies().map(|(packet, reply)| (reply.round_trip_ns(packet.t1_ns), packet, reply)).collect();
    fastest.sort_by_key(|(round_trip_ns, ..)| *round_trip_ns);
    let round_trips = fastest.iter().take(ROUND_TRIPS).map(|(round_trip_ns, packet, reply)| RoundTrip {
        t1_ns: packet.t1_ns,
        t2_ns: reply.t2_ns,
        t3_ns: packet.t1_ns.saturating_add(*round_trip_ns),
    });
    let facts = PathFacts {
        peer: outcome.target.to_string(),
        protocol: "stamp".to_owned(),
        flows: vec![flow(outcome, options, Direction::Up), flow(outcome, options, Direction::Down)],
        round_trips: round_trips.collect(),
        ..PathFacts::default()
    };
    (facts, up, down)
}

fn flow(outcome: &StampOutcome, options: &SenderOptions, direction: Direction) -> FlowFacts {
    let sent = outcome.packets.len() as u64;
    // Packets that came back, and those whose answer is known to have been lost, reached the reflector.
    let reached = match outcome.directions.evidence {
        Evidence::ReflectorSequence => {
            let astray = outcome.directions.forward_lost.unwrap_or(0) + outcome.directions.undecided;
            Some(sent.saturating_sub(astray))
        }
        _ => Some(sent),
    };
    let up = direction == Direction::Up;
    let (source, destination) =
        if up { (outcome.local, outcome.target) } else { (outcome.target, outcome.local) };
    FlowFacts {
        direction,
        transport: "UDP".to_owned(),
        source: source.to_string(),
        destination: destination.to_string(),
        dscp: options.dscp,
        payload_bytes: outcome.packet_bytes as u32,
        period_ns: options.period_ns,
        schedule: "periodic".to_owned(),
        planned: options.count.unwrap_or(sent),
        sent: if up { Some(sent) } else { reached },
        sent_stamped_by: if up { "application".to_owned() } else { "the reflector".to_owned() },
        received_stamped_by: if up { "the reflector".to_owned() } else { "kernel".to_owned() },
        own_drops: None,
        foreign: outcome.foreign,
        achieved: None,
        segments: None,
        cut_short: (!outcome.complete).then(|| "interrupted by the user".to_owned()),
    }
}
