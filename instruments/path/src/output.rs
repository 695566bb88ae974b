//! The document of a path, as it is stored and printed.

use crate::digest::PathDigest;
use crate::view::{PathInput, document};
use quaver_store::run::RunDir;
use quaver_view::Document;

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
        quaver_instrument::results::store_report(run, &self.document())
    }
}
