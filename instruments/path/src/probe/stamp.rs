//! `quaver probe --stamp` and `--twamp`: the path to any reflector of STAMP (RFC 8762) or TWAMP (RFC 5357).

mod told;

use super::live::{self, Live};
use super::{Record, hops, options, print};
use crate::args::{ProbeArgs, ScheduleName};
use crate::serve::read_key;
use crate::tui::{LiveView, NO_TERMINAL};
use anyhow::Context;
use quaver_abi::wire::jitlat::DEFAULT_NPKTS;
use quaver_arrivals::path::arrival::Numbering;
use quaver_arrivals::path::direction::Direction;
use quaver_instrument::args::DirectionName;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_path_flow::{FlowSchedule, Hops, LatePolicy, Received, StampSource};
use quaver_path_record::Progress;
use quaver_path_record::owamp::send_twamp;
use quaver_path_record::stamp::{
    Protection, SenderOptions, StampKey, StampOutcome, StampPacket, StampProgress, send_session,
};
use quaver_store::run::RunDir;
use quaver_view::Cell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};
use told::{Fastest, singleton};

/// What is talked to.
#[derive(Clone, Copy)]
pub(super) enum Reflector {
    /// A reflector, at this UDP port.
    Stamp(u16),
    /// A TWAMP server that gives one, at this TCP port.
    Twamp(u16),
}

impl Reflector {
    pub(super) fn of(args: &ProbeArgs) -> Option<Self> {
        args.stamp.map(Self::Stamp).or(args.twamp.map(Self::Twamp))
    }

    pub(super) fn option(self) -> &'static str {
        match self {
            Self::Stamp(_) => "--stamp",
            Self::Twamp(_) => "--twamp",
        }
    }

    fn port(self) -> u16 {
        let (Self::Stamp(port) | Self::Twamp(port)) = self;
        port
    }

    /// Name in the manifest, and on the page.
    fn protocol(self) -> (&'static str, &'static str) {
        match self {
            Self::Stamp(_) => ("stamp", "STAMP reflector"),
            Self::Twamp(_) => ("twamp", "TWAMP reflector"),
        }
    }
}

/// Measures, analyses, prints.
pub(super) fn run(args: &ProbeArgs, reflector: Reflector, interrupt: &Interrupt) -> anyhow::Result<ExitCode> {
    let options = sender_options(args, reflector)?;
    let packets = options.count.unwrap_or(0);
    let length = Some(Duration::from_nanos(options.period_ns.saturating_mul(packets)));
    let view = args
        .live
        .then(|| LiveView::open(live::stamp_view(&options, length), interrupt, NO_TERMINAL))
        .transpose()?;
    let record = Record::begin(args)?;
    record.give_up_rights(args);
    let mut follower =
        Follower::new(Live::new(args.json_lines, args.output.quiet, length, view, Numbering::Full));
    let (stop, hear) = (interrupt.flag(), &mut |progress: StampProgress<'_>| follower.hear(progress));
    let sent = match reflector {
        Reflector::Stamp(_) => send_session(&options, stop, hear),
        Reflector::Twamp(_) => send_twamp(&options, args.timeout, stop, hear),
    };
    let outcome = match sent {
        Ok(outcome) => outcome,
        Err(error) => {
            drop(follower);
            record.discard();
            return Err(error).context(format!("measuring to the reflector {}", options.target));
        }
    };
    let (live, fastest, routes) = follower.end();
    let rolling = live.finish(|direction| Some(told::sent(&outcome, direction)));
    let times = told::Times::of(&outcome);
    let mut facts = told::facts(&outcome, &options, fastest, times, reflector.protocol().0);
    if !options.keep_packets {
        facts.rolling = rolling;
    }
    let [up, down] = told::packets(&outcome, times);
    if let Some(path) = &args.log {
        super::logs::write(path, &facts, &[&up, &down])?;
    }
    let cut_short = (!outcome.complete).then(|| "interrupted by the user".to_owned());
    let record = record.noting(&[told::notes(&outcome, times), routes].concat());
    let (digest, report) = record.conclude(facts, &[&up, &down], cut_short)?;
    let ended = match (interrupt.requested(), outcome.answered) {
        (true, _) => Some(ExitCode::Interrupted),
        (false, 0) => Some(ExitCode::Peer),
        _ => None,
    };
    let code = print(args, &digest, &report, ended)?;
    match ended {
        Some(ExitCode::Peer) if outcome.short > 0 => {
            quaver_instrument::tell!(
                "quaver: {}: {} datagrams came back, all too short for replies: what answers there speaks neither STAMP \
                 nor TWAMP Light",
                options.target,
                outcome.short
            );
        }
        Some(ExitCode::Peer) if outcome.refused > 0 => {
            quaver_instrument::tell!(
                "quaver: {}: \u{201c}port unreachable\u{201d} came back {}: no {} runs on this port, or a firewall rejects it",
                outcome.target,
                Cell::several(outcome.refused, "time"),
                reflector.protocol().1
            );
        }
        Some(ExitCode::Peer) => {
            quaver_instrument::tell!(
                "quaver: {}: no reply to {}: check that a {} runs there and that firewalls pass UDP",
                outcome.target,
                Cell::several(outcome.sent, "packet"),
                reflector.protocol().1
            );
        }
        _ => {}
    }
    Ok(code)
}

/// Stores packets of a session that went on, as a run below `parent`; `asked` joins what its manifest says was asked for.
///
/// # Errors
/// The run cannot be written.
pub fn keep_stretch(
    parent: &Path,
    outcome: &StampOutcome,
    options: &SenderOptions,
    asked: serde_json::Map<String, serde_json::Value>,
) -> anyhow::Result<RunDir> {
    let mut fastest = Fastest::default();
    outcome.packets.iter().for_each(|packet| fastest.take(packet));
    let times = told::Times::of(outcome);
    let mut facts = told::facts(outcome, options, fastest, times, Reflector::Stamp(0).protocol().0);
    // The sender's times are known of the whole session only.
    facts.flows.iter_mut().for_each(|flow| flow.achieved = None);
    let [up, down] = told::packets(outcome, times);
    let sent = |packet: Option<&StampPacket>| packet.map_or(0, |packet| packet.t1_ns);
    let held = (sent(outcome.packets.first()), sent(outcome.packets.last()));
    let record = Record::begin_in(parent)?.noting(&told::notes(outcome, times));
    record.asking(asked).conclude_as_of(held, facts, &[&up, &down])
}

fn sender_options(args: &ProbeArgs, reflector: Reflector) -> anyhow::Result<SenderOptions> {
    let unsupported = [
        (args.tcp, "--tcp"),
        (args.trace.is_some(), "--trace"),
        (args.schedule != ScheduleName::Periodic, "--schedule poisson"),
        (args.direction != DirectionName::Both, "--direction"),
    ];
    if let Some((_, option)) = unsupported.into_iter().find(|(asked, _)| *asked) {
        return Err(failure(
            ExitCode::Usage,
            format!("{option} is not for {}; leave one of them out", reflector.option()),
        ));
    }
    let mut options = SenderOptions::new(options::resolve(options::host(args), reflector.port())?);
    let any = if options.target.is_ipv6() {
        IpAddr::from(Ipv6Addr::UNSPECIFIED)
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    };
    options.bind = (args.source_port != 0).then(|| SocketAddr::new(any, args.source_port));
    options.period_ns = options::period_ns(args)?;
    options.count = Some(match (args.count, args.duration) {
        (Some(count), _) => count,
        (None, Some(time)) => options::lasting(time, options.period_ns),
        (None, None) => u64::from(DEFAULT_NPKTS),
    });
    let schedule = FlowSchedule::every(options.period_ns);
    options.late = args.late.map_or_else(|| LatePolicy::usual(&schedule), options::late);
    options.lasting_ns = options::lasting_ns(args, &schedule);
    options.packet_bytes = Some(args.size as usize);
    options.dscp = args.dscp.first().copied().unwrap_or(0);
    options.keep_packets = !options::rolling(args);
    options.ssid = (quaver_clock::realtime_ns() as u16) | 1;
    if let Some(path) = &args.key_file {
        let key =
            StampKey::new(&read_key(path)?).map_err(|error| failure(ExitCode::Usage, error.to_string()))?;
        options.protection = Protection::All(key);
    }
    Ok(options)
}

/// Packets that are handed over at once, and how long one waits at most.
const BATCH: usize = 256;
const BATCH_EVERY: Duration = Duration::from_millis(50);

/// Numbers of the reflector up to which its first reply is taken for one of a session that began with ours: copies of
/// packets on the way there use up some.
const NEAR_THE_BEGINNING: u64 = 16;

/// Turns what is heard of a session into what is heard of a test of two flows at a time.
struct Follower {
    live: Live,
    fastest: Fastest,
    /// Of the way there, and of the way back.
    hops: [Hops; 2],
    up: Vec<Received>,
    down: Vec<Received>,
    handed: Instant,
    /// The reflector's number that is the way back's 0.
    first: Option<u64>,
}

impl Follower {
    fn new(live: Live) -> Self {
        let (up, down) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        Self {
            live,
            fastest: Fastest::default(),
            hops: <[Hops; 2]>::default(),
            up,
            down,
            handed: Instant::now(),
            first: None,
        }
    }

    fn hear(&mut self, progress: StampProgress<'_>) {
        match progress {
            StampProgress::Started { local, target, .. } => {
                self.live.hear(Progress::Connected { server: target, client: local });
                let ways = [(Direction::Up, local, target), (Direction::Down, target, local)];
                for (direction, source, destination) in ways {
                    self.live.hear(Progress::Started { direction, source, destination });
                }
            }
            StampProgress::Answered { packet, reflected, first } => self.take(packet, reflected, first),
            StampProgress::Lost { .. } | StampProgress::Tick { .. } => {}
        }
        if self.up.len() >= BATCH || self.handed.elapsed() >= BATCH_EVERY {
            self.hand_over();
        }
    }

    fn take(&mut self, packet: &StampPacket, reflected: u64, first: bool) {
        let Some(reply) = &packet.reply else { return };
        let known_before = reflected > packet.sequence + NEAR_THE_BEGINNING;
        let zero = *self.first.get_or_insert(if known_before { reflected } else { 0 });
        if first {
            self.fastest.take(packet);
            self.hops[0].take(packet.sequence, reply.forward_ttl);
            self.hops[1].take(packet.sequence, reply.backward_ttl.unwrap_or(0));
            // Who stamps at the reflector it does not say.
            let there = singleton(packet.sequence, packet.t1_ns, reply.t2_ns);
            self.up.push(Received {
                singleton: there,
                stamped_by: StampSource::Application,
                of_train: false,
            });
        }
        if let Some(number) = reflected.checked_sub(zero) {
            let back = singleton(number, reply.t3_ns, reply.t4_ns);
            self.down.push(Received { singleton: back, stamped_by: reply.t4_by, of_train: false });
        }
    }

    fn hand_over(&mut self) {
        self.handed = Instant::now();
        for (direction, samples) in [(Direction::Up, &mut self.up), (Direction::Down, &mut self.down)] {
            self.live.hear(Progress::Samples { direction, samples });
            samples.clear();
        }
    }

    /// Also what changed of the routes, in sentences.
    fn end(mut self) -> (Live, Fastest, Vec<String>) {
        self.hand_over();
        for direction in [Direction::Up, Direction::Down] {
            self.live.hear(Progress::Ended { direction });
        }
        let routes = [Direction::Up, Direction::Down].iter().zip(&self.hops);
        let routes = routes.filter_map(|(direction, seen)| hops::told(*direction, &seen.found)).collect();
        (self.live, self.fastest, routes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_instrument::args::parse;

    #[test]
    fn a_session_with_a_reflector_keeps_its_port_here() {
        let parsed = |line: &str| parse::<ProbeArgs>(format!("probe 127.0.0.1 {line}").split_whitespace());
        let bind = |line: &str| {
            let args = parsed(line).unwrap();
            sender_options(&args, Reflector::of(&args).unwrap()).unwrap().bind
        };
        assert_eq!(bind("--stamp"), None);
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 5_000));
        assert_eq!([bind("--stamp --source-port 5000"), bind("--twamp --source-port 5000")], [Some(any); 2]);
    }
}
