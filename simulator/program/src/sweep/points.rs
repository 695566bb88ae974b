//! `points.parquet` of a sweep: a row a point, in the order of the plan. Which columns there are depends on the plan's axes, so
//! each names its kind itself; the same columns and rows are the same bytes.

use parquet::data_type::ByteArray;
use quaver_store::columns::{TableReader, TableWriter};
use quaver_store::error::StoreError;
use quaver_store::table::{Column, Layout};
use std::path::Path;

const TABLE: &str = "sim-sweep";

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepColumn {
    /// Its name, with its unit last.
    pub name: String,
    /// A value a row.
    pub values: SweepValues,
}

/// The values of a column; none where a point has no such figure.
#[derive(Clone, Debug, PartialEq)]
pub enum SweepValues {
    /// Counts and times.
    U64(Vec<Option<u64>>),
    /// Whole numbers of an axis, or what may be owed.
    I64(Vec<Option<i64>>),
    /// Ratios.
    F64(Vec<Option<f64>>),
    /// Names.
    Text(Vec<Option<String>>),
}

impl SweepValues {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        match self {
            Self::U64(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    fn layout(&self) -> Layout {
        match self {
            Self::U64(_) => Layout::U64,
            Self::I64(_) => Layout::I64,
            Self::F64(_) => Layout::F64,
            Self::Text(_) => Layout::Text,
        }
    }
}

/// Writes the table; every column has as many rows as the first.
///
/// # Errors
/// The file cannot be written, or a column has another number of rows.
pub fn write_sweep(path: &Path, columns: &[SweepColumn]) -> Result<(), StoreError> {
    let rows = columns.first().map_or(0, |column| column.values.rows());
    if let Some(odd) = columns.iter().find(|column| column.values.rows() != rows) {
        let reason = format!("column {} has {} values for {rows} rows", odd.name, odd.values.rows());
        return Err(StoreError::Shape { path: path.to_owned(), reason });
    }
    let layout = |column: &SweepColumn| Column::made(column.name.clone(), column.values.layout(), true);
    let layouts: Vec<Column> = columns.iter().map(layout).collect();
    let mut table = TableWriter::create(path, TABLE, &layouts)?;
    table.rows(rows, |group, range| {
        for column in columns {
            match &column.values {
                SweepValues::U64(values) => {
                    group.optional_i64(
                        values[range.clone()].iter().map(|value| value.map(u64::cast_signed)),
                    )?;
                }
                SweepValues::I64(values) => group.optional_i64(values[range.clone()].iter().copied())?,
                SweepValues::F64(values) => group.optional_f64(values[range.clone()].iter().copied())?,
                SweepValues::Text(values) => {
                    let texts = values[range.clone()].iter();
                    group.optional_text(texts.map(|text| text.as_deref().map(ByteArray::from)))?;
                }
            }
        }
        Ok(())
    })?;
    table.finish()
}

/// Reads the table.
///
/// # Errors
/// The file cannot be read, is of a later format, or is no table of a sweep.
pub fn read_sweep(path: &Path) -> Result<Vec<SweepColumn>, StoreError> {
    let table = TableReader::open(path, TABLE)?;
    let mut columns = Vec::new();
    for (name, layout) in table.wide_columns() {
        let values = match layout {
            Some(Layout::U64) => {
                let mut values = table.reserved();
                table.optional_i64(&name, |_, value| values.push(value.map(i64::cast_unsigned)))?;
                SweepValues::U64(values)
            }
            Some(Layout::F64) => {
                let mut values = table.reserved();
                table.optional_f64(&name, |_, value| values.push(value))?;
                SweepValues::F64(values)
            }
            Some(Layout::Text) => {
                let mut values = table.reserved();
                let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
                table.optional_text(&name, |_, value| values.push(value.map(text)))?;
                SweepValues::Text(values)
            }
            Some(_) => {
                let mut values = table.reserved();
                table.optional_i64(&name, |_, value| values.push(value))?;
                SweepValues::I64(values)
            }
            // A later version's, perhaps.
            None => continue,
        };
        columns.push(SweepColumn { name, values });
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_every_kind_come_back_and_are_the_same_octets_again() {
        let place = tempfile::tempdir().unwrap();
        let column = |name: &str, values| SweepColumn { name: name.to_owned(), values };
        let columns = vec![
            column("id", SweepValues::Text(vec![Some("a".into()), None, Some("ü".into())])),
            column("duration_fs", SweepValues::U64(vec![Some(u64::MAX), Some(0), None])),
            column("owed_fs", SweepValues::I64(vec![Some(-3), None, Some(i64::MAX)])),
            column("cpi", SweepValues::F64(vec![None, Some(-0.0), Some(1.0 / 3.0)])),
        ];
        let (one, other) = (place.path().join("a.parquet"), place.path().join("b.parquet"));
        write_sweep(&one, &columns).unwrap();
        write_sweep(&other, &columns).unwrap();
        assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&other).unwrap());
        assert_eq!(read_sweep(&one).unwrap(), columns);
        let odd = [columns[0].clone(), column("x", SweepValues::U64(vec![None]))];
        let error = write_sweep(&one, &odd).unwrap_err().to_string();
        assert!(error.contains("column x has 1 values for 3 rows"), "{error}");
        quaver_store::gaps::write_gaps(&one, &Default::default()).unwrap();
        assert!(read_sweep(&one).unwrap_err().to_string().contains("not a table of sim-sweep"));
    }
}
