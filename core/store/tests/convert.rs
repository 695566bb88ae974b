//! Raw segments to tables: every packet is joined or counted.

mod recording;

use quaver_abi::record::*;
use quaver_analysis::model::{Layer, MISSING, NO_CPU, Names, PacketTable};
use quaver_store::convert::{JoinReport, convert_raw, join_packets};
use quaver_store::error::StoreError;
use quaver_store::load::load_packet_run;
use quaver_store::manifest::{AnalysisFacts, Manifest, Stream, StreamPayload};
use quaver_store::run::RunDir;
use recording::*;
use serde_json::Value;

fn facts(payload: StreamPayload) -> AnalysisFacts {
    let destination = "127.0.0.1:5004".to_owned();
    let stream = Stream { destination, source: None, profile: None, payload, payload_bytes: None };
    AnalysisFacts { streams: vec![stream], source_on_this_host: true, ..AnalysisFacts::default() }
}

fn new_run(parent: &tempfile::TempDir) -> RunDir {
    let run = RunDir::create(parent.path(), "chase").unwrap();
    write_segment(&run.anchors_segment(), &anchors(), 3);
    run
}

fn join(
    packets: Option<&[PacketRecord]>,
    stamps: &[StampRecord],
    payload: StreamPayload,
) -> (PacketTable, JoinReport) {
    let parent = tempfile::tempdir().unwrap();
    let run = new_run(&parent);
    if let Some(packets) = packets {
        write_segment(&run.packets_segment(), packets, 100);
    }
    write_segment(&run.stamps_segment(), stamps, 100);
    join_packets(&run, &facts(payload)).unwrap()
}

#[test]
fn our_packets_are_joined_by_number() {
    let packets: Vec<_> = (0..1000).filter(|n| n % 100 != 7).map(packet).collect();
    let mut stamps: Vec<_> = (0..1000).filter(|n| n % 50 != 3).map(stamp).collect();
    stamps.iter_mut().filter(|s| s.key % 100 == 7).for_each(|s| s.flags |= stamp_flags::DROPPED);
    stamps.swap(10, 40);
    let (table, report) = join(Some(&packets), &stamps, StreamPayload::Ours { offset: 0 });
    assert_eq!(report.packets, 990);
    assert_eq!(report.packets_without_stamp, 20);
    assert_eq!((report.stamps, report.stamps_dropped, report.stamps_unjoined), (980, 10, 0));
    for (row, n) in table.seq.iter().enumerate() {
        // Cycles are whole, so an instant comes back to within one.
        assert!((table.app_ns[row] - app_ns(*n)).abs() <= 1);
        assert_eq!(table.stamp_ns(row, Layer::Schedule), Some(packet(*n).deadline_ns));
        assert_eq!(table.stamp_ns(row, Layer::KernelStamp), Some(app_ns(*n) - 20_000));
        let stamped = n % 50 != 3;
        assert_eq!(table.stamp_ns(row, Layer::Ready), stamped.then(|| app_ns(*n) - 9_000));
        assert_eq!(table.stack_cpu[row], if stamped { 0 } else { NO_CPU });
    }
    assert!(table.column(Layer::Interrupt).is_none(), "no packet was stamped there");
}

#[test]
fn copies_are_joined_in_order_and_never_to_the_past() {
    let mut packets: Vec<_> = (0..10).map(packet).collect();
    packets.push(PacketRecord { key: 4, ..packet(30) });
    packets.push(PacketRecord { key: 4, ..packet(31) });
    let mut stamps: Vec<_> = (0..10).map(stamp).collect();
    stamps[4].key = 99; // the stamp of the first copy is missing
    stamps.push(StampRecord { key: 4, ..stamp(30) });
    stamps.push(StampRecord { key: 4, ..stamp(31) });
    stamps.push(StampRecord { key: 4, ..stamp(32) });
    let (table, report) = join(Some(&packets), &stamps, StreamPayload::Ours { offset: 0 });
    assert_eq!(report.stamps_unjoined, 2, "number 99 and the third copy");
    assert_eq!(table.stamp_ns(4, Layer::Ready), None);
    assert_eq!(table.stamp_ns(10, Layer::Ready), Some(app_ns(30) - 9_000));
    assert_eq!(table.stamp_ns(11, Layer::Ready), Some(app_ns(31) - 9_000));
}

#[test]
fn rtp_is_extended_over_wraps_on_both_sides() {
    let first = 65_000u64;
    let wrapped = |n: u64| (first + n) & 0xffff;
    let packets: Vec<_> = (0..140_000)
        .filter(|n| n % 1000 != 5)
        .map(|n| PacketRecord { key: wrapped(n), flags: packet_flags::RTP, ..packet(n) })
        .collect();
    // Tracing began before the receiver, and missed a stretch of more than one wrap.
    let stamps: Vec<_> = (0..140_000)
        .filter(|n| !(20_000..90_000).contains(n))
        .map(|n| StampRecord { key: wrapped(n), flags: stamp_flags::RTP, ..stamp(n) })
        .collect();
    let (table, report) = join(Some(&packets[300..]), &stamps, StreamPayload::Rtp);
    assert_eq!(table.seq.first().map(|s| s & 0xffff), Some(packets[300].key));
    for row in 0..table.len() {
        let n = (table.seq[row] - table.seq[0]) + 301;
        let expected = (!(20_000..90_000).contains(&n)).then(|| app_ns(n) - 9_000);
        assert_eq!(table.stamp_ns(row, Layer::Ready), expected, "packet {n}");
    }
    assert_eq!(report.packets, 139_860 - 300);
    assert_eq!(report.packets_without_stamp, 70_000 - 70);
    assert_eq!(report.stamps_unjoined, 301 + (20 + 50 - 1), "before the receiver, and lost after the stamp");
}

#[test]
fn opaque_packets_are_joined_by_order_without_drops() {
    let opaque = |n| PacketRecord { key: KEY_UNKNOWN, flags: 0, ..packet(n) };
    let dropped = |n: u64| n % 100 == 50;
    let packets: Vec<_> = (0..5000).filter(|n| !dropped(*n)).map(opaque).collect();
    let stamps: Vec<_> = (0..5000)
        .filter(|n| n % 333 != 1) // the tracer missed these
        .map(|n| StampRecord {
            key: KEY_UNKNOWN,
            flags: if dropped(n) { stamp_flags::DROPPED } else { 0 },
            ..stamp(n)
        })
        .collect();
    let (table, report) = join(Some(&packets), &stamps, StreamPayload::Opaque);
    let sent: Vec<u64> = (0..5000).filter(|n| !dropped(*n)).collect();
    for (row, n) in sent.iter().enumerate() {
        let expected = (n % 333 != 1).then(|| app_ns(*n) - 9_000);
        assert_eq!(table.stamp_ns(row, Layer::Ready), expected, "packet {n}");
        assert_eq!(table.seq[row], *n, "a drop leaves a gap in the numbers");
    }
    assert_eq!((report.stamps_dropped, report.stamps_unjoined), (50, 0));
}

#[test]
fn a_process_that_is_only_observed() {
    let stamps: Vec<_> = (0..100u64)
        .map(|n| StampRecord {
            user_ns: if n == 50 { 0 } else { app_ns(n) as u64 },
            user_cpu: 1,
            flags: if n == 50 { stamp_flags::DROPPED } else { 0 },
            ..stamp(n)
        })
        .collect();
    let (table, report) = join(None, &stamps, StreamPayload::Opaque);
    assert_eq!((report.packets, report.stamps_dropped, report.packets_without_stamp), (99, 1, 0));
    assert_eq!(table.seq[50], 51);
    assert_eq!(table.app_ns[50], app_ns(51));
    assert_eq!(table.stamp_ns(50, Layer::Enqueued), Some(app_ns(51) - 10_000));
}

#[test]
fn what_an_observed_process_did_not_read_is_counted() {
    let read = |n: u64| StampRecord { user_ns: app_ns(n) as u64, user_cpu: 1, ..stamp(n) };
    let mut stamps: Vec<_> = (0..10).map(read).collect();
    stamps[2].user_ns = 0;
    stamps[3].user_ns = u64::MAX;
    stamps[4].flags = 0;
    stamps[5].flags = 0;
    stamps[6].flags |= stamp_flags::BATCHED;
    stamps[7].flags |= stamp_flags::BATCHED;
    stamps[8].flags |= stamp_flags::DROPPED;
    stamps[9].key = KEY_UNKNOWN;
    let (table, report) = join(None, &stamps, StreamPayload::Ours { offset: 0 });
    assert_eq!(table.seq, [0, 1, 6, 7]);
    assert_eq!((report.foreign_packets, report.stamps_unjoined, report.batched_packets), (3, 2, 2));
    assert_eq!((report.stamps, report.stamps_dropped, report.packets), (7, 1, 4));
}

/// Sequence numbers of packets without a number of their own, and the count of drops, by the socket's cumulative counts.
fn by_drop_counts(counts: &[u32]) -> (Vec<u64>, Option<u64>) {
    let opaque = |(n, receive_drops): (u64, &u32)| PacketRecord {
        key: KEY_UNKNOWN,
        flags: 0,
        receive_drops: *receive_drops,
        ..packet(n)
    };
    let packets: Vec<_> = (0..).zip(counts).map(opaque).collect();
    let (table, report) = join(Some(&packets), &[], StreamPayload::Opaque);
    (table.seq, report.socket_dropped)
}

#[test]
fn the_sockets_count_of_drops_starts_anywhere_wraps_and_never_goes_back() {
    assert_eq!(by_drop_counts(&[10, 10, 13, 14]), (vec![0, 1, 5, 7], Some(4)));
    assert_eq!(by_drop_counts(&[u32::MAX - 1, 2]), (vec![0, 5], Some(4)), "over the wrap");
    // A count that goes back is another socket's or damaged: four billion packets were not dropped.
    assert_eq!(by_drop_counts(&[10, 13, 5, 5, 7]), (vec![0, 4, 5, 6, 9], Some(5)));
    let half = u32::MAX / 2;
    assert_eq!(by_drop_counts(&[0, half]).1, Some(u64::from(half)), "the largest step forward");
    assert_eq!(by_drop_counts(&[0, half + 1]).1, Some(0), "the largest step back");
    assert_eq!(by_drop_counts(&[]).1, None);
}

#[test]
fn sends_are_counted_by_how_they_ended_and_date_packets_that_do_not_tell() {
    let send = |n: u64, failed: bool| SendRecord {
        seq: n,
        deadline_ns: START_NS + n as i64 * PERIOD_NS,
        before_cycles: cycles(app_ns(n) - 39_000),
        after_cycles: if failed { 0 } else { cycles(app_ns(n) - 38_000) },
    };
    let sends: Vec<_> = (0..100).map(|n| send(n, n % 10 == 3)).collect();
    // Of every third packet the payload carries no times.
    let packets: Vec<_> = (0..90)
        .map(|n| match n % 3 {
            0 => PacketRecord { sent_ns: 0, deadline_ns: 0, ..packet(n) },
            _ => packet(n),
        })
        .collect();
    let joined = |facts: &AnalysisFacts| {
        let parent = tempfile::tempdir().unwrap();
        let run = new_run(&parent);
        write_segment(&run.packets_segment(), &packets, 10);
        write_segment(&run.sends_segment(), &sends, 10);
        join_packets(&run, facts).unwrap()
    };
    let here = facts(StreamPayload::Ours { offset: 0 });
    let (table, report) = joined(&here);
    assert_eq!((report.sent, report.send_failed, report.packets), (Some(90), Some(10), 90));
    for row in 0..table.len() {
        let n = table.seq[row];
        let source = table.stamp_ns(row, Layer::Source);
        let schedule = table.stamp_ns(row, Layer::Schedule);
        match (n % 3, n % 10) {
            (0, 3) => assert_eq!((source, schedule), (None, None), "packet {n}: its send failed"),
            (0, _) => {
                assert!((source.unwrap() - (app_ns(n) - 39_000)).abs() <= 1, "packet {n}");
                assert_eq!(schedule, Some(START_NS + n as i64 * PERIOD_NS));
            }
            _ => assert_eq!(source, Some(packet(n).sent_ns), "packet {n}: by its payload"),
        }
    }
    // From another host they are counted, and date nothing.
    let elsewhere = AnalysisFacts { source_on_this_host: false, ..here };
    let (table, report) = joined(&elsewhere);
    assert_eq!((report.sent, report.send_failed), (Some(90), Some(10)));
    assert_eq!(table.stamp_ns(0, Layer::Source), None);
    let (_, without) = join(Some(&packets), &[], StreamPayload::Ours { offset: 0 });
    assert_eq!((without.sent, without.send_failed), (None, None));
}

#[test]
fn another_hosts_schedule_is_put_where_its_fastest_hundredth_had_no_way() {
    // Its clock is ten seconds ahead and does not drift; of 300 packets five were faster than the rest.
    let ahead_ns = 10_000_000_000;
    let faster = |n: u64| if n % 50 == 7 && n < 250 { 1_000 * (n as i64 / 50 + 1) } else { 0 };
    let at = |n: u64| START_NS + n as i64 * PERIOD_NS;
    let packets: Vec<_> = (0..300)
        .map(|n| PacketRecord {
            app_cycles: cycles(at(n) + 60_000 - faster(n)),
            deadline_ns: at(n) + ahead_ns,
            sent_ns: if n == 5 { 0 } else { at(n) + ahead_ns + 2_000 },
            kernel_realtime_ns: 0,
            ..packet(n)
        })
        .collect();
    let parent = tempfile::tempdir().unwrap();
    let run = new_run(&parent);
    write_segment(&run.packets_segment(), &packets, 1);
    let here = facts(StreamPayload::Ours { offset: 0 });
    let elsewhere = AnalysisFacts { source_on_this_host: false, ..here };
    let (table, _) = join_packets(&run, &elsewhere).unwrap();
    // The hundredth of 300 is the third fastest, 3 us before the rest.
    for (row, n) in table.seq.iter().enumerate() {
        let close = |layer, expected: i64| {
            let before = table.column(layer).unwrap().before_app_ns[row];
            assert!((before - expected).abs() <= 2, "{layer:?} of packet {n}: {before}");
        };
        close(Layer::Schedule, 3_000 - faster(*n));
        if *n == 5 {
            assert_eq!(table.stamp_ns(row, Layer::Source), None);
        } else {
            close(Layer::Source, 1_000 - faster(*n));
        }
    }
}

#[test]
fn what_a_packet_is_marked_as_is_counted() {
    let marked = |n: u64, flags: u16| PacketRecord { flags, ..packet(n) };
    use packet_flags::*;
    let packets = [
        marked(0, OURS),
        marked(1, OURS | TRUNCATED),
        marked(2, OURS | BATCHED),
        marked(3, OURS | BATCHED),
        marked(4, RTP),
        marked(5, 0),
        PacketRecord { key: KEY_UNKNOWN, ..packet(6) },
        marked(7, OURS | TRUNCATED | BATCHED),
    ];
    let (table, report) = join(Some(&packets), &[], StreamPayload::Ours { offset: 0 });
    assert_eq!(table.seq, [0, 1, 2, 3, 7]);
    assert_eq!(
        (report.packets, report.foreign_packets, report.truncated_packets, report.batched_packets),
        (5, 3, 2, 3)
    );
    assert_eq!(report.packets_without_stamp, 5);
}

#[test]
fn without_anchors_time_cannot_be_told() {
    let parent = tempfile::tempdir().unwrap();
    let run = RunDir::create(parent.path(), "chase").unwrap();
    write_segment(&run.packets_segment(), &[packet(0)], 0);
    let error = join_packets(&run, &facts(StreamPayload::Ours { offset: 0 })).unwrap_err();
    assert!(matches!(error, StoreError::NoAnchors { .. }), "{error}");
}

fn event(kind: EventKind, cpu: u16, start_ns: u64, end_ns: u64, id: u32) -> EventRecord {
    EventRecord { start_ns, end_ns, aux: u64::from(id) << 40, id, cpu, kind: kind as u8, detail: 1 }
}

#[test]
fn parquet_and_raw_segments_give_the_same_run() {
    let parent = tempfile::tempdir().unwrap();
    let run = new_run(&parent);
    let mut manifest = Manifest::begin("0.1.0", "chase", Value::Null, Value::Null, EPOCH_NS);
    let facts = facts(StreamPayload::Ours { offset: 0 });
    manifest.analysis = Some(facts.clone());
    run.write_manifest(&manifest).unwrap();
    let packets: Vec<_> = (0..3000).map(packet).collect();
    let stamps: Vec<_> = (0..2900).map(stamp).collect();
    write_segment(&run.packets_segment(), &packets, 9);
    write_segment(&run.stamps_segment(), &stamps, 9);
    let mut events: Vec<_> = (0..500u64)
        .map(|k| event(EventKind::Irq, (k % 2) as u16, u64::MAX / 2 - k, u64::MAX / 2 + k, k as u32))
        .collect();
    // Of two CPUs, whose records come one after the other; the clock of names has gone round in between.
    for (name, at) in
        [(b"quaver-sink\0\0\0\0\0", 3_u64), (b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0", u64::from(u32::MAX))]
    {
        let half = |from: usize| u64::from_ne_bytes(name[from..from + 8].try_into().unwrap());
        let named = event(EventKind::TaskName, 0, half(0), half(8), 77);
        events.push(EventRecord { aux: at << 32 | 76, ..named });
    }
    write_segment(&run.events_segment(), &events, 9);

    let raw = load_packet_run(&run).unwrap();
    assert_eq!(raw.run.names.task.get(&77).map(String::as_str), Some("quaver-sink"));
    assert_eq!(raw.run.names.process.get(&77), Some(&76));
    let report = convert_raw(&run, &facts).unwrap();
    assert_eq!(raw.joined.unwrap(), report);
    assert!(run.remove_raw().unwrap() > 0);
    let stored = load_packet_run(&run).unwrap();
    assert_eq!(stored.run.packets, raw.run.packets);
    assert_eq!(stored.run.events, raw.run.events);
    assert_eq!(stored.run.names, raw.run.names);
    assert!(stored.run.packets.column(Layer::Ready).unwrap().before_app_ns.contains(&MISSING));
    assert_eq!(stored.run.names.irq, Names::default().irq);
    assert!(!run.path().join("events.parquet.part").exists());
}
