//! What `--json` prints, taken apart.

use serde_json::Value;

/// The key `result` of what a verb printed, and the numbers beside it: those of `summary.json`.
///
/// # Panics
/// It is no JSON, or has no `result` of this version.
pub fn apart(printed: &[u8]) -> (Value, Value) {
    let mut numbers: Value = serde_json::from_slice(printed).expect("JSON");
    let result = numbers.as_object_mut().and_then(|all| all.remove("result")).expect("the key result");
    assert_eq!(result["schema"], "quaver.result/1", "{result}");
    (result, numbers)
}

/// The numbers alone.
///
/// # Panics
/// As [`apart`].
pub fn numbers(printed: &[u8]) -> Value {
    apart(printed).1
}
