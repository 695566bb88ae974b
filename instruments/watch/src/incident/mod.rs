//! Incidents: a frozen window becomes a run like any other, is analysed, and is kept, counted in an earlier one, or let go.

mod hook;
mod ledger;
mod packets;
mod program;
mod record;
mod waits;
mod ways;
mod webhook;

use crate::board::{Board, Incident, Outcomes, Subject};
use crate::config::{HookSettings, Limits, make_directory};
use crate::frozen::FrozenWindow;
use crate::judge::{Reason, Trigger};
use crate::outbox::is_asked;
use anyhow::Context;
pub(crate) use hook::Hook;
use ledger::{Alike, Ledger, Note};
use quaver_analysis::summary::CauseSummary;
use quaver_exposition::histogram::Exemplar;
use quaver_store::manifest::Window;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Leading cause of an incident of which most is unexplained.
const UNEXPLAINED: &str = "unexplained";

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

    /// Takes other limits, and another program or server to tell.
    pub(crate) fn set(&mut self, limits: Limits, hook: Option<HookSettings>) {
        self.limits = limits;
        if let Err(error) = self.hook.set(hook) {
            quaver_instrument::tell!("quaver watch: {error:#}; incidents are not sent");
        }
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
            let _ = std::fs::remove_dir_all(&self.staging);
        }
    }

    fn try_keep(&mut self, frozen: FrozenWindow, subject: &Subject) -> anyhow::Result<()> {
        // Somebody may have removed it meanwhile.
        make_directory(&self.staging)?;
        let triggers = frozen.triggers().to_vec();
        let (name, reasons) = (subject.name().to_owned(), Trigger::words(&triggers));
        let (run, found) = match frozen {
            FrozenWindow::Receiver(frozen) => packets::write(*frozen, &self.staging)?,
            FrozenWindow::Threads(frozen) => waits::write(*frozen, &self.staging)?,
            FrozenWindow::Path(frozen) => ways::write(*frozen, &self.staging)?,
        };
        if !found.borne_out {
            self.board.outcomes(subject, |outcomes| outcomes.unconfirmed += 1);
            quaver_instrument::tell!(
                "quaver watch: {name}: {reasons}; the records do not bear it out, so nothing was kept"
            );
            return Ok(std::fs::remove_dir_all(run.path())?);
        }
        let trigger_realtime_ns = run.read_manifest()?.asked["trigger_realtime_ns"].as_i64().unwrap_or(0);
        let cause = found.leading();
        let note =
            Note { subject: name.clone(), cause: cause.clone(), ..Note::new(&triggers, trigger_realtime_ns) };
        let mut ledger = Ledger::read(&self.kept);
        let alike = if is_asked(&triggers) { None } else { ledger.alike(&note, self.limits.fold_within) };
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
                make_directory(&self.kept)?;
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
        let id = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let exemplar = Exemplar { incident: id, realtime_ns: trigger_realtime_ns };
        self.board.exemplify(subject, &triggers, &exemplar);
        self.board.outcomes(subject, |outcomes| found.add_to(outcomes, count > 1, exemplar));
        let incident = Incident {
            subject: name.clone(),
            trigger_realtime_ns,
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
    /// What leads, whatever the causes of late packets are.
    leads: Option<Nothing>,
    /// Whether its records show what the trigger says.
    borne_out: bool,
    causes: Vec<CauseSummary>,
    unexplained_ns: i64,
    /// What is explained: `late time`, `wait`.
    whole: &'static str,
    /// Where nothing is to be explained.
    nothing: Nothing,
}

/// What is said where there is nothing to explain.
pub(super) struct Nothing {
    /// In place of a leading cause.
    cause: &'static str,
    words: String,
}

impl Nothing {
    fn of(cause: &'static str, words: impl Into<String>) -> Self {
        Self { cause, words: words.into() }
    }
}

impl Findings {
    /// Identifier of what most of the time is given to.
    fn leading(&self) -> String {
        match self.causes.first() {
            _ if self.leads.is_some() => self.leads.iter().map(|leads| leads.cause).collect(),
            Some(cause) if cause.time_ns >= self.unexplained_ns => cause.source.clone(),
            _ if self.unexplained_ns > 0 => UNEXPLAINED.to_owned(),
            _ => self.nothing.cause.to_owned(),
        }
    }

    /// The leading cause with its share and its remedy, in one line.
    fn told(&self) -> String {
        if let Some(leads) = &self.leads {
            return leads.words.clone();
        }
        match self.causes.first().filter(|_| self.leading() != UNEXPLAINED) {
            Some(cause) => {
                let remedy = cause.remedy.setting.as_ref().or(cause.remedy.boot.as_ref());
                let remedy = remedy.map(|remedy| format!("; remedy: {remedy}")).unwrap_or_default();
                format!("{:.0} % {} ({}){remedy}", cause.share * 100.0, cause.name, cause.source)
            }
            None if self.unexplained_ns > 0 => format!("most of the {} is unexplained", self.whole),
            None => self.nothing.words.clone(),
        }
    }

    /// Counts it; `folded` is one that an earlier incident has taken in.
    fn add_to(&self, outcomes: &mut Outcomes, folded: bool, exemplar: Exemplar) {
        let counts = if folded { &mut outcomes.folded } else { &mut outcomes.incidents };
        *counts.entry(self.leading()).or_default() += 1;
        if !folded {
            outcomes.exemplars.insert(self.leading(), exemplar);
        }
        for cause in &self.causes {
            *outcomes.explained_ns.entry(cause.source.clone()).or_default() += cause.time_ns.unsigned_abs();
        }
        *outcomes.explained_ns.entry(UNEXPLAINED.to_owned()).or_default() +=
            self.unexplained_ns.unsigned_abs();
    }
}

/// Whether a trigger is one packet's that no window shows which ends, or begins, elsewhere.
fn is_of_a_packet_outside(trigger: &Trigger, window: Window) -> bool {
    let of_a_packet = matches!(trigger.reason, Reason::Late | Reason::Held | Reason::Gap);
    of_a_packet && !(window.start_ns..=window.end_ns).contains(&(trigger.at_ns as i64))
}

/// Less is held, as far as people read: half of the last digit.
const WORTH_TELLING_NS: i64 = 50_000_000;

/// Notes that less is held before the trigger that began the window than was asked for, and why.
fn held_less(triggers: &[Trigger], window: Window, before: Duration, because: &str) -> Option<String> {
    let trigger = triggers.first()?;
    if is_of_a_packet_outside(trigger, window) {
        return Some(format!("the trigger's packet is not in what is held: {because}"));
    }
    let held_ns = (trigger.since_ns() as i64 - window.start_ns).max(0);
    (held_ns + WORTH_TELLING_NS < before.as_nanos() as i64).then(|| {
        format!(
            "{:.1} s before the trigger are held of the {:.1} s that were asked for: {because}",
            held_ns as f64 / 1e9,
            before.as_secs_f64()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_without_its_triggers_packet_says_so_and_names_no_cause_as_if_nothing_was() {
        let window = Window { start_ns: 5_000_000_000, end_ns: 6_000_000_000 };
        let at = |at_ns| Trigger::new(Reason::Held, at_ns, 53_080_000);
        let note = |at_ns| held_less(&[at(at_ns)], window, Duration::from_secs(2), "recording began then");
        let outside = "the trigger's packet is not in what is held: recording began then";
        assert_eq!(note(4_999_999_999).as_deref(), Some(outside));
        let less = "0.5 s before the trigger are held of the 2.0 s that were asked for: recording began then";
        assert_eq!(
            (note(5_500_000_000).as_deref(), note(6_000_000_001).as_deref()),
            (Some(less), Some(outside))
        );
        assert_eq!(
            held_less(
                &[at(7_000_000_000)],
                Window { end_ns: 8_000_000_000, ..window },
                Duration::from_secs(2),
                ""
            ),
            None
        );
        let asked = Trigger { reason: Reason::Asked, ..at(4_999_999_999) };
        assert!(!is_of_a_packet_outside(&asked, window), "nobody's packet");
    }

    #[test]
    fn what_is_not_explained_has_a_name_of_its_own() {
        let found = |unexplained_ns, cause| {
            let nothing = Nothing::of(cause, "w");
            let found = Findings {
                leads: None,
                borne_out: true,
                causes: Vec::new(),
                unexplained_ns,
                whole: "late time",
                nothing,
            };
            (found.leading(), found.told())
        };
        assert_eq!(found(0, "not-held"), ("not-held".to_owned(), "w".to_owned()));
        assert_eq!(found(5, "none").0, "unexplained");
    }
}
