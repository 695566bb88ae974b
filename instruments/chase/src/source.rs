//! `quaver source`: a constant-rate stream, and the schedule that it achieved.

mod achieved;

use crate::args::SourceArgs;
use crate::stream_plan::StreamPlan;
use achieved::Achieved;
use anyhow::Context;
use quaver_abi::record::SendRecord;
use quaver_arrivals::distribution::Distribution;
use quaver_arrivals::distribution::distribution;
use quaver_clock::{AnchorKeeper, CounterSupport, Timebase};
use quaver_host::facts::HostFacts;
use quaver_host::interface::InterfaceFacts;
use quaver_host::root::HostRoot;
use quaver_host::segment::SegmentWriter;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::host_state::{allowed_cpus, keep_off, taken_from_spinner};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::results::{self, Found};
use quaver_instrument::rights;
use quaver_probe::source::{Pace, RunningSource, Source, SourceOptions, StreamLength};
use quaver_probe::thread::ThreadSettings;
use quaver_store::segments::SegmentReader;
use quaver_view::Cell;
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most packets whose send instants are kept (32 bytes each), for the percentiles.
const MOST_KEPT: u64 = 1 << 22;
/// The same where no end is given.
const KEPT_WITHOUT_END: u64 = 1 << 20;
/// Shortest period at which the source sleeps by default: more than twice its margin before a deadline.
const LEAST_PERIOD_TO_SLEEP_NS: u64 = 200_000;
/// Time between looks at the source and the clock.
const TICK: Duration = Duration::from_millis(50);

/// Sends, and says what was achieved.
pub fn run(args: &SourceArgs) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let stream = StreamPlan::of(&args.stream)?;
    check_cpu(args.cpu)?;
    let destination = args.destination.address()?;
    let options = options(args, destination, &stream)?;
    if options.pace == Pace::Spin
        && args.fifo.is_some()
        && let Some(taken) = taken_from_spinner(&HostFacts::read(&HostRoot::system()).scheduling)
    {
        quaver_instrument::tell!(
            "quaver: --pace spin --fifo never lets go of its CPU: {taken}; use --pace hybrid, which sleeps"
        );
    }
    let counter = options.counter;
    let kept = options.packets().map_or(KEPT_WITHOUT_END, |packets| packets.min(MOST_KEPT));
    let source = Source::open(options)?;
    let (segment, records) = nameless_segment(kept)?;
    let source = source.prepare(segment)?;
    let refused: Vec<String> = source.thread().refused.iter().map(ToString::to_string).collect();
    for refusal in &refused {
        quaver_instrument::tell!("quaver: {refusal}");
    }
    keep_off(&args.cpu.into_iter().collect()).context("leaving the source's CPU to the source")?;
    let mut anchors = AnchorKeeper::start(counter);
    rights::keep_to_send(&[&path_of(&records)], &[]);
    let running = source.go();
    watch(args, destination, &running, &mut anchors, &interrupt);
    running.stop();
    let outcome = running.join()?;
    let timebase = Timebase::from_anchors(&anchors.finish());
    outcome.segment.finish()?;
    let lateness = timebase.ok().map(|timebase| lateness(&records, &timebase)).transpose()?;
    let achieved =
        Achieved::of(destination, &stream, &outcome.report, lateness, refused, interrupt.requested());
    let ended = match (interrupt.requested(), achieved.packets > 0 && achieved.sent == 0) {
        (true, _) => Some(ExitCode::Interrupted),
        (false, true) => Some(ExitCode::Peer),
        (false, false) => None,
    };
    let summary = serde_json::to_value(&achieved)?;
    let code = results::print(&Found::new(&summary).ended(ended), || achieved.document(), args.json, &[])?;
    match code {
        ExitCode::Peer => Err(failure(code, format!("{destination}: not one packet could be sent"))),
        _ => Ok(code),
    }
}

/// The options of the source.
fn options(args: &SourceArgs, destination: SocketAddr, stream: &StreamPlan) -> anyhow::Result<SourceOptions> {
    let length = match (args.count, args.duration) {
        (Some(count), _) => StreamLength::Packets(count),
        (None, Some(duration)) => StreamLength::Lasting(duration),
        (None, None) => StreamLength::UntilStopped,
    };
    let counter = CounterSupport::detect(Path::new("/")).counter;
    let mut options = SourceOptions::new(destination, stream.profile.clone(), length, counter);
    // A spinner under SCHED_FIFO loses more to the kernel than a sleeper to its wake-ups, where there is time to sleep.
    let sleeps =
        args.stream.pace.is_none() && stream.profile.schedule().spacing_ns() >= LEAST_PERIOD_TO_SLEEP_NS;
    options.pace = if sleeps { Pace::Hybrid } else { stream.pace };
    options.catch_up = args.stream.catch_up;
    options.stream_id = (quaver_clock::realtime_ns() as u32) | 1;
    options.socket.dscp = Some(args.stream.dscp);
    options.socket.multicast_interface = multicast_interface(args.interface.as_deref(), destination.ip())?;
    options.thread = ThreadSettings::measuring(args.cpu, args.fifo);
    Ok(options)
}

/// Refuses a CPU that this process may not use.
pub(super) fn check_cpu(asked: Option<u16>) -> anyhow::Result<()> {
    let allowed = allowed_cpus().context("reading the CPUs that this process may use")?;
    match asked {
        Some(cpu) if !allowed.contains(&cpu) => Err(failure(
            ExitCode::Usage,
            format!("--cpu {cpu}: this process may use CPUs {allowed:?} only (see taskset, cpuset)"),
        )),
        _ => Ok(()),
    }
}

/// Index of the interface that is named for a multicast group.
pub(super) fn multicast_interface(name: Option<&str>, group: IpAddr) -> anyhow::Result<Option<u32>> {
    let Some(name) = name else { return Ok(None) };
    let usage = |message| failure(ExitCode::Usage, message);
    if !group.is_multicast() {
        return Err(usage(format!(
            "--interface {name} is for multicast, and {group} is no multicast address"
        )));
    }
    let any: SocketAddr = ([0, 0, 0, 0], 0).into();
    let socket = std::net::UdpSocket::bind(any).context("opening a socket to look up the interface")?;
    match rustix::net::netdevice::name_to_index(&socket, name) {
        Ok(index) => Ok(Some(index)),
        Err(_) => {
            let there = InterfaceFacts::names_here().join(", ");
            Err(usage(format!("--interface {name}: there is no such interface here; there are {there}")))
        }
    }
}

/// A segment in memory, or in the directory for temporary files where memory has no room for it, whose name is
/// removed at once: however this process ends, nothing of it is left. The second value reads it.
fn nameless_segment(packets: u64) -> anyhow::Result<(SegmentWriter<SendRecord>, File)> {
    match segment_below(Path::new("/dev/shm"), packets) {
        Ok(made) => Ok(made),
        Err(_) => segment_below(&std::env::temp_dir(), packets).context("making room for the send instants"),
    }
}

fn segment_below(parent: &Path, packets: u64) -> anyhow::Result<(SegmentWriter<SendRecord>, File)> {
    let place = tempfile::Builder::new().prefix("quaver-source-").tempdir_in(parent)?;
    let path = place.path().join("sends.seg");
    let segment = SegmentWriter::create(&path, packets)?;
    let reader = File::open(&path)?;
    place.close()?;
    Ok((segment, reader))
}

/// Keeps house until the stream ends or the user ends it.
fn watch(
    args: &SourceArgs,
    destination: SocketAddr,
    running: &RunningSource,
    anchors: &mut AnchorKeeper,
    interrupt: &Interrupt,
) {
    let start = Instant::now();
    let progress = Progress::timed(args.duration.unwrap_or(Duration::from_secs(1)), args.quiet);
    while !running.is_finished() && !interrupt.requested() {
        anchors.tick();
        let live = running.live();
        let words = format!(
            "{} to {destination}, {} missed",
            Cell::several(live.sent(), "packet"),
            Cell::several(live.misses(), "slot")
        );
        match args.duration {
            Some(_) => progress.show(start.elapsed(), words),
            None => progress.say(words),
        }
        std::thread::sleep(TICK);
    }
}

/// A file that has no name any more is opened again by this one.
fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Lateness of the send instants that were kept: right before the send call, less the deadline.
fn lateness(records: &File, timebase: &Timebase) -> anyhow::Result<Distribution> {
    let path = path_of(records);
    let mut late_ns = Vec::new();
    for send in SegmentReader::<SendRecord>::open(&path).context("reading the send instants again")? {
        let send = send?;
        late_ns.push(timebase.monotonic_ns(send.before_cycles).monotonic_ns - send.deadline_ns);
    }
    Ok(distribution(&mut late_ns))
}
