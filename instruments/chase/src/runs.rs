//! Stored runs of `quaver chase` and `quaver sink`.

use crate::digest::{self, ChaseDigest};
use quaver_instrument::deliver::{deliver, say_written};
use quaver_instrument::pieces::{COLUMNS, write_piece};
use quaver_instrument::registry::{Analyzed, Exporter, RunKind, not_exported};
use quaver_instrument::runs::ExportArgs;
use quaver_store::perfetto::{Drawing, NamedWindow, draw};
use quaver_store::run::RunDir;
use serde_json::Value;
use std::io::Write;
use std::time::Duration;

/// Most packets and events together that are drawn whole; of more, only a stretch around the worst packet is.
/// A record takes some 60 bytes in the trace, and the viewer holds all of it in memory.
const MOST_DRAWN: usize = 400_000;

/// Runs of packets of a stream.
pub(crate) struct PacketRuns;

impl RunKind for PacketRuns {
    fn verbs(&self) -> &'static [&'static str] {
        &["chase", "sink"]
    }

    fn no_late(&self) -> Option<&'static str> {
        None
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

    fn page(&self, run: &RunDir) -> String {
        self.0.page(run)
    }

    fn write_html(&self, _: &RunDir, out: &mut dyn Write) -> anyhow::Result<()> {
        self.0.write_html(out)
    }

    fn export(&self, run: &RunDir, asked: &ExportArgs) -> anyhow::Result<()> {
        let (name, write): (_, Exporter<ChaseDigest>) = match asked {
            _ if asked.perfetto => ("timeline.perfetto-trace", perfetto),
            _ if asked.late_csv => ("late.csv", late_csv),
            _ => return Err(not_exported("a run of packets is exported by --perfetto or --late-csv")),
        };
        let target = asked.output.clone().unwrap_or_else(|| run.path().join(name));
        deliver(&target, |out| write(&self.0, out))?;
        say_written(&target);
        Ok(())
    }
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
        eprintln!("large run: shows {} ms around the worst packet", (to - from) / 1_000_000);
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
