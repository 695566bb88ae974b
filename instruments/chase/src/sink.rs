//! `quaver sink`: somebody's packets, with one timestamp each, and no tracing.

use super::chase::{Watch, conclude, print_results};
use super::source::{check_cpu, multicast_interface};
use crate::args::{ReceiveMode, SinkArgs};
use crate::first_look::{self, Learned, payload_words, stored_payload};
use crate::stream_plan;
use anyhow::Context;
use quaver_analysis::model::Actor;
use quaver_arrivals::rtp::{Tai, VideoTold};
use quaver_clock::{CounterSupport, monotonic_ns};
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_host::segment::SegmentWriter;
use quaver_host::trace::Tier;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::host_state::{HostState, keep_off};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::recording::Recording;
use quaver_instrument::recording::command_line;
use quaver_instrument::rights;
use quaver_instrument::tier::Choice;
use quaver_path_record::{ClockEstimate, ClockPair};
use quaver_probe::sink::{PreparedSink, RunningSink, Sink, SinkOptions};
use quaver_probe::thread::ThreadSettings;
use quaver_store::manifest::{Manifest, Stream, Window};
use quaver_store::run::RunDir;
use serde_json::{Value, json};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

/// Stream before the measured part, in which what had queued up is read and caches settle. None where the
/// packets are counted, for then each counts.
const WARM_UP: Duration = Duration::from_millis(300);
/// Most packets recorded: 64 bytes each, so a gibibyte.
const MOST_RECORDED: f64 = (1u64 << 24) as f64;

/// Receives, analyses, prints.
pub fn run(args: &SinkArgs) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    check_cpu(args.cpu)?;
    let listen = args.listen.address()?;
    let options = options(args, listen)?;
    let (first, learned) = learn(args, listen, &options, &interrupt)?;
    let (run, manifest) = measure(args, first, options, &learned, &interrupt)?;
    let early = quaver_instrument::results::ended_early(&manifest, interrupt.requested());
    rights::keep_to_conclude(&[], run.path());
    let digest = conclude(&run, manifest, args.output.quiet)?;
    print_results(&digest, &run, &args.output, early)
}

/// What comes to the address, as a socket of its own sees it: the measured one begins with empty buffers. It keeps the port
/// open until then.
fn learn(
    args: &SinkArgs,
    listen: SocketAddr,
    options: &SinkOptions,
    interrupt: &Interrupt,
) -> anyhow::Result<(Sink, Learned)> {
    let socket = Sink::open(options.clone())?;
    let patience = args.duration;
    let waiting = format!("waiting for packets to {listen}");
    let progress = Progress::timed(patience, args.output.quiet);
    let look = first_look::look(&socket, patience, interrupt, &progress, &waiting, |_| true)?;
    let learned = look.learned().ok_or_else(|| {
        let what = if look.packets() == 0 { "no packet" } else { "one packet alone" };
        let hint = if listen.ip().is_multicast() && args.interface.is_none() {
            "; name the interface that it comes by (--interface)"
        } else {
            ""
        };
        let waited = humantime::format_duration(patience);
        let message = format!(
            "{what} came to {listen} within {waited}: see whether it is sent, and the firewall{hint}"
        );
        failure(ExitCode::Peer, message)
    })?;
    Ok((socket, learned))
}

/// The stream in words.
fn words(listen: SocketAddr, learned: &Learned) -> String {
    let kind = payload_words(learned.payload);
    let size = learned.payload_bytes.map(|bytes| format!(", {bytes} bytes per packet")).unwrap_or_default();
    format!("{kind}{size}, from {} to {listen}", learned.sender)
}

/// Room for the packets of `length`, generously.
fn room(args: &SinkArgs, learned: &Learned, length: Duration) -> u64 {
    let period_ns = args.period.map_or(learned.period_ns, |period| period.ns().min(learned.period_ns));
    (length.as_secs_f64() * 1e9 / period_ns * 1.5 + 65_536.0).min(MOST_RECORDED) as u64
}

fn options(args: &SinkArgs, listen: SocketAddr) -> anyhow::Result<SinkOptions> {
    let mut options = SinkOptions::new(listen, CounterSupport::detect(Path::new("/")).counter);
    options.multicast_interface = multicast_interface(args.interface.as_deref(), listen.ip())?;
    options.receive = stream_plan::receive(args.receive);
    options.kernel_stamps = !args.no_kernel_stamps;
    options.thread = ThreadSettings::measuring(args.cpu, args.fifo);
    Ok(options)
}

fn measure(
    args: &SinkArgs,
    first: Sink,
    mut options: SinkOptions,
    learned: &Learned,
    interrupt: &Interrupt,
) -> anyhow::Result<(RunDir, Manifest)> {
    let listen = first.local_address();
    options.payload = learned.payload;
    options.stream_id = learned.stream_id;
    let host = HostFacts::read(&HostRoot::system());
    let words = words(listen, learned);
    let parent = &args.output.output;
    let mut recording =
        Recording::begin(parent, "sink", asked(args, &words, &[]), serde_json::to_value(&host)?)?;
    let warm_up = if args.count.is_some() { Duration::ZERO } else { WARM_UP };
    let room = args.count.unwrap_or_else(|| room(args, learned, args.duration + warm_up));
    let segment =
        SegmentWriter::create(&recording.run.packets_segment(), room).context("allocating sample memory")?;
    keep_off(&args.cpu.into_iter().collect()).context("moving other threads off the sink's CPU")?;
    let sink = first.renew(options)?.prepare(segment)?;
    let mut notes: Vec<String> =
        sink.thread().refused.iter().map(|refused| format!("sink: {refused}")).collect();
    recording.manifest.asked = asked(args, &words, &notes);
    let reason = Some("the sink does not trace; use `quaver chase --listen`".to_owned());
    recording.trace_with(Choice { tracer: None, tier: Tier::User, reason }, false);
    describe(&mut recording, args, listen, learned, &sink);
    args.cpu.into_iter().for_each(|cpu| recording.rely_on(cpu, "sink"));
    recording.save_manifest()?;
    let thread = sink.tid();
    rights::keep_to_send(&[], &[recording.run.path()]);
    let running = sink.go();
    recording.keep_house(warm_up, interrupt, || false, |_| {})?;
    let before = HostState::read(Some(thread));
    let start_ns = monotonic_ns();
    notes.extend(watch(args, &mut recording, &running, learned.period_ns, interrupt)?);
    recording.manifest.asked = asked(args, &words, &notes);
    let end_ns = monotonic_ns();
    let after = HostState::read(Some(thread));
    let complete = args.count.is_some_and(|count| running.live().received() >= count);
    let outcome = running.join()?;
    outcome.segment.finish()?;
    recording.end_tracing()?;
    let facts = recording.manifest.analysis.get_or_insert_default();
    facts.window = args.count.is_none().then_some(Window { start_ns, end_ns });
    facts.circumstances = before.circumstances(&after, &host, args.cpu.into_iter().collect());
    facts.circumstances.blind = facts.blind.clone();
    facts.tai = tai();
    facts.video = told(args);
    let drops = outcome.report.receive_drops.map(u64::from);
    facts.counts.divide_drops(drops, before.checksum_errors(&after));
    // What came after the last packet that was asked for is not lost.
    facts.counts.record_lost = if complete { 0 } else { outcome.report.unrecorded };
    recording.finish(interrupt.requested().then(|| "interrupted by the user".to_owned()))
}

/// What the kernel knows of TAI, and where its two clocks stand to each other; none where it does not tell.
fn tai() -> Option<Tai> {
    let offset_s = ClockEstimate::kernel()?.tai_offset_s;
    let now = ClockPair::now();
    Some(Tai { offset_s, realtime_minus_monotonic_ns: Some(now.realtime_ns - now.monotonic_ns) })
}

/// What the command line tells of video.
fn told(args: &SinkArgs) -> VideoTold {
    let troff_ns = args.troff.map(|troff| i64::try_from(troff.as_nanos()).unwrap_or(i64::MAX));
    VideoTold { troff_ns, sender: args.tp, ..args.video.unwrap_or_default() }
}

/// Options as they are kept in the manifest.
fn asked(args: &SinkArgs, stream: &str, notes: &[String]) -> Value {
    json!({
        "command": command_line(),
        "stream": stream,
        "for_ns": args.duration.as_nanos() as u64,
        "count": args.count,
        "receive": format!("{:?}", args.receive).to_lowercase(),
        "fifo": args.fifo,
        "notes": notes,
    })
}

fn describe(
    recording: &mut Recording,
    args: &SinkArgs,
    listen: SocketAddr,
    learned: &Learned,
    sink: &PreparedSink,
) {
    let facts = recording.manifest.analysis.get_or_insert_default();
    facts.period_ns = args.period.map(|period| period.ns());
    // An address can be bound where it is one of this host's only.
    facts.source_on_this_host = UdpSocket::bind((learned.sender.ip(), 0)).is_ok();
    facts.receiver = Actor {
        threads: vec![sink.tid()],
        cpu: args.cpu,
        realtime: args.fifo.is_some(),
        blocking: args.receive != ReceiveMode::Poll,
        foreign: false,
    };
    facts.streams = vec![Stream {
        destination: listen.to_string(),
        source: Some(learned.sender.to_string()),
        profile: None,
        payload: stored_payload(learned.payload),
        payload_bytes: learned.payload_bytes,
    }];
}

/// Keeps house until the time is over, the packets are there, or the user ends it. Says where packets ceased to come before.
fn watch(
    args: &SinkArgs,
    recording: &mut Recording,
    running: &RunningSink,
    period_ns: f64,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<String>> {
    let progress = Progress::timed(args.duration, args.output.quiet);
    let ended =
        || running.is_finished() || args.count.is_some_and(|count| running.live().received() >= count);
    let mut watch = Watch::start(running);
    recording.keep_house(args.duration, interrupt, ended, |elapsed| progress.show(elapsed, watch.say()))?;
    Ok(watch.silence(period_ns))
}
