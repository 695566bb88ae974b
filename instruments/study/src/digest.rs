//! From the cells of a study to its results.

use crate::stamps::read_study_stamps;
use crate::view::{StudyInput, document};
use anyhow::Context;
use quaver_analysis::summary::ProbeCost;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::facts;
use quaver_instrument::facts::RunFacts;
use quaver_store::error::StoreError;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_study_analysis::{
    Cell, PaperArm, PaperBeside, PaperReport, StudyFacts, StudySummary, StudyVerdict, paper_report, summarize,
};
use quaver_view::Document;

/// A study with its results.
pub struct StudyDigest {
    /// What it says.
    pub summary: StudySummary,
    /// Words for the head of a page.
    pub facts: RunFacts,
}

/// Analyses the cells that a run has.
pub fn analyze(run: &RunDir) -> anyhow::Result<StudyDigest> {
    let manifest = run.read_manifest()?;
    let planned = manifest.asked.get("facts").cloned().unwrap_or_default();
    let planned: StudyFacts = serde_json::from_value(planned).map_err(|error| {
        let message = format!("{}: the facts of the study cannot be read: {error}", run.manifest().display());
        failure(ExitCode::BadInput, message)
    })?;
    let mut cells = read_cells(run)?;
    refuse_wrong_boots(&planned, &mut cells);
    if cells.is_empty() {
        let message = format!(
            "{} holds no cell: the study was ended too early; go on with quaver study run --resume",
            run.path().display()
        );
        return Err(failure(ExitCode::BadInput, message));
    }
    let mut summary = summarize(&planned, &cells);
    summary.probe_cost = probe_cost(run)?;
    summary.paper = paper(run, &manifest, &summary, &cells)?.map(Box::new);
    summary.warnings = warnings(&summary, &cells, &manifest);
    summary.warnings.extend(lost_stamps(run, &manifest, &cells));
    let mut facts = facts::run_facts(run, &manifest);
    facts.facts.retain(|(name, _)| name != "events lost");
    if let Some(priority) = manifest.asked.get("priority").and_then(|text| text.as_str()) {
        facts.facts.push(("priority".to_owned(), priority.to_owned()));
    }
    Ok(StudyDigest { summary, facts })
}

/// The cells that a run has, in the order of blocks and places.
pub(crate) fn read_cells(run: &RunDir) -> anyhow::Result<Vec<Cell>> {
    let directory = run.path().join("cells");
    let mut paths = Vec::new();
    let listed = std::fs::read_dir(&directory).with_context(|| format!("listing {}", directory.display()))?;
    for entry in listed {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    // Names sort by block and place.
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text)
            .map_err(|error| failure(ExitCode::BadInput, format!("{} is no cell: {error}", path.display())))
    };
    paths.iter().map(read).collect()
}

/// A cell that was measured under another command line than its arm's does not count.
fn refuse_wrong_boots(planned: &StudyFacts, cells: &mut [Cell]) {
    for cell in cells.iter_mut().filter(|cell| cell.discarded.is_none()) {
        let arm = planned.arms.iter().find(|arm| arm.id == cell.arm);
        let mut wanted = arm.map_or_else(Vec::new, |arm| arm.boot.clone());
        wanted.sort_unstable();
        if cell.boot != wanted && planned.arms.iter().any(|arm| !arm.boot.is_empty()) {
            cell.discarded = Some(format!(
                "it was measured under another command line (of this study's options: {})",
                if cell.boot.is_empty() { "none".to_owned() } else { cell.boot.join(" ") }
            ));
        }
    }
}

fn probe_cost(run: &RunDir) -> anyhow::Result<Option<ProbeCost>> {
    let path = run.path().join("cost.json");
    match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text)
            .map_err(|error| failure(ExitCode::BadInput, format!("{}: {error}", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// The paper's figures, of a run of `study paper`: from the stamps of the first cell of each arm that counts.
fn paper(
    run: &RunDir,
    manifest: &Manifest,
    summary: &StudySummary,
    cells: &[Cell],
) -> anyhow::Result<Option<PaperReport>> {
    let planned = manifest.asked.pointer("/study/paper").cloned().unwrap_or_default();
    let planned: Vec<PaperArm> = serde_json::from_value(planned).unwrap_or_default();
    if planned.is_empty() {
        return Ok(None);
    }
    let read = |name: &str, was_kept: bool| {
        let path = run.path().join(name);
        match path.is_file() {
            true => read_study_stamps(&path).map(Some),
            false if was_kept => Err(StoreError::Gone { path }),
            false => Ok(None),
        }
    };
    // A study that was interrupted may have none of them yet; the guest of a lab runs no dummy program.
    let study = &manifest.asked["study"];
    let beside = |name: &str, asked: bool| read(name, manifest.complete && asked);
    let generator = beside("generator.parquet", true)?;
    let dummy = beside("dummy.parquet", study["dummy_turns"] != 0 && study["lab"] != "qemu")?;
    let wakes = study["wake_up_samples"] != 0;
    let (idle, awake) = (beside("wake-up-idle.parquet", wakes)?, beside("wake-up-awake.parquet", wakes)?);
    let beside = PaperBeside {
        dummy: dummy.as_ref(),
        generator: generator.as_ref(),
        wake_up: idle.as_ref().zip(awake.as_ref()),
        controls: &summary.controls,
    };
    let mut failed = None;
    let of_arm = |arm: &str| {
        let cell = cells.iter().find(|cell| cell.arm == arm && cell.discarded.is_none())?;
        read(&stamps_of(cell), true).unwrap_or_else(|error| {
            failed = Some(error);
            None
        })
    };
    let report = paper_report(&planned, summary.facts.period_ns, beside, of_arm);
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(Some(report)),
    }
}

/// Where the stamps of a cell lie in its run.
fn stamps_of(cell: &Cell) -> String {
    format!("cells/b{:04}-p{:03}.parquet", cell.block, cell.position)
}

/// Stamps that were kept and are gone. The figures of a cell stand beside them, and hold.
fn lost_stamps(run: &RunDir, manifest: &Manifest, cells: &[Cell]) -> Option<String> {
    let plan = manifest.asked.pointer("/study/plan")?.as_str()?;
    let plan: toml::Table = plan.parse().ok()?;
    if plan.get("study").and_then(|study| study.get("keep-stamps")?.as_bool()) == Some(false) {
        return None;
    }
    let lost: Vec<String> =
        cells.iter().map(stamps_of).filter(|name| !run.path().join(name).is_file()).collect();
    let first = lost.first()?;
    Some(format!(
        "the stamps of {} of {} cells are gone, for example {first}: copy the run whole; the figures here stand without them",
        lost.len(),
        cells.len()
    ))
}

/// What to know before believing the numbers.
fn warnings(summary: &StudySummary, cells: &[Cell], manifest: &Manifest) -> Vec<String> {
    let mut warnings = Vec::new();
    let facts = &summary.facts;
    warnings.extend(facts.too_few_blocks());
    for control in summary
        .controls
        .iter()
        .filter(|one| one.verdict == StudyVerdict::Worse || one.verdict == StudyVerdict::Better)
    {
        warnings.push(format!(
            "the baseline against itself came out as {}: effects of that size mean nothing in this run (by chance that \
             happens in one study of twenty)",
            control.verdict.words()
        ));
    }
    if let Some(carried) = summary.carry_over.filter(|carried| carried.p <= 0.05) {
        warnings.push(format!(
            "what ran before shows in a cell (p {:.3}): measure again with a longer warm-up",
            carried.p
        ));
    }
    if !summary.discarded.is_empty() {
        warnings.push(format!(
            "{} of {} cells do not count, for example block {}, {}: {}",
            summary.discarded.len(),
            summary.cells,
            summary.discarded[0].block + 1,
            summary.discarded[0].arm,
            summary.discarded[0].reason
        ));
    }
    for (arm, cells) in summary.arms.iter().map(|arm| (&arm.arm.id, arm.cells)) {
        if cells * 2 < facts.blocks && summary.complete {
            warnings.push(format!("{arm} has only {cells} cells of {} that count", facts.blocks));
        }
    }
    if let Some(lab) = manifest.asked.get("lab_warnings").and_then(|list| list.as_array()) {
        warnings.extend(lab.iter().filter_map(|sentence| sentence.as_str()).map(str::to_owned));
    }
    let mut notes: Vec<&String> = cells.iter().flat_map(|cell| &cell.notes).collect();
    notes.sort();
    notes.dedup();
    warnings.extend(notes.into_iter().cloned());
    if manifest.host.pointer("/virtualisation/kind").is_some_and(|kind| kind.is_string()) {
        warnings.push(
            "this is a virtual machine: idle states and real interrupt throttling cannot be studied here, and what the \
             hypervisor takes is in every arm"
                .to_owned(),
        );
    }
    warnings
}

impl StudyDigest {
    /// Writes `summary.json` and `report.html`.
    pub fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        run.write_summary(&self.summary)?;
        quaver_instrument::results::store_report(run, &self.document())
    }

    /// What a person sees of it.
    pub fn document(&self) -> Document {
        document(&StudyInput { summary: &self.summary, run: &self.facts })
    }
}
