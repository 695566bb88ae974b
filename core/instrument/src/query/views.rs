//! The views of runs, as statements for DuckDB.

use super::asked::Asked;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Statements, and what they define.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Views {
    /// To be run before a question.
    pub sql: String,
    /// Their names.
    pub names: Vec<String>,
}

/// Views of these runs, after the statements `before`.
pub(super) fn of(runs: &[Asked], before: String) -> Views {
    let rows: Vec<String> = runs.iter().map(row).collect();
    let manifests: Vec<&str> = runs.iter().map(|run| run.manifest_file.as_str()).collect();
    let summaries: Vec<&str> = runs.iter().filter_map(|run| run.summary_file.as_deref()).collect();
    let mut tables: BTreeMap<String, BTreeMap<usize, Vec<&str>>> = BTreeMap::new();
    for table in runs.iter().flat_map(|run| &run.tables) {
        let by_depth = tables.entry(view_name(&table.name)).or_default();
        by_depth.entry(table.depth).or_default().push(&table.file);
    }
    let mut sql = before + "SET memory_limit = '2GiB';\nSET autoinstall_known_extensions = false;\n";
    let temporary = std::env::temp_dir().join("quaver-query");
    let _ = writeln!(sql, "SET temp_directory = {};", quoted(&temporary.to_string_lossy()));
    sql.push_str(&table_of_runs(&rows));
    let (manifests, summaries) = (texts(&manifests), texts(&summaries));
    let _ = writeln!(
        sql,
        "CREATE VIEW manifests AS SELECT {RUN} AS run, content::JSON AS manifest FROM {manifests};"
    );
    let numbers = NUMBERS.replace("{run}", RUN).replace("{texts}", &summaries);
    let _ = writeln!(sql, "CREATE VIEW numbers AS {numbers};");
    sql.push_str(INCIDENTS);
    for (name, by_depth) in &tables {
        let parts: Vec<String> =
            by_depth.iter().map(|(depth, files)| view_of_tables(*depth, files)).collect();
        let _ = writeln!(sql, "CREATE VIEW \"{name}\" AS {};", parts.join(" UNION ALL BY NAME "));
    }
    let own = ["runs", "manifests", "numbers", "incidents"].map(str::to_owned);
    Views { sql, names: own.into_iter().chain(tables.into_keys()).collect() }
}

/// The view of a table, whose name stays that of its files.
fn view_name(table: &str) -> String {
    match table {
        "path" => "paths".to_owned(),
        "sim-sweep" => "sim_points".to_owned(),
        own => own.replace('-', "_"),
    }
}

/// Rows of tables so many folders deep in their runs. Those in a folder are told apart by `file`, as `quaver export --csv` names it.
fn view_of_tables(depth: usize, files: &[&str]) -> String {
    let folder = (0..=depth).fold("filename".to_owned(), |path, _| format!("parse_dirpath({path})"));
    let file = match depth {
        0 => String::new(),
        _ => format!("regexp_extract(filename, '((?:[^/]*/){{{depth}}}[^/]*)[.]parquet$', 1) AS file, "),
    };
    format!(
        "SELECT parse_filename({folder}) AS run, {file}* EXCLUDE (filename) \
         FROM read_parquet({}, union_by_name = true, filename = true)",
        list(files)
    )
}

/// The name of the run that a file lies in.
const RUN: &str = "parse_filename(parse_dirpath(filename))";

/// Columns of `runs`.
const COLUMNS: [&str; 12] = [
    "run VARCHAR",
    "verb VARCHAR",
    "hostname VARCHAR",
    "kernel VARCHAR",
    "cpu VARCHAR",
    "started TIMESTAMPTZ",
    "ended TIMESTAMPTZ",
    "realtime_minus_monotonic_ns BIGINT",
    "clock_error_bound_ns BIGINT",
    "complete BOOLEAN",
    "tags VARCHAR[]",
    "path VARCHAR",
];

/// Numbers of summaries with their places in them. Switches count as 0 and 1. Each turn takes the lists and objects of the one before
/// apart. `json_tree` would do with less words, but keeps the whole text once for each number in it: gigabytes for a long summary.
const NUMBERS: &str = "\
WITH RECURSIVE node(filename, name, value) AS (
    SELECT filename, NULL::VARCHAR, content::JSON FROM {texts}
    UNION ALL
    SELECT filename, concat_ws('.', name, place), part FROM (
        SELECT filename, name,
            unnest(CASE json_type(value) WHEN 'OBJECT' THEN json_keys(value)
                WHEN 'ARRAY' THEN CAST(range(json_array_length(value)::BIGINT) AS VARCHAR[]) END) AS place,
            unnest(CASE json_type(value) WHEN 'OBJECT' THEN map_values(TRY_CAST(value AS MAP(VARCHAR, JSON)))
                WHEN 'ARRAY' THEN TRY_CAST(value AS JSON[]) END) AS part
        FROM node))
SELECT {run} AS run, name,
    CASE json_type(value) WHEN 'BOOLEAN' THEN CAST(value = 'true' AS DOUBLE) ELSE CAST(value AS DOUBLE) END AS value
FROM node WHERE json_type(value) IN ('BIGINT', 'UBIGINT', 'DOUBLE', 'BOOLEAN')";

const INCIDENTS: &str = "\
CREATE VIEW incidents AS
SELECT run, incident->>'$.receiver' AS receiver, incident->>'$.cause' AS cause,
    CAST(incident->'$.reasons' AS VARCHAR[]) AS reasons, CAST(incident->'$.count' AS BIGINT) AS \"count\",
    make_timestamptz(CAST(incident->'$.first_realtime_ns' AS BIGINT) // 1000) AS first,
    make_timestamptz(CAST(incident->'$.last_realtime_ns' AS BIGINT) // 1000) AS last
FROM (SELECT run, manifest->'$.asked.incident' AS incident FROM manifests) WHERE incident IS NOT NULL;
";

/// The values of one run, in the order of [`COLUMNS`].
fn row(run: &Asked) -> String {
    let manifest = &run.manifest;
    let fact = |pointer: &str| match manifest.host.pointer(pointer) {
        Some(Value::String(text)) => quoted(text),
        _ => "NULL".to_owned(),
    };
    let number = |value: Option<i64>| value.map_or_else(|| "NULL".to_owned(), |value| value.to_string());
    let time = |ns: i64| format!("make_timestamptz({})", ns / 1_000);
    let clock = manifest.clock.as_ref();
    let tags: Vec<String> = run.tags.iter().map(|tag| quoted(tag)).collect();
    let values = [
        quoted(run.place.rsplit('/').next().unwrap_or(&run.place)),
        quoted(&manifest.verb),
        fact("/kernel/hostname"),
        fact("/kernel/release"),
        fact("/cpu/model"),
        time(manifest.started_realtime_ns),
        manifest.ended_realtime_ns.map_or_else(|| "NULL".to_owned(), time),
        number(clock.and_then(|clock| clock.realtime_minus_monotonic_ns)),
        number(clock.map(|clock| clock.error_bound_ns)),
        manifest.complete.to_string(),
        format!("[{}]", tags.join(", ")),
        quoted(&run.place),
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

/// Texts of files, which are read when they are asked for.
fn texts(files: &[&str]) -> String {
    // A list of files must not be empty, and this one has no rows.
    if files.is_empty() {
        "(SELECT '' AS filename, '{}' AS content WHERE false)".to_owned()
    } else {
        format!("read_text({})", list(files))
    }
}

/// Files, as a list of DuckDB's.
pub(super) fn list(files: &[&str]) -> String {
    let files: Vec<String> = files.iter().map(|file| quoted(&escaped(file))).collect();
    format!("[{}]", files.join(", "))
}

/// A path in which no character stands for others.
pub(super) fn escaped(path: &str) -> String {
    path.chars().fold(String::new(), |mut out, c| {
        match c {
            '*' | '?' | '[' => out.extend(['[', c, ']']),
            c => out.push(c),
        }
        out
    })
}

/// A string of SQL.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
