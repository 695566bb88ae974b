//! From the command line of `quaver probe` to what the client is asked to do.

use crate::args::{LateName, ProbeArgs, ScheduleName};
use crate::serve::{path_key, read_key};
use crate::thread::thread;
use anyhow::Context;
use quaver_abi::wire::jitlat::{DEFAULT_NPKTS, DEFAULT_PERIOD_NS};
use quaver_instrument::args::{DirectionName, host_and_port};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_path_flow::{FlowSchedule, LatePolicy, TrainWish, Transport};
use quaver_path_record::{ClientOptions, Directions};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

/// The options of the client.
pub(crate) fn client_options(args: &ProbeArgs) -> anyhow::Result<ClientOptions> {
    let mut options = ClientOptions::new(resolve(host(args), args.owamp.unwrap_or(args.port))?);
    options.legacy = args.legacy;
    options.owamp = args.owamp.is_some();
    if args.at_once && args.direction != DirectionName::Both {
        let message = "--at-once measures both directions: leave out --direction";
        return Err(failure(ExitCode::Usage, message.to_owned()));
    }
    options.directions = match args.direction {
        DirectionName::Up => Directions::Up,
        DirectionName::Down => Directions::Down,
        // Jitlat measures one way at a time.
        DirectionName::Both if args.legacy => Directions::Up,
        DirectionName::Both if args.at_once => Directions::AtOnce,
        DirectionName::Both => Directions::Both,
    };
    options.transport = if args.tcp { Transport::Tcp } else { Transport::Udp };
    options.packet_bytes = args.size;
    options.schedule = schedule(args)?;
    options.packets = Some(packets(args, &options.schedule));
    options.lasting = lasting_ns(args, &options.schedule).map(Duration::from_nanos);
    options.late = args.late.map(late);
    options.train = args.train.map_or(TrainWish::Auto, TrainWish::Packets);
    (options.pace, options.thread) = thread(&args.thread)?;
    options.dscp = args.dscp.first().copied().unwrap_or(0);
    options.source_port = args.source_port;
    options.rtt_probes = args.rtt_probes;
    options.rtt_interval = args.rtt_interval;
    options.rolling = rolling(args);
    options.key = args.key_file.as_deref().map(read_key).transpose()?.as_deref().map(path_key).transpose()?;
    options.answer_timeout = args.timeout;
    Ok(options)
}

/// The host that is measured to; empty where a file has the hosts.
pub(super) fn host(args: &ProbeArgs) -> &str {
    args.host.as_deref().unwrap_or_default()
}

/// Tests that last longer keep figures in place of packets, unless something is asked for that needs the packets.
const KEPT_UP_TO: Duration = Duration::from_secs(3600);

/// Whether figures are kept in place of packets.
pub(super) fn rolling(args: &ProbeArgs) -> bool {
    let needs_packets = args.plots || args.gnuplot.is_some() || args.log.is_some();
    let long = args.duration.is_some_and(|time| time > KEPT_UP_TO);
    args.rolling.unwrap_or(long && !needs_packets && !args.legacy)
}

/// The first address of a host (`HOST`, `HOST:PORT`), at a port where it names none.
pub(crate) fn resolve(host: &str, port: u16) -> anyhow::Result<SocketAddr> {
    let (name, own) =
        host_and_port(host).map_err(|message| failure(ExitCode::Usage, format!("{host}: {message}")))?;
    let found = (name, own.unwrap_or(port)).to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| {
        failure(ExitCode::Usage, format!("{host}: no such host; give its address or a name that resolves"))
    })
}

/// Target period, nanoseconds.
pub(super) fn period_ns(args: &ProbeArgs) -> anyhow::Result<u64> {
    let usage = |message| failure(ExitCode::Usage, message);
    let period = match (args.period, args.rate) {
        (Some(period), _) => Some(period),
        (None, Some(rate)) => Some(rate.period(args.size as usize).map_err(usage)?),
        (None, None) => None,
    };
    let period_ns = period.map_or(DEFAULT_PERIOD_NS as f64, |period| period.ns()).round() as u64;
    if period_ns == 0 { Err(usage("a period is at least 1 ns".to_owned())) } else { Ok(period_ns) }
}

fn schedule(args: &ProbeArgs) -> anyhow::Result<FlowSchedule> {
    if let Some(path) = &args.trace {
        return Ok(FlowSchedule::Recorded { offsets_ns: recorded(path)?.into() });
    }
    let period_ns = period_ns(args)?;
    // A start or gaps that nobody can foretell; the seed is noted with the run.
    let seed = quaver_clock::realtime_ns().cast_unsigned();
    Ok(match args.schedule {
        ScheduleName::Periodic if args.legacy => FlowSchedule::every(period_ns),
        ScheduleName::Periodic => FlowSchedule::Periodic { period_ns, random_start: Some(seed) },
        ScheduleName::Poisson => FlowSchedule::Poisson { mean_ns: period_ns, seed },
    })
}

/// Offsets from a file, one a line.
fn recorded(path: &Path) -> anyhow::Result<Vec<u64>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("read the schedule {}", path.display()))?;
    let mut offsets: Vec<u64> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad = |what: &str| {
            let message = format!("{}, line {}: {what}", path.display(), at + 1);
            failure(ExitCode::BadInput, message)
        };
        let offset = line.parse().map_err(|_| bad("not a whole number of nanoseconds"))?;
        if offsets.last().is_some_and(|last| *last > offset) {
            return Err(bad("earlier than the line before"));
        }
        offsets.push(offset);
    }
    if offsets.is_empty() {
        return Err(failure(ExitCode::BadInput, format!("{}: it has no times", path.display())));
    }
    Ok(offsets)
}

/// Packets in each direction.
fn packets(args: &ProbeArgs, schedule: &FlowSchedule) -> u64 {
    match (args.count, args.duration, schedule) {
        (_, _, FlowSchedule::Recorded { offsets_ns }) => offsets_ns.len() as u64,
        (Some(count), _, _) => count,
        // A random schedule has more or fewer in its time; its time ends it.
        (None, Some(duration), FlowSchedule::Poisson { mean_ns, .. }) => {
            let mean = lasting(duration, *mean_ns);
            mean + ((mean as f64).sqrt() * 8.0) as u64 + 20
        }
        (None, Some(duration), schedule) => lasting(duration, schedule.mean_period_ns()),
        (None, None, _) => u64::from(DEFAULT_NPKTS),
    }
}

/// When a flow is over, nanoseconds: at `--for`, but not before the first packet of a period.
pub(super) fn lasting_ns(args: &ProbeArgs, schedule: &FlowSchedule) -> Option<u64> {
    let asked_ns = u64::try_from(args.duration?.as_nanos()).unwrap_or(u64::MAX);
    let first_ns = match schedule {
        FlowSchedule::Periodic { period_ns, .. } => *period_ns,
        FlowSchedule::Poisson { .. } | FlowSchedule::Recorded { .. } => 1,
    };
    Some(asked_ns.max(first_ns))
}

pub(super) fn late(name: LateName) -> LatePolicy {
    match name {
        LateName::Skip => LatePolicy::Skip,
        LateName::SendLate => LatePolicy::SendLate,
        LateName::Burst => LatePolicy::Burst,
    }
}

/// Packets that fill a time.
pub(super) fn lasting(duration: Duration, period_ns: u64) -> u64 {
    u64::try_from(duration.as_nanos() / u128::from(period_ns.max(1))).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_instrument::args::parse;

    #[track_caller]
    fn keeps_figures(options: &[&str]) -> bool {
        rolling(&parse(["probe", "192.0.2.7"].iter().chain(options)).unwrap())
    }

    #[test]
    fn long_tests_keep_figures_unless_packets_are_wanted() {
        assert!(keeps_figures(&["--for", "24h"]) && keeps_figures(&["--for", "24h", "--stamp"]));
        assert!(keeps_figures(&["--rolling"]) && keeps_figures(&["--for", "1s", "--rolling=true"]));
        assert!(!keeps_figures(&["--for", "1h"]) && !keeps_figures(&[]));
        assert!(!keeps_figures(&["--for", "24h", "--rolling=false"]));
        for wanted in [&["--log", "x"][..], &["--gnuplot", "x"], &["--plots"]] {
            assert!(!keeps_figures(&[&["--for", "24h"], wanted].concat()), "{wanted:?}");
        }
        // A peer that speaks Jitlat word for word has no rolling tests.
        assert!(!keeps_figures(&["--for", "24h", "--legacy"]));
    }
}
