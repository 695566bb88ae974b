//! Stored runs of `quaver study`.

use crate::digest::{self, StudyDigest};
use quaver_instrument::registry::{Analyzed, RunKind};
use quaver_store::run::RunDir;
use quaver_view::Document;
use serde_json::Value;
use std::time::Duration;

/// Its kind of runs.
pub(crate) struct CellRuns;

impl RunKind for CellRuns {
    fn verbs(&self) -> &'static [&'static str] {
        &["study"]
    }

    fn no_late(&self) -> Option<&'static str> {
        Some("--late is for received streams; the figures of a study hold from its recording on")
    }

    fn schema(&self) -> Option<&'static str> {
        Some(include_str!("../../../docs/schema/study.json"))
    }

    fn analyze(&self, run: &RunDir, _: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(Cells(digest::analyze(run)?)))
    }
}

struct Cells(StudyDigest);

impl Analyzed for Cells {
    fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        self.0.store(run)
    }

    fn summary(&self) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(&self.0.summary)?)
    }

    fn document(&self, _: &RunDir) -> anyhow::Result<Document> {
        Ok(self.0.document())
    }
}

#[cfg(test)]
mod tests {
    use quaver_study_analysis::{SCHEMA, StudySummary};
    use quaver_testbed::schema;

    #[test]
    fn the_committed_schema_is_that_of_the_type() {
        schema::committed::<StudySummary>("study", SCHEMA);
    }
}
