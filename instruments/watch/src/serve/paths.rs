//! The part of `/metrics` about paths. Labels are names of tables from the settings.

use crate::board::PathState;
use crate::judge::Reason;
use quaver_exposition::{Family, Kind, Rows};
use std::collections::BTreeMap;

/// All families; none where no path is watched.
pub(super) fn families(paths: &BTreeMap<String, PathState>) -> Vec<Family> {
    if paths.is_empty() {
        return Vec::new();
    }
    let of = Rows { label: "path", states: paths };
    let flag = |name, help, which: fn(&PathState) -> bool| {
        of.gauge((name, ""), help, |state| f64::from(u8::from(which(state))))
    };
    let watched = flag("quaver_watch_path_watched", "1 while packets are sent.", |state| state.watched);
    let silent =
        flag("quaver_watch_path_silent", "1 while no reply has come for 5 s and 10 packets.", |state| {
            state.silent
        });
    let sent = of.counter("quaver_watch_path_packets", "Packets sent to the reflector.", |state| state.sent);
    let help = "Packets without a reply within 3 s.";
    let lost = of.counter("quaver_watch_path_lost_packets", help, |state| state.lost);
    let help = "Replies beyond the first to a packet.";
    let duplicates = of.counter("quaver_watch_path_duplicates", help, |state| state.duplicates);
    let help = "Round trips without the time that the reflector took.";
    let mut trips = Family::new("quaver_watch_path_round_trip_seconds", Kind::Histogram, "seconds", help);
    of.each().for_each(|(labels, state)| trips.times(labels, &state.round_trip));
    let mut all = vec![watched, silent, sent, lost, duplicates, trips];
    all.extend(incidents(&of));
    all
}

fn incidents(of: &Rows<'_, PathState>) -> Vec<Family> {
    let mut triggers = Family::new("quaver_watch_path_triggers", Kind::Counter, "", "Triggers by reason.");
    for (labels, state) in of.each() {
        for reason in Reason::OF_PATHS {
            let count = state.outcomes.triggers.get(&reason).copied().unwrap_or(0);
            triggers.number(Family::with(labels.clone(), "reason", reason.name()), count as f64);
        }
    }
    let help = "Incidents of a path kept, by the way that leads.";
    let kept = of.incidents("quaver_watch_path_incidents", help, |state| {
        (&state.outcomes.incidents, &state.outcomes.exemplars)
    });
    let help = "Incidents of a path counted in an earlier one of the same way.";
    let folded =
        of.by_cause(("quaver_watch_folded_path_incidents", ""), help, |state| &state.outcomes.folded);
    let help = "Triggers of which no incident was kept, because of a limit.";
    let suppressed =
        of.counter("quaver_watch_suppressed_path_triggers", help, |state| state.outcomes.suppressed);
    let help = "Incidents of a path that could not be written.";
    let failed = of.counter("quaver_watch_failed_path_incidents", help, |state| state.outcomes.failed);
    let help = "Incidents of a path lost because the writer of incidents was behind.";
    let lost = of.counter("quaver_watch_lost_path_incidents", help, |state| state.outcomes.lost);
    vec![triggers, kept, folded, suppressed, failed, lost]
}
