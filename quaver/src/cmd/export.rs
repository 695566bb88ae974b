//! `quaver export`: a run for other programs.

use super::analyze::{Holds, holds};
use quaver_analysis::attribution::{Part, Piece, Place};
use quaver_analysis::summary::CauseSummary;
use quaver_instrument::deliver::{deliver, say_written};
use quaver_instrument::digest;
use quaver_instrument::digest::Digest;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::runs::ExportArgs;
use quaver_noise::digest::NoiseDigest;
use quaver_store::perfetto::{Drawing, NamedWindow, draw};
use quaver_store::run::RunDir;
use std::io::{self, Write};

/// Most packets and events together that are drawn whole; of more, only a stretch around the worst packet is.
/// A record takes some 60 octets in the trace, and the viewer holds all of it in memory.
const MOST_DRAWN: usize = 400_000;

/// Converts.
pub fn run(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let run = RunDir::open(&args.run)?;
    if holds(&run)? == Holds::Path {
        return quaver_path::exports::run(args, &run);
    }
    if args.jitlat_log || args.packets_csv || args.gnuplot {
        let message = "logs of Jitlat, packets and gnuplot's data are of path measurements; use --perfetto or --late-csv";
        return Err(failure(ExitCode::Usage, message));
    }
    let name = if args.perfetto { "timeline.perfetto-trace" } else { "late.csv" };
    let target = args.output.clone().unwrap_or_else(|| run.path().join(name));
    match holds(&run)? {
        Holds::Packets => {
            let digest = digest::analyze(&run, args.late)?;
            deliver(
                &target,
                |out| if args.perfetto { perfetto(&digest, out) } else { late_csv(&digest, out) },
            )?;
        }
        Holds::Gaps if args.perfetto => {
            let digest = quaver_noise::digest::analyze(&run)?;
            deliver(&target, |out| digest.write_perfetto(out))?;
        }
        Holds::Gaps => {
            let digest = quaver_noise::digest::analyze(&run)?;
            deliver(&target, |out| gaps_csv(&digest, out))?;
        }
        Holds::Comparison => {
            let message = "a comparison is not exported: its samples.parquet and summary.json hold all of it";
            return Err(failure(ExitCode::Usage, message));
        }
        Holds::Cells => {
            let message = "a study is not exported: its cells/ and summary.json hold all of it";
            return Err(failure(ExitCode::Usage, message));
        }
        Holds::Sync if args.perfetto => {
            let digest = quaver_sync::digest::analyze(&run)?;
            deliver(&target, |out| digest.write_perfetto(out))?;
        }
        Holds::Sync => {
            let message = "of a sync run only --perfetto can be exported: its sync/*.parquet and summary.json hold the rest";
            return Err(failure(ExitCode::Usage, message));
        }
        Holds::Simulation if args.perfetto => {
            let digest = quaver_sim_program::digest::analyze(&run)?;
            deliver(&target, |out| digest.write_perfetto(out))?;
        }
        Holds::Simulation => {
            let message = "of a simulated run only --perfetto can be exported: its intervals.parquet and summary.json hold the rest";
            return Err(failure(ExitCode::Usage, message));
        }
        Holds::Path => unreachable!("paths were seen to above"),
    }
    say_written(&target);
    Ok(ExitCode::Done)
}

/// The timeline, whole or (of a huge run) around the worst packet.
fn perfetto(digest: &Digest, out: &mut dyn Write) -> anyhow::Result<()> {
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
        eprintln!("the run is large: drawn are {} ms around its worst packet", (to - from) / 1_000_000);
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
fn stretch(digest: &Digest) -> Option<(i64, i64)> {
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

/// Columns of the exported pieces.
const COLUMNS: &str = "seq,lateness_ns,start_ns,end_ns,cpu,source,name,part,place";

/// One line for each piece of each late packet.
fn late_csv(digest: &Digest, out: &mut dyn Write) -> anyhow::Result<()> {
    let analysis = &digest.analysis;
    writeln!(out, "{COLUMNS}")?;
    for late in &analysis.late {
        for piece in analysis.pieces_of(late) {
            write_piece(out, late.seq, late.lateness_ns, piece, &analysis.summary.causes)?;
        }
    }
    Ok(())
}

/// One line for each piece of each gap of a noise run, in the columns of [`late_csv`]: the number is that of the
/// loop's turn, the lateness the length of the gap.
fn gaps_csv(digest: &NoiseDigest, out: &mut dyn Write) -> anyhow::Result<()> {
    let (gaps, analysis) = (&digest.run.gaps, &digest.analysis);
    writeln!(out, "{COLUMNS}")?;
    for gap in 0..gaps.index.len() {
        let pieces = analysis.first_piece[gap] as usize..analysis.first_piece[gap + 1] as usize;
        for piece in &analysis.pieces[pieces] {
            let length_ns = gaps.after_ns[gap] - gaps.before_ns[gap];
            write_piece(out, gaps.index[gap], length_ns, piece, &analysis.summary.causes)?;
        }
    }
    Ok(())
}

fn write_piece(
    out: &mut dyn Write,
    number: u64,
    lateness_ns: i64,
    piece: &Piece,
    causes: &[CauseSummary],
) -> io::Result<()> {
    let cause = piece.cause.map(|cause| &causes[cause as usize]);
    writeln!(
        out,
        "{number},{lateness_ns},{},{},{},{},{},{},{}",
        piece.start_ns,
        piece.end_ns,
        piece.cpu,
        csv_field(cause.map_or("", |cause| &cause.source)),
        csv_field(cause.map_or("", |cause| &cause.name)),
        part_name(piece.part),
        place_name(piece.place),
    )
}

/// A field of RFC 4180: quoted where it holds what would end it.
fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn part_name(part: Part) -> &'static str {
    match part {
        Part::Body => "body",
        Part::EntryExit => "entry-exit",
        Part::CatchUp => "catch-up",
        Part::Unexplained => "unexplained",
    }
}

fn place_name(place: Place) -> &'static str {
    match place {
        Place::Source => "source",
        Place::Stack => "stack",
        Place::Receiver => "receiver",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_separators_are_quoted() {
        assert_eq!(csv_field("thread a (fifo 50)"), "thread a (fifo 50)");
        assert_eq!(csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
