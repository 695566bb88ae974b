//! What a path measurement is exported to.

use crate::digest::PathDigest;
use crate::facts::{FlowFacts, PathFacts};
use crate::probe::logs;
use crate::samples::read_path_samples;
use anyhow::Context;
use quaver_abi::wire::jitlat::Singleton;
use quaver_arrivals::path::direction::Direction;
use quaver_instrument::args::DirectionName;
use quaver_instrument::deliver::{deliver, say_written};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::runs::ExportArgs;
use quaver_store::perfetto::{COUNTER, INSTANT, Trace, TraceCounts, TrackEvent, UNIT_TIME_NS};
use quaver_store::run::RunDir;
use std::io::{self, Write};

/// Refuses a rolling test, which keeps no packets; the facts of another.
pub fn refuse_rolling(run: &RunDir) -> anyhow::Result<PathFacts> {
    let facts: Option<PathFacts> = run.read_facts(run.read_manifest()?.path.as_ref())?;
    let facts =
        facts.with_context(|| format!("read {}: it has no facts of a path", run.manifest().display()))?;
    match facts.rolling.is_empty() {
        true => Ok(facts),
        false => Err(failure(ExitCode::Usage, "rolling test: no packets were kept; see summary.json")),
    }
}

/// Converts packets to a log of Jitlat for each direction, or to lines.
pub fn run(args: &ExportArgs, run: &RunDir) -> anyhow::Result<()> {
    let mut facts = refuse_rolling(run)?;
    let target = |name: &str| args.output.clone().unwrap_or_else(|| run.path().join(name));
    let mut packets = read_path_samples(&run.samples(), facts.flows.len())?;
    choose(args.direction, &mut facts, &mut packets)?;
    if args.jitlat_log {
        let written = logs::write(&target("jitlat.log"), &facts, &packets)?;
        written.iter().for_each(|path| say_written(path));
    } else {
        let target = target("packets.csv");
        deliver(&target, |out| packets_csv(&facts, &packets, out))?;
        say_written(&target);
    }
    Ok(())
}

/// Leaves the flows of the direction that was asked for.
fn choose(
    direction: DirectionName,
    facts: &mut PathFacts,
    packets: &mut Vec<Vec<Singleton>>,
) -> anyhow::Result<()> {
    let wanted = match direction {
        DirectionName::Both => return Ok(()),
        DirectionName::Up => Direction::Up,
        DirectionName::Down => Direction::Down,
    };
    let mut flows = facts.flows.iter().map(|flow| flow.direction == wanted);
    packets.retain(|_| flows.next() == Some(true));
    facts.flows.retain(|flow| flow.direction == wanted);
    if facts.flows.is_empty() {
        let message = format!("this test did not measure {}; leave --direction out", wanted.name());
        return Err(failure(ExitCode::Usage, message));
    }
    Ok(())
}

/// For each direction the packets as they were sent and as they arrived, with arrows between, and their delay. Both clocks are
/// drawn as they were: time 0 is when the first packet was sent.
pub fn perfetto(found: &PathDigest, direction: DirectionName, out: &mut dyn Write) -> io::Result<()> {
    let wanted = |flow: &FlowFacts| match direction {
        DirectionName::Both => true,
        DirectionName::Up => flow.direction == Direction::Up,
        DirectionName::Down => flow.direction == Direction::Down,
    };
    let flows = || found.flows.iter().zip(&found.timed).filter(|((flow, _), _)| wanted(flow));
    let instants = flows().flat_map(|(_, timed)| timed.iter().flat_map(|one| [one.sent_ns, one.received_ns]));
    let first_ns = instants.min().unwrap_or_default();
    let since = |ns: i64| ns.saturating_sub(first_ns).cast_unsigned();
    let mut trace = Trace { out, buffer: Vec::new(), drawn: TraceCounts::default() };
    trace.begin()?;
    for (place, ((flow, _), timed)) in (0u64..).zip(flows()) {
        let way = flow.direction.name();
        let [sent, received, delay] = [1, 2, 3].map(|track| 10 * (place + 1) + track);
        trace.track(sent, format!("Packets sent {way}"), None)?;
        trace.track(received, format!("Packets received {way}"), None)?;
        trace.track(delay, format!("Delay {way}"), Some(UNIT_TIME_NS))?;
        for packet in timed {
            let event = TrackEvent {
                name: Some(format!("packet {}", packet.sequence)),
                flow_ids: vec![(place << 48) + packet.sequence + 1],
                ..TrackEvent::default()
            };
            trace.event(since(packet.sent_ns), INSTANT, sent, event.clone())?;
            trace.event(since(packet.received_ns), INSTANT, received, event)?;
            let counted = TrackEvent { counter_value: Some(packet.delay_ns()), ..TrackEvent::default() };
            trace.event(since(packet.received_ns), COUNTER, delay, counted)?;
        }
    }
    Ok(())
}

/// One line a packet, flow by flow, in order of arrival: as it was recorded, so with copies and packets of no use.
fn packets_csv(facts: &PathFacts, packets: &[Vec<Singleton>], out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "direction,tx_seq,sent_ns,received_ns,flags")?;
    for (flow, packets) in facts.flows.iter().zip(packets) {
        let way = flow.direction.name();
        for packet in packets {
            let (number, flags) = (packet.tx_seq.cast_unsigned(), packet.flags.cast_unsigned());
            writeln!(out, "{way},{number},{},{},{flags}", packet.tx_real_time_ns, packet.rx_real_time_ns)?;
        }
    }
    Ok(())
}
