//! How fast captures are written and read: `cargo run --release -p quaver-store --example pcapng_speed [PASSES]`.
//!
//! Each pass writes 100,000 packets to memory and reads them again, with the kernel's stamp alone and with those of four
//! layers. Medians over the passes (least in brackets for people, both in the JSON): packets and megabytes a second.

use quaver_abi::stamp::{Layer, LayerStamp, PacketStamps, StampClock};
use quaver_pcapng::{CaptureReader, InterfaceFacts, LINK_ETHERNET, PacketRecord, PcapngWriter, SectionFacts};
use std::hint::black_box;
use std::time::Instant;

const PACKETS: usize = 100_000;
const SIZES: [usize; 3] = [64, 512, 1_500];
const LAYERS: [Layer; 4] = [Layer::Kernel, Layer::Xdp, Layer::Tc, Layer::Application];

fn stamps(number: usize, layers: usize) -> PacketStamps {
    let mut stamps = PacketStamps::default();
    for (place, layer) in LAYERS.into_iter().take(layers).enumerate() {
        let time_ns = 1_700_000_000_000_000_000 + (number * 5_000 + place * 700) as i64;
        stamps.set(layer, LayerStamp { time_ns, clock: StampClock::Realtime, bound_ns: 20, epoch: 0 });
    }
    stamps
}

/// The file, and seconds that writing it took.
fn write(data: &[u8], layers: usize, into: Vec<u8>) -> (Vec<u8>, f64) {
    let start = Instant::now();
    let mut writer = PcapngWriter::new(into, &SectionFacts::default()).expect("memory takes it");
    let facts =
        InterfaceFacts { name: "eth0".to_owned(), link_type: LINK_ETHERNET, ..InterfaceFacts::default() };
    let interface = writer.interface(&facts).expect("memory takes it");
    for number in 0..PACKETS {
        let stamps = stamps(number, layers);
        let packet = PacketRecord::new(Layer::Kernel, &stamps, black_box(data), data.len() as u32);
        writer.packet(interface, &packet).expect("memory takes it");
    }
    let file = writer.finish().expect("memory takes it");
    (file, start.elapsed().as_secs_f64())
}

/// Seconds that reading took.
fn read(file: &[u8]) -> f64 {
    let start = Instant::now();
    let mut reader = CaptureReader::new(file).expect("it is a capture");
    let (mut packets, mut octets) = (0, 0);
    while let Some(packet) = reader.next_packet().expect("it is whole") {
        packets += 1;
        octets += black_box(packet.data).len();
    }
    assert_eq!(packets, PACKETS, "{octets} bytes");
    start.elapsed().as_secs_f64()
}

fn main() {
    let passes: usize = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(31).max(1);
    let mut rows = Vec::new();
    for size in SIZES {
        for layers in [1, LAYERS.len()] {
            let data = vec![0xa5; size];
            let (mut written, mut taken) = (Vec::new(), Vec::new());
            let mut file = Vec::new();
            // The first pass finds the memory.
            for pass in 0..=passes {
                file.clear();
                let (filled, write_s) = write(&data, layers, file);
                let read_s = read(&filled);
                file = filled;
                if pass > 0 {
                    written.push(write_s);
                    taken.push(read_s);
                }
            }
            for (what, seconds) in [("write", &mut written), ("read", &mut taken)] {
                seconds.sort_unstable_by(f64::total_cmp);
                let (median_s, least_s) = (seconds[seconds.len() / 2], seconds[0]);
                rows.push(serde_json::json!({
                    "what": what,
                    "packet_bytes": size,
                    "stamps": layers,
                    "file_bytes": file.len(),
                    "packets_per_s": (PACKETS as f64 / median_s).round(),
                    "megabytes_per_s": (file.len() as f64 / median_s / 1e6).round(),
                    "packets_per_s_at_best": (PACKETS as f64 / least_s).round(),
                }));
            }
        }
    }
    println!("{}", serde_json::Value::from(rows));
}
