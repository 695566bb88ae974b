//! `quaver runs`: stored runs listed, named, and removed.

mod filter;
mod page;
mod removal;
mod row;

use crate::deliver::{deliver, say_written};
use crate::exit_code::{ExitCode, failure};
use crate::registry::RunKind;
use crate::results::{self, Found};
use crate::rights;
use clap::{Args, Subcommand, ValueEnum};
use filter::Filter;
use quaver_store::error::StoreError;
use quaver_store::listing::{runs_below, tags, write_tags};
use quaver_store::run::RunDir;
use row::RunRow;
pub(crate) use row::unit_of;
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};

/// Name and version of the list in JSON.
const SCHEMA: &str = "quaver.runs/1";

/// `quaver runs`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  quaver runs
  quaver runs --where 'verb = chase and p99_ns > 20us' --sort headline
  quaver runs tag last before
  quaver report last~2
  quaver runs prune --keep 50 --below 5GiB
  quaver runs html -o runs.html

Every verb that takes a run takes its path, its name, a tag, `last` for the newest run, or `last~2` for the
second before it. A path that exists goes first.

--where takes verb, host, name, tag, when, size_bytes, complete, headline, and numbers of summary.json by their
path, or by their name alone where they stand beside the headline number.")]
pub struct RunsArgs {
    /// What to do with them [default: list]
    #[command(subcommand)]
    pub command: Option<RunsCommand>,
    /// What to list
    #[command(flatten)]
    pub list: ListArgs,
}

/// Which runs, in which order.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Where runs lie (repeatable)
    #[arg(long, default_value = "runs", env = "QUAVER_RUNS", value_name = "DIR")]
    pub root: Vec<PathBuf>,
    /// Only those of which this holds, for example 'verb = chase and size_bytes > 1MiB'
    #[arg(long, value_parser = filter::parse, value_name = "CONDITION")]
    pub r#where: Option<Filter>,
    /// In this order
    #[arg(long, value_enum, default_value = "when", value_name = "KEY")]
    pub sort: SortKey,
    /// Print the list as JSON
    #[arg(long)]
    pub json: bool,
}

impl ListArgs {
    fn roots(&self) -> Vec<&Path> {
        self.root.iter().map(PathBuf::as_path).collect()
    }
}

/// Orders of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortKey {
    /// The newest first
    When,
    /// By verb, then the newest first
    Verb,
    /// The largest directory first
    Size,
    /// The largest headline number first, runs of one figure together
    Headline,
}

/// What can be done with runs.
#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// Show one run: when, what, where, and its headline number
    Show(OneRunArgs),
    /// Give a run a name, which other verbs take too
    Tag(TagArgs),
    /// Remove runs
    Rm(RemoveArgs),
    /// Remove the oldest runs without a tag
    Prune(PruneArgs),
    /// Write a page of all runs with links to their reports
    Html(IndexArgs),
}

/// One run.
#[derive(Debug, Args)]
pub struct OneRunArgs {
    /// Path, name or tag
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Print it as JSON
    #[arg(long)]
    pub json: bool,
}

/// `quaver runs tag`.
#[derive(Debug, Args)]
pub struct TagArgs {
    /// Path, name or tag
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// The name: letters, digits, `.`, `_` and `-`
    #[arg(value_name = "TAG", required = true, value_parser = tag_name)]
    pub tags: Vec<String>,
    /// Take the name away
    #[arg(long)]
    pub remove: bool,
}

/// `quaver runs rm`.
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// Paths, names or tags
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

/// `quaver runs prune`.
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Which runs
    #[command(flatten)]
    pub list: ListArgs,
    /// Keep so many, the newest
    #[arg(long, value_name = "COUNT", required_unless_present = "below")]
    pub keep: Option<usize>,
    /// Keep no more than this altogether, for example 5GiB
    #[arg(long, value_parser = filter::size_bytes, value_name = "SIZE")]
    pub below: Option<u64>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

/// `quaver runs html`.
#[derive(Debug, Args)]
pub struct IndexArgs {
    /// Which runs
    #[command(flatten)]
    pub list: ListArgs,
    /// Where to write [default: index.html in the first root]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

fn tag_name(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match text {
        _ if text.starts_with(['.', '-']) || text.is_empty() || !text.chars().all(allowed) => {
            Err("a tag has letters, digits, `.`, `_` and `-`, and begins with a letter or digit".to_owned())
        }
        "last" => Err("`last` is the newest run".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

/// Does what is asked; `kinds` know the headline numbers.
pub(crate) fn run(args: &RunsArgs, kinds: &[&'static dyn RunKind]) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => list(&args.list, kinds),
        Some(RunsCommand::Show(args)) => show(args, kinds),
        Some(RunsCommand::Tag(args)) => tag(args),
        Some(RunsCommand::Rm(args)) => {
            let runs = args
                .runs
                .iter()
                .map(|run| quaver_store::listing::open(run))
                .collect::<Result<Vec<_>, _>>()?;
            removal::remove(&runs, args.yes)
        }
        Some(RunsCommand::Prune(args)) => prune(args, kinds),
        Some(RunsCommand::Html(args)) => {
            let target = args.output.clone().unwrap_or_else(|| args.list.root[0].join("index.html"));
            rights::keep(&args.list.roots(), &[rights::place_of(&target)]);
            let rows = rows(&args.list, kinds)?;
            let document = page::index(&rows, target.parent().unwrap_or(&target));
            deliver(&target, |out| Ok(quaver_view::write_html(out, &document)?))?;
            say_written(&target);
            Ok(ExitCode::Done)
        }
    }
}

/// The runs that are asked for, in their order.
fn rows(args: &ListArgs, kinds: &[&'static dyn RunKind]) -> anyhow::Result<Vec<RunRow>> {
    if let Some(root) = args.root.iter().find(|root| !root.is_dir()) {
        let message = format!("list {}: no such directory; name one with --root", root.display());
        return Err(failure(ExitCode::BadInput, message));
    }
    for root in &args.root {
        let listed = std::fs::read_dir(root).and_then(|mut entries| entries.next().transpose());
        listed.map_err(|error| StoreError::io("list", root, error))?;
    }
    let listed = args.root.iter().map(|root| runs_below(root)).collect::<Result<Vec<_>, _>>()?;
    let mut rows: Vec<RunRow> =
        listed.into_iter().flatten().map(|listed| RunRow::of(listed, kinds)).collect();
    if let Some(key) =
        args.r#where.as_ref().and_then(|filter| filter.unknown(&rows)).filter(|_| !rows.is_empty())
    {
        let message = format!(
            "--where: none of these runs has a number {key:?}; see `quaver runs show RUN` and its summary.json"
        );
        return Err(failure(ExitCode::Usage, message));
    }
    rows.retain(|row| args.r#where.as_ref().is_none_or(|filter| filter.holds(row)));
    rows.sort_by_key(|row| std::cmp::Reverse(row.listed.manifest.started_realtime_ns));
    rows.dedup_by(|one, other| one.listed.run == other.listed.run);
    match args.sort {
        SortKey::When => {}
        SortKey::Verb => rows.sort_by(|one, other| one.verb().cmp(other.verb())),
        SortKey::Size => rows.sort_by_key(|row| std::cmp::Reverse(row.bytes)),
        SortKey::Headline => {
            rows.sort_by(|one, other| by_headline(one.headline.as_ref(), other.headline.as_ref()))
        }
    }
    Ok(rows)
}

/// Order of headline numbers, the largest first. A time and a share do not compare, so runs of one figure stand together; runs
/// without one come last.
fn by_headline(one: Option<&(String, f64)>, other: Option<&(String, f64)>) -> Ordering {
    match (one, other) {
        (Some((figure, value)), Some((other_figure, other_value))) => {
            figure.cmp(other_figure).then(other_value.total_cmp(value))
        }
        (one, other) => other.is_some().cmp(&one.is_some()),
    }
}

fn list(args: &ListArgs, kinds: &[&'static dyn RunKind]) -> anyhow::Result<ExitCode> {
    rights::keep(&args.roots(), &[]);
    let rows = rows(args, kinds)?;
    let all: Value = rows.iter().map(RunRow::json).collect();
    let list = json!({ "schema": SCHEMA, "runs": all });
    results::print(&Found::new(&list), || page::list(&rows), args.json, &[])
}

fn show(args: &OneRunArgs, kinds: &[&'static dyn RunKind]) -> anyhow::Result<ExitCode> {
    let run = quaver_store::listing::open(&args.run)?;
    rights::keep(&[run.path()], &[]);
    let row = RunRow::read(run, kinds)?;
    results::print(&Found::of_run(&row.json(), &row.listed.run), || page::one(&row), args.json, &[])
}

fn tag(args: &TagArgs) -> anyhow::Result<ExitCode> {
    let run = quaver_store::listing::open(&args.run)?;
    rights::keep(&[], &[run.path()]);
    let mut all = tags(&run);
    all.retain(|tag| !args.tags.contains(tag));
    if !args.remove {
        all.extend(args.tags.iter().cloned());
    }
    write_tags(&run, &all)?;
    Ok(ExitCode::Done)
}

fn prune(args: &PruneArgs, kinds: &[&'static dyn RunKind]) -> anyhow::Result<ExitCode> {
    let mut rows = rows(&args.list, kinds)?;
    rows.sort_by_key(|row| std::cmp::Reverse(row.listed.manifest.started_realtime_ns));
    let chosen = removal::surplus(&rows, args.keep.unwrap_or(usize::MAX), args.below.unwrap_or(u64::MAX));
    let runs: Vec<RunDir> = chosen.into_iter().map(|row| rows[row].listed.run.clone()).collect();
    if runs.is_empty() {
        crate::tell!("nothing to remove");
        return Ok(ExitCode::Done);
    }
    removal::remove(&runs, args.yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headline_numbers_of_one_figure_stand_together() {
        let some = |figure: &str, value| Some((figure.to_owned(), value));
        let mut all =
            [None, some("share", 0.2), some("p99_ns", 7.0), some("share", 0.9), some("p99_ns", 90.0)];
        all.sort_by(|one, other| by_headline(one.as_ref(), other.as_ref()));
        let sorted =
            [some("p99_ns", 90.0), some("p99_ns", 7.0), some("share", 0.9), some("share", 0.2), None];
        assert_eq!(all, sorted);
    }
}
