//! What a person sees of a file of another tool.

use crate::result::{Figures, Measurement, Quantity, Values};
use quaver_view::{Cell, Document, Section, Table, Text, Unit, text};

/// The document.
pub(crate) fn document(name: &str, found: &Measurement) -> Document {
    let mut document = Document::new("quaver analyze", name);
    document.version = env!("CARGO_PKG_VERSION").into();
    let version = found.version.as_deref().unwrap_or_default();
    document.fact("tool", format!("{} {version}", found.tool).trim_end());
    document.fact("command", found.command.as_deref().unwrap_or_default());
    document.fact("start", found.started.as_deref().unwrap_or_default());
    document.verdict = found.quantities.first().and_then(|first| verdict(found.tool, first));
    document.warnings = found.notes.iter().map(|note| note.as_str().into()).collect();
    let mut table = Table::new(["", "values", "min", "mean", "p50", "p90", "p99", "p99.9", "max"]);
    for quantity in &found.quantities {
        let cell = |value: Option<f64>| Cell::from(value.map(|value| quantity.unit.cell(value)));
        let [p50, p90, p99, p99_9, ..] = quantity.percentiles().map(cell);
        let Figures { count, min, mean, max } = quantity.figures;
        let count = Cell::from(count.map(Cell::Count));
        table.row([quantity.name.into(), count, cell(min), cell(mean), p50, p90, p99, p99_9, cell(max)]);
    }
    document.section(
        Section::new("quantities", "What was measured").note("-: the file does not have it").with(table),
    );
    document.sections.extend(found.quantities.iter().filter_map(parts));
    if !found.counts.is_empty() {
        let mut table = Table::new(["", "count"]);
        for (name, count) in &found.counts {
            table.row([name.replace('_', " ").into(), Cell::Count(*count)]);
        }
        document.section(Section::new("counts", "What was counted").with(table));
    }
    document
}

/// The first quantity by the highest percentile that is known of it, or its mean.
fn verdict(tool: &str, first: &Quantity) -> Option<Text> {
    let [p50, _, p99, ..] = first.percentiles();
    let known = [("p99", p99), ("p50", p50), ("mean", first.figures.mean), ("maximum", first.figures.max)];
    let (level, value) = known.into_iter().find_map(|(level, value)| Some((level, value?)))?;
    Some(text!("{tool} measured {}: {level} {}.", first.name, first.unit.cell(value)))
}

/// The figures of each CPU, thread or stream, where there are several.
fn parts(quantity: &Quantity) -> Option<Section> {
    let mut table = Table::new(["", "values", "min", "mean", "max"]).first_rows(40).terminal_first(16);
    for (name, Figures { count, min, mean, max }) in &quantity.parts {
        let cell = |value: &Option<f64>| Cell::from(value.map(|value| quantity.unit.cell(value)));
        let count = Cell::from(count.map(Cell::Count));
        table.row([name.as_str().into(), count, cell(min), cell(mean), cell(max)]);
    }
    let id = quantity.id.replace('_', "-");
    (quantity.parts.len() > 1).then(|| Section::new(id, format!("By part: {}", quantity.name)).with(table))
}

impl Measurement {
    /// Adds what the bins of histograms leave unknown to the notes.
    pub(crate) fn note_bounds(&mut self) {
        let mut notes = Vec::new();
        for quantity in &self.quantities {
            let Values::Bins(bins) = &quantity.values else { continue };
            if let Some(width) = bins.width {
                let width = Unit::Duration.cell(width);
                notes.push(
                    text!(
                        "{}: a percentile is the lower end of a bin of {width}, which no interval includes",
                        quantity.name
                    )
                    .to_string(),
                );
            }
            if bins.beyond > 0 {
                let (beyond, all) = (Cell::Count(bins.beyond), Cell::Count(bins.total()));
                notes.push(
                    text!(
                        "{}: {beyond} of {all} values lie beyond the last bin, and percentiles there are unknown",
                        quantity.name
                    )
                    .to_string(),
                );
            }
        }
        self.notes.extend(notes);
    }
}
