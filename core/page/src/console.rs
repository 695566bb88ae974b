//! What console pages have in common.

use super::table::{Style, printable, wrap};
use super::units::{duration, supports};
use quaver_analysis::distribution::Distribution;

/// Widest line of the page, in characters.
pub const WIDTH: usize = 100;

pub fn heading(out: &mut String, style: Style, title: &str, note: &str) {
    out.push('\n');
    out.push_str(&style.bold(title));
    if !note.is_empty() {
        out.push_str(&style.dim(&format!("  {note}")));
    }
    out.push('\n');
}

pub fn cut_short(out: &mut String, complete: bool, style: Style) {
    if !complete {
        let text = "This run was cut short; what follows covers what was kept.";
        out.push_str(&format!("  {}\n", style.alarm(text)));
    }
}

/// The columns of a percentile table, each with how many samples it needs.
pub fn percentiles(distribution: &Distribution) -> [(&'static str, String); 6] {
    let shown = |one_in: u64, ns: i64| {
        if supports(distribution.count, one_in) { duration(ns) } else { "-".to_owned() }
    };
    [
        ("p50", shown(1, distribution.p50_ns)),
        ("p90", shown(10, distribution.p90_ns)),
        ("p99", shown(100, distribution.p99_ns)),
        ("p99.9", shown(1_000, distribution.p99_9_ns)),
        ("p99.99", shown(10_000, distribution.p99_99_ns)),
        ("p99.999", shown(100_000, distribution.p99_999_ns)),
    ]
}

pub fn warnings(out: &mut String, warnings: &[String], style: Style) {
    if warnings.is_empty() {
        return;
    }
    heading(out, style, "Warnings", "");
    for warning in warnings {
        for (at, line) in wrap(&printable(warning), WIDTH - 4).iter().enumerate() {
            let mark = if at == 0 { style.caution("!") } else { " ".to_owned() };
            out.push_str(&format!("  {mark} {line}\n"));
        }
    }
}
