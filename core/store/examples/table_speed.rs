//! Writes and reads 10 million packets and 10 million events, and prints the times and the largest resident
//! memory: `cargo run --release -p quaver-store --example table_speed [ROWS]`.

use quaver_abi::record::{EventKind, EventRecord};
use quaver_analysis::model::{Layer, LayerColumn, MISSING, Names, PacketTable};
use quaver_store::events::{read_events, sort_events, write_events};
use quaver_store::packets::{read_packets, write_packets};
use quaver_store::timeline::Timeline;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

/// A small generator of our own (splitmix64): an example needs no good one.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) >> 11) % limit
    }
}

fn packets(rows: usize) -> PacketTable {
    let mut random = Random(1);
    let app_ns =
        (0..rows as i64).map(|n| 1_000_000_000_000 + n * 7_410 + random.below(3_000) as i64).collect();
    let mut column = |layer, typical: u64| LayerColumn {
        layer,
        before_app_ns: (0..rows)
            .map(|_| if random.below(1_000) == 0 { MISSING } else { (typical + random.below(800)) as i64 })
            .collect(),
    };
    PacketTable {
        layers: vec![
            column(Layer::Schedule, 40_000),
            column(Layer::Source, 39_000),
            column(Layer::Interrupt, 20_000),
            column(Layer::Softirq, 15_000),
            column(Layer::Receive, 10_000),
            column(Layer::KernelStamp, 9_900),
            column(Layer::Enqueued, 6_000),
            column(Layer::Ready, 5_000),
        ],
        seq: (0..rows as u64).collect(),
        app_ns,
        app_cpu: vec![1; rows],
        stack_cpu: vec![0; rows],
    }
}

fn events(rows: usize) -> Vec<EventRecord> {
    let mut random = Random(2);
    let kinds = [EventKind::Thread, EventKind::Softirq, EventKind::Vector, EventKind::Irq, EventKind::Wakeup];
    let mut events: Vec<_> = (0..rows as u64)
        .map(|n| {
            let kind = kinds[random.below(5) as usize];
            let start_ns = 1_000_000_000_000 + n * 3_700 + random.below(2_000);
            let end_ns = if kind.is_interval() { start_ns + random.below(9_000) } else { start_ns };
            let (cpu, id) = (random.below(2) as u16, random.below(40) as u32);
            EventRecord {
                start_ns,
                end_ns,
                aux: random.below(3_000) << 32,
                id,
                cpu,
                kind: kind as u8,
                detail: 1,
            }
        })
        .collect();
    sort_events(&mut events);
    events
}

/// Largest resident memory so far, MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn timed<T>(what: &str, rows: usize, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{what:24} {seconds:7.2} s  {:7.1} M rows/s  peak {} MiB",
        rows as f64 / seconds / 1e6,
        peak_mib()
    );
    result
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let rows: usize = arguments.next().map_or(Ok(10_000_000), |text| text.parse())?;
    let directory = std::env::temp_dir().join(format!("quaver-table-speed-{}", std::process::id()));
    if let Some(directory) = arguments.next() {
        return read(Path::new(&directory), rows);
    }
    std::fs::create_dir_all(&directory)?;
    let (samples, event_file) = (directory.join("samples.parquet"), directory.join("events.parquet"));
    let table = packets(rows);
    timed("write packets, 8 layers", rows, || write_packets(&samples, &table))?;
    drop(table);
    let list = events(rows);
    timed("write events", rows, || write_events(&event_file, &list, &Names::default()))?;
    drop(list);
    for file in [&samples, &event_file] {
        let octets = std::fs::metadata(file)?.len();
        println!("{}: {:.1} bytes a row", file.display(), octets as f64 / rows as f64);
    }
    convert(rows);
    // Reading alone, in a process of its own, so that its peak is its own.
    let reader = std::process::Command::new(std::env::current_exe()?)
        .arg(rows.to_string())
        .arg(&directory)
        .status()?;
    std::fs::remove_dir_all(&directory)?;
    if reader.success() { Ok(()) } else { Err("the reading half failed".into()) }
}

fn read(directory: &Path, rows: usize) -> Result<(), Box<dyn std::error::Error>> {
    let packets = timed("read packets", rows, || read_packets(&directory.join("samples.parquet")))?;
    let events = timed("read events", rows, || read_events(&directory.join("events.parquet")))?;
    println!("{} packets and {} events held at once", packets.len(), events.len());
    Ok(())
}

fn convert(rows: usize) {
    let anchor = |k: u64| quaver_abi::record::AnchorRecord {
        cycles: k * 260_000_000 + 1,
        monotonic_ns: k as i64 * 100_000_000 + 1,
        ..Default::default()
    };
    let anchors: Vec<_> = (0..1_000).map(anchor).collect();
    if let Some(mut timeline) = Timeline::new(&anchors) {
        timed("cycles to nanoseconds", rows, || {
            (0..rows as u64).map(|n| timeline.monotonic_ns(black_box(n * 19_266))).fold(0, i64::wrapping_add)
        });
    }
}
