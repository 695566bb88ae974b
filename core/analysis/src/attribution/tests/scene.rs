//! A small stream on a small machine, in which a test stops the receiver for a known time.
//!
//! Packets leave each 10 µs: source 100 ns after the schedule, in the socket after 1500 ns, read after 2000 ns.
//! The receiver is thread 7 on CPU 1, the source is thread 6 on CPU 0. Waiting packets are read each 300 ns.

use crate::attribution::{AttributionOptions, Certainty, PacketAnalysis, Part, analyze_packets};
use crate::model::{Actor, Layer, LayerColumn, PacketRun, PacketTable};
use crate::summary::CauseSummary;
use quaver_abi::record::{EventKind, EventRecord, OffCpu, Vector};

pub(super) const PERIOD_NS: i64 = 10_000;
pub(super) const PACKETS: i64 = 200;
pub(super) const START_NS: i64 = 1_000_000;
pub(super) const SERVICE_NS: i64 = 300;
pub(super) const RECEIVER: u32 = 7;
pub(super) const SOURCE: u32 = 6;

/// When packet `number` is read if nothing stops it.
pub(super) fn reading(number: i64) -> i64 {
    START_NS + number * PERIOD_NS + 2_000
}

/// End of the recording.
pub(super) fn end() -> i64 {
    reading(PACKETS) + 1_000_000
}

/// Packets that CPU 0 put into the socket and CPU 1 read, in order.
pub(super) fn table(app_ns: Vec<i64>, layers: Vec<LayerColumn>) -> PacketTable {
    PacketTable {
        seq: (0..app_ns.len() as u64).collect(),
        app_cpu: vec![1; app_ns.len()],
        stack_cpu: vec![0; app_ns.len()],
        app_ns,
        layers,
    }
}

/// The undisturbed run with a stop of the receiver's reading in `stops` (from, until; sorted).
pub(super) fn run(stops: &[(i64, i64)]) -> PacketRun {
    let mut app_ns: Vec<i64> = Vec::new();
    for number in 0..PACKETS {
        let mut at = reading(number);
        if let Some(last) = app_ns.last() {
            at = at.max(last + SERVICE_NS);
        }
        for &(from, until) in stops {
            if (from..until).contains(&at) {
                at = until + SERVICE_NS;
            }
        }
        app_ns.push(at);
    }
    let column = |layer, after_schedule: i64| LayerColumn {
        layer,
        before_app_ns: app_ns
            .iter()
            .zip(0..)
            .map(|(app, number)| app - (reading(number) - 2_000 + after_schedule))
            .collect(),
    };
    let layers = vec![column(Layer::Schedule, 0), column(Layer::Source, 100), column(Layer::Enqueued, 1_500)];
    let actor = |thread, cpu| Actor { threads: vec![thread], cpu: Some(cpu), ..Actor::default() };
    PacketRun {
        period_ns: Some(PERIOD_NS as f64),
        packets: table(app_ns, layers),
        receiver: actor(RECEIVER, 1),
        source: Some(actor(SOURCE, 0)),
        ..PacketRun::default()
    }
}

pub(super) fn event(kind: EventKind, cpu: u16, from: i64, until: i64, id: u32, aux: u64) -> EventRecord {
    EventRecord { start_ns: from as u64, end_ns: until as u64, aux, id, cpu, kind: kind as u8, detail: 0 }
}

pub(super) fn thread(id: u32, priority: u64, cpu: u16, from: i64, until: i64, left: OffCpu) -> EventRecord {
    EventRecord { detail: left as u8, ..event(EventKind::Thread, cpu, from, until, id, priority) }
}

pub(super) fn vector(which: Vector, cpu: u16, from: i64, until: i64) -> EventRecord {
    event(EventKind::Vector, cpu, from, until, which as u32, 0)
}

/// The receiver runs on CPU 1 all the time, but for `stops`, from which it comes back where it was.
pub(super) fn receiver_runs(priority: u64, stops: &[(i64, i64, OffCpu)]) -> Vec<EventRecord> {
    let mut from = START_NS - 500_000;
    let mut runs = Vec::new();
    for &(left, back, reason) in stops {
        runs.push(thread(RECEIVER, priority, 1, from, left, reason));
        from = back;
    }
    runs.push(thread(RECEIVER, priority, 1, from, end(), OffCpu::Unknown));
    runs
}

pub(super) fn analyze(run: &PacketRun) -> PacketAnalysis {
    let analysis = analyze_packets(run, &AttributionOptions::default());
    check(&analysis);
    analysis
}

/// What must hold for every analysis: windows disjoint, pieces cover them exactly, sums agree.
pub(super) fn check(analysis: &PacketAnalysis) {
    let mut reached = i64::MIN;
    let mut totals = vec![[0i64; 3]; analysis.summary.causes.len()];
    let mut inferred = vec![0i64; totals.len()];
    let (mut unexplained, mut all) = (0, 0);
    for late in &analysis.late {
        assert!(late.start_ns >= reached && late.end_ns >= late.start_ns, "{late:?}");
        reached = late.end_ns;
        let mut cursor = late.start_ns;
        for piece in analysis.pieces_of(late) {
            assert_eq!(piece.start_ns, cursor, "{piece:?}");
            assert!(piece.end_ns > piece.start_ns);
            cursor = piece.end_ns;
            let time = piece.end_ns - piece.start_ns;
            assert_eq!(piece.certainty == Certainty::Unknown, piece.cause.is_none(), "{piece:?}");
            match (piece.cause, piece.part) {
                (None, part) => {
                    assert_eq!(part, Part::Unexplained);
                    unexplained += time;
                }
                (Some(cause), part) => {
                    totals[cause as usize][part as usize] += time;
                    inferred[cause as usize] += i64::from(piece.certainty == Certainty::Inferred) * time;
                }
            }
        }
        assert_eq!(cursor, late.end_ns);
        all += late.end_ns - late.start_ns;
    }
    let summary = &analysis.summary;
    assert_eq!(summary.unexplained.time_ns, unexplained);
    assert_eq!(summary.lateness.time_ns, all);
    for ((cause, [body, edges, catch_up]), inferred) in summary.causes.iter().zip(totals).zip(inferred) {
        assert_eq!(cause.inferred_in_all_ns(), inferred, "{cause:?}");
        assert_eq!(cause.time_ns, body + edges + catch_up, "{cause:?}");
        assert_eq!((cause.entry_exit_ns, cause.catch_up_ns), (edges, catch_up), "{cause:?}");
        assert!(crate::catalogue::source(&cause.source).is_some(), "{cause:?}");
        assert!(cause.worst_ns <= cause.time_ns);
    }
    let led: u64 = summary.causes.iter().map(|cause| cause.packets).sum();
    assert_eq!(led + summary.unexplained.packets, summary.lateness.packets);
    assert!(summary.causes.windows(2).all(|pair| pair[0].time_ns >= pair[1].time_ns));
}

/// Source, name, time, entry and exit, catching up, packets.
pub(super) fn row(cause: &CauseSummary) -> (&str, &str, i64, i64, i64, u64) {
    let CauseSummary { source, name, time_ns, entry_exit_ns, catch_up_ns, packets, .. } = cause;
    (source, name, *time_ns, *entry_exit_ns, *catch_up_ns, *packets)
}

pub(super) fn rows(analysis: &PacketAnalysis) -> Vec<(&str, &str, i64, i64, i64, u64)> {
    analysis.summary.causes.iter().map(row).collect()
}
