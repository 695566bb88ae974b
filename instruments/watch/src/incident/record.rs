//! What the runs of all incidents have: raw segments of the events, and a manifest with the window.

use super::held_less;
use crate::frozen::WindowRecords;
use crate::judge::Trigger;
use quaver_abi::record::StampRecord;
use quaver_clock::{AnchorKeeper, CounterSupport};
use quaver_host::trace::TraceSink;
use quaver_instrument::recording::Recording;
use quaver_store::utc::rfc3339_utc;
use serde_json::{Value, json};
use std::path::Path;

/// Writes the records of a window into a run, with the manifest's part of them; `more` is what else was asked.
pub(super) fn begin(
    staging: &Path,
    verb: &str,
    triggers: &[Trigger],
    more: Value,
    stamps: &[StampRecord],
    records: WindowRecords,
) -> anyhow::Result<Recording> {
    let WindowRecords {
        clocks,
        window,
        before,
        held_because,
        events,
        names,
        counts,
        blind,
        circumstances,
        host,
    } = records;
    let notes: Vec<String> = held_less(triggers, window, before, held_because).into_iter().collect();
    let length_ns = window.end_ns - window.start_ns;
    let mut asked = json!({
        "command": quaver_instrument::recording::command_line(),
        "trigger": Trigger::words(triggers),
        "trigger_realtime_ns": triggers.first().map(|trigger| clocks.realtime_of(trigger.at_ns as i64)),
        "for_ns": length_ns,
        "notes": notes,
    });
    if let (Some(asked), Value::Object(more)) = (asked.as_object_mut(), more) {
        asked.extend(more);
    }
    let counter = CounterSupport::detect(Path::new("/")).counter;
    let host = serde_json::to_value(&*host)?;
    let keeper = AnchorKeeper::start(counter);
    let mut recording = Recording::begin_with(staging, verb, asked, host, counter, keeper)?;
    let sink: &mut dyn TraceSink = recording.records();
    stamps.iter().for_each(|stamp| sink.stamp(*stamp));
    events.iter().for_each(|event| sink.event(*event));
    recording.end_tracing()?;
    recording.run.write_names(&names)?;
    let started_ns = clocks.realtime_of(window.start_ns);
    let manifest = &mut recording.manifest;
    (manifest.started_realtime_ns, manifest.started) = (started_ns, rfc3339_utc(started_ns));
    manifest.lost.events = counts.events_lost;
    let facts = manifest.analysis.get_or_insert_default();
    facts.tier = "bpf".to_owned();
    facts.window = Some(window);
    facts.circumstances = circumstances;
    facts.circumstances.blind.clone_from(&blind);
    facts.blind = blind;
    facts.counts.stamps_lost = counts.stamps_lost;
    facts.counts.events_lost = counts.events_lost;
    recording.manifest.end(started_ns + length_ns, None);
    Ok(recording)
}
