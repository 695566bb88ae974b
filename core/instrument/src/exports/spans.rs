//! Pieces of time: rows of a run's tables that have a start and an end, and what a kind timed itself.

use super::tables_below;
use crate::material::Spans;
use crate::registry::{Analyzed, not_exported};
use anyhow::Context;
use quaver_analysis::model::{Names, PacketTable};
use quaver_store::columns::{TableReader, table_name};
use quaver_store::perfetto::{Drawing, NamedWindow, draw};
use quaver_store::run::RunDir;
use quaver_store::table::Table;
use quaver_view::{Axis, Chart, Colour, Data, Document, Group, Quantity, Section, Series, Xy};
use std::io::Write;

/// Slices of a table that a timeline holds: a viewer has all of them in memory.
const MOST_SLICES: usize = 100_000;

/// What its kind timed; else the tables of a run, and of runs within it, whose rows have a start and an end.
///
/// # Errors
/// A table cannot be read.
pub(super) fn of_run(
    run: &RunDir,
    found: &dyn Analyzed,
    known: &[&'static Table],
) -> anyhow::Result<Vec<Spans>> {
    let mut all = found.spans(run)?;
    if !all.is_empty() {
        return Ok(all);
    }
    let tables = tables_below(run.path()).with_context(|| format!("reading {}", run.path().display()))?;
    for (place, path) in tables {
        let name = table_name(&path)?;
        let Some([start, end]) = known.iter().find(|table| table.name == name).and_then(|table| table.span)
        else {
            continue;
        };
        let table = TableReader::open(&path, &name)?;
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        table.optional_i64(start, |_, value| starts.push(value))?;
        table.optional_i64(end, |_, value| ends.push(value))?;
        let mut ends: Vec<(i64, i64)> =
            starts.into_iter().zip(ends).filter_map(|(start, end)| Some((start?, end?))).collect();
        // Pieces of one wait, which follow one another, are one.
        ends.dedup();
        let (unit, divisor) = match start.rsplit('_').next().unwrap_or_default() {
            "fs" => ("ns", 1_000_000),
            unit => (unit, 1),
        };
        if !ends.is_empty() {
            let (starts, lengths) = ends
                .into_iter()
                .map(|(start, end)| (start / divisor, end / divisor - start / divisor))
                .unzip();
            all.push(Spans { place, unit, starts, lengths });
        }
    }
    Ok(all)
}

/// How long each took, over when it began: for kinds whose report has no drawing.
pub(super) fn drawn(tables: Vec<Spans>) -> Document {
    let charts = tables.into_iter().filter(|one| !one.starts.is_empty());
    let charts = charts.map(|Spans { place, unit, starts, lengths }| {
        let [x, y] = [starts, lengths].map(|all| all.into_iter().map(|one| one as f64).collect::<Vec<_>>());
        let [along, up] =
            ["start", "length"].map(|name| Axis::linear(format!("{name} ({unit})"), Quantity::Number));
        let points = Series::new(&place, Colour::Series(0), Data::Points { x: x.into(), y: y.into() });
        Chart::new(place.replace('/', "-"), &place, Xy::new(along, up).with(points))
    });
    let mut document = Document::new("quaver export", "tables");
    document.section(Section::new("tables", "Tables").with(Group::beside(charts)));
    document
}

/// Draws the spans in time as a Perfetto trace, on as many tracks as there are at one time.
///
/// # Errors
/// No table has instants (status 2), or writing failed.
pub(super) fn timeline(tables: &[Spans], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut windows = Vec::new();
    for Spans { place, starts, lengths, .. } in tables.iter().filter(|table| table.unit == "ns") {
        if starts.len() > MOST_SLICES {
            crate::tell!("{place} has {} rows: drawn are the first {MOST_SLICES}", starts.len());
        }
        let slices = (0..).zip(starts.iter().zip(lengths).take(MOST_SLICES));
        windows.extend(slices.map(|(seq, (start, length))| NamedWindow {
            start_ns: *start,
            end_ns: start + length,
            name: place,
            seq,
        }));
    }
    if windows.is_empty() {
        return Err(not_exported("--perfetto: these runs keep no instants; --csv numbers has their numbers"));
    }
    let (names, packets) = (Names::default(), PacketTable::default());
    draw(
        &Drawing { events: &[], names: &names, packets: &packets, windows: &windows, between_ns: None },
        out,
    )?;
    Ok(())
}
