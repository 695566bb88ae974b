//! From a recorded run to its results: convert, analyse, write the summary and the report.

mod counts;
pub mod facts;
mod rtp;

pub use facts::run_facts;

use anyhow::Context;
use quaver_abi::record::EventRecord;
use quaver_analysis::attribution::{AttributionOptions, PacketAnalysis, analyze_packets, bear_out};
use quaver_analysis::model::{Names, PacketRun};
use quaver_analysis::summary::{CauseSummary, ChaseSummary};
use quaver_host::root::HostRoot;
use quaver_page as report;
use quaver_page::{PageInput, ReportInput, RunFacts};
use quaver_store::convert::{JoinReport, convert_raw};
use quaver_store::load::load_packet_run;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use std::io::{BufWriter, Write};
use std::time::Duration;

/// A packet run with its analysis.
pub struct Digest {
    /// Manifest as stored.
    pub manifest: Manifest,
    /// What was measured, within the measured window.
    pub run: PacketRun,
    /// What it says.
    pub analysis: PacketAnalysis,
    /// Words for the head of a page.
    pub facts: RunFacts,
}

/// Turns the raw segments of a packet run into Parquet and counts its packets by place; the segments are then
/// removed. Does nothing to a run that was converted before.
pub fn convert(run: &RunDir, manifest: &mut Manifest) -> anyhow::Result<()> {
    if run.samples().is_file() && run.events().is_file() {
        return Ok(());
    }
    let facts = manifest.analysis.get_or_insert_default();
    let joined = convert_raw(run, facts)?;
    counts::count(run, facts, &joined)?;
    manifest.lost.samples = facts.counts.record_lost;
    name_what_is_left(run)?;
    run.write_manifest(manifest)?;
    run.remove_raw()?;
    Ok(())
}

/// Adds the names that only the running system can give to those that are stored.
pub fn name_what_is_left(run: &RunDir) -> anyhow::Result<()> {
    let mut stored: Names = run.read_names()?;
    name_events(&quaver_store::events::read_events(&run.events())?, &mut stored);
    Ok(run.write_names(&stored)?)
}

/// Names that only the running system can give: functions, interrupts, threads that still live.
fn name_events(events: &[EventRecord], stored: &mut Names) {
    use quaver_host::names;
    use std::collections::BTreeSet;
    let root = HostRoot::system();
    let addresses: BTreeSet<u64> = events.iter().filter_map(facts::function_address).collect();
    let unknown = addresses.into_iter().filter(|address| !stored.symbol.contains_key(address)).collect();
    // Hidden addresses leave causes with coarser names; doctor says how to show them.
    stored.symbol.extend(names::function_names(&root, &unknown).unwrap_or_default());
    for (number, name) in names::irq_names(&root) {
        stored.irq.entry(number).or_insert(name);
    }
    for (number, name) in names::idle_state_names(&root) {
        stored.idle_state.entry(number).or_insert(name);
    }
    let threads: BTreeSet<u32> = events.iter().filter_map(facts::thread_of).collect();
    let nameless = threads.into_iter().filter(|thread| !stored.task.contains_key(thread)).collect();
    stored.task.extend(names::task_names(&root, &nameless));
}

/// Adds to a run that was loaded from raw segments what [`convert`] would have stored with it. The addresses of
/// functions mean nothing after the next boot, nor do numbers of threads.
fn complete_raw(
    run: &RunDir,
    manifest: &mut Manifest,
    measured: &mut PacketRun,
    joined: &JoinReport,
) -> anyhow::Result<()> {
    let facts = manifest.analysis.get_or_insert_default();
    counts::count(run, facts, joined)?;
    measured.counts = facts.counts.clone();
    manifest.lost.samples = facts.counts.record_lost;
    if facts::of_this_boot(manifest, &HostRoot::system()) {
        name_events(&measured.events, &mut measured.names);
    }
    Ok(())
}

/// Analyses a packet run, from Parquet or (cut short) from its raw segments.
pub fn analyze(run: &RunDir, late: Option<Duration>) -> anyhow::Result<Digest> {
    let loaded = load_packet_run(run)?;
    let mut manifest = loaded.manifest;
    let mut measured = loaded.run;
    if let Some(joined) = &loaded.joined {
        complete_raw(run, &mut manifest, &mut measured, joined)?;
    }
    let threshold_ns = late.map(|late| late.as_nanos() as i64).or_else(|| facts_threshold(&manifest));
    let options = AttributionOptions { threshold_ns, ..AttributionOptions::default() };
    let mut analysis = analyze_packets(&measured, &options);
    analysis.summary.rtp = rtp::summary(&manifest, &measured, loaded.media).map(Box::new);
    let cpus: Vec<u16> = measured.receiver.cpu.into_iter().collect();
    let host = facts::tickless_host(&manifest);
    bear_out(&mut analysis.summary.causes, &measured.events, &measured.names, &cpus, &host);
    complete_summary(&mut analysis.summary, &manifest);
    let facts = run_facts(run, &manifest);
    Ok(Digest { manifest, run: measured, analysis, facts })
}

fn facts_threshold(manifest: &Manifest) -> Option<i64> {
    manifest.asked.get("late_ns").and_then(serde_json::Value::as_i64)
}

/// What only the manifest knows.
fn complete_summary(summary: &mut ChaseSummary, manifest: &Manifest) {
    let facts = manifest.analysis.clone().unwrap_or_default();
    summary.tier = facts.tier;
    summary.tier_reason = facts.tier_reason;
    summary.blind = facts.blind;
    summary.probe_cost = facts.probe_cost;
    summary.far_source = facts.far_source.map(Box::new);
    summary.complete = manifest.complete;
    summary.warnings.extend(facts::warnings(summary, manifest));
    if let Some(cpu) = facts.receiver.cpu {
        name_cpus(&mut summary.causes, &cpu.to_string());
    }
}

/// Puts the measured CPUs into the remedies: as words where the catalogue has them between words, else as a list.
pub fn name_cpus(causes: &mut [CauseSummary], cpus: &str) {
    let words = format!(" CPU{} {cpus}", if cpus.contains(',') { "s" } else { "" });
    for remedy in causes.iter_mut().map(|cause| &mut cause.remedy) {
        for text in [&mut remedy.setting, &mut remedy.boot].into_iter().flatten() {
            *text = text.replace(" <cpu>", &words).replace("<cpu>", cpus);
        }
    }
}

/// Writes `report.html`.
pub fn store_report(
    run: &RunDir,
    draw: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let path = run.report();
    let file = std::fs::File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    let mut out = BufWriter::new(file);
    draw(&mut out)?;
    out.flush().with_context(|| format!("writing {}", path.display()))
}

impl Digest {
    /// Writes `summary.json` and `report.html`.
    pub fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        run.write_summary(&self.analysis.summary)?;
        store_report(run, |out| self.write_html(out))
    }

    /// Writes the report.
    pub fn write_html(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let input = ReportInput {
            summary: &self.analysis.summary,
            run: &self.facts,
            packets: &self.run.packets,
            late: &self.analysis.late,
            pieces: &self.analysis.pieces,
            events: &self.run.events,
            names: &self.run.names,
        };
        Ok(report::html::write_html(out, &input)?)
    }

    /// The console page.
    pub fn page(&self, run: &RunDir) -> String {
        let report_path = run.report().display().to_string();
        let input = PageInput {
            summary: &self.analysis.summary,
            run: &self.facts,
            report_path: run.report().is_file().then_some(report_path.as_str()),
        };
        report::console::chase(&input, report::table::Style::of_stdout())
    }
}
