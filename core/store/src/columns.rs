//! Tables of typed columns in Parquet: the few shapes that the run directory needs.

use crate::containment::contained;
use crate::error::StoreError;
use crate::identity;
use crate::run::{beside, rename_into_place};
use crate::table::{Column, Layout, NameOf, Table};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Key of the version of the table format in a file's metadata.
pub const FORMAT_KEY: &str = "quaver.format";
/// Key of the name of the table.
pub const TABLE_KEY: &str = "quaver.table";
/// Version of the tables that this program writes, and the latest that it reads.
pub const FORMAT: u64 = 1;

/// Rows of a row group: large enough to compress well, small enough that its pages are written early.
const ROW_GROUP: usize = 1 << 20;
/// Values handed over at a time.
const BATCH: usize = 1 << 14;

fn few_distinct(column: &Column) -> bool {
    matches!(column.layout, Layout::FewU64 | Layout::Few(_) | Layout::Text)
}

fn schema(column: &Column) -> Result<Type, ParquetError> {
    let integer = |bits, is_signed| Some(LogicalType::integer(bits, is_signed));
    let (physical, logical) = match column.layout {
        Layout::I64 => (Physical::INT64, None),
        Layout::U64 | Layout::FewU64 => (Physical::INT64, integer(64, false)),
        Layout::U32 => (Physical::INT32, integer(32, false)),
        Layout::Few(bits) => (Physical::INT32, integer(bits, false)),
        Layout::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Layout::F64 => (Physical::DOUBLE, None),
    };
    let repetition = if column.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    Type::primitive_type_builder(&column.name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
}

impl Table {
    /// Begins a file of it.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(&self, path: &Path) -> Result<TableWriter, StoreError> {
        TableWriter::create(path, self.name, self.columns)
    }
}

/// Writes a table beside its place and puts it there when it is whole.
pub struct TableWriter {
    writer: SerializedFileWriter<File>,
    path: PathBuf,
    part: PathBuf,
}

impl TableWriter {
    /// Begins a table of this name and these columns.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(path: &Path, table: &str, columns: &[Column]) -> Result<Self, StoreError> {
        let part = beside(path);
        let file = File::create(&part).map_err(|e| StoreError::io("create", path, e))?;
        let writer = Self::begin(file, table, columns).map_err(|e| StoreError::parquet("write", path, e))?;
        Ok(Self { writer, path: path.to_owned(), part })
    }

    fn begin(
        file: File,
        table: &str,
        columns: &[Column],
    ) -> Result<SerializedFileWriter<File>, ParquetError> {
        let mut fields = Vec::with_capacity(columns.len());
        let mut properties = WriterProperties::builder()
            .set_created_by(concat!("quaver ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_dictionary_enabled(false)
            .set_key_value_metadata(Some(vec![
                KeyValue::new(FORMAT_KEY.to_owned(), FORMAT.to_string()),
                KeyValue::new(TABLE_KEY.to_owned(), table.to_owned()),
            ]));
        for column in columns {
            fields.push(Arc::new(schema(column)?));
            let path = ColumnPath::from(&*column.name);
            properties = if few_distinct(column) {
                properties.set_column_dictionary_enabled(path, true)
            } else if column.layout == Layout::F64 {
                properties
            } else {
                properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
            };
        }
        let schema = Type::group_type_builder(table).with_fields(fields).build()?;
        SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()))
    }

    /// Writes `rows` rows: `write` is called for each row group with the range of its rows, and writes every
    /// column of it in order.
    pub fn rows(
        &mut self,
        rows: usize,
        mut write: impl FnMut(&mut RowGroup<'_>, Range<usize>) -> Result<(), ParquetError>,
    ) -> Result<(), StoreError> {
        for start in (0..rows).step_by(ROW_GROUP) {
            let range = start..rows.min(start + ROW_GROUP);
            let written = self.writer.next_row_group().and_then(|writer| {
                let mut group = RowGroup { writer };
                write(&mut group, range)?;
                group.writer.close().map(drop)
            });
            written.map_err(|e| self.failed(e))?;
        }
        Ok(())
    }

    /// States in the file's metadata the run that the table belongs to, by the manifest beside it. For tables of
    /// measurements; one that must have the same bytes whoever computes it does without.
    #[must_use]
    pub fn of_run(mut self) -> Self {
        for (key, value) in identity::of_run_around(&self.path) {
            self.writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        }
        self
    }

    /// Ends the table and puts it in its place.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.writer.finish().map_err(|e| self.failed(e))?;
        self.writer.inner().sync_all().map_err(|e| StoreError::io("sync", &self.path, e))?;
        rename_into_place(&self.part, &self.path)
    }

    fn failed(&self, error: ParquetError) -> StoreError {
        // What was written so far is of no use; the error that matters is the one at hand.
        let _ = std::fs::remove_file(&self.part);
        StoreError::parquet("write", &self.path, error)
    }
}

/// One row group, whose columns are written in the order of the schema.
pub struct RowGroup<'a> {
    writer: SerializedRowGroupWriter<'a, File>,
}

impl RowGroup<'_> {
    /// Writes a column of signed 64-bit integers.
    pub fn i64(&mut self, values: impl Iterator<Item = i64>) -> Result<(), ParquetError> {
        self.column::<Int64Type>(values.map(Some), false)
    }

    /// The same, where values may be missing.
    pub fn optional_i64(&mut self, values: impl Iterator<Item = Option<i64>>) -> Result<(), ParquetError> {
        self.column::<Int64Type>(values, true)
    }

    /// Writes a column of unsigned 64-bit integers.
    pub fn u64(&mut self, values: impl Iterator<Item = u64>) -> Result<(), ParquetError> {
        self.i64(values.map(u64::cast_signed))
    }

    /// Writes a column of unsigned 32-bit integers.
    pub fn u32(&mut self, values: impl Iterator<Item = u32>) -> Result<(), ParquetError> {
        self.column::<Int32Type>(values.map(|v| Some(v.cast_signed())), false)
    }

    /// The same, where values may be missing.
    pub fn optional_u32(&mut self, values: impl Iterator<Item = Option<u32>>) -> Result<(), ParquetError> {
        self.column::<Int32Type>(values.map(|v| v.map(u32::cast_signed)), true)
    }

    /// Writes a column of text.
    pub fn text(&mut self, values: impl Iterator<Item = ByteArray>) -> Result<(), ParquetError> {
        self.column::<ByteArrayType>(values.map(Some), false)
    }

    /// The same, where values may be missing.
    pub fn optional_text(
        &mut self,
        values: impl Iterator<Item = Option<ByteArray>>,
    ) -> Result<(), ParquetError> {
        self.column::<ByteArrayType>(values, true)
    }

    /// Writes a column of the names of numbers.
    pub fn names(
        &mut self,
        values: impl Iterator<Item = (u32, u32)>,
        name: NameOf,
    ) -> Result<(), ParquetError> {
        let mut known: HashMap<(u32, u32), Option<ByteArray>> = HashMap::new();
        self.optional_text(values.map(|(first, second)| {
            let name = || name(first, second).map(|name| ByteArray::from(name.into_bytes()));
            known.entry((first, second)).or_insert_with(name).clone()
        }))
    }

    /// The same, where values may be missing.
    pub fn optional_f64(&mut self, values: impl Iterator<Item = Option<f64>>) -> Result<(), ParquetError> {
        self.column::<DoubleType>(values, true)
    }

    pub(crate) fn column<T: DataType>(
        &mut self,
        mut values: impl Iterator<Item = Option<T::T>>,
        optional: bool,
    ) -> Result<(), ParquetError> {
        let mut column = self
            .writer
            .next_column()?
            .ok_or_else(|| ParquetError::General("more columns written than the table has".to_owned()))?;
        let writer = column.typed::<T>();
        let (mut batch, mut levels) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        loop {
            batch.clear();
            levels.clear();
            for value in values.by_ref().take(BATCH) {
                levels.push(i16::from(value.is_some()));
                batch.extend(value);
            }
            if levels.is_empty() {
                break;
            }
            writer.write_batch(&batch, optional.then_some(levels.as_slice()), None)?;
        }
        column.close()
    }
}

/// The name of the table in a file, whatever it is.
///
/// # Errors
/// The file cannot be read, is no table of ours, or is of a later format.
pub fn table_name(path: &Path) -> Result<String, StoreError> {
    let reader = TableReader::of_any(path)?;
    table_of(path, |key| reader.stated(key))
}

/// The name of the table in a file, by what the file's metadata have for a key.
///
/// # Errors
/// It is no table of ours, or is of a later format.
pub fn table_of(path: &Path, value: impl Fn(&str) -> Option<String>) -> Result<String, StoreError> {
    let not = |reason: &str| StoreError::Shape { path: path.to_owned(), reason: reason.to_owned() };
    match value(FORMAT_KEY).and_then(|text| text.parse().ok()) {
        Some(found) if found > FORMAT => {
            Err(StoreError::NewerFormat { path: path.to_owned(), found, supported: FORMAT })
        }
        Some(_) => value(TABLE_KEY).ok_or_else(|| not("it does not say which table it is")),
        None => Err(not("it does not say which format it has")),
    }
}

/// Reads a table column by column, a page at a time.
pub struct TableReader {
    pub(crate) reader: SerializedFileReader<File>,
    path: PathBuf,
}

impl TableReader {
    /// Opens a file and checks that it is the table of that name, of a format known here.
    ///
    /// # Errors
    /// The file cannot be read, is another table, or is of a later format.
    pub fn open(path: &Path, table: &str) -> Result<Self, StoreError> {
        let reader = Self::of_any(path)?;
        if reader.stated(TABLE_KEY).as_deref() != Some(table) {
            return Err(reader.shape(format!("it is not a table of {table}")));
        }
        reader.check_places()?;
        table_of(path, |key| reader.stated(key))?;
        Ok(reader)
    }

    fn of_any(path: &Path) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(|e| StoreError::io("open", path, e))?;
        let reader = contained(path, || SerializedFileReader::new(file))?;
        Ok(Self { reader, path: path.to_owned() })
    }

    /// What the file's metadata have for a key.
    pub(crate) fn stated(&self, key: &str) -> Option<String> {
        let pairs = self.reader.metadata().file_metadata().key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == key)?.value.clone()
    }

    /// Whether columns can lie where a damaged file might say that they do: the library takes that for granted.
    fn check_places(&self) -> Result<(), StoreError> {
        let chunks = self.reader.metadata().row_groups().iter().flat_map(|group| group.columns());
        for chunk in chunks {
            let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            if start < 0 || chunk.compressed_size() < 0 {
                let name = chunk.column_descr().name();
                return Err(self.shape(format!("column {name} lies before the beginning of the file")));
            }
        }
        Ok(())
    }

    /// Rows of the table.
    pub fn rows(&self) -> usize {
        usize::try_from(self.reader.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Room for all rows, but not for what a damaged file might claim.
    pub fn reserved<T>(&self) -> Vec<T> {
        let mut room = Vec::new();
        // Without the room the vector grows as it is filled, as far as there really are rows.
        let _ = room.try_reserve_exact(self.rows().min(1 << 28));
        room
    }

    /// Whether it has a column of this name.
    pub fn has_column(&self, name: &str) -> bool {
        self.index(name).is_some()
    }

    /// Reads a column row by row, in order.
    pub fn i64(&self, name: &str, mut sink: impl FnMut(usize, i64)) -> Result<(), StoreError> {
        self.column::<Int64Type>(name, |row, value| match value {
            Some(value) => sink(row, *value),
            None => sink(row, 0),
        })
    }

    /// The same for unsigned 64-bit integers.
    pub fn u64(&self, name: &str, mut sink: impl FnMut(usize, u64)) -> Result<(), StoreError> {
        self.i64(name, |row, value| sink(row, value.cast_unsigned()))
    }

    /// The same for unsigned 32-bit integers.
    pub fn u32(&self, name: &str, mut sink: impl FnMut(usize, u32)) -> Result<(), StoreError> {
        self.optional_u32(name, |row, value| sink(row, value.unwrap_or(0)))
    }

    /// The same, where values may be missing.
    pub fn optional_u32(
        &self,
        name: &str,
        mut sink: impl FnMut(usize, Option<u32>),
    ) -> Result<(), StoreError> {
        self.column::<Int32Type>(name, |row, value| sink(row, value.copied().map(i32::cast_unsigned)))
    }

    /// The same, where values may be missing.
    pub fn optional_i64(
        &self,
        name: &str,
        mut sink: impl FnMut(usize, Option<i64>),
    ) -> Result<(), StoreError> {
        self.column::<Int64Type>(name, |row, value| sink(row, value.copied()))
    }

    /// The same for text.
    pub fn text(&self, name: &str, mut sink: impl FnMut(usize, &[u8])) -> Result<(), StoreError> {
        self.column::<ByteArrayType>(name, |row, value| sink(row, value.map_or(&[], |text| text.data())))
    }

    /// The same, where values may be missing.
    pub fn optional_text(
        &self,
        name: &str,
        mut sink: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        self.column::<ByteArrayType>(name, |row, value| sink(row, value.map(|text| text.data())))
    }

    /// The same, where values may be missing.
    pub fn optional_f64(
        &self,
        name: &str,
        mut sink: impl FnMut(usize, Option<f64>),
    ) -> Result<(), StoreError> {
        self.column::<DoubleType>(name, |row, value| sink(row, value.copied()))
    }

    /// Names of the columns with their layouts, as far as these are ours: 64-bit integers, text and floating point.
    pub fn wide_columns(&self) -> Vec<(String, Option<Layout>)> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        let layout = |column: &parquet::schema::types::ColumnDescriptor| match column.physical_type() {
            Physical::DOUBLE => Some(Layout::F64),
            Physical::BYTE_ARRAY => Some(Layout::Text),
            Physical::INT64 if column.logical_type_ref() == Some(&LogicalType::integer(64, false)) => {
                Some(Layout::U64)
            }
            Physical::INT64 => Some(Layout::I64),
            _ => None,
        };
        schema.columns().iter().map(|column| (column.name().to_owned(), layout(column))).collect()
    }

    /// An error of the file's content.
    pub fn shape(&self, reason: String) -> StoreError {
        StoreError::Shape { path: self.path.clone(), reason }
    }

    fn index(&self, name: &str) -> Option<usize> {
        let schema = self.reader.metadata().file_metadata().schema_descr();
        schema.columns().iter().position(|column| column.name() == name)
    }

    /// Groups of rows, each of which is read by itself where a whole column would be too much.
    pub fn groups(&self) -> usize {
        self.reader.num_row_groups()
    }

    /// As [`Self::u64`], of one group, whose rows count from 0.
    pub fn u64_of_group(
        &self,
        group: usize,
        name: &str,
        mut sink: impl FnMut(usize, u64),
    ) -> Result<(), StoreError> {
        let cast = |row, value: Option<&i64>| sink(row, value.map_or(0, |value| value.cast_unsigned()));
        self.column_of::<Int64Type>(group..group + 1, name, cast).map(drop)
    }

    /// As [`Self::u32`], of one group, whose rows count from 0.
    pub fn u32_of_group(
        &self,
        group: usize,
        name: &str,
        mut sink: impl FnMut(usize, u32),
    ) -> Result<(), StoreError> {
        let cast = |row, value: Option<&i32>| sink(row, value.map_or(0, |value| value.cast_unsigned()));
        self.column_of::<Int32Type>(group..group + 1, name, cast).map(drop)
    }

    /// Calls `sink` with each row's number and value; none where it is null.
    fn column<T: DataType>(
        &self,
        name: &str,
        sink: impl FnMut(usize, Option<&T::T>),
    ) -> Result<(), StoreError> {
        let row = self.column_of::<T>(0..self.reader.num_row_groups(), name, sink)?;
        if row == self.rows() {
            Ok(())
        } else {
            Err(self.shape(format!("column {name} has {row} values for {} rows", self.rows())))
        }
    }

    /// The same for some of the groups; how many rows they have.
    pub(crate) fn column_of<T: DataType>(
        &self,
        groups: Range<usize>,
        name: &str,
        mut sink: impl FnMut(usize, Option<&T::T>),
    ) -> Result<usize, StoreError> {
        let index = self.index(name).ok_or_else(|| self.shape(format!("column {name} is missing")))?;
        let descriptor = self.reader.metadata().file_metadata().schema_descr().column(index);
        if descriptor.physical_type() != T::get_physical_type() || descriptor.max_rep_level() != 0 {
            return Err(self.shape(format!("column {name} has another type")));
        }
        let optional = descriptor.max_def_level() > 0;
        let (mut values, mut levels) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let mut row = 0;
        for group in groups {
            let mut column = contained(&self.path, || {
                let group = self.reader.get_row_group(group)?;
                group.get_column_reader(index).map(get_typed_column_reader::<T>)
            })?;
            loop {
                values.clear();
                levels.clear();
                let (records, present, _) = contained(&self.path, || {
                    column.read_records(BATCH, Some(&mut levels), None, &mut values)
                })?;
                if records == 0 {
                    break;
                }
                if optional && present < records {
                    let mut present = values.iter();
                    for level in &levels {
                        sink(row, if *level > 0 { present.next() } else { None });
                        row += 1;
                    }
                } else {
                    for value in &values {
                        sink(row, Some(value));
                        row += 1;
                    }
                }
            }
        }
        Ok(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of one column `n` with these values, of which `change` may change the bytes.
    fn table(values: &[Option<i64>], change: impl Fn(&mut Vec<u8>)) -> (tempfile::TempDir, PathBuf) {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("t.parquet");
        let mut writer =
            TableWriter::create(&path, "numbers", &[Column::optional("n", Layout::I64, "")]).unwrap();
        writer.rows(values.len(), |group, range| group.optional_i64(values[range].iter().copied())).unwrap();
        writer.finish().unwrap();
        let mut octets = std::fs::read(&path).unwrap();
        change(&mut octets);
        std::fs::write(&path, octets).unwrap();
        (parent, path)
    }

    /// Replaces a character right behind the key of the format.
    fn with_format(octets: &mut [u8], format: u8) {
        let key = octets.windows(FORMAT_KEY.len()).position(|at| at == FORMAT_KEY.as_bytes()).unwrap();
        let value = octets[key..].iter().position(|octet| *octet == b'1').unwrap();
        octets[key + value] = format;
    }

    #[test]
    fn a_later_format_is_refused_and_so_is_none() {
        let open = |format: u8| {
            let (_parent, path) = table(&[Some(1)], |octets| with_format(octets, format));
            TableReader::open(&path, "numbers").map(|table| table.rows())
        };
        assert_eq!(open(b'1').unwrap(), 1);
        assert_eq!(open(b'0').unwrap(), 1);
        assert!(matches!(open(b'2'), Err(StoreError::NewerFormat { found: 2, supported: 1, .. })));
        let none = open(b'x').unwrap_err().to_string();
        assert!(none.contains("it does not say which format it has; the file is damaged"), "{none}");
    }

    #[test]
    fn values_come_in_batches_with_what_is_missing() {
        let count = 2 * BATCH + 5;
        let values: Vec<Option<i64>> = (0..count as i64).map(|n| (n % 3 != 1).then_some(n * n)).collect();
        let (_parent, path) = table(&values, |_| {});
        let table = TableReader::open(&path, "numbers").unwrap();
        let mut read = Vec::new();
        table.optional_i64("n", |row, value| read.push((row, value))).unwrap();
        assert_eq!(read, (0..).zip(values).collect::<Vec<_>>());
        let mut plain = Vec::new();
        table.i64("n", |_, value| plain.push(value)).unwrap();
        assert_eq!((plain[1], plain[2], plain.len()), (0, 4, count));
        assert_eq!((table.rows(), table.groups(), table.reserved::<u8>().capacity()), (count, 1, count));
        assert_eq!((table.has_column("n"), table.has_column("m")), (true, false));
        let reason = |error: StoreError| error.to_string();
        assert!(reason(table.i64("m", |_, _| {}).unwrap_err()).contains("column m is missing"));
        assert!(reason(table.u32("n", |_, _| {}).unwrap_err()).contains("column n has another type"));
        assert!(
            reason(TableReader::open(&path, "gaps").err().unwrap()).contains("it is not a table of gaps")
        );
    }
}
