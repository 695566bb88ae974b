//! Stored runs of `quaver sim`: simulations, the paper's runs, sweeps.

use crate::paper;
use crate::paper::digest::PaperDigest;
use crate::stored::{self, SimDigest};
use crate::sweep::stored as sweeps;
use quaver_instrument::material::Spans;
use quaver_instrument::registry::{Analyzed, RunKind};
use quaver_instrument::runs::ExportArgs;
use quaver_store::run::RunDir;
use quaver_view::Document;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;

/// Its kind of runs.
pub(crate) struct SimulationRuns;

impl RunKind for SimulationRuns {
    fn verbs(&self) -> &'static [&'static str] {
        &["sim"]
    }

    fn no_late(&self) -> Option<&'static str> {
        Some("--late is for received streams; simulated threads have no schedule to be late for")
    }

    fn headline(&self) -> &'static [&'static str] {
        &["chip.duration_fs"]
    }

    fn schema(&self) -> Option<&'static str> {
        Some(include_str!("../../../docs/schema/sim.json"))
    }

    fn analyze(&self, run: &RunDir, _: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(Simulation(stored::analyze(run)?)))
    }
}

struct Simulation(SimDigest);

impl Analyzed for Simulation {
    fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        self.0.store(run)
    }

    fn summary(&self) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(&self.0.summary)?)
    }

    fn document(&self, _: &RunDir) -> anyhow::Result<Document> {
        Ok(self.0.document())
    }

    fn write_perfetto(&self, _: &RunDir, _: &ExportArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
        self.0.write_perfetto(out).map(|()| true)
    }
}

/// Its kind of runs.
pub(crate) struct PaperRuns;

impl RunKind for PaperRuns {
    fn verbs(&self) -> &'static [&'static str] {
        &[paper::digest::VERB]
    }

    fn no_late(&self) -> Option<&'static str> {
        Some("--late is for received streams; simulated threads have no schedule to be late for")
    }

    fn schema(&self) -> Option<&'static str> {
        Some(include_str!("../../../docs/schema/sim-paper.json"))
    }

    fn analyze(&self, run: &RunDir, _: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(Paper(PaperDigest::read(run)?)))
    }
}

struct Paper(PaperDigest);

impl Analyzed for Paper {
    fn summary(&self) -> anyhow::Result<Value> {
        paper::digest::json(&self.0.summary)
    }

    fn spans(&self, run: &RunDir) -> anyhow::Result<Vec<Spans>> {
        paper::digest::spans(run)
    }

    fn document(&self, _: &RunDir) -> anyhow::Result<Document> {
        Ok(self.0.document())
    }
}

/// Its kind of runs.
pub(crate) struct SweepRuns;

impl RunKind for SweepRuns {
    fn verbs(&self) -> &'static [&'static str] {
        &[crate::sweep::VERB]
    }

    fn no_late(&self) -> Option<&'static str> {
        Some("--late is for received streams; simulated threads have no schedule to be late for")
    }

    fn schema(&self) -> Option<&'static str> {
        Some(include_str!("../../../docs/schema/sim-sweep.json"))
    }

    fn analyze(&self, run: &RunDir, _: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(Sweep(sweeps::analyze(run)?)))
    }
}

struct Sweep(sweeps::SweepDigest);

impl Analyzed for Sweep {
    fn summary(&self) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(&self.0.summary)?)
    }

    fn spans(&self, run: &RunDir) -> anyhow::Result<Vec<Spans>> {
        self.0.spans(run)
    }

    fn document(&self, _: &RunDir) -> anyhow::Result<Document> {
        Ok(self.0.document())
    }
}

#[cfg(test)]
mod tests {
    use crate::digest::{self, SimSummary};
    use crate::sweep::digest::{SCHEMA as SWEEP_SCHEMA, SweepSummary};
    use quaver_sim::paper::PaperSummary;
    use quaver_testbed::schema;

    #[test]
    fn committed_schemas_are_those_of_the_types() {
        schema::committed::<SimSummary>("sim", digest::SCHEMA);
        schema::committed::<PaperSummary>("sim-paper", PaperSummary::SCHEMA);
        schema::committed::<SweepSummary>("sim-sweep", SWEEP_SCHEMA);
    }
}
