//! Stored runs of `quaver probe`.

use crate::digest::{self, PathDigest};
use crate::exports;
use crate::mesh::VERB as MESH;
use crate::mesh::digest::{MeshDigest, analyze as analyze_mesh};
use quaver_instrument::material::{Material, Samples, Stated};
use quaver_instrument::registry::{Analyzed, RunKind};
use quaver_instrument::runs::ExportArgs;
use quaver_store::run::RunDir;
use quaver_view::Document;
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

    fn headline(&self) -> &'static [&'static str] {
        &["up.variation.pdv.p99_ns", "down.variation.pdv.p99_ns"]
    }

    fn schema(&self) -> Option<&'static str> {
        Some(include_str!("../../../docs/schema/probe.json"))
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

    fn material(&self) -> Material {
        let flows = self.0.flows.iter().zip(&self.0.timed).filter(|(_, timed)| !timed.is_empty());
        let samples = flows.map(|((flow, _), timed)| {
            let way = flow.direction.name();
            Samples::durations(way, format!("delay {way}"), quaver_arrivals::path::arrival::delays_ns(timed))
        });
        // Delays are those of packets that arrived.
        let lost = self.0.summary.flows().filter(|flow| flow.figures.packets.unique > 0).filter_map(|flow| {
            let way = flow.flow.direction.name();
            let share = flow.figures.loss.share?;
            Some(Stated::share(format!("lost-{way}"), format!("share of packets lost {way}"), share))
        });
        Material { samples: samples.collect(), stated: lost.collect(), ..Material::default() }
    }

    fn document(&self, _: &RunDir) -> anyhow::Result<Document> {
        Ok(self.0.document())
    }

    fn write_perfetto(&self, run: &RunDir, asked: &ExportArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
        exports::refuse_rolling(run)?;
        Ok(exports::perfetto(&self.0, asked.direction, out).map(|()| true)?)
    }

    fn export(&self, run: &RunDir, asked: &ExportArgs) -> anyhow::Result<()> {
        exports::run(asked, run)
    }
}

/// Runs of `quaver probe --mesh`.
pub(crate) struct MeshRuns;

impl RunKind for MeshRuns {
    fn verbs(&self) -> &'static [&'static str] {
        &[MESH]
    }

    fn no_late(&self) -> Option<&'static str> {
        PathRuns.no_late()
    }

    fn headline(&self) -> &'static [&'static str] {
        &["worst.pdv_p99_ns"]
    }

    fn schema(&self) -> Option<&'static str> {
        Some(include_str!("../../../docs/schema/probe-mesh.json"))
    }

    fn analyze(&self, run: &RunDir, _: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(Mesh(analyze_mesh(run)?)))
    }
}

struct Mesh(MeshDigest);

impl Analyzed for Mesh {
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
    use crate::digest::{PathSummary, VERSION};
    use crate::mesh::digest::{MESH_VERSION, MeshSummary};
    use quaver_testbed::schema;

    #[test]
    fn committed_schemas_are_those_of_the_types() {
        schema::committed_as::<PathSummary>(
            "probe",
            "summary.json of a path, version 2",
            "version",
            VERSION.into(),
        );
        schema::committed_as::<MeshSummary>(
            "probe-mesh",
            "summary.json of a mesh, version 1",
            "version",
            MESH_VERSION.into(),
        );
    }
}
