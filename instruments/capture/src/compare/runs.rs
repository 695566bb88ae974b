//! Stored runs of `quaver capture --compare`.

use super::digest::{self, CompareDigest};
use super::view::document;
use quaver_capture_analysis::compare::{CompareSummary, SCHEMA};
use quaver_instrument::registry::{Analyzed, RunKind};
use quaver_instrument::results::store_report;
use quaver_instrument::schema;
use quaver_store::run::RunDir;
use quaver_view::Document;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;

/// Its kind of runs.
pub(crate) struct ComparisonRuns;

impl RunKind for ComparisonRuns {
    fn verbs(&self) -> &'static [&'static str] {
        &["capture-compare"]
    }

    fn no_late(&self) -> Option<&'static str> {
        Some("--late is for received streams; a comparison has no threshold of lateness")
    }

    fn schema(&self) -> Option<Value> {
        Some(schema::of::<CompareSummary>(SCHEMA))
    }

    fn analyze(&self, run: &RunDir, _: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(digest::analyze(run)?))
    }
}

impl Analyzed for CompareDigest {
    fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        // Facts and results share two names. As a value the results have them; written as they are, both would stand there.
        run.write_summary(&self.summary()?)?;
        store_report(run, |out| self.write_html(run, out))
    }

    fn summary(&self) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(&self.summary)?)
    }

    fn page(&self, run: &RunDir) -> anyhow::Result<Document> {
        let mut document = document(&self.summary, &self.facts);
        document.report_path = Some(run.report().display().to_string());
        Ok(document)
    }

    fn write_html(&self, _: &RunDir, out: &mut dyn Write) -> anyhow::Result<()> {
        Ok(quaver_view::write_html(out, &document(&self.summary, &self.facts))?)
    }
}
