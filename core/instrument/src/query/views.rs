//! The views of runs, as statements for DuckDB.

use anyhow::Context;
use quaver_store::columns::table_name;
use quaver_store::listing::Listed;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Statements, and what they define.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Views {
    /// To be run before a question.
    pub sql: String,
    /// Their names.
    pub names: Vec<String>,
}

/// Views of these runs. Standard error names each table that cannot be read; it is left out.
pub(super) fn of(runs: &[Listed]) -> anyhow::Result<Views> {
    let mut rows = Vec::new();
    let (mut manifests, mut summaries) = (Vec::new(), Vec::new());
    let mut tables: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for listed in runs {
        let path = listed.run.path();
        let path = path.canonicalize().with_context(|| format!("reading {}", path.display()))?;
        manifests.push(path.join("manifest.json"));
        let summary = Some(listed.run.whole_summary()).filter(|file| file.is_file());
        summaries.extend(summary.and_then(|file| Some(path.join(file.file_name()?))));
        for file in parquet_files(&path) {
            match table_name(&file) {
                Ok(name) => tables.entry(name.replace('-', "_")).or_default().push(file),
                Err(error) => crate::tell!("{error}; it is left out"),
            }
        }
        rows.push(row(&path, listed));
    }
    let mut sql = String::from("SET memory_limit = '2GiB';\nSET autoinstall_known_extensions = false;\n");
    let _ = writeln!(sql, "SET temp_directory = {};", quoted(std::env::temp_dir().join("quaver-query")));
    sql.push_str(&table_of_runs(&rows));
    sql.push_str(&view_of_files("manifests", "content::JSON AS manifest", &manifests, ""));
    sql.push_str(&view_of_files("numbers", NUMBERS, &summaries, NUMBERS_FROM));
    sql.push_str(INCIDENTS);
    for (name, files) in &tables {
        let _ = writeln!(
            sql,
            "CREATE VIEW \"{name}\" AS SELECT {RUN} AS run, * EXCLUDE (filename) \
             FROM read_parquet({}, union_by_name = true, filename = true);",
            list(files)
        );
    }
    let own = ["runs", "manifests", "numbers", "incidents"].map(str::to_owned);
    Ok(Views { sql, names: own.into_iter().chain(tables.into_keys()).collect() })
}

/// The name of the run that a file lies in.
const RUN: &str = "parse_filename(parse_dirpath(filename))";

/// Columns of `runs`.
const COLUMNS: [&str; 11] = [
    "run VARCHAR",
    "verb VARCHAR",
    "hostname VARCHAR",
    "kernel VARCHAR",
    "cpu VARCHAR",
    "started TIMESTAMPTZ",
    "ended TIMESTAMPTZ",
    "realtime_minus_monotonic_ns BIGINT",
    "complete BOOLEAN",
    "tags VARCHAR[]",
    "path VARCHAR",
];

/// Numbers of a summary with their places in it. Switches count as 0 and 1.
const NUMBERS: &str = "translate(leaf.fullkey[3:], '[]', '.') AS name, \
    CASE leaf.type WHEN 'BOOLEAN' THEN CAST(leaf.atom = 'true' AS DOUBLE) ELSE CAST(leaf.atom AS DOUBLE) END AS value";
const NUMBERS_FROM: &str =
    ", json_tree(content) AS leaf WHERE leaf.type IN ('BIGINT', 'UBIGINT', 'DOUBLE', 'BOOLEAN')";

const INCIDENTS: &str = "\
CREATE VIEW incidents AS
SELECT run, incident->>'$.receiver' AS receiver, incident->>'$.cause' AS cause,
    CAST(incident->'$.reasons' AS VARCHAR[]) AS reasons, CAST(incident->'$.count' AS BIGINT) AS \"count\",
    make_timestamptz(CAST(incident->'$.first_realtime_ns' AS BIGINT) // 1000) AS first,
    make_timestamptz(CAST(incident->'$.last_realtime_ns' AS BIGINT) // 1000) AS last
FROM (SELECT run, manifest->'$.asked.incident' AS incident FROM manifests) WHERE incident IS NOT NULL;
";

/// Files of a run that may be tables, in order.
fn parquet_files(run: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(run).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|it| it == "parquet")).collect();
    files.sort();
    files
}

/// The values of one run, in the order of [`COLUMNS`].
fn row(path: &Path, listed: &Listed) -> String {
    let manifest = &listed.manifest;
    let fact = |pointer: &str| match manifest.host.pointer(pointer) {
        Some(Value::String(text)) => quoted(text),
        _ => "NULL".to_owned(),
    };
    let time = |ns: i64| format!("make_timestamptz({})", ns / 1_000);
    let clock = manifest.clock.as_ref();
    let tags: Vec<String> = listed.tags.iter().map(quoted).collect();
    let values = [
        quoted(path.file_name().unwrap_or(path.as_os_str())),
        quoted(&manifest.verb),
        fact("/kernel/hostname"),
        fact("/kernel/release"),
        fact("/cpu/model"),
        time(manifest.started_realtime_ns),
        manifest.ended_realtime_ns.map_or_else(|| "NULL".to_owned(), time),
        clock
            .and_then(|clock| clock.realtime_minus_monotonic_ns)
            .map_or_else(|| "NULL".to_owned(), |ns| ns.to_string()),
        manifest.complete.to_string(),
        format!("[{}]", tags.join(", ")),
        quoted(path),
    ];
    format!("({})", values.join(", "))
}

fn table_of_runs(rows: &[String]) -> String {
    let mut sql = format!("CREATE TABLE runs ({});\n", COLUMNS.join(", "));
    if !rows.is_empty() {
        let _ = writeln!(sql, "INSERT INTO runs VALUES\n{};", rows.join(",\n"));
    }
    sql
}

/// A view of files of JSON, which are read when they are asked for.
fn view_of_files(name: &str, columns: &str, files: &[PathBuf], more: &str) -> String {
    // A list of files must not be empty, and this one has no rows.
    let from = if files.is_empty() {
        "(SELECT '' AS filename, '{}' AS content WHERE false)".to_owned()
    } else {
        format!("read_text({})", list(files))
    };
    format!("CREATE VIEW {name} AS SELECT {RUN} AS run, {columns} FROM {from}{more};\n")
}

fn list(files: &[PathBuf]) -> String {
    let files: Vec<String> = files.iter().map(|file| quoted(escaped(file))).collect();
    format!("[{}]", files.join(", "))
}

/// A path in which no character stands for others.
fn escaped(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.chars().fold(String::new(), |mut out, c| {
        match c {
            '*' | '?' | '[' => out.extend(['[', c, ']']),
            c => out.push(c),
        }
        out
    })
}

fn quoted(text: impl AsRef<std::ffi::OsStr>) -> String {
    format!("'{}'", text.as_ref().to_string_lossy().replace('\'', "''"))
}
