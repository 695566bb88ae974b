//! `quaver sim sweep expand`: a plan, checked, and its points.

use super::Sweep;
use crate::sweep::args::{SweepExpandArgs, SweepPlaceArgs};
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::results::{self, Found};
use quaver_instrument::terminal;
use quaver_view::{Block, Cell, Document, Section, Table, Text, text};
use serde_json::json;

/// Rows that are printed; JSON has all.
const ROWS: usize = 200;

/// Prints the points.
pub(super) fn run(args: &SweepExpandArgs) -> anyhow::Result<ExitCode> {
    let sweep = Sweep::find(&SweepPlaceArgs { plan: args.plan.clone(), output: "runs".into() })?;
    let (plan, points) = (&sweep.plan, &sweep.points);
    if args.json {
        let all: Vec<_> = points
            .all
            .iter()
            .enumerate()
            .map(|(number, point)| {
                let values: serde_json::Map<_, _> = point
                    .labels(plan)
                    .map(|(axis, label)| (axis.name.clone(), serde_json::to_value(label).unwrap_or_default()))
                    .collect();
                json!({
                    "point": number, "id": point.id, "trace": plan.traces[point.trace].name, "values": values,
                    "seed": point.seed,
                })
            })
            .collect();
        let summary = json!({
            "schema": super::plan::SCHEMA, "name": plan.name, "id": points.id, "plan": plan, "points": all,
            "warnings": points.warnings,
        });
        return results::print(&Found::new(&summary), || document(&sweep), true, &[]);
    }
    terminal::print(&document(&sweep))?;
    Ok(ExitCode::Done)
}

fn document(sweep: &Sweep) -> Document {
    let (plan, points) = (&sweep.plan, &sweep.points);
    let sizes: Vec<String> = [format!("{} traces", plan.traces.len())]
        .into_iter()
        .chain(plan.axes.iter().map(|axis| format!("{} of {}", axis.points.len(), axis.name)))
        .chain((!plan.seeds.is_empty()).then(|| format!("{} seeds", plan.seeds.len())))
        .collect();
    let mut document = Document::new("quaver sim sweep expand", &plan.name);
    let all = Cell::Count(points.all.len() as u64);
    document.fact("points", text!("{all} points: {}", sizes.join(" × ")));
    document.warnings = points.warnings.iter().map(Text::from).collect();
    let mut columns = vec!["point", "id", "trace"];
    columns.extend(plan.axes.iter().map(|axis| axis.name.as_str()));
    columns.push("seed");
    let mut table = Table::new(columns).terminal_first(ROWS);
    for (number, point) in points.all.iter().enumerate() {
        let trace = plan.traces[point.trace].name.as_str();
        let mut cells = vec![Cell::Index(number as u64), point.id.as_str().into(), trace.into()];
        cells.extend(point.labels(plan).map(|(_, label)| label.cell()));
        cells.push(point.seed.map(Cell::Index).into());
        table.row(cells);
    }
    let mut section = Section::new("points", "Points").with(table);
    if points.all.len() > ROWS {
        section.push(Block::Note("--json has all of them.".into()));
    }
    document.section(section);
    document
}
