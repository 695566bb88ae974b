//! What the tables of a run time: rows that have a start and an end.

use super::tables_below;
use crate::registry::not_exported;
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

/// A table of rows with a start and an end.
pub(super) struct Spans {
    /// The place of the table in the run.
    pub(super) place: String,
    /// What the ends count: `ns`, `cycles`. Simulated time is in nanoseconds here.
    pub(super) unit: &'static str,
    /// Starts and ends in the order of rows; pieces of one wait, which follow one another, are one.
    pub(super) ends: Vec<(i64, i64)>,
}

/// The tables of a run, and of runs within it, whose rows have a start and an end.
///
/// # Errors
/// A table cannot be read.
pub(super) fn of_run(run: &RunDir, known: &[&'static Table]) -> anyhow::Result<Vec<Spans>> {
    let mut all = Vec::new();
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
        ends.dedup();
        let unit = start.rsplit('_').next().unwrap_or_default();
        let unit = if unit == "fs" { "ns" } else { unit };
        if start.ends_with("_fs") {
            ends.iter_mut().for_each(|(start, end)| (*start, *end) = (*start / 1_000_000, *end / 1_000_000));
        }
        if !ends.is_empty() {
            all.push(Spans { place, unit, ends });
        }
    }
    Ok(all)
}

/// How long each took, over when it began: for kinds whose report has no drawing.
pub(super) fn drawn(tables: Vec<Spans>) -> Document {
    let charts = tables.into_iter().map(|Spans { place, unit, ends }| {
        let (x, y): (Vec<f64>, Vec<f64>) =
            ends.iter().map(|(start, end)| (*start as f64, (end - start) as f64)).unzip();
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
    for Spans { place, ends, .. } in tables.iter().filter(|table| table.unit == "ns") {
        if ends.len() > MOST_SLICES {
            crate::tell!("{place} has {} rows: drawn are the first {MOST_SLICES}", ends.len());
        }
        let slices = (0..).zip(ends.iter().take(MOST_SLICES));
        windows.extend(slices.map(|(seq, &(start_ns, end_ns))| NamedWindow {
            start_ns,
            end_ns,
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
