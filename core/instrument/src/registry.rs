//! What an instrument gives to the program: its verbs, the kinds of runs that it stores, the files that it reads, and how
//! its errors end the process. The program has a list of instruments and knows none of them.

use crate::exit_code::{ExitCode, StatusJudge, failure};
use crate::material::{Material, Spans};
use crate::results::with_report;
use crate::runs::{AnalyzeArgs, ExportArgs};
use clap::{ArgMatches, Command};
use quaver_store::run::RunDir;
use quaver_store::table::Table;
use quaver_view::Document;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// An instrument. A crate of one has a `pub static INSTRUMENT` of this type.
pub struct Instrument {
    /// Its verbs, in the order of the help.
    pub verbs: &'static [Verb],
    /// Kinds of runs that it stores.
    pub kinds: &'static [&'static dyn RunKind],
    /// Kinds of files, besides runs, that `quaver analyze` takes.
    pub files: &'static [&'static dyn FileKind],
    /// Tables of its runs, besides those of the store.
    pub tables: &'static [&'static Table],
    /// How its own errors end the process.
    pub status: StatusJudge,
}

impl Instrument {
    /// One without runs, files and errors of its own.
    pub const fn of(verbs: &'static [Verb]) -> Self {
        Self { verbs, kinds: &[], files: &[], tables: &[], status: |_| None }
    }
}

/// A subcommand. [`verb`](crate::verb) makes one.
pub struct Verb {
    /// The subcommand with its arguments.
    pub command: fn() -> Command,
    /// Does what the arguments ask.
    pub run: fn(&ArgMatches) -> anyhow::Result<ExitCode>,
}

/// A [`Verb`](crate::registry::Verb) of its name, the sentence that the help shows, the type of its arguments, and the
/// function that takes them.
#[macro_export]
macro_rules! verb {
    ($name:literal, $about:literal, $args:ty, $run:path) => {
        $crate::registry::Verb {
            command: || {
                let command = <$args as ::clap::Args>::augment_args(::clap::Command::new($name));
                command.about($about).long_about(None)
            },
            run: |matches| $run(&<$args as ::clap::FromArgMatches>::from_arg_matches(matches)?),
        }
    };
}

/// A kind of stored runs.
pub trait RunKind: Sync {
    /// Verbs, as manifests have them, whose runs are of this kind.
    fn verbs(&self) -> &'static [&'static str];

    /// Why `--late` means nothing for these runs; none where it does.
    fn no_late(&self) -> Option<&'static str>;

    /// The number that stands for a run in a list: paths into `summary.json`, of which the first that is there counts.
    fn headline(&self) -> &'static [&'static str] {
        &[]
    }

    /// The JSON Schema of what `--json` prints, a file of `docs/schema`; none where there is none yet.
    fn schema(&self) -> Option<&'static str> {
        None
    }

    /// Analyses a run; `late` is a threshold asked for in place of the recorded one.
    ///
    /// # Errors
    /// The run cannot be read, or is none of this kind.
    fn analyze(&self, run: &RunDir, late: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>>;
}

/// Results of a stored run.
pub trait Analyzed {
    /// Stores them beside the run: `summary.json` and `report.html`. Kinds that keep theirs from the measurement on store
    /// nothing.
    ///
    /// # Errors
    /// A file cannot be written.
    fn store(&self, _run: &RunDir) -> anyhow::Result<()> {
        Ok(())
    }

    /// `summary.json`.
    ///
    /// # Errors
    /// A number has no form in JSON.
    fn summary(&self) -> anyhow::Result<Value>;

    /// What `quaver compare` takes besides the numbers and causes of the summary: samples in their order of time.
    fn material(&self) -> Material {
        Material::default()
    }

    /// What it timed, for timelines and histograms of kinds that have none of their own; empty where the rows of its tables
    /// say it.
    ///
    /// # Errors
    /// A file of the run cannot be read.
    fn spans(&self, _run: &RunDir) -> anyhow::Result<Vec<Spans>> {
        Ok(Vec::new())
    }

    /// What a person sees of it.
    ///
    /// # Errors
    /// The run cannot be read.
    fn document(&self, run: &RunDir) -> anyhow::Result<Document>;

    /// The document with the place of the report.
    ///
    /// # Errors
    /// The run cannot be read.
    fn page(&self, run: &RunDir) -> anyhow::Result<Document> {
        Ok(with_report(self.document(run)?, run))
    }

    /// The HTML report.
    ///
    /// # Errors
    /// The run cannot be read, or writing failed.
    fn write_html(&self, run: &RunDir, out: &mut dyn Write) -> anyhow::Result<()> {
        Ok(quaver_view::write_html(out, &self.document(run)?)?)
    }

    /// Writes a timeline for Perfetto; false where it is to be drawn from the tables.
    ///
    /// # Errors
    /// Writing failed.
    fn write_perfetto(
        &self,
        _run: &RunDir,
        _asked: &ExportArgs,
        _out: &mut dyn Write,
    ) -> anyhow::Result<bool> {
        Ok(false)
    }

    /// Writes late time piece by piece; false where this kind has no causes of lateness.
    ///
    /// # Errors
    /// Writing failed.
    fn write_late_csv(&self, _out: &mut dyn Write) -> anyhow::Result<bool> {
        Ok(false)
    }

    /// Writes what was asked for, beside what any kind has.
    ///
    /// # Errors
    /// The kind has no such export (status 2), or writing failed.
    fn export(&self, run: &RunDir, _asked: &ExportArgs) -> anyhow::Result<()> {
        let message = format!(
            "export {}: its kind has no such export; --csv, --openmetrics and --gnuplot are there for all",
            run.path().display()
        );
        Err(not_exported(message))
    }
}

/// A kind of files that `quaver analyze` takes.
pub trait FileKind: Sync {
    /// What another file is not, as an error lists it: `no capture (pcapng, pcap or snoop)`.
    fn missing(&self) -> &'static str;

    /// Whether a file is one.
    ///
    /// # Errors
    /// The file cannot be read.
    fn recognizes(&self, path: &Path) -> anyhow::Result<bool>;

    /// Analyses and prints. The file is left as it is.
    ///
    /// # Errors
    /// The file is damaged, or an option means nothing for it.
    fn analyze(&self, asked: &AnalyzeArgs) -> anyhow::Result<ExitCode>;

    /// What `quaver compare` takes of a file.
    ///
    /// # Errors
    /// The file is damaged, or files of this kind are not compared (status 2).
    fn comparable(&self, path: &Path) -> anyhow::Result<Comparable> {
        let message = format!(
            "compare {}: it is a file that can be analysed and not compared; name runs, or results of other tools",
            path.display()
        );
        Err(failure(ExitCode::Usage, message))
    }
}

/// A file as comparisons take it.
pub struct Comparable {
    /// Whose file it is, `cyclictest`: numbers of the summaries are compared within one kind only.
    pub kind: String,
    /// Its numbers.
    pub summary: Value,
    /// Its quantities.
    pub material: Material,
    /// What limits them, as sentences without a full stop.
    pub notes: Vec<String>,
}

/// The error of an export that a kind of runs does not have.
pub fn not_exported(message: impl Into<String>) -> anyhow::Error {
    failure(ExitCode::Usage, message)
}

/// Analyses a run. Lateness is asked for (`late`) of packets alone.
pub(crate) fn analyzed(
    kind: &dyn RunKind,
    run: &RunDir,
    late: Option<Duration>,
) -> anyhow::Result<Box<dyn Analyzed>> {
    match kind.no_late() {
        Some(message) if late.is_some() => Err(failure(ExitCode::Usage, message)),
        _ => kind.analyze(run, late),
    }
}
