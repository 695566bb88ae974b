//! RTP inside tunnels and by two paths, in a file that tshark reads as well.

use etherparse::{IpNumber, PacketBuilder};
use quaver_abi::stamp::{Layer, LayerStamp, PacketStamps, StampClock};
use quaver_capture::digest::analyze;
use quaver_capture_analysis::flows::Tunnel;
use quaver_pcapng::{InterfaceFacts, LINK_ETHERNET, PacketRecord, PcapngWriter, SectionFacts};
use quaver_testbed::privileged::{Lack, skip};
use std::path::Path;
use std::process::Command;

const START_NS: i64 = 1_700_000_000_000_000_000;
const MS: i64 = 1_000_000;

fn rtp(number: u16, ssrc: u32) -> Vec<u8> {
    let head = [&[0x80, 0][..], &number.to_be_bytes(), &(160 * u32::from(number)).to_be_bytes()].concat();
    [&head[..], &ssrc.to_be_bytes(), &[0x55; 160]].concat()
}

fn ip(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(5000, port)
        .write(&mut packet, payload)
        .unwrap();
    packet
}

fn ethernet(ip: &[u8]) -> Vec<u8> {
    [&[2; 6][..], &[4; 6], &[8, 0], ip].concat()
}

/// An Ethernet frame whose outer packet carries `inside`.
fn outer(protocol: Option<IpNumber>, port: u16, inside: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64);
    let mut frame = Vec::new();
    match protocol {
        Some(protocol) => builder.write(&mut frame, protocol, inside).unwrap(),
        None => builder.udp(50_000, port).write(&mut frame, inside).unwrap(),
    }
    frame
}

fn write(path: &Path, mut packets: Vec<(i64, Vec<u8>)>) {
    packets.sort_by_key(|packet| packet.0);
    let mut writer =
        PcapngWriter::new(std::fs::File::create(path).unwrap(), &SectionFacts::default()).unwrap();
    let name = "eth0".to_owned();
    let facts =
        InterfaceFacts { name, link_type: LINK_ETHERNET, snap_length: 65_535, ..InterfaceFacts::default() };
    writer.interface(&facts).unwrap();
    for (after_ns, frame) in packets {
        let mut stamps = PacketStamps::default();
        let time_ns = START_NS + after_ns;
        stamps.set(Layer::Kernel, LayerStamp { clock: StampClock::Realtime, time_ns, bound_ns: 0, epoch: 0 });
        writer.packet(0, &PacketRecord::new(Layer::Kernel, &stamps, &frame, frame.len() as u32)).unwrap();
    }
    writer.finish().unwrap();
}

/// What tshark prints of the file, with port 6000 and above read as RTP.
fn tshark(path: &Path, arguments: &[&str]) -> Option<String> {
    let found = Command::new("tshark")
        .args(["-n", "-d", "udp.port==6000-6002,rtp", "-r"])
        .arg(path)
        .args(arguments)
        .output();
    let Ok(output) = found else {
        skip("RTP in a file that tshark reads", Lack::Installed("tshark"));
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn streams_inside_tunnels_are_those_that_tshark_finds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tunnels.pcapng");
    type Wrap = fn(&[u8]) -> Vec<u8>;
    let ways: [(Tunnel, Wrap); 6] = [
        (Tunnel::Vxlan(4_660), |ip| {
            outer(None, 4789, &[&[8, 0, 0, 0, 0, 0x12, 0x34, 0][..], &ethernet(ip)].concat())
        }),
        (Tunnel::Geneve(7), |ip| {
            let head = [1, 0, 0x65, 0x58, 0, 0, 7, 0, 0x01, 0x02, 3, 0];
            outer(None, 6081, &[&head[..], &ethernet(ip)].concat())
        }),
        (Tunnel::Gre(None), |ip| outer(Some(IpNumber::GRE), 0, &[&[0, 0, 8, 0][..], ip].concat())),
        (Tunnel::Gre(Some(9)), |ip| {
            let head = [0x30, 0, 0x65, 0x58, 0, 0, 0, 9, 0, 0, 0, 1];
            outer(Some(IpNumber::GRE), 0, &[&head[..], &ethernet(ip)].concat())
        }),
        (Tunnel::Ip, |ip| outer(Some(IpNumber::IPV4), 0, ip)),
        (Tunnel::Ip, |ip| {
            let inner = outer(Some(IpNumber::IPV4), 0, ip).split_off(14);
            outer(None, 4789, &[&[8, 0, 0, 0, 0, 0, 1, 0][..], &ethernet(&inner)].concat())
        }),
    ];
    // Number 7 + n of stream n is lost.
    let packets = ways.iter().enumerate().flat_map(|(n, (_, wrap))| {
        let numbers = (0..50u16).filter(move |number| usize::from(*number) != 7 + n);
        numbers.map(move |number| {
            (20 * MS * i64::from(number) + n as i64, wrap(&ip(6000, &rtp(number, n as u32 + 1))))
        })
    });
    write(&path, packets.collect());
    let figures = analyze(&path, None).unwrap().figures;
    let mut found: Vec<_> = figures
        .flows
        .iter()
        .map(|flow| {
            (flow.key.id.unwrap(), flow.key.tunnel.unwrap(), flow.packets, flow.sequence.unwrap().lost)
        })
        .collect();
    found.sort_unstable();
    let expected: Vec<_> =
        ways.iter().enumerate().map(|(n, (tunnel, _))| (n as u32 + 1, *tunnel, 49, 1)).collect();
    assert_eq!(found, expected);
    let Some(text) = tshark(&path, &["-q", "-z", "rtp,streams"]) else { return };
    for n in 1..=6 {
        let line = text
            .lines()
            .find(|line| line.contains(&format!("0x{n:08X}")))
            .unwrap_or_else(|| panic!("{text}"));
        let words: Vec<&str> = line.split_whitespace().collect();
        let codec = words.iter().position(|word| *word == "g711U").unwrap_or_else(|| panic!("{line}"));
        assert_eq!(words[codec + 1..codec + 3], ["49", "1"], "{line}");
    }
}

#[test]
fn a_stream_by_two_paths_is_a_pair_whose_halves_tshark_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pair.pcapng");
    let by = |port: u16, late_ns: i64, lost: std::ops::Range<u16>| {
        (1_000..1_600u16)
            .enumerate()
            .filter(move |(_, n)| !lost.contains(n))
            .map(move |(at, n)| (20 * MS * at as i64 + late_ns, ethernet(&ip(port, &rtp(n, 77)))))
    };
    write(&path, by(6000, 0, 1_010..1_020).chain(by(6002, 3 * MS, 1_015..1_022)).collect());
    let figures = analyze(&path, None).unwrap().figures;
    let [pair] = &figures.pairs[..] else { panic!("{:?}", figures.pairs) };
    assert_eq!((pair.expected, pair.both, pair.only_first, pair.only_second, pair.lost), (600, 588, 5, 2, 5));
    assert_eq!(pair.first.destination_port, Some(6002), "the one with most packets");
    assert_eq!(pair.difference.unwrap().p50_ns, -3 * MS);
    let Some(text) = tshark(&path, &["-q", "-z", "rtp,streams"]) else { return };
    for (port, counts) in [("6000", ["590", "10"]), ("6002", ["593", "7"])] {
        let line = text.lines().find(|line| line.contains(port)).unwrap_or_else(|| panic!("{text}"));
        let words: Vec<&str> = line.split_whitespace().collect();
        let codec = words.iter().position(|word| *word == "g711U").unwrap_or_else(|| panic!("{line}"));
        assert_eq!(words[codec + 1..codec + 3], counts, "{line}");
    }
}
