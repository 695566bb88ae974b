//! Sweeps that were gathered, read again.

use super::place::SweepDirectory;
use crate::sweep::digest::{SCHEMA, SweepSummary};
use crate::sweep::view;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::facts::RunFacts;
use quaver_instrument::facts::run_facts;
use quaver_instrument::material::Spans;
use quaver_store::run::RunDir;
use quaver_view::Document;
use serde_json::Value;
use std::collections::BTreeMap;

/// Femtoseconds in a nanosecond.
const FS_PER_NS: i64 = 1_000_000;

/// A sweep with what it says.
pub struct SweepDigest {
    /// Figures.
    pub summary: SweepSummary,
    /// Words for the head of a page.
    pub facts: RunFacts,
}

/// Reads a sweep that was gathered.
///
/// # Errors
/// It was not gathered yet, or its files cannot be read.
pub fn analyze(run: &RunDir) -> anyhow::Result<SweepDigest> {
    let manifest = run.read_manifest()?;
    if !run.summary().is_file() {
        let path = run.path().display();
        let message = format!(
            "{path} holds no results yet: go on with quaver sim sweep run {path}, or gather what is there with \
             quaver sim sweep merge {path} --partial"
        );
        return Err(failure(ExitCode::BadInput, message));
    }
    let summary: SweepSummary = run.read_summary()?;
    if summary.schema != SCHEMA || !summary.is_whole() {
        let message = format!("{}: this is no summary of a sweep ({SCHEMA})", run.summary().display());
        return Err(failure(ExitCode::BadInput, message));
    }
    let facts = run_facts(run, &manifest);
    Ok(SweepDigest { summary, facts })
}

impl SweepDigest {
    /// How long each point took in simulated time, by trace; and when it was simulated, by process.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn spans(&self, run: &RunDir) -> anyhow::Result<Vec<Spans>> {
        let mut simulated: BTreeMap<usize, Spans> = BTreeMap::new();
        for row in &self.summary.points {
            let Some(duration_fs) = row.figures.get("duration_fs").and_then(Value::as_i64) else { continue };
            let trace = self.summary.traces.get(row.trace).map_or("points", String::as_str);
            let place = format!("{trace}.simulated");
            let spans =
                simulated.entry(row.trace).or_insert_with(|| Spans { place, unit: "ns", ..Spans::default() });
            spans.lengths.push(duration_fs / FS_PER_NS);
        }
        let mut worked = Spans { place: "simulating".to_owned(), unit: "ns", ..Spans::default() };
        for line in SweepDirectory::at(run.path()).logged()? {
            let Some(took_s) = line.took_s else { continue };
            let took_ns = (took_s * 1e9) as i64;
            worked.starts.push(line.at_ms.cast_signed() * 1_000_000 - took_ns);
            worked.lengths.push(took_ns);
        }
        Ok(simulated.into_values().chain((!worked.lengths.is_empty()).then_some(worked)).collect())
    }

    /// Writes `report.html`; `summary.json` stays as it was gathered.
    pub fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        quaver_instrument::results::store_report(run, &self.document())
    }

    /// What a person sees of it.
    pub fn document(&self) -> Document {
        view::document(&self.summary, &self.facts)
    }
}
