//! What a person sees of a sweep: a row for each combination of the axes, seeds taken together, and each figure over
//! one or two axes.

mod charts;

use crate::head;
use crate::sweep::digest::{SeedSpread, SweepGroup, SweepSummary};
use crate::view::simulated;
use quaver_instrument::facts::RunFacts;
use quaver_view::{Block, Cell, Column, Document, Quantity, Section, Shown, Table, Text, text};
use std::collections::BTreeSet;

/// Rows that the terminal shows, that the page shows first, and in all; points.parquet has more.
const ROWS: (usize, usize, usize) = (60, 60, 2_000);
/// The figure whose range over the seeds the terminal has room for.
const RANGED: &str = "slow_down";

/// A figure of points.
#[derive(Clone, Copy)]
struct Figure {
    /// Name of its column.
    column: &'static str,
    /// Heading.
    head: &'static str,
    /// What it is.
    meaning: &'static str,
    /// What it measures, and how many of its units are one of the points' (femtoseconds, for example).
    quantity: Quantity,
    unit: f64,
}

const fn figure(
    column: &'static str,
    head: &'static str,
    meaning: &'static str,
    quantity: Quantity,
) -> Figure {
    Figure { column, head, meaning, quantity, unit: 1.0 }
}

/// Figures that are shown, where points have them.
const FIGURES: [Figure; 8] = [
    Figure { unit: 1e-6, ..figure("duration_fs", "time", "simulated time of the run", Quantity::Duration) },
    figure("cpi", "CPI", "cycles per instruction while a thread ran", Quantity::Number),
    figure("l2_misses_per_1000", "L2 MPKI", "L2 misses per 1000 instructions", Quantity::Number),
    figure(
        "late_per_ms",
        "late per ms",
        "late operations per ms, six classes, as detected by the units",
        Quantity::Number,
    ),
    figure(
        RANGED,
        "slow-down",
        "slow-down of the same instructions over the run without jitter, after warm-up",
        Quantity::Share,
    ),
    figure("mean_factor", "f/f0", "mean f/f0 of busy cores", Quantity::Ratio),
    figure("power", "power", "mean core power over that of busy cores at f0", Quantity::Ratio),
    figure("overflows", "overflows", "waits not measured: unit buffer full", Quantity::Count),
];

impl Figure {
    /// Over the seeds of a combination, in units of the quantity.
    fn spread(&self, group: &SweepGroup<'_>) -> Option<SeedSpread> {
        let SeedSpread { min, mean, max } = group.spread(self.column)?;
        Some(SeedSpread { min: min * self.unit, mean: mean * self.unit, max: max * self.unit })
    }

    fn cell(&self, value: f64) -> Cell {
        match self.quantity {
            Quantity::Duration => simulated((value * 1e6).round() as u64),
            quantity => quantity.cell(value),
        }
    }

    /// From the smallest to the largest of the seeds; missing where these read the same.
    fn range(&self, spread: SeedSpread) -> Cell {
        let (min, max) = (self.cell(spread.min), self.cell(spread.max));
        let differ = min.to_string() != max.to_string();
        Cell::interval(min, max).only_if(differ)
    }
}

/// Figures that some of these points have; overflows only where there were any.
fn figures(groups: &[SweepGroup<'_>]) -> Vec<Figure> {
    let has = |one: &Figure| {
        let mut spreads = groups.iter().filter_map(|group| one.spread(group));
        spreads.any(|spread| one.column != "overflows" || spread.max > 0.0)
    };
    FIGURES.into_iter().filter(has).collect()
}

/// The document.
pub fn document(summary: &SweepSummary, run: &RunFacts) -> Document {
    let (groups, all) = (summary.groups(), summary.points.len() + summary.missing);
    let figures = figures(&groups);
    let mut document = head::document("quaver sim sweep", run);
    document.title.clone_from(&run.directory);
    document.version = env!("CARGO_PKG_VERSION").to_owned();
    document.incomplete = !summary.complete;
    document.fact("points", points(summary));
    let [done, of] = [summary.points.len() as u64, all as u64].map(Cell::Count);
    document.verdict = (all > 0).then(|| text!("{done} of {of} points of the sweep are done."));
    facts(&mut document, summary);
    tiles(&mut document, summary);
    if summary.missing > 0 {
        let share = Cell::part(summary.missing as u64, all as u64);
        document.warn(text!("{} of {all} points are missing ({share}).", summary.missing));
    }
    document.warnings.extend(summary.warnings.iter().map(Text::from));
    document.section(table(summary, &groups, &figures));
    charts::add(&mut document, summary, &groups, &figures);
    document
}

/// What was done, in a line.
fn points(summary: &SweepSummary) -> Text {
    let traces = match summary.traces.len() {
        1 => "1 trace".to_owned(),
        many => format!("{many} traces"),
    };
    let axes = match summary.axes.as_slice() {
        [] => "nothing varied".to_owned(),
        [axis] => format!("{} varied", axis.name),
        axes => format!("{} axes", axes.len()),
    };
    let (done, missing) = (summary.points.len() as u64, summary.missing as u64);
    let of_all = if missing > 0 { format!(" of {}", Cell::Count(done + missing)) } else { String::new() };
    text!("{}{of_all} points: {traces}, {axes}", Cell::Count(done))
}

fn facts(document: &mut Document, summary: &SweepSummary) {
    document.html_fact("plan", text!("{} ({})", summary.name, summary.id));
    document.html_fact("points simulated by", text!("quaver {}", summary.version));
    for fact in &mut document.facts {
        // A sweep may be continued by other commands on other hosts.
        match fact.name.as_str() {
            "command" => fact.name = "initial command".to_owned(),
            "host" => fact.name = "initial host".to_owned(),
            _ => {}
        }
    }
    for axis in &summary.axes {
        let values: Vec<String> = axis.values.iter().map(ToString::to_string).collect();
        document.html_fact(&axis.name, values.join(", "));
    }
}

fn tiles(document: &mut Document, summary: &SweepSummary) {
    let seeds: BTreeSet<u64> = summary.points.iter().filter_map(|row| row.seed).collect();
    let missing = if summary.missing == 0 { Text::from("all") } else { text!("{} missing", summary.missing) };
    document.tile("Points", Cell::Count(summary.points.len() as u64), missing);
    document.tile("Traces", Cell::Count(summary.traces.len() as u64), "");
    if !seeds.is_empty() {
        document.tile("Seeds", Cell::Count(seeds.len() as u64), "of the injected jitter");
    }
    let instructions = summary.points.iter().filter_map(|row| row.figures.get("instructions")?.as_u64());
    let millions = instructions.sum::<u64>() / 1_000_000;
    document.tile("Simulated", Cell::Count(millions), "million instructions");
}

/// What slow-downs are relative to, where there are any.
fn compared_with(summary: &SweepSummary, figures: &[Figure]) -> Option<&'static str> {
    figures.iter().find(|one| one.column == RANGED)?;
    match summary.ideal.as_str() {
        "same-cache" => Some("Slow-down is relative to the run without jitter and controller, same caches."),
        "unified" => {
            Some("Slow-down is relative to the run without jitter and controller, with a unified L2.")
        }
        _ => None,
    }
}

fn table(summary: &SweepSummary, groups: &[SweepGroup<'_>], figures: &[Figure]) -> Section {
    let compared = compared_with(summary, figures);
    // Figures that no seed changes need no range.
    let ranged = |one: &Figure| {
        groups.iter().filter_map(|group| one.spread(group)).any(|spread| one.range(spread) != Cell::Missing)
    };
    let figures: Vec<(&Figure, bool)> = figures.iter().map(|one| (one, ranged(one))).collect();
    let mut columns = vec![Column::new("trace")];
    columns.extend(summary.axes.iter().map(|axis| Column::new(&axis.name)));
    columns.push("seeds".into());
    for (one, ranged) in &figures {
        let range = Column::new(format!("{}, min to max", one.head));
        columns.push(Column::new(one.head).note(one.meaning));
        if *ranged {
            columns.push(if one.column == RANGED { range } else { range.html_only() });
        }
    }
    let mut table = Table::new(columns).terminal_first(ROWS.0).first_rows(ROWS.1);
    for group in groups.iter().take(ROWS.2) {
        let mut cells = vec![Cell::from(&*summary.traces[group.trace])];
        cells.extend(group.values.iter().zip(&summary.axes).map(|(value, axis)| axis.values[*value].cell()));
        cells.push(Cell::Count(group.seeds() as u64));
        for (one, ranged) in &figures {
            let spread = one.spread(group);
            cells.push(spread.map(|spread| one.cell(spread.mean)).into());
            if *ranged {
                cells.push(spread.map(|spread| one.range(spread)).into());
            }
        }
        table.row(cells);
    }
    let mut section =
        Section::new("points", "Points").note("mean over seeds; slow-down also min to max").with(table);
    if groups.len() > ROWS.2 {
        let more = Cell::Count((groups.len() - ROWS.2) as u64);
        section.push(text!("{more} more rows are in points.parquet."));
    }
    if let Some(words) = compared {
        section.push(Block::Note(words.into()));
    }
    section
        .push(Block::Note("Every figure of every point is in points.parquet.".into()).only(Shown::HtmlOnly));
    section
}

#[cfg(test)]
mod tests;
