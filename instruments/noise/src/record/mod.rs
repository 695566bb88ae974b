//! `quaver noise`: what keeps a busy loop from running, without any network.

mod plan;

use crate::args::NoiseArgs;
use crate::digest as noise;
use crate::digest::NoiseDigest;
use anyhow::Context;
use quaver_abi::record::AnchorRecord;
use quaver_analysis::model::{Actor, Circumstances, NoiseLoop};
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::host_state::HostState;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::recording::Recording;
use quaver_instrument::{results, rights, tier};
use quaver_probe::noise::{NoiseError, NoiseOptions, NoisePlan, NoiseResult, NoiseRun};
use quaver_store::manifest::{Manifest, NoiseFacts};
use quaver_store::run::RunDir;
use quaver_store::segments::read_if_any;
use quaver_store::timeline::Timeline;
use quaver_view::Cell;
use std::time::Duration;

/// Time for the probes to settle before the loops start: attaching interrupts every CPU.
const SETTLE: Duration = Duration::from_millis(30);
/// How long loops may outlast their time (they end on their own, but a stop may hold them up) before they are asked.
const GRACE: Duration = Duration::from_secs(2);

/// Measures, analyses, prints.
pub fn run(args: &NoiseArgs) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let (run, manifest) = measure(args, &interrupt, || Ok(()))?;
    let early = results::ended_early(&manifest, interrupt.requested());
    rights::keep_to_conclude(&[], run.path());
    let digest = conclude(&run, manifest, args.output.quiet)?;
    let summary = serde_json::to_value(&digest.analysis.summary)?;
    let found = results::Found::of_run(&summary, &run).ended(early);
    results::print(
        &found,
        || results::with_report(digest.document(), &run),
        args.output.json,
        &args.output.fail_if,
    )
}

/// Measures and analyses, and draws nothing. What else is to watch begins by `watch`, when we trace and before a loop runs.
pub fn digest(
    args: &NoiseArgs,
    interrupt: &Interrupt,
    watch: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<NoiseDigest> {
    let (run, mut manifest) = measure(args, interrupt, watch)?;
    noise::convert(&run, &mut manifest)?;
    noise::analyze(&run)
}

/// Converts, analyses and stores a run that was just recorded.
fn conclude(run: &RunDir, mut manifest: Manifest, quiet: bool) -> anyhow::Result<NoiseDigest> {
    let progress = Progress::timed(Duration::from_secs(1), quiet);
    progress.say("sorting gaps and events");
    noise::convert(run, &mut manifest)?;
    progress.say("naming causes");
    let digest = noise::analyze(run)?;
    progress.say("drawing the report");
    digest.store(run)?;
    Ok(digest)
}

/// Measures; the run directory is left with raw segments and a manifest.
fn measure(
    args: &NoiseArgs,
    interrupt: &Interrupt,
    watch: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<(RunDir, Manifest)> {
    let cpus = plan::Cpus::choose(args)?;
    let loop_plan = plan::loop_plan(args)?;
    let host = HostFacts::read(&HostRoot::system());
    let mut notes = plan::realtime_notes(args, &cpus, &host)?;
    let words = plan::words(args, &loop_plan);
    let mut recording = Recording::begin(
        &args.output.output,
        "noise",
        plan::asked(args, &words, &notes),
        serde_json::to_value(&host)?,
    )?;
    let loops = prepare(args, &cpus, loop_plan, &recording)?;
    for thread in loops.threads() {
        let cpu = thread.cpu.unwrap_or_default();
        notes.extend(thread.refused.iter().map(|refused| format!("loop on CPU {cpu}: {refused}")));
    }
    recording.manifest.asked = plan::asked(args, &words, &notes);
    let threads = loops.threads().iter().map(|thread| thread.tid).collect();
    let (spec, holds_all) = plan::trace_spec(args, &cpus, threads);
    let choice = tier::start(args.tier, &spec)?;
    watch()?;
    // With no CPU to spare, a run that fits the memory is read when all is over.
    recording.trace_with(choice, cpus.housekeeping || !holds_all);
    let before = HostState::read(loops.threads().first().map(|thread| thread.tid));
    describe(&mut recording, args, &loops);
    note_circumstances(&mut recording, before.circumstances(&before, &host, cpus.looped.clone()));
    cpus.looped.iter().for_each(|cpu| recording.rely_on(*cpu, "loop"));
    recording.save_manifest()?;

    let progress = Progress::timed(args.duration, args.output.quiet);
    progress.say("settling");
    recording.keep_house(SETTLE, interrupt, || false, |_| {})?;
    loops.go();
    let show = |elapsed| progress.show(elapsed, say(&loops));
    recording.keep_house(args.duration + GRACE, interrupt, || loops.is_finished(), show)?;
    drop(progress);
    let after = HostState::read(loops.threads().first().map(|thread| thread.tid));
    loops.stop();
    let results = loops.wait()?;
    let counts = recording.end_tracing()?;
    note_circumstances(&mut recording, before.circumstances(&after, &host, cpus.looped.clone()));
    recording.manifest.analysis.get_or_insert_default().counts.events_lost = counts.events_lost;
    note_results(&mut recording, &results)?;
    let ended_early = results.iter().any(|result| result.statistics.stopped);
    let cut_short = match (interrupt.requested(), ended_early) {
        (true, _) => Some("interrupted by the user".to_owned()),
        (false, true) => Some("the loops were held up for so long that they were ended".to_owned()),
        (false, false) => None,
    };
    recording.finish(cut_short)
}

/// Threads that wait for the start, each with its segment where a run has it.
fn prepare(
    args: &NoiseArgs,
    cpus: &plan::Cpus,
    plan: NoisePlan,
    recording: &Recording,
) -> anyhow::Result<NoiseRun> {
    let options = NoiseOptions {
        plan,
        threads: plan::threads(args, cpus),
        counter: recording.counter,
        directory: recording.run.path().to_owned(),
    };
    let loops = NoiseRun::prepare(&options).map_err(|error| match error {
        NoiseError::Thread(refused) => failure(ExitCode::Unsupported, refused.to_string()),
        other => other.into(),
    })?;
    for thread in loops.threads() {
        // A required CPU was given, or preparing had failed.
        let segment = recording.run.gaps_segment(thread.cpu.unwrap_or_default());
        std::fs::rename(&thread.segment, &segment)
            .with_context(|| format!("naming {}", segment.display()))?;
    }
    Ok(loops)
}

/// What is known of the loops before they run, so that a killed run can be analysed.
fn describe(recording: &mut Recording, args: &NoiseArgs, loops: &NoiseRun) {
    let now_ns = quaver_clock::monotonic_ns();
    let described = |thread: &quaver_probe::noise::NoiseThread| NoiseLoop {
        cpu: thread.cpu.unwrap_or_default(),
        actor: Actor {
            threads: vec![thread.tid],
            cpu: thread.cpu,
            realtime: args.fifo.is_some(),
            blocking: false,
            foreign: false,
        },
        start_ns: now_ns,
        ..NoiseLoop::default()
    };
    let loops = loops.threads().iter().map(described).collect();
    recording.manifest.noise = Some(NoiseFacts {
        period_ns: args.dummy.then(|| args.period.ns()),
        threshold_ns: args.threshold.as_nanos() as i64,
        loops,
        gaps_lost: 0,
    });
}

/// What is known of the host and bears on the naming of causes.
fn note_circumstances(recording: &mut Recording, circumstances: Circumstances) {
    let facts = recording.manifest.analysis.get_or_insert_default();
    facts.circumstances = Circumstances { blind: facts.blind.clone(), ..circumstances };
}

/// What the loops counted, on the run's time line.
fn note_results(recording: &mut Recording, results: &[NoiseResult]) -> anyhow::Result<()> {
    let anchors: Vec<AnchorRecord> = read_if_any(&recording.run.anchors_segment())?;
    let mut timeline = Timeline::new(&anchors).context("the clock gave no two anchors that differ")?;
    let Some(noise) = recording.manifest.noise.as_mut() else { return Ok(()) };
    for (one, result) in noise.loops.iter_mut().zip(results) {
        let counted = &result.statistics;
        one.turns = counted.turns;
        noise.gaps_lost += result.segment.lost;
        if counted.turns == 0 {
            one.end_ns = one.start_ns;
            continue;
        }
        one.start_ns = timeline.monotonic_ns(counted.first_cycles);
        one.end_ns = timeline.monotonic_ns(counted.last_cycles);
        let shortest_end = counted.first_cycles.saturating_add(counted.shortest_cycles);
        one.shortest_ns = Some(timeline.monotonic_ns(shortest_end) - one.start_ns);
    }
    recording.manifest.lost.samples = noise.gaps_lost;
    Ok(())
}

/// The progress line.
fn say(loops: &NoiseRun) -> String {
    let threads = loops.threads();
    let gaps: u64 = threads.iter().map(|thread| thread.written.written()).sum();
    let turns: u64 = threads.iter().map(|thread| thread.turns.turns()).sum();
    format!("{}, {} recorded", Cell::several(turns, "turn"), Cell::Count(gaps))
}
