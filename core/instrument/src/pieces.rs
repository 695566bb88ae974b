//! Late time, piece by piece, as comma-separated values (RFC 4180).

use quaver_analysis::attribution::Piece;
use quaver_analysis::model::NO_CPU;
use quaver_analysis::summary::CauseSummary;
use std::io::{self, Write};

/// The first line.
pub const COLUMNS: &str = "seq,lateness_ns,start_ns,end_ns,cpu,source,name,part,place,certainty";

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
        "{number},{lateness_ns},{},{},{},{},{},{},{},{}",
        piece.start_ns,
        piece.end_ns,
        Some(piece.cpu).filter(|cpu| *cpu != NO_CPU).map(|cpu| cpu.to_string()).unwrap_or_default(),
        csv_field(cause.map_or("", |cause| &cause.source)),
        csv_field(cause.map_or("", |cause| &cause.name)),
        piece.part.name(),
        piece.place.name(),
        piece.certainty.name(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_separators_are_quoted() {
        assert_eq!(csv_field("thread a (fifo 50)"), "thread a (fifo 50)");
        assert_eq!(csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
