//! Rows of any table, for programs that read no Parquet.

use crate::containment::contained;
use crate::error::StoreError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Number, Value};
use std::fs::File;
use std::io;
use std::path::Path;

/// Takes a row: the names of the columns, and its values in their order.
pub type TakeRow<'a> = dyn FnMut(&[String], &[Value]) -> io::Result<()> + 'a;

/// Hands the rows of a table to `take`, one after the other. Missing values are null, and numbers that JSON lacks are too.
///
/// # Errors
/// The table is damaged, or `take` fails: its error is returned inside.
pub fn read_rows(path: &Path, take: &mut TakeRow<'_>) -> Result<io::Result<()>, StoreError> {
    let file = File::open(path).map_err(|error| StoreError::io("open", path, error))?;
    contained(path, || {
        let reader = SerializedFileReader::new(file)?;
        let columns = reader.metadata().file_metadata().schema_descr().root_schema().get_fields();
        let names: Vec<String> = columns.iter().map(|column| column.name().to_owned()).collect();
        let mut values = Vec::with_capacity(names.len());
        for row in reader.get_row_iter(None)? {
            let row = row?;
            values.clear();
            values.extend(row.get_column_iter().map(|(_, field)| value(field)));
            if let Err(error) = take(&names, &values) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    })
}

fn value(field: &Field) -> Value {
    let float = |number: f64| Number::from_f64(number).map_or(Value::Null, Value::Number);
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => (*value).into(),
        Field::Byte(value) => (*value).into(),
        Field::Short(value) => (*value).into(),
        Field::Int(value) => (*value).into(),
        Field::Long(value) => (*value).into(),
        Field::UByte(value) => (*value).into(),
        Field::UShort(value) => (*value).into(),
        Field::UInt(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        Field::Float(value) => float(f64::from(*value)),
        Field::Double(value) => float(*value),
        Field::Str(value) => value.as_str().into(),
        other => other.to_string().into(),
    }
}
