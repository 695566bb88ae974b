//! Stored runs of `quaver sim`: simulations, the paper's runs, sweeps.

use crate::digest::{self, SimDigest};
use crate::paper;
use crate::sweep::digest as sweeps;
use quaver_instrument::deliver::{deliver, say_written};
use quaver_instrument::registry::{Analyzed, RunKind, not_exported};
use quaver_instrument::runs::ExportArgs;
use quaver_page::table::Style;
use quaver_sim::paper::PaperSummary;
use quaver_store::run::RunDir;
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

    fn analyze(&self, run: &RunDir, _: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(Simulation(digest::analyze(run)?)))
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

    fn page(&self, run: &RunDir) -> String {
        self.0.page(Some(&run.report().display().to_string()), Style::of_stdout())
    }

    fn write_html(&self, run: &RunDir, out: &mut dyn Write) -> anyhow::Result<()> {
        let _ = run;
        self.0.write_html(out)
    }

    fn export(&self, run: &RunDir, asked: &ExportArgs) -> anyhow::Result<()> {
        if !asked.perfetto {
            return Err(not_exported(
                "of a simulated run only --perfetto can be exported: its intervals.parquet and summary.json hold the rest",
            ));
        }
        let target = asked.output.clone().unwrap_or_else(|| run.path().join("timeline.perfetto-trace"));
        deliver(&target, |out| self.0.write_perfetto(out))?;
        say_written(&target);
        Ok(())
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

    fn analyze(&self, run: &RunDir, _: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(Paper(run.read_summary()?)))
    }
}

struct Paper(PaperSummary);

impl Analyzed for Paper {
    fn summary(&self) -> anyhow::Result<Value> {
        paper::digest::json(&self.0)
    }

    fn page(&self, run: &RunDir) -> String {
        match paper::digest::read_bench(run) {
            Ok(bench) => paper::page::page(
                &self.0,
                bench.as_ref(),
                &run.report().display().to_string(),
                Style::of_stdout(),
            ),
            Err(error) => format!("{error:#}\n"),
        }
    }

    fn write_html(&self, run: &RunDir, out: &mut dyn Write) -> anyhow::Result<()> {
        paper::digest::write_html(
            run,
            &run.read_manifest()?,
            &self.0,
            paper::digest::read_bench(run)?.as_ref(),
            out,
        )
    }

    fn export(&self, run: &RunDir, asked: &ExportArgs) -> anyhow::Result<()> {
        let (_, _) = (run, asked);
        Err(not_exported("the paper's runs are not exported: points.jsonl and summary.json hold all of them"))
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

    fn analyze(&self, run: &RunDir, _: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(Sweep(sweeps::analyze(run)?)))
    }
}

struct Sweep(sweeps::SweepDigest);

impl Analyzed for Sweep {
    fn summary(&self) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(&self.0.summary)?)
    }

    fn page(&self, run: &RunDir) -> String {
        self.0.page(Some(&run.report().display().to_string()), Style::of_stdout())
    }

    fn write_html(&self, run: &RunDir, out: &mut dyn Write) -> anyhow::Result<()> {
        let _ = run;
        self.0.write_html(out)
    }

    fn export(&self, run: &RunDir, asked: &ExportArgs) -> anyhow::Result<()> {
        let (_, _) = (run, asked);
        Err(not_exported("a sweep is not exported: its points.parquet and summary.json hold all of it"))
    }
}
