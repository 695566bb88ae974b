//! Stored runs of `quaver capture --compare`.

use super::digest::{self, CompareDigest};
use super::samples::read_compare_samples;
use super::view::document;
use quaver_capture_analysis::compare::{CompareFacts, CompareTable};
use quaver_instrument::material::Spans;
use quaver_instrument::registry::{Analyzed, RunKind};
use quaver_instrument::results::store_report;
use quaver_store::run::RunDir;
use quaver_view::Document;
use serde_json::Value;
use std::collections::BTreeMap;
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

    fn schema(&self) -> Option<&'static str> {
        Some(include_str!("../../../../docs/schema/capture-compare.json"))
    }

    fn analyze(&self, run: &RunDir, _: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(digest::analyze(run)?))
    }
}

impl Analyzed for CompareDigest {
    fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        // Facts and results share two names. As a value the results have them; written as they are, both would stand there.
        run.write_summary(&self.summary()?)?;
        store_report(run, &self.document(run)?)
    }

    fn summary(&self) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(&self.summary)?)
    }

    fn spans(&self, run: &RunDir) -> anyhow::Result<Vec<Spans>> {
        let recorded: Option<CompareFacts> = run.read_facts(run.read_manifest()?.compare.as_ref())?;
        Ok(recorded.map_or(Ok(Vec::new()), |facts| {
            read_compare_samples(&run.samples()).map(|table| between_checkpoints(&table, &facts))
        })?)
    }

    fn document(&self, _: &RunDir) -> anyhow::Result<Document> {
        Ok(document(&self.summary, &self.facts))
    }
}

/// From the first checkpoint of each packet to its second, by pattern and arm: `100kpps.kernel.raw`.
fn between_checkpoints(table: &CompareTable, facts: &CompareFacts) -> Vec<Spans> {
    let ns = |cycles: u64| (cycles as f64 * 1e9 / facts.cycles_per_second.max(1.0)) as i64;
    let mut all: BTreeMap<(u16, u16, u16), Spans> = BTreeMap::new();
    for row in 0..table.len() {
        let key = (table.pattern[row], table.context[row], table.arm[row]);
        let place = || facts.arm_name(key).unwrap_or_else(|| format!("{}.{}.{}", key.0, key.1, key.2));
        let spans =
            all.entry(key).or_insert_with(|| Spans { place: place(), unit: "ns", ..Spans::default() });
        spans.starts.push(ns(table.before_cycles[row]));
        spans.lengths.push(ns(table.between_cycles[row]));
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use quaver_capture_analysis::compare::{CompareSummary, SCHEMA};
    use quaver_testbed::schema;

    #[test]
    fn the_committed_schema_is_that_of_the_type() {
        schema::committed::<CompareSummary>("capture-compare", SCHEMA);
    }
}
