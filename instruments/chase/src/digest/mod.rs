//! From a recorded run of packets to its results: convert, analyse, write the summary and the report.

mod counts;
pub(crate) mod limits;
mod rtp;
mod warnings;

use crate::view::{ChaseInput, document, far_source};
use quaver_analysis::attribution::{AttributionOptions, PacketAnalysis, analyze_packets, bear_out};
use quaver_analysis::model::PacketRun;
use quaver_analysis::summary::ChaseSummary;
use quaver_host::root::HostRoot;
use quaver_instrument::causes::{name_cpus, name_no_cpu};
use quaver_instrument::facts::{RunFacts, actor_words, run_facts, tickless_host};
use quaver_instrument::names::{name_events, name_what_is_left};
use quaver_instrument::results::store_report;
use quaver_store::convert::{JoinReport, convert_raw};
use quaver_store::late::write_late;
use quaver_store::load::load_packet_run;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_view::Document;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A packet run with its analysis.
pub struct ChaseDigest {
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
///
/// # Errors
/// A segment cannot be read, or a file not be written.
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
    if of_this_boot(manifest, &HostRoot::system()) {
        name_events(&measured.events, &mut measured.names);
    }
    Ok(())
}

/// Whether a run was recorded since this host's last boot, as far as can be told: same kernel, and not before.
fn of_this_boot(manifest: &Manifest, root: &HostRoot) -> bool {
    let stat = root.text("proc/stat").unwrap_or_default();
    let boot_seconds = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<i64>().ok());
    let release = root.text("proc/sys/kernel/osrelease");
    let recorded = manifest.host.pointer("/kernel/release").and_then(Value::as_str);
    let same_kernel = release.is_some_and(|release| recorded == Some(release.trim()));
    same_kernel && boot_seconds.is_some_and(|boot| manifest.started_realtime_ns / 1_000_000_000 >= boot)
}

/// Analyses a packet run, from Parquet or (cut short) from its raw segments. `late` is a threshold in place of the
/// recorded one.
///
/// # Errors
/// The run cannot be read.
pub fn analyze(run: &RunDir, late: Option<Duration>) -> anyhow::Result<ChaseDigest> {
    let loaded = load_packet_run(run)?;
    let mut manifest = loaded.manifest;
    let mut measured = loaded.run;
    if let Some(joined) = &loaded.joined {
        complete_raw(run, &mut manifest, &mut measured, joined)?;
    }
    let recorded_ns = || manifest.asked.get("late_ns").and_then(Value::as_i64);
    let threshold_ns = late.map(|late| late.as_nanos() as i64).or_else(recorded_ns);
    let options = AttributionOptions { threshold_ns, ..AttributionOptions::default() };
    let mut analysis = analyze_packets(&measured, &options);
    analysis.summary.rtp = rtp::summary(&manifest, &measured, loaded.media).map(Box::new);
    let cpus: Vec<u16> = measured.receiver.cpu.into_iter().collect();
    let host = tickless_host(&manifest);
    bear_out(&mut analysis.summary.causes, &measured.events, &measured.names, &cpus, &host);
    complete_summary(&mut analysis.summary, &manifest);
    // What makes `quaver watch` keep an incident is no limit of the stream's.
    let is_limit = late.is_some() || manifest.verb != "watch";
    let sender = manifest.analysis.as_ref().and_then(|facts| facts.video.sender);
    let summary = &mut analysis.summary;
    summary.limits = limits::judged(
        &summary.losses,
        summary.lateness.packets,
        summary.rtp.as_deref(),
        (threshold_ns.filter(|_| is_limit), sender),
    );
    let facts = facts_of(run, &manifest);
    Ok(ChaseDigest { manifest, run: measured, analysis, facts })
}

/// What only the manifest knows.
fn complete_summary(summary: &mut ChaseSummary, manifest: &Manifest) {
    let facts = manifest.analysis.clone().unwrap_or_default();
    summary.tier = facts.tier;
    summary.tier_reason = facts.tier_reason;
    summary.blind = facts.blind;
    summary.probe_cost = facts.probe_cost;
    summary.backlog = facts.backlog;
    summary.far_source = facts.far_source.map(Box::new);
    summary.complete = manifest.complete;
    summary.warnings.extend(warnings::of(summary, manifest));
    match facts.receiver.cpu {
        Some(cpu) => name_cpus(&mut summary.causes, &cpu.to_string()),
        None => name_no_cpu(&mut summary.causes),
    }
    if facts.streams.first().is_some_and(|stream| is_loopback(&stream.destination)) {
        let late = summary.causes.iter_mut().filter(|cause| cause.source == "arrival-late");
        late.for_each(|cause| cause.remedy.setting = Some(AT_LOCAL_SENDER.to_owned()));
    }
}

/// What helps against packets that come late over loopback, where no device is.
const AT_LOCAL_SENDER: &str = "look at the sender, which runs on this host";

/// Whether a stream's destination, as manifests have it (`127.0.0.1, port 5004`, `127.0.0.1:5004`), is an address of loopback.
fn is_loopback(destination: &str) -> bool {
    let address = destination.split_once(", ").map_or(destination, |(address, _)| address);
    let ip = address.parse().or_else(|_| address.parse().map(|socket: SocketAddr| socket.ip()));
    ip.is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Words for the head of a page, with both ends of the stream.
fn facts_of(run: &RunDir, manifest: &Manifest) -> RunFacts {
    let mut facts = run_facts(run, manifest);
    let mut add = |name: &str, value: String| facts.facts.push((name.to_owned(), value));
    let Some(analysis) = &manifest.analysis else { return facts };
    add("receiver", actor_words(&analysis.receiver));
    if let Some(source) = &analysis.source {
        add("source", actor_words(source));
    }
    if let Some(far) = &analysis.far_source {
        add("remote source", format!("{} · {}", far.server, far_source::achieved(far)));
        add("arrived from its stream", far_source::arrived(far));
        far_source::moved(far).into_iter().for_each(|moved| add("address", moved));
    }
    facts
}

impl ChaseDigest {
    /// Writes `late.parquet`, `summary.json` and `report.html`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        write_late(&run.late(), &self.analysis)?;
        run.write_summary(&self.analysis.summary)?;
        store_report(run, &self.document())
    }

    /// What a person sees of it.
    pub fn document(&self) -> Document {
        document(&ChaseInput { analysis: &self.analysis, run: &self.facts, measured: &self.run })
    }
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn streams_over_loopback_are_told_by_their_destination() {
        for destination in ["127.0.0.1, port 5004", "127.0.0.1:5004", "::1, port 5004", "[::1]:5004"] {
            assert!(is_loopback(destination), "{destination}");
        }
        for destination in ["any address, port 5004", "192.0.2.1, port 5004", "192.0.2.1:5004", ""] {
            assert!(!is_loopback(destination), "{destination}");
        }
    }
}
