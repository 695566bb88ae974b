//! JSON Schemas of what runs store: `quaver schema`. They are the files of `docs/schema`, which a test of each kind of runs makes
//! from the type that is serialised.

use crate::exit_code::{ExitCode, failure};
use crate::registry::RunKind;
use crate::results::to_stdout;
use clap::{Args, Command};
use quaver_store::table::Table;
use serde_json::Value;

/// Name of the manifest's schema beside those of verbs.
const MANIFEST: &str = "manifest";

/// The schema of `manifest.json`.
const MANIFEST_SCHEMA: &str = include_str!("../../../docs/schema/manifest.json");

/// Name of the schema of what `--json` of every verb has.
const RESULT: &str = "result";

/// The schema of what `--json` of every verb has: an object with the key `result`.
const RESULT_SCHEMA: &str = include_str!("../../../docs/schema/result.json");

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
        (MANIFEST, _) => MANIFEST_SCHEMA.to_owned(),
        (RESULT, _) => RESULT_SCHEMA.to_owned(),
        (_, Some(schema)) => schema.to_owned(),
        _ if is_verb => printed(&format!("--json of {}", args.of.join(" ")))?,
        _ if name.split('-').next() == Some(SIMULATOR) => printed("--json of the simulator's verbs")?,
        _ => {
            let message =
                format!("schema {name}: there is none of that name; these are:\n{}", list(kinds, &verbs));
            return Err(failure(ExitCode::Usage, message.trim_end()));
        }
    };
    to_stdout(schema.as_bytes())?;
    Ok(ExitCode::Done)
}

/// The schema of what a verb prints of which only the key `result` is described.
fn printed(title: &str) -> anyhow::Result<String> {
    let mut schema: Value = serde_json::from_str(RESULT_SCHEMA)?;
    schema["title"] = title.into();
    Ok(format!("{}\n", serde_json::to_string_pretty(&schema)?))
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
    use crate::envelope::{Envelope, SCHEMA};
    use quaver_store::manifest::{FormatVersion, Manifest};
    use quaver_testbed::schema;

    #[test]
    fn committed_schemas_are_those_of_the_types() {
        let version = FormatVersion::CURRENT.number();
        schema::committed_as::<Manifest>(
            "manifest",
            &format!("manifest.json, format {version}"),
            "format",
            version.into(),
        );
        schema::committed_result::<Envelope>(SCHEMA);
    }
}
