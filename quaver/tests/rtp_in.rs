//! RTP that nobody prepared for us, from a sender made here: what `quaver sink` says of it equals what is worked out from
//! the packets sent and the stamps recorded.

use quaver_analysis::model::Layer;
use quaver_arrivals::gapped::{Datum, Scan, VideoFormat, VideoPacket, video_timing};
use quaver_store::load::{LoadedRun, load_packet_run};
use quaver_store::run::RunDir;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PACKETS: usize = 2_000;
/// Source of the packets before the measured ones.
const BEFORE: u32 = 0xaaaa_0001;
const SSRC: u32 = 0xbbbb_0002;

/// A packet to be sent; `number` is its place in the stream, whole.
#[derive(Clone)]
struct Sent {
    number: u64,
    timestamp: u32,
    octets: Vec<u8>,
}

fn rtp(payload_type: u8, marker: bool, number: u64, timestamp: u32, ssrc: u32, payload: &[u8]) -> Sent {
    let mut octets = vec![0x80, payload_type | u8::from(marker) << 7];
    octets.extend((number as u16).to_be_bytes());
    octets.extend(timestamp.to_be_bytes());
    octets.extend(ssrc.to_be_bytes());
    octets.extend(payload);
    Sent { number, timestamp, octets }
}

/// The order in which numbers from `first` on are sent: of each hundred, 13, 14 and 57 are not sent; 31 is sent twice, 32
/// again after 35; 70 comes after 73.
fn disturbed(first: u64) -> impl Iterator<Item = u64> {
    (0..).flat_map(move |hundred: u64| {
        let block = (0..100u64).filter(|n| ![13, 14, 57, 70].contains(n)).flat_map(|n| match n {
            31 => vec![31, 31],
            35 => vec![35, 32],
            73 => vec![73, 70],
            n => vec![n],
        });
        block.map(move |n| first + hundred * 100 + n).collect::<Vec<_>>()
    })
}

/// What a sink said and recorded.
struct Received {
    rtp: Value,
    run: LoadedRun,
    /// The packets that it recorded of the stream in question, in order.
    sent: Vec<Sent>,
    /// Row of the first of them.
    row: usize,
    report: String,
}

impl Received {
    fn rows(&self) -> std::ops::Range<usize> {
        self.row..self.row + self.sent.len()
    }

    fn arrived_ns(&self, row: usize) -> i64 {
        self.run.run.packets.stamp_ns(row, Layer::KernelStamp).expect("loopback stamps every packet")
    }
}

/// The sender was said to be wide: video is judged as the models judge it, and nothing else is.
fn judged(summary: &Value, page: &str) {
    let verdicts = summary["rtp"]["video"]["observed"]["verdicts"].as_array();
    let wide = verdicts.into_iter().flatten().find(|verdict| verdict["sender"] == "wide");
    let kept = wide.and_then(|verdict| match (verdict["network"].as_bool(), verdict["receiver"].as_bool()) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    });
    assert_eq!(summary["limits"], json!([{"late_ns": null, "sender": "wide", "kept": kept}]));
    let word = kept.map_or("Not judged", |kept| if kept { "PASS" } else { "FAIL" });
    assert!(page.contains(&format!("{word}: ST 2110-21, type W.")), "{page}");
}

/// Has a sink record [`PACKETS`] packets. Another source sends until the measuring socket is open, then `stream` begins:
/// so it is recorded from its first packet on.
fn receive(stream: impl Iterator<Item = Sent> + Send, gap: Duration, payload_type: u8) -> Received {
    let runs = tempfile::tempdir().unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, quaver_testbed::ports::free_port()));
    let (count, to) = (PACKETS.to_string(), address.to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args([
        "sink",
        &to,
        "--count",
        &count,
        "--receive",
        "block",
        "--for",
        "120s",
        "--tp",
        "2110TPW",
        "--json",
        "-q",
        "-o",
    ]);
    command.arg(runs.path()).env_remove("QUAVER_RUNS").stdin(Stdio::null());
    let (ended, directory) = (AtomicBool::new(false), runs.path());
    let (output, sent) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(stream, address, gap, payload_type, directory, &ended));
        let output = command.output().unwrap();
        ended.store(true, Ordering::Relaxed);
        (output, sender.join().unwrap())
    });
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let path = fs::read_dir(runs.path()).unwrap().next().unwrap().unwrap().path();
    let written = fs::read(path.join("summary.json")).unwrap();
    assert_eq!(RunDir::open(&path).unwrap().read_summary::<Value>().unwrap()["rtp"], summary["rtp"]);
    let again = Command::new(env!("CARGO_BIN_EXE_quaver")).arg("analyze").arg(&path).output().unwrap();
    assert_eq!(again.status.code(), Some(0));
    assert!(fs::read(path.join("summary.json")).unwrap() == written, "analysed again it is the same");
    let page = String::from_utf8(again.stdout).unwrap();
    assert!(page.contains("interarrival jitter"), "{page}");
    judged(&summary, &page);
    let run = load_packet_run(&RunDir::open(&path).unwrap()).unwrap();
    let ssrc = |row: usize| run.media[row].unwrap().header.unwrap().ssrc;
    let row = (0..PACKETS).find(|row| ssrc(*row) == Some(SSRC)).expect("the stream was recorded");
    assert!((row..PACKETS).all(|row| ssrc(row) == Some(SSRC)));
    assert_eq!(summary["rtp"]["other_sources"], row);
    let sent: Vec<Sent> = sent.into_iter().take(PACKETS - row).collect();
    for (packet, row) in sent.iter().zip(row..) {
        let fields = run.media[row].unwrap();
        assert_eq!(fields.timestamp, packet.timestamp, "loopback loses nothing and keeps the order");
        assert_eq!(fields.payload_bytes as usize, packet.octets.len());
    }
    let report = fs::read_to_string(path.join("report.html")).unwrap();
    Received { rtp: summary["rtp"].clone(), run, sent, row, report }
}

/// Sends at a steady pace until `ended`; what was sent of `stream`.
fn send(
    mut stream: impl Iterator<Item = Sent>,
    to: SocketAddr,
    gap: Duration,
    payload_type: u8,
    runs: &Path,
    ended: &AtomicBool,
) -> Vec<Sent> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    // A connected socket hears by ICMP that nobody listens, with its next packet.
    socket.connect(to).unwrap();
    let mut sent = Vec::new();
    let mut due = Instant::now();
    let (mut open, mut heard) = (false, 0);
    for number in 0.. {
        if ended.load(Ordering::Relaxed) {
            break;
        }
        open = open || number % 16 == 0 && measuring(runs);
        let packet = match open {
            true => stream.next().expect("streams have no end"),
            false => rtp(payload_type, false, number, number as u32 * 10, BEFORE, &[0xd5; 160]),
        };
        match socket.send(&packet.octets) {
            Ok(_) => heard += 1,
            Err(refused) => {
                // From the first look on there is a listener until the measurement ends.
                assert!(open || heard < 2, "packet {number}, after {heard}: {refused}");
                heard = 0;
            }
        }
        if open {
            sent.push(packet);
        }
        due += gap;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    sent
}

/// Whether the sink has its measuring socket: it then describes the stream in the manifest.
fn measuring(runs: &Path) -> bool {
    let Some(Ok(run)) = fs::read_dir(runs).unwrap().next() else { return false };
    let manifest = fs::read(run.path().join("manifest.json")).unwrap_or_default();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap_or_default();
    manifest.pointer("/analysis/streams/0").is_some()
}

fn histogram(values: impl IntoIterator<Item = u64>) -> Value {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    values.into_iter().for_each(|value| *counts.entry(value).or_default() += 1);
    json!(counts)
}

/// Counts by the definitions, from the numbers as they were sent.
fn assert_sequence(figures: &Value, numbers: &[u64]) {
    let (least, most) = (*numbers.iter().min().unwrap(), *numbers.iter().max().unwrap());
    let unique: BTreeSet<u64> = numbers.iter().copied().collect();
    let lost: Vec<u64> = (least..=most).filter(|number| !unique.contains(number)).collect();
    assert_eq!(figures["expected"], most - least + 1);
    assert_eq!(figures["received"], numbers.len());
    assert_eq!((&figures["unique"], &figures["lost"]), (&json!(unique.len()), &json!(lost.len())));
    assert_eq!(figures["duplicate"], numbers.len() - unique.len());
    assert_eq!(figures["cumulative_lost"], (most - numbers[0] + 1) as i64 - numbers.len() as i64);
    assert_eq!(figures["loss_distances"], histogram(lost.windows(2).map(|pair| pair[1] - pair[0])));
    let periods = lost.chunk_by(|a, b| a + 1 == *b).map(|period| period.len() as u64);
    assert_eq!(figures["loss_period_lengths"], histogram(periods));
    let mut met = BTreeSet::new();
    let firsts: Vec<u64> = numbers.iter().copied().filter(|number| met.insert(*number)).collect();
    let extents = (0..firsts.len()).filter_map(|at| {
        let broken = firsts[..at].iter().position(|before| *before > firsts[at])?;
        Some((at - broken) as u64)
    });
    let extents: Vec<u64> = extents.collect();
    assert_eq!(figures["reordered"], extents.len());
    assert_eq!(figures["reordering_extents"], histogram(extents));
}

/// Interarrival jitter by RFC 3550, from the stamps recorded and the timestamps sent.
fn assert_interarrival(received: &Received, clock_hz: u32) {
    let (mut ticks, mut j_ns, mut last): (u32, f64, Option<(u32, i64, u32)>) = (0, 0.0, None);
    for (packet, row) in received.sent.iter().zip(received.rows()) {
        let arrived_ns = received.arrived_ns(row);
        let arrived = (i128::from(arrived_ns) * i128::from(clock_hz) / 1_000_000_000) as u32;
        let transit = arrived.wrapping_sub(packet.timestamp);
        if let Some((last_transit, last_ns, last_timestamp)) = last {
            // Appendix A.8, and section 6.4.1 in nanoseconds.
            let d = (transit.wrapping_sub(last_transit) as i32).unsigned_abs();
            ticks = ticks + d - ((ticks + 8) >> 4);
            let media =
                f64::from(packet.timestamp.wrapping_sub(last_timestamp) as i32) * 1e9 / f64::from(clock_hz);
            let d_ns = ((arrived_ns - last_ns) as f64 - media).abs();
            j_ns += (d_ns - j_ns) / 16.0;
        }
        last = Some((transit, arrived_ns, packet.timestamp));
    }
    let found = &received.rtp["interarrival"];
    assert_eq!(found["last_ticks"], ticks >> 4);
    // The program rounds timestamps to nanoseconds.
    let ns = found["last_ns"].as_f64().unwrap();
    assert!((ns - j_ns).abs() <= 1.0, "{ns} ns, by the definition {j_ns} ns");
    assert!(j_ns > 0.0);
}

#[test]
fn loss_copies_order_and_interarrival_jitter_over_the_wrap() {
    let first = 65_536 - 700; // the numbers wrap, and so do the timestamps
    let stream = disturbed(first).map(|number| {
        rtp(0, false, number, (number as u32 * 4).wrapping_sub(4 * 65_600), SSRC, &[0xd5; 160])
    });
    let received = receive(stream, Duration::from_micros(500), 0);
    let rtp = &received.rtp;
    assert_eq!((&rtp["kind"], &rtp["ssrc"]), (&json!("rtp"), &json!(SSRC)));
    assert_eq!((&rtp["arrival"], &rtp["clock"]["hz"]), (&json!("kernel-stamp"), &json!(8_000)));
    assert_eq!(rtp["clock"]["known"], "payload-type");
    let numbers: Vec<u64> = received.sent.iter().map(|packet| packet.number).collect();
    assert!(numbers[0] < 65_536 && *numbers.last().unwrap() > 65_536 + 500, "the wrap is in it");
    assert_sequence(&rtp["sequence"], &numbers);
    assert!(
        rtp["sequence"]["lost"].as_u64() >= Some(45) && rtp["sequence"]["reordered"].as_u64() >= Some(15)
    );
    assert_interarrival(&received, 8_000);
    assert!(received.report.contains("interarrival jitter") && received.report.contains("RFC 4737"));
}

#[test]
fn shape_of_uncompressed_video_equals_that_of_the_stamps() {
    const PER_FRAME: u64 = 40;
    let first = (9 << 16) - 800; // the low half of the number wraps
    let stream = disturbed(first).map(|number| {
        let (frame, line) = (number / PER_FRAME, number % PER_FRAME);
        let mut payload = vec![];
        payload.extend(((number >> 16) as u16).to_be_bytes());
        payload.extend(1_200u16.to_be_bytes());
        payload.extend((line as u16).to_be_bytes());
        payload.extend([0; 2]);
        payload.extend([0x55; 1_200]);
        rtp(96, line == PER_FRAME - 1, number, (frame * 3_600) as u32, SSRC, &payload)
    });
    let received = receive(stream, Duration::from_millis(1), 96);
    let rtp = &received.rtp;
    assert_eq!((&rtp["kind"], &rtp["sequence"]["bits"]), (&json!("st2110-20"), &json!(32)));
    assert_eq!((&rtp["clock"]["hz"], &rtp["clock"]["known"]), (&json!(90_000), &json!("format")));
    assert_sequence(&rtp["sequence"], &received.sent.iter().map(|packet| packet.number).collect::<Vec<_>>());
    assert_interarrival(&received, 90_000);
    let packets: Vec<VideoPacket> = received
        .sent
        .iter()
        .zip(received.rows())
        .map(|(packet, row)| VideoPacket {
            sequence: packet.number,
            arrived_ns: received.arrived_ns(row),
            rtp_timestamp: packet.timestamp,
            marker: packet.number % PER_FRAME == PER_FRAME - 1,
            second_field: false,
        })
        .collect();
    let format = VideoFormat::new((25, 1), Scan::Progressive, 40, PER_FRAME, 1_500).unwrap();
    let expected = video_timing(&packets, &format, Datum::Observed);
    assert!(expected.linear.as_ref().unwrap().frames > 20);
    let video = &rtp["video"];
    assert_eq!((&video["frame_rate"], &video["packets_per_frame"]), (&json!([25, 1]), &json!(PER_FRAME)));
    assert_eq!((&video["height"], &video["scan"]), (&json!(40), &json!("progressive")));
    assert_eq!(video["observed"], serde_json::to_value(&expected).unwrap());
    assert!(!rtp["notes"].as_array().unwrap().is_empty(), "what is known of TAI is said: {}", rtp["notes"]);
    let tai = video["kernel_tai_offset_s"].as_i64().unwrap();
    assert_eq!(video["epoch"].is_null(), tai == 0);
    assert!(received.report.contains("C_INST") && received.report.contains("VRX"));
}

#[test]
fn frames_and_header_checks_of_st2022_6() {
    const PER_FRAME: u64 = 20;
    let stream = disturbed(65_000).map(|number| {
        let (frame, place) = (number / PER_FRAME, number % PER_FRAME);
        // F, FRCount; no clock; 1080 interlaced, 30/1.001, 4:2:2 of 10 bits. Number 40 of each hundred contradicts.
        let count = if number % 100 == 40 { 200 } else { (frame % 100) as u8 };
        let mut payload = vec![0x08, count, 0, 0, 0x02, 0x01, 0x71, 0x00];
        payload.extend([0x55; 1_376]);
        let timestamp = (number * 27_000) as u32;
        rtp(98, place == PER_FRAME - 1, number, timestamp, SSRC, &payload)
    });
    let received = receive(stream, Duration::from_millis(1), 98);
    let rtp = &received.rtp;
    assert_eq!((&rtp["kind"], &rtp["clock"]["hz"]), (&json!("st2022-6"), &json!(27_000_000)));
    let numbers: Vec<u64> = received.sent.iter().map(|packet| packet.number).collect();
    assert_sequence(&rtp["sequence"], &numbers);
    assert_interarrival(&received, 27_000_000);
    let hbrmt = &rtp["hbrmt"];
    assert_eq!(
        (&hbrmt["frame"], &hbrmt["frame_rate"]),
        (&json!("1920 x 1080 interlaced"), &json!("30/1.001"))
    );
    assert_eq!((&hbrmt["wrong_length"], &hbrmt["other_format"]), (&json!(0), &json!(0)));
    // Each contradicting packet is wrong after the one before, and so is the one after it; its neighbours were sent.
    let unique: BTreeSet<u64> = numbers.iter().copied().collect();
    let wrong = |number: u64| {
        let count = |n: u64| if n % 100 == 40 { 200 } else { n / PER_FRAME % 100 };
        let ended = u64::from((number - 1) % PER_FRAME == PER_FRAME - 1);
        unique.contains(&(number - 1)) && count(number) != (count(number - 1) + ended) % 256
    };
    assert_eq!(hbrmt["wrong_frame_count"], unique.iter().filter(|number| wrong(**number)).count());
    let ends: Vec<u64> =
        unique.iter().copied().filter(|number| number % PER_FRAME == PER_FRAME - 1).collect();
    let (from, to) = (ends[0] + 1, *ends.last().unwrap());
    let frames = &rtp["frames"];
    assert_eq!(frames["packets_per_frame"], PER_FRAME);
    assert_eq!((&frames["frames"], &frames["odd_lengths"]), (&json!((to + 1 - from) / PER_FRAME), &json!(0)));
    assert_eq!(frames["missing_packets"], (from..=to).filter(|number| !unique.contains(number)).count());
    let whole = |first: &u64| (*first..first + PER_FRAME).all(|number| unique.contains(&number));
    assert_eq!(frames["complete"], (from..=to).step_by(PER_FRAME as usize).filter(whole).count());
}
