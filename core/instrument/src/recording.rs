//! A run being recorded: its directory, its clock anchors, its tracer. Shared by every verb that measures.

use crate::cpu_watch::{CpuGone, CpuWatch};
use crate::halts::Halts;
use crate::holes::Holes;
use crate::interrupt::Interrupt;
use crate::tier::Choice;
use anyhow::Context;
use quaver_abi::record::{AnchorRecord, EventRecord, StampRecord};
use quaver_analysis::attribution::NO_TRACING;
use quaver_clock::{
    AnchorKeeper, ClockSource, Counter, CounterSupport, KernelState, SystemClocks, Timebase,
    compare_allowed_cpus,
};
use quaver_host::root::HostRoot;
use quaver_host::segment::SegmentAppender;
use quaver_host::trace::{TraceCounts, TraceSink, Tracer};
use quaver_store::manifest::{ClockCalibration, ClockState, Manifest, RealtimeStep};
use quaver_store::run::RunDir;
use quaver_view::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between looks at the tracer, the clock and the interrupt flag.
const TICK: Duration = Duration::from_millis(50);

/// A run that is being recorded.
pub struct Recording<C: ClockSource = SystemClocks> {
    /// Its directory.
    pub run: RunDir,
    /// Its manifest, written again when the run ends.
    pub manifest: Manifest,
    /// Counter that the samples are stamped with.
    pub counter: Counter,
    keeper: AnchorKeeper<C>,
    clock_state: Option<ClockState>,
    anchors: SegmentAppender<AnchorRecord>,
    records: TraceRecords,
    tracer: Option<Box<dyn Tracer>>,
    drain_while_measuring: bool,
    holes: Holes,
    cpus: CpuWatch,
    cpu_gone: Option<CpuGone>,
    /// How long the machine had been suspended before, in all.
    suspended_ns: i64,
    halts: Halts,
}

/// Segments that a tracer's records go to. A write that fails is kept until the run ends: measuring goes on.
struct TraceRecords {
    stamps: SegmentAppender<StampRecord>,
    events: SegmentAppender<EventRecord>,
    stacks: BTreeMap<u32, Vec<u64>>,
    failed: Option<anyhow::Error>,
}

impl TraceSink for TraceRecords {
    fn stamp(&mut self, record: StampRecord) {
        if self.failed.is_none() {
            self.failed = self.stamps.append(&record).err().map(Into::into);
        }
    }

    fn event(&mut self, record: EventRecord) {
        if self.failed.is_none() {
            self.failed = self.events.append(&record).err().map(Into::into);
        }
    }

    fn stack(&mut self, number: u32, addresses: &[u64]) {
        self.stacks.insert(number, addresses.to_vec());
    }
}

impl Recording {
    /// Makes the run directory below `parent` and takes the first clock anchor.
    pub fn begin(
        parent: &Path,
        verb: &str,
        asked: serde_json::Value,
        host: serde_json::Value,
    ) -> anyhow::Result<Self> {
        let support = CounterSupport::detect(Path::new("/"));
        let counter = support.counter;
        let state = clock_state(support);
        let mut recording =
            Self::begin_with(parent, verb, asked, host, counter, AnchorKeeper::start(counter))?;
        recording.clock_state = Some(state);
        Ok(recording)
    }
}

impl<C: ClockSource> Recording<C> {
    /// As [`Recording::begin`], with any clocks.
    ///
    /// # Errors
    /// The run directory or a file in it cannot be made.
    pub fn begin_with(
        parent: &Path,
        verb: &str,
        asked: serde_json::Value,
        host: serde_json::Value,
        counter: Counter,
        keeper: AnchorKeeper<C>,
    ) -> anyhow::Result<Self> {
        let run = RunDir::create(parent, verb)?;
        let begun = Self::begin_in(run.clone(), verb, asked, host, counter, keeper);
        if begun.is_err() {
            // Nothing was measured; the error at hand is the one that matters.
            let _ = std::fs::remove_dir_all(run.path());
        }
        begun
    }

    fn begin_in(
        run: RunDir,
        verb: &str,
        asked: serde_json::Value,
        host: serde_json::Value,
        counter: Counter,
        keeper: AnchorKeeper<C>,
    ) -> anyhow::Result<Self> {
        let now_ns = quaver_clock::realtime_ns();
        let mut manifest = Manifest::begin(env!("CARGO_PKG_VERSION"), verb, asked, host, now_ns);
        manifest.analysis = Some(Default::default());
        run.write_manifest(&manifest)?;
        let mut anchors = SegmentAppender::create(&run.anchors_segment())?;
        for anchor in keeper.anchors() {
            anchors.append(anchor)?;
        }
        let records = TraceRecords {
            stamps: SegmentAppender::create(&run.stamps_segment())?,
            events: SegmentAppender::create(&run.events_segment())?,
            stacks: BTreeMap::new(),
            failed: None,
        };
        Ok(Self {
            run,
            manifest,
            counter,
            keeper,
            clock_state: None,
            anchors,
            records,
            tracer: None,
            drain_while_measuring: false,
            holes: Holes::default(),
            cpus: CpuWatch::new(HostRoot::system()),
            cpu_gone: None,
            suspended_ns: quaver_clock::suspended_ns(),
            halts: Halts::listen(),
        })
    }

    /// Takes over a tracer. With `drain_while_measuring`, its memory is emptied at each tick; without, it must
    /// hold the whole run.
    pub fn trace_with(&mut self, choice: Choice, drain_while_measuring: bool) {
        let facts = self.manifest.analysis.get_or_insert_default();
        facts.tier = choice.tier.name().into();
        facts.tier_reason = choice.reason;
        facts.blind = choice.tracer.as_ref().map_or_else(blind_without_tracing, |tracer| tracer.blind());
        self.tracer = choice.tracer;
        let lost = self.tracer.as_ref().map_or(0, |tracer| tracer.events_lost());
        self.holes = Holes::begin(lost, monotonic_ns());
        self.drain_while_measuring = drain_while_measuring;
    }

    /// The tracer, where one runs.
    pub fn tracer(&mut self) -> Option<&mut Box<dyn Tracer>> {
        self.tracer.as_mut()
    }

    /// Takes the tracer out, which goes on recording for somebody else.
    pub fn take_tracer(&mut self) -> Option<Box<dyn Tracer>> {
        self.tracer.take()
    }

    /// Where records go that somebody recorded before, in place of a tracer's.
    pub fn records(&mut self) -> &mut dyn TraceSink {
        &mut self.records
    }

    /// Ends the run early should `cpu`, that of `whose`, be taken offline.
    pub fn rely_on(&mut self, cpu: u16, whose: &'static str) {
        self.cpus.need(cpu, whose);
    }

    /// Writes the manifest as it is now, so that a killed run can be analysed.
    pub fn save_manifest(&self) -> anyhow::Result<()> {
        Ok(self.run.write_manifest(&self.manifest)?)
    }

    /// Keeps house for `length`, or until the user interrupts, a CPU that is relied on goes, or `ended` says so. `show` is called now and then.
    pub fn keep_house(
        &mut self,
        length: Duration,
        interrupt: &Interrupt,
        mut ended: impl FnMut() -> bool,
        mut show: impl FnMut(Duration),
    ) -> anyhow::Result<()> {
        let start = Instant::now();
        self.halts.begin();
        loop {
            let elapsed = start.elapsed();
            self.halts.look(start + elapsed);
            self.cpu_gone = self.cpu_gone.or_else(|| self.cpus.gone());
            if elapsed >= length || interrupt.requested() || self.cpu_gone.is_some() || ended() {
                return Ok(());
            }
            show(elapsed);
            if let Some(anchor) = self.keeper.tick() {
                self.anchors.append(&anchor)?;
                self.anchors.flush()?;
            }
            if let Some(tracer) = &mut self.tracer {
                if self.drain_while_measuring {
                    tracer.drain(&mut self.records).context("reading the tracer's memory")?;
                }
                self.holes.look(tracer.events_lost(), monotonic_ns());
            }
            std::thread::sleep(TICK.min(length - elapsed));
        }
    }

    /// Stops the tracer, closes the segments, and notes clock and losses in the manifest.
    pub fn end_tracing(&mut self) -> anyhow::Result<TraceCounts> {
        self.anchors.append(&self.keeper.take())?;
        self.anchors.flush()?;
        let counts = match self.tracer.take() {
            Some(tracer) => {
                self.holes.look(tracer.events_lost(), monotonic_ns());
                tracer.finish(&mut self.records).context("ending the tracer")?
            }
            None => TraceCounts::default(),
        };
        self.records.stamps.flush()?;
        self.records.events.flush()?;
        if let Some(error) = self.records.failed.take() {
            return Err(error.context("keeping kernel records"));
        }
        self.manifest.lost.events = counts.events_lost;
        let suspended = suspension(self.suspended_ns, quaver_clock::suspended_ns());
        if let Some(notes) = self.manifest.asked.get_mut("notes").and_then(serde_json::Value::as_array_mut) {
            let sentences = counts.steal_disagreements.iter().cloned().chain(suspended);
            notes.extend(sentences.chain(self.halts.sentence()).map(serde_json::Value::from));
        }
        if let Ok(timebase) = Timebase::from_anchors(self.keeper.anchors()) {
            let worst = self.keeper.anchors().iter().map(|anchor| anchor.half_bracket_ns).max();
            let cross_core_ns = self.clock_state.as_ref().and_then(|state| state.cross_core_ns).unwrap_or(0);
            self.manifest.clock = Some(ClockCalibration {
                anchors: self.keeper.anchors().len() as u64,
                worst_half_bracket_ns: worst.unwrap_or(0),
                error_bound_ns: timebase.worst_bound_ns() + cross_core_ns,
                realtime_minus_monotonic_ns: Some(timebase.realtime_minus_monotonic_ns()),
                realtime_steps: timebase
                    .realtime_steps()
                    .map(|(at_ns, step_ns)| RealtimeStep { at_ns, step_ns })
                    .collect(),
                state: self.clock_state.take(),
            });
        }
        Ok(counts)
    }

    /// Stacks that samples refer to by number, addresses innermost first; there are none before the tracer's end.
    pub fn stacks(&self) -> &BTreeMap<u32, Vec<u64>> {
        &self.records.stacks
    }

    /// Marks the end in the manifest. `interrupted` says why the run did not go its full length; a CPU that went is
    /// why, whatever came of it.
    pub fn finish(mut self, interrupted: Option<String>) -> anyhow::Result<(RunDir, Manifest)> {
        let interrupted = self.cpu_gone.as_ref().map(CpuGone::sentence).or(interrupted);
        self.manifest.cpu_lost = self.cpu_gone.map(|gone| gone.cpu);
        if let Some(facts) = &mut self.manifest.analysis {
            facts.circumstances.holes.extend(self.holes.until(u64::MAX));
        }
        self.manifest.end(quaver_clock::realtime_ns(), interrupted);
        self.run.write_manifest(&self.manifest)?;
        Ok((self.run, self.manifest))
    }
}

fn monotonic_ns() -> u64 {
    quaver_clock::monotonic_ns().unsigned_abs()
}

/// Shorter differences are the reading's.
const LEAST_SUSPENSION_NS: i64 = 1_000_000;

/// A sentence where the machine was suspended between two readings of [`quaver_clock::suspended_ns`].
fn suspension(before_ns: i64, after_ns: i64) -> Option<String> {
    let lasted_ns = after_ns - before_ns;
    (lasted_ns >= LEAST_SUSPENSION_NS).then(|| {
        format!(
            "this machine was suspended for {} during the run: times around that are wrong; keep it awake \
             (systemd-inhibit) and measure again",
            Cell::Duration(lasted_ns)
        )
    })
}

/// CPUs whose counters are compared before a run, and the time for each pair: 35 ms where nobody is in the way.
const MOST_CPUS: usize = 8;
const EACH_PAIR: Duration = Duration::from_millis(5);

/// The clocks as they are now. Compares the counters of the CPUs that this thread may run on.
fn clock_state(support: CounterSupport) -> ClockState {
    let cross_core = compare_allowed_cpus(support.counter, MOST_CPUS, EACH_PAIR).ok();
    let kernel = KernelState::now();
    ClockState {
        counter: support.counter.name().to_owned(),
        clocksource: support.clocksource,
        cross_core_ns: cross_core.as_ref().map(|cross| cross.bound_ns()),
        cross_core_limit_ns: cross_core.as_ref().map(|cross| cross.limit_ns()),
        synchronised: kernel.synchronised,
        frequency_ppb: kernel.frequency_ppb,
        leap: kernel.leap.name().to_owned(),
        tai_offset_s: kernel.tai.offset_s(),
    }
}

/// What nobody sees without tracing.
fn blind_without_tracing() -> Vec<String> {
    vec![format!("{NO_TRACING}: no tracing tier could run")]
}

/// The command line of this process.
pub fn command_line() -> String {
    std::env::args().map(|word| shell_word(&word)).collect::<Vec<_>>().join(" ")
}

fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_host::trace::{Tier, TraceError};
    use serde_json::json;

    #[test]
    fn a_machine_that_was_suspended_is_told_of_with_its_length() {
        let day_ns = 86_400_000_000_000;
        assert_eq!(suspension(day_ns, day_ns + 999_999), None);
        let said = suspension(day_ns, day_ns + 2_500_000_000).unwrap();
        assert!(said.starts_with("this machine was suspended for 2.50 s during the run:"), "{said}");
        let parent = tempfile::tempdir().unwrap();
        for (slept_ns, words) in [(0, None), (7_000_000_000, Some("suspended for 7.00 s"))] {
            let asked = json!({ "notes": [] });
            let mut recording = Recording::begin(parent.path(), "sink", asked, json!({})).unwrap();
            recording.suspended_ns -= slept_ns;
            recording.end_tracing().unwrap();
            let notes = recording.manifest.asked["notes"].as_array().unwrap();
            assert_eq!(notes.len(), usize::from(words.is_some()), "{notes:?}");
            assert!(words.is_none_or(|words| notes[0].as_str().unwrap().contains(words)), "{notes:?}");
        }
    }

    /// A tracer of which so many events found no room; ten more at each question from `from` on.
    struct Leaky {
        asked: std::cell::Cell<u64>,
        from: u64,
    }

    impl Tracer for Leaky {
        fn tier(&self) -> Tier {
            Tier::Bpf
        }
        fn blind(&self) -> Vec<String> {
            Vec::new()
        }
        fn attach_receiver(&mut self, _: std::os::fd::BorrowedFd<'_>) -> Result<(), TraceError> {
            Ok(())
        }
        fn set_recording(&mut self, _: bool) -> Result<(), TraceError> {
            Ok(())
        }
        fn drain(&mut self, _: &mut dyn TraceSink) -> Result<(), TraceError> {
            Ok(())
        }
        fn events_lost(&self) -> u64 {
            self.asked.set(self.asked.get() + 1);
            5 + 10 * self.asked.get().saturating_sub(self.from)
        }
        fn finish(self: Box<Self>, _: &mut dyn TraceSink) -> Result<TraceCounts, TraceError> {
            Ok(TraceCounts::default())
        }
    }

    #[test]
    fn stretches_of_lost_events_are_in_the_manifest_and_what_was_lost_before_is_in_none() {
        let parent = tempfile::tempdir().unwrap();
        let holes = |from| {
            let mut recording = Recording::begin(parent.path(), "sink", json!({}), json!({})).unwrap();
            let tracer: Box<dyn Tracer> = Box::new(Leaky { asked: 0.into(), from });
            recording.trace_with(Choice { tracer: Some(tracer), tier: Tier::Bpf, reason: None }, true);
            let begun_ns = quaver_clock::monotonic_ns();
            let length = Duration::from_millis(120);
            recording.keep_house(length, &Interrupt::default(), || false, |_| {}).unwrap();
            let over_ns = quaver_clock::monotonic_ns();
            recording.end_tracing().unwrap();
            let (_, manifest) = recording.finish(None).unwrap();
            (begun_ns, over_ns, manifest.analysis.unwrap().circumstances.holes)
        };
        assert_eq!(holes(u64::MAX).2, []);
        // From the second look in the run on.
        let (begun_ns, over_ns, found) = holes(2);
        let [(start_ns, end_ns)] = found[..] else { panic!("{found:?}") };
        assert!(begun_ns <= start_ns && start_ns < over_ns && over_ns <= end_ns, "{found:?}");
    }

    #[test]
    fn the_manifest_tells_what_was_known_of_the_clocks() {
        let parent = tempfile::tempdir().unwrap();
        let mut recording = Recording::begin(parent.path(), "sink", json!({}), json!({})).unwrap();
        recording.end_tracing().unwrap();
        let clock = recording.manifest.clock.as_ref().unwrap();
        let state = clock.state.as_ref().unwrap();
        assert_eq!(state.counter, recording.counter.name());
        assert!(clock.error_bound_ns > state.cross_core_ns.unwrap_or(0));
        assert!(state.tai_offset_s != Some(0), "an offset of 0 is one that nobody told");
    }
}
