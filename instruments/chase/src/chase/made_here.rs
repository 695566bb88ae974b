//! The stream made here: source and sink in this process, between two namespaces of our own or over loopback.

use super::early_end::{self, Ended};
use super::{cost, edges, plan};
use crate::args::{ChaseArgs, LabKind, ReceiveMode};
use crate::stream_plan::{self, StreamPlan};
use anyhow::Context;
use quaver_analysis::model::Actor;
use quaver_host::netns::{Lab, LabError};
use quaver_host::segment::SegmentWriter;
use quaver_host::trace::{Flow, Payload};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::host_state::HostState;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::recording::Recording;
use quaver_instrument::tier;
use quaver_probe::sink::{PreparedSink, RunningSink, Sink, SinkOptions, SinkReport};
use quaver_probe::source::{
    Pace, PreparedSource, RunningSource, Source, SourceOptions, SourceReport, StreamLength,
};
use quaver_probe::thread::ThreadSettings;
use quaver_store::manifest::{Manifest, Stream, StreamPayload, Window};
use quaver_store::run::RunDir;
use quaver_view::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Time that packets in flight get to arrive after the source has ended.
const DRAIN: Duration = Duration::from_millis(150);

const NETNS: &str = "between two network namespaces";

/// Where source and sink live.
struct StreamSite {
    lab: Option<Arc<Lab>>,
    words: &'static str,
}

impl StreamSite {
    /// Two namespaces where they can be had, else loopback; with the reason as a note.
    fn choose(asked: Option<LabKind>, notes: &mut Vec<String>) -> anyhow::Result<Self> {
        let loopback = Self { lab: None, words: "over loopback" };
        let netns = |lab: Lab| Self { lab: Some(Arc::new(lab)), words: NETNS };
        match asked {
            Some(LabKind::Loopback) => Ok(loopback),
            Some(LabKind::Qemu) => {
                Err(failure(ExitCode::Usage, "chase cannot use the QEMU lab; see quaver study"))
            }
            Some(LabKind::Netns) => Ok(netns(Lab::create().map_err(lab_failure)?)),
            None => match Lab::create() {
                Ok(lab) => Ok(netns(lab)),
                Err(error) => {
                    notes.push(format!("using loopback: {error}"));
                    Ok(loopback)
                }
            },
        }
    }

    fn within_sink<T: Send>(&self, body: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        match &self.lab {
            Some(lab) => Ok(lab.sink.within(body)?),
            None => Ok(body()),
        }
    }

    fn within_source<T: Send>(&self, body: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        match &self.lab {
            Some(lab) => Ok(lab.source.within(body)?),
            None => Ok(body()),
        }
    }

    fn sink_address(&self) -> IpAddr {
        self.lab.as_ref().map_or(Ipv4Addr::LOCALHOST, |lab| lab.sink.ipv4).into()
    }
}

fn lab_failure(error: LabError) -> anyhow::Error {
    failure(ExitCode::Unsupported, error.to_string())
}

/// How much longer than planned the steps before and after may take on a busy machine, before the source's stream is over.
const SLACK: Duration = Duration::from_secs(3);

/// Both ends, ready to go.
struct Ends {
    sink: PreparedSink,
    source: PreparedSource,
    address: SocketAddr,
    receive_buffer_bytes: usize,
}

/// Measures; the run directory is left with raw segments and a manifest.
pub(super) fn measure(
    args: &ChaseArgs,
    ends: Option<Arc<Lab>>,
    interrupt: &Interrupt,
) -> anyhow::Result<(RunDir, Manifest)> {
    let stream = StreamPlan::of(&args.stream)?;
    let cpus = plan::Cpus::choose(args)?;
    let mut notes = Vec::new();
    if cpus.sink == cpus.source {
        notes.push(
            "source and sink share a CPU: give them one each with --source-cpu and --sink-cpu".to_owned(),
        );
    }
    let place = match ends {
        Some(lab) => StreamSite { lab: Some(lab), words: NETNS },
        None => StreamSite::choose(args.lab, &mut notes)?,
    };
    if args.rps {
        let lab = place.lab.as_ref();
        let lab = lab.ok_or_else(|| match args.lab {
            Some(_) => {
                failure(ExitCode::Usage, "--rps steers packets in the namespaces: leave --lab loopback away")
            }
            None => failure(ExitCode::Unsupported, "--rps needs the namespaces: run as root"),
        })?;
        lab.sink.steer_receive(&[cpus.sink]).map_err(lab_failure)?;
    }
    let words = format!("{}, local {}", stream.words, place.words);
    let (mut recording, host) = plan::begin(args, &words, &notes)?;
    let with_cost = !args.no_cost;
    let blocks_length = if with_cost { cost::length() } else { Duration::ZERO };
    let total = plan::WARM_UP + edges::LENGTH * 2 + blocks_length + args.duration + SLACK;
    let ends = prepare(args, &stream, &place, &cpus, &recording, total)?;
    notes.extend(plan::refusals("sink", ends.sink.thread()));
    notes.extend(plan::refusals("source", ends.source.thread()));
    notes.extend(plan::small_buffer(ends.receive_buffer_bytes));
    recording.manifest.asked = plan::asked(args, &words, &notes);
    start_tracer(args, &mut recording, &ends, &stream, &cpus, total)?;
    describe(&mut recording, args, &stream, &ends, &cpus);
    recording.rely_on(cpus.sink, "sink");
    recording.rely_on(cpus.source, "source");
    recording.save_manifest()?;
    let sink_thread = ends.sink.tid();
    let progress = Progress::timed(args.duration, args.output.quiet);
    progress.say("measuring what an interrupt costs");
    let gaps = match recording.tracer() {
        Some(_) => edges::measure(&mut recording, cpus.sink, interrupt)?,
        None => Vec::new(),
    };
    let running = Running { sink: ends.sink.go(), source: ends.source.go() };
    progress.say("warming up");
    recording.keep_house(plan::WARM_UP, interrupt, || false, |_| {})?;
    let blocks = if with_cost && recording.tracer().is_some() {
        progress.say("measuring probe cost");
        cost::run_blocks(&mut recording, interrupt)?
    } else {
        Vec::new()
    };
    let before = place.within_sink(|| HostState::read(Some(sink_thread)))?;
    let start_ns = quaver_clock::monotonic_ns();
    let length = args.duration;
    let show = |elapsed| progress.show(elapsed, running.say());
    recording.keep_house(length, interrupt, || running.which_ended() != Ended::default(), show)?;
    let end_ns = quaver_clock::monotonic_ns();
    let after = place.within_sink(|| HostState::read(Some(sink_thread)))?;
    let ended = running.which_ended();
    let (source, sink) = end(&mut recording, running, interrupt)?;
    let into = Duration::from_nanos((end_ns - start_ns).max(0).unsigned_abs());
    let cut_short = interrupt.requested().then(|| "interrupted by the user".to_owned());
    let cut_short = cut_short.or_else(|| early_end::why(ended, &source, &sink, total, into));
    let facts = recording.manifest.analysis.get_or_insert_default();
    facts.window = Some(Window { start_ns, end_ns });
    facts.circumstances = before.circumstances(&after, &host, vec![cpus.sink, cpus.source]);
    facts.circumstances.blind = facts.blind.clone();
    facts.circumstances.edge_cost = edges::evaluate(&recording.run, cpus.sink, &gaps)?;
    facts.counts.nic_dropped =
        place.lab.as_ref().and_then(|lab| before.ring_drops(&after, &lab.sink.interface));
    facts.probe_cost = cost::evaluate(&recording.run, &blocks)?;
    recording.finish(cut_short)
}

fn prepare(
    args: &ChaseArgs,
    stream: &StreamPlan,
    place: &StreamSite,
    cpus: &plan::Cpus,
    recording: &Recording,
    total: Duration,
) -> anyhow::Result<Ends> {
    let header = stream.profile.header_offset() as u16;
    let stream_id = (quaver_clock::realtime_ns() as u32) | 1;
    let mut sink_options = SinkOptions::new(SocketAddr::new(place.sink_address(), 0), recording.counter);
    sink_options.receive = stream_plan::receive(args.receive);
    sink_options.kernel_stamps = true;
    sink_options.payload = Payload::Ours { offset: header };
    sink_options.stream_id = Some(stream_id);
    sink_options.payload_capacity = stream.profile.payload_bytes();
    sink_options.thread = ThreadSettings::measuring(Some(cpus.sink), args.fifo);
    let mut sink = place.within_sink(|| Sink::open(sink_options))??;
    let address = sink.local_address();
    let receive_buffer_bytes = sink.receive_buffer_bytes();

    let length = StreamLength::Lasting(total);
    let mut source_options = SourceOptions::new(address, stream.profile.clone(), length, recording.counter);
    source_options.pace = stream.pace;
    source_options.catch_up = args.stream.catch_up;
    source_options.socket.dscp = Some(args.stream.dscp);
    source_options.stream_id = stream_id;
    source_options.start_delay = Duration::from_millis(20);
    source_options.thread = ThreadSettings::measuring(Some(cpus.source), None);
    let packets = source_options.packets().unwrap_or(0) + 1_024;
    let source = place.within_source(|| Source::open(source_options))??;

    let received = SegmentWriter::create(&recording.run.packets_segment(), packets)
        .context("allocating sample memory")?;
    let sends = SegmentWriter::create(&recording.run.sends_segment(), packets)
        .context("allocating memory for the sends")?;
    plan::record_turns(args, recording, &mut sink)?;
    let sink = sink.prepare(received)?;
    let source = source.prepare(sends)?;
    Ok(Ends { sink, source, address, receive_buffer_bytes })
}

fn start_tracer(
    args: &ChaseArgs,
    recording: &mut Recording,
    ends: &Ends,
    stream: &StreamPlan,
    cpus: &plan::Cpus,
    total: Duration,
) -> anyhow::Result<()> {
    let flow = Flow {
        address: Some(ends.address.ip()),
        ports: vec![ends.address.port()],
        payload: Payload::Ours { offset: stream.profile.header_offset() as u16 },
    };
    let threads = vec![ends.sink.tid(), ends.source.tid()];
    let mut busy = vec![cpus.sink, cpus.source];
    busy.dedup();
    let spec = plan::trace_spec(flow, threads, busy.clone(), stream.period_ns(), total);
    let choice = tier::start(args.tier, &spec)?;
    // With no CPU to spare, a run that fits the memory is read when all is over.
    let drain = cpus.housekeeping_left(&busy) || !plan::holds_all(&spec);
    recording.trace_with(choice, drain);
    if let Some(tracer) = recording.tracer() {
        tracer.attach_receiver(ends.sink.as_fd())?;
    }
    Ok(())
}

fn describe(
    recording: &mut Recording,
    args: &ChaseArgs,
    stream: &StreamPlan,
    ends: &Ends,
    cpus: &plan::Cpus,
) {
    let facts = recording.manifest.analysis.get_or_insert_default();
    facts.period_ns = Some(stream.period_ns());
    facts.source_on_this_host = true;
    facts.receiver = Actor {
        threads: vec![ends.sink.tid()],
        cpu: Some(cpus.sink),
        realtime: args.fifo.is_some(),
        blocking: args.receive != ReceiveMode::Poll,
        foreign: false,
    };
    facts.source = Some(Actor {
        threads: vec![ends.source.tid()],
        cpu: Some(cpus.source),
        realtime: false,
        blocking: matches!(stream.pace, Pace::Sleep | Pace::Hybrid),
        foreign: false,
    });
    facts.streams = vec![Stream {
        destination: ends.address.to_string(),
        source: None,
        profile: Some(stream.words.clone()),
        payload: StreamPayload::Ours { offset: stream.profile.header_offset() as u16 },
        payload_bytes: Some(stream.profile.payload_bytes() as u32),
    }];
}

/// Both ends at work.
struct Running {
    sink: RunningSink,
    source: RunningSource,
}

impl Running {
    fn which_ended(&self) -> Ended {
        Ended { source: self.source.is_finished(), sink: self.sink.is_finished() }
    }

    fn say(&self) -> String {
        let sent = self.source.live().sent();
        let received = self.sink.live().received();
        let misses = self.source.live().misses();
        let behind = sent.saturating_sub(received);
        format!(
            "{}, {} in flight, {} missed by the source",
            Cell::several(received, "packet"),
            Cell::Count(behind),
            Cell::several(misses, "slot")
        )
    }
}

/// Ends source, sink and tracer, in this order, and closes their segments.
fn end(
    recording: &mut Recording,
    running: Running,
    interrupt: &Interrupt,
) -> anyhow::Result<(SourceReport, SinkReport)> {
    running.source.stop();
    let source = running.source.join()?;
    source.segment.finish()?;
    recording.keep_house(DRAIN, interrupt, || false, |_| {})?;
    let sink = running.sink.join()?;
    sink.segment.finish()?;
    sink.turns.map(SegmentWriter::finish).transpose()?;
    let counts = recording.end_tracing()?;
    let facts = recording.manifest.analysis.get_or_insert_default();
    facts.counts.record_lost = sink.report.unrecorded;
    facts.counts.stamps_lost = counts.stamps_lost;
    facts.counts.events_lost = counts.events_lost;
    Ok((source.report, sink.report))
}
