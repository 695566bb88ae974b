//! The part of `/metrics` that receivers, tables of threads and paths have alike: what became of their triggers.

use crate::board::Outcomes;
use crate::judge::Reason;
use quaver_exposition::{Family, Kind, Rows};

/// Triggers by reason; `of` is what stands in the name: none, or `path_`.
pub(super) fn triggers<T>(
    rows: &Rows<'_, T>,
    of: &str,
    reasons: &[Reason],
    outcomes: fn(&T) -> &Outcomes,
) -> Family {
    let name = format!("quaver_watch_{of}triggers");
    let mut triggers = Family::new(name, Kind::Counter, "", "Triggers by reason.");
    for (labels, state) in rows.each() {
        for reason in reasons {
            let count = outcomes(state).triggers.get(reason).copied().unwrap_or(0);
            triggers.number(Family::with(labels.clone(), "reason", reason.name()), count as f64);
        }
    }
    triggers
}

/// Incidents that were kept and those that were not; `of` is what stands in the names: none, `wait_` or `path_`.
pub(super) fn incidents<T>(rows: &Rows<'_, T>, of: &str, outcomes: fn(&T) -> &Outcomes) -> [Family; 5] {
    let name = |what: &str, noun: &str| format!("quaver_watch_{what}{of}{noun}");
    let kept = rows.incidents(&name("", "incidents"), "Incidents kept, by leading cause.", |state| {
        (&outcomes(state).incidents, &outcomes(state).exemplars)
    });
    let help = "Incidents counted in an earlier one of the same cause.";
    let folded = rows.by_cause((&name("folded_", "incidents"), ""), help, |state| &outcomes(state).folded);
    let count = |what, noun, help, count: fn(&Outcomes) -> u64| {
        rows.counter(&name(what, noun), help, |state| count(outcomes(state)))
    };
    let help = "Triggers of which no incident was kept, because of a limit.";
    let suppressed = count("suppressed_", "triggers", help, |outcomes| outcomes.suppressed);
    let help = "Incidents that could not be written.";
    let failed = count("failed_", "incidents", help, |outcomes| outcomes.failed);
    let help = "Incidents lost because the writer of incidents was behind.";
    let lost = count("lost_", "incidents", help, |outcomes| outcomes.lost);
    [kept, folded, suppressed, failed, lost]
}
