//! `quaver query`: stored runs asked in SQL. DuckDB answers; it is a program of its own, so that nothing of it is in what measures.

mod array;
mod asked;
mod duckdb;
mod s3;
mod views;

use crate::exit_code::{ExitCode, failure};
use crate::rights;
use asked::Asked;
use clap::Args;
use duckdb::Form;
use quaver_store::listing::{Listed, runs_below, tags};
use quaver_store::run::RunDir;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// `quaver query`.
#[derive(Debug, Args)]
#[command(after_help = "\
Views of all runs together, each with the column `run`:
  runs       a row per run: verb, hostname, kernel, cpu, started, ended, complete, tags, path, ...
  manifests  a row per run: manifest (JSON), as in manifest.json
  numbers    a row per number of summary.json: name (its path there), value
  incidents  a row per incident of `quaver watch`: receiver, cause, reasons, count, first, last
  packets, late, events, waits, gaps, paths, sim_points, ...
             the Parquet files of the runs, by the names of their tables; those in folders of a run
             have `file`, their place in it

Examples:
  quaver query 'FROM runs ORDER BY started'
  quaver query 'DESCRIBE late' last
  quaver query 'SELECT source, sum(end_ns - start_ns) / 1e6 AS ms FROM late GROUP BY ALL'
  quaver query --csv 'FROM packets' last > packets.csv
  quaver query < question.sql
  quaver query 'FROM runs' s3://bucket/prefix

docs/queries.md has more questions. Without SQL, a terminal gets DuckDB's prompt.

DuckDB's program is QUAVER_DUCKDB, or `duckdb` in PATH (pip install duckdb-cli).
It gets 2 GiB of memory; `SET memory_limit = '8GiB';` before a question raises that.

Runs in S3 need DuckDB's extension httpfs (duckdb -c 'INSTALL httpfs'). AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION and AWS_ENDPOINT_URL are heard.")]
pub struct QueryArgs {
    /// The question; without it, or as `-`, standard input is read
    #[arg(value_name = "SQL")]
    pub sql: Option<String>,
    /// Runs by path, name or tag, and directories or places in S3 with runs below [default: all below the root]
    #[arg(value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Where runs lie
    #[arg(long, default_value = "runs", env = "QUAVER_RUNS", value_name = "DIR")]
    pub root: PathBuf,
    /// Print JSON, with an array of objects under `rows`; the question is then one statement
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print rows as CSV, with a line of names
    #[arg(long)]
    pub csv: bool,
}

impl QueryArgs {
    /// What is asked about: places in S3, and others.
    fn places(&self) -> (Vec<String>, Vec<&Path>) {
        let all = if self.runs.is_empty() { std::slice::from_ref(&self.root) } else { &self.runs };
        let (mut far, mut here) = (Vec::new(), Vec::new());
        for place in all {
            match place.to_str().filter(|text| text.starts_with(s3::SCHEME)) {
                Some(text) => far.push(text.to_owned()),
                None => here.push(place.as_path()),
            }
        }
        (far, here)
    }
}

/// Asks DuckDB.
pub(crate) fn run(args: &QueryArgs) -> anyhow::Result<ExitCode> {
    let (far, here) = args.places();
    // Looking up the name of a run already reads the manifests of all.
    rights::keep_programs(!far.is_empty());
    let sql = args.sql.as_deref().filter(|sql| *sql != "-");
    if let Some(word) = sql.filter(|word| Path::new(word).exists()) {
        let message = format!("query {word}: the SQL goes first: quaver query 'FROM runs' {word}");
        return Err(failure(ExitCode::Usage, message));
    }
    let program = duckdb::find()?;
    let mut runs = chosen(args, &here)?;
    let mut before = String::new();
    if !far.is_empty() {
        runs.extend(s3::runs(&program, &far)?);
        before = s3::prelude()?;
    }
    let views = views::of(&runs, before);
    let form = match args {
        QueryArgs { json: true, .. } => Form::Json,
        QueryArgs { csv: true, .. } => Form::Csv,
        _ if std::io::stdout().is_terminal() => Form::Terminal,
        _ => Form::Table,
    };
    duckdb::ask(&program, &views, sql, form)
}

/// The runs of this machine that are asked about.
fn chosen(args: &QueryArgs, words: &[&Path]) -> anyhow::Result<Vec<Asked>> {
    let mut all = Vec::new();
    for word in words {
        let is_root = args.runs.is_empty();
        if is_root && !word.is_dir() {
            let message = format!("list {}: no such directory; name one with --root", word.display());
            return Err(failure(ExitCode::BadInput, message));
        }
        let below = if word.is_dir() && RunDir::open(word).is_err() { runs_below(word)? } else { Vec::new() };
        if below.is_empty() && !is_root {
            let run = quaver_store::listing::named(word, &args.root)?;
            all.push(Listed { manifest: run.read_manifest()?, tags: tags(&run), run });
        }
        all.extend(below);
    }
    all.into_iter().map(asked::here).collect()
}
