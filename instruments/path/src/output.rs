//! The document of a path, as it is stored and printed.

use crate::digest::PathDigest;
use crate::view::{PathInput, document};
use quaver_store::run::RunDir;
use quaver_view::{Document, write_html};
use std::io::Write;

impl PathDigest {
    /// What a person sees of it.
    pub fn document(&self) -> Document {
        let Self { summary, flows, timed, run } = self;
        document(&PathInput { summary, flows, timed, run })
    }

    /// Writes `summary.json` and `report.html`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        run.write_summary(&self.summary)?;
        quaver_instrument::results::store_report(run, |out| self.write_html(out))
    }

    /// Writes the report.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_html(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        Ok(write_html(out, &self.document())?)
    }

    /// The document with the path of the HTML page, where one was written.
    pub fn page(&self, report: Option<&str>) -> Document {
        let mut document = self.document();
        document.report_path = report.map(str::to_owned);
        document
    }
}
