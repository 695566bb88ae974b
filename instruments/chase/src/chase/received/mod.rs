//! A stream that comes from elsewhere into our own sink: somebody's (`--listen`) or that of a source at another
//! host (`--from`).

mod far;
mod local;
mod waiting;

use super::early_end::of_sink;
use super::plan;
use crate::args::{ChaseArgs, FarHost, ReceiveMode};
use crate::first_look::{Learned, payload_words, stored_payload};
use crate::stream_plan;
use crate::stream_plan::StreamPlan;
use anyhow::Context;
use local::{Known, LocalSenders};
use quaver_analysis::model::Actor;
use quaver_clock::CounterSupport;
use quaver_host::interface::InterfaceFacts;
use quaver_host::root::HostRoot;
use quaver_host::segment::SegmentWriter;
use quaver_host::trace::{Flow, Payload};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::host_state::HostState;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::recording::Recording;
use quaver_instrument::{rights, tier};
use quaver_probe::sink::{PreparedSink, RunningSink, Sink, SinkOptions, SinkReport};
use quaver_probe::thread::ThreadSettings;
use quaver_store::manifest::{Manifest, Stream, Window};
use quaver_store::run::RunDir;
use quaver_view::Cell;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// A sender may turn out to be faster than the first look told.
const ROOM: f64 = 1.5;
/// CPUs up to which all are traced: any of them may process the packets.
const FEW_CPUS: usize = 8;
/// Silence at the end of a run that is worth a word: so many periods, and at least this long.
const SILENT_PERIODS: f64 = 20.0;
const SILENT: Duration = Duration::from_millis(500);
/// Time that packets in flight get to arrive after a source has said how many there were.
const DRAIN: Duration = Duration::from_millis(150);

/// Somebody's stream to `address`.
pub(super) fn measure_listened(
    args: &ChaseArgs,
    address: SocketAddr,
    interrupt: &Interrupt,
) -> anyhow::Result<(RunDir, Manifest)> {
    if address.port() == 0 {
        return Err(failure(
            ExitCode::Usage,
            format!("--listen {address}: name the port that the stream goes to"),
        ));
    }
    let cpus = plan::Cpus::choose(args)?;
    let sink = open_sink(args, address, 0, &cpus)?;
    let progress = Progress::timed(waiting::START, args.output.quiet);
    let learned = waiting::for_anyone(&sink, address, args.interface.as_deref(), &progress, interrupt)?;
    let mut notes = Vec::new();
    if !learned.others.is_empty() {
        sink.only_from(learned.sender)?;
        let others = match learned.others.len() {
            1 => format!("one other sender to {address} is ignored"),
            several => format!("{several} other senders to {address} are ignored"),
        };
        notes.push(format!("{others}; {} is the busiest", learned.sender));
    }
    let words = format!("{}, from {} to {address}", describe_stream(&learned), learned.sender);
    let local = LocalSenders::of(learned.sender, address, learned.interface, &HostRoot::system());
    let local = Some(local);
    measure(args, sink, Incoming { learned, words, notes, cpus, address, local, far: None }, interrupt)
}

/// Our own source's stream from a host whose server starts it for us.
pub(super) fn measure_from(
    args: &ChaseArgs,
    host: &FarHost,
    interrupt: &Interrupt,
) -> anyhow::Result<(RunDir, Manifest)> {
    let stream = StreamPlan::of(&args.stream)?;
    let cpus = plan::Cpus::choose(args)?;
    let mut far = far::ask(args, host, &stream, plan::WARM_UP + args.duration, interrupt)?;
    let address = far.sink_address(args.port);
    let sink = open_sink(args, address, stream.profile.payload_bytes(), &cpus)?;
    far.meet(&sink, interrupt)?;
    let learned = Learned {
        sender: far.sender()?,
        others: Vec::new(),
        payload: Payload::Ours { offset: stream.profile.header_offset() as u16 },
        stream_id: Some(far.request.stream_id),
        period_ns: stream.period_ns(),
        payload_bytes: Some(stream.profile.payload_bytes() as u32),
        longest_bytes: stream.profile.payload_bytes(),
        interface: far.interface(),
    };
    let address = sink.local_address();
    let words = format!("{}, from {} to {address}", stream.words, learned.sender);
    let (local, far) = (None, Some(far));
    measure(args, sink, Incoming { learned, words, notes: Vec::new(), cpus, address, local, far }, interrupt)
}

fn describe_stream(learned: &Learned) -> String {
    let size = learned
        .payload_bytes
        .map_or("packets of different lengths".to_owned(), |bytes| format!("{bytes} bytes"));
    let every = if matches!(learned.payload, Payload::Ours { .. }) { "every" } else { "about every" };
    let period = Cell::FineDuration(learned.period_ns);
    format!("{}: {size} {every} {period}", payload_words(learned.payload))
}

/// `longest_bytes`: of the payloads that are known to come.
fn open_sink(
    args: &ChaseArgs,
    address: SocketAddr,
    longest_bytes: usize,
    cpus: &plan::Cpus,
) -> anyhow::Result<Sink> {
    let counter = CounterSupport::detect(Path::new("/")).counter;
    let mut options = SinkOptions::new(address, counter);
    options.multicast_interface =
        crate::source::multicast_interface(args.interface.as_deref(), address.ip())?;
    options.receive = stream_plan::receive(args.receive);
    options.kernel_stamps = true;
    options.payload = Payload::Opaque;
    options.payload_capacity = options.payload_capacity.max(longest_bytes);
    options.thread = ThreadSettings::measuring(Some(cpus.sink), args.fifo);
    Ok(Sink::open(options)?)
}

/// A stream that comes in, and what a first look told of it.
struct Incoming {
    learned: Learned,
    words: String,
    notes: Vec<String>,
    cpus: plan::Cpus,
    address: SocketAddr,
    /// Who of this host may send it; none where a source was asked for it.
    local: Option<LocalSenders>,
    /// The source that was asked for it.
    far: Option<far::Far>,
}

impl Incoming {
    /// CPUs to trace: the sink's and those that may process the packets.
    fn traced_cpus(&self, sink: &Sink) -> Vec<u16> {
        let mut traced = vec![self.cpus.sink];
        traced.extend(sink.incoming_cpu());
        let online = HostRoot::system().cpu_list("sys/devices/system/cpu/online");
        if online.len() <= FEW_CPUS {
            traced.extend(online);
        }
        traced.sort_unstable();
        traced.dedup();
        traced
    }

    /// Who sent, by the sockets of this host and, where there are any, by the records of the run.
    fn sender(&self, run: Option<&RunDir>) -> anyhow::Result<Known> {
        let Some(local) = &self.local else { return Ok(Known::default()) };
        run.map_or_else(|| Ok(local.known()), |run| local.conclude(run, &HostRoot::system()))
    }

    fn stream_words(&self, known: &Known) -> String {
        format!("{}{}", self.words, known.words)
    }

    fn asked(&self, args: &ChaseArgs, known: &Known, notes: &[String]) -> serde_json::Value {
        plan::asked(args, &self.stream_words(known), notes)
    }
}

/// Measures the stream; the run directory is left with raw segments and a manifest.
fn measure(
    args: &ChaseArgs,
    sink: Sink,
    mut incoming: Incoming,
    interrupt: &Interrupt,
) -> anyhow::Result<(RunDir, Manifest)> {
    let known = incoming.sender(None)?;
    let (mut recording, host) = plan::begin(args, &incoming.stream_words(&known), &incoming.notes)?;
    let traced = incoming.traced_cpus(&sink);
    let total = plan::WARM_UP + args.duration + Duration::from_secs(1);
    let mut notes = std::mem::take(&mut incoming.notes);
    notes.extend(plan::small_buffer(sink.receive_buffer_bytes()));
    let sink = prepare(args, sink, &incoming.learned, &recording, total)?;
    notes.extend(plan::refusals("sink", sink.thread()));
    start_tracer(args, &mut recording, &sink, &incoming, &traced, total)?;
    describe(&mut recording, args, &incoming, sink.tid());
    recording.manifest.asked = incoming.asked(args, &known, &notes);
    recording.rely_on(incoming.cpus.sink, "sink");
    recording.save_manifest()?;
    rights::keep_to_observe();
    let sink_thread = sink.tid();
    let sink = sink.go();
    let mut far = incoming.far.take();
    if let Some(far) = &mut far
        && let Err(error) = far.start(interrupt)
    {
        return Err(discard(recording, sink, error));
    }
    let progress = Progress::timed(args.duration, args.output.quiet);
    progress.say("warming up");
    let mut gone = || far.as_mut().is_some_and(far::Far::has_ended);
    recording.keep_house(plan::WARM_UP, interrupt, &mut gone, |_| {})?;
    let before = HostState::read(Some(sink_thread));
    let start_ns = quaver_clock::monotonic_ns();
    let mut watch = Watch::start(&sink);
    let show = |elapsed| progress.show(elapsed, watch.say());
    recording.keep_house(args.duration, interrupt, || sink.is_finished() || gone(), show)?;
    let end_ns = quaver_clock::monotonic_ns();
    let after = HostState::read(Some(sink_thread));
    notes.extend(watch.silence(incoming.learned.period_ns));
    recording.manifest.asked = incoming.asked(args, &known, &notes);
    let sink_ended = sink.is_finished();
    let ended = gone().then(|| "the source at the other host ended before its time".to_owned());
    let said = far.map(far::Far::end);
    if said.is_some() {
        recording.keep_house(DRAIN, &Interrupt::default(), || false, |_| {})?;
    }
    let lost = said.as_ref().and_then(far::SourceReport::lost);
    let report = end(&mut recording, sink)?;
    let known = incoming.sender(Some(&recording.run))?;
    recording.manifest.asked["stream"] = incoming.stream_words(&known).into();
    let cut_short = interrupt.requested().then(|| "interrupted by the user".to_owned());
    let cut_short = cut_short.or_else(|| sink_ended.then(|| of_sink(&report))).or(lost).or(ended);
    let far_source = said.map(|said| said.facts(&recording.run)).transpose()?.flatten();
    let facts = recording.manifest.analysis.get_or_insert_default();
    // What our source stamps is by its clock: where that is another one, it is as of another host.
    let ours = matches!(incoming.learned.payload, Payload::Ours { .. });
    facts.source = known.sender.filter(|_| known.same_clock || !ours).map(|sender| sender.actor());
    facts.source_on_this_host = ours && facts.source.is_some();
    facts.far_source = far_source;
    facts.window = Some(Window { start_ns, end_ns });
    facts.circumstances = before.circumstances(&after, &host, traced);
    facts.circumstances.blind = facts.blind.clone();
    facts.counts.nic_dropped = incoming
        .learned
        .interface
        .and_then(interface_name)
        .and_then(|interface| before.ring_drops(&after, &interface));
    if facts.tier != "bpf" {
        // BPF programs tell the reason of each drop.
        facts.counts.divide_drops(report.receive_drops.map(u64::from), before.checksum_errors(&after));
    }
    recording.finish(cut_short)
}

/// Takes away a run of which nothing was measured.
fn discard(recording: Recording, sink: RunningSink, error: anyhow::Error) -> anyhow::Error {
    drop(sink.join());
    let directory = recording.run.path().to_owned();
    drop(recording);
    // One that is left over is found to be empty by whoever opens it.
    let _ = std::fs::remove_dir_all(directory);
    error
}

/// Tells the sink what a first look told, and gets it ready.
fn prepare(
    args: &ChaseArgs,
    mut sink: Sink,
    learned: &Learned,
    recording: &Recording,
    total: Duration,
) -> anyhow::Result<PreparedSink> {
    sink.follow(learned.payload, learned.stream_id);
    let packets = total.as_secs_f64() * 1e9 / learned.period_ns * ROOM + 65_536.0;
    let received = SegmentWriter::create(&recording.run.packets_segment(), packets as u64)
        .context("allocating sample memory")?;
    plan::record_turns(args, recording, &mut sink)?;
    Ok(sink.prepare(received)?)
}

fn start_tracer(
    args: &ChaseArgs,
    recording: &mut Recording,
    sink: &PreparedSink,
    incoming: &Incoming,
    traced: &[u16],
    total: Duration,
) -> anyhow::Result<()> {
    let address = incoming.address;
    let flow = Flow {
        address: Some(address.ip()).filter(|address| !address.is_unspecified()),
        ports: vec![address.port()],
        payload: incoming.learned.payload,
    };
    let period_ns = incoming.learned.period_ns / ROOM;
    let mut threads = vec![sink.tid()];
    threads.extend(incoming.local.iter().flat_map(LocalSenders::threads));
    let spec = plan::trace_spec(flow, threads, traced.to_vec(), period_ns, total);
    let choice = tier::start(args.tier, &spec)?;
    let drain = incoming.cpus.housekeeping_left(&[incoming.cpus.sink]) || !plan::holds_all(&spec);
    recording.trace_with(choice, drain);
    if let Some(tracer) = recording.tracer() {
        tracer.attach_receiver(sink.as_fd())?;
    }
    Ok(())
}

fn describe(recording: &mut Recording, args: &ChaseArgs, incoming: &Incoming, thread: u32) {
    let learned = &incoming.learned;
    let facts = recording.manifest.analysis.get_or_insert_default();
    // An estimate from the arrivals of a first look is worse than what the whole run tells.
    facts.period_ns = matches!(learned.payload, Payload::Ours { .. }).then_some(learned.period_ns);
    facts.source_on_this_host = false;
    facts.receiver = Actor {
        threads: vec![thread],
        cpu: Some(incoming.cpus.sink),
        realtime: args.fifo.is_some(),
        blocking: args.receive != ReceiveMode::Poll,
        foreign: false,
    };
    facts.source = None;
    facts.streams = vec![Stream {
        destination: incoming.address.to_string(),
        source: Some(learned.sender.to_string()),
        profile: None,
        payload: stored_payload(learned.payload),
        payload_bytes: learned.payload_bytes,
    }];
}

fn interface_name(index: u32) -> Option<String> {
    let root = HostRoot::system();
    InterfaceFacts::names(&root)
        .into_iter()
        .find(|name| root.value::<u32>(&format!("sys/class/net/{name}/ifindex")) == Some(index))
}

/// Ends sink and tracer and closes their segments.
fn end(recording: &mut Recording, sink: RunningSink) -> anyhow::Result<SinkReport> {
    let sink = sink.join()?;
    sink.segment.finish()?;
    sink.turns.map(SegmentWriter::finish).transpose()?;
    let counts = recording.end_tracing()?;
    let facts = recording.manifest.analysis.get_or_insert_default();
    facts.counts.record_lost = sink.report.unrecorded;
    facts.counts.stamps_lost = counts.stamps_lost;
    facts.counts.events_lost = counts.events_lost;
    Ok(sink.report)
}

/// Watches whether packets keep coming.
pub(crate) struct Watch<'a> {
    sink: &'a RunningSink,
    start: Instant,
    at_start: u64,
    received: u64,
    changed: Instant,
}

impl<'a> Watch<'a> {
    pub(crate) fn start(sink: &'a RunningSink) -> Self {
        let (received, now) = (sink.live().received(), Instant::now());
        Self { sink, start: now, at_start: received, received, changed: now }
    }

    pub(crate) fn say(&mut self) -> String {
        let received = self.sink.live().received();
        if received != self.received {
            (self.received, self.changed) = (received, Instant::now());
        }
        let silent = self.changed.elapsed();
        let packets = Cell::several(received - self.at_start, "packet");
        if silent < Duration::from_secs(2) {
            packets
        } else {
            format!("{packets}, none for {} s", silent.as_secs())
        }
    }

    /// A sentence where the stream stopped before the end.
    pub(crate) fn silence(&mut self, period_ns: f64) -> Option<String> {
        self.say();
        let silent = self.changed.elapsed();
        let long = Duration::from_secs_f64(period_ns * SILENT_PERIODS / 1e9).max(SILENT);
        if silent < long {
            return None;
        }
        if self.received == self.at_start {
            return Some("the stream stopped during warm-up: restart the sender and measure again".into());
        }
        let lasted = (self.changed - self.start).as_secs_f64();
        Some(format!(
            "the stream stopped: no packet in the last {:.1} s, measured are the first {lasted:.1} s",
            silent.as_secs_f64()
        ))
    }
}
