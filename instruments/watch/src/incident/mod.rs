//! Incidents: a frozen window becomes a run like any other, is analysed, and is kept, counted in an earlier one, or let go.

mod hook;
mod ledger;

use crate::board::{Board, Incident};
use crate::config::{HookSettings, Limits, make_directory};
use crate::judge::{Reason, Trigger};
use crate::receiver::Frozen;
use anyhow::Context;
pub(crate) use hook::Hook;
use ledger::{Alike, Ledger, Note};
use quaver_analysis::summary::ChaseSummary;
use quaver_chase::chase::{conclude, observe};
use quaver_clock::{AnchorKeeper, CounterSupport, monotonic_ns, realtime_ns};
use quaver_host::trace::TraceSink;
use quaver_instrument::recording::Recording;
use quaver_store::run::RunDir;
use quaver_store::utc::rfc3339_utc;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Leading cause of an incident of which most is unexplained, and of one without late packets.
const UNEXPLAINED: &str = "unexplained";
const NOT_LATE: &str = "none";

/// Where incidents are written and kept.
pub(crate) struct Keeper {
    staging: PathBuf,
    kept: PathBuf,
    limits: Limits,
    board: Arc<Board>,
    hook: Hook,
}

impl Keeper {
    /// Keeps incidents below `directory`, and has `hook` told of each. What a killed watch had half written is removed.
    ///
    /// # Errors
    /// The directories cannot be made.
    pub(crate) fn open(
        directory: &Path,
        limits: Limits,
        board: Arc<Board>,
        hook: Hook,
    ) -> anyhow::Result<Self> {
        let (staging, kept) = (directory.join("staging"), directory.join("incidents"));
        let keeper = Self { staging, kept, limits, board, hook };
        if keeper.staging.exists() {
            std::fs::remove_dir_all(&keeper.staging).context("removing a half-written incident")?;
        }
        make_directory(&keeper.staging)?;
        make_directory(&keeper.kept)?;
        let bytes = Ledger::read(&keeper.kept).bytes();
        keeper.board.set_cost(|cost| cost.disk_bytes = bytes);
        Ok(keeper)
    }

    /// Takes other limits, and another program to tell.
    pub(crate) fn set(&mut self, limits: Limits, hook: Option<HookSettings>) {
        self.limits = limits;
        self.hook.set(hook);
    }

    /// Waits until the hook's program has ended, at most for its time limit.
    pub(crate) fn finish(&mut self) {
        self.hook.finish();
    }

    /// Writes, judges and keeps an incident. Whatever fails is said, and watching goes on.
    pub(crate) fn keep(&mut self, frozen: Frozen) {
        let receiver = frozen.receiver.clone();
        if let Err(error) = self.try_keep(frozen) {
            quaver_instrument::tell!("quaver watch: {receiver}: the incident could not be kept: {error:#}");
            self.board.receiver(&receiver, |state| state.failed += 1);
            let cleared =
                std::fs::remove_dir_all(&self.staging).and_then(|()| std::fs::create_dir(&self.staging));
            if let Err(error) = cleared {
                quaver_instrument::tell!("quaver watch: clearing {}: {error}", self.staging.display());
            }
        }
    }

    fn try_keep(&mut self, frozen: Frozen) -> anyhow::Result<()> {
        let (receiver, triggers) = (frozen.receiver.clone(), frozen.triggers.clone());
        let run = record(frozen, &self.staging)?;
        let summary = conclude(&run, run.read_manifest()?, true)?.analysis.summary;
        let reasons = words(&triggers);
        let only_late = triggers.iter().all(|trigger| trigger.reason == Reason::Late);
        if only_late && summary.lateness.packets == 0 {
            self.board.receiver(&receiver, |state| state.unconfirmed += 1);
            quaver_instrument::tell!(
                "quaver watch: {receiver}: {reasons}; the records do not bear it out, so nothing was kept"
            );
            return Ok(std::fs::remove_dir_all(run.path())?);
        }
        let cause = leading(&summary);
        let note =
            Note { receiver: receiver.clone(), cause: cause.clone(), ..Note::new(&triggers, realtime_ns()) };
        let asked = triggers.iter().any(|trigger| trigger.reason == Reason::Asked);
        let mut ledger = Ledger::read(&self.kept);
        let alike = if asked { None } else { ledger.alike(&note, self.limits.fold_within) };
        let told = told(&summary);
        let (place, count) = match alike {
            Some(Alike { run: earlier, note: mut before }) => {
                before.count += 1;
                before.last_realtime_ns = note.last_realtime_ns;
                before.write(&earlier)?;
                std::fs::remove_dir_all(run.path())?;
                (earlier.path().to_owned(), before.count)
            }
            None => {
                note.write(&run)?;
                let place = self.kept.join(run.name());
                std::fs::rename(run.path(), &place)
                    .with_context(|| format!("rename to {}", place.display()))?;
                std::fs::File::open(&self.kept)?.sync_all()?;
                ledger = Ledger::read(&self.kept);
                ledger.bound(self.limits.disk_mib << 20, &run.name());
                (place, 1)
            }
        };
        let (bytes, run) = (ledger.bytes(), place.display().to_string());
        self.board.set_cost(|cost| cost.disk_bytes = bytes);
        self.board.receiver(&receiver, |state| {
            let counts = if count > 1 { &mut state.folded } else { &mut state.incidents };
            *counts.entry(cause.clone()).or_default() += 1;
            for cause in &summary.causes {
                *state.late_ns.entry(cause.source.clone()).or_default() += cause.time_ns.unsigned_abs();
            }
            *state.late_ns.entry(UNEXPLAINED.to_owned()).or_default() +=
                summary.unexplained.time_ns.unsigned_abs();
        });
        let incident = Incident {
            receiver: receiver.clone(),
            run: run.clone(),
            count,
            reasons: reasons.clone(),
            words: told.clone(),
            ..Incident::default()
        };
        self.hook.tell(&incident, &cause);
        self.board.tell(incident);
        let times = if count > 1 { format!(", {count} times by now") } else { String::new() };
        quaver_instrument::tell!("quaver watch: {receiver}: incident {run}{times}: {reasons}: {told}");
        Ok(())
    }
}

/// `a packet waited 20.1 ms in this host; 12 packets were lost within a second`.
fn words(triggers: &[Trigger]) -> String {
    triggers.iter().map(Trigger::to_string).collect::<Vec<_>>().join("; ")
}

/// Identifier of what most of the late time is given to.
fn leading(summary: &ChaseSummary) -> String {
    let unexplained_ns = summary.unexplained.time_ns;
    match summary.causes.first() {
        Some(cause) if cause.time_ns >= unexplained_ns => cause.source.clone(),
        _ if unexplained_ns > 0 => UNEXPLAINED.to_owned(),
        _ => NOT_LATE.to_owned(),
    }
}

/// The leading cause with its share and its remedy, in one line.
fn told(summary: &ChaseSummary) -> String {
    match summary.causes.first().filter(|_| leading(summary) != UNEXPLAINED) {
        Some(cause) => {
            let remedy = cause.remedy.setting.as_ref().or(cause.remedy.boot.as_ref());
            let remedy = remedy.map(|remedy| format!("; remedy: {remedy}")).unwrap_or_default();
            format!("{:.0} % {} ({}){remedy}", cause.share * 100.0, cause.name, cause.source)
        }
        None if summary.unexplained.time_ns > 0 => "most of the late time is unexplained".to_owned(),
        None => "no packet was late".to_owned(),
    }
}

/// Writes a frozen window as a run with raw segments and a manifest.
fn record(frozen: Frozen, staging: &Path) -> anyhow::Result<RunDir> {
    let held_before_ns = frozen.triggers.iter().map(|trigger| trigger.at_ns as i64).min().unwrap_or(0)
        - frozen.window.start_ns;
    let mut notes = Vec::new();
    if held_before_ns + 1_000_000 < frozen.before.as_nanos() as i64 {
        notes.push(format!(
            "{:.1} s before the trigger are held of the {:.1} s that were asked for",
            held_before_ns as f64 / 1e9,
            frozen.before.as_secs_f64()
        ));
    }
    let length_ns = frozen.window.end_ns - frozen.window.start_ns;
    let asked = json!({
        "command": quaver_instrument::recording::command_line(),
        "stream": frozen.observed.stream_words(),
        "trigger": words(&frozen.triggers),
        "for_ns": length_ns,
        "late_ns": frozen.late_ns,
        "notes": notes,
    });
    let counter = CounterSupport::detect(Path::new("/")).counter;
    let host = serde_json::to_value(&*frozen.host)?;
    let keeper = AnchorKeeper::start(counter);
    let mut recording = Recording::begin_with(staging, "watch", asked, host, counter, keeper)?;
    let records: &mut dyn TraceSink = recording.records();
    frozen.stamps.iter().for_each(|stamp| records.stamp(*stamp));
    frozen.events.iter().for_each(|event| records.event(*event));
    recording.end_tracing()?;
    let started_ns = realtime_ns() - (monotonic_ns() - frozen.window.start_ns);
    let manifest = &mut recording.manifest;
    (manifest.started_realtime_ns, manifest.started) = (started_ns, rfc3339_utc(started_ns));
    manifest.lost.events = frozen.counts.events_lost;
    observe::describe(manifest, &frozen.observed);
    let facts = manifest.analysis.get_or_insert_default();
    facts.tier = "bpf".to_owned();
    facts.blind = frozen.blind;
    facts.circumstances = frozen.circumstances;
    facts.unread = frozen.unread;
    facts.counts.stamps_lost = frozen.counts.stamps_lost;
    facts.counts.events_lost = frozen.counts.events_lost;
    frozen.observed.conclude(
        &recording.run,
        &mut recording.manifest,
        frozen.window,
        frozen.maps,
        &frozen.stacks,
    )?;
    recording.manifest.end(started_ns + length_ns, None);
    recording.save_manifest()?;
    Ok(recording.run)
}
