//! From the recordings of a threaded program to what they say.

mod advice;
mod callers;
mod compensation;
mod contention;
pub mod facts;
mod images;
mod locks;
mod names;
mod origins;
mod shared;
mod shares;
mod spins;
mod summary;
mod turns;
mod unended;
mod waits;
mod warnings;
mod words;

pub use advice::Advice;
pub use compensation::{CompensationFacts, PolicyFacts};
pub use contention::{BarrierSummary, ConditionSummary, ContentionSummary, ThreadSummary};
pub use facts::{KernelFacts, SyncFacts, UprobeFacts, set_facts};
pub use locks::LockSummary;
use names::FutexWords;
pub use names::SyncNames;
use origins::Beginnings;
pub use origins::{FirstDeed, Origin};
use shared::SharedMemory;
pub use shares::Share;
use spins::Spins;
pub use summary::{Named, ProcessSummary, SCHEMA, SyncSummary};
pub use unended::UnendedSummary;
pub use words::{UseFrom, WordSummary};

use anyhow::Context;
use callers::{Callers, Chains};
use images::{Image, KernelStream, MergedEvent};
use quaver_abi::kernel_side::{KernelSideKind, KernelSideRecord};
use quaver_instrument::facts::RunFacts;
use quaver_instrument::progress::Progress;
use quaver_store::manifest::Manifest;
use quaver_store::perfetto::threads::{ThreadSpan, WakeUp, draw_threads};
use quaver_store::run::RunDir;
use quaver_sync_analysis::futex::{FunctionCalls, FutexCounter, FutexFigures, Reconciler};
use quaver_sync_analysis::lanes::{LaneKeeper, Lanes, Span};
use quaver_sync_analysis::replay::{Gains, Recorder};
use quaver_sync_analysis::subframes::{Cutter, Step};
use quaver_sync_analysis::sync::{
    AnyEvent, Contention, Ledger, Protocol, Settings, SyncResults, ThreadId, Wait,
};
use quaver_sync_store::{SyncCounts, SyncEnding, pack, trim};
use quaver_view::Cell;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use waits::{LateWaits, Watcher};

/// Where the recorder writes in a run directory.
pub fn directory(run: &RunDir) -> PathBuf {
    run.path().join("sync")
}

/// Where the kernel's records are.
pub fn kernel_segment(run: &RunDir) -> PathBuf {
    directory(run).join("kernel.seg")
}

/// Where the clock's anchors are that were taken beside the program, below that directory.
pub fn anchors_segment(directory: &Path) -> PathBuf {
    directory.join("anchors.seg")
}

/// Where is what `--compensate` decided.
pub fn compensation_segment(run: &RunDir) -> PathBuf {
    directory(run).join("compensation.seg")
}

/// Keeps what lies where in a process that was not recorded.
pub fn keep_maps(run: &RunDir, pid: u32) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps"))
        .with_context(|| format!("reading the memory map of process {pid}"))?;
    let path = attached_maps(&directory(run));
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

fn attached_maps(directory: &Path) -> PathBuf {
    directory.join("attached.maps")
}

/// A run with its results.
pub struct SyncDigest {
    /// What it says.
    pub summary: SyncSummary,
    /// Words for the head of a page.
    pub facts: RunFacts,
    /// Threads over time.
    pub lanes: Lanes,
    /// Names of addresses.
    pub names: SyncNames,
    late_waits: LateWaits,
}

/// What was measured and what it comes to, before anything has a name.
struct Measured {
    images: Vec<Image>,
    unreadable: Vec<String>,
    results: SyncResults,
    late_waits: LateWaits,
    contention: Contention,
    gains: Gains,
    lanes: Lanes,
    futex: Option<FutexFigures>,
    from_kernel: bool,
    /// Calls that waited and returned.
    waits: u64,
    words: FutexWords,
    beginnings: Beginnings,
    spins: Vec<BTreeSet<u64>>,
    chains: Vec<Chains>,
}

/// Packs the recordings of a run that ended just now, gives addresses their names and analyses.
pub fn conclude(run: &RunDir, manifest: Manifest, quiet: bool) -> anyhow::Result<SyncDigest> {
    let progress = Progress::timed(Duration::from_secs(1), quiet);
    progress.say("packing records");
    let directory = directory(run);
    pack_all(&directory);
    progress.say("matching waits with who ended them");
    let facts = facts::facts_of(run, &manifest)?;
    let measured = measure(&directory, &facts, Some(&kernel_segment(run)))?;
    let maps = |at: usize| match measured.images.get(at) {
        Some(image) => Some(names::maps_of(image)),
        None => Some(attached_maps(&directory)),
    };
    let shared = SharedMemory::of(measured.images.iter().map(names::map_of));
    let sources = names::Sources {
        images: &measured.images,
        results: &measured.results,
        contention: &measured.contention,
        spans: &measured.lanes.spans,
        words: &measured.words,
        beginnings: &measured.beginnings,
        chains: &measured.chains,
        own_threads: &facts.own_threads,
    };
    let mut names = names::look_up(&sources, &shared, maps);
    names.0.iter_mut().zip(&measured.spins).for_each(|(image, spins)| image.spins.clone_from(spins));
    names.0.iter_mut().zip(&measured.chains).for_each(|(image, chains)| image.chains.clone_from(chains));
    names.write(&directory)?;
    run.write_manifest(&manifest)?;
    digest(run, manifest, facts, measured)
}

/// Analyses a stored run again.
pub fn analyze(run: &RunDir) -> anyhow::Result<SyncDigest> {
    let manifest = run.read_manifest()?;
    let facts = facts::facts_of(run, &manifest)?;
    let measured = measure(&directory(run), &facts, Some(&kernel_segment(run)))?;
    digest(run, manifest, facts, measured)
}

/// The results of all recordings of a directory, without the kernel's side.
///
/// # Errors
/// The directory cannot be listed, or a recording not read to its end.
pub fn results_of(directory: &Path, settings: &Settings) -> anyhow::Result<SyncResults> {
    let (images, _) = images::open_all(directory)?;
    let mut protocol = Protocol::new(*settings);
    images::feed(&images, &mut Callers::none(images.len()), None, |told| {
        if let MergedEvent::Event(event) = told {
            protocol.any(event);
        }
    })?;
    images.iter().for_each(|image| protocol.lost(image.facts().records_lost));
    Ok(protocol.finish())
}

/// Packs each recording whose process is gone. One that cannot be packed stays as it is and is read so.
fn pack_all(directory: &Path) {
    let Ok(recordings) = images::recordings(directory) else { return };
    for path in recordings.iter().filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
    {
        let Ok(segment) = images::open_raw(path) else { continue };
        if Path::new(&format!("/proc/{}/task", segment.facts().pid)).is_dir() {
            // A process that outlives the program still writes there.
            continue;
        }
        let packed = path.with_extension("parquet");
        if pack(&segment, &packed).is_ok() {
            let _ = std::fs::remove_file(path);
        } else {
            let _ = std::fs::remove_file(&packed);
            let _ = trim(path);
        }
    }
}

/// What the protocol is told of a run.
pub fn settings(facts: &SyncFacts) -> Settings {
    Settings {
        threshold_ns: facts.threshold_ns,
        system_call_threshold_ns: facts.system_call_threshold_ns,
        count_all: facts.count_all,
        cpus: facts.cpus,
        ..Settings::default()
    }
}

/// Feeds all that was recorded to the protocol.
fn measure(directory: &Path, facts: &SyncFacts, kernel: Option<&Path>) -> anyhow::Result<Measured> {
    let (images, mut unreadable) = images::open_all(directory)?;
    let (from_ns, to_ns) = span(facts, &images);
    let mut lanes = LaneKeeper::new(from_ns, to_ns);
    let mut protocol = Protocol::with_observer(settings(facts), Watcher::default());
    let kernel = kernel.filter(|path| path.is_file());
    let (mut waits, mut words, mut beginnings) = (0, FutexWords::default(), Beginnings::default());
    let (mut ledger, mut replay) = (Ledger::default(), Recorder::of(images::lives(&images)));
    let stored = SyncNames::stored(directory)?;
    let mut spins = Spins::of(&images, stored.as_ref());
    let mut callers = names::callers(&images, stored.as_ref());
    let told = tell(&images, &mut callers, kernel, &mut |event| {
        let mut event = *event;
        spins.complete(&mut event);
        let event = &event;
        if let AnyEvent::Sync(event) = event {
            lanes.event(event);
            words.event(event);
            beginnings.event(event);
            waits += u64::from(event.kind.ends_wait());
        }
        ledger.any(event);
        protocol.any(event);
        if let Some((thread, at_ns, blocked_ns)) = waits::for_child(event) {
            replay.waited_for_child(thread, at_ns, blocked_ns, ledger.so_far(thread));
        }
        if let AnyEvent::Sync(event) = event {
            let wakeup = protocol.observer_mut().latest.take();
            if let Some(wakeup) = &wakeup {
                ledger.ended_by(wakeup.thread, wakeup.by);
            }
            replay.event(event, wakeup, ledger.so_far(event.thread));
        }
    })?;
    unreadable.extend(warnings::renumbered(facts, &images, &told.made));
    images.iter().for_each(|image| protocol.lost(image.facts().records_lost));
    let mut trace = replay.finish(ledger.kernel_seen());
    let said_exit = |image: &Image| image.facts().ended != SyncEnding::Unsaid;
    let exited = (0_u16..).zip(&images).filter(|(_, image)| said_exit(image));
    exited.for_each(|(process, _)| ledger.exited(process));
    let contention = ledger.finish(contention::LISTED, &ends(facts, &images));
    let mut gains = trace.gains(&contention::worth_changing(&contention));
    let stuck = match contention.locks.iter().any(|lock| lock.deadlock.is_some()) {
        true => Some("a deadlock kept the run from its end"),
        false if !contention.standstills.is_empty() => Some("a process stood still at its end"),
        false => None,
    };
    if let Some(reason) = stuck {
        let reason = Some(reason.to_owned());
        gains = Gains { cpus_doubled: None, no_delay: None, reason, locks: Vec::new(), ..gains };
    }
    let (results, watcher) = protocol.finish_with_observer();
    Ok(Measured {
        images,
        unreadable,
        results,
        late_waits: watcher.late,
        contention,
        gains,
        lanes: lanes.finish(),
        futex: told.futex,
        from_kernel: told.from_kernel,
        waits,
        words,
        beginnings,
        spins: spins.found(),
        chains: callers.into_iter().map(Callers::found).collect(),
    })
}

/// What was seen beside the events.
struct Beside {
    futex: Option<FutexFigures>,
    /// The events are the program's futex calls, for nobody saw its own.
    from_kernel: bool,
    /// Threads that the kernel saw being made.
    made: BTreeSet<u32>,
}

/// Feeds all that was recorded to `take`, in time order. Futex calls outside of recorded calls are events like any other.
fn tell(
    images: &[Image],
    callers: &mut [Callers],
    kernel: Option<&Path>,
    take: &mut dyn FnMut(&AnyEvent),
) -> anyhow::Result<Beside> {
    let shared = SharedMemory::of(images.iter().map(names::map_of));
    let take = &mut |event: &AnyEvent| {
        let mut event = *event;
        if let AnyEvent::Sync(event) = &mut event {
            shared.translate(event);
        }
        take(&event);
    };
    let mut heard =
        images.iter().any(|image| image.threads().len() > 1 || uncontended(image) != SyncCounts::default());
    let Some(path) = kernel else {
        images::feed(images, callers, None, |told| {
            if let MergedEvent::Event(event) = told {
                take(event);
            }
        })?;
        return Ok(Beside { futex: None, from_kernel: false, made: BTreeSet::new() });
    };
    let mut made = BTreeSet::new();
    let mut futex = FutexCounter::default();
    let mut functions = FunctionCalls::default();
    let mut each = |record: &KernelSideRecord| {
        if record.kind == KernelSideKind::Fork as u8 {
            return Some(MergedEvent::Made { thread: ThreadId(record.other), process: record.value as u32 });
        }
        if let Some(event) = functions.take(record) {
            return Some(MergedEvent::Event(AnyEvent::Sync(event)));
        }
        futex.take(record).filter(|event| !functions.is_inside(event.thread)).map(MergedEvent::Futex)
    };
    let threads = images.iter().flat_map(Image::threads);
    let mut both = Reconciler::new(images.len() as u16, threads.map(|thread| ThreadId(thread.tid)).collect());
    images::feed(images, callers, Some(KernelStream { path, each: &mut each }), |told| match told {
        MergedEvent::Event(event) => {
            let waits = matches!(event, AnyEvent::Sync(event) if event.kind.begins_wait());
            heard |= waits && !images.is_empty();
            both.event(event, take);
        }
        MergedEvent::Futex(event) => both.futex(event, take),
        MergedEvent::Made { thread, process } => {
            made.insert(thread.0);
            both.made(*thread, *process);
        }
    })?;
    let both = both.finish(take);
    Ok(Beside {
        futex: Some(FutexFigures { reconciled: heard.then_some(both), ..futex.finish() }),
        from_kernel: !heard,
        made,
    })
}

/// What was cut into subframes.
pub struct Cut {
    /// The run's facts.
    pub facts: SyncFacts,
    /// Words for the head of a page.
    pub run: RunFacts,
    /// It came to its end.
    pub complete: bool,
    /// Results of the protocol.
    pub results: SyncResults,
    /// Sentences about recordings that cannot be read.
    pub unreadable: Vec<String>,
    /// The events are the program's futex calls, for nobody saw its own.
    pub from_kernel: bool,
}

/// Cuts the threads of a stored run into subframes.
pub fn cut(run: &RunDir, subframe_ns: u64, sink: &mut dyn FnMut(Step)) -> anyhow::Result<Cut> {
    let manifest = run.read_manifest()?;
    let facts = facts::facts_of(run, &manifest)?;
    let (images, unreadable) = images::open_all(&directory(run))?;
    let (_, to_ns) = span(&facts, &images);
    let mut cutter = Cutter::new(settings(&facts), subframe_ns);
    let kernel = Some(kernel_segment(run)).filter(|path| path.is_file());
    let told = tell(&images, &mut Callers::none(images.len()), kernel.as_deref(), &mut |event| {
        cutter.event(event, sink)
    })?;
    images.iter().for_each(|image| cutter.lost(image.facts().records_lost));
    let results = cutter.finish(to_ns, sink);
    let mut words = quaver_instrument::facts::run_facts(run, &manifest);
    words.stream = facts.program.join(" ");
    let (complete, from_kernel) = (manifest.complete, told.from_kernel);
    Ok(Cut { facts, run: words, complete, results, unreadable, from_kernel })
}

/// Until when each image lasted at least; 0 where something of it is missing. A program that was killed says nothing of its end.
fn ends(facts: &SyncFacts, images: &[Image]) -> Vec<u64> {
    let of_program = |image: &Image| image.facts().pid == facts.pid;
    let last = images.iter().filter(|image| of_program(image)).map(|image| image.facts().exec_number).max();
    let end_ns = |image: &Image| {
        let is_last = of_program(image) && Some(image.facts().exec_number) == last;
        let seen_ns = if is_last { facts.ended_ns } else { 0 };
        if image.facts().records_lost == 0 { image.facts().last_ns.max(seen_ns) } else { 0 }
    };
    images.iter().map(end_ns).collect()
}

/// From the start of the program to its end, as far as they are known.
fn span(facts: &SyncFacts, images: &[Image]) -> (u64, u64) {
    let first = images.iter().map(|image| image.facts().first_ns).min();
    let last = images.iter().map(|image| image.facts().last_ns).max();
    let from_ns = if facts.started_ns > 0 { facts.started_ns } else { first.unwrap_or(0) };
    let to_ns = if facts.ended_ns > 0 { facts.ended_ns } else { last.unwrap_or(from_ns) };
    (from_ns, to_ns)
}

fn uncontended(image: &Image) -> SyncCounts {
    let mut all = SyncCounts::default();
    image.threads().iter().for_each(|thread| all += thread.counts);
    all
}

fn digest(
    run: &RunDir,
    manifest: Manifest,
    facts: SyncFacts,
    measured: Measured,
) -> anyhow::Result<SyncDigest> {
    let names = SyncNames::read(&directory(run))?;
    let mut results = measured.results;
    let processes: Vec<ProcessSummary> = measured
        .images
        .iter()
        .map(|image| ProcessSummary {
            pid: image.facts().pid,
            exec_number: image.facts().exec_number,
            exe: image.facts().exe.clone(),
            ended: image.facts().ended,
            threads: image.threads().len(),
            lost: image.facts().records_lost,
            threads_lost: image.facts().threads_lost,
            uncontended: uncontended(image),
        })
        .collect();
    let (objects, call_sites) = summary::name_offenders(&mut results, &names);
    let contention = contention::name(measured.contention, measured.gains, &names);
    let mut summary = SyncSummary {
        schema: SCHEMA,
        complete: manifest.complete,
        facts,
        events_from: if measured.from_kernel { "kernel" } else { "recorder" },
        processes,
        objects,
        call_sites,
        contention,
        futex: measured.futex,
        results,
        advice: Vec::new(),
        warnings: measured.unreadable,
    };
    summary.advice = advice::of(&summary.contention, &summary.results.causes, &names);
    let warned = warnings::of(&summary, &manifest, &directory(run));
    summary.warnings.extend(warned);
    let runtimes = names::runtimes(&measured.images);
    summary.warnings.extend(measured.late_waits.warning());
    summary.warnings.extend(warnings::unseen(&summary, measured.waits, &runtimes));
    let mut facts = quaver_instrument::facts::run_facts(run, &manifest);
    facts.stream = summary.facts.program.join(" ");
    Ok(SyncDigest { summary, facts, lanes: measured.lanes, names, late_waits: measured.late_waits })
}

impl SyncDigest {
    /// Writes a timeline for ui.perfetto.dev: a track a thread with its waits, and arrows to the longest from who ended them.
    pub fn write_perfetto(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let span = |span: &Span| ThreadSpan {
            thread: span.thread.0,
            start_ns: span.start_ns,
            end_ns: span.end_ns,
            name: format!("{} {}", span.what.name(), self.names.object(span.process, span.object)),
        };
        let wake_up = |wait: &Wait| WakeUp {
            waker: wait.waker.0,
            released_ns: wait.released_ns,
            thread: wait.thread.0,
            ended_ns: wait.ended_ns,
            name: format!("{} of {}", wait.class.short(), self.names.object(wait.process, wait.object)),
        };
        let spans: Vec<ThreadSpan> = self.lanes.spans.iter().map(span).collect();
        let wake_ups: Vec<WakeUp> = self.summary.results.longest.iter().map(wake_up).collect();
        if self.lanes.shortest_ns > 0 {
            let shortest = Cell::Duration(self.lanes.shortest_ns.cast_signed());
            quaver_instrument::tell!("the run is large: drawn are waits of {shortest} and more");
        }
        draw_threads(&spans, &wake_ups, out)?;
        Ok(())
    }
}
