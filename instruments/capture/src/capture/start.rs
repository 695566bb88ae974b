//! Opening all that a capture needs, in the order that gives the first packet all its stamps.

use super::accounts::FileAccount;
use super::breach::Breaches;
use super::files::{Output, Rotation};
use super::order::Order;
use super::plan::{Plan, interfaces, is_awaited};
use super::qos;
use super::write::{Limits, Live, Writer};
use crate::args::CaptureArgs;
use crate::pipeline;
use crate::pipeline::{Convert, PipelineKind, PipelineSettings};
use crate::record as capture;
use crate::record::{
    CaptureError, Fanout, LayerState, Layers, LinkKind, RawStamps, Reading, Tap, TapInterface,
};
use anyhow::Context;
use quaver_abi::stamp::Layer;
use quaver_clock::live::{LiveClock, LiveOptions, LiveReader, MarkKind};
use quaver_clock::{ClockDaemons, Counter, CounterSupport, TaiState};
use quaver_host::facts::cpu_model;
use quaver_host::root::HostRoot;
use quaver_instrument::exit_code::{ExitCode, failure, sentence};
use quaver_instrument::rights;
use quaver_pcapng::{InterfaceFacts, SectionFacts, WriteError};
use quaver_view::Cell;
use quaver_waiting as waiting;
use serde_json::json;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Part of a ring that may wait for the writing thread before it is woken.
const PATIENT_PART: usize = 16;
/// Longest wait of the writing thread for a block, and the same where nobody waits for packets.
const WAIT: Duration = Duration::from_millis(50);
const PATIENT_WAIT: Duration = Duration::from_millis(200);
/// The thread that makes the rings.
const RINGS: &str = "quaver-rings";

/// All that is open before the first packet is taken.
pub(super) struct Session {
    clock: LiveClock,
    counter: Counter,
    layers: Layers,
    taps: Vec<Tap>,
    output: Option<Output>,
}

impl Session {
    /// Opens clock, layers, taps and output; then becomes the user asked for. Settings are changed by `set`.
    pub(super) fn open(
        args: &CaptureArgs,
        plan: &Plan,
        set: &mut capture::SetSetting<'_>,
    ) -> anyhow::Result<Self> {
        // The kernel clears the rings meanwhile. Where no layer has to be there first, packets come in as soon as there is one.
        let (options, at_once) = (plan.taps.clone(), plan.wish.is_none() && args.layer != Layer::Raw);
        let (each, by) = (plan.rings, args.fanout_type);
        let open = move |options: &_| {
            let taps = (0..each).map(|_| Tap::prepare(options)).collect::<Result<Vec<_>, _>>()?;
            if at_once { begin(&taps, by, false).map(|()| taps) } else { Ok(taps) }
        };
        let rings = waiting::start(RINGS, move || options.iter().map(open).collect::<Result<Vec<_>, _>>())
            .context("starting the thread of the rings")?;
        let support = CounterSupport::detect(Path::new("/"));
        let counter = support.counter;
        let clock = LiveClock::start(LiveOptions::checked(counter))
            .map_err(|e| failure(ExitCode::Output, sentence(&anyhow::Error::new(e))))?;
        let interfaces = interfaces(plan)?;
        let cycles = counter == Counter::Hardware;
        let mut layers = Layers::switch_on(&interfaces, capture::LayerWish { cycles, ..plan.wish }, set)
            .map_err(super::fail)?;
        if cycles {
            let reader = clock.reader();
            layers.convert_cycles(move |cycles| reader.layer_stamp(cycles));
        }
        if args.layer == Layer::Raw {
            let raw = raw_stamps(args, plan, &support, &clock.reader(), &interfaces)?;
            layers.add_raw(raw, &interfaces);
        }
        if args.qos
            && let Some(why) = layers.why_not(args.layer)
        {
            return Err(failure(
                ExitCode::Unsupported,
                format!("--qos --layer {}: no packet has this stamp: {why}", args.layer.name()),
            ));
        }
        let prepared = waiting::join(RINGS, rings).context("making the rings")?;
        let taps = prepared.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(super::fail)?;
        for taps in taps.iter().filter(|_| !at_once) {
            begin(taps, by, layers.hardware_at_socket()).map_err(super::fail)?;
        }
        let taps = taps.into_iter().flatten().collect();
        if let Some(user) = &args.user {
            capture::become_user(user).map_err(super::fail)?;
        }
        let mut session = Self { clock, counter, layers, taps, output: None };
        session.output = session.open_output(args, plan)?;
        Ok(session)
    }

    /// What takes off at once what would outlive the process.
    pub(super) fn put_back(&self) -> capture::PutBack {
        self.layers.put_back()
    }

    fn open_output(&self, args: &CaptureArgs, plan: &Plan) -> anyhow::Result<Option<Output>> {
        let Some(path) = &args.output else { return Ok(None) };
        let host = HostRoot::system();
        let section = SectionFacts {
            hardware: cpu_model(&host),
            os: host.text("proc/sys/kernel/osrelease").map(|release| format!("Linux {release}")),
            application: Some(format!("quaver {}", env!("CARGO_PKG_VERSION"))),
            comment: None,
        };
        let cores = &plan.cores;
        let mut facts = json!({
            "program": format!("quaver {}", env!("CARGO_PKG_VERSION")),
            "counter": format!("{:?}", self.counter),
            "cores": {
                "softirq": cores.softirq, "capture": cores.capture, "write": cores.write, "convert": cores.convert,
            },
            "pipeline": args.pipeline.to_string(),
            "application_stamp": if args.immediate {
                "per packet, on delivery"
            } else {
                "per block, on delivery"
            },
            "layers": self.layers.states().iter().map(super::summary::layer_json).collect::<Vec<_>>(),
        });
        tell_tai(&mut facts, self.clock.state().kernel.tai);
        let taps = self.taps.iter().step_by(plan.rings).zip(&plan.taps);
        let interfaces = taps.map(|(tap, of)| interface_facts(of.snap_length, tap)).collect();
        let rotation = Rotation {
            size: args.file_size,
            time: args.file_time,
            files: args.ring_files.map(|n| n as usize),
        };
        let opened = Output::open(path, section, interfaces, facts, rotation);
        let interrupted = matches!(&opened, Err(WriteError::Io(e)) if e.kind() == ErrorKind::Interrupted);
        let code = if interrupted { ExitCode::Interrupted } else { ExitCode::Output };
        let output = opened
            .with_context(|| match &args.user {
                Some(user) => format!("write {} as {user}, for --user comes before the file", path.display()),
                None => format!("write {}", path.display()),
            })
            .map_err(|error| failure(code, sentence(&error)))?;
        Ok(Some(output))
    }

    /// Says on standard error what is captured, and which stamps there are and why not the others. `notes` were found
    /// before.
    pub(super) fn tell(&self, plan: &Plan, notes: &[String]) {
        for LayerState { layer, interface, state } in self.layers.states() {
            match state {
                Ok(how) => quaver_instrument::tell!("{interface}: {} stamp by {how}", layer.name()),
                Err(why) => quaver_instrument::tell!("{interface}: no {} stamp: {why}", layer.name()),
            }
        }
        for note in plan.core_notes.iter().chain(notes).chain(self.taps.iter().flat_map(|tap| tap.notes())) {
            quaver_instrument::tell!("note: {note}");
        }
        for (tap, options) in self.taps.iter().step_by(plan.rings).zip(&plan.taps) {
            let filter = tap.filter().map(|filter| {
                let place = if filter.runs_here() { ", filtered here" } else { "" };
                format!(", filter `{}`{place}", filter.expression)
            });
            quaver_instrument::tell!(
                "capturing on {}: {} of {} {} of {} bytes, snap length {} bytes{}",
                tap.interface().name,
                if plan.rings == 1 { "ring".to_owned() } else { format!("{} rings", plan.rings) },
                Cell::Count(tap.blocks() as u64),
                if options.immediate { "packets" } else { "blocks" },
                Cell::Count(options.block_bytes as u64),
                Cell::Count(options.snap_length.into()),
                filter.unwrap_or_default()
            );
        }
    }

    /// Starts the capture thread, and makes the writer ready for its own.
    pub(super) fn start(
        self,
        args: &CaptureArgs,
        plan: &Plan,
        told: FileAccount,
    ) -> anyhow::Result<(Reading, LiveClock, Writer, Arc<Live>)> {
        // Raw cycles go the way that was asked for, and a stamp for each block needs none.
        let settings = match args.layer {
            Layer::Raw => PipelineSettings::new(PipelineKind::Batch, self.counter),
            _ => pipeline_settings(args, plan, self.counter),
        };
        let start = || {
            pipeline::start(&settings, self.clock.reader())
                .map_err(|e| failure(ExitCode::Output, e.to_string()))
        };
        let (stamper, resolver) = start()?;
        let mut stampers = vec![stamper];
        // Without converter threads any resolver serves all stampers.
        for _ in 1..plan.rings {
            stampers.push(start()?.0);
        }
        let links: Vec<LinkKind> = self.taps.iter().map(|tap| tap.interface().link).collect();
        let live = Arc::new(Live::new());
        let mut layers = self.layers;
        let wall_clock = layers.is_wall_clock(args.layer);
        let joiner = if args.immediate { layers.joiner() } else { None };
        let least = self.taps.iter().map(Tap::blocks).min().unwrap_or_default();
        let patience = if is_awaited(args) { 1 } else { (least / PATIENT_PART).max(1) };
        let (reading, blocks) = capture::start(self.taps, stampers, &plan.capture_thread, joiner, patience)
            .map_err(super::fail)?;
        let limits = Limits { packets: args.count, octets: args.size_limit };
        let timeout = blocks.taps().iter().map(Tap::block_timeout).max().unwrap_or_default();
        let files = self.output.as_ref().map(Output::files).unwrap_or_default();
        let writer = Writer {
            wait: if is_awaited(args) { WAIT } else { PATIENT_WAIT },
            order: Order::new(blocks.taps().len(), timeout, least),
            blocks,
            layers,
            resolver,
            links,
            rings: plan.rings,
            layer: args.layer,
            only_outgoing: args.direction == crate::args::WantedDirection::Out,
            place: files.first().map(|file| rights::place_of(file).to_owned()),
            output: self.output,
            told,
            limits,
            cpu: plan.write_cpu,
            breaches: args.breach.map(Breaches::new),
            flows: args.qos.then(|| qos::Flows::new(args.layer, wall_clock)),
            live: Arc::clone(&live),
        };
        Ok((reading, self.clock, writer, live))
    }
}

/// Packets come in from now on, by all rings of an interface.
fn begin(taps: &[Tap], by: Fanout, hardware_stamps: bool) -> Result<(), CaptureError> {
    match taps {
        [only] => only.begin(hardware_stamps),
        several => Tap::begin_group(several, by, hardware_stamps),
    }
}

fn pipeline_settings(args: &CaptureArgs, plan: &Plan, counter: Counter) -> PipelineSettings {
    PipelineSettings { converters: plan.converters.clone(), ..PipelineSettings::new(args.pipeline, counter) }
}

/// Begins to take raw cycles, where this host has a way.
fn raw_stamps(
    args: &CaptureArgs,
    plan: &Plan,
    support: &CounterSupport,
    reader: &LiveReader,
    interfaces: &[TapInterface],
) -> anyhow::Result<RawStamps> {
    let impossible = |why: &dyn std::fmt::Display| {
        failure(ExitCode::Unsupported, format!("--stamp raw: {why}; --stamp kernel works without"))
    };
    if let Some(refusal) = &support.refusal {
        return Err(impossible(refusal));
    }
    let settings = pipeline_settings(args, plan, support.counter);
    RawStamps::start(interfaces, plan.wish.rings_bytes, reader, &settings).map_err(|error| impossible(&error))
}

/// What the kernel was told of TAI: without it nobody knows, and an offset of 0 would be wrong.
fn tell_tai(facts: &mut serde_json::Value, tai: TaiState) {
    if let Some(offset_s) = tai.offset_s() {
        facts["tai_offset_s"] = json!(offset_s);
    }
}

fn interface_facts(snap_length: u32, tap: &Tap) -> InterfaceFacts {
    let interface = tap.interface();
    // Our header, or the tag that is put back, comes on top.
    let added = if interface.link == LinkKind::Cooked { 20 } else { 4 };
    InterfaceFacts {
        name: interface.name.clone(),
        link_type: interface.link.link_type(),
        snap_length: snap_length + added,
        filter: tap.filter().map(|filter| filter.expression.clone()),
        mac: interface.mac,
        ..InterfaceFacts::default()
    }
}

/// Notes of the clock that are told one by one: some machines steer theirs each second.
const MOST_NOTES: usize = 12;

fn few(mut notes: Vec<String>) -> Vec<String> {
    let more = notes.len().saturating_sub(MOST_NOTES);
    if more > 0 {
        notes.truncate(MOST_NOTES);
        notes.push(format!("{more} more notes of the clock"));
    }
    notes
}

/// What happened to the clock meanwhile, as far as it concerns stamps.
pub(super) fn clock_notes(clock: &LiveClock) -> Vec<String> {
    let apart = Cell::Duration;
    let words = |kind| match kind {
        MarkKind::RealtimeStepped { step_ns } | MarkKind::LeapSecond { step_ns } => Some(format!(
            "wall clock stepped by {}: stamps before and after are not comparable",
            apart(step_ns)
        )),
        MarkKind::Parted { residual_ns } => Some(format!(
            "counter and kernel clock diverged by {}: fell back to the kernel's clock",
            apart(residual_ns)
        )),
        MarkKind::RateChanged { residual_ns } => Some(format!(
            "the rate of counter and kernel clock changed ({} in an anchor period); bounds hold",
            apart(residual_ns)
        )),
        MarkKind::ClocksourceChanged => {
            Some("clocksource changed: fell back to the kernel's clock".to_owned())
        }
        MarkKind::CoresDisagree { offset_ns } => {
            Some(format!("counters of two CPUs differ by {}; bounds include it", apart(offset_ns)))
        }
        MarkKind::Uncorrected { silent_ns } => Some(format!(
            "the wall clock was corrected regularly and is no longer: {} without a correction; at the end {}",
            apart(silent_ns),
            ClockDaemons::find(Path::new("/")).words()
        )),
        MarkKind::RateSet { .. }
        | MarkKind::CounterAgain
        | MarkKind::LeapPending { .. }
        | MarkKind::TaiSet { .. } => None,
    };
    few(clock.marks().into_iter().filter_map(|mark| words(mark.kind)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_steered_all_the_time_fills_no_page() {
        let notes = |count: usize| few((0..count).map(|n| n.to_string()).collect());
        assert_eq!(notes(12).len(), 12);
        assert_eq!((notes(5_000).len(), notes(5_000)[12].as_str()), (13, "4988 more notes of the clock"));
    }

    #[test]
    fn tai_is_told_only_where_somebody_told_the_kernel() {
        let mut facts = json!({ "program": "quaver" });
        tell_tai(&mut facts, TaiState::Unset);
        assert_eq!(facts, json!({ "program": "quaver" }));
        tell_tai(&mut facts, TaiState::Known { offset_s: 37 });
        assert_eq!(facts, json!({ "program": "quaver", "tai_offset_s": 37 }));
    }
}
