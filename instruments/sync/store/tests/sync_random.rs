//! Recordings of synchronisation: read back as they were made, changed at random, cut short, and of anything.

mod sync_checks;

use proptest::prelude::*;
use quaver_abi::sync::{SyncKind, SyncRecord};
use quaver_sync_store::{PackedReader, SegmentReader, SyncMoment, SyncSegmentError, facts_path, pack, trim};
use std::path::Path;
use sync_checks::{made, moments, pages, recording};

fn record(cycles: u64, kind: SyncKind, object: u64) -> SyncRecord {
    SyncRecord { cycles, kind: kind as u8, object, call_site: object / 3, cpu: 3, ..SyncRecord::default() }
}

fn threads() -> impl Strategy<Value = Vec<Vec<SyncRecord>>> {
    let one =
        (1u64..1 << 40, 1u8..30, any::<u64>(), any::<u32>()).prop_map(|(cycles, kind, object, detail)| {
            SyncRecord { cycles, kind, object, detail, ..SyncRecord::default() }
        });
    let thread = prop::collection::vec(one, 0..400).prop_map(|mut records| {
        records.sort_by_key(|record| record.cycles);
        records
    });
    prop::collection::vec(thread, 0..5)
}

#[test]
fn pages_that_a_fuzzer_makes_are_a_recording() {
    let chunk = made(&[vec![record(7, SyncKind::LockEntry, 3)]]).split_off(4096);
    // Zeros at a page's end need not be there.
    let end = chunk.iter().rposition(|octet| *octet != 0).unwrap() + 1;
    let short = &chunk[..end];
    assert!(pages(short) && pages(&[short, b"\n----\n", short].concat()) && pages(b""));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Against the plain way: all records together, sorted by time.
    #[test]
    fn merging_is_sorting(threads in threads()) {
        let octets = made(&threads);
        prop_assert!(recording(&octets));
        let mut expected: Vec<u64> = threads.iter().flatten().map(|record| record.cycles).collect();
        expected.sort_unstable();
        let got: Vec<u64> = moments(&octets).iter().map(|moment| moment.record.cycles).collect();
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn changed_recordings_are_read_or_refused(
        threads in threads(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        heads in prop::collection::vec((0usize..200, any::<u8>()), 0..6),
        kept in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut octets = made(&threads);
        for (at, value) in changes {
            let at = at.index(octets.len());
            octets[at] = value;
        }
        let pages = octets.len() / 4096;
        for (at, value) in heads {
            let page = usize::from(value) % pages;
            octets[page * 4096 + at] = value;
        }
        if let Some(kept) = kept {
            octets.truncate(kept.index(octets.len()));
        }
        recording(&octets);
    }

    #[test]
    fn anything_is_refused(octets in prop::collection::vec(any::<u8>(), 0..9000)) {
        prop_assert!(!recording(&octets));
    }
}

#[test]
fn late_records_are_put_in_order() {
    // The entry of an unlock is written after what a handler wrote meanwhile, at the edge of a chunk too.
    let cycles: Vec<u64> =
        (0..600).map(|n| if n % 2 == 0 { 1000 + 10 * n + 15 } else { 1000 + 10 * n }).collect();
    let records = cycles.iter().map(|cycles| record(*cycles, SyncKind::UnlockEntry, 8)).collect();
    let octets = made(&[records]);
    assert!(recording(&octets));
    assert_eq!(moments(&octets).len(), 600);
}

#[test]
fn a_slot_that_was_never_filled_is_left_out() {
    let mut records: Vec<SyncRecord> = (1..50).map(|n| record(n, SyncKind::SignalEntry, 8)).collect();
    records[20] = SyncRecord::default();
    assert_eq!(moments(&made(&[records])).len(), 48);
}

#[test]
fn creations_name_their_children() {
    let create = |kind, number| SyncRecord { detail: number, ..record(50, kind, 0) };
    let parent =
        vec![create(SyncKind::Create, 1), create(SyncKind::CreateExit, 1), create(SyncKind::Create, 9)];
    let all = moments(&made(&[parent, vec![record(60, SyncKind::ThreadStart, 7)]]));
    let details: Vec<(u32, u64)> = all.iter().map(|m| (m.record.detail, m.record.object)).collect();
    assert_eq!(details, [(101, 0), (101, 7), (0, 0), (0, 7)]);
}

#[test]
fn foreign_and_cut_files_are_refused_with_a_sentence() {
    let good = made(&[]);
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut octets = good.clone();
        change(&mut octets);
        SegmentReader::from_octets(octets, Path::new("x.seg")).unwrap_err().to_string()
    };
    assert_eq!(
        refused(&|octets| octets[8] = 9),
        "read x.seg: recording of version 9; this program reads version 1; use the version of quaver that recorded it"
    );
    assert!(refused(&|octets| octets.truncate(4095)).contains("shorter than the header"));
    assert!(refused(&|octets| octets[0] = b'X').contains("not a recording of synchronisation"));
    assert!(refused(&|octets| octets[12..16].reverse()).contains("other byte order"));
    assert!(refused(&|octets| octets[16] = 31).contains("records of 31 bytes"));
    assert!(refused(&|octets| octets[64..96].fill(0)).contains("fewer than two clock anchors"));
    let gone = SegmentReader::open(Path::new("/nonexistent/x.seg")).unwrap_err();
    assert!(matches!(&gone, SyncSegmentError::Io { operation: "open", .. }), "{gone}");
}

/// What two threads that hand a turn to and fro leave behind.
fn hand_over(turns: u64) -> Vec<Vec<SyncRecord>> {
    let kinds = [SyncKind::WaitExit, SyncKind::SignalEntry, SyncKind::SignalExit, SyncKind::WaitEntry];
    let thread = |number: u64| {
        let mut now = 10_000 + number * 4_000;
        let mut state = number + 1;
        let mut records = Vec::new();
        for turn in 0..turns {
            for (at, kind) in kinds.iter().enumerate() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let object = 0x7f00_1234_5600 + 48 * (turn % 8);
                let site = 0x5555_0000 + 16 * at as u64;
                let cpu = (state >> 60) as u16 & 1;
                let detail = if at == 0 || at == 3 { object as u32 + 64 } else { 0 };
                records.push(SyncRecord { call_site: site, cpu, detail, ..record(now, *kind, object) });
                now += 200 + (state >> 50) % 2000 + if at == 2 { 3000 } else { 0 };
            }
        }
        records
    };
    vec![thread(0), thread(1)]
}

#[test]
fn packed_recordings_hold_the_same_in_a_few_octets() {
    let directory = tempfile::tempdir().unwrap();
    let segment = directory.path().join("sync-1-2-0.seg");
    std::fs::write(&segment, made(&hand_over(40_000))).unwrap();
    let segment = SegmentReader::open(&segment).unwrap();
    let table = directory.path().join("sync-1-2-0.parquet");
    let packing = pack(&segment, &table).unwrap();
    assert_eq!(packing.events, 320_000);
    assert!(packing.octets <= 8 * packing.events, "{} bytes an event", packing.octets / packing.events);
    let packed = PackedReader::open(&table).unwrap();
    assert_eq!(
        (packed.events(), packed.facts(), packed.threads()),
        (320_000, segment.facts(), segment.threads())
    );
    let mut expected = segment.merge();
    packed
        .for_each(|moment| {
            let mut original: SyncMoment = expected.next().unwrap().unwrap();
            original.record.cycles = 0;
            assert_eq!(*moment, original);
        })
        .unwrap();
    assert!(expected.next().is_none());
    std::fs::remove_file(facts_path(&table)).unwrap();
    assert!(PackedReader::open(&table).is_err());
}

#[test]
fn trimming_cuts_what_was_never_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sync-1-2-0.seg");
    let octets = made(&hand_over(100));
    std::fs::write(&path, &octets).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 33).unwrap();
    assert_eq!(SegmentReader::open(&path).unwrap().merge().count(), 800);
    trim(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), octets);
}

#[test]
fn facts_of_image_and_threads_are_those_of_its_headers() {
    use quaver_abi::sync::{SyncRingHeader, SyncSegmentHeader, ring_flags};
    use quaver_sync_store::{SyncCounts, SyncEnding, SyncFacts, SyncThread};
    use zerocopy::FromBytes;
    let mut octets = made(&[vec![record(50, SyncKind::Anchor, 1)], vec![]]);
    let header = SyncSegmentHeader::mut_from_bytes(&mut octets[..4096]).unwrap();
    (header.pid, header.parent, header.exec_number, header.start_ticks) = (11, 12, 13, 14);
    (header.creations, header.threads_lost, header.ended, header.created_realtime_ns) = (15, 16, 2, 17);
    (header.first_cycles, header.first_monotonic_ns) = (100, 100);
    (header.last_cycles, header.last_monotonic_ns) = (1 << 30, 1 << 30);
    let text = b"/bin/prog\0prog\0-x\0\0";
    (header.exe_bytes, header.argv_bytes) = (9, 9);
    header.text[..text.len()].copy_from_slice(text);
    let ring_at = |number: usize| 4096 * (number + 1) + 64;
    let ring = SyncRingHeader::mut_from_bytes(&mut octets[ring_at(0)..ring_at(0) + 128]).unwrap();
    (ring.flags, ring.lost, ring.start_routine) = (ring_flags::INITIAL | ring_flags::FOUND, 4, 5);
    ring.name[..4].copy_from_slice(b"main");
    let ring = SyncRingHeader::mut_from_bytes(&mut octets[ring_at(1)..ring_at(1) + 128]).unwrap();
    (ring.flags, ring.lost, ring.creator, ring.end_cycles) = (ring_flags::ENDED, 6, 100, (1 << 30) + 7);
    (ring.free_locks, ring.free_unlocks, ring.busy_tries) = (1, 2, 3);
    (ring.free_semaphore_waits, ring.quiet_posts, ring.free_read_locks) = (4, 5, 6);
    ring.name = *b"sixteen-octets-x";
    let segment = SegmentReader::from_octets(octets, Path::new("memory")).unwrap();
    let facts = SyncFacts {
        pid: 11,
        parent: 12,
        start_ticks: 14,
        exec_number: 13,
        exe: "/bin/prog".to_owned(),
        argv: vec!["prog".to_owned(), "-x".to_owned(), String::new()],
        created_realtime_ns: 17,
        first_ns: 100,
        last_ns: (1 << 30) + 7,
        ended: SyncEnding::ImmediateExit,
        creations: 15,
        threads_lost: 16,
        records_lost: 10,
    };
    assert_eq!(*segment.facts(), facts);
    let mut counts = SyncCounts {
        free_locks: 1,
        free_unlocks: 2,
        busy_tries: 3,
        free_semaphore_waits: 4,
        quiet_posts: 5,
        free_read_locks: 6,
    };
    let first = SyncThread {
        tid: 100,
        initial: true,
        found_in_a_call: true,
        start_ns: 1,
        start_routine: 5,
        name: "main".to_owned(),
        lost: 4,
        ..SyncThread::default()
    };
    let second = SyncThread {
        tid: 101,
        creator: 100,
        creation: 1,
        ended: true,
        pthread: 7,
        start_ns: 1,
        end_ns: Some((1 << 30) + 7),
        name: "sixteen-octets-x".to_owned(),
        lost: 6,
        counts,
        ..SyncThread::default()
    };
    assert_eq!(segment.threads(), [first, second]);
    assert!(!segment.is_silent().unwrap(), "calls were counted");
    counts += counts;
    counts += SyncCounts { quiet_posts: u64::MAX, ..SyncCounts::default() };
    let [locks, unlocks, tries] = [counts.free_locks, counts.free_unlocks, counts.busy_tries];
    let [waits, posts, reads] = [counts.free_semaphore_waits, counts.quiet_posts, counts.free_read_locks];
    assert_eq!([locks, unlocks, tries, waits, posts, reads], [2, 4, 6, 8, u64::MAX, 12]);
}

#[test]
fn an_image_without_calls_is_silent() {
    let silent = |kinds: &[SyncKind]| {
        let records = (2..).zip(kinds).map(|(cycles, kind)| record(cycles, *kind, 1)).collect();
        SegmentReader::from_octets(made(&[records]), Path::new("memory")).unwrap().is_silent().unwrap()
    };
    assert!(silent(&[]) && silent(&[SyncKind::ThreadStart, SyncKind::Anchor, SyncKind::ThreadExit]));
    assert!(!silent(&[SyncKind::ThreadStart, SyncKind::Create, SyncKind::ThreadExit]));
}

#[test]
fn another_clockwork_is_taken_where_it_covers_the_recording() {
    use quaver_abi::record::AnchorRecord;
    let octets = made(&[vec![record(1_000, SyncKind::LockEntry, 1)]]);
    let with = |anchors: &[(u64, i64)]| {
        let mut segment = SegmentReader::from_octets(octets.clone(), Path::new("memory")).unwrap();
        let anchor = |(cycles, monotonic_ns): &(u64, i64)| AnchorRecord {
            cycles: *cycles,
            monotonic_ns: *monotonic_ns,
            ..AnchorRecord::default()
        };
        segment.use_anchors(&anchors.iter().map(anchor).collect::<Vec<_>>());
        segment.merge().next().unwrap().unwrap().at_ns
    };
    let end = 1 << 40;
    assert_eq!(with(&[]), 1_000);
    assert_eq!(with(&[(1, 501), (end, end as i64 + 500)]), 1_500, "from its first to its last");
    assert_eq!(with(&[(2, 502), (end, end as i64 + 500)]), 1_000, "begins too late");
    assert_eq!(with(&[(1, 501), (end - 1, end as i64 + 499)]), 1_000, "ends too early");
    assert_eq!(with(&[(0, 500), (end + 1, 500)]), 1_000, "does not advance");
}
