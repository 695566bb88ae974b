//! The part of `/metrics` about paths. Labels are names of tables from the settings.

use super::outcomes;
use crate::board::{Outcomes, PathState};
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
    let outcomes: fn(&PathState) -> &Outcomes = |state| &state.outcomes;
    let triggers = outcomes::triggers(&of, "path_", &Reason::OF_PATHS, outcomes);
    let mut all = vec![watched, silent, sent, lost, duplicates, trips, triggers];
    all.extend(outcomes::incidents(&of, "path_", outcomes));
    all
}
