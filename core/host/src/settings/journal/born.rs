//! Kernel threads that were born while kthreadd was kept to some CPUs. They inherit its CPUs, and no change of theirs is in
//! the journal: they belong to the change of kthreadd, which ends only when they have its old CPUs, too.

use super::super::contact::{self, Contact};
use super::super::error::TuneError;
use super::super::kernel_threads::{KTHREADD, KernelThread, born_since};
use super::super::knob::Knob;
use super::state::{Entry, JournalSummary};
use crate::root::parse_cpu_list;
use std::time::{Duration, SystemTime};

/// A thread may be this much older than the clocks tell: a tick, and the reading of two clocks.
const SLACK: Duration = Duration::from_millis(20);

/// Whether this is a change of kthreadd's CPUs.
pub(super) fn is_of_kthreadd(entry: &Entry) -> bool {
    entry.knob == Knob::Thread { tid: KTHREADD }
}

/// Threads that have the CPUs that this change gave kthreadd, were born since, and are unknown to the journal.
pub(super) fn inherited(contact: &dyn Contact, state: &JournalSummary, entry: &Entry) -> Vec<KernelThread> {
    let root = contact.root();
    let began = state.sessions.get(&entry.session).map_or(0, |session| session.realtime_ns);
    let ago = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH + Duration::from_nanos(began.try_into().unwrap_or(0)))
        .unwrap_or_default();
    let uptime = root.text("/proc/uptime").and_then(|text| text.split_whitespace().next()?.parse().ok());
    let Some(uptime) = uptime.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) else {
        return Vec::new();
    };
    let cpus = parse_cpu_list(&entry.ours().shown());
    let mut threads = born_since(root, uptime.saturating_sub(ago + SLACK), &cpus);
    threads.retain(|thread| {
        let knob = Knob::Thread { tid: thread.tid };
        let identity = contact::identity(contact, &knob);
        !state.entries.iter().any(|known| known.knob == knob && known.identity == identity)
    });
    threads
}

/// Gives a thread the CPUs that kthreadd had.
pub(super) fn mend(contact: &dyn Contact, entry: &Entry, thread: &KernelThread) -> Result<(), TuneError> {
    let knob = Knob::Thread { tid: thread.tid };
    match contact::write(contact, &knob, &entry.before.0) {
        // It has ended, or cannot be moved by anybody: nothing is left to do.
        Err(TuneError::Vanished { .. } | TuneError::Refused { .. }) => Ok(()),
        other => other,
    }
}
