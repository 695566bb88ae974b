//! `quaver migrate`: copies of runs of earlier programs, in the formats of today.

use crate::exit_code::{ExitCode, failure, sentence, status_of};
use crate::interrupt::Interrupt;
use crate::registry::RunKind;
use crate::results::{self, Found};
use crate::rights;
use crate::stage::Stage;
use anyhow::Context;
use clap::Args;
use quaver_store::columns::table_name;
use quaver_store::events::{read_events, write_events};
use quaver_store::packets::{read_packets_and_media, stamps, write_packets_and_media};
use quaver_store::rewrite::{column_names, restate};
use quaver_store::run::RunDir;
use quaver_store::table::Table as StoredTable;
use quaver_view::{Cell, Document, Section, Table, Tone, text};
use serde::Serialize;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Name and version of what is printed.
const SCHEMA: &str = "quaver.migrate/1";

/// `quaver migrate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver migrate runs/* -o runs-today
  quaver migrate last -o runs-today --json | jq .runs

A copy has the name of its run. Its tables have the columns and the metadata of today, with null where the run does not
tell, and the same rows. It is analysed anew: summary.json and report.html are those of today's rules. All other files are
copied, and the run stays as it is. Whatever a table cannot carry over, row by row, refuses the run, and so do raw records
of a run that was cut short. Runs of `quaver sim` need a command of their own.")]
pub(crate) struct MigrateArgs {
    /// Run directories
    #[arg(id = "run", value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,
    /// Directory in which the copies are made
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Print as JSON what was done
    #[arg(long)]
    pub(crate) json: bool,
}

/// What became of a run.
#[derive(Debug, Serialize)]
struct Migrated {
    run: String,
    copy: String,
    tables: Vec<Restated>,
    /// Version of its summary before and now; null where it had none.
    summary: [Option<String>; 2],
}

/// What became of a table.
#[derive(Debug, Serialize)]
struct Restated {
    file: String,
    table: String,
    /// Columns that it lacked.
    new_columns: Vec<String>,
    /// Stamps that were cut off at a largest distance before, and are missing now.
    stamps_now_missing: usize,
}

/// Copies the runs, one after the other. One that is refused leaves no copy, and the others are made.
pub(crate) fn run(
    args: &MigrateArgs,
    known: &[&StoredTable],
    kind_of: impl Fn(&RunDir) -> anyhow::Result<&'static dyn RunKind>,
) -> anyhow::Result<ExitCode> {
    fs::create_dir_all(&args.output).with_context(|| format!("making {}", args.output.display()))?;
    let runs: Vec<_> = args.runs.iter().map(|run| (run, quaver_store::listing::open(run))).collect();
    let read: Vec<&Path> = runs.iter().flat_map(|(_, run)| run).map(RunDir::path).collect();
    rights::keep(&read, &[&args.output]);
    let interrupt = Interrupt::catch()?;
    let (mut done, mut refused, mut ended) = (Vec::new(), Vec::new(), None);
    for (path, run) in runs {
        if interrupt.requested() {
            ended = Some(ExitCode::Interrupted);
            break;
        }
        match run.map_err(anyhow::Error::new).and_then(|run| one(&run, &args.output, known, &kind_of)) {
            Ok(migrated) => done.push(migrated),
            Err(error) => {
                crate::tell!("quaver: migrate {}: {}", path.display(), sentence(&error));
                ended = ended.or(Some(status_of(&error, &[])));
                refused.push(json!({ "run": path.display().to_string(), "why": sentence(&error) }));
            }
        }
    }
    let summary = json!({ "schema": SCHEMA, "runs": done, "refused": refused });
    let page = || page(&done, &refused);
    results::print(&Found::new(&summary).ended(ended), page, args.json, &[])
}

fn one(
    run: &RunDir,
    output: &Path,
    known: &[&StoredTable],
    kind_of: &dyn Fn(&RunDir) -> anyhow::Result<&'static dyn RunKind>,
) -> anyhow::Result<Migrated> {
    let kind = kind_of(run)?;
    let real = run.path().canonicalize().with_context(|| format!("reading {}", run.path().display()))?;
    let target = output.join(run.name());
    let stage = Stage::beside(&target, &real)?;
    let copy = stage.copy();
    copy_files(&real, copy)?;
    let before = version(copy);
    let mut tables = Vec::new();
    restate_tables(&real, copy, (Path::new(""), known), &mut tables)?;
    let copied = RunDir::open(copy)?;
    let found = kind.analyze(&copied, None)?;
    found.store(&copied)?;
    if real.join("report.html").is_file() {
        results::store_report(&copied, &found.document(&copied)?)?;
    }
    let now = version(copy);
    stage.put(&target)?;
    let [run, copy] = [run.path(), &target].map(|path| path.display().to_string());
    Ok(Migrated { run, copy, tables, summary: [before, now] })
}

/// Copies all files as they are, with the folders that they lie in.
fn copy_files(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("listing {}", from.display()))? {
        let entry = entry.with_context(|| format!("listing {}", from.display()))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().with_context(|| format!("reading {}", path.display()))?;
        if kind.is_dir() {
            fs::create_dir(&target).with_context(|| format!("making {}", target.display()))?;
            copy_files(&path, &target)?;
            continue;
        }
        // Recordings of programs keep theirs in a folder.
        if path.extension().is_some_and(|end| end == "seg") && from.join("manifest.json").is_file() {
            let message = format!(
                "{} is raw: the run was cut short; quaver analyze reads it as it is",
                entry.file_name().display()
            );
            return Err(failure(ExitCode::BadInput, message));
        }
        fs::copy(&path, &target).with_context(|| format!("writing {}", target.display()))?;
    }
    Ok(())
}

/// Name or number of the version of a run's summary.
fn version(run: &Path) -> Option<String> {
    let text = fs::read(run.join("summary.json")).ok()?;
    let summary: Value = serde_json::from_slice(&text).ok()?;
    match summary.get("schema").or_else(|| summary.get("version"))? {
        Value::String(name) => Some(name.clone()),
        number => Some(number.to_string()),
    }
}

/// Writes all tables below a folder of the copy anew.
fn restate_tables(
    from: &Path,
    to: &Path,
    (below, known): (&Path, &[&StoredTable]),
    into: &mut Vec<Restated>,
) -> anyhow::Result<()> {
    let folder = from.join(below);
    let mut entries = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))? {
        entries.push(entry.with_context(|| format!("listing {}", folder.display()))?.path());
    }
    entries.sort();
    for path in entries {
        let below = below.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            restate_tables(from, to, (&below, known), into)?;
        } else if path.extension().is_some_and(|end| end == "parquet") {
            into.push(restate_table(&path, &to.join(&below), &below, known)?);
        }
    }
    Ok(())
}

fn restate_table(from: &Path, to: &Path, name: &Path, known: &[&StoredTable]) -> anyhow::Result<Restated> {
    let table = table_name(from)?;
    let mut stamps_now_missing = 0;
    let same = match table.as_str() {
        "packets" => {
            let (packets, media) = read_packets_and_media(from)?;
            write_packets_and_media(to, &packets, &media)?;
            stamps_now_missing = stamps(from)?.saturating_sub(stamps(to)?);
            read_packets_and_media(to)? == (packets, media)
        }
        "events" => {
            let events = read_events(from)?;
            let run = RunDir::open(to.parent().unwrap_or(to))?;
            write_events(to, &events, &run.read_names()?)?;
            read_events(to)? == events
        }
        other => {
            restate(from, to, other, known)?;
            let now = column_names(to)?;
            column_names(from)?.iter().all(|column| now.contains(column))
        }
    };
    if !same {
        let message =
            format!("{} would hold other rows than it does; the run is left as it is", name.display());
        return Err(failure(ExitCode::BadInput, message));
    }
    let known = column_names(from)?;
    let new_columns = column_names(to)?.into_iter().filter(|column| !known.contains(column)).collect();
    Ok(Restated { file: name.display().to_string(), table, new_columns, stamps_now_missing })
}

fn page(done: &[Migrated], refused: &[Value]) -> Document {
    let mut document = Document::new("quaver migrate", "copies in the formats of today");
    document.version = env!("CARGO_PKG_VERSION").into();
    let all = done.len() + refused.len();
    document.verdict =
        (all > 0).then(|| text!("{} of {all} runs were copied in the formats of today.", done.len()));
    let mut table = Table::new(["copy", "tables", "new columns", "stamps now missing", "summary"]);
    for one in done {
        let columns = one.tables.iter().map(|table| table.new_columns.len() as u64).sum();
        let stamps = one.tables.iter().map(|table| table.stamps_now_missing as u64).sum();
        let [before, now] = one.summary.each_ref().map(|version| version.as_deref().unwrap_or("none"));
        table.row([
            Cell::from(one.copy.as_str()),
            Cell::Count(one.tables.len() as u64),
            Cell::Count(columns),
            Cell::Count(stamps),
            if before == now { now.into() } else { text!("{now}, before {before}").into() },
        ]);
    }
    if !done.is_empty() {
        document.section(Section::new("runs", "Runs").with(table));
    }
    if !refused.is_empty() {
        let mut table = Table::new(["run", "why"]);
        for one in refused {
            table.toned(Tone::Bad, ["run", "why"].map(|key| one[key].as_str().unwrap_or_default()));
        }
        document.section(Section::new("refused", "Refused").with(table));
    }
    document
}
