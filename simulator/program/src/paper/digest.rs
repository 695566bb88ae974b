//! Runs of `quaver sim paper`, stored and read again.

use anyhow::Context;
use quaver_dvfs::power::{AreaConfig, MODELS};
use quaver_instrument::digest::facts::run_facts;
use quaver_sim::paper::{PaperSummary, claims, slips};
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_sync_analysis::bench::BenchSummary;
use serde_json::Value;
use std::io::Write;
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

/// Keeps the figures of a run of `quaver sync bench` beside ours.
pub fn write_bench(run: &RunDir, bench: &BenchSummary) -> anyhow::Result<()> {
    let path = bench_file(run);
    let octets = serde_json::to_vec_pretty(bench)?;
    std::fs::write(&path, octets).with_context(|| format!("writing {}", path.display()))
}

/// The figures that [`write_bench`] kept.
pub fn read_bench(run: &RunDir) -> anyhow::Result<Option<BenchSummary>> {
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

/// Writes the page of a run.
pub fn store_report(
    run: &RunDir,
    manifest: &Manifest,
    summary: &PaperSummary,
    bench: Option<&BenchSummary>,
) -> anyhow::Result<()> {
    quaver_instrument::digest::store_report(run, |out| write_html(run, manifest, summary, bench, out))
}

/// The same to wherever it is wanted.
pub fn write_html(
    run: &RunDir,
    manifest: &Manifest,
    summary: &PaperSummary,
    bench: Option<&BenchSummary>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut facts = run_facts(run, manifest);
    facts.facts.retain(|(name, _)| !matches!(name.as_str(), "receiver" | "events lost"));
    Ok(crate::paper::html::write_html(out, summary, bench, &facts)?)
}
