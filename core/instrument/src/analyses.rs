//! `quaver analyze` of many runs, or of one part of them.

use crate::exit_code::{ExitCode, failure, sentence, status_of};
use crate::interrupt::Interrupt;
use crate::registry::{RunKind, analyzed};
use crate::results::{self, Found, is_read_only};
use crate::rights;
use crate::runs::AnalyzeArgs;
use quaver_store::error::StoreError;
use quaver_store::listing::{Listed, open, runs_below};
use quaver_store::run::RunDir;
use quaver_view::{Cell, Document, Section, Table, Tone, text};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Name and version of what is printed.
const SCHEMA: &str = "quaver.analyses/1";

/// Whether many runs are meant: several words, a part of them, or a directory with runs below.
pub(crate) fn asked(args: &AnalyzeArgs) -> anyhow::Result<bool> {
    Ok(!args.more.is_empty() || args.shard.is_some() || !held(&args.run)?.is_empty())
}

/// The runs below a directory that is none itself.
fn held(path: &Path) -> Result<Vec<Listed>, StoreError> {
    if path.is_dir() && RunDir::open(path).is_err() { runs_below(path) } else { Ok(Vec::new()) }
}

/// Analyses the runs of this part one after the other, and stores what each yields. A condition counts for each run.
pub(crate) fn run(
    args: &AnalyzeArgs,
    kind_of: impl Fn(&RunDir) -> anyhow::Result<&'static dyn RunKind>,
) -> anyhow::Result<ExitCode> {
    if args.layer.is_some() {
        return Err(failure(ExitCode::Usage, "--layer is for one capture, and these are runs"));
    }
    let shard = args.shard.map(|shard| shard.resolve(|name| std::env::var(name).ok()));
    let shard = shard.transpose().map_err(|message| failure(ExitCode::Usage, message))?;
    let all = chosen(args)?;
    let count = all.len();
    let own = |place: usize| shard.is_none_or(|it| place % it.of as usize + 1 == it.index as usize);
    let part: Vec<RunDir> =
        all.into_iter().enumerate().filter(|(place, _)| own(*place)).map(|(_, run)| run).collect();
    rights::keep(&[], &part.iter().map(RunDir::path).collect::<Vec<_>>());
    let interrupt = Interrupt::catch()?;
    let (mut rows, mut refused, mut ended) = (Vec::new(), Vec::new(), None);
    for run in &part {
        if interrupt.requested() {
            ended = Some(ExitCode::Interrupted);
            break;
        }
        match one(run, args, &kind_of) {
            Ok(row) => {
                let missed = row["status"] != ExitCode::Done as u8;
                ended = ended.or(missed.then_some(ExitCode::Threshold));
                rows.push(row);
            }
            Err(error) => {
                crate::tell!("quaver: analyze {}: {}", run.path().display(), sentence(&error));
                ended = ended.or(Some(status_of(&error, &[])));
                refused.push(json!({ "run": run.path().display().to_string(), "why": sentence(&error) }));
            }
        }
    }
    let shard = shard.map(|shard| shard.to_string());
    let summary = json!({ "schema": SCHEMA, "of": count, "shard": shard, "runs": rows, "refused": refused });
    let page = || page(&rows, &refused, count, shard.as_deref());
    results::print(&Found::new(&summary).ended(ended), page, args.json, &[])
}

/// The runs that the words name, in the order of their paths, so that all processes number them alike.
fn chosen(args: &AnalyzeArgs) -> anyhow::Result<Vec<RunDir>> {
    let mut all: Vec<RunDir> = Vec::new();
    for word in [&args.run].into_iter().chain(&args.more) {
        if word.is_file() {
            let message = format!(
                "analyze {}: only runs are analysed together; analyse this file alone",
                word.display()
            );
            return Err(failure(ExitCode::Usage, message));
        }
        match held(word)? {
            runs if runs.is_empty() => all.push(open(word)?),
            runs => all.extend(runs.into_iter().map(|listed| listed.run)),
        }
    }
    let real = |run: &RunDir| run.path().canonicalize().unwrap_or_else(|_| run.path().to_owned());
    let mut all: Vec<(PathBuf, RunDir)> = all.into_iter().map(|run| (real(&run), run)).collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all.dedup_by(|one, other| one.0 == other.0);
    Ok(all.into_iter().map(|(_, run)| run).collect())
}

fn one(
    run: &RunDir,
    args: &AnalyzeArgs,
    kind_of: &dyn Fn(&RunDir) -> anyhow::Result<&'static dyn RunKind>,
) -> anyhow::Result<Value> {
    let results = analyzed(kind_of(run)?, run, args.late)?;
    let status = results::judge(&results.summary()?, &args.fail_if)?;
    let stored = match results.store(run) {
        Err(error) if is_read_only(&error) => {
            crate::tell!("quaver: {}: not stored: {}", run.path().display(), sentence(&error));
            false
        }
        stored => stored.map(|()| true)?,
    };
    let verb = run.read_manifest()?.verb;
    let verdict = results.page(run)?.verdict.map(|words| words.to_string());
    Ok(
        json!({ "run": run.path().display().to_string(), "verb": verb, "status": status as u8, "stored": stored, "verdict": verdict }),
    )
}

fn page(rows: &[Value], refused: &[Value], count: usize, shard: Option<&str>) -> Document {
    let mut document = Document::new("quaver analyze", "many runs");
    document.version = env!("CARGO_PKG_VERSION").into();
    let part = shard.map_or(String::new(), |shard| format!(", shard {shard} of {count}"));
    let all = rows.len() + refused.len();
    document.verdict = Some(text!("{} of {all} runs were analysed{part}.", rows.len()));
    let mut table = Table::new(["run", "verdict"]);
    let words = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    for row in rows {
        table.row([Cell::from(words(row, "run")), Cell::from(words(row, "verdict"))]);
    }
    for row in refused {
        table.toned(Tone::Bad, [words(row, "run"), words(row, "why")]);
    }
    document.section(Section::new("runs", "Runs").with(table));
    document
}
