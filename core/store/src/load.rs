//! Reading a run for analysis, whatever state it was left in.

use crate::convert::{JoinReport, Joined, join_segments, read_raw_events};
use crate::error::StoreError;
use crate::events::read_events;
use crate::gaps::{read_gaps, read_raw_gaps};
use crate::manifest::{AnalysisFacts, Manifest, Window};
use crate::media::MediaRows;
use crate::packets::read_packets_and_media;
use crate::run::RunDir;
use quaver_analysis::model::{Layer, MISSING, NoiseRun, PacketRun, PacketTable};

/// A run as an analysis takes it.
#[derive(Clone, Debug)]
pub struct LoadedRun {
    /// Its manifest.
    pub manifest: Manifest,
    /// Packets, events, names and facts.
    pub run: PacketRun,
    /// What the RTP headers of its packets say.
    pub media: MediaRows,
    /// What joining counted, where the raw segments were joined just now.
    pub joined: Option<JoinReport>,
}

/// Reads a packet run: from Parquet where it was converted, else from its raw segments up to their last full
/// record. Both ways give the same. Packets outside the measured window
/// are left out. A run cut short is loaded too; its manifest tells why.
///
/// # Errors
/// A file cannot be read, is damaged, or is of a later format.
pub fn load_packet_run(run: &RunDir) -> Result<LoadedRun, StoreError> {
    let manifest = run.read_manifest()?;
    let facts = manifest.analysis.clone().unwrap_or_default();
    let mut names = run.read_names()?;
    let events = if run.has_table(&manifest, &run.events())? {
        read_events(&run.events())?
    } else {
        read_raw_events(run, &mut names, facts.source_cpu())?
    };
    let (mut packets, mut media, joined) = if run.has_table(&manifest, &run.samples())? {
        let (packets, media) = read_packets_and_media(&run.samples())?;
        (packets, media, None)
    } else {
        let Joined { packets, media, report } = join_segments(run, &facts)?;
        (packets, media, Some(report))
    };
    if let Some(window) = facts.window {
        keep_window(&mut packets, &mut media, window);
    }
    let AnalysisFacts { period_ns, receiver, source, circumstances, counts, unread, .. } = facts;
    let run =
        PacketRun { period_ns, packets, events, names, receiver, source, circumstances, counts, unread };
    Ok(LoadedRun { manifest, run, media, joined })
}

/// A noise run as an analysis takes it.
#[derive(Clone, Debug)]
pub struct LoadedNoise {
    /// Its manifest.
    pub manifest: Manifest,
    /// Gaps, events, names and facts.
    pub run: NoiseRun,
}

/// Reads a noise run, as [`load_packet_run`] reads one of packets.
///
/// # Errors
/// A file cannot be read, is damaged, or is of a later format.
pub fn load_noise_run(run: &RunDir) -> Result<LoadedNoise, StoreError> {
    let manifest = run.read_manifest()?;
    let facts = manifest.noise.clone().unwrap_or_default();
    let shared = manifest.analysis.clone().unwrap_or_default();
    let mut names = run.read_names()?;
    let events = if run.has_table(&manifest, &run.events())? {
        read_events(&run.events())?
    } else {
        read_raw_events(run, &mut names, None)?
    };
    let gaps =
        if run.has_table(&manifest, &run.gaps())? { read_gaps(&run.gaps())? } else { read_raw_gaps(run)? };
    let run = NoiseRun {
        period_ns: facts.period_ns,
        threshold_ns: facts.threshold_ns,
        loops: facts.loops,
        gaps,
        events,
        names,
        circumstances: shared.circumstances,
        gaps_lost: facts.gaps_lost,
        events_lost: manifest.lost.events,
    };
    Ok(LoadedNoise { manifest, run })
}

/// Leaves out the packets that were not due in the measured phase (where the schedule is not known: not received
/// in it). A packet due at its end counts however late it arrived, else the latest would be missing.
fn keep_window(packets: &mut PacketTable, media: &mut MediaRows, window: Window) {
    let schedule = packets.column(Layer::Schedule);
    let due_ns = |row: usize| {
        let before = schedule.map_or(MISSING, |column| column.before_app_ns[row]);
        packets.app_ns[row] - if before == MISSING { 0 } else { before }
    };
    let kept: Vec<bool> =
        (0..packets.len()).map(|row| (window.start_ns..window.end_ns).contains(&due_ns(row))).collect();
    if kept.iter().all(|kept| *kept) {
        return;
    }
    fn keep<T>(column: &mut Vec<T>, kept: &[bool]) {
        let mut rows = kept.iter();
        column.retain(|_| rows.next() == Some(&true));
    }
    if media.len() == kept.len() {
        keep(media, &kept);
    }
    keep(&mut packets.seq, &kept);
    keep(&mut packets.app_ns, &kept);
    keep(&mut packets.app_cpu, &kept);
    keep(&mut packets.stack_cpu, &kept);
    for column in &mut packets.layers {
        keep(&mut column.before_app_ns, &kept);
    }
}
