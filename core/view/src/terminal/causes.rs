//! Causes in rank order, each with what removes it below it.

use super::grid::{Grid, Line, written};
use super::{Style, on_terminal};
use crate::cell::Cell;
use crate::document::{Cause, Causes};
use crate::text::{cut, safe, width, wrap};

/// Blanks before what is said of a cause.
const INDENT: usize = 7;
/// A name is not cut to less.
const LEAST_NAME: usize = 36;

pub(super) fn render(causes: &Causes, style: Style) -> String {
    let shown: Vec<usize> =
        (0..causes.columns.len()).filter(|at| on_terminal(causes.columns[*at].shown)).collect();
    let mut columns = vec![("#".to_owned(), true), ("share".to_owned(), true)];
    columns.extend(shown.iter().map(|at| (safe(&causes.columns[*at].heading), true)));
    columns.push(("source".to_owned(), false));
    let mut grid = Grid { columns, rows: Vec::new() };
    let row = |rank: String, cause: &Cause, rows: &mut Vec<Line>| {
        let mut cells = vec![rank, Cell::Share(cause.share).to_string()];
        let figure =
            |at: &usize| cause.figures.get(*at).map_or_else(String::new, |cell| written(cell, style));
        cells.extend(shown.iter().map(figure));
        let name = safe(&cause.name);
        let short = cut(&name, LEAST_NAME.max(style.columns() / 3));
        let is_cut = short != name;
        cells.push(short);
        rows.push(Line::Cells(Default::default(), cells));
        if is_cut {
            below(rows, "", &name, style, |line| line.to_owned());
        }
        let details = cause.details.iter().map(|detail| safe(&detail.to_string()));
        details.for_each(|detail| below(rows, "", &detail, style, |line| style.dim(line)));
    };
    let first = causes.terminal_first.unwrap_or(usize::MAX).min(causes.causes.len());
    for (rank, cause) in causes.causes[..first].iter().enumerate() {
        row((rank + 1).to_string(), cause, &mut grid.rows);
        remedies(&mut grid.rows, &causes.causes[..rank], cause, style);
    }
    if let Some(smaller) = causes.smaller.as_ref().filter(|_| first < causes.causes.len()) {
        row(String::new(), smaller, &mut grid.rows);
    }
    if let Some(unexplained) = &causes.unexplained {
        row("?".to_owned(), unexplained, &mut grid.rows);
    }
    grid.render(style)
}

/// What removes a cause; said once where several share it.
fn remedies(rows: &mut Vec<Line>, earlier: &[Cause], cause: &Cause, style: Style) {
    let paint = |line: &str| style.remedy(line);
    if cause.remedies.is_empty() {
        return;
    }
    if let Some(same) = earlier.iter().position(|other| other.remedies == cause.remedies) {
        below(rows, "", &format!("remedy: as for {}", same + 1), style, paint);
        return;
    }
    for remedy in &cause.remedies {
        let label = if remedy.when.is_empty() { String::new() } else { format!("{}:", safe(&remedy.when)) };
        let label = if label.is_empty() { label } else { format!("{label:<5} ") };
        below(rows, &label, &safe(&remedy.what.to_string()), style, paint);
    }
}

fn below(rows: &mut Vec<Line>, label: &str, text: &str, style: Style, paint: impl Fn(&str) -> String) {
    let lines = wrap(text, style.columns().saturating_sub(INDENT + width(label)));
    for (at, line) in lines.iter().enumerate() {
        let label = if at == 0 { label.to_owned() } else { " ".repeat(width(label)) };
        rows.push(Line::Whole(format!("{}{}", " ".repeat(INDENT), paint(&format!("{label}{line}")))));
    }
}
