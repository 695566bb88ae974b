//! An incident of threads: a run of one wait for a CPU.

use super::{Found, held_less, words};
use crate::frozen::FrozenThreads;
use crate::wait_run::{self, WaitFacts};
use quaver_clock::{AnchorKeeper, CounterSupport, monotonic_ns, realtime_ns};
use quaver_host::trace::TraceSink;
use quaver_instrument::recording::Recording;
use quaver_store::run::RunDir;
use quaver_store::utc::rfc3339_utc;
use serde_json::json;
use std::path::Path;

/// Writes and analyses it. The kernel's own count of the wait bears the trigger out.
pub(super) fn write(frozen: FrozenThreads, staging: &Path) -> anyhow::Result<(RunDir, Found)> {
    let run = record(frozen, staging)?;
    let summary = wait_run::conclude(&run)?;
    let found = Found {
        borne_out: true,
        causes: summary.causes,
        unexplained_ns: summary.unexplained.time_ns,
        whole: "wait",
        nothing: "the wait has no length",
    };
    Ok((run, found))
}

fn record(frozen: FrozenThreads, staging: &Path) -> anyhow::Result<RunDir> {
    let triggers = [frozen.trigger];
    let notes: Vec<String> = held_less(&triggers, frozen.window, frozen.before).into_iter().collect();
    let facts = WaitFacts {
        threads: frozen.name,
        thread: frozen.wait.thread,
        process: frozen.wait.process,
        comm: frozen.wait.comm,
        realtime: frozen.wait.realtime,
        cpu: frozen.wait.cpu,
        end_ns: frozen.wait.at_ns as i64,
        wait_ns: frozen.wait.wait_ns as i64,
        limit_ns: frozen.limit_ns as i64,
        long_waits: frozen.long_waits,
    };
    let length_ns = frozen.window.end_ns - frozen.window.start_ns;
    let asked = json!({
        "command": quaver_instrument::recording::command_line(),
        "trigger": words(&triggers),
        "for_ns": length_ns,
        "wait": facts,
        "notes": notes,
    });
    let counter = CounterSupport::detect(Path::new("/")).counter;
    let host = serde_json::to_value(&*frozen.host)?;
    let keeper = AnchorKeeper::start(counter);
    let mut recording = Recording::begin_with(staging, wait_run::VERB, asked, host, counter, keeper)?;
    let records: &mut dyn TraceSink = recording.records();
    frozen.events.iter().for_each(|event| records.event(*event));
    recording.end_tracing()?;
    let started_ns = realtime_ns() - (monotonic_ns() - frozen.window.start_ns);
    let manifest = &mut recording.manifest;
    (manifest.started_realtime_ns, manifest.started) = (started_ns, rfc3339_utc(started_ns));
    manifest.lost.events = frozen.counts.events_lost;
    let facts = manifest.analysis.get_or_insert_default();
    facts.tier = "bpf".to_owned();
    facts.window = Some(frozen.window);
    facts.blind = frozen.blind;
    facts.circumstances = frozen.circumstances;
    facts.circumstances.blind = facts.blind.clone();
    facts.counts.events_lost = frozen.counts.events_lost;
    recording.manifest.end(started_ns + length_ns, None);
    recording.save_manifest()?;
    Ok(recording.run)
}
