//! What we write, read by tshark and tcpdump to the last digit. `make test` installs both; where it set
//! QUAVER_REQUIRE_PRIVILEGED a missing tool is a failure.

#[path = "../../../../testbed/src/privileged.rs"]
#[allow(unreachable_pub, reason = "it is a module of the testbed, which imports this crate")]
mod privileged;

use privileged::{Lack, skip};
use quaver_abi::stamp::{Layer, LayerStamp, PacketStamps, StampClock};
use quaver_pcapng::{
    CaptureReader, InterfaceFacts, InterfaceStatistics, LINK_ETHERNET, PacketDirection, PacketRecord,
    PcapngWriter, Reception, SectionFacts,
};
use std::path::Path;
use std::process::Command;

const START_NS: i64 = 1_700_000_000_000_000_000;
const PACKETS: usize = 300;

/// Whether the tool is there. Where everything is required, it must be.
fn is_there(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        skip(&format!("{tool} and our files"), Lack::Installed(tool));
    }
    found
}

fn run(tool: &str, arguments: &[&str], file: &Path) -> String {
    let output = Command::new(tool)
        .args(arguments)
        .arg("-r")
        .arg(file)
        .env("TZ", "UTC")
        .output()
        .unwrap_or_else(|error| panic!("run {tool}: {error}"));
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{tool}: {errors}");
    text.into_owned()
}

/// Times that use every digit: SplitMix64 for the distances.
fn times() -> Vec<i64> {
    let mut state = 7u64;
    let mut now_ns = START_NS;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        now_ns += (mixed >> 36) as i64;
        now_ns
    };
    (0..PACKETS).map(|_| next()).collect()
}

/// An Ethernet frame with a datagram of so many bytes to port 6000.
fn frame(octets: usize) -> Vec<u8> {
    let ip_octets = 28 + octets as u16;
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, (ip_octets >> 8) as u8, ip_octets as u8, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    let udp_octets = 8 + octets as u16;
    frame.extend([0x13, 0x88, 0x17, 0x70, (udp_octets >> 8) as u8, udp_octets as u8, 0, 0]);
    frame.extend(vec![0x55; octets]);
    frame
}

/// A capture of packets at [`times`], of 0 to 299 bytes, of which 60 of the frame were kept, on two interfaces in turn.
fn write(path: &Path) {
    let section = SectionFacts {
        hardware: Some("a machine".to_owned()),
        os: Some("an operating system".to_owned()),
        application: Some("quaver test".to_owned()),
        comment: Some("a comment".to_owned()),
    };
    let file = std::fs::File::create(path).unwrap();
    let mut writer = PcapngWriter::new(file, &section).unwrap();
    for name in ["veth-a", "veth-b"] {
        let facts = InterfaceFacts {
            name: name.to_owned(),
            description: Some("a pair".to_owned()),
            link_type: LINK_ETHERNET,
            snap_length: 60,
            filter: Some("udp port 6000".to_owned()),
            mac: Some([2, 0, 0, 0, 0, 1]),
            speed_bits_per_s: Some(10_000_000_000),
            os: Some("Linux".to_owned()),
            hardware: Some("veth".to_owned()),
            ..InterfaceFacts::default()
        };
        writer.interface(&facts).unwrap();
    }
    for (n, time_ns) in times().into_iter().enumerate() {
        let mut stamps = PacketStamps::default();
        let stamp = |time_ns| LayerStamp { clock: StampClock::Realtime, time_ns, bound_ns: 40, epoch: 0 };
        stamps.set(Layer::Kernel, stamp(time_ns));
        stamps.set(Layer::Application, stamp(time_ns + 5_000));
        let frame = frame(n);
        let kept = &frame[..frame.len().min(60)];
        let record = PacketRecord {
            drops_before: Some(u64::from(n == 7) * 3),
            direction: PacketDirection::Inbound,
            reception: Reception::Unicast,
            packet_id: Some(n as u64),
            queue: Some(1),
            ..PacketRecord::new(Layer::Kernel, &stamps, kept, frame.len() as u32)
        };
        writer.packet(n as u32 % 2, &record).unwrap();
    }
    let counted = InterfaceStatistics {
        taken_ns: START_NS,
        start_ns: Some(START_NS),
        end_ns: Some(START_NS + 1),
        received: Some(153),
        dropped_by_interface: Some(0),
        accepted_by_filter: Some(153),
        dropped_by_os: Some(3),
        delivered: Some(150),
        comment: Some("the ring was full".to_owned()),
        run_facts: Some(serde_json::json!({"verb": "capture"})),
    };
    writer.statistics(0, &counted).unwrap();
    writer.finish().unwrap();
}

fn seconds(time_ns: i64) -> String {
    format!("{}.{:09}", time_ns / 1_000_000_000, time_ns % 1_000_000_000)
}

#[test]
fn tshark_reads_every_field_to_the_last_digit() {
    if !is_there("tshark") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.pcapng");
    write(&path);
    let fields = [
        "frame.time_epoch",
        "frame.len",
        "frame.cap_len",
        "frame.interface_name",
        "frame.packet_flags_direction",
        "frame.drop_count",
        "udp.length",
    ];
    let mut arguments = vec!["-n", "-T", "fields"];
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    let text = run("tshark", &arguments, &path);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), PACKETS);
    for (n, (line, time_ns)) in lines.iter().zip(times()).enumerate() {
        let found: Vec<&str> = line.split('\t').collect();
        let (name, length) = (["veth-a", "veth-b"][n % 2], 42 + n);
        let drops = if n == 7 { "3" } else { "0" };
        let expected = [
            seconds(time_ns),
            length.to_string(),
            length.min(60).to_string(),
            name.to_owned(),
            "0x00000001".to_owned(),
            drops.to_owned(),
            (8 + n).to_string(),
        ];
        // Versions write the direction with as many digits as they like.
        let same = |(field, (found, expected)): (usize, (&&str, &String))| {
            if field == 4 { found.ends_with('1') } else { found == expected }
        };
        assert!(found.iter().zip(&expected).enumerate().all(same), "{n}: {found:?} is not {expected:?}");
        assert_eq!(found.len(), fields.len());
    }
}

#[test]
fn tcpdump_reads_every_time_to_the_last_digit() {
    if !is_there("tcpdump") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.pcapng");
    write(&path);
    let text = run("tcpdump", &["--time-stamp-precision=nano", "-tt", "-n"], &path);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), PACKETS);
    for (n, (line, time_ns)) in lines.iter().zip(times()).enumerate() {
        assert!(
            line.starts_with(&format!("{} IP 10.0.0.1.5000 > 10.0.0.2.6000", seconds(time_ns))),
            "{line}"
        );
        assert!(line.ends_with(&format!("UDP, length {n}")), "{line}");
    }
}

#[test]
fn what_a_tool_copied_still_has_its_stamps() {
    if !is_there("editcap") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (directory.path().join("ours.pcapng"), directory.path().join("copy.pcapng"));
    write(&path);
    let status = Command::new("editcap").arg(&path).arg(&copy).status().unwrap();
    assert!(status.success());
    let file = std::fs::File::open(&copy).unwrap();
    let mut reader = CaptureReader::new(file).unwrap();
    let mut seen = 0;
    while let Some(packet) = reader.next_packet().unwrap() {
        assert_eq!(packet.time_ns, Some(times()[seen]));
        let stamps = packet.stamps.expect("the option was to be copied").stamps;
        let application = stamps.get(Layer::Application).unwrap();
        assert_eq!((application.time_ns, application.bound_ns), (times()[seen] + 5_000, 40));
        seen += 1;
    }
    assert_eq!((seen, reader.is_whole()), (PACKETS, true));
}

#[test]
fn classic_files_of_a_tool_have_the_times_that_fit_in_them() {
    if !is_there("editcap") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.pcapng");
    write(&path);
    for (format, name, step_ns) in
        [("nsecpcap", "pcap, nanoseconds", 1), ("pcap", "pcap, microseconds", 1_000)]
    {
        let copy = directory.path().join(format);
        let status = Command::new("editcap").args(["-F", format]).arg(&path).arg(&copy).status().unwrap();
        assert!(status.success());
        let mut reader = CaptureReader::new(std::fs::File::open(&copy).unwrap()).unwrap();
        assert_eq!(reader.format().name(), name);
        for (n, time_ns) in times().into_iter().enumerate() {
            let packet = reader.next_packet().unwrap().unwrap();
            let expected = (time_ns / step_ns * step_ns, 42 + n, (42 + n).min(60), LINK_ETHERNET);
            let (length, kept) = (packet.original_length as usize, packet.data.len());
            assert_eq!((packet.time_ns.unwrap(), length, kept, packet.link_type), expected);
        }
        assert!(reader.next_packet().unwrap().is_none() && reader.is_whole());
    }
}
