//! JSON Schemas of what runs store, made from the types that are serialised. `docs/schema` holds them, and the program prints these
//! files.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The key of what `--json` of every verb has beside the numbers.
const RESULT: &str = "result";

/// The schema `name` is that of a type, of documents that name `format` in their key `schema`.
///
/// # Panics
/// The committed file differs. With `QUAVER_BLESS` in the environment, it is written instead.
pub fn committed<T: JsonSchema>(name: &str, format: &str) {
    committed_as::<T>(name, format, "schema", format.into());
}

/// The schema `name` is that of a type whose key `key` has the version.
///
/// # Panics
/// As [`committed`].
pub fn committed_as<T: JsonSchema>(name: &str, title: &str, key: &str, version: Value) {
    let mut schema = versioned::<T>(title, key, version);
    // A manifest is no result of a verb.
    if name != "manifest" {
        let text = fs::read_to_string(place(RESULT)).expect("the schema of results is committed");
        let result: Value = serde_json::from_str(&text).expect("JSON");
        schema["properties"][RESULT] = result["properties"][RESULT].clone();
    }
    same(name, &schema);
}

/// The schema of what `--json` of every verb has, of an object that names `format`.
///
/// # Panics
/// As [`committed`]. The other schemas hold this one, so it is blessed first.
pub fn committed_result<T: JsonSchema>(format: &str) {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    readable(&mut schema);
    schema["properties"]["schema"] = json!({ "const": format });
    let whole = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "--json of every verb",
        "type": "object",
        "properties": { RESULT: schema },
        "required": [RESULT],
    });
    same(RESULT, &whole);
}

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/schema/{name}.json"))
}

/// What the file of a schema holds has to be `schema`, or becomes it where that is asked for.
fn same(name: &str, schema: &Value) {
    let place = place(name);
    let now = format!("{}\n", serde_json::to_string_pretty(schema).expect("it is JSON"));
    if env::var_os("QUAVER_BLESS").is_some() {
        fs::write(&place, &now).expect("it can be written");
    }
    let before = fs::read_to_string(&place).unwrap_or_default();
    let differs = before.lines().zip(now.lines()).find(|(before, now)| before != now);
    assert!(
        before == now,
        "docs/schema/{name}.json is not what its type is, first in {differs:?}; if that is meant, run\n  \
         QUAVER_BLESS=1 cargo test --workspace --lib schema"
    );
}

fn versioned<T: JsonSchema>(title: &str, key: &str, version: Value) -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    readable(&mut schema);
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("title".to_owned(), title.into());
        let constant = Map::from_iter([("const".to_owned(), version)]);
        schema["properties"][key] = constant.into();
    }
    schema
}

/// Makes the schema of what this program writes one of all that it reads, and takes the links of Rust out of the words.
/// Readers take an absent key for null, or for the default of its type.
fn readable(schema: &mut Value) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(readable),
        Value::Object(object) => {
            if let Some(Value::String(words)) = object.get_mut("description") {
                *words = words.replace("[`", "`").replace("`]", "`");
            }
            let Some(Value::Object(mut properties)) = object.remove("properties") else {
                object.values_mut().for_each(readable);
                return;
            };
            let must = |key: &Value| {
                let property = key.as_str().and_then(|key| properties.get(key));
                property.is_some_and(|property| property.get("default").is_none() && !takes_null(property))
            };
            if let Some(Value::Array(required)) = object.get_mut("required") {
                required.retain(must);
                // A part of the type that has a name of the whole.
                let mut seen = BTreeSet::new();
                required.retain(|key| seen.insert(key.to_string()));
            }
            properties.values_mut().filter_map(Value::as_object_mut).for_each(|property| {
                property.remove("default");
            });
            properties.values_mut().for_each(readable);
            object.values_mut().for_each(readable);
            object.insert("properties".to_owned(), properties.into());
        }
        _ => {}
    }
}

/// Whether a property may be null.
fn takes_null(property: &Value) -> bool {
    let has = |key: &str, null: &dyn Fn(&Value) -> bool| {
        property.get(key).and_then(Value::as_array).is_some_and(|all| all.iter().any(null))
    };
    has("type", &|one| one == "null") || has("anyOf", &|one| one["type"] == "null")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;

    /// Of [`Part`].
    #[derive(Serialize, JsonSchema)]
    struct Whole {
        schema: String,
        count: u32,
        maybe: Option<Part>,
        mean: Option<f64>,
        #[serde(default)]
        later: u32,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        parts: Vec<Part>,
    }

    #[derive(Serialize, JsonSchema)]
    struct Part {
        default: bool,
    }

    #[test]
    fn what_readers_can_do_without_is_not_required() {
        let schema = versioned::<Whole>("quaver.whole/1", "schema", "quaver.whole/1".into());
        assert_eq!(schema["required"], serde_json::Value::from(vec!["schema", "count"]));
        assert_eq!(schema["properties"]["schema"]["const"], "quaver.whole/1");
        assert_eq!(schema["description"], "Of `Part`.");
        assert_eq!(schema["properties"]["later"].get("default"), None);
        assert_eq!(schema["$defs"]["Part"]["required"], serde_json::Value::from(vec!["default"]));
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }
}
