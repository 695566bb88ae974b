//! Runs as a person sees them.

use super::row::{RunRow, unit_of};
use quaver_view::{
    Axis, Cell, Chart, Colour, Data, Document, Group, Numbers, Quantity, Section, Series, Table, Text, Unit,
    Xy, text,
};
use std::collections::BTreeMap;
use std::path::Path;

/// Rows of the index before the reader asks for more.
const FIRST: usize = 100;

fn headline(row: &RunRow) -> Cell {
    row.headline.as_ref().map_or(Cell::Missing, |(path, value)| unit_of(path).cell(*value))
}

/// What the headline number is: the end of its path that a reader needs.
fn figure(row: &RunRow) -> Text {
    row.headline.as_ref().map_or_else(Text::default, |(path, _)| path.as_str().into())
}

/// When it started, to the minute: `2026-11-20 16:58`.
fn minutes(row: &RunRow) -> String {
    row.listed.manifest.started.chars().take(16).collect::<String>().replace('T', " ")
}

fn state(row: &RunRow) -> &'static str {
    if row.listed.manifest.complete { "" } else { "incomplete" }
}

/// The list on the terminal.
pub(super) fn list(rows: &[RunRow]) -> Document {
    let bytes: u64 = rows.iter().map(|row| row.bytes).sum();
    let mut document = Document::new(
        "quaver runs",
        format!("{}, {}", Cell::several(rows.len() as u64, "run"), Cell::Bytes(bytes)),
    );
    let table = Table::of(
        rows,
        &[
            ("run", &|row| Cell::Text(row.listed.run.name().into())),
            ("when", &|row| Cell::Text(minutes(row).into())),
            ("figure", &|row| Cell::Text(figure(row))),
            ("value", &|row| headline(row)),
            ("size", &|row| Cell::Bytes(row.bytes)),
            ("tags", &|row| Cell::Text(row.listed.tags.join(", ").into())),
            ("", &|row| Cell::Text(state(row).into())),
        ],
    );
    let table = table.empty("no run is here, or none is asked for");
    document.section(Section::new("runs", "Runs").with(table));
    document
}

/// One run.
pub(super) fn one(row: &RunRow) -> Document {
    let (run, manifest) = (&row.listed.run, &row.listed.manifest);
    let mut document = Document::new("quaver runs", run.name());
    let command = manifest.asked.get("command").and_then(serde_json::Value::as_str).unwrap_or_default();
    document
        .fact("directory", run.path().display().to_string())
        .fact("command", command)
        .fact("when", &manifest.started)
        .fact("host", row.host())
        .fact("tags", row.listed.tags.join(", "))
        .fact("size", text!("{}", Cell::Bytes(row.bytes)));
    if row.headline.is_some() {
        document.fact("headline", text!("{} {}", figure(row), headline(row)));
    }
    if let Some(reason) = manifest.incomplete_reason() {
        document.warn(text!("the run is incomplete: {reason}"));
    }
    document
}

/// The page of all runs, which lies in `folder`.
pub(super) fn index(rows: &[RunRow], folder: &Path) -> Document {
    let mut document = list(rows);
    document.version = env!("CARGO_PKG_VERSION").into();
    let mut table = Table::new(["run", "verb", "when (UTC)", "host", "figure", "value", "size", "tags", ""]);
    for row in rows {
        let report = row.listed.run.report();
        let name = row.listed.run.name();
        let name = match report.is_file() {
            true => Cell::Link { words: name, path: relative(&report, folder) },
            false => Cell::Text(name.into()),
        };
        table.row([
            name,
            Cell::Text(row.verb().into()),
            Cell::Text(minutes(row).into()),
            Cell::Text(row.host().into()),
            Cell::Text(figure(row)),
            headline(row),
            Cell::Bytes(row.bytes),
            Cell::Text(row.listed.tags.join(", ").into()),
            Cell::Text(state(row).into()),
        ]);
    }
    let charts: Vec<Chart> = by_figure(rows)
        .into_iter()
        .enumerate()
        .map(|(at, (figure, runs))| over_time(at, figure, &runs))
        .collect();
    document.sections.clear();
    if !charts.is_empty() {
        document.section(
            Section::new("time", "Headline numbers over time")
                .note("the oldest run first")
                .with(Group::beside(charts)),
        );
    }
    document.section(Section::new("runs", "Runs").with(table.first_rows(FIRST)));
    document
}

/// Runs by verb and headline number, the oldest first, where there are two or more.
fn by_figure(rows: &[RunRow]) -> BTreeMap<(&str, &str), Vec<(i64, f64)>> {
    let mut all: BTreeMap<(&str, &str), Vec<(i64, f64)>> = BTreeMap::new();
    for row in rows {
        if let Some((path, value)) = &row.headline {
            all.entry((row.verb(), path))
                .or_default()
                .push((row.listed.manifest.started_realtime_ns, *value));
        }
    }
    all.retain(|_, runs| runs.len() > 1);
    all.values_mut().for_each(|runs| runs.sort_by_key(|(when, _)| *when));
    all
}

fn over_time(at: usize, (verb, figure): (&str, &str), runs: &[(i64, f64)]) -> Chart {
    let quantity = match unit_of(figure) {
        Unit::Duration => Quantity::Duration,
        Unit::Share => Quantity::Share,
        _ => Quantity::Number,
    };
    let y = if runs.iter().all(|(_, value)| *value > 0.0) {
        Axis::log(figure, quantity)
    } else {
        Axis::linear(figure, quantity)
    };
    let (x, values): (Vec<f64>, Vec<f64>) =
        runs.iter().enumerate().map(|(at, (_, value))| (at as f64 + 1.0, *value)).unzip();
    let line = Data::Line { x: Numbers(x), y: Numbers(values), marks: true };
    let plot =
        Xy::new(Axis::linear("run", Quantity::Count), y).with(Series::new(verb, Colour::Series(0), line));
    Chart::new(format!("headline-{at}"), format!("{verb}: {figure}"), plot)
}

/// The way from a folder to a file; absolute where they have nothing in common.
fn relative(file: &Path, folder: &Path) -> String {
    let whole =
        |path: &Path| std::path::absolute(Path::new(".").join(path)).unwrap_or_else(|_| path.to_owned());
    let (file, folder) = (whole(file), whole(folder));
    let shared = file.components().zip(folder.components()).take_while(|(one, other)| one == other).count();
    let mut way: Vec<String> = folder.components().skip(shared).map(|_| "..".to_owned()).collect();
    way.extend(file.components().skip(shared).map(|part| part.as_os_str().to_string_lossy().into_owned()));
    way.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_linked_from_where_the_page_lies() {
        let of = |file: &str, folder: &str| relative(Path::new(file), Path::new(folder));
        assert_eq!(of("/a/runs/x/report.html", "/a/runs"), "x/report.html");
        assert_eq!(of("/a/runs/x/report.html", "/a/pages/new"), "../../runs/x/report.html");
        assert_eq!(of("runs/x/report.html", ""), "runs/x/report.html");
    }
}
