//! Late time, piece by piece, as comma-separated values (RFC 4180).

use quaver_analysis::attribution::{PacketPosition, Part, Piece};
use quaver_analysis::summary::CauseSummary;
use std::io::{self, Write};

/// The first line.
pub const COLUMNS: &str = "seq,lateness_ns,start_ns,end_ns,cpu,source,name,part,place";

/// Writes a line. `number` and `lateness_ns` are those of the late packet, or of the gap, that the piece is part of.
///
/// # Errors
/// Those of `out`.
pub fn write_piece(
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

fn place_name(place: PacketPosition) -> &'static str {
    match place {
        PacketPosition::Source => "source",
        PacketPosition::Stack => "stack",
        PacketPosition::Receiver => "receiver",
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
