//! How well the source keeps its schedule:
//! `cargo run --release -p quaver-probe --example source_slope [SECONDS] [PERIOD_NS] [PACE] [CPU]`.
//! Prints one JSON object: slope by least squares, misses, lateness.

use quaver_abi::record::AnchorRecord;
use quaver_abi::record::SendRecord;
use quaver_abi::segment::SegmentHeader;
use quaver_clock::{Counter, take_anchor};
use quaver_host::segment::SegmentWriter;
use quaver_probe::profile::Profile;
use quaver_probe::schedule::Schedule;
use quaver_probe::source::{Pace, Source, SourceOptions, StreamLength};
use quaver_probe::thread::ThreadSettings;
use std::error::Error;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;
use zerocopy::FromBytes;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let period_ns: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let pace = match arguments.next().as_deref() {
        None | Some("spin") => Pace::Spin,
        Some("sleep") => Pace::Sleep,
        Some("hybrid") => Pace::Hybrid,
        Some(other) => return Err(format!("pace {other}: use spin, sleep or hybrid").into()),
    };
    let cpu: u16 = arguments.next().map_or(Ok(0), |text| text.parse())?;
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let profile = Profile::plain(64, Schedule::every(period_ns, 1)?)?;
    let length = StreamLength::Lasting(Duration::from_secs(seconds));
    let mut options = SourceOptions::new(receiver.local_addr()?, profile, length, Counter::Hardware);
    options.pace = pace;
    options.thread = ThreadSettings::measuring(Some(cpu), Some(50));
    let path = std::env::temp_dir().join(format!("quaver-source-slope-{}", std::process::id()));
    let capacity = options.packets().unwrap_or(0);
    let first = take_anchor(Counter::Hardware, 64);
    let outcome = Source::open(options)?.prepare(SegmentWriter::create(&path, capacity)?)?.go().join()?;
    let last = take_anchor(Counter::Hardware, 64);
    outcome.segment.finish()?;
    let octets = std::fs::read(&path)?;
    std::fs::remove_file(&path)?;
    let lateness = lateness_ns(&octets, &[first, last]);
    let report = outcome.report;
    println!(
        "{{\"pace\": \"{}\", \"period_ns\": {period_ns}, \"seconds\": {seconds}, \"packets\": {}, \"misses\": {}, \
         \"drift_ppm\": {:.4}, \"mean_ns\": {:.0}, \"worst_ns\": {}, \"p50_p90_p99_p999_ns\": {:?}, \
         \"involuntary_switches\": {}}}",
        pace.name(),
        report.packets,
        report.misses,
        report.drift_ppm.unwrap_or(f64::NAN),
        report.mean_lateness_ns.unwrap_or(f64::NAN),
        report.worst_lateness_ns,
        [0.5, 0.9, 0.99, 0.999].map(|part| lateness[((lateness.len() - 1) as f64 * part) as usize]),
        report.usage.involuntary_switches
    );
    Ok(())
}

/// From deadline to right before the send call, sorted.
fn lateness_ns(octets: &[u8], anchors: &[AnchorRecord]) -> Vec<i64> {
    let mut lateness: Vec<i64> = octets[size_of::<SegmentHeader>()..]
        .chunks_exact(size_of::<SendRecord>())
        .filter_map(|record| SendRecord::read_from_bytes(record).ok())
        .filter_map(|record| {
            quaver_abi::cycles::monotonic_ns(anchors, record.before_cycles)
                .map(|sent| sent - record.deadline_ns)
        })
        .collect();
    lateness.sort_unstable();
    lateness
}
