//! Printing what a verb found, and judging it.

use crate::envelope::Envelope;
use crate::exit_code::{ExitCode, failure};
use crate::terminal;
use crate::threshold::FailIf;
use anyhow::Context;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_view::Document;
use serde_json::Value;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes to standard output, all of it.
pub fn to_stdout(octets: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(octets).and_then(|()| out.flush()).context("writing to standard output")
}

/// Writes `report.html`.
///
/// # Errors
/// The file cannot be created or written.
pub fn store_report(run: &RunDir, document: &Document) -> anyhow::Result<()> {
    let path = run.report();
    let file = std::fs::File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    let mut out = BufWriter::new(file);
    quaver_view::write_html(&mut out, document)
        .and_then(|()| out.flush())
        .with_context(|| format!("writing {}", path.display()))
}

/// The document with the place of the run's report, where there is one.
pub fn with_report(document: Document, run: &RunDir) -> Document {
    let report_path = run.report().is_file().then(|| run.report().display().to_string());
    Document { report_path, ..document }
}

/// What a verb found, and how it ends.
pub struct Found<'a> {
    /// The numbers: an object.
    pub summary: &'a Value,
    /// Directory of the run that was stored or read.
    pub run: Option<&'a Path>,
    /// Status to end with whatever the numbers say: the run did not go its full length.
    pub ended: Option<ExitCode>,
}

impl<'a> Found<'a> {
    /// Of no run, with the status that the numbers give.
    pub fn new(summary: &'a Value) -> Self {
        Self { summary, run: None, ended: None }
    }

    /// Of a run.
    pub fn of_run(summary: &'a Value, run: &'a RunDir) -> Self {
        Self { run: Some(run.path()), ..Self::new(summary) }
    }

    /// With the status of one that did not go its full length, if it did not.
    #[must_use]
    pub fn ended(self, ended: Option<ExitCode>) -> Self {
        Self { ended, ..self }
    }
}

/// Prints the page, or JSON: the numbers with the [`Envelope`]. Then judges the conditions of `--fail-if`. Gives the status to end
/// with.
///
/// # Errors
/// Standard output takes no more, or a condition names no number of the summary (status 2).
pub fn print(
    found: &Found<'_>,
    page: impl FnOnce() -> Document,
    json: bool,
    conditions: &[FailIf],
) -> anyhow::Result<ExitCode> {
    let page = page();
    let failed = failed(found.summary, conditions);
    let status = match &failed {
        Ok(sentences) => found.ended.unwrap_or(status(sentences)),
        Err(_) => ExitCode::Usage,
    };
    match json {
        true => to_stdout(Envelope::of(&page, found.run, status).beside(found.summary)?.as_bytes())?,
        false => terminal::print(&page)?,
    }
    say(&failed?);
    Ok(status)
}

/// Judges the conditions of `--fail-if`.
///
/// # Errors
/// A condition names no number of the summary (status 2).
pub fn judge(summary: &Value, conditions: &[FailIf]) -> anyhow::Result<ExitCode> {
    let sentences = failed(summary, conditions)?;
    say(&sentences);
    Ok(status(&sentences))
}

/// What holds of the conditions, a sentence each.
fn failed(summary: &Value, conditions: &[FailIf]) -> anyhow::Result<Vec<String>> {
    let checked = conditions.iter().map(|condition| condition.check(summary));
    let held = checked.filter_map(Result::transpose).collect::<Result<_, _>>();
    held.map_err(|error| failure(ExitCode::Usage, error))
}

fn status(failed: &[String]) -> ExitCode {
    if failed.is_empty() { ExitCode::Done } else { ExitCode::Threshold }
}

fn say(failed: &[String]) {
    for sentence in failed {
        crate::tell!("quaver: failed, as asked, since {sentence}");
    }
}

/// Status of a run that did not go its full length: by the user's doing, or since a CPU that it needed was taken away.
pub fn ended_early(manifest: &Manifest, interrupted: bool) -> Option<ExitCode> {
    match manifest.cpu_lost {
        _ if interrupted => Some(ExitCode::Interrupted),
        Some(_) => Some(ExitCode::Output),
        None => None,
    }
}
/// Whether a run's directory may not be written by us.
pub(crate) fn is_read_only(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let kinds = error.chain().filter_map(|cause| Some(cause.downcast_ref::<std::io::Error>()?.kind()));
    kinds.into_iter().any(|kind| matches!(kind, PermissionDenied | ReadOnlyFilesystem))
}
