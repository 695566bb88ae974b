//! Verbs on stored runs, of whatever kinds a program knows: `quaver analyze`, `report`, `export`, `compare`, `runs`, `query`,
//! `schema`, `migrate`, `scrub`.

use crate::analyses;
use crate::compare::{self, CompareArgs};
use crate::deliver::{deliver, say_written};
use crate::exit_code::{ExitCode, failure, sentence};
use crate::exports;
use crate::migrate::{self, MigrateArgs};
use crate::query::{self, QueryArgs};
use crate::registry::{FileKind, RunKind, analyzed};
use crate::results::{self, Found, is_read_only};
use crate::rights::{self, place_of};
use crate::run_list::{self, RunsArgs};
use crate::runs::{AnalyzeArgs, ExportArgs, ReportArgs};
use crate::schema::{self, SchemaArgs};
use crate::scrub::{self, ScrubArgs};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use quaver_store::run::RunDir;
use quaver_store::table::Table;
use quaver_store::tables::TABLES;
use std::path::Path;

/// What a program can do with what is stored.
pub struct Stored {
    /// Kinds of runs that it knows.
    pub kinds: Vec<&'static dyn RunKind>,
    /// Kinds of files, besides runs, that it analyses.
    pub files: Vec<&'static dyn FileKind>,
    /// Tables that it knows, besides those of the store.
    pub tables: Vec<&'static Table>,
    /// The text of `docs/interface.txt`: keys and words that files of runs have.
    pub interface: &'static str,
}

impl Stored {
    /// The verbs.
    pub fn commands() -> impl Iterator<Item = Command> {
        let all = [
            (
                AnalyzeArgs::augment_args(Command::new("analyze")),
                "Analyse a run again (also one cut short), a capture, or another tool's results",
            ),
            (ReportArgs::augment_args(Command::new("report")), "Draw the HTML report of a run again"),
            (ExportArgs::augment_args(Command::new("export")), "Convert a run for another program"),
            (
                CompareArgs::augment_args(Command::new("compare")),
                "Say what differs between two runs, or two groups of runs",
            ),
            (RunsArgs::augment_args(Command::new("runs")), "List stored runs, name them and remove them"),
            (QueryArgs::augment_args(Command::new("query")), "Ask stored runs in SQL"),
            (
                SchemaArgs::augment_args(Command::new("schema")),
                "Print the JSON Schema of what runs store and --json prints",
            ),
            (
                MigrateArgs::augment_args(Command::new("migrate")),
                "Copy runs of earlier versions in the formats of today",
            ),
            (
                ScrubArgs::augment_args(Command::new("scrub")),
                "Copy a run without names and addresses, to share it",
            ),
        ];
        all.map(|(verb, about)| verb.about(about).long_about(None)).into_iter()
    }

    /// Does what is asked, where it is one of these verbs. `command` is the whole command line.
    pub fn run(
        &self,
        verb: &str,
        matches: &ArgMatches,
        command: fn() -> Command,
    ) -> Option<anyhow::Result<ExitCode>> {
        let asked = |error: clap::Error| anyhow::Error::new(error);
        // Looking up the name of a run already reads the manifests of all.
        match verb {
            // `query` does the same, but for the network where its runs are there.
            "analyze" | "report" | "export" | "compare" | "runs" | "migrate" | "scrub" => {
                rights::keep_files()
            }
            _ => {}
        }
        match verb {
            "analyze" => Some(
                AnalyzeArgs::from_arg_matches(matches).map_err(asked).and_then(|args| self.analyze(&args)),
            ),
            "report" => {
                Some(ReportArgs::from_arg_matches(matches).map_err(asked).and_then(|args| self.report(&args)))
            }
            "export" => {
                Some(ExportArgs::from_arg_matches(matches).map_err(asked).and_then(|args| self.export(&args)))
            }
            "compare" => {
                Some(CompareArgs::from_arg_matches(matches).map_err(asked).and_then(|args| {
                    compare::run(&args, |run| self.kind_of(run), |path| self.file_kind(path))
                }))
            }
            "runs" => Some(
                RunsArgs::from_arg_matches(matches)
                    .map_err(asked)
                    .and_then(|args| run_list::run(&args, &self.kinds)),
            ),
            "query" => {
                Some(QueryArgs::from_arg_matches(matches).map_err(asked).and_then(|args| query::run(&args)))
            }
            "schema" => Some(
                SchemaArgs::from_arg_matches(matches)
                    .map_err(asked)
                    .and_then(|args| schema::run(&args, &self.kinds, &self.all_tables(), &command())),
            ),
            "migrate" => Some(
                MigrateArgs::from_arg_matches(matches)
                    .map_err(asked)
                    .and_then(|args| migrate::run(&args, &self.all_tables(), |run| self.kind_of(run))),
            ),
            "scrub" => Some(
                ScrubArgs::from_arg_matches(matches)
                    .map_err(asked)
                    .and_then(|args| scrub::run(&args, self.interface, |run| self.kind_of(run))),
            ),
            _ => None,
        }
    }

    fn all_tables(&self) -> Vec<&'static Table> {
        TABLES.iter().chain(&self.tables).copied().collect()
    }

    /// The kind of a run, by the verb that made it.
    ///
    /// # Errors
    /// Runs of this verb are not known here.
    fn kind_of(&self, run: &RunDir) -> anyhow::Result<&'static dyn RunKind> {
        let verb = run.read_manifest()?.verb;
        let mut kinds = self.kinds.iter().copied();
        kinds.find(|kind| kind.verbs().contains(&verb.as_str())).ok_or_else(|| {
            let message = format!(
                "read {}: a run of verb {verb:?} is not known here; runs of quaver sim and those of other verbs need a \
                 command each",
                run.manifest().display()
            );
            failure(ExitCode::BadInput, message)
        })
    }

    /// Analyses a run, stores its results and prints them. Raw segments of a run that was cut short are read as they are and left
    /// as they are, for the run may still be recording. A file is of one of the kinds that instruments read.
    fn analyze(&self, args: &AnalyzeArgs) -> anyhow::Result<ExitCode> {
        if analyses::asked(args)? {
            return analyses::run(args, |run| self.kind_of(run));
        }
        if args.run.is_file() {
            rights::keep(&[&args.run], &[]);
            return self.file_kind(&args.run)?.analyze(args);
        }
        if args.layer.is_some() {
            let message = "--layer is for captures, whose packets are stamped at several layers";
            return Err(failure(ExitCode::Usage, message));
        }
        let run = quaver_store::listing::open(&args.run)?;
        rights::keep(&[], &[run.path()]);
        let results = analyzed(self.kind_of(&run)?, &run, args.late)?;
        let stored = results.store(&run);
        let (summary, page) = (results.summary()?, results.page(&run)?);
        let code = results::print(&Found::of_run(&summary, &run), || page, args.json, &args.fail_if)?;
        match stored {
            // A run of another user, or in an archive, is read all the same.
            Err(error) if is_read_only(&error) => crate::tell!("quaver: not stored: {}", sentence(&error)),
            stored => stored?,
        }
        Ok(code)
    }

    /// The kind of a file, by its content.
    ///
    /// # Errors
    /// Files like it are not known here, or it cannot be read.
    fn file_kind(&self, path: &Path) -> anyhow::Result<&'static dyn FileKind> {
        for kind in &self.files {
            if kind.recognizes(path)? {
                return Ok(*kind);
            }
        }
        let names: Vec<&str> = self.files.iter().map(|kind| kind.missing()).collect();
        let message = format!("read {}: not a run directory, {}", path.display(), names.join(", and "));
        Err(failure(ExitCode::BadInput, message))
    }

    /// Draws the HTML report again.
    fn report(&self, args: &ReportArgs) -> anyhow::Result<ExitCode> {
        let run = open(&args.run)?;
        let target = args.output.clone().unwrap_or_else(|| run.report());
        rights::keep(&[run.path()], &[place_of(&target)]);
        let results = self.kind_of(&run)?.analyze(&run, None)?;
        deliver(&target, |out| results.write_html(&run, out))?;
        say_written(&target);
        Ok(ExitCode::Done)
    }

    /// Converts a run for another program.
    fn export(&self, args: &ExportArgs) -> anyhow::Result<ExitCode> {
        let run = open(&args.run)?;
        rights::keep(&[], &[run.path(), args.output.as_deref().map_or(run.path(), place_of)]);
        let kind = self.kind_of(&run)?;
        if !exports::table(&run, args)? {
            let results = analyzed(kind, &run, args.late)?;
            if !exports::results(&run, &*results, args, &self.all_tables())? {
                results.export(&run, args)?;
            }
        }
        Ok(ExitCode::Done)
    }
}

/// The run that is named. Captures and files of other tools are read by `analyze` alone.
fn open(path: &Path) -> anyhow::Result<RunDir> {
    if path.is_file() {
        let message = format!(
            "open {}: not a run directory but a file; `quaver analyze FILE` shows what is in it",
            path.display()
        );
        return Err(failure(ExitCode::BadInput, message));
    }
    Ok(quaver_store::listing::open(path)?)
}
