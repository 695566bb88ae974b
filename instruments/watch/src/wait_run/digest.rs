//! From a recorded wait to what had its CPU.

use super::holder::{add_own_work, infer_all};
use quaver_abi::record::{EventKind, EventRecord};
use quaver_analysis::attribution::{
    NoiseAnalysis, NoiseOptions, Piece, TicklessHost, analyze_noise, bear_out,
};
use quaver_analysis::model::{Actor, GapTable, NoiseLoop, NoiseRun, PacketTable};
use quaver_analysis::summary::{CauseSummary, Unexplained};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::facts::{self, RunFacts};
use quaver_store::load::load_noise_run;
use quaver_store::manifest::Window;
use quaver_store::perfetto::{Drawing, NamedWindow};
use quaver_store::run::RunDir;
use quaver_store::waits::{WaitRow, write_waits};
use quaver_view::Cell;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::Write;

/// Version of [`WaitSummary`].
pub(crate) const WAIT_SCHEMA: &str = "quaver/watch-wait/1";

/// The wait: `asked.wait` of the manifest, and part of `summary.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct WaitFacts {
    /// Name of the watched threads in the settings.
    pub(crate) threads: String,
    /// Thread that waited.
    pub(crate) thread: u32,
    /// Its process.
    pub(crate) process: u32,
    /// Its name.
    pub(crate) comm: String,
    /// It runs under SCHED_FIFO, SCHED_RR or SCHED_DEADLINE.
    pub(crate) realtime: bool,
    /// CPU on which the wait ended.
    pub(crate) cpu: u16,
    /// When it ended, CLOCK_MONOTONIC, nanoseconds.
    #[serde(default)]
    pub(crate) end_ns: i64,
    /// From the instant at which the thread could run until a CPU switched to it, nanoseconds.
    pub(crate) wait_ns: i64,
    /// Limit of the settings, nanoseconds.
    pub(crate) limit_ns: i64,
    /// Waits of these threads in this window that were above the limit, this longest one included.
    pub(crate) long_waits: u64,
    /// The wait was for a lock, not for a CPU: what follows is of the thread that let go of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lock: Option<LockFacts>,
}

/// A lock, by the value of its futex (glibc's and Rust's mutexes) or its operation (priority inheritance).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LockFacts {
    /// Address of its futex in the process, hexadecimal.
    pub(crate) address: String,
    /// Thread that let go of it and so ended the wait.
    pub(crate) holder: u32,
    /// Its process.
    pub(crate) holder_process: u32,
    /// Its name.
    pub(crate) holder_comm: String,
}

impl WaitFacts {
    /// When the thread could run, CLOCK_MONOTONIC, nanoseconds.
    fn start_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.wait_ns)
    }
}

/// `summary.json` of an incident of threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct WaitSummary {
    /// Version of this format.
    pub(crate) schema: String,
    #[serde(flatten)]
    pub(crate) wait: WaitFacts,
    /// What had the CPU meanwhile, ranked by time.
    pub(crate) causes: Vec<CauseSummary>,
    /// The rest of the wait.
    pub(crate) unexplained: Unexplained,
    /// Which tier of tracing ran.
    pub(crate) tier: String,
    /// Classes of causes that could not be observed.
    pub(crate) blind: Vec<String>,
    /// Sentences with a remedy each.
    pub(crate) warnings: Vec<String>,
    /// False where the run was cut short.
    pub(crate) complete: bool,
}

/// A wait with its analysis.
pub(crate) struct WaitDigest {
    pub(super) summary: WaitSummary,
    pub(super) facts: RunFacts,
    run: NoiseRun,
    pieces: Vec<Piece>,
}

impl WaitDigest {
    /// Analyses a stored run.
    pub(crate) fn of(run: &RunDir) -> anyhow::Result<Self> {
        let loaded = load_noise_run(run)?;
        let manifest = loaded.manifest;
        let wait = manifest.asked.get("wait").and_then(|wait| WaitFacts::deserialize(wait).ok());
        let wait = wait.ok_or_else(|| {
            let why = "its manifest names no wait, so it is no incident of threads";
            failure(ExitCode::BadInput, format!("{}: {why}", run.path().display()))
        })?;
        let mut measured = loaded.run;
        let (mut summary, pieces) = analyze(wait, &mut measured, &facts::tickless_host(&manifest));
        let analysis = manifest.analysis.clone().unwrap_or_default();
        if let Some(window) = analysis.window {
            summary.unexplained.note = unheld(&summary, window).unwrap_or(summary.unexplained.note);
        }
        let mut warnings = facts::warnings_of_any(&manifest);
        warnings.extend(facts::notes(&manifest));
        let summary = WaitSummary {
            tier: analysis.tier,
            blind: analysis.blind,
            warnings,
            complete: manifest.complete,
            ..summary
        };
        Ok(Self { summary, facts: facts::run_facts(run, &manifest), run: measured, pieces })
    }

    /// Writes `waits.parquet`: the wait, piece by piece.
    pub(super) fn write_waits(&self, run: &RunDir) -> anyhow::Result<()> {
        let WaitSummary { wait, causes, .. } = &self.summary;
        write_waits(&run.waits(), self.pieces.len(), |row| {
            let piece = &self.pieces[row];
            let cause = piece.cause.map(|cause| &causes[cause as usize]);
            WaitRow {
                thread: wait.thread,
                process: wait.process,
                class: if wait.lock.is_some() { "lock-wait" } else { "cpu-wait" },
                waker: wait.lock.as_ref().map(|lock| lock.holder),
                object: wait.lock.as_ref().map(|lock| lock.address.as_str().into()),
                call_site: None,
                wait_ns: (wait.start_ns(), wait.end_ns),
                piece_ns: (piece.start_ns, piece.end_ns),
                cpu: Some(wait.cpu),
                cause: cause.map(|cause| (cause.source.as_str(), cause.name.as_str())),
                certainty: piece.certainty.name(),
            }
        })?;
        Ok(())
    }

    /// Writes a timeline for ui.perfetto.dev: the events of each CPU, and the wait with its leading cause.
    pub(super) fn draw(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let leading =
            self.summary.causes.first().filter(|cause| cause.time_ns >= self.summary.unexplained.time_ns);
        let name = leading.map_or("unexplained", |cause| cause.name.as_str());
        let (start_ns, end_ns) = (self.summary.wait.start_ns(), self.summary.wait.end_ns);
        let drawing = Drawing {
            events: &self.run.events,
            names: &self.run.names,
            packets: &PacketTable::default(),
            windows: &[NamedWindow { start_ns, end_ns, name, seq: 0 }],
            between_ns: None,
        };
        quaver_store::perfetto::draw(&drawing, out)?;
        Ok(())
    }
}

/// Why time at the beginning of a wait is unexplained that was longer than the window.
fn unheld(summary: &WaitSummary, window: Window) -> Option<String> {
    let before_ns = window.start_ns.saturating_sub(summary.wait.start_ns());
    (before_ns > 0 && summary.unexplained.time_ns > 0).then(|| {
        let before = Cell::Duration(before_ns);
        format!(
            "the first {before} of the wait lie before the records: a longer `window.before`, or more `memory_mib`, holds more"
        )
    })
}

/// Cuts the wait by what had its CPU: the engine's question about a gap of a loop, asked of the thread that waited. Of a wait for a
/// lock it is asked of the thread that let go of it, on the CPU on which that ran last.
///
/// Nobody traced the wake-up of a thread that waited for a CPU. The kernel's count of the wait says when it could run, which is what a
/// record of a wake-up says; a thread that was taken off its CPU has a record of that, and this one then changes nothing.
fn analyze(wait: WaitFacts, run: &mut NoiseRun, host: &TicklessHost) -> (WaitSummary, Vec<Piece>) {
    let start_ns = wait.start_ns();
    let recorded = run.events.len();
    let (thread, cpu, realtime) = match &wait.lock {
        Some(lock) => {
            (lock.holder, last_cpu(&run.events, lock.holder, wait.end_ns).unwrap_or(wait.cpu), false)
        }
        None => (wait.thread, wait.cpu, wait.realtime),
    };
    if wait.lock.is_none() {
        // Since then it could run, whatever it did before.
        run.circumstances.holes.retain(|(_, end_ns)| *end_ns > start_ns);
        run.events.push(EventRecord {
            start_ns: start_ns.max(0) as u64,
            end_ns: start_ns.max(0) as u64,
            id: thread,
            cpu,
            kind: EventKind::Wakeup as u8,
            aux: u64::from(cpu),
            ..EventRecord::default()
        });
    }
    let blocking = wait.lock.is_some();
    let actor = Actor { threads: vec![thread], cpu: None, realtime, blocking, foreign: true };
    run.loops = vec![NoiseLoop { cpu, actor, start_ns, end_ns: wait.end_ns, ..NoiseLoop::default() }];
    run.gaps =
        GapTable { index: vec![0], before_ns: vec![start_ns], after_ns: vec![wait.end_ns], cpu: vec![cpu] };
    let NoiseAnalysis { summary: mut found, mut pieces, .. } = analyze_noise(run, &NoiseOptions::default());
    run.events.truncate(recorded);
    quaver_instrument::causes::speak_of("thread", &mut found.causes, &mut found.unexplained);
    bear_out(&mut found.causes, &run.events, &run.names, &[cpu], host);
    quaver_instrument::causes::name_cpus(&mut found.causes, &cpu.to_string());
    if let Some(lock) = &wait.lock {
        let holder = (lock.holder, lock.holder_comm.as_str());
        add_own_work(holder, &run.events, &mut pieces, &mut found.causes, &mut found.unexplained);
        infer_all(&mut pieces, &mut found.causes);
    }
    let summary = WaitSummary {
        schema: WAIT_SCHEMA.to_owned(),
        wait,
        causes: found.causes,
        unexplained: found.unexplained,
        ..WaitSummary::default()
    };
    (summary, pieces)
}

/// The CPU on which a thread ran last before an instant.
fn last_cpu(events: &[EventRecord], thread: u32, until_ns: i64) -> Option<u16> {
    let is_run = |event: &&EventRecord| {
        event.kind == EventKind::Thread as u8 && event.id == thread && (event.start_ns as i64) < until_ns
    };
    events.iter().filter(is_run).max_by_key(|event| event.start_ns).map(|event| event.cpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::record::OffCpu;

    /// A normal thread waited from 5 to 9 us while a hog ran; the causes' times, and what is unexplained.
    fn waited(holes: &[(i64, i64)]) -> (Vec<(String, i64)>, i64) {
        let run = |id, start_ns, end_ns, off: OffCpu| EventRecord {
            start_ns,
            end_ns,
            id,
            aux: 120,
            kind: EventKind::Thread as u8,
            detail: off as u8,
            ..EventRecord::default()
        };
        let mut measured = NoiseRun {
            events: vec![
                run(7, 1_000, 2_000, OffCpu::Blocked),
                run(8, 2_000, 9_000, OffCpu::Preempted),
                run(7, 9_000, 10_000, OffCpu::Blocked),
            ],
            ..NoiseRun::default()
        };
        measured.circumstances.holes = holes.to_vec();
        let wait = WaitFacts { thread: 7, end_ns: 9_000, wait_ns: 4_000, ..WaitFacts::default() };
        let (summary, _) = analyze(wait, &mut measured, &TicklessHost::default());
        let causes = summary
            .causes
            .iter()
            .map(|cause| (cause.source.clone(), cause.time_ns - cause.entry_exit_ns))
            .collect();
        (causes, summary.unexplained.time_ns)
    }

    #[test]
    fn records_that_were_lost_before_a_wait_are_nothing_to_it_and_those_lost_in_it_make_the_rest_unknown() {
        let hog = |ns| vec![("cfs-preempt".to_owned(), ns)];
        assert_eq!(waited(&[]), (hog(4_000), 0));
        assert_eq!(waited(&[(2_500, 4_000)]), (hog(4_000), 0));
        // 500 ns of it may be the way out of what was recorded last.
        assert_eq!(waited(&[(6_000, 6_500)]), (hog(1_000), 2_500));
    }
}
