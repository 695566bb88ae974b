//! A table with other texts and the same numbers.

use crate::columns::{Column, Layout, RowGroup, TableReader, TableWriter, table_name};
use crate::error::StoreError;
use crate::identity::RUN_KEY;
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
    copy_table(&reader, to, table, states, change)
}

/// Writes the table `from` to `to` as it is. The file states the run around `to`.
///
/// # Errors
/// As [`rewrite`].
pub fn restate(from: &Path, to: &Path, table: &str) -> Result<(), StoreError> {
    copy_table(&TableReader::open(from, table)?, to, table, true, &mut |_, text| text.to_owned())
}

fn copy_table(
    reader: &TableReader,
    to: &Path,
    table: &str,
    states_its_run: bool,
    change: &mut dyn FnMut(&str, &str) -> String,
) -> Result<(), StoreError> {
    let columns = reader.layouts()?;
    let mut writer = TableWriter::create(to, table, &columns)?;
    if states_its_run {
        writer = writer.of_run();
    }
    for group in 0..reader.groups() {
        let rows = reader.reader.metadata().row_group(group).num_rows();
        let rows = usize::try_from(rows)
            .map_err(|_| reader.shape("a group of rows has less than none".to_owned()))?;
        let mut unread = None;
        let written = writer.rows(rows, |out, _| {
            for column in &columns {
                let name = column.name.as_str();
                let copied = copy(reader, group, (name, column.layout, column.optional), out, change);
                copied.map_err(|error| match error {
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
            Ok(Column { name: column.name().to_owned(), layout, optional })
        };
        schema.iter().enumerate().map(of).collect()
    }

    fn states_its_run(&self) -> bool {
        let pairs = self.reader.metadata().file_metadata().key_value_metadata();
        pairs.is_some_and(|pairs| pairs.iter().any(|pair| pair.key == RUN_KEY))
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

fn copy(
    reader: &TableReader,
    group: usize,
    (name, layout, optional): (&str, Layout, bool),
    out: &mut RowGroup<'_>,
    change: &mut dyn FnMut(&str, &str) -> String,
) -> Result<(), Failed> {
    let read = Failed::Read;
    let written = match layout {
        Layout::I64 | Layout::U64 | Layout::FewU64 => {
            let values = reader.values_of::<Int64Type>(group, name, |value| *value).map_err(read)?;
            out.column::<Int64Type>(values.into_iter(), optional)
        }
        Layout::U32 | Layout::Few(_) => {
            let values = reader.values_of::<Int32Type>(group, name, |value| *value).map_err(read)?;
            out.column::<Int32Type>(values.into_iter(), optional)
        }
        Layout::F64 => {
            let values = reader.values_of::<DoubleType>(group, name, |value| *value).map_err(read)?;
            out.column::<DoubleType>(values.into_iter(), optional)
        }
        Layout::Text => {
            let text = |value: &ByteArray| {
                ByteArray::from(change(name, &String::from_utf8_lossy(value.data())).into_bytes())
            };
            let values = reader.values_of::<ByteArrayType>(group, name, text).map_err(read)?;
            out.column::<ByteArrayType>(values.into_iter(), optional)
        }
    };
    written.map_err(Failed::Write)
}
