//! `quaver compare`: what differs between two runs, or two groups of runs, of one kind; and beside results of other tools.

mod differences;
mod document;
mod result;
mod side;

use crate::deliver::{deliver, say_written};
use crate::exit_code::{ExitCode, failure};
use crate::registry::{FileKind, RunKind};
use crate::results;
use crate::rights;
use crate::threshold::{self, FailIf};
use clap::Args;
use quaver_store::run::RunDir;
use result::Comparison;
use side::{Run, Side};
use std::path::{Path, PathBuf};

/// `quaver compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver compare runs/chase-20261120T165800Z-7f3a last
  quaver compare --html change.html before-1 before-2 before-3 -- after-1 after-2 after-3
  quaver compare before last --fail-if 'p99.change > 10 %'
  quaver compare before last --fail-if 'p99.change_low > 10 %'
  quaver compare before last --fail-if 'figures.losses.network.b > 0'
  quaver compare irtt.json last
  quaver compare cyclictest-1.json cyclictest-2.json -- cyclictest-3.json cyclictest-4.json

Each side has one run or several. Intervals cover the true change in 95 of 100 cases: by blocks of successive
samples within one run, and by whole runs where a side has several. Only several runs a side show how much
runs differ by themselves.

Results of cyclictest, rtla, irtt, iperf3, flent and sockperf stand for runs, beside their like and beside runs of
the same quantity: noise beside osnoise, delays of probe beside irtt. Unlike quantities are refused.

--fail-if takes p50, p90, p99, p99_9, p99_99, p99_999 and mean of the first quantity, `stages.ID.p99` of the
others, `figures.PATH` of what summary.json measures, and `causes.SOURCE` of each of that source's causes. Each
has a, b, difference, change (B/A - 1), change_low and change_high. `change > 10 %` fails by the estimate, `change_low > 10 %` only
where the interval excludes less.")]
pub struct CompareArgs {
    /// Runs of A (or A and B, one of each), or files of other tools
    #[arg(id = "run", value_name = "A", required = true)]
    pub first: Vec<PathBuf>,
    /// Runs of B
    #[arg(last = true, value_name = "B")]
    pub second: Vec<PathBuf>,
    /// Print the comparison as JSON instead of a page
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print a table for a pull request
    #[arg(long)]
    pub markdown: bool,
    /// Write a page, - for standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Exit with 1 if this holds (repeatable)
    #[arg(long, value_parser = threshold::parse, value_name = "METRIC OP VALUE")]
    pub fail_if: Vec<FailIf>,
}

/// Compares; `kind_of` knows the kinds of runs, and `file_kind` those of files.
///
/// # Errors
/// A run or file cannot be read, nothing in them can be compared, or the page cannot be written.
pub(crate) fn run(
    args: &CompareArgs,
    kind_of: impl Fn(&RunDir) -> anyhow::Result<&'static dyn RunKind>,
    file_kind: impl Fn(&Path) -> anyhow::Result<&'static dyn FileKind>,
) -> anyhow::Result<ExitCode> {
    let (a, b) = sides(args)?;
    let (a, b) = (opened(a)?, opened(b)?);
    let read: Vec<&Path> = a.iter().chain(&b).map(Named::path).collect();
    rights::keep(&read, args.html.as_deref().map(rights::place_of).as_slice());
    let mut headline = None;
    let mut made = Vec::new();
    let mut read = |all: &[Named], number: u64| -> anyhow::Result<Side> {
        let mut side = Side::default();
        for named in all {
            let seed = number * 1_000 + side.runs.len() as u64;
            let run = match named {
                Named::File(path) => {
                    side.runs.push(side::of_file(path, file_kind(path)?.comparable(path)?, seed));
                    continue;
                }
                Named::Run(run) => run,
            };
            let kind = kind_of(run)?;
            let name = kind.verbs()[0];
            if let Some(other) = made.first().filter(|other| **other != name) {
                let message = format!(
                    "compare {}: a run of {name} cannot be compared with one of {other}; name runs of one kind",
                    run.path().display()
                );
                return Err(failure(ExitCode::Usage, message));
            }
            made.push(name);
            headline = Some(kind.headline());
            side.runs.push(side::read(run, kind, seed)?);
        }
        Ok(side)
    };
    let (a, b) = (read(&a, 1)?, read(&b, 2)?);
    for side in [&a, &b] {
        if let Some(name) = side.repeated() {
            let message = format!(
                "compare: {name} stands twice on one side: runs show how much runs differ, copies do not"
            );
            return Err(failure(ExitCode::Usage, message));
        }
    }
    let comparison = Comparison::of(a, b, headline.unwrap_or_default());
    refuse_unlike(&comparison)?;
    if let Some(target) = &args.html {
        deliver(target, |out| Ok(quaver_view::write_html(out, &document::document(&comparison))?))?;
        say_written(target);
    }
    let verdict = document::verdict(&comparison).map(|words| words.to_string());
    let warnings: Vec<String> = document::warnings(&comparison).iter().map(ToString::to_string).collect();
    let summary = comparison.json(verdict, &warnings);
    if args.html.as_deref() == Some(std::path::Path::new("-")) {
        return results::judge(&summary, &args.fail_if);
    }
    if args.markdown {
        results::to_stdout(document::markdown(&comparison).as_bytes())?;
        return results::judge(&summary, &args.fail_if);
    }
    let page = || document::document(&comparison);
    results::print(&results::Found::new(&summary), page, args.json, &args.fail_if)
}

/// What a word names.
enum Named {
    File(PathBuf),
    Run(RunDir),
}

impl Named {
    fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Run(run) => run.path(),
        }
    }
}

fn opened(words: &[PathBuf]) -> anyhow::Result<Vec<Named>> {
    let open = |word: &PathBuf| {
        Ok(if word.is_file() {
            Named::File(word.clone())
        } else {
            Named::Run(quaver_store::listing::open(word)?)
        })
    };
    words.iter().map(open).collect()
}

fn sides(args: &CompareArgs) -> anyhow::Result<(&[PathBuf], &[PathBuf])> {
    match (args.first.as_slice(), args.second.as_slice()) {
        ([_, _], []) => Ok(args.first.split_at(1)),
        (_, second) if second.iter().any(|word| word.to_string_lossy().starts_with("--")) => {
            let message = "compare: options stand before the runs of B, since all words after -- name runs";
            Err(failure(ExitCode::Usage, message))
        }
        (_, []) => {
            let message = "compare: name two runs, or separate the runs of A and B by --";
            Err(failure(ExitCode::Usage, message))
        }
        sides => Ok(sides),
    }
}

/// Nothing of a file is compared with what is something else.
fn refuse_unlike(found: &Comparison) -> anyhow::Result<()> {
    if !found.quantities.is_empty() || found.sides().all(|run| run.manifest.is_some()) {
        return Ok(());
    }
    let has = |run: &Run| {
        let names: Vec<&str> = run.quantities.iter().map(|quantity| quantity.name.as_str()).collect();
        match names.as_slice() {
            [] => format!("{} has no quantity", run.name),
            _ => format!("{} has {}", run.name, names.join(", ")),
        }
    };
    let each: Vec<String> = found.sides().map(has).collect();
    let message = format!("compare: unlike quantities are not compared: {}", each.join("; "));
    Err(failure(ExitCode::Usage, message))
}
