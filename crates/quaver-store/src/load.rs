//! Reading a run for analysis, whatever state it was left in.

use crate::convert::{JoinReport, join_packets, read_raw_events};
use crate::error::StoreError;
use crate::events::read_events;
use crate::manifest::{AnalysisFacts, Manifest};
use crate::packets::read_packets;
use crate::run::RunDir;
use quaver_analysis::model::PacketRun;

/// A run as an analysis takes it.
#[derive(Clone, Debug)]
pub struct LoadedRun {
    /// Its manifest.
    pub manifest: Manifest,
    /// Packets, events, names and facts.
    pub run: PacketRun,
    /// What joining counted, where the raw segments were joined just now.
    pub joined: Option<JoinReport>,
}

/// Reads a packet run: from Parquet where it was converted, else from its raw segments up to their last full
/// record. Both ways give the same. A run cut short is loaded too; its manifest tells why.
///
/// # Errors
/// A file cannot be read, is damaged, or is of a later format.
pub fn load_packet_run(run: &RunDir) -> Result<LoadedRun, StoreError> {
    let manifest = run.read_manifest()?;
    let facts = manifest.analysis.clone().unwrap_or_default();
    let mut names = run.read_names()?;
    let events =
        if run.events().is_file() { read_events(&run.events())? } else { read_raw_events(run, &mut names)? };
    let (packets, joined) = if run.samples().is_file() {
        (read_packets(&run.samples())?, None)
    } else {
        let (packets, report) = join_packets(run, &facts)?;
        (packets, Some(report))
    };
    let AnalysisFacts { period_ns, receiver, source, circumstances, counts, .. } = facts;
    let run = PacketRun { period_ns, packets, events, names, receiver, source, circumstances, counts };
    Ok(LoadedRun { manifest, run, joined })
}
