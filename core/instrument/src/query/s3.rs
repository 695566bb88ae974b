//! Runs at `s3://bucket/prefix`, by DuckDB's extension `httpfs`. It takes keys and region from the variables of the AWS programs.

use super::asked::{Asked, TableFile};
use super::duckdb::{as_objects, rows};
use super::views::{escaped, list, quoted};
use crate::exit_code::{ExitCode, failure};
use quaver_store::bounded::LEFT_OUT;
use quaver_store::columns::table_of;
use quaver_store::manifest::Manifest;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How such a place begins.
pub(super) const SCHEME: &str = "s3://";
/// Where the server is, if not at Amazon: the first that is set.
const ENDPOINT: [&str; 2] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];

/// Statements after which DuckDB reads such places.
///
/// # Errors
/// The endpoint is no URL.
pub(super) fn prelude() -> anyhow::Result<String> {
    let named =
        ENDPOINT.iter().find_map(|name| Some((name, std::env::var(name).ok().filter(|it| !it.is_empty())?)));
    let mut sql = "LOAD httpfs;\nSET enable_http_metadata_cache = true;\n".to_owned();
    if let Some((name, url)) = named {
        let (tls, host) = match url.split_once("://") {
            Some(("http", host)) => (false, host),
            Some(("https", host)) => (true, host),
            _ => {
                let message = format!("{name}: {url} is no URL; it has the form https://host:port");
                return Err(failure(ExitCode::Usage, message));
            }
        };
        let host = quoted(host.trim_end_matches('/'));
        sql += &format!("SET s3_endpoint = {host};\nSET s3_use_ssl = {tls};\nSET s3_url_style = 'path';\n");
    }
    Ok(sql)
}

/// The runs at and below these places.
///
/// # Errors
/// DuckDB lacks the extension, the server refuses, or there is no run.
pub(super) fn runs(program: &Path, places: &[String]) -> anyhow::Result<Vec<Asked>> {
    if let Err(words) = rows(program, "LOAD httpfs;")? {
        let message = format!(
            "read {}: DuckDB has no extension httpfs ({words}); install it: {} -c 'INSTALL httpfs'",
            places.join(", "),
            program.display()
        );
        return Err(failure(ExitCode::Unsupported, message));
    }
    let prelude = prelude()?;
    let asked = |operation: &str, place: &str, sql: &str| {
        rows(program, &format!("{prelude}{};\n", as_objects(sql)))?.map_err(|words| {
            let message = format!(
                "{operation} {place}: {words}; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say who asks, AWS_REGION and \
                 AWS_ENDPOINT_URL whom"
            );
            failure(ExitCode::BadInput, message)
        })
    };
    let mut files = BTreeSet::new();
    for place in places {
        let place = place.trim_end_matches('/');
        let pattern = quoted(&format!("{}/**", escaped(place)));
        let listed = asked("list", place, &format!("SELECT file FROM glob({pattern})"))?;
        let found: Vec<String> = listed.iter().filter_map(|row| text(row, "file")).collect();
        if !found.iter().any(|file| file.ends_with("/manifest.json")) {
            return Err(failure(ExitCode::BadInput, format!("list {place}: there is no run at or below it")));
        }
        files.extend(found);
    }
    let folders = folders(&files);
    let (mut texts, mut tables) = (Vec::new(), Vec::new());
    for (run, files) in &folders {
        let own = |name: &str| files.contains(&format!("{run}/{name}").as_str());
        let read = [("manifest.json", true), ("tags.txt", true), ("summary.json", own("details.json"))];
        texts.extend(
            read.iter().filter(|(name, read)| *read && own(name)).map(|(name, _)| format!("{run}/{name}")),
        );
        tables.extend(files.iter().copied().filter(|file| file.ends_with(".parquet")));
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let read = format!("SELECT filename AS file, content AS text FROM read_text({})", list(&texts));
    let texts = asked("read", &places.join(", "), &read)?;
    let texts: BTreeMap<String, String> =
        texts.iter().filter_map(|row| Some((text(row, "file")?, text(row, "text")?))).collect();
    let read = format!(
        "SELECT file_name AS file, map_from_entries(list((decode(key), decode(value)))) AS keys \
         FROM parquet_kv_metadata({}) WHERE starts_with(decode(key), 'quaver.') GROUP BY file_name",
        list(&tables)
    );
    let keys = if tables.is_empty() { Vec::new() } else { asked("read", &places.join(", "), &read)? };
    let keys: BTreeMap<String, Map<String, Value>> =
        keys.iter().filter_map(|row| Some((text(row, "file")?, row["keys"].as_object()?.clone()))).collect();
    folders.iter().map(|(run, files)| run_of(run, files, &texts, &keys)).collect()
}

fn text(row: &Value, column: &str) -> Option<String> {
    row[column].as_str().map(str::to_owned)
}

/// The directories of runs, and what lies in each. A run within a run is part of it.
fn folders(files: &BTreeSet<String>) -> BTreeMap<&str, BTreeSet<&str>> {
    let all: BTreeSet<&str> = files.iter().filter_map(|file| file.strip_suffix("/manifest.json")).collect();
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files {
        // The outermost: each place above it, the shortest first.
        let above = file.match_indices('/').map(|(at, _)| &file[..at]);
        if let Some(run) = above.into_iter().find(|place| all.contains(place)) {
            found.entry(run).or_default().insert(file);
        }
    }
    found
}

fn run_of(
    run: &str,
    files: &BTreeSet<&str>,
    texts: &BTreeMap<String, String>,
    keys: &BTreeMap<String, Map<String, Value>>,
) -> anyhow::Result<Asked> {
    let own = |name: &str| format!("{run}/{name}");
    let manifest_file = own("manifest.json");
    let content = texts.get(&manifest_file).map(String::as_str).unwrap_or_default();
    let manifest = Manifest::parse(Path::new(&manifest_file), content.as_bytes())?;
    let tags = texts.get(&own("tags.txt")).map(String::as_str).unwrap_or_default();
    let tags = tags.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    // As `RunDir::whole_summary` has it.
    let is_short = texts
        .get(&own("summary.json"))
        .and_then(|text| parsed::<Value>(text))
        .is_some_and(|it| it.get(LEFT_OUT).is_some());
    let summary_file = own(if is_short { "details.json" } else { "summary.json" });
    let summary_file = Some(summary_file).filter(|file| files.contains(file.as_str()));
    let mut tables = Vec::new();
    for file in files.iter().copied().filter(|file| file.ends_with(".parquet")) {
        let value = |key: &str| Some(keys.get(file)?.get(key)?.as_str()?.to_owned());
        match table_of(Path::new(file), value) {
            Ok(name) => {
                let depth = file[run.len()..].matches('/').count() - 1;
                tables.push(TableFile { name, file: file.to_owned(), depth });
            }
            Err(error) => crate::tell!("{error}; it is left out"),
        }
    }
    Ok(Asked { place: run.to_owned(), manifest, manifest_file, tags, summary_file, tables })
}

fn parsed<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}
