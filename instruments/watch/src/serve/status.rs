//! `/status`: the same for people.

use crate::board::Figures;
use std::fmt::Write;

/// The page.
pub(super) fn page(figures: &Figures) -> String {
    let Figures { receivers, cost, .. } = figures;
    let mut out = String::new();
    for (name, state) in receivers {
        let held = if state.watched {
            format!("{:.1} s held in {:.1} MiB", state.held_ns as f64 / 1e9, mib(state.memory_bytes))
        } else {
            "not watched".to_owned()
        };
        let _ = writeln!(out, "{name}: {held}: {}", state.words);
        let total = |counts: &std::collections::BTreeMap<String, u64>| counts.values().sum::<u64>();
        let _ = writeln!(
            out,
            "  {} packets, {} missing, {} dropped; {} incidents, {} more alike; {} triggers not kept, {} not borne out",
            state.received,
            state.missing,
            state.dropped,
            total(&state.incidents),
            total(&state.folded),
            state.suppressed,
            state.unconfirmed
        );
        if state.records_lost + state.failed > 0 {
            let _ = writeln!(
                out,
                "  {} records lost, {} incidents not written",
                state.records_lost, state.failed
            );
        }
    }
    let _ = writeln!(
        out,
        "own cost: {:.2} % of a CPU lately, {:.1} s in all, {:.1} MiB of memory, {:.1} MiB on disk",
        cost.cpu_percent,
        cost.cpu_ns as f64 / 1e9,
        mib(cost.resident_bytes),
        mib(cost.disk_bytes)
    );
    out
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
