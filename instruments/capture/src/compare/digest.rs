//! From a recorded comparison of stamps to its results.

use crate::compare::samples::read_compare_samples;
use quaver_capture_analysis::compare::{CompareFacts, CompareSummary, summarize};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::facts::{RunFacts, run_facts};
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;

/// A comparison with its results.
pub struct CompareDigest {
    /// What it says.
    pub summary: CompareSummary,
    /// Words for the head of a page.
    pub facts: RunFacts,
}

/// Analyses a comparison that was stored.
pub fn analyze(run: &RunDir) -> anyhow::Result<CompareDigest> {
    let manifest = run.read_manifest()?;
    let recorded: CompareFacts = run.read_facts(manifest.compare.as_ref())?.ok_or_else(|| {
        let message = format!("{}: no results, the comparison ended too early", run.path().display());
        failure(ExitCode::BadInput, message)
    })?;
    let mut summary = summarize(&read_compare_samples(&run.samples())?, &recorded);
    summary.complete = manifest.complete;
    summary.warnings = warnings(&summary, &recorded, &manifest);
    Ok(CompareDigest { summary, facts: run_facts(run, &manifest) })
}

/// What to know before believing the numbers.
fn warnings(summary: &CompareSummary, facts: &CompareFacts, manifest: &Manifest) -> Vec<String> {
    let mut warnings = Vec::new();
    if manifest.host.pointer("/hypervisor/present") == Some(&serde_json::Value::Bool(true)) {
        warnings.push(
            "this is a virtual machine: cache contents depend on neighbours; repeat the comparison \
             and compare the intervals"
                .to_owned(),
        );
    }
    for pattern in &summary.patterns {
        let name = &pattern.facts.name;
        let slots = pattern.facts.sent + pattern.facts.missed;
        if pattern.facts.missed * 100 > slots {
            let remedy = if facts.from.is_some() {
                "give it a CPU of its own there"
            } else {
                "give it a CPU of its own (--cores)"
            };
            warnings.push(format!(
                "pattern {name}: the source missed {} of {slots} slots, so packet gaps vary; \
                 {remedy}",
                pattern.facts.missed
            ));
        }
        if let Some(arm) = pattern.user.iter().find(|arm| arm.ring_full > 0) {
            warnings.push(format!(
                "pattern {name}: {} stamps of {} found the ring to the converter full and were converted by the \
                 receiver",
                arm.ring_full, arm.figures.name
            ));
        }
    }
    if facts.patterns.is_empty() {
        warnings.push("no pattern was measured".to_owned());
    }
    warnings
}
