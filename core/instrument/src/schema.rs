//! JSON Schemas of what runs store, made from the types that are serialised: `quaver schema`.

use crate::envelope::Envelope;
use crate::exit_code::{ExitCode, failure};
use crate::registry::RunKind;
use crate::results::to_stdout;
use clap::{Args, Command};
use quaver_store::manifest::{FormatVersion, Manifest};
use quaver_store::table::Table;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Name of the manifest's schema beside those of verbs.
const MANIFEST: &str = "manifest";

/// Name of the schema of what `--json` of every verb has.
const RESULT: &str = "result";

/// Name of the columns of tables, as Markdown.
const TABLES: &str = "tables";

/// The verb whose own verbs are another program's, which has the schemas of its runs.
pub const SIMULATOR: &str = "sim";

/// Kinds of its runs.
const SIMULATED: [&str; 3] = [SIMULATOR, "sim-paper", "sim-sweep"];

/// `quaver schema`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quaver schema                     what there is\n  \
    quaver schema noise > noise.json  then: check-jsonschema --schemafile noise.json RUN/summary.json\n  \
    quaver schema tune audit          what its --json prints\n  \
    quaver schema tables              columns of Parquet files, as Markdown\n\n\
    What --json prints follows the schema of its verb, with the key result; summary.json of the run lacks that key.\n\
    A schema describes the files of its version by this program and by earlier ones. A key that it does not require may be\n\
    absent, which means the same as null. Keys that it does not name may be there: a newer program wrote them.")]
pub struct SchemaArgs {
    /// Verb whose --json and summary.json are described, manifest for manifest.json, tables for columns of Parquet files, or
    /// result for what --json of every verb has
    /// [default: list what there is]
    #[arg(value_name = "VERB")]
    pub of: Vec<String>,
}

/// The schema of a type, of documents that name `format` in their key `schema`.
pub fn of<T: JsonSchema>(format: &str) -> Value {
    versioned::<T>(format, "schema", format.into())
}

/// The schema of a type whose key `key` has the version.
pub fn versioned<T: JsonSchema>(title: &str, key: &str, version: Value) -> Value {
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

/// Prints a schema, or the names of all. `program` is the whole command line.
pub(crate) fn run(
    args: &SchemaArgs,
    kinds: &[&dyn RunKind],
    tables: &[&Table],
    program: &Command,
) -> anyhow::Result<ExitCode> {
    let verbs = verbs_with_json(program);
    if args.of.is_empty() {
        to_stdout(list(kinds, &verbs).as_bytes())?;
        return Ok(ExitCode::Done);
    }
    // A kind of runs is named by its verb's words: sync-bench. Those of `sim run` are older than its second word.
    let name = args.of.join("-");
    let name = if name == "sim-run" { SIMULATOR.to_owned() } else { name };
    if name == TABLES {
        let all: Vec<String> = tables.iter().map(|table| table.markdown()).collect();
        to_stdout(format!("{TABLES_HEAD}{}", all.join("\n")).as_bytes())?;
        return Ok(ExitCode::Done);
    }
    let kind = kinds.iter().find(|kind| kind.verbs().contains(&name.as_str()));
    let is_verb = verbs.iter().any(|verb| verb.replace(' ', "-") == name);
    let schema = match (name.as_str(), kind.and_then(|kind| kind.schema())) {
        (MANIFEST, _) => Some(manifest()),
        (RESULT, _) => Some(printed("--json of every verb")),
        (_, Some(schema)) => Some(with_result(schema)),
        _ if is_verb => Some(printed(&format!("--json of {}", args.of.join(" ")))),
        _ if name.split('-').next() == Some(SIMULATOR) => Some(printed("--json of the simulator's verbs")),
        _ => None,
    };
    let schema = schema.ok_or_else(|| {
        let message =
            format!("schema {name}: there is none of that name; these are:\n{}", list(kinds, &verbs));
        failure(ExitCode::Usage, message.trim_end())
    })?;
    to_stdout(format!("{}\n", serde_json::to_string_pretty(&schema)?).as_bytes())?;
    Ok(ExitCode::Done)
}

fn manifest() -> Value {
    let version = FormatVersion::CURRENT.number();
    versioned::<Manifest>(&format!("manifest.json, format {version}"), "format", version.into())
}

/// The key `result` by itself.
fn envelope() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<Envelope>().to_value();
    readable(&mut schema);
    schema["properties"]["schema"] = serde_json::json!({ "const": crate::envelope::SCHEMA });
    schema
}

/// A schema of summaries as `--json` prints them.
fn with_result(mut schema: Value) -> Value {
    schema["properties"][RESULT] = envelope();
    schema
}

/// The schema of what a verb prints of which only the key `result` is described.
fn printed(title: &str) -> Value {
    serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "type": "object",
        "properties": { RESULT: envelope() },
        "required": [RESULT],
    })
}

/// Verbs that have `--json`, with the words of those above them.
fn verbs_with_json(program: &Command) -> Vec<String> {
    let mut all = Vec::new();
    for verb in program.get_subcommands() {
        let name = verb.get_name();
        if verb.get_arguments().any(|argument| argument.get_id() == "json") {
            all.push(name.to_owned());
        }
        all.extend(verbs_with_json(verb).into_iter().map(|below| format!("{name} {below}")));
    }
    all
}

/// Before the sections of `docs/tables.md`.
const TABLES_HEAD: &str = "\
# Tables

`quaver schema tables` prints these columns of Parquet files. They are those that the code writes.
The metadata of a file has [the name of its table](formats.md#metadata-of-tables). An enumeration
has a column of names beside its number. A place in a list of the manifest is a number alone.

";

/// Verbs that share a schema stand in one line, its name first.
fn list(kinds: &[&dyn RunKind], verbs: &[String]) -> String {
    let mut out = format!("{MANIFEST}: manifest.json of every run\n");
    for kind in kinds.iter().filter(|kind| kind.schema().is_some()) {
        out.push_str(&format!("{}: summary.json\n", kind.verbs().join(", ")));
    }
    for name in SIMULATED.iter().filter(|name| !kinds.iter().any(|kind| kind.verbs().contains(name))) {
        out.push_str(&format!("{name}: summary.json\n"));
    }
    out.push_str(&format!("{TABLES}: columns of tables, as Markdown\n"));
    out.push_str(&format!("{RESULT}: --json of every verb: {}, {SIMULATOR} ...\n", verbs.join(", ")));
    out
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
        let schema = of::<Whole>("quaver.whole/1");
        assert_eq!(schema["required"], serde_json::Value::from(vec!["schema", "count"]));
        assert_eq!(schema["properties"]["schema"]["const"], "quaver.whole/1");
        assert_eq!(schema["description"], "Of `Part`.");
        assert_eq!(schema["properties"]["later"].get("default"), None);
        assert_eq!(schema["$defs"]["Part"]["required"], serde_json::Value::from(vec!["default"]));
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }
}
