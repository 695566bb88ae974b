//! Stored incidents of threads: one wait for a CPU, and what ran there meanwhile.

mod digest;
mod holder;
mod page;

pub(crate) use digest::{LockFacts, WaitFacts};
use digest::{WaitDigest, WaitSummary};
use quaver_instrument::registry::{Analyzed, RunKind};
use quaver_instrument::runs::ExportArgs;
use quaver_store::convert::convert_raw_noise;
use quaver_store::run::RunDir;
use quaver_view::Document;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;

/// Verb of these runs in their manifests.
pub(crate) const VERB: &str = "watch-wait";

/// Converts a run that was just written, analyses it, and stores the results beside it.
///
/// # Errors
/// The run cannot be read or written.
pub(crate) fn conclude(run: &RunDir) -> anyhow::Result<WaitSummary> {
    convert_raw_noise(run)?;
    quaver_instrument::names::name_what_is_left(run)?;
    run.remove_raw()?;
    let digest = WaitDigest::of(run)?;
    digest.store(run)?;
    Ok(digest.summary)
}

/// Runs of one wait.
pub(crate) struct WaitRuns;

impl RunKind for WaitRuns {
    fn verbs(&self) -> &'static [&'static str] {
        &[VERB]
    }

    fn no_late(&self) -> Option<&'static str> {
        Some("--late is for packets; an incident of a wait has the limit of its settings")
    }

    fn headline(&self) -> &'static [&'static str] {
        &["wait_ns"]
    }

    fn schema(&self) -> Option<&'static str> {
        Some(include_str!("../../../../docs/schema/watch-wait.json"))
    }

    fn analyze(&self, run: &RunDir, _: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(WaitDigest::of(run)?))
    }
}

impl Analyzed for WaitDigest {
    fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        self.write_waits(run)?;
        run.write_summary(&self.summary)?;
        quaver_instrument::results::store_report(run, &self.document(run)?)
    }

    fn summary(&self) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(&self.summary)?)
    }

    fn document(&self, _: &RunDir) -> anyhow::Result<Document> {
        Ok(page::document(self))
    }

    fn write_perfetto(&self, _: &RunDir, _: &ExportArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
        WaitDigest::draw(self, out).map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use super::digest::{WAIT_SCHEMA, WaitSummary};
    use quaver_testbed::schema;

    #[test]
    fn the_committed_schema_is_that_of_the_type() {
        schema::committed::<WaitSummary>("watch-wait", WAIT_SCHEMA);
    }
}
