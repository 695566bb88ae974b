//! Makes a run directory of ten million packets stamped at every layer and as many events, with about one packet
//! in a hundred late, to measure the analysis with:
//! `cargo run --release -p quaver --example big_run PARENT_DIRECTORY [ROWS]`. Prints the path of the run.
//!
//! The receiver polls on CPU 1; the source and the network stack run on CPU 0. Interruptions of CPU 1 hold the
//! packets up as they would: those that arrive meanwhile wait, and are then read one after the other.

use quaver_abi::record::{EventKind, EventRecord, OffCpu, Vector};
use quaver_analysis::model::{Actor, Circumstances, Layer, LayerColumn, Names, PacketCounts, PacketTable};
use quaver_store::events::{sort_events, write_events};
use quaver_store::manifest::{AnalysisFacts, Manifest, Stream, StreamPayload, Window};
use quaver_store::packets::write_packets;
use quaver_store::run::RunDir;
use serde_json::json;
use std::path::Path;

/// Nanoseconds from one packet to the next.
const PERIOD_NS: i64 = 7_410;
/// CLOCK_MONOTONIC at the first deadline.
const START_NS: i64 = 1_000_000_000_000;
/// From the deadline to the application's stamp where nothing holds the packet up.
const PATH_NS: i64 = 3_600;
/// What the receiver needs for each packet of a queue.
const READ_NS: i64 = 1_000;
const SINK: u32 = 2_001;
const SOURCE: u32 = 2_002;
const NET_RX: u32 = 3;

/// A small generator of our own (splitmix64): an example needs no good one.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (((mixed ^ (mixed >> 27)) >> 11) % limit.unsigned_abs()).cast_signed()
    }
}

fn event(kind: EventKind, cpu: u16, start_ns: i64, end_ns: i64, id: u32, aux: u64) -> EventRecord {
    EventRecord {
        start_ns: start_ns.cast_unsigned(),
        end_ns: end_ns.cast_unsigned(),
        aux,
        id,
        cpu,
        kind: kind as u8,
        detail: 0,
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let parent = arguments.next().ok_or("usage: big_run PARENT_DIRECTORY [ROWS]")?;
    let rows: usize = arguments.next().map_or(Ok(10_000_000), |text| text.parse())?;
    let length_ns = rows as i64 * PERIOD_NS;
    let run = RunDir::create(Path::new(&parent), "chase")?;
    let mut events = interruptions(length_ns);
    let packets = packets(rows, &busy(&events));
    run_threads(&mut events, length_ns);
    fill_with_traffic(&mut events, rows);
    sort_events(&mut events);
    events.truncate(rows);
    write_packets(&run.samples(), &packets)?;
    write_events(&run.events(), &events, &names())?;
    run.write_names(&names())?;
    run.write_manifest(&manifest(rows as u64, length_ns))?;
    println!("{}", run.path().display());
    Ok(())
}

/// What takes CPU 1 from the receiver: ticks with what they run, a device's interrupt, other threads.
fn interruptions(length_ns: i64) -> Vec<EventRecord> {
    let mut random = Random(1);
    let mut events = Vec::new();
    let mut at_ns = START_NS;
    while at_ns < START_NS + length_ns {
        at_ns += 500_000 + random.below(500_000);
        let ends_ns = match random.below(16) {
            0..6 => {
                let (timer, softirq) = (3_000 + random.below(3_000), 2_000 + random.below(8_000));
                let vector = Vector::LocalTimer as u32;
                events.push(event(EventKind::Vector, 1, at_ns, at_ns + timer, vector, 0));
                events.push(event(EventKind::Hrtimer, 1, at_ns + 400, at_ns + timer - 300, 0, 0x1000));
                let from_ns = at_ns + timer + 100;
                events.push(event(EventKind::Softirq, 1, from_ns, from_ns + softirq, 1, 0));
                from_ns + softirq
            }
            6..9 => {
                let ends_ns = at_ns + 2_000 + random.below(15_000);
                events.push(event(EventKind::Irq, 1, at_ns, ends_ns, 42, 0));
                ends_ns
            }
            9 => {
                let ends_ns = at_ns + 20_000 + random.below(60_000);
                let thread = 100 + random.below(8) as u32;
                events.push(event(EventKind::Thread, 1, at_ns, ends_ns, thread, 120 | u64::from(SINK) << 32));
                ends_ns
            }
            _ => {
                let ends_ns = at_ns + 300 + random.below(600);
                let vector = Vector::Reschedule as u32;
                events.push(event(EventKind::Vector, 1, at_ns, ends_ns, vector, 0));
                ends_ns
            }
        };
        at_ns = ends_ns;
    }
    events
}

/// When CPU 1 was taken, in the order of time and disjoint.
fn busy(events: &[EventRecord]) -> Vec<(i64, i64)> {
    let outer = events.iter().filter(|event| event.kind != EventKind::Hrtimer as u8);
    outer.map(|event| (event.start_ns.cast_signed(), event.end_ns.cast_signed())).collect()
}

fn packets(rows: usize, busy: &[(i64, i64)]) -> PacketTable {
    let mut random = Random(2);
    let mut busy = busy.iter().copied().peekable();
    let layers = [
        (Layer::Schedule, 0),
        (Layer::Source, 20),
        (Layer::Interrupt, 900),
        (Layer::Softirq, 1_300),
        (Layer::Receive, 1_700),
        (Layer::KernelStamp, 1_800),
        (Layer::Enqueued, 2_600),
        (Layer::Ready, 2_900),
    ];
    let mut columns = layers
        .map(|(layer, after_ns)| (after_ns, LayerColumn { layer, before_app_ns: Vec::with_capacity(rows) }));
    let mut app_ns = Vec::with_capacity(rows);
    let mut read_ns = 0;
    for row in 0..rows as i64 {
        let due_ns = START_NS + row * PERIOD_NS;
        let noise_ns = random.below(300);
        read_ns = (due_ns + PATH_NS + noise_ns).max(read_ns + READ_NS);
        while let Some((start_ns, end_ns)) = busy.next_if(|(start_ns, _)| *start_ns < read_ns) {
            // What ended before the packet was there did not hold it up.
            if end_ns > read_ns - READ_NS {
                read_ns = end_ns.max(start_ns) + READ_NS;
            }
        }
        app_ns.push(read_ns);
        for (after_ns, column) in &mut columns {
            let noise_ns = if *after_ns == 0 { 0 } else { random.below(40) };
            column.before_app_ns.push(read_ns - due_ns - *after_ns - noise_ns);
        }
    }
    PacketTable {
        seq: (0..rows as u64).collect(),
        app_ns,
        app_cpu: vec![1; rows],
        stack_cpu: vec![0; rows],
        layers: columns.into_iter().map(|(_, column)| column).collect(),
    }
}

/// Fills the time of both CPUs between the other threads with the receiver and the source.
fn run_threads(events: &mut Vec<EventRecord>, length_ns: i64) {
    let mut others: Vec<EventRecord> =
        events.iter().filter(|event| event.kind == EventKind::Thread as u8).copied().collect();
    for other in &mut others {
        other.detail = OffCpu::Blocked as u8;
    }
    events.retain(|event| event.kind != EventKind::Thread as u8);
    let mut since_ns = START_NS;
    let sink = |from_ns, to_ns, next: u32| EventRecord {
        detail: OffCpu::Preempted as u8,
        ..event(EventKind::Thread, 1, from_ns, to_ns, SINK, 120 | u64::from(next) << 32)
    };
    for other in &others {
        events.push(sink(since_ns, other.start_ns.cast_signed(), other.id));
        since_ns = other.end_ns.cast_signed();
    }
    events.push(sink(since_ns, START_NS + length_ns, 0));
    events.push(event(EventKind::Thread, 0, START_NS, START_NS + length_ns, SOURCE, 120));
    events.append(&mut others);
}

/// Adds the softirq of each packet, and wake-ups, interprocessor interrupts and short interrupts on CPU 0, until
/// there are `rows` events.
fn fill_with_traffic(events: &mut Vec<EventRecord>, rows: usize) {
    let mut random = Random(3);
    let left = rows.saturating_sub(events.len());
    events.reserve_exact(left);
    for place in 0..left {
        let due_ns = START_NS + place as i64 * PERIOD_NS;
        events.push(match place % 10 {
            0 => {
                let at_ns = due_ns + 5_000 + random.below(1_000);
                event(EventKind::Wakeup, 0, at_ns, at_ns, 100 + random.below(8) as u32, 1)
            }
            1 => {
                let at_ns = due_ns + 5_000 + random.below(1_000);
                event(EventKind::IpiSend, 0, at_ns, at_ns, 1, 0)
            }
            2 => {
                let at_ns = due_ns + 5_000;
                event(
                    EventKind::Vector,
                    0,
                    at_ns,
                    at_ns + 200 + random.below(400),
                    Vector::Reschedule as u32,
                    0,
                )
            }
            _ => event(EventKind::Softirq, 0, due_ns + 1_300, due_ns + 3_000 + random.below(300), NET_RX, 0),
        });
    }
}

fn names() -> Names {
    let mut names = Names::default();
    names.irq.insert(42, "virtio3-tx".to_owned());
    names.symbol.insert(0x1000, "tick_nohz_handler".to_owned());
    names.task.extend((100..108).map(|thread| (thread, format!("kworker/1:{}", thread - 100))));
    names.task.extend([(SINK, "quaver-sink".to_owned()), (SOURCE, "quaver-source".to_owned())]);
    names
}

fn manifest(sent: u64, length_ns: i64) -> Manifest {
    let asked = json!({ "command": "example big_run", "stream": "made up, one packet each 7.41 us" });
    let actor = |thread, cpu| Actor { threads: vec![thread], cpu: Some(cpu), ..Actor::default() };
    let counts = PacketCounts {
        sent: Some(sent),
        kernel_seen: Some(sent),
        socket_dropped: Some(0),
        ..Default::default()
    };
    let mut manifest = Manifest::begin(env!("CARGO_PKG_VERSION"), "chase", asked, json!({}), 0);
    manifest.analysis = Some(AnalysisFacts {
        period_ns: Some(PERIOD_NS as f64),
        source_on_this_host: true,
        receiver: actor(SINK, 1),
        source: Some(actor(SOURCE, 0)),
        streams: vec![Stream {
            destination: "192.0.2.2:2670".to_owned(),
            source: None,
            profile: None,
            payload: StreamPayload::Ours { offset: 0 },
            payload_bytes: Some(1_428),
        }],
        circumstances: Circumstances { traced_cpus: vec![0, 1], ..Circumstances::default() },
        counts,
        tier: "bpf".to_owned(),
        window: Some(Window { start_ns: START_NS, end_ns: START_NS + length_ns }),
        ..AnalysisFacts::default()
    });
    manifest.end(length_ns, None);
    manifest
}
