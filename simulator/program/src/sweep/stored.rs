//! Sweeps that were gathered, read again.

use crate::sweep::digest::{SCHEMA, SweepSummary};
use crate::sweep::view;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::facts::RunFacts;
use quaver_instrument::facts::run_facts;
use quaver_store::run::RunDir;
use quaver_view::{Document, write_html};
use std::io::Write;

/// A sweep with what it says.
pub struct SweepDigest {
    /// Figures.
    pub summary: SweepSummary,
    /// Words for the head of a page.
    pub facts: RunFacts,
}

/// Reads a sweep that was gathered.
///
/// # Errors
/// It was not gathered yet, or its files cannot be read.
pub fn analyze(run: &RunDir) -> anyhow::Result<SweepDigest> {
    let manifest = run.read_manifest()?;
    if !run.summary().is_file() {
        let path = run.path().display();
        let message = format!(
            "{path} holds no results yet: go on with quaver sim sweep run {path}, or gather what is there with \
             quaver sim sweep merge {path} --partial"
        );
        return Err(failure(ExitCode::BadInput, message));
    }
    let summary: SweepSummary = run.read_summary()?;
    if summary.schema != SCHEMA || !summary.is_whole() {
        let message = format!("{}: this is no summary of a sweep ({SCHEMA})", run.summary().display());
        return Err(failure(ExitCode::BadInput, message));
    }
    let facts = run_facts(run, &manifest);
    Ok(SweepDigest { summary, facts })
}

impl SweepDigest {
    /// Writes `report.html`; `summary.json` stays as it was gathered.
    pub fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        quaver_instrument::results::store_report(run, |out| self.write_html(out))
    }

    /// Writes the report.
    pub fn write_html(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        Ok(write_html(out, &view::document(&self.summary, &self.facts))?)
    }

    /// The console page.
    pub fn page(&self, run: &RunDir) -> Document {
        let mut document = view::document(&self.summary, &self.facts);
        document.report_path = Some(run.report().display().to_string());
        document
    }
}
