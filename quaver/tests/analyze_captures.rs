//! `quaver analyze` of captures: of packets that we made up, so that every figure is known, and of tcpdump's.

use quaver_abi::stamp::{Layer, LayerStamp, PacketStamps, StampClock};
use quaver_abi::wire::jitlat::TestPacket;
use quaver_arrivals::gapped::{Datum, Scan, VideoFormat, VideoPacket, video_timing};
use quaver_arrivals::rtp::RtpKind;
use quaver_capture::digest::analyze;
use quaver_capture_analysis::flows::{DelayKind, FlowKind};
use quaver_host::netns::Lab;
use quaver_pcapng::{
    InterfaceFacts, InterfaceStatistics, LINK_ETHERNET, PacketDirection, PacketRecord, PcapngWriter,
    SectionFacts,
};
use quaver_testbed::privileged::privileged;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const START_NS: i64 = 1_700_000_000_000_000_000;
const MS: i64 = 1_000_000;

/// A datagram on its way from 10.0.0.1:5000, in an Ethernet frame.
fn frame(port: u16, payload: &[u8]) -> Vec<u8> {
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(5000, port);
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).unwrap();
    frame
}

fn rtp(payload_type: u8, marker: bool, number: u64, timestamp: u32, ssrc: u32, media: &[u8]) -> Vec<u8> {
    let mut octets = vec![0x80, payload_type | u8::from(marker) << 7];
    octets.extend((number as u16).to_be_bytes());
    octets.extend(timestamp.to_be_bytes());
    octets.extend(ssrc.to_be_bytes());
    octets.extend(media);
    octets
}

/// Captured packets: the kernel's stamp after the start, and the frame; the application's stamp is 5 us and `late` later.
fn write(path: &Path, packets: impl IntoIterator<Item = (i64, Vec<u8>)>) {
    let section = SectionFacts {
        application: Some("quaver 0.1.0".to_owned()),
        os: Some("Linux".to_owned()),
        ..SectionFacts::default()
    };
    let mut writer = PcapngWriter::new(std::fs::File::create(path).unwrap(), &section).unwrap();
    let facts = InterfaceFacts {
        name: "eth0".to_owned(),
        link_type: LINK_ETHERNET,
        snap_length: 96,
        filter: Some("udp".to_owned()),
        ..InterfaceFacts::default()
    };
    writer.interface(&facts).unwrap();
    let mut captured = 0;
    for (after_ns, frame) in packets {
        let mut stamps = PacketStamps::default();
        let time_ns = START_NS + after_ns;
        let stamp = |clock, time_ns, bound_ns| LayerStamp { clock, time_ns, bound_ns, epoch: 0 };
        stamps.set(Layer::Kernel, stamp(StampClock::Realtime, time_ns, 40));
        let application_ns = time_ns + 5_000 + captured % 10;
        stamps.set(Layer::Application, stamp(StampClock::Cycles, application_ns, 60));
        let kept = &frame[..frame.len().min(96)];
        let record = PacketRecord {
            direction: PacketDirection::Inbound,
            ..PacketRecord::new(Layer::Kernel, &stamps, kept, frame.len() as u32)
        };
        writer.packet(0, &record).unwrap();
        captured += 1;
    }
    let counted = InterfaceStatistics {
        taken_ns: START_NS,
        received: Some(captured as u64 + 3),
        dropped_by_interface: Some(0),
        accepted_by_filter: Some(captured as u64 + 3),
        dropped_by_os: Some(3),
        delivered: Some(captured as u64),
        comment: Some("3 packets found the ring full".to_owned()),
        run_facts: Some(serde_json::json!({"tai_offset_s": 37, "notes": ["the clock stepped"]})),
        ..InterfaceStatistics::default()
    };
    writer.statistics(0, &counted).unwrap();
    writer.finish().unwrap();
}

/// Audio of 8 kHz, a packet each 20 ms, from number 65,500 on: 17 is lost, 30 comes twice, 41 after 43. Between them test
/// packets of a path each 10 ms, whose delay is 250 us and one more microsecond each.
fn mixture() -> Vec<(i64, Vec<u8>)> {
    let order = (0..100u64).filter(|n| *n != 17 && *n != 41).flat_map(|n| match n {
        30 => vec![30, 30],
        43 => vec![43, 41],
        n => vec![n],
    });
    let audio = order.enumerate().map(|(place, n)| {
        let place = place as i64;
        let audio = rtp(0, n == 0, 65_500 + n, 160 * n as u32, 0xcafe, &[0; 160]);
        (20 * MS * place + 1_000 * (place % 3), frame(6_000, &audio))
    });
    let probes = (0..200i64).map(|n| {
        let sent_ns = START_NS + 10 * MS * n;
        let test = TestPacket { tx_real_time_ns: sent_ns, tx_seq: n as i32 }.to_octets();
        (10 * MS * n + 250_000 + 1_000 * n, frame(2_667, &[&test[..], &[0; 68]].concat()))
    });
    let mut packets: Vec<_> = audio.chain(probes).collect();
    packets.sort_by_key(|packet| packet.0);
    packets
}

#[test]
fn every_figure_of_known_packets() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mixture.pcapng");
    write(&path, mixture());
    let summary = analyze(&path, None).unwrap();
    let figures = &summary.figures;
    assert_eq!((summary.layer, summary.complete, summary.format), ("kernel", true, "pcapng"));
    assert_eq!((figures.packets, figures.flows.len(), figures.without_network.packets), (300, 2, 0));
    assert_eq!(figures.first_ns, Some(START_NS));
    let interface = &summary.interfaces[0];
    assert_eq!((interface.in_file, interface.cut, interface.resolution_ns), (300, 300, 1));
    assert_eq!((interface.received, interface.dropped_by_os, interface.dropped()), (Some(303), Some(3), 3));
    assert!(
        summary.warnings[0].starts_with("3 packets were dropped while capturing"),
        "{:?}",
        summary.warnings
    );
    assert_eq!(summary.warnings.last().unwrap(), "noted while capturing: the clock stepped");

    let probe = &figures.flows[0];
    assert_eq!(
        (probe.key.kind, probe.packets, probe.key.destination_port),
        (FlowKind::Probe, 200, Some(2_667))
    );
    let delay = probe.delay.as_ref().unwrap();
    assert_eq!((delay.kind, delay.figures.min_delay_ns), (DelayKind::OneWay, Some(250_000)));
    assert_eq!((delay.figures.max_delay_ns, delay.figures.max_pdv_ns), (Some(449_000), Some(199_000)));
    assert_eq!(probe.delta_t.unwrap().max_ns, 10 * MS + 1_000);

    let audio = &figures.flows[1];
    assert_eq!((audio.key.kind, audio.key.id, audio.packets), (FlowKind::Rtp, Some(0xcafe), 100));
    let counts = audio.sequence.unwrap();
    assert_eq!((counts.expected, counts.unique, counts.lost), (100, 99, 1));
    assert_eq!((counts.duplicate, counts.reordered, counts.longest_loss_period), (1, 1, 1));
    let rtp = audio.rtp.as_ref().unwrap();
    assert_eq!((rtp.clock.hz, rtp.arrival.as_str(), rtp.sequence.lost), (8_000, "kernel", 1));
    assert_eq!((rtp.sequence.duplicate, rtp.sequence.reordered), (1, 1));
    // Bytes on the wire, not those kept.
    assert_eq!(audio.octets, 100 * (14 + 20 + 8 + 12 + 160));

    let layers: Vec<_> = figures
        .layers
        .iter()
        .map(|found| (found.layer, found.clock, found.packets, found.bound.unwrap().max_ns))
        .collect();
    let expected =
        [(Layer::Kernel, StampClock::Realtime, 300, 40), (Layer::Application, StampClock::Cycles, 300, 60)];
    assert_eq!(layers, expected);
    let stage = &figures.stages[0].time;
    assert_eq!((figures.stages.len(), stage.count, stage.min_ns, stage.max_ns), (1, 300, 5_000, 5_009));

    // By the stamps of another layer the same packets have other times.
    let application = analyze(&path, Some(Layer::Application)).unwrap();
    assert_eq!(application.layer, "application");
    assert_eq!(application.figures.first_ns, Some(START_NS + 5_000));
}

#[test]
fn the_page() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mixture.pcapng");
    write(&path, mixture());
    let summary = analyze(&path, None).unwrap();
    insta::assert_snapshot!(quaver_view::plain(&quaver_capture::view::document(&summary)));
}

/// Uncompressed video by ST 2110-20: frames of 540 packets, 30 a second, evenly spread, each packet a line.
fn video() -> Vec<(i64, u64, u32, bool, Vec<u8>)> {
    let frame_ns = 33_366_667;
    (0..4 * 540u64)
        .map(|n| {
            let (of_frame, line) = (n / 540, n % 540);
            let timestamp = 3_003 * of_frame as u32;
            let marker = line == 539;
            // Extended number; then length, line and offset of the one segment (RFC 4175).
            let head = [0, 0, 0x04, 0xb0, (line >> 8) as u8, line as u8, 0, 0];
            let media = [&head[..], &[0; 1_200]].concat();
            let at_ns = frame_ns * of_frame as i64 + line as i64 * frame_ns / 540;
            (at_ns, n, timestamp, marker, rtp(96, marker, n, timestamp, 5, &media))
        })
        .collect()
}

#[test]
fn video_is_judged_as_a_live_stream_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("video.pcapng");
    let stream = video();
    write(&path, stream.iter().map(|(at_ns, _, _, _, octets)| (*at_ns, frame(6_000, octets))));
    let summary = analyze(&path, None).unwrap();
    let rtp = summary.figures.flows[0].rtp.as_ref().unwrap();
    let found = rtp.video.as_ref().unwrap();
    assert_eq!(
        (rtp.kind, found.height, found.frame_rate),
        (RtpKind::St2110_20, Some(540), Some((30_000, 1_001)))
    );
    let packets: Vec<VideoPacket> = stream
        .iter()
        .map(|(at_ns, number, timestamp, marker, _)| VideoPacket {
            sequence: *number,
            arrived_ns: START_NS + at_ns,
            rtp_timestamp: *timestamp,
            marker: *marker,
            second_field: false,
        })
        .collect();
    let format = VideoFormat::new((30_000, 1_001), Scan::Progressive, 540, 540, 1_500).unwrap();
    assert_eq!(found.observed, Some(video_timing(&packets, &format, Datum::Observed)));
    // The facts of the run say how far TAI is ahead.
    let in_tai: Vec<VideoPacket> = packets
        .iter()
        .map(|packet| VideoPacket { arrived_ns: packet.arrived_ns + 37_000_000_000, ..*packet })
        .collect();
    let epoch = video_timing(&in_tai, &format, Datum::SmpteEpoch { offset_ns: None });
    assert_eq!((found.epoch.as_ref(), found.kernel_tai_offset_s), (Some(&epoch), Some(37)));
}

fn quaver(arguments: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.arg("analyze").arg(file).args(arguments).env("NO_COLOR", "1").output().unwrap()
}

#[test]
fn bad_files_end_with_a_sentence_and_status_5() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let whole = directory.path().join("whole.pcapng");
    write(&whole, mixture());
    let whole = std::fs::read(&whole).unwrap();
    for (octets, status, sentence) in [
        (&whole[..20], 5, "its header cannot be read"),
        (&[0xd4, 0xc3, 0xb2, 0xa1, 0, 0][..], 5, "its header cannot be read: it is cut"),
        (&b"GIF89a"[..], 5, "no capture (pcapng, pcap or snoop)"),
        (&b""[..], 5, "no capture (pcapng, pcap or snoop)"),
        (&whole[..5_000], 0, ""),
        (&whole[..61], 0, ""),
    ] {
        std::fs::write(&path, octets).unwrap();
        let output = quaver(&[], &path);
        let (page, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains(sentence), "{said}");
        if status == 0 {
            assert!(page.contains("was not read to its end") && page.contains("the file was cut"), "{page}");
        }
    }
}

#[test]
fn options_are_judged_by_what_the_capture_has() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mixture.pcapng");
    write(&path, mixture());
    let output = quaver(&["--layer", "xdp"], &path);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("no packet has a stamp of layer xdp; choose one of: kernel, application"),
        "{said}"
    );
    assert_eq!(quaver(&["--late", "5us"], &path).status.code(), Some(2));
    assert_eq!(quaver(&["--layer", "wire"], &path).status.code(), Some(2));
    let output = quaver(&["--json", "--fail-if", "backwards > 0"], &path);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (summary["schema"].as_str(), summary["packets"].as_u64()),
        (Some("quaver.capture/1"), Some(300))
    );
    assert_eq!(summary["flows"][1]["id"].as_u64(), Some(0xcafe));
    assert_eq!(summary["stages"][0]["from"].as_str(), Some("kernel"));
    assert_eq!(quaver(&["--fail-if", "packets < 301"], &path).status.code(), Some(1));
}

#[test]
fn a_compressed_capture_is_read_as_it_is_and_other_compressed_files_are_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mixture");
    write(&path, mixture());
    let plain = analyze(&path, None).unwrap();
    let note = directory.path().join("note");
    std::fs::write(&note, "no packets").unwrap();
    assert!(Command::new("gzip").args([&path, &note]).status().unwrap().success());
    let output = quaver(&["--json"], &path.with_extension("gz"));
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let told = |name: &str| summary[name].as_str().unwrap_or_default().to_owned();
    assert_eq!((told("format"), told("compression")), ("pcapng".to_owned(), "gzip".to_owned()));
    let figures = serde_json::to_value(&plain.figures).unwrap();
    figures
        .as_object()
        .unwrap()
        .iter()
        .for_each(|(name, figure)| assert_eq!(&summary[name], figure, "{name}"));
    assert_eq!((plain.compression, plain.figures.packets), (None, 300));
    let page = quaver(&[], &path.with_extension("gz"));
    assert!(String::from_utf8_lossy(&page.stdout).contains("pcapng, gzip, by quaver"));
    let other = quaver(&[], &note.with_extension("gz"));
    let said = String::from_utf8_lossy(&other.stderr);
    assert!(other.status.code() == Some(5) && said.contains("no capture"), "{said}");
}

/// What tcpdump of `interface` wrote of a known stream through a lab of this test.
fn tcpdump(lab: &Lab, interface: &str, path: &Path) {
    const SENT: u64 = 400;
    let mut child = lab
        .sink
        .within(|| {
            Command::new("tcpdump")
                .args(["-i", interface, "--time-stamp-precision=nano", "-c", "399", "-w"])
                .arg(path)
                .arg("udp and dst port 6000")
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("listening on")), "tcpdump did not begin");
    let to = (lab.sink.ipv4, 6_000);
    let (own, from) = (lab.source.ipv4, &lab.source);
    from.within(|| {
        let socket = UdpSocket::bind((own, 5_000)).unwrap();
        for n in (0..SENT).filter(|n| ![50, 51].contains(n)) {
            let audio = rtp(0, false, n, 160 * n as u32, 0xbeef, &[0; 160]);
            socket.send_to(&audio, to).unwrap();
            if n == 70 {
                socket.send_to(&audio, to).unwrap();
            }
        }
    })
    .unwrap();
    // So many packets as were sent: then it ends by itself.
    assert!(said.all(|line| line.is_ok()) && child.wait().unwrap().success());
}

#[test]
fn captures_of_tcpdump_from_an_interface_and_from_all() {
    if !privileged("captures_of_tcpdump_from_an_interface_and_from_all") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("theirs.pcap");
    let lab = Lab::create().unwrap();
    // A listener, so that no answer comes back.
    let listener = lab.sink.within(|| UdpSocket::bind((lab.sink.ipv4, 6_000))).unwrap().unwrap();
    for interface in [lab.sink.interface.as_str(), "any"] {
        tcpdump(&lab, interface, &path);
        let summary = analyze(&path, None).unwrap();
        assert_eq!((summary.format, summary.complete), ("pcap, nanoseconds", true));
        let flow = &summary.figures.flows[0];
        assert_eq!(
            (summary.figures.flows.len(), flow.key.kind, flow.key.id),
            (1, FlowKind::Rtp, Some(0xbeef))
        );
        let counts = flow.sequence.unwrap();
        assert_eq!((counts.expected, counts.unique, counts.lost), (400, 398, 2), "{interface}");
        assert_eq!((counts.duplicate, counts.reordered, counts.loss_periods), (1, 0, 1));
        assert_eq!(
            (flow.key.source.to_string(), flow.payload_octets),
            (lab.source.ipv4.to_string(), 399 * 172)
        );
    }
    drop(listener);
}
