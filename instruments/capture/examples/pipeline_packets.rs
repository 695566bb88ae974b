//! What a stamp costs beside a real packet, by pipeline: checkpoints around it, packets over a veth pair.
//!
//! `pipeline_packets PERIOD_NS FRAME_BYTES PACKETS_PER_ARM`: a line for each arm, `name mean trimmed_variance
//! median` in nanoseconds, the checkpoints' own cost not yet taken off. Needs root. `quaver capture --compare` does
//! the whole comparison.

use quaver_capture::compare::record::{ReceiverPlan, start};
use quaver_capture::pipeline::{PipelineKind, PipelineSettings};
use quaver_clock::live::{LiveClock, LiveOptions};
use quaver_clock::{CounterSupport, nominal_scale};
use quaver_host::netns::Lab;
use quaver_host::segment::SegmentWriter;
use quaver_probe::profile::Profile;
use quaver_probe::schedule::Schedule;
use quaver_probe::source::{Pace, Source, SourceOptions, StreamLength};
use quaver_probe::thread::ThreadSettings;
use std::net::UdpSocket;
use std::path::Path;

const STREAM: u32 = 7;
const PER_BLOCK: u32 = 50;

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let [period_ns, frame_bytes, per_arm] = numbers[..] else { panic!("give three numbers") };
    let counter = CounterSupport::detect(Path::new("/")).counter;
    let live = LiveClock::start(LiveOptions::new(counter)).expect("the clock starts");
    let lab = Lab::create().expect("namespaces");
    let kinds = [
        None,
        Some(PipelineKind::InlineClock),
        Some(PipelineKind::InlineCycles),
        Some(PipelineKind::Threaded { converters: 1 }),
        Some(PipelineKind::Batch),
    ];
    let rounds = per_arm.div_ceil(u64::from(PER_BLOCK));
    let blocks: Vec<u16> =
        (0..rounds).flat_map(|round| (0..5u16).map(move |arm| (arm * 2 + round as u16) % 5)).collect();
    let packets = blocks.len() as u64 * u64::from(PER_BLOCK);
    let socket = lab.sink.within(|| UdpSocket::bind((lab.sink.ipv4, 0)).expect("bind")).expect("enter");
    let address = socket.local_addr().expect("address");
    let converter = ThreadSettings { cpu: Some(0), ..ThreadSettings::default() };
    let settings = |kind| PipelineSettings {
        converters: vec![converter.clone()],
        ..PipelineSettings::new(kind, counter)
    };
    let plan = ReceiverPlan {
        arms: kinds.iter().map(|kind| kind.map(settings)).collect(),
        blocks,
        packets_per_block: PER_BLOCK,
        stream_id: STREAM,
        header_offset: 0,
        poll: std::env::var_os("POLL").is_some(),
        thread: ThreadSettings::measuring(Some(1), None),
        counter,
    };
    let receiving = start(socket, plan, live.reader()).expect("start");
    let profile = Profile::plain(frame_bytes as usize - 42, Schedule::every(period_ns, 1).expect("period"))
        .expect("size");
    let mut options = SourceOptions::new(address, profile, StreamLength::Packets(packets + 50), counter);
    options.stream_id = STREAM;
    options.pace = if period_ns < 100_000 { Pace::Spin } else { Pace::Hybrid };
    options.thread = ThreadSettings::measuring(Some(0), None);
    let dir = tempfile::tempdir().expect("tempdir");
    let segment = SegmentWriter::create(&dir.path().join("sends.seg"), packets + 99).expect("segment");
    let source = lab.source.within(|| Source::open(options).expect("open")).expect("enter");
    let running = source.prepare(segment).expect("prepare").go();
    let report = running.join().unwrap().report;
    std::thread::sleep(std::time::Duration::from_millis(50));
    let received = receiving.join().unwrap();
    let scale = nominal_scale(counter);
    println!("sent {} misses {} received {}", report.sent, report.misses, received.samples.len());
    for (arm, kind) in kinds.iter().enumerate() {
        let mut ns: Vec<f64> = received
            .samples
            .iter()
            .filter(|sample| usize::from(sample.arm) == arm && sample.position >= 4)
            .map(|sample| scale.ns(sample.between_cycles * 1000) as f64 / 1000.0)
            .collect();
        ns.sort_by(f64::total_cmp);
        let mean = |ns: &[f64]| ns.iter().sum::<f64>() / ns.len() as f64;
        let cut = ns.len() / 100;
        let kept = &ns[cut..ns.len() - cut];
        let variance = |ns: &[f64]| ns.iter().map(|x| (x - mean(ns)).powi(2)).sum::<f64>() / ns.len() as f64;
        let name = kind.map_or("checkpoints".to_owned(), |kind| kind.to_string());
        println!(
            "{name} n {} mean {:.1} trimmed {:.1} variance {:.1} trimmed {:.1} median {:.1} p1 {:.1} p99 {:.1}",
            ns.len(),
            mean(&ns),
            mean(kept),
            variance(&ns),
            variance(kept),
            ns[ns.len() / 2],
            ns[cut],
            ns[ns.len() - 1 - cut]
        );
    }
}
