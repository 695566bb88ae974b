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
    for column in &columns {
        let _ = write!(text, "{column:>13}");
    }
    text.push('\n');
    for verdict in &judged {
        let total: i64 = verdict.injected_ns.values().sum();
        let _ = write!(text, "{:<16}{:>12.2}", verdict.case, total as f64 / 1e6);
        for column in &columns {
            match share(verdict, column) {
                share if share < SHOWN => text.push_str("            ."),
                share => {
                    let mark = if verdict.right.contains(column) { '*' } else { ' ' };
                    let _ = write!(text, "{:>12.1}{mark}", share * 100.0);
                }
            }
        }
        text.push('\n');
    }
    text.push_str("\n* right name for the injected kind\n\n");
    for verdict in verdicts {
        text.push_str(&verdict.line());
        text.push('\n');
    }
    text
}
