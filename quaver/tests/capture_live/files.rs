//! What `quaver capture` keeps and where it puts it: filters, limits, files in turn, pipes, figures of flows.

use super::support::*;
use quaver_abi::stamp::Layer;
use quaver_abi::wire::stream::MAGIC;
use quaver_host::netns::Lab;
use quaver_pcapng::read::CaptureReader;
use rustix::process::Signal;
use serde_json::Value;
use std::fs::File;
use std::io::{BufReader, Read};
use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn a_filter_keeps_out_and_the_rest_is_told() {
    if !privileged("a_filter_keeps_out_and_the_rest_is_told") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some.pcapng");
    let file = path.to_str().unwrap();
    let options = ["-o", file, "--json", "--layers", "none", "-s", "60", "udp", "dst", "port", "7"];
    let capture = Capture::start(&lab.sink, &options);
    assert!(capture.heard.concat().contains("filter `udp dst port 7`"));
    send_to(&lab, 8, std::iter::repeat_n(200, 300));
    send_to(&lab, 7, std::iter::repeat_n(100, 200));
    let summary = capture.end();
    assert_accounts(&summary);
    assert_eq!((number(&summary, "/seen"), number(&summary, "/captured")), (200, 200));
    assert!(number(&summary, "/interfaces/0/kept_out_by_filter") >= 300, "{summary}");
    let (packets, _) = read(&path);
    assert_eq!(packets.len(), 200);
    for packet in &packets {
        assert_eq!((packet.data.len(), packet.original_length), (60, 100));
        assert_eq!(packet.data[36..38], 7u16.to_be_bytes());
        assert!(packet.stamps.get(Layer::Application).is_some() && packet.stamps.get(Layer::Tc).is_none());
    }
}

#[test]
fn one_filter_for_all_interfaces_and_each_tells_its_own() {
    if !privileged("one_filter_for_all_interfaces_and_each_tells_its_own") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("both.pcapng");
    let file = path.to_str().unwrap();
    let options = ["-i", "lo", "-o", file, "--json", "--direction", "in", "--filter", "udp dst port 9"];
    let capture = Capture::start(&lab.sink, &options);
    let sent = send(&lab, std::iter::repeat_n(100, 50));
    let summary = capture.end();
    assert_accounts(&summary);
    assert_eq!(number(&summary, "/interfaces/0/captured"), sent);
    assert_eq!(
        (number(&summary, "/interfaces/1/captured"), summary["interfaces"][1]["name"].as_str()),
        (0, Some("lo"))
    );
    assert_eq!(read(&path).0.len() as u64, sent);
    let any = |options: &[&str]| {
        let mut command = Command::new(QUAVER);
        command.args(["capture", "-i", "any", "-o", file, "--json", "--direction", "in"]).args(options);
        command
    };
    let capture = Capture::spawn(&lab.sink, any(&["--filter", "udp dst port 9"]));
    let sent = send(&lab, std::iter::repeat_n(100, 50));
    let summary = capture.end();
    assert_accounts(&summary);
    assert_eq!((number(&summary, "/captured"), number(&summary, "/interfaces/0/link_type")), (sent, 276));
    // LINUX_SLL2: 20 bytes in place of the 14 of Ethernet.
    assert_eq!(read(&path).0.iter().filter(|packet| packet.data.len() == 106).count() as u64, sent);
    let twice = any(&["-i", "lo"]).output().unwrap();
    let said = String::from_utf8_lossy(&twice.stderr);
    assert!(twice.status.code() == Some(2) && said.contains("packets would appear twice"), "{said}");
}

#[test]
fn files_in_turn_the_latest_are_kept_and_hold_each_packet_once() {
    if !privileged("files_in_turn_the_latest_are_kept_and_hold_each_packet_once") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ring.pcapng");
    let file = path.to_str().unwrap();
    let capture = |more: &[&str]| {
        let mut options = vec!["-o", file, "--json", "--direction", "in", "--file-size", "100kB"];
        options.extend(more);
        options.extend(["--filter", "udp dst port 9"]);
        let capture = Capture::start(&lab.sink, &options);
        let sent = send(&lab, std::iter::repeat_n(500, 1_000));
        let summary = capture.end();
        assert_eq!(number(&summary, "/captured"), sent);
        let files: Vec<String> = serde_json::from_value(summary["files"].clone()).unwrap();
        files
    };
    let all = capture(&[]);
    let numbers = |files: &[String]| {
        let packets: Vec<_> = files.iter().flat_map(|file| read(file.as_ref()).0).collect();
        let number = |data: &[u8]| u64::from_be_bytes(data[HEADERS..HEADERS + 8].try_into().unwrap());
        packets.iter().map(|packet| number(&packet.data)).collect::<Vec<_>>()
    };
    assert!(all.len() > 4, "{all:?}");
    assert_eq!(numbers(&all), (0..1_000).collect::<Vec<_>>());
    assert!(all.iter().all(|file| read(file.as_ref()).1 && std::fs::metadata(file).unwrap().len() < 103_000));
    all.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    let kept = capture(&["--ring-files", "2"]);
    let there = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!((kept.len(), there), (2, 2));
    let last = numbers(&kept);
    assert_eq!(last, (1_000 - last.len() as u64..1_000).collect::<Vec<_>>());
}

#[test]
fn limits_end_it_exactly() {
    if !privileged("limits_end_it_exactly") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("limit.pcapng");
    let file = path.to_str().unwrap();
    let capture = Capture::start(&lab.sink, &["-o", file, "--json", "--count", "123", "udp dst port 9"]);
    send(&lab, std::iter::repeat_n(100, 500));
    let summary = capture.summary();
    assert_accounts(&summary);
    assert_eq!((number(&summary, "/captured"), summary["ended_by"].as_str()), (123, Some("limit")));
    assert_eq!(read(&path).0.len(), 123);
    // An end that was asked for and did not come makes Ctrl-C an interruption, and the packets are kept.
    let capture = Capture::start(&lab.sink, &["-o", file, "--count", "1000", "udp dst port 9"]);
    send(&lab, std::iter::repeat_n(100, 10));
    capture.signal(Signal::INT);
    assert_eq!(capture.wait().0.code(), Some(130));
    assert_eq!(read(&path).0.len(), 10);
    let capture = Capture::start(&lab.sink, &["-o", file, "--for", "300ms", "--json"]);
    assert_eq!(capture.summary()["ended_by"].as_str(), Some("time"));
}

#[test]
fn a_pipe_gets_packets_as_they_come_and_may_go_away() {
    if !privileged("a_pipe_gets_packets_as_they_come_and_may_go_away") {
        return;
    }
    let lab = Lab::create().unwrap();
    let mut capture = Capture::start(&lab.sink, &["-w", "-", "--direction", "in", "udp dst port 9"]);
    let mut pipe = capture.child.stdout.take().unwrap();
    let mut octets = vec![0; 12];
    pipe.read_exact(&mut octets).unwrap();
    assert_eq!((&octets[..4], &octets[8..]), (&[0x0a, 0x0d, 0x0d, 0x0a][..], &[0x4d, 0x3c, 0x2b, 0x1a][..]));
    send(&lab, std::iter::repeat_n(1_000, 10));
    // The packets arrive without any end: ten of them are longer than what stands before them.
    octets.resize(10_000, 0);
    pipe.read_exact(&mut octets).unwrap();
    drop(pipe);
    send(&lab, std::iter::repeat_n(1_000, 200));
    let (status, _, rest) = capture.wait();
    assert_eq!((status.code(), rest.contains("roken pipe")), (Some(0), false), "{rest}");
}

#[test]
fn a_pipe_that_nobody_reads_does_not_make_it_deaf() {
    if !privileged("a_pipe_that_nobody_reads_does_not_make_it_deaf") {
        return;
    }
    let lab = Lab::create().unwrap();
    let mut capture = Capture::start(&lab.sink, &["-w", "-", "--direction", "in", "udp dst port 9"]);
    // More than a pipe holds.
    send(&lab, std::iter::repeat_n(1_400, 500));
    capture.signal(Signal::INT);
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = capture.child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > Duration::from_secs(60) {
            capture.child.kill().unwrap();
            panic!("it did not hear the interrupt");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let (_, _, rest) = capture.wait();
    assert_eq!(status.code(), Some(130), "{rest}");
    assert!(rest.contains("the output takes no more"), "{rest}");
}

#[test]
fn figures_of_flows_as_they_are_captured() {
    if !privileged("figures_of_flows_as_they_are_captured") {
        return;
    }
    let lab = Lab::create().unwrap();
    let options =
        ["--qos", "--layer", "xdp", "--json", "--direction", "in", "--count", "900", "udp dst port 9"];
    let capture = Capture::start(&lab.sink, &options);
    let source = lab
        .source
        .within(|| {
            let to = format!("{}:{PORT}", lab.sink.ipv4);
            let words = ["source", &to, "--period", "100us", "--count", "1000", "--quiet", "--size", "200"];
            Command::new(QUAVER).args(words).output().unwrap()
        })
        .unwrap();
    assert!(source.status.success(), "{}", String::from_utf8_lossy(&source.stderr));
    let summary = capture.summary();
    assert_accounts(&summary);
    let flow = &summary["flows"]["flows"][0];
    assert_eq!((number(flow, "/packets"), flow["kind"].as_str()), (900, Some("stream")));
    assert_eq!((number(flow, "/sequence/lost"), number(flow, "/sequence/reordered")), (0, 0));
    assert!(flow["delay"].is_object() && flow["delta_t"]["p50_ns"].is_i64(), "{flow}");
    assert_eq!(number(flow, "/unstamped"), 0);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |words: &[&str]| {
        let output = Command::new(QUAVER).arg("capture").args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["-o", "x"]).contains("name an interface"));
    assert!(refused(&["-i", "lo"]).contains("-o FILE"));
    assert!(refused(&["-i", "nosuch0", "-o", "x"]).contains("there is no interface nosuch0"));
    assert!(refused(&["-i", "lo", "-o", "x", "--ring-files", "2"]).contains("--file-size"));
    assert!(refused(&["-i", "lo", "-o", "-", "--file-size", "1MB"]).contains("standard output"));
    assert!(refused(&["-i", "lo", "-o", "x", "--cores", "capture=0,write=0"]).contains("a CPU of its own"));
    assert!(refused(&["-i", "lo", "-o", "x", "--cores", "capture=9999"]).contains("are allowed"));
    assert!(refused(&["-i", "lo", "-o", "x", "--cores", "softirq=9999"]).contains("are online"));
    assert!(refused(&["-i", "any", "-o", "x", "--cores", "softirq=0"]).contains("in place of `any`"));
    let user = refused(&["-i", "lo", "-o", "x", "--user", "nobody", "--cores", "softirq=0"]);
    assert!(user.contains("could not restore the setting"), "{user}");
    assert!(refused(&["-i", "lo", "-o", "x", "--buffer", "64"]).contains("no unit"));
    let buffer = refused(&["-i", "lo", "-o", "x", "--buffer", "900000GiB"]);
    assert!(buffer.contains("rings of") && buffer.contains("do not fit"), "{buffer}");
    let filter = refused(&["-i", "lo", "-o", "x", "udp", "porf", "7"]);
    assert!(filter.contains("`udp porf 7`") && filter.contains("syntax error"), "{filter}");
}

#[test]
fn figures_by_a_stamp_that_no_packet_has_are_refused() {
    if !privileged("figures_by_a_stamp_that_no_packet_has_are_refused") {
        return;
    }
    for (layer, why) in [("nic", "has no hardware that stamps"), ("tc", "it was not asked for (--layers)")] {
        let layers = if layer == "nic" { "nic" } else { "none" };
        let words = ["capture", "-i", "lo", "--qos", "--layer", layer, "--layers", layers];
        let output = Command::new(QUAVER).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(3) && said.contains(why), "{said}");
    }
}

/// What each file of a ring tells of its only interface, once it is read: delivered, dropped by the system, sentence.
fn told(file: &str) -> (u64, u64, String) {
    let mut reader = CaptureReader::new(BufReader::new(File::open(file).unwrap())).unwrap();
    let (mut packets, mut first_ns) = (0, None);
    while let Some(packet) = reader.next_packet().unwrap() {
        packets += 1;
        first_ns = first_ns.or(packet.time_ns);
    }
    let counted = reader.interfaces().next().unwrap().statistics.clone().unwrap();
    assert!(counted.run_facts.is_some_and(|facts| facts["pipeline"] == "batch"), "{file}");
    assert_eq!(counted.delivered, Some(packets));
    assert!(counted.start_ns < counted.end_ns);
    assert!(first_ns.is_none_or(|first_ns| counted.start_ns <= Some(first_ns)), "{file}");
    assert!(
        counted.received >= counted.accepted_by_filter && counted.accepted_by_filter >= counted.delivered
    );
    (packets, counted.dropped_by_os.unwrap(), counted.comment.unwrap())
}

#[test]
fn each_file_tells_its_own_stretch_and_all_add_up_to_what_was_seen() {
    if !privileged("each_file_tells_its_own_stretch_and_all_add_up_to_what_was_seen") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ring.pcapng");
    let file = path.to_str().unwrap();
    let options =
        ["-o", file, "--json", "--direction", "in", "--file-size", "20kB", "--buffer", "64KiB", "-s", "600"];
    let capture = Capture::start(&lab.sink, &[&options[..], &["udp dst port 9"]].concat());
    let sent = (0..3).map(|_| {
        // A reader that is stopped is as slow as can be.
        capture.signal(Signal::STOP);
        let sent = send(&lab, std::iter::repeat_n(500, 500));
        capture.signal(Signal::CONT);
        sent + send(&lab, std::iter::repeat_n(500, 50))
    });
    let sent: u64 = sent.sum();
    let summary = capture.end();
    assert_accounts(&summary);
    let dropped = number(&summary, "/interfaces/0/dropped/ring");
    assert!(dropped > 500, "{summary}");
    let files: Vec<String> = serde_json::from_value(summary["files"].clone()).unwrap();
    let told: Vec<_> = files.iter().map(|file| told(file)).collect();
    // How many depends on how much the reader takes between two stops.
    assert!(told.len() > 1, "{told:?}");
    let sum = told.iter().map(|(captured, dropped, _)| captured + dropped).sum::<u64>();
    assert_eq!((sum, number(&summary, "/seen")), (sent, sent));
    assert_eq!(told.iter().map(|(_, dropped, _)| dropped).sum::<u64>(), dropped);
    for (captured, dropped, sentence) in told {
        let seen = captured + dropped;
        let mut expected = format!("seen {seen} = captured {captured}");
        if dropped > 0 {
            expected += &format!(" + ring full {dropped}");
        }
        assert_eq!(sentence, expected);
    }
}

/// Numbers of 0 to 399 as they are sent: eleven are missing in nine stretches, 100 comes twice, 300 after 301.
fn with_known_loss() -> Vec<u16> {
    let missing = |number: &u16| number % 50 == 25 || (200..203).contains(number);
    let mut numbers: Vec<u16> = (0..400).filter(|number| !missing(number)).collect();
    let place = |numbers: &[u16], wanted| numbers.iter().position(|number| *number == wanted).unwrap();
    let twice = place(&numbers, 100);
    numbers.insert(twice, 100);
    let late = place(&numbers, 300);
    numbers.swap(late, late + 1);
    numbers
}

fn assert_known_loss(flow: &Value) {
    let of = |figure: &str| number(flow, &format!("/sequence/{figure}"));
    assert_eq!((number(flow, "/packets"), number(flow, "/unstamped")), (390, 0), "{flow}");
    assert_eq!((of("expected"), of("unique"), of("lost")), (400, 389, 11), "{flow}");
    assert_eq!((of("loss_periods"), of("longest_loss_period")), (9, 3), "{flow}");
    assert_eq!((of("duplicate"), of("reordered"), of("beyond_window")), (1, 1, 0), "{flow}");
    // The first two of successive numbers are there, so this has figures however fast they came.
    assert!(flow["delta_t"]["p50_ns"].is_i64(), "{flow}");
}

#[test]
fn rtp_and_our_own_stream_with_known_loss_are_told_to_the_packet() {
    if !privileged("rtp_and_our_own_stream_with_known_loss_are_told_to_the_packet") {
        return;
    }
    let lab = Lab::create().unwrap();
    let filter = "udp dst port 7 or udp dst port 9";
    let capture = Capture::start(&lab.sink, &["--qos", "--json", "--direction", "in", "--filter", filter]);
    let sent = lab.source.within(|| {
        // On one CPU, for the kernel keeps a queue for each, and packets of two of them may change places.
        let here = rustix::thread::sched_getcpu();
        let mut only = rustix::thread::CpuSet::new();
        only.set(here);
        rustix::thread::sched_setaffinity(None, &only).unwrap();
        let socket = UdpSocket::bind((lab.source.ipv4, 0)).unwrap();
        let numbers = with_known_loss();
        for number in &numbers {
            // RTP (RFC 3550, section 5.1): 20 ms of PCMU in each packet, numbers over their wrap.
            let mut rtp = vec![0x80, 0];
            rtp.extend(number.wrapping_add(65_400).to_be_bytes());
            rtp.extend((u32::from(*number) * 160).to_be_bytes());
            rtp.extend(0x1234_5678u32.to_be_bytes());
            rtp.resize(12 + 160, 0x5a);
            socket.send_to(&rtp, (lab.sink.ipv4, 9)).unwrap();
            // Our own header: stream, number, deadline, sent.
            let mut ours = MAGIC.to_vec();
            ours.extend(77u32.to_be_bytes());
            ours.extend(u64::from(*number).to_be_bytes());
            ours.extend(0i64.to_be_bytes());
            ours.extend((i64::from(*number) * 1_000_000).to_be_bytes());
            socket.send_to(&ours, (lab.sink.ipv4, 7)).unwrap();
        }
        2 * numbers.len() as u64
    });
    let summary = capture.end();
    assert_accounts(&summary);
    assert_eq!((number(&summary, "/captured"), sent.unwrap()), (780, 780));
    let flows = summary["flows"]["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 2, "{flows:?}");
    let of = |kind: &str| flows.iter().find(|flow| flow["kind"] == kind).unwrap();
    let (rtp, ours) = (of("rtp"), of("stream"));
    assert_known_loss(rtp);
    assert_known_loss(ours);
    assert_eq!((number(rtp, "/id"), number(ours, "/id")), (0x1234_5678, 77));
    assert_eq!((number(rtp, "/media_clock/hz"), rtp["delay"]["kind"].as_str()), (8_000, Some("media")));
    assert!(rtp["interarrival"].is_object(), "{rtp}");
    assert_eq!(ours["delay"]["kind"].as_str(), Some("offset"));
}
