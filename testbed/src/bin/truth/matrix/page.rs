//! The matrix as a table.

use super::Cell;
use super::verdict::{Grade, RIGHT_AT_LEAST, WRONG_AT_MOST};
use std::fmt::Write;

/// Wrong identifiers are listed from this share on.
const LISTED: f64 = 0.01;

/// Names of the columns.
pub(super) fn header() -> String {
    format!(
        "{:<11}{:<9}{:<8}{:<8}{:<15}{:>11}{:>7}{:>7}{:>8}{:>7}  {}",
        "receiver",
        "waits",
        "policy",
        "host",
        "cause",
        "added ms/s",
        "right",
        "wrong",
        "silent",
        "A/A",
        "verdict"
    )
}

/// One cell in a line.
pub(super) fn line(cell: &Cell) -> String {
    let verdict = &cell.verdict;
    let percent = |share: Option<f64>| share.map_or("-".into(), |share| format!("{:.1}", share * 100.0));
    let added = verdict.added_ns_per_s.map_or("-".into(), |time_ns| format!("{:.1}", time_ns / 1e6));
    let mut line = format!(
        "{:<11}{:<9}{:<8}{:<8}{:<15}{added:>11}{:>7}{:>7}{:>8}{:>7}  {}",
        cell.receiver,
        cell.waits,
        cell.policy,
        cell.host,
        cell.cause,
        percent(verdict.right_share),
        percent(verdict.wrong_share),
        percent(verdict.silent_share),
        percent(verdict.controls_differ_share),
        word(verdict.grade),
    );
    if let Some(why) = &verdict.why {
        let _ = write!(line, ": {why}");
    }
    let mut wrong: Vec<_> = verdict.wrong_by_source.iter().filter(|(_, share)| **share >= LISTED).collect();
    wrong.sort_by(|a, b| b.1.total_cmp(a.1));
    for (source, share) in wrong {
        let _ = write!(line, "  {source} {:.0} %", share * 100.0);
    }
    line
}

fn word(grade: Grade) -> &'static str {
    match grade {
        Grade::Met => "met",
        Grade::Missed => "MISSED",
        Grade::None => "no verdict",
    }
}

/// All cells, what is not available, and the total.
pub(super) fn table(cells: &[Cell], not_available: &[String]) -> String {
    let mut text = format!("Added lateness by what it was named, percent\n\n{}\n", header());
    for cell in cells {
        let _ = writeln!(text, "{}", line(cell));
    }
    text.push('\n');
    for lack in not_available {
        let _ = writeln!(text, "not available: {lack}");
    }
    let count = |grade: Grade| cells.iter().filter(|cell| cell.verdict.grade == grade).count();
    let _ = writeln!(
        text,
        "{} met, {} missed, {} without a verdict; met is at least {:.0} % right and at most {:.0} % wrong",
        count(Grade::Met),
        count(Grade::Missed),
        count(Grade::None),
        RIGHT_AT_LEAST * 100.0,
        WRONG_AT_MOST * 100.0
    );
    text
}
