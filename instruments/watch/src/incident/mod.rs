//! Incidents: a frozen window becomes a run like any other, is analysed, and is kept, counted in an earlier one, or let go.

mod hook;
mod ledger;
mod packets;
mod record;
mod waits;

use crate::board::{Board, Incident, Outcomes, Subject};
use crate::config::{HookSettings, Limits, make_directory};
use crate::frozen::FrozenWindow;
use crate::judge::{Reason, Trigger};
use anyhow::Context;
pub(crate) use hook::Hook;
use ledger::{Alike, Ledger, Note};
use quaver_analysis::summary::CauseSummary;
use quaver_clock::realtime_ns;
use quaver_store::manifest::Window;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

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
    pub(crate) fn keep(&mut self, frozen: FrozenWindow) {
        let subject = frozen.subject();
        if let Err(error) = self.try_keep(frozen, &subject) {
            let name = subject.name();
            quaver_instrument::tell!("quaver watch: {name}: the incident could not be kept: {error:#}");
            self.board.outcomes(&subject, |outcomes| outcomes.failed += 1);
            let cleared =
                std::fs::remove_dir_all(&self.staging).and_then(|()| std::fs::create_dir(&self.staging));
            if let Err(error) = cleared {
                quaver_instrument::tell!("quaver watch: clearing {}: {error}", self.staging.display());
            }
        }
    }

    fn try_keep(&mut self, frozen: FrozenWindow, subject: &Subject) -> anyhow::Result<()> {
        let triggers = frozen.triggers().to_vec();
        let (name, reasons) = (subject.name().to_owned(), words(&triggers));
        let (run, found) = match frozen {
            FrozenWindow::Receiver(frozen) => packets::write(*frozen, &self.staging)?,
            FrozenWindow::Threads(frozen) => waits::write(*frozen, &self.staging)?,
        };
        if !found.borne_out {
            self.board.outcomes(subject, |outcomes| outcomes.unconfirmed += 1);
            quaver_instrument::tell!(
                "quaver watch: {name}: {reasons}; the records do not bear it out, so nothing was kept"
            );
            return Ok(std::fs::remove_dir_all(run.path())?);
        }
        let cause = found.leading();
        let note =
            Note { subject: name.clone(), cause: cause.clone(), ..Note::new(&triggers, realtime_ns()) };
        let asked = triggers.iter().any(|trigger| trigger.reason == Reason::Asked);
        let mut ledger = Ledger::read(&self.kept);
        let alike = if asked { None } else { ledger.alike(&note, self.limits.fold_within) };
        let told = found.told();
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
        self.board.outcomes(subject, |outcomes| found.add_to(outcomes, count > 1));
        let incident = Incident {
            subject: name.clone(),
            run: run.clone(),
            count,
            reasons: reasons.clone(),
            words: told.clone(),
            ..Incident::default()
        };
        self.hook.tell(&incident, &cause);
        self.board.tell(incident);
        let times = if count > 1 { format!(", {count} times by now") } else { String::new() };
        quaver_instrument::tell!("quaver watch: {name}: incident {run}{times}: {reasons}: {told}");
        Ok(())
    }
}

/// What the analysis of an incident found.
pub(super) struct Findings {
    /// Whether its records show what the trigger says.
    borne_out: bool,
    causes: Vec<CauseSummary>,
    unexplained_ns: i64,
    /// What is explained: `late time`, `wait`.
    whole: &'static str,
    /// Said where nothing is to be explained.
    nothing: &'static str,
}

impl Findings {
    /// Identifier of what most of the time is given to.
    fn leading(&self) -> String {
        match self.causes.first() {
            Some(cause) if cause.time_ns >= self.unexplained_ns => cause.source.clone(),
            _ if self.unexplained_ns > 0 => UNEXPLAINED.to_owned(),
            _ => NOT_LATE.to_owned(),
        }
    }

    /// The leading cause with its share and its remedy, in one line.
    fn told(&self) -> String {
        match self.causes.first().filter(|_| self.leading() != UNEXPLAINED) {
            Some(cause) => {
                let remedy = cause.remedy.setting.as_ref().or(cause.remedy.boot.as_ref());
                let remedy = remedy.map(|remedy| format!("; remedy: {remedy}")).unwrap_or_default();
                format!("{:.0} % {} ({}){remedy}", cause.share * 100.0, cause.name, cause.source)
            }
            None if self.unexplained_ns > 0 => format!("most of the {} is unexplained", self.whole),
            None => self.nothing.to_owned(),
        }
    }

    /// Counts it; `folded` is one that an earlier incident has taken in.
    fn add_to(&self, outcomes: &mut Outcomes, folded: bool) {
        let counts = if folded { &mut outcomes.folded } else { &mut outcomes.incidents };
        *counts.entry(self.leading()).or_default() += 1;
        for cause in &self.causes {
            *outcomes.explained_ns.entry(cause.source.clone()).or_default() += cause.time_ns.unsigned_abs();
        }
        *outcomes.explained_ns.entry(UNEXPLAINED.to_owned()).or_default() +=
            self.unexplained_ns.unsigned_abs();
    }
}

/// `a packet waited 20.1 ms in this host; 12 packets were lost within a second`.
fn words(triggers: &[Trigger]) -> String {
    triggers.iter().map(Trigger::to_string).collect::<Vec<_>>().join("; ")
}

/// Notes that less is held before the trigger than was asked for.
fn held_less(triggers: &[Trigger], window: Window, before: Duration) -> Option<String> {
    let first_ns = triggers.iter().map(|trigger| trigger.at_ns as i64).min().unwrap_or(0);
    let held_ns = first_ns - window.start_ns;
    (held_ns + 1_000_000 < before.as_nanos() as i64).then(|| {
        format!(
            "{:.1} s before the trigger are held of the {:.1} s that were asked for",
            held_ns as f64 / 1e9,
            before.as_secs_f64()
        )
    })
}
