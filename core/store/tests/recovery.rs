//! What a killed run left behind is read up to its last full record; what is no recording is an error, never a
//! panic.

mod recording;

use proptest::prelude::*;
use quaver_abi::record::*;
use quaver_abi::segment::{Record, SegmentError, SegmentHeader};
use quaver_analysis::model::{Layer, LayerColumn, MISSING, PacketTable};
use quaver_store::convert::convert_raw;
use quaver_store::convert::convert_raw_noise;
use quaver_store::error::StoreError;
use quaver_store::events::read_events;
use quaver_store::gaps::{read_gaps, read_raw_gaps};
use quaver_store::load::{load_noise_run, load_packet_run};
use quaver_store::manifest::{AnalysisFacts, Manifest, NoiseFacts, Stream, StreamPayload, Window};
use quaver_store::packets::{read_packets, write_packets};
use quaver_store::run::RunDir;
use quaver_store::segments::{read_all, read_if_any};
use recording::*;
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::path::Path;
use zerocopy::IntoBytes;

fn killed_run(parent: &Path) -> RunDir {
    let run = RunDir::create(parent, "chase").unwrap();
    let mut manifest = Manifest::begin("0.1.0", "chase", Value::Null, Value::Null, EPOCH_NS);
    let payload = StreamPayload::Ours { offset: 0 };
    let destination = "127.0.0.1:5004".to_owned();
    let stream = Stream { destination, source: None, profile: None, payload, payload_bytes: None };
    manifest.analysis = Some(AnalysisFacts { streams: vec![stream], ..AnalysisFacts::default() });
    run.write_manifest(&manifest).unwrap();
    write_segment(&run.anchors_segment(), &anchors(), 0);
    write_segment(&run.packets_segment(), &(0..500).map(packet).collect::<Vec<_>>(), 10_000);
    write_segment(&run.stamps_segment(), &(0..500).map(stamp).collect::<Vec<_>>(), 0);
    run
}

fn cut(path: &Path, octets_off: u64) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - octets_off).unwrap();
}

#[test]
fn a_killed_run_is_loaded_and_says_so() {
    let parent = tempfile::tempdir().unwrap();
    let run = killed_run(parent.path());
    cut(&run.stamps_segment(), 1); // the last stamp is cut in half
    fs::write(run.events_segment(), []).unwrap(); // killed before the header was written
    let loaded = load_packet_run(&RunDir::open(run.path()).unwrap()).unwrap();
    assert_eq!(loaded.run.packets.len(), 500);
    assert_eq!(loaded.joined.unwrap().packets_without_stamp, 1);
    assert!(loaded.run.events.is_empty());
    assert!(!loaded.manifest.complete);
    assert!(loaded.manifest.incomplete_reason().unwrap().contains("killed"));
}

#[test]
fn a_conversion_that_was_killed_starts_again() {
    let parent = tempfile::tempdir().unwrap();
    let run = killed_run(parent.path());
    fs::write(run.path().join("samples.parquet.part"), b"PAR1 half a file").unwrap();
    let facts = run.read_manifest().unwrap().analysis.unwrap();
    convert_raw(&run, &facts).unwrap();
    run.remove_raw().unwrap();
    assert_eq!(load_packet_run(&run).unwrap().run.packets.len(), 500);
}

#[test]
fn the_measured_window_leaves_warm_up_out() {
    let parent = tempfile::tempdir().unwrap();
    let run = killed_run(parent.path());
    let mut manifest = run.read_manifest().unwrap();
    let facts = manifest.analysis.as_mut().unwrap();
    facts.window = Some(Window { start_ns: app_ns(100) - 1_000, end_ns: app_ns(199) + 1_000 });
    let facts = facts.clone();
    run.write_manifest(&manifest).unwrap();
    let raw = load_packet_run(&run).unwrap().run.packets;
    assert_eq!((raw.seq.first(), raw.seq.last(), raw.len()), (Some(&100), Some(&199), 100));
    convert_raw(&run, &facts).unwrap();
    assert_eq!(load_packet_run(&run).unwrap().run.packets, raw);
    assert_eq!(read_packets(&run.samples()).unwrap().len(), 500, "the file keeps all");
}

#[test]
fn gaps_of_several_cpus() {
    let parent = tempfile::tempdir().unwrap();
    let run = RunDir::create(parent.path(), "noise").unwrap();
    let mut manifest = Manifest::begin("0.1.0", "noise", Value::Null, Value::Null, EPOCH_NS);
    manifest.noise = Some(NoiseFacts { threshold_ns: 1_000, ..NoiseFacts::default() });
    run.write_manifest(&manifest).unwrap();
    write_segment(&run.anchors_segment(), &anchors(), 0);
    for cpu in [3u16, 0] {
        let gap = |n: u64| GapRecord {
            index: n * 10,
            before_cycles: cycles(app_ns(n)),
            after_cycles: cycles(app_ns(n) + 5_000),
            cpu,
            ..GapRecord::default()
        };
        write_segment(&run.gaps_segment(cpu), &(0..50).map(gap).collect::<Vec<_>>(), 7);
    }
    let raw = read_raw_gaps(&run).unwrap();
    assert_eq!((raw.len(), raw.cpu[0], raw.cpu[99]), (100, 0, 3));
    assert!(raw.before_ns.iter().zip(&raw.after_ns).all(|(b, a)| (a - b - 5_000).abs() <= 1));
    convert_raw_noise(&run).unwrap();
    run.remove_raw().unwrap();
    let loaded = load_noise_run(&run).unwrap().run;
    assert_eq!((loaded.gaps, loaded.threshold_ns), (raw, 1_000));
}

#[test]
fn errors_tell_what_a_file_is() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("x.seg");
    assert!(matches!(read_all::<EventRecord>(&path), Err(StoreError::Io { .. })));
    assert!(read_if_any::<EventRecord>(&path).unwrap().is_empty());
    fs::write(&path, []).unwrap();
    assert!(matches!(read_all::<EventRecord>(&path), Err(StoreError::EmptySegment { .. })));
    assert!(read_if_any::<EventRecord>(&path).unwrap().is_empty());
    fs::write(&path, [7; 63]).unwrap();
    let too_short = |e: &StoreError| matches!(e, StoreError::Segment { source: SegmentError::TooShort, .. });
    assert!(too_short(&read_if_any::<EventRecord>(&path).unwrap_err()));
    write_segment(&path, &[packet(1)], 0);
    let error = read_all::<EventRecord>(&path).unwrap_err();
    assert!(
        error.to_string().ends_with("holds records of kind 1, 64 bytes each; no record of it can be used")
    );
    assert!(read_packets(&path).is_err() && error.is_bad_input());
    let other = parent.path().join("gaps.parquet");
    write_packets(&other, &Default::default()).unwrap();
    assert_eq!(
        read_gaps(&other).unwrap_err().to_string(),
        format!(
            "read {}: it is not a table of gaps; the file is damaged, or was not written by quaver",
            other.display()
        )
    );
}

fn segment_of<R: Record>(body: &[u8]) -> Vec<u8> {
    let mut octets = SegmentHeader::new::<R>(u64::MAX, 0).as_bytes().to_vec();
    octets.extend_from_slice(body);
    octets
}

/// A table of thirty packets; one byte of it is another.
fn read_damaged(at: usize, octet: u8) -> Result<PacketTable, StoreError> {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("samples.parquet");
    let before_app_ns = (0..30).map(|n| if n % 7 == 0 { MISSING } else { n * 13 % 11 }).collect();
    let table = PacketTable {
        seq: (0..30).collect(),
        app_ns: (0..30).map(|n| 1_000 + n * 7_410 + n * 7_919 % 100).collect(),
        app_cpu: vec![1; 30],
        stack_cpu: vec![0; 30],
        layers: vec![LayerColumn { layer: Layer::Receive, before_app_ns }],
    };
    write_packets(&path, &table).unwrap();
    let mut octets = fs::read(&path).unwrap();
    assert_eq!(octets.len(), 2_883, "another writer: look for bytes that make the library panic anew");
    octets[at] = octet;
    fs::write(&path, &octets).unwrap();
    read_packets(&path)
}

#[test]
fn a_table_over_which_the_library_panics_is_damaged() {
    for (at, octet, panic) in [
        (105, 2, "Decoder for dict should have been set"),
        (141, 18, "index out of bounds: the len is 2 but the index is 2"),
        #[cfg(debug_assertions)]
        (33, 0, "attempt to subtract with overflow"),
    ] {
        let error = read_damaged(at, octet).unwrap_err();
        let expected = format!("it cannot be decoded ({panic})");
        assert!(matches!(&error, StoreError::Shape { reason, .. } if *reason == expected), "{error}");
        assert!(error.is_bad_input());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_octets_are_no_segment(octets in proptest::collection::vec(any::<u8>(), 1..300)) {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("x.seg");
        fs::write(&path, &octets).unwrap();
        prop_assert!(read_all::<EventRecord>(&path).is_err());
        prop_assert!(read_packets(&path).is_err());
        prop_assert!(read_events(&path).is_err());
    }

    #[test]
    fn random_records_do_not_panic(
        anchors in proptest::collection::vec(any::<u8>(), 0..400),
        packets in proptest::collection::vec(any::<u8>(), 0..2_000),
        stamps in proptest::collection::vec(any::<u8>(), 0..2_000),
        sends in proptest::collection::vec(any::<u8>(), 0..400),
        events in proptest::collection::vec(any::<u8>(), 0..1_000),
        payload in prop_oneof![
            Just(StreamPayload::Ours { offset: 0 }), Just(StreamPayload::Rtp), Just(StreamPayload::Opaque)
        ],
    ) {
        let parent = tempfile::tempdir().unwrap();
        let run = killed_run(parent.path());
        let mut manifest = run.read_manifest().unwrap();
        let facts = manifest.analysis.as_mut().unwrap();
        facts.streams[0].payload = payload;
        facts.source_on_this_host = true;
        let facts = facts.clone();
        run.write_manifest(&manifest).unwrap();
        fs::write(run.anchors_segment(), segment_of::<AnchorRecord>(&anchors)).unwrap();
        fs::write(run.packets_segment(), segment_of::<PacketRecord>(&packets)).unwrap();
        fs::write(run.stamps_segment(), segment_of::<StampRecord>(&stamps)).unwrap();
        fs::write(run.sends_segment(), segment_of::<SendRecord>(&sends)).unwrap();
        fs::write(run.events_segment(), segment_of::<EventRecord>(&events)).unwrap();
        if let Ok(raw) = load_packet_run(&run) {
            convert_raw(&run, &facts).unwrap();
            let stored = load_packet_run(&run).unwrap();
            prop_assert_eq!(raw.run.packets, stored.run.packets);
            prop_assert_eq!(raw.run.events, stored.run.events);
            prop_assert_eq!(raw.run.names, stored.run.names);
        }
        fs::remove_file(run.packets_segment()).unwrap();
        let _ = fs::remove_file(run.samples());
        let observed = load_packet_run(&run).unwrap();
        prop_assert!(observed.run.packets.app_ns.is_sorted());
    }

    #[test]
    fn a_damaged_table_does_not_panic(at: u32, octet: u8) {
        let parent = tempfile::tempdir().unwrap();
        let run = killed_run(parent.path());
        convert_raw(&run, &run.read_manifest().unwrap().analysis.unwrap()).unwrap();
        let mut octets = fs::read(run.samples()).unwrap();
        let at = at as usize % octets.len();
        octets[at] = octet;
        fs::write(run.samples(), &octets).unwrap();
        let _ = read_packets(&run.samples());
    }
}
