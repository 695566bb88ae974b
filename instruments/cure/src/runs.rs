//! Stored runs of `quaver cure`.

use crate::summary::CureSummary;
use crate::view::document;
use quaver_instrument::facts::{RunFacts, run_facts};
use quaver_instrument::registry::{Analyzed, RunKind};
use quaver_store::run::RunDir;
use quaver_view::Document;
use serde_json::Value;
use std::time::Duration;

/// Its kind of runs.
pub(crate) struct CureRuns;

impl RunKind for CureRuns {
    fn verbs(&self) -> &'static [&'static str] {
        &["cure"]
    }

    fn no_late(&self) -> Option<&'static str> {
        Some("--late is for received streams; the figures of a cure hold from its blocks on")
    }

    fn headline(&self) -> &'static [&'static str] {
        &["proof.effect.with"]
    }

    fn schema(&self) -> Option<&'static str> {
        Some(include_str!("../../../docs/schema/cure.json"))
    }

    fn analyze(&self, run: &RunDir, _: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(CureDigest::read(run)?))
    }
}

/// A cure as it was stored.
pub(crate) struct CureDigest {
    pub(crate) summary: CureSummary,
    pub(crate) facts: RunFacts,
}

impl CureDigest {
    fn read(run: &RunDir) -> anyhow::Result<Self> {
        let summary = run.read_summary()?;
        Ok(Self { summary, facts: run_facts(run, &run.read_manifest()?) })
    }
}

impl Analyzed for CureDigest {
    fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        run.write_summary(&self.summary)?;
        quaver_instrument::results::store_report(run, &self.document(run)?)
    }

    fn summary(&self) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(&self.summary)?)
    }

    fn document(&self, _: &RunDir) -> anyhow::Result<Document> {
        Ok(document(&self.summary, &self.facts))
    }
}

#[cfg(test)]
mod tests {
    use super::CureSummary;
    use crate::summary::CURE_SCHEMA;
    use quaver_testbed::schema;

    #[test]
    fn the_committed_schema_is_that_of_the_type() {
        schema::committed::<CureSummary>("cure", CURE_SCHEMA);
    }
}
