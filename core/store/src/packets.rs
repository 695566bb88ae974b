//! `samples.parquet`: packets, in the order in which the application received them.
//!
//! Every table has all columns; a layer that stamped nothing, and a packet that is not RTP, has nulls there. Tables of earlier
//! programs lack such columns.

use crate::columns::TableReader;
use crate::error::StoreError;
use crate::media::{self, MediaRows};
use crate::table::{Column, Layout, Table};
use quaver_analysis::model::{Layer, LayerColumn, MISSING, NO_CPU, PacketTable, distance_ns};
use quaver_arrivals::rtp::RtpFields;
use std::path::Path;

/// Packets.
pub static TABLE: Table = Table {
    name: "packets",
    file: "samples.parquet",
    rows: "A row per packet, in the order in which the application received them. Stamps are of CLOCK_MONOTONIC. \
           That of a layer is null in all rows if the layer stamped nothing. The columns from `rtp_timestamp` on \
           are null unless our receiver found the packet to be RTP.",
    columns: &[
        Column::required("seq", Layout::U64, "sequence number, extended over wraps"),
        Column::required("app_ns", Layout::I64, "stamp of the application"),
        Column::required("app_cpu", Layout::Few(16), "CPU of that stamp"),
        Column::optional("stack_cpu", Layout::Few(16), "CPU that ran the network stack"),
        Column::optional("schedule_ns", Layout::I64, "instant in the schedule"),
        Column::optional("source_ns", Layout::I64, "stamp of the source"),
        Column::optional("interrupt_ns", Layout::I64, "stamp of the device's interrupt"),
        Column::optional("softirq_ns", Layout::I64, "stamp of the softirq"),
        Column::optional("receive_ns", Layout::I64, "stamp where the network stack takes the packet"),
        Column::optional("kernel_stamp_ns", Layout::I64, "the kernel's own stamp"),
        Column::optional("enqueued_ns", Layout::I64, "stamp at the socket's queue"),
        Column::optional("ready_ns", Layout::I64, "stamp where the socket became readable"),
        Column::optional(media::TIMESTAMP, Layout::U32, "RTP timestamp"),
        Column::optional(media::PAYLOAD_BYTES, Layout::Few(32), "length of the UDP payload"),
        Column::optional(media::MARKER, Layout::Few(8), "1: the marker is set"),
        Column::optional(media::PAYLOAD_TYPE, Layout::Few(8), "payload type of RTP, 0 to 127"),
        Column::optional(
            media::SSRC,
            Layout::Few(32),
            "synchronization source; null if our own header follows that of RTP",
        ),
        Column::optional(
            media::HEAD,
            Layout::I64,
            "the 8 bytes after an RTP header of 12 bytes, the first of them highest: HBRMT, or RFC 4175 with its first line",
        ),
    ],
    span: Some(["schedule_ns", "app_ns"]),
};

/// Name of a layer's column. Hyphens would need quoting in SQL.
pub fn column_name(layer: Layer) -> String {
    match layer {
        Layer::Application => "app_ns".to_owned(),
        other => format!("{}_ns", other.name().replace('-', "_")),
    }
}

/// Layers with a column of their own, in its order.
fn layers() -> impl Iterator<Item = Layer> {
    Layer::ALL.into_iter().filter(|layer| *layer != Layer::Application)
}

/// Earlier versions stored any larger distance as this one, in either direction.
const CLAMPED_NS: u64 = i32::MAX as u64;

/// Distance from a stored stamp to the application's; one that an earlier version clamped is not known.
fn stored_before_app(app_ns: i64, layer_ns: i64) -> i64 {
    Some(distance_ns(app_ns, layer_ns)).filter(|ns| ns.unsigned_abs() != CLAMPED_NS).unwrap_or(MISSING)
}

/// Writes `samples.parquet`.
///
/// # Errors
/// The file cannot be written, or the table's columns differ in length.
pub fn write_packets(path: &Path, packets: &PacketTable) -> Result<(), StoreError> {
    write_packets_and_media(path, packets, &[])
}

/// Writes `samples.parquet` with what RTP headers say, where there are any.
///
/// # Errors
/// As [`write_packets`].
pub fn write_packets_and_media(
    path: &Path,
    packets: &PacketTable,
    media: &[Option<RtpFields>],
) -> Result<(), StoreError> {
    let rows = packets.len();
    let equal =
        [packets.app_ns.len(), packets.app_cpu.len(), packets.stack_cpu.len()].iter().all(|l| *l == rows)
            && packets.layers.iter().all(|column| column.before_app_ns.len() == rows)
            && (media.is_empty() || media.len() == rows);
    if !equal {
        let reason = "the columns to be written differ in length".to_owned();
        return Err(StoreError::Shape { path: path.to_owned(), reason });
    }
    let mut table = TABLE.create(path)?.of_run();
    table.rows(rows, |group, range| {
        group.u64(packets.seq[range.clone()].iter().copied())?;
        group.i64(packets.app_ns[range.clone()].iter().copied())?;
        group.u32(packets.app_cpu[range.clone()].iter().map(|cpu| u32::from(*cpu)))?;
        group.optional_u32(
            packets.stack_cpu[range.clone()].iter().map(|cpu| (*cpu != NO_CPU).then_some(u32::from(*cpu))),
        )?;
        for layer in layers() {
            let column = packets.layers.iter().find(|column| column.layer == layer);
            group.optional_i64(range.clone().map(|row| {
                let before_ns = column?.before_app_ns[row];
                (before_ns != MISSING).then(|| packets.app_ns[row].wrapping_sub(before_ns))
            }))?;
        }
        media::write_columns(group, media, range)
    })?;
    table.finish()
}

/// Stamps of layers, beside the application's, that a file of packets holds.
///
/// # Errors
/// As [`read_packets`].
pub fn stamps(path: &Path) -> Result<usize, StoreError> {
    let table = TableReader::open(path, TABLE.name)?;
    let mut stamps = 0;
    for column in layers().map(column_name).filter(|column| table.has_column(column)) {
        table.optional_i64(&column, |_, stamp| stamps += usize::from(stamp.is_some()))?;
    }
    Ok(stamps)
}

/// Reads `samples.parquet`.
///
/// # Errors
/// The file cannot be read, is of a later format, or is no table of packets.
pub fn read_packets(path: &Path) -> Result<PacketTable, StoreError> {
    read_packets_and_media(path).map(|(packets, _)| packets)
}

/// Reads `samples.parquet` with what RTP headers say.
///
/// # Errors
/// As [`read_packets`].
pub fn read_packets_and_media(path: &Path) -> Result<(PacketTable, MediaRows), StoreError> {
    let table = TableReader::open(path, TABLE.name)?;
    let mut packets = PacketTable {
        seq: table.reserved(),
        app_ns: table.reserved(),
        app_cpu: table.reserved(),
        stack_cpu: table.reserved(),
        layers: Vec::new(),
    };
    table.u64("seq", |_, seq| packets.seq.push(seq))?;
    table.i64("app_ns", |_, ns| packets.app_ns.push(ns))?;
    table.u32("app_cpu", |_, cpu| packets.app_cpu.push(cpu as u16))?;
    table.optional_u32("stack_cpu", |_, cpu| packets.stack_cpu.push(cpu.map_or(NO_CPU, |cpu| cpu as u16)))?;
    for layer in layers() {
        let name = column_name(layer);
        if table.has_column(&name) {
            let mut before_app_ns = table.reserved();
            table.optional_i64(&name, |row, ns| {
                before_app_ns.push(ns.map_or(MISSING, |ns| stored_before_app(packets.app_ns[row], ns)));
            })?;
            if before_app_ns.iter().any(|ns| *ns != MISSING) {
                packets.layers.push(LayerColumn { layer, before_app_ns });
            }
        }
    }
    let media = media::read_columns(&table)?;
    Ok((packets, media))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layers_stand_in_their_order() {
        let names = TABLE.columns.iter().map(|column| column.name.as_ref());
        assert!(names.skip(4).take(layers().count()).eq(layers().map(column_name)));
    }

    #[test]
    fn a_distant_stamp_is_exact_and_one_that_was_clamped_is_missing() {
        let limit = i64::from(i32::MAX);
        let before_app_ns = vec![5_000_000_000, -limit - 1, limit, -limit, limit + 1, MISSING, 0];
        let packets = PacketTable {
            seq: (0..7).collect(),
            app_ns: (0..7).map(|n| 9_000_000_000 + n).collect(),
            app_cpu: vec![1; 7],
            stack_cpu: vec![NO_CPU; 7],
            layers: vec![LayerColumn { layer: Layer::Ready, before_app_ns }],
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("samples.parquet");
        write_packets(&path, &packets).unwrap();
        let read = read_packets(&path).unwrap();
        let expected = [5_000_000_000, -limit - 1, MISSING, MISSING, limit + 1, MISSING, 0];
        assert_eq!(read.layers[0].before_app_ns, expected);
        assert_eq!(read.stamp_ns(0, Layer::Ready), Some(4_000_000_000));
    }
}
