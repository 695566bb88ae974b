//! Times the attribution of a large made-up run: `attribution-scale [PACKETS] [EVENTS]`, ten million each by
//! default, one packet in a hundred late. Prints seconds (by the clock, and on a CPU) and the peak of memory.

use quaver_abi::record::{EventKind, EventRecord, OffCpu, Vector};
use quaver_analysis::attribution::{AttributionOptions, analyze_packets};
use quaver_analysis::model::{Actor, Layer, LayerColumn, PacketRun, PacketTable};
use std::time::Instant;

const PERIOD_NS: i64 = 7_420;
const START_NS: i64 = 1_000_000_000;

fn packets(count: usize) -> PacketTable {
    let mut table = PacketTable::default();
    let mut before: [Vec<i64>; 6] = std::array::from_fn(|_| Vec::with_capacity(count));
    let mut state = 1u64;
    let mut reached = 0;
    for number in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let noise = (state >> 40) as i64 % 700;
        let schedule = START_NS + number as i64 * PERIOD_NS;
        // Each thousandth packet begins a stop of ten packets.
        let stop = if number % 1_000 == 500 { 80_000 } else { 0 };
        let app = (schedule + 3_000 + noise + stop).max(reached + 300);
        reached = app;
        table.seq.push(number as u64);
        table.app_ns.push(app);
        table.app_cpu.push(1);
        table.stack_cpu.push(0);
        for (column, way) in before.iter_mut().zip([0, 60, 900, 1_300, 1_900, 2_200]) {
            column.push(app - schedule - way - noise / 2 * i64::from(way > 0));
        }
    }
    let layers =
        [Layer::Schedule, Layer::Source, Layer::Softirq, Layer::Receive, Layer::Enqueued, Layer::Ready];
    table.layers = layers
        .into_iter()
        .zip(before)
        .map(|(layer, before_app_ns)| LayerColumn { layer, before_app_ns })
        .collect();
    table
}

fn events(count: usize, span_ns: i64) -> Vec<EventRecord> {
    let step = (span_ns / count as i64).max(8) as u64;
    let interval = |number: usize, kind: EventKind, id: u32| {
        let start_ns = START_NS as u64 + number as u64 * step;
        let cpu = (number / 4 % 2) as u16;
        EventRecord { start_ns, end_ns: start_ns + step / 2, aux: 120, id, cpu, kind: kind as u8, detail: 0 }
    };
    let mut events: Vec<EventRecord> = (0..count)
        .map(|number| match number % 4 {
            0 => interval(number, EventKind::Softirq, 3),
            1 => interval(number, EventKind::Vector, Vector::LocalTimer as u32),
            2 => interval(number, EventKind::Hrtimer, 0),
            _ => interval(number, EventKind::Thread, 8 + (number % 50) as u32),
        })
        .collect();
    let end_ns = START_NS as u64 + span_ns as u64;
    events.push(EventRecord {
        start_ns: 1,
        end_ns,
        aux: 120,
        id: 7,
        cpu: 1,
        kind: EventKind::Thread as u8,
        detail: OffCpu::Unknown as u8,
    });
    // As tracers hand them over: one CPU after the other, by end.
    events.sort_by_key(|event| (event.cpu, event.end_ns));
    events
}

fn memory_mib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Time that this thread had a CPU, seconds.
fn on_cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn main() {
    let mut counts = std::env::args().skip(1).map(|argument| argument.parse().unwrap_or(10_000_000));
    let packet_count = counts.next().unwrap_or(10_000_000);
    let event_count = counts.next().unwrap_or(10_000_000);
    let run = PacketRun {
        period_ns: Some(PERIOD_NS as f64),
        packets: packets(packet_count),
        events: events(event_count, packet_count as i64 * PERIOD_NS),
        receiver: Actor { threads: vec![7], cpu: Some(1), ..Actor::default() },
        source: Some(Actor { threads: vec![6], cpu: Some(0), ..Actor::default() }),
        ..PacketRun::default()
    };
    let resident = memory_mib("VmRSS");
    let (start, on_cpu) = (Instant::now(), on_cpu_s());
    let analysis = analyze_packets(&run, &AttributionOptions::default());
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{packet_count} packets, {event_count} events: {seconds:.2} s, {:.2} s on a CPU",
        on_cpu_s() - on_cpu
    );
    println!("{} late packets, {} pieces", analysis.late.len(), analysis.pieces.len());
    println!("input {resident} MiB, peak {} MiB", memory_mib("VmHWM"));
}
