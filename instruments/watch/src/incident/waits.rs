//! An incident of threads: a run of one wait for a CPU.

use super::record::begin;
use super::{Findings, Nothing};
use crate::frozen::ThreadsWindow;
use crate::wait_run::{self, LockFacts, WaitFacts};
use quaver_store::run::RunDir;
use serde_json::json;
use std::path::Path;

/// Writes and analyses it. The kernel's own count of the wait bears the trigger out.
pub(super) fn write(frozen: ThreadsWindow, staging: &Path) -> anyhow::Result<(RunDir, Findings)> {
    let run = record(frozen, staging)?;
    let summary = wait_run::conclude(&run)?;
    let found = Findings {
        leads: None,
        borne_out: true,
        causes: summary.causes,
        unexplained_ns: summary.unexplained.time_ns,
        whole: "wait",
        nothing: Nothing::of("none", "the wait has no length"),
    };
    Ok((run, found))
}

fn record(frozen: ThreadsWindow, staging: &Path) -> anyhow::Result<RunDir> {
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
        lock: frozen.wait.lock.map(|lock| LockFacts {
            address: format!("{:#x}", lock.address),
            holder: lock.waker,
            holder_process: lock.waker_process,
            holder_comm: lock.waker_comm,
        }),
    };
    let more = json!({ "wait": facts });
    let recording = begin(staging, wait_run::VERB, &[frozen.trigger], more, &[], frozen.records)?;
    recording.save_manifest()?;
    Ok(recording.run)
}
