//! Blocks of one receiver, cut out of one recording that goes on: its stream is learned once, and the programs are loaded once.
//!
//! A block has the packets that were read in its window, and their stamps alone: which packets are late follows from these.
//! Causes need a run of their own.

use super::backlog::{QueueState, QueueWatch, any_in};
use super::{Observed, Sender, actor, describe, look_at, plan, queue_counts};
use crate::args::ChaseArgs;
use crate::digest::{self, ChaseDigest};
use anyhow::Context;
use quaver_abi::record::{EventRecord, StampRecord};
use quaver_analysis::model::NO_CPU;
use quaver_clock::{AnchorKeeper, CounterSupport};
use quaver_host::root::HostRoot;
use quaver_host::trace::{QueueCounts, Tier, TraceSink, Tracer};
use quaver_instrument::args::TierName;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::recording::Recording;
use quaver_instrument::tier::{self, Choice};
use quaver_store::manifest::Window;
use quaver_store::segments::read_all;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// The recorder's memory is emptied far more often than this.
const HELD: Duration = Duration::from_secs(1);

/// A receiver with a recorder that runs.
pub struct Blocks {
    observed: Observed,
    tracer: Box<dyn Tracer>,
}

/// Takes what belongs to no block.
struct Nobody;

impl TraceSink for Nobody {
    fn stamp(&mut self, _: StampRecord) {}
    fn event(&mut self, _: EventRecord) {}
}

impl Blocks {
    /// Learns what process `pid` receives and begins to record it. The calling thread leaves the receiver's CPUs.
    ///
    /// # Errors
    /// Those of a chase of that process.
    pub fn open(pid: u32, interrupt: &Interrupt) -> anyhow::Result<Self> {
        let root = HostRoot::system();
        let quiet = Progress::timed(Duration::ZERO, true);
        let observed = look_at(pid, None, &root, &quiet, interrupt, &mut Vec::new())?;
        observed.traced_cpus(&root)?;
        let mut spec = observed.trace_spec(&[NO_CPU], HELD);
        spec.threads.clear();
        let tracer = tier::start(Some(TierName::Bpf), &spec)?.tracer.context(super::NEEDS_BPF)?;
        Ok(Self { observed, tracer })
    }

    /// Lets `wash_out` pass and measures for `args.duration`. The run directory is left with raw segments.
    ///
    /// # Errors
    /// A file of the run cannot be written or read.
    pub fn measure(
        self,
        args: &ChaseArgs,
        wash_out: Duration,
        interrupt: &Interrupt,
    ) -> anyhow::Result<(Self, ChaseDigest)> {
        let Self { observed, mut tracer } = self;
        let root = HostRoot::system();
        let counter = CounterSupport::detect(Path::new("/")).counter;
        let asked = plan::asked(args, &observed.stream_words(), &[]);
        let keeper = AnchorKeeper::start(counter);
        let parent = &args.output.output;
        let mut recording = Recording::begin_with(parent, "chase", asked, Value::Null, counter, keeper)?;
        tracer.drain(&mut Nobody).context("reading the tracer's memory")?;
        let lost_before = tracer.snapshot(&mut Nobody)?.stamps_lost;
        recording.trace_with(Choice { tracer: Some(tracer), tier: Tier::Bpf, reason: None }, true);
        describe(&mut recording.manifest, &observed);
        let ended = || !observed.process.lives(&root);
        recording.keep_house(wash_out, interrupt, ended, |_| {})?;
        let queue = |counts| QueueState::read(&observed.process, observed.learned.port, &root, counts);
        let mut watch = QueueWatch::default();
        let start_ns = quaver_clock::monotonic_ns();
        recording.keep_house(args.duration, interrupt, ended, |_| {
            watch.tick(quaver_clock::monotonic_ns(), || queue(QueueCounts::default()).bytes);
        })?;
        let window = Window { start_ns, end_ns: quaver_clock::monotonic_ns() };
        let queue_after = queue(queue_counts(&mut recording));
        let mut tracer = recording.take_tracer().context("the recorder of a block went")?;
        tracer.drain(recording.records()).context("reading the tracer's memory")?;
        tracer.in_flight(recording.records());
        let lost = tracer.snapshot(&mut Nobody)?.stamps_lost - lost_before;
        recording.end_tracing()?;
        let stamps: Vec<StampRecord> = read_all(&recording.run.stamps_segment())?;
        let threads = observed.with_threads_of_now(&root).threads;
        let facts = recording.manifest.analysis.get_or_insert_default();
        facts.receiver = actor(threads.iter(), true);
        facts.source = observed.learned.sender.as_ref().map(Sender::actor);
        facts.counts.stamps_lost = lost;
        facts.window = Some(window);
        facts.unread = watch.unread(&stamps, &queue_after, window);
        let silent = (!any_in(&stamps, window) && facts.unread.is_none())
            .then(|| "no packet of the stream came during the measurement".to_owned());
        let gone = ended().then(|| format!("{} exited during the measurement", observed.name));
        let (run, _) = recording.finish(gone.or(silent))?;
        Ok((Self { observed, tracer }, digest::analyze(&run, None)?))
    }
}
