//! A test: setup, test and results (Jitlat, section 4.2), with what the console shows meanwhile.

use crate::jitlat::args::JitlatArgs;
use crate::jitlat::digest::log_header;
use crate::jitlat::page::{CONNECTED, Origin, connecting, flow_line, logged_line};
use crate::jitlat_log::{Ending, LogFacts, LogHeader, create_log};
use quaver_abi::wire::jitlat::{Command, PROTO_TCP, PROTO_UDP};
use quaver_clock::realtime_ns;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress as ProgressLine;
use quaver_instrument::results::to_stdout;
use quaver_instrument::rights;
use quaver_path_flow::{FlowSchedule, Transport};
use quaver_path_record::{
    ClientOptions, Completion, Directions, PathError, Progress, TestOutcome, run_client,
};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Between two looks at how the test gets on.
const REDRAW: Duration = Duration::from_millis(200);

/// Tests the path to `host`, logs and shows.
pub(super) fn run(args: &JitlatArgs, host: &str) -> anyhow::Result<ExitCode> {
    let options = client_options(args, resolve(host, args.control_port)?);
    let interrupt = Interrupt::catch()?;
    rights::keep_to_send(&[], &outputs(args));
    to_stdout(connecting(host).as_bytes())?;
    let outcome = measure(args, &options, &interrupt)?;
    results(args, &outcome)
}

/// Where the log and the plots are made.
pub(super) fn outputs(args: &JitlatArgs) -> Vec<&Path> {
    [Some(&args.log_dir), args.gnuplot.as_ref()]
        .into_iter()
        .flatten()
        .map(|place| rights::ground_of(place))
        .collect()
}

/// The first IPv4 address: a workorder has room for no other.
fn resolve(host: &str, port: u16) -> anyhow::Result<SocketAddr> {
    let usage = |message: String| failure(ExitCode::Usage, message);
    let found: Vec<SocketAddr> = (host, port)
        .to_socket_addrs()
        .map_err(|error| usage(format!("resolve {host}: {error}; give an address or a name that resolves")))?
        .collect();
    found.iter().copied().find(SocketAddr::is_ipv4).ok_or_else(|| {
        usage(format!("{host} has no IPv4 address, and Jitlat supports only IPv4; use quaver probe"))
    })
}

fn client_options(args: &JitlatArgs, server: SocketAddr) -> ClientOptions {
    let mut options = ClientOptions::new(server);
    options.legacy = true;
    options.directions = if args.reverse { Directions::Down } else { Directions::Up };
    options.transport = if args.tcp { Transport::Tcp } else { Transport::Udp };
    options.packet_bytes = args.pktlen;
    options.packets = Some(u64::from(args.npkts));
    options.schedule = FlowSchedule::every(args.period_ns());
    options.dscp = args.dscp;
    options.source_port = args.src_port;
    options.destination_port = args.dst_port;
    options.rtt_probes = args.rtt_probes;
    options.rtt_interval = args.rtt_interval;
    options.answer_timeout = args.timeout;
    options
}

/// Where a test is.
#[derive(Clone, Copy)]
enum Phase {
    Connecting,
    Probing(u32),
    Testing(Instant),
    Collecting,
}

/// Runs the client with a progress line, printing what Jitlat prints as it comes true.
fn measure(args: &JitlatArgs, options: &ClientOptions, interrupt: &Interrupt) -> anyhow::Result<TestOutcome> {
    let phase = Mutex::new(Phase::Connecting);
    let set = |new| *phase.lock().expect("no holder of this lock panics") = new;
    let mut connected = false;
    let mut printed: anyhow::Result<()> = Ok(());
    let mut print = |text: String| {
        // A reader that went away does not end the test: the log is still wanted.
        let now = to_stdout(text.as_bytes());
        if printed.is_ok() {
            printed = now;
        }
    };
    let mut probes = 0;
    let outcome = std::thread::scope(|scope| {
        let (ended, end) = channel();
        // A test that has no thread to draw with runs without.
        let line = quaver_waiting::start_in(scope, "quaver-line", || draw(args, &phase, end)).ok();
        let mut watch = |progress: Progress<'_>| match progress {
            Progress::Connected { .. } => {
                connected = true;
                print(CONNECTED.to_owned());
            }
            Progress::Probe(_) => {
                probes += 1;
                set(Phase::Probing(probes));
            }
            Progress::Started { source, destination, .. } => {
                print(flow_line(&planned(args, source, destination), super::version(args), Origin::Live));
                set(Phase::Testing(Instant::now()));
            }
            Progress::Ended { .. } => set(Phase::Collecting),
            Progress::Queued { .. } | Progress::Samples { .. } => {}
        };
        let outcome = run_client(options, interrupt.flag(), &mut watch);
        drop(ended);
        if let Some(line) = line {
            line.join().expect("drawing does not panic");
        }
        outcome
    });
    if !connected {
        print("\n".to_owned());
    }
    printed?;
    match outcome {
        Ok(outcome) => Ok(outcome),
        Err(PathError::Interrupted) => {
            Err(failure(ExitCode::Interrupted, "interrupted before the test started; nothing is logged"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Draws the progress line until the test has ended.
fn draw(args: &JitlatArgs, phase: &Mutex<Phase>, end: Receiver<()>) {
    let length = Duration::from_nanos(args.period_ns().saturating_mul(u64::from(args.npkts)));
    let line = ProgressLine::timed(length, args.quiet);
    while end.recv_timeout(REDRAW) == Err(RecvTimeoutError::Timeout) {
        let phase = *phase.lock().expect("no holder of this lock panics");
        match phase {
            Phase::Connecting => line.say("connecting"),
            Phase::Probing(done) => line.say(format!("round trip {done} of {}", args.rtt_probes)),
            Phase::Testing(start) => {
                let sent = start.elapsed().as_nanos() / u128::from(args.period_ns().max(1));
                let sent = u64::try_from(sent).unwrap_or(u64::MAX).min(u64::from(args.npkts));
                line.show(start.elapsed(), format!("about {} packets", quaver_view::Cell::Count(sent)));
            }
            Phase::Collecting => line.say("collecting the results"),
        }
    }
}

/// What is known of the log before the test, for the line that says what is sent.
fn planned(args: &JitlatArgs, source: SocketAddr, destination: SocketAddr) -> LogHeader {
    LogHeader {
        created: String::new(),
        command: if args.reverse { Command::SendMe } else { Command::Sending },
        npkts: u64::from(args.npkts),
        pktlen: args.pktlen,
        proto: if args.tcp { PROTO_TCP } else { PROTO_UDP },
        period_ns: args.period_ns(),
        src_ip: source.ip(),
        dst_ip: destination.ip(),
        src_port: source.port(),
        dst_port: destination.port(),
        dscp: u32::from(args.dscp),
        clock_error_ns: None,
        min_rtt_ns: None,
        facts: LogFacts::default(),
    }
}

/// Writes the log, then shows what it says.
fn results(args: &JitlatArgs, outcome: &TestOutcome) -> anyhow::Result<ExitCode> {
    let Some(flow) = outcome.flows.first() else {
        return ending(outcome, "before a packet was sent; nothing is logged");
    };
    let mut header = log_header(outcome, flow, realtime_ns());
    if args.v1 {
        (header.clock_error_ns, header.min_rtt_ns) = (None, None);
        // Version one knows nothing of ours; that a test was cut short must not be lost.
        let cut_short = header.facts.ending.take().filter(|ending| *ending != Ending::Complete);
        let sent = header.facts.sent.filter(|_| cut_short.is_some());
        header.facts = LogFacts { ending: cut_short, sent, ..LogFacts::default() };
    }
    let path = create_log(&args.log_dir, &header, &flow.singletons)?;
    let shown = if args.log_dir == Path::new(".") { path.file_name().map(Path::new) } else { None };
    to_stdout(logged_line(&shown.unwrap_or(&path).display().to_string()).as_bytes())?;
    if !args.no_analysis {
        super::show(args, &header, &flow.singletons, Origin::Live, "")?;
    }
    ending(outcome, "during the test; results so far are logged")
}

/// The exit status; of a test that was cut short also a sentence.
fn ending(outcome: &TestOutcome, when: &str) -> anyhow::Result<ExitCode> {
    match &outcome.completion {
        Completion::Complete => Ok(ExitCode::Done),
        Completion::Interrupted => {
            quaver_instrument::tell!("quaver: interrupted {when}");
            Ok(ExitCode::Interrupted)
        }
        Completion::ServerLost(why) => {
            Err(failure(ExitCode::Peer, format!("{}: {why}, {when}", outcome.server)))
        }
    }
}
