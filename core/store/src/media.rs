//! What the RTP headers of packets say: from their records, and as columns of `samples.parquet`.

use crate::columns::{RowGroup, TableReader};
use crate::error::StoreError;
use parquet::errors::ParquetError;
use quaver_abi::record::{PacketRecord, packet_flags};
use quaver_arrivals::rtp::{RtpFields, RtpHeaderFields};
use std::ops::Range;

/// Row by row with the packets of a table; empty where not one is RTP.
pub type MediaRows = Vec<Option<RtpFields>>;

/// What a record says; none of a packet that is not RTP. Records of before markers were recorded have the timestamp
/// alone.
pub(crate) fn fields_of(packet: &PacketRecord) -> Option<RtpFields> {
    if packet.flags & packet_flags::RTP == 0 {
        return None;
    }
    let header = packet.payload_type().map(|payload_type| RtpHeaderFields {
        marker: packet.flags & packet_flags::MARKER != 0,
        payload_type,
        ssrc: packet.ssrc(),
        head: (packet.flags & packet_flags::MEDIA_HEAD != 0).then_some(packet.media_head),
    });
    Some(RtpFields { timestamp: packet.media_timestamp, payload_bytes: packet.payload_bytes, header })
}

pub(crate) const TIMESTAMP: &str = "rtp_timestamp";
pub(crate) const PAYLOAD_BYTES: &str = "payload_bytes";
pub(crate) const MARKER: &str = "rtp_marker";
pub(crate) const PAYLOAD_TYPE: &str = "rtp_payload_type";
pub(crate) const SSRC: &str = "rtp_ssrc";
pub(crate) const HEAD: &str = "rtp_head";

/// Writes the columns of these rows; nulls where `rows` is empty.
pub(crate) fn write_columns(
    group: &mut RowGroup<'_>,
    rows: &[Option<RtpFields>],
    range: Range<usize>,
) -> Result<(), ParquetError> {
    let fields = || range.clone().map(|row| rows.get(row).copied().flatten());
    let header = |row: Option<RtpFields>| row.and_then(|row| row.header);
    group.optional_u32(fields().map(|row| row.map(|row| row.timestamp)))?;
    group.optional_u32(fields().map(|row| row.map(|row| row.payload_bytes)))?;
    group.optional_u32(fields().map(|row| header(row).map(|header| u32::from(header.marker))))?;
    group.optional_u32(fields().map(|row| header(row).map(|header| u32::from(header.payload_type))))?;
    group.optional_u32(fields().map(|row| header(row)?.ssrc))?;
    group.optional_i64(fields().map(|row| header(row)?.head.map(i64::from_be_bytes)))
}

/// Reads the columns; no row where the table has none.
pub(crate) fn read_columns(table: &TableReader) -> Result<MediaRows, StoreError> {
    let mut rows: MediaRows = Vec::new();
    if !table.has_column(TIMESTAMP) {
        return Ok(rows);
    }
    table.optional_u32(TIMESTAMP, |_, timestamp| {
        rows.push(timestamp.map(|timestamp| RtpFields { timestamp, payload_bytes: 0, header: None }));
    })?;
    if rows.iter().all(Option::is_none) {
        return Ok(MediaRows::new());
    }
    table.optional_u32(PAYLOAD_BYTES, |row, octets| {
        if let Some(fields) = rows.get_mut(row).and_then(Option::as_mut) {
            fields.payload_bytes = octets.unwrap_or(0);
        }
    })?;
    table.optional_u32(PAYLOAD_TYPE, |row, payload_type| {
        if let (Some(fields), Some(payload_type)) = (rows.get_mut(row).and_then(Option::as_mut), payload_type)
        {
            let payload_type = payload_type as u8 & 0x7f;
            fields.header = Some(RtpHeaderFields { marker: false, payload_type, ssrc: None, head: None });
        }
    })?;
    fn header(rows: &mut MediaRows, row: usize) -> Option<&mut RtpHeaderFields> {
        rows.get_mut(row)?.as_mut()?.header.as_mut()
    }
    table.optional_u32(MARKER, |row, marker| {
        if let Some(header) = header(&mut rows, row) {
            header.marker = marker == Some(1);
        }
    })?;
    table.optional_u32(SSRC, |row, ssrc| {
        if let Some(header) = header(&mut rows, row) {
            header.ssrc = ssrc;
        }
    })?;
    table.optional_i64(HEAD, |row, head| {
        if let Some(header) = header(&mut rows, row) {
            header.head = head.map(i64::to_be_bytes);
        }
    })?;
    Ok(rows)
}
