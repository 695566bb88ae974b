//! Stored runs of `quaver chase` and `quaver sink`.

use crate::digest::limits::lost;
use crate::digest::{self, ChaseDigest};
use quaver_analysis::model::{Layer, PacketTable};
use quaver_analysis::summary::Losses;
use quaver_instrument::material::{Material, Samples, Stated, cause_times};
use quaver_instrument::pieces::{COLUMNS, write_piece};
use quaver_instrument::registry::{Analyzed, RunKind};
use quaver_instrument::runs::ExportArgs;
use quaver_store::perfetto::{Drawing, NamedWindow, draw};
use quaver_store::run::RunDir;
use quaver_view::Document;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;

/// Most packets and events together that are drawn whole; of more, only a stretch around the worst packet is.
/// A record takes some 60 bytes in the trace, and the viewer holds all of it in memory.
const MOST_DRAWN: usize = 400_000;

/// Runs of packets of a stream, and incidents of `quaver watch`.
pub(crate) struct PacketRuns;

impl RunKind for PacketRuns {
    fn verbs(&self) -> &'static [&'static str] {
        &["chase", "sink", "watch"]
    }

    fn no_late(&self) -> Option<&'static str> {
        None
    }

    fn headline(&self) -> &'static [&'static str] {
        &["lateness.distribution.p99_ns"]
    }

    fn schema(&self) -> Option<&'static str> {
        Some(include_str!("../../../docs/schema/chase.json"))
    }

    fn analyze(&self, run: &RunDir, late: Option<Duration>) -> anyhow::Result<Box<dyn Analyzed>> {
        Ok(Box::new(Packets(digest::analyze(run, late)?)))
    }
}

struct Packets(ChaseDigest);

impl Analyzed for Packets {
    fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        self.0.store(run)
    }

    fn summary(&self) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(&self.0.analysis.summary)?)
    }

    fn material(&self) -> Material {
        let (packets, analysis) = (&self.0.run.packets, &self.0.analysis);
        let span = packets.app_ns.first().copied().zip(packets.app_ns.last().copied()).unwrap_or_default();
        let late = analysis.late.iter().flat_map(|late| analysis.pieces_of(late));
        let stages: Vec<(Layer, Layer)> =
            analysis.summary.stages.iter().map(|stage| (stage.from, stage.to)).collect();
        Material {
            samples: samples(packets, &stages),
            stated: lost_share(&analysis.summary.losses).into_iter().collect(),
            causes: cause_times(&analysis.summary.causes, late, span),
        }
    }

    fn document(&self, _: &RunDir) -> anyhow::Result<Document> {
        Ok(self.0.document())
    }

    fn write_perfetto(&self, _: &RunDir, _: &ExportArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
        perfetto(&self.0, out).map(|()| true)
    }

    fn write_late_csv(&self, out: &mut dyn Write) -> anyhow::Result<bool> {
        late_csv(&self.0, out).map(|()| true)
    }
}

/// Delays are those of packets that arrived. None where none did, or it is not known how many were sent.
fn lost_share(losses: &Losses) -> Option<Stated> {
    let sent = losses.sent.filter(|sent| *sent > 0 && losses.received > 0)?;
    Some(Stated::share("lost", "share of packets lost", lost(losses) as f64 / sent as f64))
}

/// The whole way from the first layer that says when a packet was due, what a receiver sees of it where none does, and each
/// stage of the way.
fn samples(packets: &PacketTable, stages: &[(Layer, Layer)]) -> Vec<Samples> {
    let rows = 0..packets.len();
    let between = |id: String, from: Layer, to: Layer| {
        let stage = |row| Some(packets.stamp_ns(row, to)? - packets.stamp_ns(row, from)?);
        Samples::durations(id, format!("{} to {}", from.name(), to.name()), rows.clone().filter_map(stage))
    };
    let mut delta_t = Vec::new();
    quaver_analysis::series::delta_t(packets, Layer::Application, &mut delta_t);
    let mut all = vec![Samples::durations("delta_t", "\u{394}T of the application", delta_t)];
    if packets.column(Layer::Schedule).is_some() {
        all.insert(0, between("delay".to_owned(), Layer::Schedule, Layer::Application));
    }
    all.extend(stages.iter().map(|(from, to)| between(format!("to-{}", to.name()), *from, *to)));
    all
}

/// The timeline, whole or (of a huge run) around the worst packet.
fn perfetto(digest: &ChaseDigest, out: &mut dyn Write) -> anyhow::Result<()> {
    let analysis = &digest.analysis;
    let windows: Vec<NamedWindow<'_>> = analysis
        .late
        .iter()
        .map(|late| NamedWindow {
            start_ns: late.start_ns,
            end_ns: late.end_ns,
            name: late.cause.map_or("unexplained", |cause| &analysis.summary.causes[cause as usize].name),
            seq: late.seq,
        })
        .collect();
    let between_ns = stretch(digest);
    if let Some((from, to)) = between_ns {
        quaver_instrument::tell!("large run: shows {} ms around the worst packet", (to - from) / 1_000_000);
    }
    let drawing = Drawing {
        events: &digest.run.events,
        names: &digest.run.names,
        packets: &digest.run.packets,
        windows: &windows,
        between_ns,
    };
    draw(&drawing, out)?;
    Ok(())
}

/// What is drawn of a run that is too large to be drawn whole: as much time around the worst packet as holds
/// [`MOST_DRAWN`] records at the run's mean density.
fn stretch(digest: &ChaseDigest) -> Option<(i64, i64)> {
    let packets = &digest.run.packets;
    let records = packets.len() + digest.run.events.len();
    if records <= MOST_DRAWN {
        return None;
    }
    let (first, last) = (*packets.app_ns.first()?, *packets.app_ns.last()?);
    let worst = digest.analysis.late.iter().max_by_key(|late| late.lateness_ns);
    let middle = worst.map_or(first, |late| late.end_ns);
    let half = ((last - first) as f64 * MOST_DRAWN as f64 / records as f64 / 2.0) as i64;
    Some((middle - half, middle + half))
}

/// One line for each piece of each late packet.
fn late_csv(digest: &ChaseDigest, out: &mut dyn Write) -> anyhow::Result<()> {
    let analysis = &digest.analysis;
    writeln!(out, "{COLUMNS}")?;
    for late in &analysis.late {
        for piece in analysis.pieces_of(late) {
            write_piece(out, late.seq, late.lateness_ns, piece, &analysis.summary.causes)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use quaver_analysis::summary::{CHASE_SCHEMA, ChaseSummary};
    use quaver_testbed::schema;

    #[test]
    fn the_committed_schema_is_that_of_the_type() {
        schema::committed::<ChaseSummary>("chase", CHASE_SCHEMA);
    }
}
