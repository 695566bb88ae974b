//! Tables of a path: a row is a metric, a column a direction or a percentile, and in the page each row names the document
//! that defines it.

use quaver_arrivals::distribution::Distribution;
use quaver_view::{Cell, Column, Table};

/// A metric: its name, and how its cell is made of what it is about.
pub(super) type Metric<T> = (&'static str, fn(&T) -> Option<Cell>);

/// Metrics of several subjects, a column each.
pub(super) struct Metrics<'a, T> {
    subjects: &'a [T],
    /// The rows so far.
    pub(super) table: Table,
}

impl<'a, T> Metrics<'a, T> {
    /// An empty table; `name` heads a subject's column.
    pub(super) fn new(subjects: &'a [T], name: impl Fn(&T) -> &str) -> Self {
        let columns = subjects.iter().map(|subject| Column::new(name(subject)));
        Self { subjects, table: Table::new(framed(columns)) }
    }

    /// Adds a metric.
    pub(super) fn row<C: Into<Cell>>(
        &mut self,
        name: &str,
        definition: &str,
        cell: impl Fn(&T) -> C,
    ) -> &mut Self {
        let cells = self.subjects.iter().map(|subject| cell(subject).into());
        self.table.row(in_frame(name, cells, definition));
        self
    }
}

/// Counts of packets by fate: for each direction how many there are, and which part of those sent.
pub(super) struct Fates {
    sent: Vec<u64>,
    /// The rows so far.
    pub(super) table: Table,
}

impl Fates {
    /// An empty table of directions, each with the number of packets sent.
    pub(super) fn new<'a>(directions: impl IntoIterator<Item = (&'a str, u64)>) -> Self {
        let (names, sent): (Vec<&str>, Vec<u64>) = directions.into_iter().unzip();
        let columns = names.iter().flat_map(|name| [Column::new(*name), Column::new("of sent")]);
        Self { sent, table: Table::new(framed(columns)) }
    }

    /// Adds a fate: a count for each direction, and its part of the packets sent where there is any.
    pub(super) fn row(&mut self, name: &str, definition: &str, counts: impl IntoIterator<Item = u64>) {
        let cells = counts.into_iter().zip(&self.sent).flat_map(|(count, sent)| {
            let share = if count == 0 { Cell::Empty } else { Cell::part(count, *sent) };
            [Cell::Count(count), share]
        });
        self.table.row(in_frame(name, cells.collect::<Vec<_>>(), definition));
    }

    /// Adds a count that is no part of those sent; none is not known.
    pub(super) fn aside(
        &mut self,
        name: &str,
        definition: &str,
        counts: impl IntoIterator<Item = Option<u64>>,
    ) {
        let cells =
            counts.into_iter().flat_map(|count| [count.map_or(Cell::Unknown, Cell::Count), Cell::Empty]);
        self.table.row(in_frame(name, cells.collect::<Vec<_>>(), definition));
    }
}

/// An empty table of distributions.
pub(super) fn spreads() -> Table {
    let columns = ["min", "mean", "p50", "p90", "p99", "p99.9", "max"].map(Column::new);
    // A terminal of 80 columns has no room for it.
    Table::new(framed(columns.into_iter().chain([Column::new("sd").html_only()])))
}

/// Adds rows to [`spreads`] under a heading of their own, each with its name and its definition; nothing where there is
/// no row.
pub(super) fn spread_group(table: &mut Table, heading: &str, rows: &[(&str, &Distribution, &str)]) {
    if !rows.is_empty() {
        table.note(heading);
    }
    for (name, values, definition) in rows {
        spread(table, name, values, definition);
    }
}

fn spread(table: &mut Table, name: &str, values: &Distribution, definition: &str) {
    let percentile = |ns, one_in| Cell::percentile(ns, values.count, one_in);
    let any = values.count > 0;
    let cells = [
        Cell::Duration(values.min_ns).only_if(any),
        Cell::FineDuration(values.mean_ns).only_if(any),
        percentile(values.p50_ns, 1),
        percentile(values.p90_ns, 10),
        percentile(values.p99_ns, 100),
        percentile(values.p99_9_ns, 1_000),
        Cell::Duration(values.max_ns).only_if(any),
        Cell::FineDuration(values.sd_ns).only_if(any),
    ];
    table.row(in_frame(name, cells, definition));
}

/// Columns between that of the metric's name and that of its definition.
pub(super) fn framed(columns: impl IntoIterator<Item = Column>) -> Vec<Column> {
    let definition = Column::new("definition").html_only();
    std::iter::once(Column::new("")).chain(columns).chain([definition]).collect()
}

/// Cells between the metric's name and its definition.
pub(super) fn in_frame(name: &str, cells: impl IntoIterator<Item = Cell>, definition: &str) -> Vec<Cell> {
    std::iter::once(name.into()).chain(cells).chain([definition.into()]).collect()
}

/// Unsigned nanoseconds.
pub(super) fn duration(ns: u64) -> Cell {
    Cell::Duration(i64::try_from(ns).unwrap_or(i64::MAX))
}
