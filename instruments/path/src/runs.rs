//! Stored runs of `quaver probe`.

use crate::digest::{self, PathDigest};
use crate::exports;
use quaver_instrument::registry::{Analyzed, RunKind};
use quaver_instrument::runs::ExportArgs;
use quaver_store::run::RunDir;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;

/// Its kind of runs.
pub(crate) struct PathRuns;

impl RunKind for PathRuns {
    fn verbs(&self) -> &'static [&'static str] {
        &["probe"]
    }

    fn no_late(&self) -> Option<&'static str> {
        Some("--late is for received streams; a path has no threshold of lateness")
    }

    fn analyze(&self, run: &RunDir, _: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(Path(digest::analyze(run)?)))
    }
}

struct Path(PathDigest);

impl Analyzed for Path {
    fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        self.0.store(run)
    }

    fn summary(&self) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(&self.0.summary)?)
    }

    fn page(&self, run: &RunDir) -> String {
        self.0.page(Some(&run.report().display().to_string()))
    }

    fn write_html(&self, _: &RunDir, out: &mut dyn Write) -> anyhow::Result<()> {
        self.0.write_html(out)
    }

    fn export(&self, run: &RunDir, asked: &ExportArgs) -> anyhow::Result<()> {
        exports::run(asked, run)
    }
}
