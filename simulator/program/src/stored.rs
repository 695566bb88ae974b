//! Simulated runs in their directories: stored when they end, and read again.

use crate::digest::{
    CureSummary, SimFacts, SimLanes, SimSpeed, SimSummary, facts_of, keep, speed_of, summarize,
};
use crate::perfetto::draw_simulated;
use crate::view::{self, SimInput};
use anyhow::Context;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::facts::RunFacts;
use quaver_instrument::facts::run_facts;
use quaver_sim::statistics::Results;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_view::Document;
use std::io::Write;
use std::path::PathBuf;

/// A run with what it says.
pub struct SimDigest {
    /// Figures.
    pub summary: SimSummary,
    /// Words for the head of a page.
    pub facts: RunFacts,
    /// How fast it was simulated, where that is known.
    pub speed: Option<SimSpeed>,
    /// Threads over time.
    pub lanes: SimLanes,
}

/// `machine.toml`: the machine that was simulated, whole, as `--config` takes it.
pub fn machine_file(run: &RunDir) -> PathBuf {
    run.path().join("machine.toml")
}

/// `cure.toml`: jitter and its cure, as `--cure` takes it.
pub fn cure_file(run: &RunDir) -> PathBuf {
    run.path().join("cure.toml")
}

/// `intervals.parquet`.
pub fn intervals_file(run: &RunDir) -> PathBuf {
    run.path().join("intervals.parquet")
}

/// `lanes.json`: threads over time, as far as they are drawn.
pub fn lanes_file(run: &RunDir) -> PathBuf {
    run.path().join("lanes.json")
}

/// `timeline.perfetto-trace`.
pub fn timeline_file(run: &RunDir) -> PathBuf {
    run.path().join("timeline.perfetto-trace")
}

/// Stores what a simulation that ended just now came to, with what its cure did. `complete` says that all threads ended, of all
/// runs.
///
/// # Errors
/// A file cannot be written.
pub fn conclude(
    run: &RunDir,
    mut manifest: Manifest,
    (facts, cure): (SimFacts, Option<CureSummary>),
    results: &Results,
    speed: SimSpeed,
    complete: bool,
) -> anyhow::Result<SimDigest> {
    let lanes = keep(&intervals_file(run), &results.intervals)?;
    let mut summary = summarize(facts, results, complete);
    summary.cure = cure;
    summary
        .warnings
        .extend(manifest.interrupted.iter().map(|reason| format!("the run is incomplete: {reason}")));
    write_json(&lanes_file(run), &lanes)?;
    manifest.asked["speed"] = serde_json::to_value(speed)?;
    let digest = SimDigest { summary, facts: run_facts(run, &manifest), speed: Some(speed), lanes };
    let path = timeline_file(run);
    let drawing = std::fs::File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    let mut drawing = std::io::BufWriter::new(drawing);
    digest.write_perfetto(&mut drawing)?;
    drawing.flush().with_context(|| format!("writing {}", path.display()))?;
    digest.store(run)?;
    run.write_manifest(&manifest)?;
    Ok(digest)
}

/// Reads a stored run.
///
/// # Errors
/// It has no results, for it was killed, or its files cannot be read.
pub fn analyze(run: &RunDir) -> anyhow::Result<SimDigest> {
    let manifest = run.read_manifest()?;
    if !run.summary().is_file() {
        let facts = facts_of(run, &manifest)?;
        let message = format!(
            "{} holds no results: the simulation was killed; run it again: quaver sim run {} --config {}",
            run.path().display(),
            facts.trace,
            machine_file(run).display()
        );
        return Err(failure(ExitCode::BadInput, message));
    }
    let summary: SimSummary = run.read_summary()?;
    let path = lanes_file(run);
    let lanes = match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .map_err(|error| failure(ExitCode::BadInput, format!("{}: {error}", path.display())))?,
        // Only drawings need it.
        Err(_) => SimLanes::default(),
    };
    let speed = speed_of(&manifest);
    Ok(SimDigest { summary, facts: run_facts(run, &manifest), speed, lanes })
}

fn write_json(path: &std::path::Path, value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_vec(value)?;
    text.push(b'\n');
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

impl SimDigest {
    /// Writes `summary.json` and `report.html`.
    pub fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        run.write_summary(&self.summary)?;
        quaver_instrument::results::store_report(run, &self.document())
    }

    /// Writes a timeline for ui.perfetto.dev: cores with the threads that ran there, threads with what they did, and arrows
    /// from who ended a wait. Where there are too many intervals, the longest.
    pub fn write_perfetto(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        draw_simulated(&self.lanes.spans, out)?;
        Ok(())
    }

    /// What a person sees of it.
    pub fn document(&self) -> Document {
        view::document(&SimInput {
            summary: &self.summary,
            run: &self.facts,
            speed: self.speed,
            lanes: &self.lanes,
        })
    }
}
