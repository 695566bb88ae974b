//! The receiver's ordinary time for each packet: whose it is behind a stop, and when it is a cause by itself.

use super::own::body;
use super::scene::{RECEIVER, SOURCE, START_NS, analyze, event, table, thread};
use crate::attribution::PacketAnalysis;
use crate::model::{Actor, EdgeCost, Layer, LayerColumn, PacketRun};
use quaver_abi::record::{EventKind, EventRecord, OffCpu};

/// Packets each 100 µs.
const SPACING: i64 = 100_000;
const COUNT: i64 = 4_000;
const USUAL: i64 = 40_000;
/// Two page faults of each reading, that far apart, end this long before the packet is read.
const FAULT: i64 = 3_000;
const BEFORE: i64 = 5_000;

fn arrival(number: i64) -> i64 {
    START_NS + number * SPACING
}

/// A receiver of others that takes `service` for each packet, and is interrupted from `stop.0` to `stop.1` while it is idle.
fn serving(service: impl Fn(i64) -> i64, faults: bool, stop: (i64, i64)) -> PacketRun {
    let mut app_ns: Vec<i64> = Vec::new();
    let mut events = Vec::new();
    for number in 0..COUNT {
        let mut begins = arrival(number).max(app_ns.last().copied().unwrap_or(i64::MIN));
        if (stop.0..stop.1).contains(&begins) {
            begins = stop.1;
        }
        let read = begins + service(number);
        if faults {
            events.extend([2, 1].map(|before| fault(read - BEFORE - before * FAULT)));
        }
        app_ns.push(read);
    }
    let before = || app_ns.iter().zip(0..).map(|(app, number)| app - arrival(number)).collect();
    let layers =
        [Layer::Schedule, Layer::Enqueued].map(|layer| LayerColumn { layer, before_app_ns: before() });
    let end = app_ns[app_ns.len() - 1] + 1_000_000;
    events.push(thread(RECEIVER, 120, 1, START_NS - 500_000, end, OffCpu::Unknown));
    if stop.0 < stop.1 {
        events.push(event(EventKind::Irq, 1, stop.0, stop.1, 41, 0));
    }
    let mut run = PacketRun {
        period_ns: Some(SPACING as f64),
        packets: table(app_ns, layers.into()),
        receiver: Actor { threads: vec![RECEIVER], cpu: Some(1), foreign: true, ..Actor::default() },
        source: Some(Actor { threads: vec![SOURCE], cpu: Some(0), ..Actor::default() }),
        events,
        ..PacketRun::default()
    };
    run.circumstances.edge_cost = Some(EdgeCost { entry_ns: 0, exit_ns: 0, samples: 12 });
    run
}

fn fault(at: i64) -> EventRecord {
    event(EventKind::PageFault, 1, at, at, RECEIVER, 0x7000)
}

fn time(analysis: &PacketAnalysis, source: &str) -> i64 {
    analysis.summary.causes.iter().filter(|cause| cause.source == source).map(|cause| cause.time_ns).sum()
}

/// An interrupt of 2 ms that begins before packet 100 arrives.
const STOP: (i64, i64) = (START_NS + 100 * SPACING - 60_000, START_NS + 100 * SPACING + 1_940_000);

#[test]
fn the_reading_behind_a_stop_is_the_stops_with_its_usual_page_faults() {
    for faults in [false, true] {
        let analysis = analyze(&serving(|_| USUAL, faults, STOP));
        let late_ns = analysis.summary.lateness.time_ns;
        assert!(late_ns > 3_000_000, "{late_ns}");
        assert_eq!(time(&analysis, "dev-irq"), late_ns, "faults {faults}: {:?}", analysis.summary.causes);
    }
}

#[test]
fn page_faults_beyond_the_usual_ones_are_a_cause() {
    let mut run = serving(|number| if number == 100 { USUAL + 600_000 } else { USUAL }, true, (0, 0));
    // 200 in a row, before those of that reading.
    let from = arrival(100) + 2_000;
    run.events.extend((0..200).map(|number| fault(from + number * FAULT)));
    let analysis = analyze(&run);
    let late_ns = analysis.summary.lateness.time_ns;
    let [faults] = &analysis.summary.causes[..] else { panic!("{:?}", analysis.summary.causes) };
    assert_eq!((faults.source.as_str(), faults.time_ns), ("faults", late_ns));
    // The window begins where the packet would have been read, 40 µs into the row. The rest of its own reading is pushed.
    let usual = 2 * FAULT;
    assert!(body(faults) >= 600_000 - USUAL - usual, "{faults:?}");
}

#[test]
fn a_receiver_slower_than_its_stream_is_the_cause_whatever_came_first() {
    let slow = |number: i64| if (100..300).contains(&number) { 3 * SPACING / 2 } else { USUAL };
    let without = analyze(&serving(slow, false, (0, 0)));
    let with = analyze(&serving(slow, false, STOP));
    let (own, all) = (time(&without, "own-code"), without.summary.lateness.time_ns);
    assert_eq!(own, all, "{:?}", without.summary.causes);
    let own = time(&with, "own-code");
    assert!(own * 100 >= all * 95, "{own} of {all}: {:?}", with.summary.causes);
    let added = with.summary.lateness.time_ns - all;
    assert!(time(&with, "dev-irq") <= added + all / 20, "{added}: {:?}", with.summary.causes);
}

#[test]
fn a_backlog_that_grew_little_by_little_is_not_that_of_a_single_longer_stop() {
    // 200 packets leave 10 ms to be caught up with. An interrupt of 500 µs, longer than any of them took, comes when half is.
    let slow = |number: i64| if (100..300).contains(&number) { 3 * SPACING / 2 } else { USUAL };
    let from = arrival(300) + 10_000_000;
    let mut run = serving(slow, false, (0, 0));
    let stop = 500_000;
    for (number, read) in (0i64..).zip(&mut run.packets.app_ns).filter(|(_, read)| **read >= from) {
        // Until the queue is empty.
        if *read - arrival(number) > USUAL {
            *read += stop;
        }
    }
    let column: Vec<i64> =
        (0i64..).zip(&run.packets.app_ns).map(|(number, read)| read - arrival(number)).collect();
    run.packets.layers.iter_mut().for_each(|layer| layer.before_app_ns.clone_from(&column));
    run.events.push(event(EventKind::Irq, 1, from, from + stop, 41, 0));
    let analysis = analyze(&run);
    let [own, interrupt] = &analysis.summary.causes[..] else { panic!("{:?}", analysis.summary.causes) };
    assert_eq!((own.source.as_str(), interrupt.source.as_str()), ("own-code", "dev-irq"));
    assert!((stop..stop + USUAL).contains(&interrupt.time_ns), "{interrupt:?}");
}
