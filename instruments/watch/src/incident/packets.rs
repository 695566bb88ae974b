//! An incident of a receiver: a run of packets.

use super::{Found, held_less, words};
use crate::frozen::FrozenReceiver;
use crate::judge::Reason;
use quaver_chase::chase::{conclude, observe};
use quaver_clock::{AnchorKeeper, CounterSupport, monotonic_ns, realtime_ns};
use quaver_host::trace::TraceSink;
use quaver_instrument::recording::Recording;
use quaver_store::run::RunDir;
use quaver_store::utc::rfc3339_utc;
use serde_json::json;
use std::path::Path;

/// Writes and analyses it. A trigger by lateness alone is borne out by a late packet.
pub(super) fn write(frozen: FrozenReceiver, staging: &Path) -> anyhow::Result<(RunDir, Found)> {
    let only_late = frozen.triggers.iter().all(|trigger| trigger.reason == Reason::Late);
    let run = record(frozen, staging)?;
    let summary = conclude(&run, run.read_manifest()?, true)?.analysis.summary;
    let found = Found {
        borne_out: !only_late || summary.lateness.packets > 0,
        causes: summary.causes,
        unexplained_ns: summary.unexplained.time_ns,
        whole: "late time",
        nothing: "no packet was late",
    };
    Ok((run, found))
}

/// Writes a frozen window as a run with raw segments and a manifest.
fn record(frozen: FrozenReceiver, staging: &Path) -> anyhow::Result<RunDir> {
    let notes: Vec<String> = held_less(&frozen.triggers, frozen.window, frozen.before).into_iter().collect();
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
