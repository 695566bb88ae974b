//! `late.parquet`: late packets, piece by piece. Sums over rows are those of the summary.

use crate::error::StoreError;
use crate::table::{Column, Layout, Table};
use parquet::data_type::ByteArray;
use quaver_analysis::attribution::{LatePacket, PacketAnalysis, Piece};
use quaver_analysis::model::NO_CPU;
use std::path::Path;

/// Late packets.
pub static TABLE: Table = Table {
    name: "late",
    file: "late.parquet",
    rows: "A row per piece of a late packet, in the order of reading. The pieces of a packet follow one another \
           in time and cover its late window exactly. Windows are disjoint.",
    columns: &[
        Column::required("seq", Layout::U64, "sequence number of the packet, as in `samples.parquet`"),
        Column::required("lateness_ns", Layout::I64, "lateness of the packet"),
        Column::required("start_ns", Layout::I64, "start of the piece, CLOCK_MONOTONIC"),
        Column::required("end_ns", Layout::I64, "end of the piece, CLOCK_MONOTONIC"),
        Column::optional("cpu", Layout::Few(16), "CPU whose events were searched"),
        Column::optional(
            "source",
            Layout::Text,
            "cause: its identifier in the catalogue; null if unexplained",
        ),
        Column::optional("name", Layout::Text, "local name of the cause; null if unexplained"),
        Column::required("part", Layout::Text, "`body`, `entry-exit`, `catch-up`, `unexplained`"),
        Column::required("place", Layout::Text, "place of the packet: `source`, `stack`, `receiver`"),
        Column::required("certainty", Layout::Text, "`certain`, `inferred`, `unknown`"),
    ],
    span: None,
};

/// Writes `late.parquet`.
///
/// # Errors
/// The file cannot be written.
pub fn write_late(path: &Path, analysis: &PacketAnalysis) -> Result<(), StoreError> {
    let rows: Vec<(&LatePacket, &Piece)> = analysis
        .late
        .iter()
        .flat_map(|late| analysis.pieces_of(late).iter().map(move |p| (late, p)))
        .collect();
    let text = |value: &str| ByteArray::from(value.as_bytes().to_vec());
    let causes: Vec<(ByteArray, ByteArray)> =
        analysis.summary.causes.iter().map(|cause| (text(&cause.source), text(&cause.name))).collect();
    let cause = |piece: &Piece| piece.cause.map(|cause| &causes[cause as usize]);
    let mut table = TABLE.create(path)?.of_run();
    table.rows(rows.len(), |group, range| {
        let rows = &rows[range];
        let pieces = || rows.iter().map(|(_, piece)| *piece);
        group.u64(rows.iter().map(|(late, _)| late.seq))?;
        group.i64(rows.iter().map(|(late, _)| late.lateness_ns))?;
        group.i64(pieces().map(|piece| piece.start_ns))?;
        group.i64(pieces().map(|piece| piece.end_ns))?;
        group.optional_u32(pieces().map(|piece| (piece.cpu != NO_CPU).then_some(u32::from(piece.cpu))))?;
        group.optional_text(pieces().map(|piece| cause(piece).map(|(source, _)| source.clone())))?;
        group.optional_text(pieces().map(|piece| cause(piece).map(|(_, name)| name.clone())))?;
        group.text(pieces().map(|piece| piece.part.name().into()))?;
        group.text(pieces().map(|piece| piece.place.name().into()))?;
        group.text(pieces().map(|piece| piece.certainty.name().into()))
    })?;
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::TableReader;
    use quaver_abi::record::{EventKind, EventRecord};
    use quaver_analysis::attribution::{AttributionOptions, analyze_packets};
    use quaver_analysis::model::{Actor, Layer, LayerColumn, Names, PacketRun, PacketTable};
    use std::collections::BTreeMap;

    /// A stream of 100 µs that is read 2 µs after its schedule. An interrupt of CPU 1 holds packet 40 up by 300 µs, and two
    /// packets queue behind it. Nothing recorded holds packet 70 up by 80 µs, and it is not known where that was read.
    fn held_up() -> PacketAnalysis {
        const PERIOD_NS: i64 = 100_000;
        let due = |number: i64| 1_000_000_000 + number * PERIOD_NS;
        let delay_ns = |number: i64| match number {
            40 => 302_000,
            41 => 202_500,
            42 => 103_000,
            70 => 82_000,
            _ => 2_000,
        };
        let irq = EventRecord {
            start_ns: due(40).cast_unsigned(),
            end_ns: (due(40) + 299_000).cast_unsigned(),
            id: 7,
            cpu: 1,
            kind: EventKind::Irq as u8,
            ..EventRecord::default()
        };
        let before_app_ns = (0..100).map(delay_ns).collect();
        analyze_packets(
            &PacketRun {
                period_ns: Some(PERIOD_NS as f64),
                packets: PacketTable {
                    seq: (0..100).collect(),
                    app_ns: (0..100).map(|number| due(number) + delay_ns(number)).collect(),
                    app_cpu: (0..100).map(|number| if number == 70 { NO_CPU } else { 1 }).collect(),
                    stack_cpu: vec![NO_CPU; 100],
                    layers: vec![LayerColumn { layer: Layer::Schedule, before_app_ns }],
                },
                events: vec![irq],
                names: Names { irq: [(7, "a \"card\", new".to_owned())].into(), ..Names::default() },
                receiver: Actor { threads: vec![9], cpu: Some(1), ..Actor::default() },
                ..PacketRun::default()
            },
            &AttributionOptions::default(),
        )
    }

    #[test]
    fn the_rows_add_up_to_the_summary() {
        let analysis = held_up();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("late.parquet");
        write_late(&path, &analysis).unwrap();
        let table = TableReader::open(&path, TABLE.name).unwrap();
        assert_eq!(table.rows(), analysis.pieces.len());
        let mut lengths = vec![0i64; table.rows()];
        table.i64("start_ns", |row, ns| lengths[row] -= ns).unwrap();
        table.i64("end_ns", |row, ns| lengths[row] += ns).unwrap();
        let texts = |column: &str| {
            let mut all: Vec<Option<String>> = Vec::new();
            let owned = |text: &[u8]| String::from_utf8(text.to_vec()).unwrap();
            table.optional_text(column, |_, text| all.push(text.map(owned))).unwrap();
            all
        };
        let (sources, names, certainties) = (texts("source"), texts("name"), texts("certainty"));
        let mut sums: BTreeMap<(Option<&str>, Option<&str>, &str), i64> = BTreeMap::new();
        for row in 0..table.rows() {
            let certainty = certainties[row].as_deref().unwrap();
            *sums.entry((sources[row].as_deref(), names[row].as_deref(), certainty)).or_default() +=
                lengths[row];
        }
        let summary = &analysis.summary;
        let mut expected: BTreeMap<_, _> = [((None, None, "unknown"), summary.unexplained.time_ns)].into();
        for cause in &summary.causes {
            let (source, name) = (Some(cause.source.as_str()), Some(cause.name.as_str()));
            let inferred_ns = cause.inferred_in_all_ns();
            expected.insert((source, name, "inferred"), inferred_ns);
            expected.insert((source, name, "certain"), cause.time_ns - inferred_ns);
        }
        expected.retain(|_, time_ns| *time_ns > 0);
        assert_eq!(sums, expected);
        assert_eq!(sums.values().sum::<i64>(), summary.lateness.time_ns);
        assert_eq!(names[0].as_deref(), Some("irq 7 a \"card\", new"));
        assert!(["certain", "inferred", "unknown"].into_iter().all(|c| sums.keys().any(|key| key.2 == c)));

        let (mut numbers, mut cpus) = (Vec::new(), Vec::new());
        table.u64("seq", |_, seq| numbers.push(seq)).unwrap();
        table.optional_u32("cpu", |_, cpu| cpus.push(cpu)).unwrap();
        assert_eq!((numbers.first(), numbers.last()), (Some(&40), Some(&70)));
        assert_eq!((cpus[0], cpus.last()), (Some(1), Some(&None)), "an unknown CPU is null");
    }

    #[test]
    fn a_run_without_late_packets_has_a_table_without_rows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("late.parquet");
        write_late(&path, &analyze_packets(&PacketRun::default(), &AttributionOptions::default())).unwrap();
        assert_eq!(TableReader::open(&path, TABLE.name).unwrap().rows(), 0);
    }
}
