//! `/status`: the same for people.

use crate::board::{Figures, Outcomes};
use quaver_view::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The page.
pub(super) fn page(figures: &Figures) -> String {
    let Figures { receivers, threads, paths, cost, .. } = figures;
    let mut out = String::new();
    for (name, state) in receivers {
        let held = if state.watched {
            format!("{:.1} s held in {:.1} MiB", state.held_ns as f64 / 1e9, mib(state.memory_bytes))
        } else {
            "not watched".to_owned()
        };
        let silent = if state.silent { "; no packet comes" } else { "" };
        let _ = writeln!(out, "{name}: {held}: {}{silent}", state.words);
        let _ = writeln!(
            out,
            "  {}, {} missing, {} dropped; {}, {} more alike; {} not kept, {} not borne out",
            Cell::several(state.received, "packet"),
            Cell::Count(state.missing),
            Cell::Count(state.dropped),
            Cell::several(total(&state.outcomes.incidents), "incident"),
            total(&state.outcomes.folded),
            Cell::several(state.outcomes.suppressed, "trigger"),
            state.outcomes.unconfirmed
        );
        losses(&mut out, state.records_lost, &state.outcomes);
    }
    for (name, state) in threads {
        let watched = if state.watched { "counted" } else { "not watched" };
        let _ = writeln!(out, "{name}: {watched}: {}", state.words);
        let (count, sum_ns) = state.cpus.values().fold((0, 0), |all, cpu| (all.0 + cpu.0, all.1 + cpu.1));
        let _ = writeln!(
            out,
            "  {}, {:.3} s in all; {:.1} s held in {:.1} MiB; {}, {} more alike; {} not kept",
            Cell::several(count, "wait"),
            sum_ns as f64 / 1e9,
            state.held_ns as f64 / 1e9,
            mib(state.memory_bytes),
            Cell::several(total(&state.outcomes.incidents), "incident"),
            total(&state.outcomes.folded),
            Cell::several(state.outcomes.suppressed, "trigger")
        );
        losses(&mut out, state.records_lost, &state.outcomes);
    }
    for (name, state) in paths {
        let watched = if state.watched { "probed" } else { "not probed" };
        let silent = if state.silent { "; no reply comes" } else { "" };
        let sent = Cell::several(state.sent, "packet");
        let _ = writeln!(out, "{name}: {watched}: {}{silent}", state.words);
        let _ = writeln!(
            out,
            "  {sent}, {} lost; {}, {} more alike; {} not kept",
            Cell::Count(state.lost),
            Cell::several(total(&state.outcomes.incidents), "incident"),
            total(&state.outcomes.folded),
            Cell::several(state.outcomes.suppressed, "trigger")
        );
        losses(&mut out, 0, &state.outcomes);
    }
    let _ = writeln!(
        out,
        "own cost without BPF programs: {:.2} % of a CPU lately, {:.1} s in all, {:.1} MiB of memory, {:.1} MiB on disk",
        cost.cpu_percent,
        cost.cpu_ns as f64 / 1e9,
        mib(cost.resident_bytes),
        mib(cost.disk_bytes)
    );
    if cost.waiting_windows > 0 {
        let (windows, bytes) = (cost.waiting_windows, mib(cost.waiting_bytes));
        let _ = writeln!(out, "{windows} windows of {bytes:.1} MiB wait to be written");
    }
    out
}

fn losses(out: &mut String, records: u64, outcomes: &Outcomes) {
    let Outcomes { failed, lost, .. } = outcomes;
    if records + failed + lost > 0 {
        let _ = writeln!(
            out,
            "  {records} records lost, {failed} incidents not written, {lost} lost while the writer was behind"
        );
    }
}

fn total(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().sum()
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
