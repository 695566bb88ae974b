//! Raw cycles of each packet, taken in the kernel.

use super::accounts::{frame, send_frames};
use super::support::*;
use quaver_abi::stamp::{Layer, StampClock};
use quaver_clock::{CounterSupport, cycles, realtime_ns};
use quaver_host::netns::Lab;
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;

/// Packets that a test sends.
const SENT: usize = 3_000;
/// Their layers.
const ORDER: [Layer; 5] = [Layer::Xdp, Layer::Kernel, Layer::Raw, Layer::Tc, Layer::Application];

/// Where this machine's counter is no clock there are no raw cycles.
fn counter_is_a_clock(test: &str) -> bool {
    if cfg!(not(target_arch = "x86_64")) {
        skip(test, Lack::Feature(Feature::X86_64));
        return false;
    }
    let refusal = CounterSupport::detect(Path::new("/")).refusal;
    refusal.iter().for_each(|why| skip(test, Lack::Quiet(why)));
    refusal.is_none()
}

/// Sends packets of several lengths from the lab's source; the counter and the wall clock before each.
fn send_read(lab: &Lab) -> Vec<(u64, i64)> {
    let mut before = Vec::with_capacity(SENT);
    send_each(lab, PORT, (0..SENT).map(|n| 64 + n * 37 % 1_451), || before.push((cycles(), realtime_ns())));
    before
}

#[test]
fn each_packet_bears_the_cycles_that_the_kernel_read_and_their_time_whoever_converts() {
    const NAME: &str = "each_packet_bears_the_cycles_that_the_kernel_read_and_their_time_whoever_converts";
    if !privileged(NAME) || !counter_is_a_clock(NAME) {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    for pipeline in ["batch", "inline-cycles", "threaded", "threaded:2"] {
        let path = directory.path().join(format!("{pipeline}.pcapng"));
        let file = path.to_str().unwrap();
        let options = ["-o", file, "--json", "--direction", "in", "--stamp", "raw", "--pipeline", pipeline];
        let capture = Capture::start(&lab.sink, &[&options[..], &["udp dst port 9"]].concat());
        assert!(
            capture.heard.concat().contains("raw stamp by the processor's counter"),
            "{:?}",
            capture.heard
        );
        let before = send_read(&lab);
        let summary = capture.end();
        let (after_cycles, after_ns) = (cycles(), realtime_ns());
        assert_accounts(&summary);
        let of = |place| number(&summary, place);
        assert_eq!((of("/captured"), of("/raw/lost")), (SENT as u64, 0), "{summary}");
        // Each packet has cycles or is reported without: some machines record nothing while a particular task runs.
        let (with, without) = (of("/interfaces/0/stamped/raw"), of("/raw/missing"));
        assert_eq!((with + without, of("/interfaces/0/shown_by_other_layer")), (SENT as u64, without));
        assert!(without * 1_000 <= SENT as u64, "{without} without");
        assert_eq!(of("/interfaces/0/stamps_out_of_order"), 0);
        // Every packet's cycles went through the pipeline, one by one.
        let (by_threads, by_writer) = (of("/raw/converted_by_threads"), of("/raw/converted_by_writer"));
        assert!(by_threads + by_writer >= with, "{summary}");
        assert_eq!(by_threads > 0, pipeline.starts_with("threaded"), "{summary}");
        let (packets, whole) = read(&path);
        assert_eq!((packets.len(), whole), (SENT, true));
        let (mut times, mut with_all) = (Vec::new(), 0);
        for (n, (packet, (before_cycles, before_ns))) in
            packets.iter().zip(before.iter().copied()).enumerate()
        {
            // In the order of layers, after it was sent and before the end, within all bounds.
            assert_bounds(&packet.stamps, before_ns, after_ns);
            let Some(raw) = packet.stamps.get(Layer::Raw) else {
                assert_eq!((packet.shown, packet.stamps.raw_cycles()), (Some(Layer::Kernel), None));
                continue;
            };
            assert_eq!((packet.shown, packet.time_ns), (Some(Layer::Raw), raw.time_ns));
            assert!(raw.clock == StampClock::Cycles && raw.epoch > 0, "{raw:?}");
            // A reading of the same counter, taken between two of our own.
            let read = packet.stamps.raw_cycles().unwrap();
            let next = before.get(n + 1).map_or(after_cycles, |next| next.0);
            assert!(before_cycles < read && read < next, "{n}: {before_cycles} {read} {next}");
            let layers = packet.stamps.iter().map(|(layer, _)| layer);
            with_all += u64::from(layers.eq(ORDER));
            times.push((read, raw.time_ns));
        }
        assert_eq!(times.len() as u64, with);
        assert!(with_all * 1_000 >= SENT as u64 * 998, "{with_all} have all stamps");
        // One line converts all of them: each time between two packets is that of its cycles.
        let (first, last) = (times[0], times[times.len() - 1]);
        let ns_per_cycle = (last.1 - first.1) as f64 / (last.0 - first.0) as f64;
        for (read, time_ns) in times {
            let expected_ns = first.1 as f64 + (read - first.0) as f64 * ns_per_cycle;
            assert!((time_ns as f64 - expected_ns).abs() < 2_000.0, "{pipeline}: {time_ns} {expected_ns}");
        }
    }
}

#[test]
fn packets_with_tags_of_vlans_have_the_cycles_of_their_own_call() {
    const NAME: &str = "packets_with_tags_of_vlans_have_the_cycles_of_their_own_call";
    if !privileged(NAME) || !counter_is_a_clock(NAME) {
        return;
    }
    let lab = Lab::create().unwrap();
    // Else its kernel says now and then which multicast groups it has joined, and that is captured too.
    lab.source.within(|| std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1")).unwrap().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tags.pcapng");
    let options = ["-o", path.to_str().unwrap(), "--json", "--direction", "in", "--stamp", "raw"];
    let capture = Capture::start(&lab.sink, &options);
    // None, one, and one of a provider (802.1ad) around it.
    let tagged = frame(9, Some(5));
    let twice = [&tagged[..12], &[0x88, 0xa8, 0, 9], &tagged[12..]].concat();
    let kinds = [frame(9, None), tagged, twice];
    let sent: Vec<Vec<u8>> = (0..600).map(|n| kinds[n % 3].clone()).collect();
    lab.source.within(|| send_frames(&lab.source.interface, sent.iter().cloned())).unwrap();
    let summary = capture.end();
    assert_accounts(&summary);
    let (packets, _) = read(&path);
    assert_eq!(
        packets.iter().map(|packet| &packet.data).collect::<Vec<_>>(),
        sent.iter().collect::<Vec<_>>()
    );
    // Some machines record nothing while a particular task runs.
    let (with, without) = (number(&summary, "/interfaces/0/stamped/raw"), number(&summary, "/raw/missing"));
    assert_eq!(with + without, 600, "{summary}");
    for kind in 0..3 {
        let raw = packets.iter().skip(kind).step_by(3).filter_map(|packet| {
            let raw = packet.stamps.get(Layer::Raw)?;
            let kernel = packet.stamps.get(Layer::Kernel).unwrap();
            Some((raw.time_ns + i64::from(raw.bound_ns), kernel.time_ns))
        });
        let raw: Vec<_> = raw.collect();
        assert!(raw.iter().all(|(latest, kernel)| latest >= kernel), "{kind}: {raw:?}");
        assert!(raw.len() > 150, "tags of kind {kind}: {} of 200 have cycles", raw.len());
    }
}

#[test]
fn any_interface_has_raw_cycles_and_sent_packets_say_that_they_have_none() {
    const NAME: &str = "any_interface_has_raw_cycles_and_sent_packets_say_that_they_have_none";
    if !privileged(NAME) || !counter_is_a_clock(NAME) {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("any.pcapng");
    let mut command = Command::new(QUAVER);
    command.args(["capture", "-i", "any", "--json", "--stamp", "raw", "-o"]).arg(&path);
    command.args(["udp", "port", "9"]);
    // The source's end: what it sends goes out, and what is sent to its loopback comes in, too.
    let capture = Capture::spawn(&lab.source, command);
    send_to(&lab, PORT, std::iter::repeat_n(100, 200));
    lab.source
        .within(|| {
            let socket = std::net::UdpSocket::bind("127.0.0.1:9").unwrap();
            (0..100).for_each(|_| assert_eq!(socket.send_to(&[7; 64], "127.0.0.1:9").unwrap(), 64));
        })
        .unwrap();
    let summary = capture.end();
    assert_accounts(&summary);
    let of = |place| number(&summary, place);
    let (packets, _) = read(&path);
    let with = packets.iter().filter(|packet| packet.shown == Some(Layer::Raw)).count() as u64;
    let without = packets.iter().filter(|packet| packet.shown == Some(Layer::Kernel)).count() as u64;
    assert_eq!((with, without), (100, 300), "{summary}");
    assert_eq!((of("/interfaces/0/stamped/raw"), of("/interfaces/0/shown_by_other_layer")), (with, without));
    assert_eq!((of("/raw/missing"), of("/raw/lost")), (0, 0));
    for packet in &packets {
        let there = packet.stamps.get(Layer::Raw).is_some();
        assert_eq!((there, packet.stamps.raw_cycles().is_some()), (packet.shown == Some(Layer::Raw), there));
    }
}

#[test]
fn packets_that_a_filter_keeps_out_cost_no_raw_cycles_and_nothing_is_left_behind() {
    const NAME: &str = "packets_that_a_filter_keeps_out_cost_no_raw_cycles_and_nothing_is_left_behind";
    if !privileged(NAME) || !counter_is_a_clock(NAME) {
        return;
    }
    let lab = Lab::create().unwrap();
    let options = ["--qos", "--json", "--direction", "in", "--stamp", "raw", "udp dst port 9"];
    let capture = Capture::start(&lab.sink, &options);
    let process = capture.child.id();
    // More than the trace ring has room for.
    send_to(&lab, 10, std::iter::repeat_n(60, 300_000));
    let sent = send(&lab, std::iter::repeat_n(100, 50));
    capture.signal(Signal::INT);
    let summary = capture.summary();
    let of = |place| number(&summary, place);
    assert_eq!((of("/captured"), of("/interfaces/0/stamped/raw"), of("/raw/missing")), (sent, sent, 0));
    let (root, _) = quaver_host::tracefs::open_tracefs().unwrap();
    let ours = format!("quaver-{process}-");
    assert!(!root.names("instances").unwrap().iter().any(|name| name.starts_with(&ours)));
}

#[test]
fn where_there_is_no_way_the_reason_and_the_remedy_are_told() {
    if !privileged("where_there_is_no_way_the_reason_and_the_remedy_are_told") {
        return;
    }
    let run = |words: &[&str]| {
        let output = Command::new("setpriv")
            .args([
                "--bounding-set",
                "-bpf,-perfmon,-sys_admin",
                QUAVER,
                "capture",
                "-i",
                "lo",
                "-o",
                "/dev/null",
            ])
            .args(words)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = run(&["--stamp", "raw"]);
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("--stamp raw: ") && said.contains("not permitted; run as root"), "{said}");
    assert!(said.contains("--stamp kernel works without"), "{said}");
    for (words, why) in [
        (&["--stamp", "raw", "--user", "nobody"][..], "could not remove the kernel's trace instance"),
        (&["--stamp", "raw", "--pipeline", "inline-clock"], "reads no cycles"),
    ] {
        let (status, said) = run(words);
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains(why), "{said}");
    }
}
