//! Fields of JSON. A number out of range is damage, as a field of another type is.

use super::Damage;
use serde_json::Value;

/// Nanoseconds in a microsecond, a millisecond and a second.
pub(super) const US: f64 = 1e3;
pub(super) const MS: f64 = 1e6;
pub(super) const S: f64 = 1e9;

/// A number, if it is there and not null.
pub(super) fn number(of: &Value, key: &str) -> Result<Option<f64>, Damage> {
    match of.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64().filter(|number| number.is_finite()) {
            Some(number) => Ok(Some(number)),
            None => Err(format!("its field {key:?} is no number")),
        },
    }
}

/// A count, if it is there and not null.
pub(super) fn count(of: &Value, key: &str) -> Result<Option<u64>, Damage> {
    match of.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_u64().map(Some).ok_or_else(|| format!("its field {key:?} is no count")),
    }
}

/// Words, if they are there.
pub(super) fn words(of: &Value, pointer: &str) -> Option<String> {
    of.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}

/// A list; an empty one if it is not there.
pub(super) fn list<'a>(of: &'a Value, key: &str) -> Result<&'a [Value], Damage> {
    match of.get(key) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(format!("its field {key:?} is no list")),
    }
}
