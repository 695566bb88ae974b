//! Points brought together: one table, the same bytes whoever simulated them.

use super::place::SweepDirectory;
use super::plan::Plan;
use super::point::{Point, Points};
use super::row::{self, Kind, PointResult};
use crate::sweep::digest::{Label, SCHEMA, SweepAxis, SweepRow, SweepSummary};
use crate::sweep::points::{SweepColumn, SweepValues, write_sweep};
use quaver_dvfs::dvfs::Table;
use quaver_instrument::exit_code::{ExitCode, failure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Points that are named one by one in a sentence.
const NAMED: usize = 3;

/// What is gathered.
pub(super) struct Gathered<'a> {
    plan: &'a Plan,
    points: &'a Points,
    /// In the order of the plan.
    rows: Vec<(usize, PointResult)>,
}

fn refused(message: String) -> anyhow::Error {
    failure(ExitCode::BadInput, message)
}

/// Reads the points of a plan from some directories.
///
/// # Errors
/// A point is there twice, is none of the plan's, is of another version, or is missing unless `partial`.
pub(super) fn gather<'a>(
    plan: &'a Plan,
    points: &'a Points,
    sources: &[SweepDirectory],
    partial: bool,
) -> anyhow::Result<Gathered<'a>> {
    let mut found: BTreeMap<String, &SweepDirectory> = BTreeMap::new();
    let known: BTreeSet<&str> = points.all.iter().map(|point| point.id.as_str()).collect();
    for source in sources {
        for id in source.done()? {
            if !known.contains(id.as_str()) {
                return Err(refused(format!(
                    "{}: point {id} is none of the sweep {}'s; take it out of points/, or gather it with the plan that \
                     it is of",
                    source.path().display(),
                    plan.name
                )));
            }
            if let Some(other) = found.insert(id.clone(), source) {
                return Err(refused(format!(
                    "point {} is in {} and in {}: parts must not overlap; leave one of the directories out, or take \
                     points/{id}.json out of one",
                    words_of(plan, points, &id),
                    other.path().display(),
                    source.path().display()
                )));
            }
        }
    }
    let missing: Vec<&Point> = points.all.iter().filter(|point| !found.contains_key(&point.id)).collect();
    if !partial && !missing.is_empty() {
        return Err(refused(missing_words(plan, points, &missing, sources)));
    }
    let mut rows = Vec::with_capacity(found.len());
    for (number, point) in points.all.iter().enumerate() {
        if let Some(source) = found.get(&point.id) {
            rows.push((number, source.read_point(&point.id)?));
        }
    }
    let gathered = Gathered { plan, points, rows };
    gathered.check()?;
    Ok(gathered)
}

fn words_of(plan: &Plan, points: &Points, id: &str) -> String {
    let point = points.all.iter().find(|point| point.id == id);
    point.map_or_else(|| id.to_owned(), |point| format!("{id} ({})", point.words(plan)))
}

fn missing_words(plan: &Plan, points: &Points, missing: &[&Point], sources: &[SweepDirectory]) -> String {
    let named: Vec<String> = missing.iter().take(NAMED).map(|point| point.words(plan)).collect();
    let more =
        if missing.len() > NAMED { format!("; and {} more", missing.len() - NAMED) } else { String::new() };
    let place = sources.first().map_or_else(String::new, |source| source.path().display().to_string());
    format!(
        "{} of {} points of {} are missing: {}{more}. Go on with quaver sim sweep run {place}, or gather the rest with \
         --partial",
        missing.len(),
        points.all.len(),
        plan.name,
        named.join("; ")
    )
}

impl Gathered<'_> {
    fn check(&self) -> anyhow::Result<()> {
        let columns = self.columns();
        let Some((_, first)) = self.rows.first() else { return Ok(()) };
        for (number, done) in &self.rows {
            let words = || format!("point {} ({})", done.id, self.points.all[*number].words(self.plan));
            if done.version != first.version {
                return Err(refused(format!(
                    "{} was simulated by version {} and {} by version {}; simulate all with one of them (remove the \
                     points of the other)",
                    words(),
                    done.version,
                    first.id,
                    first.version
                )));
            }
            for (name, value) in &done.figures {
                let kind = columns.iter().find(|(column, _)| column == name).map(|(_, kind)| *kind);
                let fits = match kind {
                    Some(Kind::Whole) => value.is_u64(),
                    Some(Kind::Signed) => value.is_i64() || value.is_u64(),
                    Some(Kind::Real) => value.is_number(),
                    None => false,
                };
                if !fits {
                    return Err(refused(format!(
                        "{}: {name} = {value} is no figure of it; remove its file, and it is simulated again",
                        words()
                    )));
                }
            }
        }
        Ok(())
    }

    /// The figures' columns, with those of every operating point that the plan has.
    fn columns(&self) -> Vec<(String, Kind)> {
        let mut tables: Vec<Table> = Vec::new();
        for point in &self.points.all {
            let Some(cure) = &point.setting.cure else { continue };
            let rest = || Table { points: vec![], rest: 0, ..Table::default() };
            let table = cure.dvfs.as_ref().map_or_else(rest, |dvfs| dvfs.table.clone());
            if !tables.contains(&table) {
                tables.push(table);
            }
        }
        let mut factors: BTreeSet<String> = tables.iter().flat_map(row::factor_columns).collect();
        if !tables.is_empty() {
            factors.insert(row::REST_COLUMN.to_owned());
        }
        row::columns(&factors.into_iter().collect::<Vec<_>>())
    }

    /// How many points are missing.
    pub(super) fn missing(&self) -> usize {
        self.points.all.len() - self.rows.len()
    }

    /// Writes `points.parquet`.
    pub(super) fn write_table(&self, path: &Path) -> anyhow::Result<()> {
        let point = |number: usize| &self.points.all[number];
        let text = |of: &dyn Fn(usize) -> String| {
            SweepValues::Text(self.rows.iter().map(|(number, _)| Some(of(*number))).collect())
        };
        let column = |name: &str, values| SweepColumn { name: name.to_owned(), values };
        let mut columns = vec![
            column(
                "point",
                SweepValues::U64(self.rows.iter().map(|(number, _)| Some(*number as u64)).collect()),
            ),
            column("id", text(&|number| point(number).id.clone())),
            column("trace", text(&|number| self.plan.traces[point(number).trace].name.clone())),
        ];
        for (at, axis) in self.plan.axes.iter().enumerate() {
            let labels: Vec<&Label> =
                self.rows.iter().map(|(number, _)| &axis.points[point(*number).values[at]].label).collect();
            let all: Vec<&Label> = axis.points.iter().map(|point| &point.label).collect();
            columns.push(column(&axis.name, axis_values(&all, &labels)));
        }
        columns.push(column(
            "seed",
            SweepValues::U64(self.rows.iter().map(|(number, _)| point(*number).seed).collect()),
        ));
        for (name, kind) in self.columns() {
            let figures = self.rows.iter().map(|(_, done)| done.figures.get(&name));
            let values = match kind {
                Kind::Whole => SweepValues::U64(figures.map(|value| value?.as_u64()).collect()),
                Kind::Signed => SweepValues::I64(figures.map(|value| value?.as_i64()).collect()),
                Kind::Real => SweepValues::F64(figures.map(|value| value?.as_f64()).collect()),
            };
            columns.push(SweepColumn { name, values });
        }
        Ok(write_sweep(path, &columns)?)
    }

    /// The same for people and programs that read JSON.
    pub(super) fn summary(&self) -> SweepSummary {
        let row = |(number, done): &(usize, PointResult)| {
            let point = &self.points.all[*number];
            SweepRow {
                point: *number,
                id: point.id.clone(),
                trace: point.trace,
                values: point.values.clone(),
                seed: point.seed,
                figures: done.figures.clone(),
            }
        };
        let axis = |axis: &super::axis::Axis| SweepAxis {
            name: axis.name.clone(),
            values: axis.points.iter().map(|point| point.label.clone()).collect(),
        };
        let mut warnings = self.points.warnings.clone();
        let dropped = |(_, done): &&(usize, PointResult)| {
            done.figures.get("overflows").and_then(Value::as_u64).is_some_and(|overflows| overflows > 0)
        };
        match self.rows.iter().filter(dropped).count() {
            0 => {}
            some => warnings.push(format!(
                "in {some} points a buffer of a jitter unit was full, so that waits were not measured (overflows)"
            )),
        }
        if self.missing() > 0 {
            warnings.push(format!("{} of {} points are missing", self.missing(), self.points.all.len()));
        }
        SweepSummary {
            schema: SCHEMA.to_owned(),
            complete: self.missing() == 0,
            name: self.plan.name.clone(),
            id: self.points.id.clone(),
            version: self
                .rows
                .first()
                .map_or_else(|| self.plan.version.clone(), |(_, done)| done.version.clone()),
            traces: self.plan.traces.iter().map(|trace| trace.name.clone()).collect(),
            axes: self.plan.axes.iter().map(axis).collect(),
            ideal: self.plan.ideal.name().to_owned(),
            missing: self.missing(),
            points: self.rows.iter().map(row).collect(),
            warnings,
        }
    }
}

/// An axis' column: whole numbers or numbers where all its values are, else text.
fn axis_values(all: &[&Label], rows: &[&Label]) -> SweepValues {
    let integer = |label: &&Label| if let Label::Integer(number) = label { Some(*number) } else { None };
    if all.iter().all(|label| integer(label).is_some()) {
        return SweepValues::I64(rows.iter().map(integer).collect());
    }
    if all.iter().all(|label| label.number().is_some()) {
        return SweepValues::F64(rows.iter().map(|label| label.number()).collect());
    }
    SweepValues::Text(rows.iter().map(|label| Some(label.to_string())).collect())
}

/// Writes table, summary and report of what was gathered.
pub(super) fn store(gathered: &Gathered<'_>, place: &SweepDirectory, plan: &Plan) -> anyhow::Result<()> {
    let summary = gathered.summary();
    gathered.write_table(&place.table())?;
    place.write_manifest(plan, summary.complete)?;
    place.run()?.write_summary(&summary)?;
    Ok(())
}
