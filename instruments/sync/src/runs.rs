//! Stored runs of `quaver sync` and `quaver sync bench`.

use crate::bench;
use crate::digest::{self, SyncDigest};
use crate::verb;
use quaver_instrument::material::Spans;
use quaver_instrument::registry::{Analyzed, RunKind};
use quaver_instrument::runs::ExportArgs;
use quaver_store::run::RunDir;
use quaver_sync_analysis::bench::BenchSummary;
use quaver_view::Document;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;

/// Its kind of runs.
pub(crate) struct SyncRuns;

impl RunKind for SyncRuns {
    fn verbs(&self) -> &'static [&'static str] {
        &["sync"]
    }

    fn no_late(&self) -> Option<&'static str> {
        Some("--late is for received streams; the threshold of a sync run holds from its recording on")
    }

    fn schema(&self) -> Option<&'static str> {
        Some(include_str!("../../../docs/schema/sync.json"))
    }

    fn analyze(&self, run: &RunDir, _: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(Recorded(digest::analyze(run)?)))
    }
}

struct Recorded(SyncDigest);

impl Analyzed for Recorded {
    fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        verb::store(run, &self.0)
    }

    fn summary(&self) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(&self.0.summary)?)
    }

    fn document(&self, _: &RunDir) -> anyhow::Result<Document> {
        Ok(crate::view::document(&self.0))
    }

    fn write_perfetto(&self, _: &RunDir, _: &ExportArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
        self.0.write_perfetto(out).map(|()| true)
    }
}

/// Its kind of runs.
pub(crate) struct BenchRuns;

impl RunKind for BenchRuns {
    fn verbs(&self) -> &'static [&'static str] {
        &[bench::KIND]
    }

    fn no_late(&self) -> Option<&'static str> {
        Some("--late is for received streams; a bench of programs has no threshold of lateness")
    }

    fn schema(&self) -> Option<&'static str> {
        Some(include_str!("../../../docs/schema/sync-bench.json"))
    }

    fn analyze(&self, run: &RunDir, _: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(Bench(run.read_summary()?)))
    }
}

struct Bench(BenchSummary);

impl Analyzed for Bench {
    fn summary(&self) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(&self.0)?)
    }

    /// Runs of each program, `barnes.unrecorded` and `barnes.recorded`.
    fn spans(&self, _: &RunDir) -> anyhow::Result<Vec<Spans>> {
        let arms = self.0.programs.iter().flat_map(|program| {
            let (unrecorded, recorded): (Vec<i64>, Vec<i64>) = program
                .pairs_ns
                .iter()
                .map(|(unrecorded, recorded)| (unrecorded.cast_signed(), recorded.cast_signed()))
                .unzip();
            let (first, second) = program.starts_ns.iter().copied().unzip();
            [("unrecorded", first, unrecorded), ("recorded", second, recorded)].map(
                |(arm, starts, lengths)| Spans {
                    place: format!("{}.{arm}", program.program),
                    unit: "ns",
                    starts,
                    lengths,
                },
            )
        });
        Ok(arms.filter(|arm| !arm.lengths.is_empty()).collect())
    }

    fn document(&self, run: &RunDir) -> anyhow::Result<Document> {
        bench::document(run, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::BenchSummary;
    use crate::digest::{SCHEMA, SyncSummary};
    use quaver_testbed::schema;

    #[test]
    fn committed_schemas_are_those_of_the_types() {
        schema::committed::<SyncSummary>("sync", SCHEMA);
        schema::committed::<BenchSummary>("sync-bench", BenchSummary::SCHEMA);
    }
}
