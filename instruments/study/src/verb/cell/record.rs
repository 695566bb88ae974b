//! Runs source, sink, neighbours and tracer for one cell, and reads what they recorded.

use super::super::neighbours::Neighbours;
use super::super::plan::StudyPlan;
use super::Order;
use super::ends::{self, within};
use super::trace::{Threads, Traced, Tracing};
use anyhow::Context;
use quaver_abi::record::{PacketRecord, SendRecord};
use quaver_chase::stream_plan;
use quaver_clock::{AnchorKeeper, Counter, Timebase};
use quaver_host::netns::Lab;
use quaver_host::segment::SegmentWriter;
use quaver_host::trace::Payload;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_path_record::StreamShape;
use quaver_probe::profile::Profile;
use quaver_probe::sink::{PreparedSink, Sink, SinkOptions, SinkReport};
use quaver_probe::source::{PreparedSource, Source, SourceOptions, SourceReport, StreamLength};
use quaver_probe::thread::{PreparedThread, ThreadSettings};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between looks at the clock and the interrupt flag.
const TICK: Duration = Duration::from_millis(50);
/// Time that packets in flight get to arrive.
const DRAIN: Duration = Duration::from_millis(20);
/// What a receiving interface may hold back besides, at most, is waited for as well.
const MOST_DRAIN: Duration = Duration::from_secs(1);

fn files(directory: &Path) -> [PathBuf; 2] {
    ["current-packets.seg", "current-sends.seg"].map(|name| directory.join(name))
}

/// Those that there are; one that cannot be removed shows when it is made anew.
pub(super) fn remove_files(directory: &Path) {
    files(directory).iter().for_each(|file| drop(std::fs::remove_file(file)));
}

/// What was recorded of a cell.
pub(super) struct Recorded {
    pub(super) packets: Vec<PacketRecord>,
    pub(super) sends: Vec<SendRecord>,
    pub(super) timebase: Timebase,
    pub(super) sink: SinkReport,
    pub(super) source: SourceReport,
    pub(super) threads: Threads,
    pub(super) traced: Traced,
    /// Whether the sink's interface is a device, which interrupts. Elsewhere the interrupt that a stamp names belongs to
    /// something else, within whose exit the softirq happened to run.
    pub(super) interrupts: bool,
    pub(super) turns: Vec<Turn>,
    pub(super) notes: Vec<String>,
}

impl Recorded {
    /// Deadlines that lie in the measured time.
    pub(super) fn window(&self, plan: &StudyPlan) -> Range<i64> {
        let from = self.source.start_ns + plan.warm_up.as_nanos() as i64;
        from..from + plan.measured.as_nanos() as i64
    }
}

/// Whether probes go on and off in turn, to see what they cost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Alternating {
    No,
    Yes,
}

/// A while with probes on, or off: CLOCK_MONOTONIC nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) on: bool,
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
}

/// Ticks of a turn.
const TURN_TICKS: u32 = 3;
/// Turns, and ticks that they take.
const TURNS: u32 = 16;
/// Left out after each change: attaching interrupts every CPU.
const SETTLE_NS: i64 = 15_000_000;

struct Both {
    sink: PreparedSink,
    source: PreparedSource,
    address: SocketAddr,
}

fn prepare(order: &Order<'_>, lab: Option<&Lab>, counter: Counter, length: Duration) -> anyhow::Result<Both> {
    let (plan, settings) = (order.plan, order.settings());
    let profile = profile(plan)?;
    let stream_id = (quaver_clock::realtime_ns() as u32) | 1;
    let address: IpAddr = lab.map_or(Ipv4Addr::LOCALHOST, |lab| lab.sink.ipv4).into();
    let mut sink = SinkOptions::new(SocketAddr::new(address, 0), counter);
    sink.receive = stream_plan::receive(settings.receive);
    sink.kernel_stamps = true;
    sink.payload = Payload::Ours { offset: profile.header_offset() as u16 };
    sink.stream_id = Some(stream_id);
    sink.payload_capacity = profile.payload_bytes();
    sink.thread = ThreadSettings::measuring(Some(settings.sink_cpu), settings.fifo);
    sink.thread.exact_timers = settings.exact_timers;
    let sink = within(lab, true, || Sink::open(sink))??;
    let address = sink.local_address();
    let mut source = SourceOptions::new(address, profile, StreamLength::Lasting(length), counter);
    source.pace = stream_plan::pace(settings.pace);
    source.stream_id = stream_id;
    source.thread = ThreadSettings::measuring(Some(settings.source_cpu), None);
    let capacity = source.packets().unwrap_or(0) + 1_024;
    let source = within(lab, false, || Source::open(source))??;
    let [packets, sends] = files(order.directory);
    let sink =
        sink.prepare(SegmentWriter::create(&packets, capacity).context("making room for the samples")?)?;
    let source =
        source.prepare(SegmentWriter::create(&sends, capacity).context("making room for the sends")?)?;
    Ok(Both { sink, source, address })
}

fn refused(name: &str, thread: &PreparedThread) -> Vec<String> {
    thread.refused.iter().map(|refused| format!("{name}: {refused}")).collect()
}

/// Records a cell; none where the user ended it.
pub(super) fn record(
    order: &Order<'_>,
    lab: Option<&Lab>,
    counter: Counter,
    interrupt: &Interrupt,
    alternating: Alternating,
) -> anyhow::Result<Option<Recorded>> {
    let (plan, settings) = (order.plan, order.settings());
    if let Some(lab) = lab {
        ends::set(lab, settings)?;
    }
    let length = match alternating {
        Alternating::No => plan.warm_up + plan.measured,
        Alternating::Yes => TICK * TURN_TICKS * (TURNS + 2),
    };
    let interrupts = lab.is_some_and(|lab| lab.sink.is_device);
    let Both { sink, source, address } = prepare(order, lab, counter, length)?;
    let mut notes = refused("sink", sink.thread());
    notes.extend(refused("source", source.thread()));
    let threads = Threads { sink: sink.tid(), source: source.tid() };
    let mut tracing = Tracing::start(plan, settings, address, threads, length);
    tracing.attach(sink.as_fd())?;
    let neighbours = Neighbours::start(settings, lab)?;
    notes.extend(neighbours.refused.iter().cloned());
    let mut keeper = AnchorKeeper::start(counter);
    let (sink, source) = (sink.go(), source.go());
    let began = Instant::now();
    let (mut ticks, mut turns) = (0, Vec::new());
    // A stalled machine must not hang the study: a stream that takes five times its length is ended.
    while !source.is_finished() && !interrupt.requested() && began.elapsed() < length * 5 + TICK * 20 {
        std::thread::sleep(TICK);
        keeper.tick();
        tracing.tick()?;
        ticks += 1;
        if alternating == Alternating::Yes && ticks % TURN_TICKS == 0 && tracing.traces() {
            turn(&mut tracing, &mut turns, ticks / TURN_TICKS - 1)?;
        }
    }
    source.stop();
    let source = source.join()?;
    let held = settings.throttle.unwrap_or_default() * 2;
    std::thread::sleep(DRAIN + held.min(MOST_DRAIN));
    let sink = sink.join()?;
    drop(neighbours);
    let traced = tracing.finish()?;
    let anchors = keeper.finish();
    source.segment.finish()?;
    sink.segment.finish()?;
    if interrupt.requested() {
        return Ok(None);
    }
    let [packets, sends] = files(order.directory);
    Ok(Some(Recorded {
        packets: quaver_store::segments::read_if_any(&packets)?,
        sends: quaver_store::segments::read_if_any(&sends)?,
        timebase: Timebase::from_anchors(&anchors)?,
        sink: sink.report,
        source: source.report,
        threads,
        traced,
        interrupts,
        turns,
        notes,
    }))
}

/// Ends a turn and begins the next. Which comes first in a pair changes from pair to pair, so that a drift does not count.
fn turn(tracing: &mut Tracing, turns: &mut Vec<Turn>, number: u32) -> anyhow::Result<()> {
    let now_ns = quaver_clock::monotonic_ns();
    if let Some(last) = turns.last_mut().filter(|_| number <= TURNS) {
        last.end_ns = now_ns;
    }
    if number < TURNS {
        let on = (number % 2 == 1) != (number / 2 % 2 == 1);
        tracing.set_recording(on)?;
        let start_ns = quaver_clock::monotonic_ns() + SETTLE_NS;
        turns.push(Turn { on, start_ns, end_ns: start_ns });
    }
    Ok(())
}

fn profile(plan: &StudyPlan) -> anyhow::Result<Profile> {
    let payload_bytes = u32::try_from(plan.payload_bytes).unwrap_or(u32::MAX);
    let shape = StreamShape::Plain { payload_bytes, period: (plan.period.picoseconds, 1_000) };
    shape.profile().map_err(|error| failure(ExitCode::Usage, error.to_string()))
}
