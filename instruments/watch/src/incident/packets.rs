//! An incident of a receiver: a run of packets.

use super::record::begin;
use super::{Findings, Nothing, is_of_a_packet_outside};
use crate::frozen::ReceiverWindow;
use crate::judge::Reason;
use quaver_chase::chase::{conclude, observe};
use quaver_store::run::RunDir;
use serde_json::json;
use std::path::Path;

/// Writes and analyses it. A trigger by lateness alone is borne out by a late packet.
pub(super) fn write(frozen: ReceiverWindow, staging: &Path) -> anyhow::Result<(RunDir, Findings)> {
    let only_late = frozen.triggers.iter().all(|trigger| trigger.reason == Reason::Late);
    let window = frozen.records.window;
    let not_held = frozen.triggers.iter().any(|trigger| is_of_a_packet_outside(trigger, window));
    let run = record(frozen, staging)?;
    let summary = conclude(&run, run.read_manifest()?, true)?.analysis.summary;
    let found = Findings {
        borne_out: !only_late || summary.lateness.packets > 0,
        causes: summary.causes,
        unexplained_ns: summary.unexplained.time_ns,
        whole: "late time",
        nothing: if not_held { NOT_HELD } else { NOT_LATE },
    };
    Ok((run, found))
}

/// No packet was late; or none that is held, while the trigger's is not.
const NOT_LATE: Nothing = Nothing { cause: "none", words: "no packet was late" };
const NOT_HELD: Nothing = Nothing { cause: "not-held", words: "the trigger's packet is not in what is held" };

/// Writes a frozen window as a run with raw segments and a manifest.
fn record(frozen: ReceiverWindow, staging: &Path) -> anyhow::Result<RunDir> {
    let window = frozen.records.window;
    let more = json!({ "stream": frozen.observed.stream_words(), "late_ns": frozen.late_ns });
    let mut recording = begin(staging, "watch", &frozen.triggers, more, &frozen.stamps, frozen.records)?;
    observe::describe(&mut recording.manifest, &frozen.observed);
    recording.manifest.analysis.get_or_insert_default().unread = frozen.unread;
    frozen.observed.conclude(&recording.run, &mut recording.manifest, window, frozen.maps, &frozen.stacks)?;
    recording.save_manifest()?;
    Ok(recording.run)
}
