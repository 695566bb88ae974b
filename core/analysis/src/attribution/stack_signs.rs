//! What functions of the kernel on a sleeper's stack say of its sleep. Each symbol is looked at once: a receiver may sleep a
//! hundred thousand times a second.

use crate::model::Names;
use std::collections::HashMap;

/// Memory is reclaimed.
pub(super) const RECLAIM: u8 = 1;
/// A disk or file system is waited for.
pub(super) const DISK: u8 = 2;
/// A lock of the kernel is waited for.
pub(super) const KERNEL_LOCK: u8 = 4;
/// The scheduler, waiting in general, or the recording.
const SCHEDULER: u8 = 8;
/// A child made by vfork is waited for, until it ends or starts a program.
pub(super) const CHILD: u8 = 16;

const PARTS: [(u8, &[&str]); 4] = [
    (RECLAIM, &["reclaim", "shrink_", "swap", "compact_zone", "mem_cgroup_handle_over_high"]),
    (
        DISK,
        &[
            "blk_",
            "submit_bio",
            "folio_wait",
            "wait_on_buffer",
            "jbd2",
            "writeback",
            "balance_dirty",
            "wb_wait",
            "iterate_supers",
            "_sync_fs",
        ],
    ),
    (KERNEL_LOCK, &["rwsem_down", "mutex_lock", "percpu_down", "rtlock", "rt_mutex"]),
    (CHILD, &["kernel_clone", "wait_for_vfork_done"]),
];

const SCHEDULER_PREFIXES: [&str; 14] = [
    "bpf_",
    "__bpf",
    "__traceiter",
    "schedule",
    "__schedule",
    "__cond_resched",
    "preempt_schedule",
    "io_schedule",
    "_cond_resched",
    "__might_resched",
    "raw_irqentry",
    "rcu_",
    // What is waited for stands above them.
    "wait_for_completion",
    "__wait_for_common",
];

/// Signs of symbols, by their addresses. Those without a name have none.
pub(super) struct StackSigns(HashMap<u64, u8>);

impl StackSigns {
    pub(super) fn of(names: &Names) -> Self {
        let named = names.symbol.iter().filter(|(_, name)| !function(name).is_empty());
        Self(named.map(|(address, name)| (*address, signs(function(name)))).collect())
    }

    /// Whether a function of the stack has the sign.
    pub(super) fn any(&self, frames: &[u64], sign: u8) -> bool {
        frames.iter().any(|frame| self.0.get(frame).is_some_and(|signs| signs & sign != 0))
    }

    /// The innermost function of a stack that is none of the scheduler's, of waiting in general or of the recording's; 0 where
    /// there is none.
    pub(super) fn leaf(&self, frames: &[u64]) -> u64 {
        let own = |frame: &&u64| self.0.get(frame).is_some_and(|signs| signs & SCHEDULER == 0);
        frames.iter().find(own).copied().unwrap_or(0)
    }
}

/// A symbol without the suffixes that compilers and kallsyms add (`.isra.0`, `+0x0/0x40`).
pub(super) fn function(symbol: &str) -> &str {
    symbol.split(['.', '+']).next().unwrap_or(symbol)
}

fn signs(function: &str) -> u8 {
    let has = |parts: &[&str]| parts.iter().any(|part| function.contains(part));
    let found = PARTS.iter().filter(|(_, parts)| has(parts)).fold(0, |signs, (sign, _)| signs | sign);
    let scheduler = SCHEDULER_PREFIXES.iter().any(|prefix| function.starts_with(prefix));
    found | if scheduler { SCHEDULER } else { 0 }
}
