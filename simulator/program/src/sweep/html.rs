//! The HTML report of a sweep: a table of its points, and a drawing of each figure over one or two axes. Drawings are made here, so
//! that they need no scripts.

mod drawings;

use crate::sweep::digest::{SweepGroup, SweepSummary};
use crate::sweep::page::{Shown, columns, compared_with, names, range_text, shown, verdict};
use quaver_page::RunFacts;
use quaver_page::html::ReportError;
use quaver_page::html::drawn::{Frame, write_drawn};
use quaver_page::html::page::{Tile, micro};
use quaver_page::units::count;
use serde::Serialize;
use std::io::Write;

const PAGE: &str = include_str!("../../../../core/page/assets/report/sim_sweep.html");
/// Rows of the table.
const ROWS: usize = 2_000;

/// Writes the report.
pub fn write_html(out: &mut dyn Write, summary: &SweepSummary, run: &RunFacts) -> Result<(), ReportError> {
    write_drawn(out, PAGE, &Page::of(summary, run))
}

/// Everything that the template shows. Strings of others are escaped by the template; drawings escape what they hold.
#[derive(Serialize)]
struct Page {
    #[serde(flatten)]
    frame: Frame,
    figures: Vec<Figure>,
    keys: Vec<drawings::Key>,
    drawn: &'static str,
    columns: Vec<String>,
    points: Vec<Row>,
    left_out: Option<String>,
    compared: Option<&'static str>,
}

/// A combination: what it is, and its figures.
#[derive(Serialize)]
struct Row {
    names: Vec<String>,
    figures: Vec<Cell>,
}

/// Mean over the seeds, and from where to where they go.
#[derive(Serialize)]
struct Cell {
    mean: String,
    range: Option<String>,
}

/// A figure with its drawings.
#[derive(Serialize)]
struct Figure {
    head: &'static str,
    meaning: &'static str,
    drawings: Vec<drawings::Drawing>,
}

impl Page {
    fn of(summary: &SweepSummary, run: &RunFacts) -> Self {
        let groups = summary.groups();
        let shown = shown(&groups);
        let figures = shown.iter().map(|one| Figure {
            head: one.head,
            meaning: one.meaning,
            drawings: drawings::of(summary, &groups, one),
        });
        let has_slow_down = shown.iter().any(|one| one.column == "slow_down");
        Self {
            frame: Frame::of("sim sweep", run, []).with_facts(facts(summary, run)).saying(
                verdict(summary),
                summary.complete,
                tiles(summary),
                &summary.warnings,
            ),
            figures: figures.filter(|figure| !figure.drawings.is_empty()).collect(),
            keys: drawings::keys(summary),
            drawn: match summary.axes.len() {
                0 => "Nothing was varied, so nothing is drawn.",
                1 => {
                    "Mean over the seeds; the band goes from the least to the largest. A scale is logarithmic where traces are far apart."
                }
                2 => {
                    "Mean over the seeds; each drawing has colours of its own, from its least to its largest value; less than 1 % is no difference."
                }
                _ => "Sweeps over one or two axes are drawn; this one has more.",
            },
            columns: columns(summary, &shown),
            points: groups.iter().take(ROWS).map(|group| row(summary, group, &shown)).collect(),
            left_out: (groups.len() > ROWS)
                .then(|| format!("{} more rows are in points.parquet.", count((groups.len() - ROWS) as u64))),
            compared: compared_with(summary).filter(|_| has_slow_down),
        }
    }
}

fn row(summary: &SweepSummary, group: &SweepGroup<'_>, shown: &[Shown]) -> Row {
    let cell = |one: &Shown| match group.spread(one.column) {
        Some(spread) => {
            Cell { mean: micro((one.text)(spread.mean)), range: range_text(one, spread).map(micro) }
        }
        None => Cell { mean: "-".to_owned(), range: None },
    };
    Row { names: names(summary, group), figures: shown.iter().map(cell).collect() }
}

fn tiles(summary: &SweepSummary) -> Vec<Tile> {
    let seeds: std::collections::BTreeSet<u64> = summary.points.iter().filter_map(|row| row.seed).collect();
    let mut tiles = vec![
        Tile {
            name: "Points",
            value: count(summary.points.len() as u64),
            note: if summary.missing == 0 {
                "all".to_owned()
            } else {
                format!("{} missing", summary.missing)
            },
        },
        Tile { name: "Traces", value: summary.traces.len().to_string(), note: String::new() },
    ];
    if !seeds.is_empty() {
        tiles.push(Tile {
            name: "Seeds",
            value: seeds.len().to_string(),
            note: "of what was injected".to_owned(),
        });
    }
    let instructions = summary.points.iter().filter_map(|row| row.figures.get("instructions")?.as_u64());
    tiles.push(Tile {
        name: "Simulated",
        value: count(instructions.sum::<u64>() / 1_000_000),
        note: "million instructions of threads".to_owned(),
    });
    tiles
}

fn facts(summary: &SweepSummary, run: &RunFacts) -> Vec<(String, String)> {
    let mut rows = vec![
        ("Sweep".to_owned(), run.directory.clone()),
        ("Plan".to_owned(), format!("{} ({})", summary.name, summary.id)),
        ("Points simulated by".to_owned(), format!("quaver {}", summary.version)),
        ("Command that began it".to_owned(), run.command.clone()),
        ("Host that began it".to_owned(), run.host.clone()),
    ];
    for axis in &summary.axes {
        let values: Vec<String> = axis.values.iter().map(ToString::to_string).collect();
        rows.push((axis.name.clone(), values.join(", ")));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::page::tests::summary;

    fn page(axes: usize) -> String {
        let mut out = Vec::new();
        let run = RunFacts { name: "sweep-sizes".to_owned(), ..RunFacts::default() };
        write_html(&mut out, &summary(axes), &run).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn one_axis_is_drawn_as_lines_and_two_as_maps() {
        let one = page(1);
        assert_eq!(one.matches("<polyline").count(), 2 * 2, "time and slow-down, each of two traces");
        assert!(one.contains(">l2.kib<") && one.contains("ocean"), "axis and key");
        let two = page(2);
        assert_eq!(
            two.matches("class=\"cell\"").count(),
            2 * 2 * 4,
            "two figures, two traces, four combinations"
        );
        assert!(two.contains("&lt;os&gt;") && !two.contains("<os>"), "names are escaped");
        let none = page(0);
        assert!(none.contains("Nothing was varied") && !none.contains("id=\"figures\""), "no empty section");
        assert!(one.contains("<span class=\"detail\">+0.10 % to +0.20 %</span>"), "ranges stand below");
        assert!(!two.contains("NaN") && !one.contains("NaN"));
    }
}
