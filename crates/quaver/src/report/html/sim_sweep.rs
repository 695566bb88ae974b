//! The HTML report of a sweep: a table of its points, and a drawing of each figure over one or two axes. Drawings are made here, so
//! that they need no scripts.

mod drawings;

use super::page::{Tile, micro};
use super::table::Table;
use super::{ReportError, write_head, write_these_scripts};
use crate::digest::sim_sweep::SweepSummary;
use crate::report::RunFacts;
use crate::report::sim_sweep::{cells, columns, compared_with, shown, verdict};
use crate::report::units::count;
use serde::Serialize;
use std::io::Write;

const PAGE: &str = include_str!("../../../assets/report/sim_sweep.html");
/// Rows of the table.
const ROWS: usize = 2_000;

/// Writes the report.
pub fn write_html(out: &mut dyn Write, summary: &SweepSummary, run: &RunFacts) -> Result<(), ReportError> {
    write_head(out, PAGE, &Page::of(summary, run))?;
    write_these_scripts(out, &[])
}

/// Everything that the template shows. Strings of others are escaped by the template; drawings escape what they hold.
#[derive(Serialize)]
struct Page {
    name: String,
    verb: &'static str,
    version: String,
    verdict: String,
    complete: bool,
    tiles: Vec<Tile>,
    warnings: Vec<String>,
    figures: Vec<Figure>,
    keys: Vec<drawings::Key>,
    drawn: &'static str,
    points: Table,
    left_out: Option<String>,
    compared: Option<&'static str>,
    facts: Vec<(String, String)>,
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
        let names = columns(summary, &shown);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let has_slow_down = shown.iter().any(|one| one.column == "slow_down");
        Self {
            name: run.name.clone(),
            verb: "sim sweep",
            version: run.version.clone(),
            verdict: verdict(summary),
            complete: summary.complete,
            tiles: tiles(summary),
            warnings: summary.warnings.iter().cloned().map(micro).collect(),
            figures: figures.filter(|figure| !figure.drawings.is_empty()).collect(),
            keys: drawings::keys(summary),
            drawn: match summary.axes.len() {
                0 => "Nothing was varied, so there is nothing to draw.",
                1 => "Mean over the seeds; the band goes from the least to the largest.",
                2 => {
                    "Mean over the seeds; each drawing has colours of its own, from its least to its largest value; less than 1 % is no difference."
                }
                _ => {
                    "Drawings are made of one or two axes; this sweep has more. Its table is points.parquet."
                }
            },
            points: Table::new(
                &names,
                groups.iter().take(ROWS).map(|group| cells(summary, group, &shown, true)),
            ),
            left_out: (groups.len() > ROWS)
                .then(|| format!("{} more rows are in points.parquet.", count((groups.len() - ROWS) as u64))),
            compared: compared_with(summary).filter(|_| has_slow_down),
            facts: facts(summary, run),
        }
    }
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
    rows.retain(|(_, value)| !value.is_empty());
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sim_sweep::tests::summary;

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
        assert!(page(0).contains("Nothing was varied"));
        assert!(!two.contains("NaN") && !one.contains("NaN"));
    }
}
