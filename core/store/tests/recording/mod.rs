//! A recorded run, made by hand: what the hot paths would have written.

use quaver_abi::record::*;
use quaver_abi::segment::{Record, SegmentHeader};
use std::path::Path;
use zerocopy::IntoBytes;

/// CLOCK_REALTIME - CLOCK_MONOTONIC of the recording.
pub(crate) const EPOCH_NS: i64 = 1_790_000_000_000_000_000;
/// Cycles per microsecond of the recording.
pub(crate) const CYCLES_PER_US: u64 = 2_600;
/// Period of the stream, nanoseconds.
pub(crate) const PERIOD_NS: i64 = 7_410;
/// First scheduled instant.
pub(crate) const START_NS: i64 = 1_000_000_000;

/// Writes a segment with room for more records than it holds.
pub(crate) fn write_segment<R: Record>(path: &Path, records: &[R], spare: usize) {
    let header = SegmentHeader::new::<R>((records.len() + spare) as u64, EPOCH_NS);
    let mut octets = header.as_bytes().to_vec();
    octets.extend_from_slice(records.as_bytes());
    octets.resize(octets.len() + spare * size_of::<R>(), 0);
    std::fs::write(path, octets).unwrap();
}

/// Cycle count of an instant.
pub(crate) fn cycles(monotonic_ns: i64) -> u64 {
    monotonic_ns as u64 * CYCLES_PER_US / 1_000
}

/// An anchor each 100 ms.
pub(crate) fn anchors() -> Vec<AnchorRecord> {
    (0..40i64)
        .map(|k| {
            let monotonic_ns = START_NS - 1_000_000 + k * 100_000_000;
            AnchorRecord {
                cycles: cycles(monotonic_ns),
                monotonic_ns,
                realtime_ns: monotonic_ns + EPOCH_NS,
                half_bracket_ns: 20,
                ..AnchorRecord::default()
            }
        })
        .collect()
}

/// When packet `n` reached the application: 40 us after its schedule, and a little more for some.
pub(crate) fn app_ns(n: u64) -> i64 {
    START_NS + n as i64 * PERIOD_NS + 40_000 + (n as i64 * 7919) % 1_000
}

/// Packet `n` of our own stream as the receiver saw it.
pub(crate) fn packet(n: u64) -> PacketRecord {
    PacketRecord {
        key: n,
        app_cycles: cycles(app_ns(n)),
        kernel_realtime_ns: EPOCH_NS + app_ns(n) - 20_000,
        sent_ns: app_ns(n) - 39_500,
        deadline_ns: START_NS + n as i64 * PERIOD_NS,
        payload_bytes: 1_400,
        flags: packet_flags::OURS,
        cpu: 1,
        ..PacketRecord::default()
    }
}

/// Packet `n` of our own stream as the kernel saw it.
pub(crate) fn stamp(n: u64) -> StampRecord {
    let app_ns = app_ns(n) as u64;
    StampRecord {
        arrival: n + 1,
        key: n,
        softirq_ns: app_ns - 25_000,
        receive_ns: app_ns - 20_100,
        enqueued_ns: app_ns - 10_000,
        ready_ns: app_ns - 9_000,
        flags: stamp_flags::OURS,
        cpu: 0,
        ..StampRecord::default()
    }
}
