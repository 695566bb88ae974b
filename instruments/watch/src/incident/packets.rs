//! An incident of a receiver: a run of packets.

use super::record::begin;
use super::{Findings, Nothing, is_of_a_packet_outside};
use crate::frozen::ReceiverWindow;
use crate::judge::Reason;
use quaver_chase::chase::{conclude, observe};
use quaver_store::run::RunDir;
use serde_json::json;
use std::path::Path;

/// Writes and analyses it. A trigger by lateness alone is borne out by a late packet, and so is one by a packet that waited, if that
/// packet is held.
pub(super) fn write(frozen: ReceiverWindow, staging: &Path) -> anyhow::Result<(RunDir, Findings)> {
    let only_late = frozen.triggers.iter().all(|trigger| trigger.reason == Reason::Late);
    let window = frozen.records.window;
    let only_waited =
        frozen.triggers.iter().all(|trigger| matches!(trigger.reason, Reason::Late | Reason::Held));
    let not_held = frozen.triggers.iter().any(|trigger| is_of_a_packet_outside(trigger, window));
    let gap = frozen.triggers.iter().find_map(|trigger| Some((trigger.amount, trigger.missing?)));
    let run = record(frozen, staging)?;
    let summary = conclude(&run, run.read_manifest()?, true)?.analysis.summary;
    let late_ns = summary.causes.iter().map(|cause| cause.time_ns).sum::<i64>() + summary.unexplained.time_ns;
    let found = Findings {
        leads: gap.and_then(|(gap_ns, missing)| of_gap(gap_ns, missing, late_ns)),
        borne_out: summary.lateness.packets > 0 || !only_waited || not_held && !only_late,
        causes: summary.causes,
        unexplained_ns: summary.unexplained.time_ns,
        whole: "late time",
        nothing: if not_held { NOT_HELD } else { NOT_LATE },
    };
    Ok((run, found))
}

/// What leads where nothing came to this host for longer than packets were late by twice.
fn of_gap(gap_ns: u64, missing: u64, late_ns: i64) -> Option<Nothing> {
    (late_ns.unsigned_abs() < gap_ns / 2).then_some(if missing > 0 { MISSING } else { PAUSED })
}

/// Numbers tell packets that were lost from a sender that sent none.
const MISSING: Nothing = Nothing {
    cause: "missing",
    words: "nothing came to this host's network stack, and packets are missing by number; remedy: check the link and the \
            interface's ring (ip -s -s link, ethtool -S <if>), then the network before it",
};
const PAUSED: Nothing = Nothing {
    cause: "paused",
    words: "nothing came to this host's network stack, and no packet is missing by number: the sender paused; remedy: look \
            at the sender",
};

/// No packet was late; or none that is held, while the trigger's is not.
const NOT_LATE: Nothing = Nothing { cause: "none", words: "no packet was late" };
const NOT_HELD: Nothing = Nothing { cause: "not-held", words: "the trigger's packet is not in what is held" };

/// Writes a frozen window as a run with raw segments and a manifest.
fn record(frozen: ReceiverWindow, staging: &Path) -> anyhow::Result<RunDir> {
    let window = frozen.records.window;
    let more = json!({ "stream": frozen.observed.stream_words(), "late_ns": frozen.late_ns });
    let mut recording = begin(staging, "watch", &frozen.triggers, more, &frozen.stamps, frozen.records)?;
    observe::describe(&mut recording.manifest, &frozen.observed);
    let notes = recording.manifest.asked["notes"].as_array_mut();
    notes.into_iter().for_each(|notes| notes.extend(frozen.notes.iter().map(|note| note.as_str().into())));
    recording.manifest.analysis.get_or_insert_default().unread = frozen.unread;
    frozen.observed.conclude(&recording.run, &mut recording.manifest, window, frozen.maps, &frozen.stacks)?;
    recording.save_manifest()?;
    Ok(recording.run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_leads_where_packets_were_late_for_less_than_half_of_it() {
        let cause = |missing, late_ns| of_gap(1_000, missing, late_ns).map(|nothing| nothing.cause);
        assert_eq!((cause(7, 499), cause(0, 0)), (Some("missing"), Some("paused")));
        assert_eq!((cause(7, 500), cause(0, 900)), (None, None));
    }
}
