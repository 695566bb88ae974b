//! Runs of `quaver sim paper`, stored and read again.

use crate::paper::view;
use anyhow::Context;
use quaver_dvfs::power::{AreaConfig, MODELS};
use quaver_instrument::facts::run_facts;
use quaver_instrument::material::Spans;
use quaver_sim::paper::{PaperSummary, Point, PointFigures, claims, slips};
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_sync_analysis::bench::BenchSummary;
use quaver_view::Document;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What the manifest calls such a run.
pub const VERB: &str = "sim-paper";

/// Figures of every run, a line each: program, arm and seed, figures. In the order in which the runs ended.
pub fn points_file(run: &RunDir) -> PathBuf {
    run.path().join("points.jsonl")
}

fn bench_file(run: &RunDir) -> PathBuf {
    run.path().join("sync-bench.json")
}

/// Simulated runs by program and arm, `barnes.unified`: each from the first step to the last, in simulated time.
///
/// # Errors
/// The file cannot be read; a copy to be shared has none.
pub fn spans(run: &RunDir) -> anyhow::Result<Vec<Spans>> {
    let path = points_file(run);
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut all: BTreeMap<String, Spans> = BTreeMap::new();
    // The last line of a run that was killed may be a part of one.
    let points = text.lines().map_while(|line| serde_json::from_str(line).ok());
    for (program, point, figures) in points.map(|one: (String, Point, PointFigures)| one) {
        let place = format!("{program}.{}", point.arm.name());
        let spans =
            all.entry(place.clone()).or_insert_with(|| Spans { place, unit: "ns", ..Spans::default() });
        spans.starts.push(0);
        spans.lengths.push(figures.duration_ns as i64);
    }
    Ok(all.into_values().collect())
}

/// Keeps the figures of a run of `quaver sync bench` beside ours.
fn write_bench(run: &RunDir, bench: &BenchSummary) -> anyhow::Result<()> {
    let path = bench_file(run);
    let octets = serde_json::to_vec_pretty(bench)?;
    std::fs::write(&path, octets).with_context(|| format!("writing {}", path.display()))
}

/// The figures that [`write_bench`] kept.
fn read_bench(run: &RunDir) -> anyhow::Result<Option<BenchSummary>> {
    let path = bench_file(run);
    if !path.is_file() {
        return Ok(None);
    }
    let octets = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&octets).map(Some).with_context(|| format!("reading {}", path.display()))
}

/// The summary as `--json` prints it: with what follows from it.
pub fn json(summary: &PaperSummary) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(summary)?;
    if let Some(whole) = value.as_object_mut() {
        whole.insert("claims".to_owned(), serde_json::to_value(claims(summary))?);
        whole.insert("slips".to_owned(), serde_json::to_value(slips())?);
        whole.insert("area".to_owned(), serde_json::to_value(AreaConfig::default().area())?);
        whole.insert("power_models".to_owned(), serde_json::to_value(MODELS)?);
    }
    Ok(value)
}

/// A run with what it says.
pub struct PaperDigest {
    /// Figures.
    pub summary: PaperSummary,
    bench: Option<BenchSummary>,
    document: Document,
}

impl PaperDigest {
    /// That of a run with its figures.
    pub fn new(
        run: &RunDir,
        manifest: &Manifest,
        summary: PaperSummary,
        bench: Option<BenchSummary>,
    ) -> Self {
        let document = view::document(&summary, bench.as_ref(), &run_facts(run, manifest));
        Self { summary, bench, document }
    }

    /// Reads a stored run.
    ///
    /// # Errors
    /// It has no results, or its files cannot be read.
    pub fn read(run: &RunDir) -> anyhow::Result<Self> {
        let summary = run.read_summary()?;
        Ok(Self::new(run, &run.read_manifest()?, summary, read_bench(run)?))
    }

    /// Writes `summary.json` and `report.html`, and the figures of a run of `quaver sync bench` beside ours.
    pub fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        run.write_summary(&self.summary)?;
        if let Some(bench) = &self.bench {
            write_bench(run, bench)?;
        }
        quaver_instrument::results::store_report(run, &self.document)
    }

    /// What a person sees of it.
    pub fn document(&self) -> Document {
        self.document.clone()
    }
}
