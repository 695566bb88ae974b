//! One cell: one arm in one block, from bare ground to its figures.

use super::neighbours::Neighbours;
use super::plan::StudyPlan;
use super::settings::Settings;
use super::tuned::Tuned;
use crate::cli::LabKind;
use crate::exit_code::{ExitCode, failure};
use crate::interrupt::Interrupt;
use crate::report::units;
use crate::stream_plan;
use anyhow::Context;
use quaver_abi::record::{PacketRecord, SendRecord};
use quaver_analysis::study::{Cell, Figures, LayerFigures, StudyLayer};
use quaver_measure::clock::{AnchorKeeper, Counter, Timebase};
use quaver_measure::host::netns::{Lab, LabError};
use quaver_measure::host::trace::Payload;
use quaver_measure::path::StreamShape;
use quaver_measure::probe::profile::Profile;
use quaver_measure::probe::sink::{Sink, SinkOptions, SinkReport};
use quaver_measure::probe::source::{Source, SourceOptions, SourceReport, StreamLength};
use quaver_measure::probe::thread::ThreadSettings;
use quaver_measure::segment::SegmentWriter;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between looks at the clock and the interrupt flag.
const TICK: Duration = Duration::from_millis(50);
/// Time that packets in flight get to arrive.
const DRAIN: Duration = Duration::from_millis(20);
/// What a receiving interface may hold back besides, at most, is waited for as well.
const MOST_DRAIN: Duration = Duration::from_secs(1);
/// A sender that pauses for more than so many periods was not merely slow: it had no CPU.
const PAUSE_PERIODS: f64 = 10.0;
/// More of the packets missing than this spoil a cell.
const MOST_LOST: f64 = 0.01;
/// All of TSO: while any of it is on, the kernel keeps local UDP away from the NAPI of a veth.
const TSO: [&str; 4] = [
    "feature.tx-tcp-segmentation",
    "feature.tx-tcp6-segmentation",
    "feature.tx-tcp-ecn-segmentation",
    "feature.tx-tcp-mangleid-segmentation",
];
/// Polls that NAPI may skip its interrupts for: for good, at our rates.
const DEFERRALS: &str = "1000";

/// Where a cell is measured, and into which files.
pub(super) struct Place<'a> {
    pub(super) lab: LabKind,
    pub(super) counter: Counter,
    pub(super) directory: &'a Path,
}

impl Place<'_> {
    fn files(&self) -> [PathBuf; 2] {
        ["current-packets.seg", "current-sends.seg"].map(|name| self.directory.join(name))
    }

    /// Those that there are; one that cannot be removed shows when it is made anew.
    fn remove_files(&self) {
        self.files().iter().for_each(|file| drop(std::fs::remove_file(file)));
    }
}

/// What was recorded of a cell.
struct Recorded {
    packets: Vec<PacketRecord>,
    sends: Vec<SendRecord>,
    timebase: Timebase,
    sink: SinkReport,
    source: SourceReport,
    notes: Vec<String>,
}

/// Measures a cell; none where the user ended it.
pub(super) fn measure(
    plan: &StudyPlan,
    place: &Place<'_>,
    (block, position, arm): (u32, u32, usize),
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Cell>> {
    let settings = &plan.settings[arm];
    let tuned = match Tuned::apply(&settings.tune, settings.sink_cpu) {
        Ok(tuned) => tuned,
        Err(error) => {
            return Err(error.context(format!("tuning for the arm {}", plan.facts.arms[arm].id)));
        }
    };
    // A killed study left the files of the cell that it was in.
    place.remove_files();
    let recorded = record(plan, settings, place, interrupt);
    let reverted = tuned.map_or(Ok(()), Tuned::revert);
    place.remove_files();
    let recorded = recorded?;
    reverted?;
    Ok(recorded.map(|recorded| {
        let mut cell = figures(plan, recorded);
        (cell.block, cell.position) = (block, position);
        cell.arm = plan.facts.arms[arm].id.clone();
        cell
    }))
}

fn lab_failure(error: LabError) -> anyhow::Error {
    failure(ExitCode::Unsupported, error.to_string())
}

/// The namespaces, with what the arm sets in them.
fn ground(settings: &Settings, kind: LabKind) -> anyhow::Result<Option<Lab>> {
    if kind == LabKind::Loopback {
        return Ok(None);
    }
    let lab = Lab::create().map_err(lab_failure)?;
    let set = || -> Result<(), LabError> {
        let on_off = |on: bool| if on { "on" } else { "off" };
        if let Some(tso) = settings.tso.or(settings.throttle.map(|_| false)) {
            TSO.iter().try_for_each(|field| lab.source.set_driver(field, on_off(tso)))?;
        }
        if let Some(gro) = settings.gro.or(settings.throttle.map(|_| true)) {
            lab.sink.set_driver("feature.rx-gro", on_off(gro))?;
        }
        if let Some(throttle) = settings.throttle {
            lab.sink.set_attribute("napi_defer_hard_irqs", DEFERRALS)?;
            lab.sink.set_attribute("gro_flush_timeout", &throttle.as_nanos().to_string())?;
        }
        if !settings.rps_cpus.is_empty() {
            lab.sink.steer_receive(&settings.rps_cpus)?;
        }
        Ok(())
    };
    set().map_err(lab_failure)?;
    Ok(Some(lab))
}

fn within<T: Send>(lab: Option<&Lab>, sink: bool, body: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    match lab {
        None => Ok(body()),
        Some(lab) if sink => Ok(lab.sink.within(body)?),
        Some(lab) => Ok(lab.source.within(body)?),
    }
}

fn record(
    plan: &StudyPlan,
    settings: &Settings,
    place: &Place<'_>,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Recorded>> {
    let lab = ground(settings, place.lab)?;
    let profile = profile(plan)?;
    let stream_id = (quaver_measure::clock::realtime_ns() as u32) | 1;
    let address: IpAddr = lab.as_ref().map_or(Ipv4Addr::LOCALHOST, |lab| lab.sink.ipv4).into();
    let mut sink = SinkOptions::new(SocketAddr::new(address, 0), place.counter);
    sink.receive = stream_plan::receive(settings.receive);
    sink.kernel_stamps = true;
    sink.payload = Payload::Ours { offset: profile.header_offset() as u16 };
    sink.stream_id = Some(stream_id);
    sink.payload_capacity = profile.payload_bytes();
    sink.thread = ThreadSettings::measuring(Some(settings.sink_cpu), settings.fifo);
    sink.thread.exact_timers = settings.exact_timers;
    let sink = within(lab.as_ref(), true, || Sink::open(sink))??;
    let length = plan.warm_up + plan.measured;
    let mut source =
        SourceOptions::new(sink.local_address(), profile, StreamLength::Lasting(length), place.counter);
    source.pace = stream_plan::pace(settings.pace);
    source.stream_id = stream_id;
    source.thread = ThreadSettings::measuring(Some(settings.source_cpu), None);
    let capacity = source.packets().unwrap_or(0) + 1_024;
    let source = within(lab.as_ref(), false, || Source::open(source))??;
    let [packets, sends] = place.files();
    let sink =
        sink.prepare(SegmentWriter::create(&packets, capacity).context("making room for the samples")?)?;
    let source =
        source.prepare(SegmentWriter::create(&sends, capacity).context("making room for the sends")?)?;
    let refused = |name: &str, thread: &quaver_measure::probe::thread::PreparedThread| {
        thread.refused.iter().map(|refused| format!("{name}: {refused}")).collect::<Vec<_>>()
    };
    let mut notes = refused("sink", sink.thread());
    notes.extend(refused("source", source.thread()));
    let neighbours = Neighbours::start(settings, lab.as_ref())?;
    notes.extend(neighbours.refused.iter().cloned());
    let mut keeper = AnchorKeeper::start(place.counter);
    let (sink, source) = (sink.go(), source.go());
    let began = Instant::now();
    // A stalled machine must not hang the study: a stream that takes five times its length is ended.
    while !source.is_finished() && !interrupt.requested() && began.elapsed() < length * 5 + TICK * 20 {
        std::thread::sleep(TICK);
        keeper.tick();
    }
    source.stop();
    let source = source.join();
    let held = settings.throttle.unwrap_or_default() * 2;
    std::thread::sleep(DRAIN + held.min(MOST_DRAIN));
    let sink = sink.join();
    drop(neighbours);
    let anchors = keeper.finish();
    source.segment.finish()?;
    sink.segment.finish()?;
    if interrupt.requested() {
        return Ok(None);
    }
    Ok(Some(Recorded {
        packets: quaver_store::segments::read_if_any(&packets)?,
        sends: quaver_store::segments::read_if_any(&sends)?,
        timebase: Timebase::from_anchors(&anchors)?,
        sink: sink.report,
        source: source.report,
        notes,
    }))
}

fn profile(plan: &StudyPlan) -> anyhow::Result<Profile> {
    let payload_bytes = u32::try_from(plan.payload_bytes).unwrap_or(u32::MAX);
    let shape = StreamShape::Plain { payload_bytes, period: (plan.period.picoseconds, 1_000) };
    shape.profile().map_err(|error| failure(ExitCode::Usage, error.to_string()))
}

/// ΔT between packets with successive numbers; a missing stamp or packet ends a pair.
fn deltas(stamps: impl Iterator<Item = (u64, Option<i64>)>) -> Vec<i64> {
    let mut before: Option<(u64, i64)> = None;
    let mut found = Vec::new();
    for (number, stamp) in stamps {
        if let (Some((last, then)), Some(now)) = (before, stamp)
            && last + 1 == number
        {
            found.push(now - then);
        }
        before = stamp.map(|now| (number, now));
    }
    found
}

fn figures(plan: &StudyPlan, recorded: Recorded) -> Cell {
    let Recorded { packets, sends, timebase, sink, source, notes } = recorded;
    let (period_ns, spike_ns) = (plan.facts.period_ns, plan.facts.spike_ns);
    let from = source.start_ns + plan.warm_up.as_nanos() as i64;
    let to = from + plan.measured.as_nanos() as i64;
    let due = |deadline_ns: i64| (from..to).contains(&deadline_ns);
    let time = |cycles: u64| timebase.monotonic_ns(cycles).monotonic_ns;
    let received: Vec<&PacketRecord> = packets.iter().filter(|packet| due(packet.deadline_ns)).collect();
    let sent: Vec<&SendRecord> = sends.iter().filter(|send| due(send.deadline_ns)).collect();

    let application = deltas(received.iter().map(|packet| (packet.key, Some(time(packet.app_cycles)))));
    let stack = deltas(received.iter().map(|packet| {
        let stamped = packet.kernel_realtime_ns != 0;
        let near = || time(packet.app_cycles);
        let at =
            stamped.then(|| timebase.realtime_to_monotonic(packet.kernel_realtime_ns, near()).monotonic_ns);
        (packet.key, at)
    }));
    let mut own = deltas(sent.iter().map(|send| (send.seq, Some(time(send.before_cycles)))));
    let pause_ns = (PAUSE_PERIODS * period_ns) as i64;
    let away_ns: i64 = own.iter().filter(|&&delta| delta > pause_ns).sum();
    let away = away_ns as f64 / plan.measured.as_nanos() as f64;
    let layers = [(StudyLayer::Stack, stack), (StudyLayer::Application, application)];
    let layers = layers.into_iter();
    let layers: Vec<LayerFigures> = layers
        .filter_map(|(layer, mut deltas)| LayerFigures::of(layer, &mut deltas, period_ns, spike_ns))
        .collect();
    let sent_count = sent.iter().filter(|send| send.after_cycles != 0).count() as u64;
    let lost = 1.0 - received.len() as f64 / (sent_count.max(1)) as f64;
    let discarded = if away > plan.sender_limit {
        Some(format!("the sender was off its CPU for {} of the time", units::percent(away)))
    } else if layers.is_empty() || lost > MOST_LOST {
        Some(format!(
            "{} of {} packets were lost",
            units::count(sent_count.saturating_sub(received.len() as u64)),
            units::count(sent_count)
        ))
    } else {
        None
    };
    Cell {
        block: 0,
        position: 0,
        arm: String::new(),
        discarded,
        layers,
        sender: Figures::of(&mut own, period_ns, spike_ns),
        sent: sent_count,
        received: received.len() as u64,
        slots_missed: source.misses,
        sink_involuntary: sink.usage.involuntary_switches,
        source_involuntary: source.usage.involuntary_switches,
        notes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_need_neighbours_with_stamps() {
        let stamps = [(0, Some(0)), (1, Some(7)), (3, Some(30)), (4, None), (5, Some(50)), (6, Some(51))];
        assert_eq!(deltas(stamps.into_iter()), [7, 1]);
    }
}
