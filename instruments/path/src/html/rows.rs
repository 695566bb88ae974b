//! Tables of a path: a row is a metric, a column a way or a percentile, and each row names its definition.

use crate::digest::{FlowResults, KnownFlow};
use quaver_analysis::distribution::Distribution;
use quaver_analysis::path::direction::Direction;
use quaver_page::console::percentiles;
use quaver_page::html::page::micro;
use quaver_page::units::{duration, duration_f64};
use serde::Serialize;

/// One section with a table.
#[derive(Serialize)]
pub(super) struct Table {
    /// Where links lead.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) lead: &'static str,
    /// Heads of the columns between the metric and its definition.
    columns: Vec<String>,
    /// The cells are words, not numbers.
    words: bool,
    rows: Vec<Row>,
    pub(super) notes: Vec<String>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    cells: Vec<String>,
    definition: &'static str,
}

/// What a column of [`Table::by_way`] is about.
pub(super) trait OneWay {
    /// Which way its packets go.
    fn way(&self) -> Direction;
}

impl OneWay for &FlowResults {
    fn way(&self) -> Direction {
        self.flow.direction
    }
}

impl OneWay for KnownFlow<'_> {
    fn way(&self) -> Direction {
        self.flow.direction
    }
}

/// A metric: its name, and how its cell is made of what it is about.
pub(super) type Metric<T> = (&'static str, fn(&T) -> String);

/// Heads of a table of distributions.
const SPREAD: [&str; 8] = ["min", "mean", "p50", "p90", "p99", "p99.9", "max", "sd"];

impl Table {
    pub(super) fn new(
        id: &'static str,
        title: &'static str,
        lead: &'static str,
        columns: Vec<String>,
    ) -> Self {
        Self { id, title, lead, columns, words: false, rows: Vec::new(), notes: Vec::new() }
    }

    /// A table with a column for each way.
    pub(super) fn by_way(
        id: &'static str,
        title: &'static str,
        lead: &'static str,
        flows: &[impl OneWay],
    ) -> Self {
        let ways = flows.iter().map(|flow| flow.way().name().to_owned()).collect();
        Self::new(id, title, lead, ways)
    }

    /// A table of distributions.
    pub(super) fn of_spreads(id: &'static str, title: &'static str, lead: &'static str) -> Self {
        Self::new(id, title, lead, SPREAD.map(str::to_owned).into())
    }

    /// Cells are words: they stand left and may be broken.
    pub(super) fn of_words(mut self) -> Self {
        self.words = true;
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn row(&mut self, name: impl Into<String>, cells: Vec<String>, definition: &'static str) {
        let cells = cells.into_iter().map(micro).collect();
        self.rows.push(Row { name: name.into(), cells, definition });
    }

    /// A row of [`Table::by_way`].
    pub(super) fn each<F: OneWay>(
        &mut self,
        name: impl Into<String>,
        flows: &[F],
        cell: impl Fn(&F) -> String,
        definition: &'static str,
    ) {
        self.row(name, flows.iter().map(cell).collect(), definition);
    }

    /// A row of [`Table::of_spreads`].
    pub(super) fn spread(&mut self, name: String, values: &Distribution, definition: &'static str) {
        let known = |text: String| if values.count > 0 { text } else { "-".to_owned() };
        let mut cells = vec![known(duration(values.min_ns)), known(duration_f64(values.mean_ns))];
        cells.extend(percentiles(values).into_iter().take(4).map(|(_, shown)| shown));
        cells.extend([known(duration(values.max_ns)), known(duration_f64(values.sd_ns))]);
        self.row(name, cells, definition);
    }
}
