//! The confusion matrix.

use super::judge::Verdict;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Parts smaller than this are left out of the matrix.
const SHOWN: f64 = 0.005;

/// Rows: what was injected. Columns: what was named, in percent of the injected lateness.
pub(super) fn matrix(verdicts: &[Verdict]) -> String {
    let mut text = String::from("Injected lateness by the name it was given, percent\n\n");
    let share = |verdict: &Verdict, source: &str| {
        let total: i64 = verdict.injected_ns.values().sum();
        verdict.injected_ns.get(source).map_or(0.0, |time| *time as f64 / total.max(1) as f64)
    };
    let judged: Vec<&Verdict> = verdicts.iter().filter(|verdict| verdict.p_value.is_none()).collect();
    let columns: BTreeSet<&str> = judged
        .iter()
        .flat_map(|verdict| verdict.injected_ns.keys().map(move |source| (verdict, source.as_str())))
        .filter(|(verdict, source)| share(verdict, source) >= SHOWN)
        .map(|(_, source)| source)
        .collect();
    let _ = write!(text, "{:<16}{:>12}", "injected", "ms");
    // A column is wide enough for its name, and for "100.0*".
    let width = |column: &str| column.len().max(6) + 2;
    for column in &columns {
        let _ = write!(text, "{column:>0$}", width(column));
    }
    text.push('\n');
    for verdict in &judged {
        let total: i64 = verdict.injected_ns.values().sum();
        let _ = write!(text, "{:<16}{:>12.2}", verdict.case, total as f64 / 1e6);
        for column in &columns {
            match share(verdict, column) {
                share if share < SHOWN => {
                    let _ = write!(text, "{:>1$} ", ".", width(column) - 1);
                }
                share => {
                    let mark = if verdict.right.contains(column) { '*' } else { ' ' };
                    let _ = write!(text, "{:>1$.1}{mark}", share * 100.0, width(column) - 1);
                }
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text.push_str("\n* right name for the injected kind\n\n");
    for verdict in verdicts {
        text.push_str(&verdict.line());
        text.push('\n');
    }
    text
}

/// Late time of each pair of blocks by name: what a verdict is computed from.
pub(super) fn stretches(verdict: &Verdict) -> String {
    let mut text = String::from("number,on,name,late_ns\n");
    for stretch in &verdict.stretches {
        for (name, time_ns) in &stretch.sums {
            let _ = writeln!(text, "{},{},{name},{time_ns}", stretch.number, u8::from(stretch.on));
        }
    }
    text
}
