//! What RTP headers say survives the way from the raw segment through Parquet.

mod recording;

use quaver_abi::record::*;
use quaver_abi::wire::rtp::RtpHeader;
use quaver_arrivals::rtp::{RtpFields, RtpHeaderFields};
use quaver_store::convert::{convert_raw, join_segments};
use quaver_store::load::load_packet_run;
use quaver_store::manifest::{AnalysisFacts, Manifest, Stream, StreamPayload, Window};
use quaver_store::run::RunDir;
use recording::*;
use serde_json::Value;

fn facts(payload: StreamPayload) -> AnalysisFacts {
    let destination = "127.0.0.1:5004".to_owned();
    let stream = Stream { destination, source: None, profile: None, payload, payload_bytes: None };
    AnalysisFacts { streams: vec![stream], ..AnalysisFacts::default() }
}

/// RTP packet `n` of `ssrc` as our receiver saw it.
fn rtp(n: u64, ssrc: u32) -> PacketRecord {
    let mut record = PacketRecord {
        key: n & 0xffff,
        app_cycles: cycles(app_ns(n)),
        kernel_realtime_ns: EPOCH_NS + app_ns(n) - 20_000,
        payload_bytes: 172,
        ..PacketRecord::default()
    };
    let header = RtpHeader::new(127, n.is_multiple_of(7), n as u16, n as u32 * 160, ssrc);
    record.set_rtp(&header, (!n.is_multiple_of(5)).then(|| ((n << 40) | (u64::MAX / 2 + n)).to_be_bytes()));
    record
}

fn fields(n: u64, ssrc: u32) -> Option<RtpFields> {
    let header = RtpHeaderFields {
        marker: n.is_multiple_of(7),
        payload_type: 127,
        ssrc: Some(ssrc),
        head: (!n.is_multiple_of(5)).then(|| ((n << 40) | (u64::MAX / 2 + n)).to_be_bytes()),
    };
    Some(RtpFields { timestamp: n as u32 * 160, payload_bytes: 172, header: Some(header) })
}

fn recorded(parent: &tempfile::TempDir, packets: &[PacketRecord], facts: &AnalysisFacts) -> RunDir {
    let run = RunDir::create(parent.path(), "sink").unwrap();
    let mut manifest = Manifest::begin("1", "sink", Value::Null, Value::Null, EPOCH_NS);
    manifest.analysis = Some(facts.clone());
    run.write_manifest(&manifest).unwrap();
    write_segment(&run.anchors_segment(), &anchors(), 3);
    write_segment(&run.packets_segment(), packets, 9);
    run
}

#[test]
fn headers_come_back_from_the_table_as_from_the_segment() {
    let parent = tempfile::tempdir().unwrap();
    let packets: Vec<_> = (65_000..67_000).map(|n| rtp(n, 5)).collect();
    let window = Some(Window { start_ns: app_ns(65_100), end_ns: app_ns(66_900) });
    let facts = AnalysisFacts { window, ..facts(StreamPayload::Rtp) };
    let run = recorded(&parent, &packets, &facts);
    let raw = load_packet_run(&run).unwrap();
    let expected: Vec<_> = (65_100..66_900).map(|n| fields(n, 5)).collect();
    // Conversion of cycles may move the first and the last packet by a nanosecond over the edge of the window.
    let shift = raw.media.iter().position(|row| *row == expected[1]).unwrap();
    assert!(shift <= 2 && raw.media.len().abs_diff(expected.len()) <= 1);
    assert_eq!(raw.media[shift..shift + 1_700], expected[1..1_701]);
    assert_eq!(raw.media.len(), raw.run.packets.len());
    convert_raw(&run, &facts).unwrap();
    run.remove_raw().unwrap();
    let stored = load_packet_run(&run).unwrap();
    assert_eq!((stored.media, stored.run.packets), (raw.media, raw.run.packets));
}

#[test]
fn each_source_of_rtp_has_its_own_numbers() {
    let parent = tempfile::tempdir().unwrap();
    let facts = facts(StreamPayload::Rtp);
    let packets: Vec<_> = (65_500..65_600).flat_map(|n| [rtp(n, 5), rtp(n + 30_000, 6)]).collect();
    let joined = join_segments(&recorded(&parent, &packets, &facts), &facts).unwrap();
    for (row, pair) in joined.packets.seq.windows(3).enumerate() {
        assert_eq!(pair[2], pair[0] + 1, "row {row}");
    }
}

#[test]
fn old_records_have_a_timestamp_and_no_more() {
    let parent = tempfile::tempdir().unwrap();
    let old = |n: u64| PacketRecord {
        key: n,
        app_cycles: cycles(app_ns(n)),
        media_timestamp: n as u32,
        payload_bytes: 172,
        flags: packet_flags::RTP,
        ..PacketRecord::default()
    };
    let facts = facts(StreamPayload::Rtp);
    let run = recorded(&parent, &(0..50).map(old).collect::<Vec<_>>(), &facts);
    convert_raw(&run, &facts).unwrap();
    let expected = (0..50).map(|timestamp| Some(RtpFields { timestamp, payload_bytes: 172, header: None }));
    assert_eq!(load_packet_run(&run).unwrap().media, expected.collect::<Vec<_>>());
}

#[test]
fn what_is_not_rtp_has_no_rows() {
    let parent = tempfile::tempdir().unwrap();
    let facts = facts(StreamPayload::Ours { offset: 0 });
    let run = recorded(&parent, &(0..50).map(packet).collect::<Vec<_>>(), &facts);
    write_segment(&run.stamps_segment(), &(0..50).map(stamp).collect::<Vec<_>>(), 9);
    convert_raw(&run, &facts).unwrap();
    assert_eq!(load_packet_run(&run).unwrap().media, []);
}
