//! `quaver sim sweep expand`: a plan, checked, and its points.

use super::Sweep;
use crate::sweep::args::{SweepExpandArgs, SweepPlaceArgs};
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::results;
use quaver_page::table::{Align, Style, Table};
use quaver_page::units::count;
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
        let document = json!({
            "schema": super::plan::SCHEMA, "name": plan.name, "id": points.id, "plan": plan, "points": all,
            "warnings": points.warnings,
        });
        results::to_stdout(format!("{}\n", serde_json::to_string_pretty(&document)?).as_bytes())?;
        return Ok(ExitCode::Done);
    }
    results::to_stdout(page(&sweep, Style::of_stdout()).as_bytes())?;
    Ok(ExitCode::Done)
}

fn page(sweep: &Sweep, style: Style) -> String {
    let (plan, points) = (&sweep.plan, &sweep.points);
    let sizes: Vec<String> = [format!("{} traces", plan.traces.len())]
        .into_iter()
        .chain(plan.axes.iter().map(|axis| format!("{} of {}", axis.points.len(), axis.name)))
        .chain((!plan.seeds.is_empty()).then(|| format!("{} seeds", plan.seeds.len())))
        .collect();
    let mut out = format!(
        "{} · {} points: {}\n",
        style.bold(&plan.name),
        count(points.all.len() as u64),
        sizes.join(" × ")
    );
    points.warnings.iter().for_each(|warning| out.push_str(&format!("{}\n", style.caution(warning))));
    let mut columns = vec![("point", Align::Right), ("id", Align::Left), ("trace", Align::Left)];
    columns.extend(plan.axes.iter().map(|axis| (axis.name.as_str(), Align::Right)));
    columns.push(("seed", Align::Right));
    let mut table = Table::new(&columns);
    for (number, point) in points.all.iter().enumerate().take(ROWS) {
        let mut cells = vec![number.to_string(), point.id.clone(), plan.traces[point.trace].name.clone()];
        cells.extend(point.labels(plan).map(|(_, label)| label.to_string()));
        cells.push(point.seed.map_or_else(|| "-".to_owned(), |seed| seed.to_string()));
        table.row(cells);
    }
    out.push_str(&table.render(style));
    if points.all.len() > ROWS {
        out.push_str(&format!("  and {} more (--json has all)\n", points.all.len() - ROWS));
    }
    out
}
