//! A table with other texts and the same numbers.

use crate::columns::{RowGroup, TableReader, TableWriter, table_name};
use crate::error::StoreError;
use crate::identity::RUN_KEY;
use crate::table::{Column, Layout, Table};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::FileReader;
use std::path::Path;

/// Writes the table `from` to `to`, each text of a column as `change` gives it. All else stays, but for the run that the file
/// states: that is the one around `to`.
///
/// # Errors
/// The table cannot be read, is not the one of that name, or cannot be written.
pub fn rewrite(
    from: &Path,
    to: &Path,
    table: &str,
    change: &mut dyn FnMut(&str, &str) -> String,
) -> Result<(), StoreError> {
    let reader = TableReader::open(from, table)?;
    let states = reader.states_its_run();
    copy_table(&reader, to, (table, &reader.layouts()?, states), change)
}

/// Writes the table `from` to `to` with the rows that it has and the columns of today, of which `tables` knows; the file's own
/// come behind them. A column that it lacks has the names of its numbers, or nulls. The file states the run around `to`.
///
/// # Errors
/// As [`rewrite`], and if a column is missing that a row must have.
pub fn restate(from: &Path, to: &Path, table: &str, tables: &[&Table]) -> Result<(), StoreError> {
    let reader = TableReader::open(from, table)?;
    let found = reader.layouts()?;
    let Some(known) = tables.iter().find(|known| known.name == table) else {
        return copy_table(&reader, to, (table, &found, true), &mut |_, text| text.to_owned());
    };
    let lacks = |column: &&Column| !found.iter().any(|it| it.name == column.name);
    if let Some(column) = known.columns.iter().filter(lacks).find(|column| !column.optional) {
        return Err(reader.shape(format!("column {} is missing", column.name)));
    }
    let own = found.iter().filter(|it| !known.columns.iter().any(|column| column.name == it.name));
    let columns: Vec<Column> = known.columns.iter().chain(own).cloned().collect();
    copy_table(&reader, to, (table, &columns, true), &mut |_, text| text.to_owned())
}

fn copy_table(
    reader: &TableReader,
    to: &Path,
    (table, columns, states_its_run): (&str, &[Column], bool),
    change: &mut dyn FnMut(&str, &str) -> String,
) -> Result<(), StoreError> {
    let mut writer = TableWriter::create(to, table, columns)?;
    if states_its_run {
        writer = writer.of_run();
    }
    for group in 0..reader.groups() {
        let rows = reader.reader.metadata().row_group(group).num_rows();
        let rows = usize::try_from(rows)
            .map_err(|_| reader.shape("a group of rows has less than none".to_owned()))?;
        let mut unread = None;
        let written = writer.rows(rows, |out, _| {
            for column in columns {
                copy(reader, (group, rows), column, out, change).map_err(|error| match error {
                    Failed::Read(error) => {
                        unread = Some(error);
                        ParquetError::General("unread".to_owned())
                    }
                    Failed::Write(error) => error,
                })?;
            }
            Ok(())
        });
        unread.map_or(written, Err)?;
    }
    writer.finish()
}

/// Names of the columns of a table, whichever it is, in their order.
///
/// # Errors
/// The file cannot be read, is no table of ours, or is of a later format.
pub fn column_names(path: &Path) -> Result<Vec<String>, StoreError> {
    let reader = TableReader::open(path, &table_name(path)?)?;
    let columns = reader.reader.metadata().file_metadata().schema_descr().columns();
    Ok(columns.iter().map(|column| column.name().to_owned()).collect())
}

impl TableReader {
    fn layouts(&self) -> Result<Vec<Column>, StoreError> {
        let metadata = self.reader.metadata();
        let schema = metadata.file_metadata().schema_descr().columns();
        let first = metadata.row_groups().first();
        let of = |(at, column): (usize, &parquet::schema::types::ColumnDescPtr)| {
            let logical = column.logical_type_ref();
            let is = |bits| logical == Some(&LogicalType::integer(bits, false));
            let few = first.is_some_and(|group| has_dictionary(group.column(at)));
            let layout = match column.physical_type() {
                Physical::INT64 if logical.is_none() => Layout::I64,
                Physical::INT64 if is(64) && few => Layout::FewU64,
                Physical::INT64 if is(64) => Layout::U64,
                Physical::INT32 if is(32) && !few => Layout::U32,
                Physical::INT32 => Layout::Few([8, 16].into_iter().find(|bits| is(*bits)).unwrap_or(32)),
                Physical::DOUBLE => Layout::F64,
                Physical::BYTE_ARRAY => Layout::Text,
                _ => return Err(self.shape(format!("column {} is of no type of ours", column.name()))),
            };
            let optional = column.self_type().get_basic_info().repetition() == Repetition::OPTIONAL;
            Ok(Column::made(column.name().to_owned(), layout, optional))
        };
        schema.iter().enumerate().map(of).collect()
    }

    fn states_its_run(&self) -> bool {
        self.stated(RUN_KEY).is_some()
    }

    fn values_of<T: DataType>(
        &self,
        group: usize,
        name: &str,
        mut value: impl FnMut(&T::T) -> T::T,
    ) -> Result<Vec<Option<T::T>>, StoreError> {
        let mut values = Vec::new();
        self.column_of::<T>(group..group + 1, name, |_, found| values.push(found.map(&mut value)))?;
        Ok(values)
    }
}

fn has_dictionary(chunk: &ColumnChunkMetaData) -> bool {
    chunk.dictionary_page_offset().is_some()
}

enum Failed {
    Read(StoreError),
    Write(ParquetError),
}

/// A column as the file has it; one that it lacks has the names of its numbers, or nulls.
fn copy(
    reader: &TableReader,
    of: (usize, usize),
    column: &Column,
    out: &mut RowGroup<'_>,
    change: &mut dyn FnMut(&str, &str) -> String,
) -> Result<(), Failed> {
    let named = column.names.filter(|names| names.columns.iter().all(|it| reader.has_column(it)));
    if let Some(names) = named.filter(|_| !reader.has_column(&column.name)) {
        let [first, second] = names.columns.map(|name| reader.values_of::<Int32Type>(of.0, name, |it| *it));
        let pairs = first.map_err(Failed::Read)?.into_iter().zip(second.map_err(Failed::Read)?);
        let number = |value: Option<i32>| value.map_or(0, i32::cast_unsigned);
        let pairs = pairs.map(|(first, second)| (number(first), number(second)));
        return out.names(pairs, names.name).map_err(Failed::Write);
    }
    match column.layout {
        Layout::I64 | Layout::U64 | Layout::FewU64 => {
            copy_values::<Int64Type>(reader, of, column, out, |value| *value)
        }
        Layout::U32 | Layout::Few(_) => copy_values::<Int32Type>(reader, of, column, out, |value| *value),
        Layout::F64 => copy_values::<DoubleType>(reader, of, column, out, |value| *value),
        Layout::Text => copy_values::<ByteArrayType>(reader, of, column, out, |value| {
            ByteArray::from(change(&column.name, &String::from_utf8_lossy(value.data())).into_bytes())
        }),
    }
}

fn copy_values<T: DataType>(
    reader: &TableReader,
    (group, rows): (usize, usize),
    column: &Column,
    out: &mut RowGroup<'_>,
    value: impl FnMut(&T::T) -> T::T,
) -> Result<(), Failed> {
    let values = if reader.has_column(&column.name) {
        reader.values_of::<T>(group, &column.name, value).map_err(Failed::Read)?
    } else {
        vec![None; rows]
    };
    out.column::<T>(values.into_iter(), column.optional).map_err(Failed::Write)
}
