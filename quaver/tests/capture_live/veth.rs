//! `quaver capture` between two namespaces: every packet, every stamp, every drop, read back by ourselves and others.

use super::support::*;
use quaver_abi::stamp::Layer;
use quaver_capture::record::{LayerWish, Layers, TapInterface, TcWish, XdpWish};
use quaver_clock::realtime_ns;
use quaver_host::netns::Lab;
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;

/// Lengths from 64 to 1514 bytes, with the Ethernet header: IP packets up to 1500.
fn lengths() -> impl Iterator<Item = usize> {
    (0..5_000).map(|number| 64 + number * 37 % 1_451)
}

/// What a program prints of a file; none where it is not installed, which is only allowed where nobody requires it.
fn tool(words: &[&str], path: &Path) -> Option<String> {
    let output = match Command::new(words[0]).args(&words[1..]).arg("-r").arg(path).output() {
        Ok(output) => output,
        Err(_) => {
            skip(&format!("{} reads our captures", words[0]), Lack::Installed(words[0]));
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn every_packet_bears_every_stamp_and_everybody_reads_it_to_the_last_digit() {
    if !privileged("every_packet_bears_every_stamp_and_everybody_reads_it_to_the_last_digit") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.pcapng");
    let file = path.to_str().unwrap();
    let capture = Capture::start(&lab.sink, &["-o", file, "--json", "--direction", "in", "udp dst port 9"]);
    let told = capture.heard.concat();
    assert!(told.contains("xdp stamp by BPF in the driver") && told.contains("tc stamp by BPF"), "{told}");
    assert!(told.contains("no nic stamp: "), "{told}");
    let mut before_ns = Vec::new();
    let sent = send_each(&lab, PORT, lengths(), || before_ns.push(realtime_ns()));
    let summary = capture.end();
    let after_ns = realtime_ns();
    assert_accounts(&summary);
    assert_eq!((number(&summary, "/captured"), number(&summary, "/dropped")), (sent, 0));
    assert_eq!(
        (number(&summary, "/stamps_lost"), number(&summary, "/interfaces/0/stamps_out_of_order")),
        (0, 0)
    );
    let (packets, whole) = read(&path);
    assert!(whole);
    assert_eq!(packets.len() as u64, sent);
    let order = [Layer::Xdp, Layer::Kernel, Layer::Tc, Layer::Application];
    let mut with_all = 0;
    for ((packet, length), before_ns) in packets.iter().zip(lengths()).zip(before_ns) {
        assert_bounds(&packet.stamps, before_ns, after_ns);
        assert_eq!((packet.data.len(), packet.original_length as usize), (length, length));
        assert_eq!(packet.shown, Some(Layer::Kernel));
        assert_eq!(packet.stamps.get(Layer::Kernel).unwrap().time_ns, packet.time_ns);
        with_all += usize::from(order.iter().all(|layer| packet.stamps.get(*layer).is_some()));
        // Between the stamps of one clock no bound is needed.
        let [xdp, tc] = [Layer::Xdp, Layer::Tc].map(|layer| packet.stamps.get(layer));
        assert!(xdp.zip(tc).is_none_or(|(xdp, tc)| xdp.time_ns <= tc.time_ns));
    }
    assert!(with_all * 1_000 >= packets.len() * 999, "{with_all} of {} have all four stamps", packets.len());
    let seconds = |ns: i64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    if let Some(text) =
        tool(&["tshark", "-n", "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len"], &path)
    {
        let expected =
            packets.iter().map(|packet| format!("{}\t{}", seconds(packet.time_ns), packet.original_length));
        assert!(text.lines().eq(expected), "tshark reads another time or length");
    }
    if let Some(text) = tool(&["tcpdump", "--nano", "-tt", "-n"], &path) {
        let expected = packets.iter().map(|packet| seconds(packet.time_ns));
        assert!(text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).eq(expected));
    }
}

#[test]
fn what_a_full_ring_drops_is_told_to_the_packet() {
    if !privileged("what_a_full_ring_drops_is_told_to_the_packet") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("few.pcapng");
    let file = path.to_str().unwrap();
    let options =
        ["-o", file, "--json", "--buffer", "16KiB", "--direction", "in", "--filter", "udp dst port 9"];
    let capture = Capture::start(&lab.sink, &options);
    // A reader that is stopped is as slow as can be.
    capture.signal(Signal::STOP);
    let sent = send(&lab, std::iter::repeat_n(1_000, 3_000));
    capture.signal(Signal::CONT);
    let sent = sent + send(&lab, std::iter::repeat_n(1_000, 3_000));
    let summary = capture.end();
    assert_accounts(&summary);
    let (captured, dropped) = (number(&summary, "/captured"), number(&summary, "/interfaces/0/dropped/ring"));
    assert_eq!((captured + dropped, number(&summary, "/seen")), (sent, sent));
    // The ring has 512 KiB: while the reader stands, more than 2,400 of 3,000 packets have no room. Whether it keeps up later, with a
    // sender that never pauses, is this machine's affair.
    assert!(
        dropped > 2_400 && captured > 0 && number(&summary, "/interfaces/0/ring_freezes") > 0,
        "{summary}"
    );
    let (packets, whole) = read(&path);
    assert_eq!((packets.len() as u64, whole), (captured, true));
    if let Some(text) = tool(&["tshark", "-n", "-T", "fields", "-e", "frame.number"], &path) {
        assert_eq!(text.lines().count() as u64, captured);
    }
}

#[test]
fn packets_that_a_filter_keeps_out_do_not_cost_the_others_their_stamps() {
    if !privileged("packets_that_a_filter_keeps_out_do_not_cost_the_others_their_stamps") {
        return;
    }
    let lab = Lab::create().unwrap();
    let options = ["--qos", "--json", "--direction", "in", "--filter", "udp dst port 9"];
    let capture = Capture::start(&lab.sink, &options);
    // More than the programs' ring has room for, and no packet that the capture would wake up for.
    send_to(&lab, 10, std::iter::repeat_n(60, 300_000));
    let sent = send(&lab, std::iter::repeat_n(100, 50));
    let summary = capture.end();
    assert_accounts(&summary);
    let of = |place| number(&summary, place);
    assert_eq!((of("/captured"), of("/stamps_lost"), of("/stamps_unmatched")), (sent, 0, 0));
    assert_eq!((of("/interfaces/0/stamped/xdp"), of("/interfaces/0/stamped/tc")), (sent, sent));
}

#[test]
fn a_writer_that_is_held_up_loses_no_stamps() {
    if !privileged("a_writer_that_is_held_up_loses_no_stamps") {
        return;
    }
    let lab = Lab::create().unwrap();
    // A block is handed over when it is full, and the ring's blocks have room for all packets that come within two seconds.
    let options = ["--qos", "--json", "--direction", "in", "--block-timeout", "2s", "udp dst port 9"];
    let capture = Capture::start(&lab.sink, &options);
    // Half a second of 200,000 packets a second.
    capture.signal(Signal::STOP);
    let sent = send(&lab, std::iter::repeat_n(64, 100_000));
    capture.signal(Signal::CONT);
    let summary = capture.end();
    let came = datagrams_that_came(&lab);
    assert_accounts(&summary);
    let of = |place| number(&summary, place);
    // Where this host was slower, packets are lost, and are told; stamps of those that were captured never are.
    let captured = of("/captured");
    assert_eq!(captured + of("/interfaces/0/dropped/ring"), came);
    assert!(captured > sent / 4, "a quarter of a second at least: {captured}");
    assert_eq!((of("/stamps_lost"), of("/stamps_unmatched")), (0, 0));
    assert_eq!((of("/interfaces/0/stamped/xdp"), of("/interfaces/0/stamped/tc")), (captured, captured));
}

#[test]
fn in_a_time_namespace_stamps_of_programs_are_as_right_as_elsewhere() {
    const NAME: &str = "in_a_time_namespace_stamps_of_programs_are_as_right_as_elsewhere";
    if !privileged(NAME) {
        return;
    }
    if !Path::new("/proc/self/ns/time").exists() {
        return skip(NAME, Lack::Feature(Feature::TimeNamespaces));
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("later.pcapng");
    let sent = 200;
    let mut command = Command::new("unshare");
    command.args(["--time", "--monotonic", "864000", "--fork", QUAVER, "capture", "-i", &lab.sink.interface]);
    command.args(["-o", path.to_str().unwrap(), "--json", "--direction", "in", "--count", &sent.to_string()]);
    command.arg("udp dst port 9");
    let capture = Capture::spawn(&lab.sink, command);
    send(&lab, std::iter::repeat_n(200, sent));
    assert_accounts(&capture.summary());
    let (packets, whole) = read(&path);
    assert_eq!((packets.len(), whole), (sent, true));
    for packet in &packets {
        let [kernel, tc] = [Layer::Kernel, Layer::Tc].map(|layer| packet.stamps.get(layer).unwrap());
        let slack_ns = i64::from(kernel.bound_ns) + i64::from(tc.bound_ns);
        assert!(slack_ns < 1_000_000 && kernel.time_ns <= tc.time_ns + slack_ns, "{:?}", packet.stamps);
        // Ten days are far from both.
        assert!(tc.time_ns - kernel.time_ns < 3_600_000_000_000, "{:?}", packet.stamps);
    }
}

#[test]
fn a_killed_capture_leaves_nothing_but_a_readable_file() {
    if !privileged("a_killed_capture_leaves_nothing_but_a_readable_file") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cut.pcapng");
    let file = path.to_str().unwrap();
    let mut capture = Capture::start(&lab.sink, &["-o", file, "--direction", "in", "udp dst port 9"]);
    let wish =
        LayerWish { xdp: XdpWish::Native, tc: TcWish::On, rings_bytes: 1 << 20, ..LayerWish::default() };
    let free = || {
        lab.sink
            .within(|| {
                let interface = TapInterface::find(&lab.sink.interface).unwrap();
                Layers::switch_on(&[interface], wish, &mut |change| unreachable!("{change:?}"))
                    .unwrap()
                    .states()
                    .iter()
                    .all(|of| of.state.is_ok())
            })
            .unwrap()
    };
    assert!(!free(), "the capture's XDP program is on the interface");
    let sent = send(&lab, lengths());
    // The file grows by whole blocks as packets come.
    let enough = 100_000;
    while std::fs::metadata(&path).unwrap().len() < enough {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    capture.child.kill().unwrap();
    capture.child.wait().unwrap();
    assert!(free(), "a link outlived the process");
    let (packets, _) = read(&path);
    assert!(!packets.is_empty() && packets.len() as u64 <= sent);
    for (packet, length) in packets.iter().zip(lengths()) {
        assert_eq!(packet.data.len(), length);
    }
}

#[test]
fn while_a_capture_runs_doctor_says_what_it_costs_everybody() {
    if !privileged("while_a_capture_runs_doctor_says_what_it_costs_everybody") {
        return;
    }
    let lab = Lab::create().unwrap();
    let capture = Capture::start(&lab.sink, &["-o", "/dev/null", "--json"]);
    // Elsewhere than where the capture runs: it is everybody who pays.
    let output = Command::new(QUAVER).args(["doctor", "--json"]).output().unwrap();
    capture.end();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = told["checks"].as_array().unwrap();
    let ability = checks.iter().find(|check| check["id"] == "capture").unwrap();
    let evidence = ability["evidence"].as_str().unwrap();
    assert!(evidence.contains("the kernel stamps every packet of every namespace now"), "{evidence}");
}

#[test]
fn a_terminal_that_is_closed_ends_a_capture_as_ctrl_c_does() {
    if !privileged("a_terminal_that_is_closed_ends_a_capture_as_ctrl_c_does") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("hung-up.pcapng");
    let options = ["-o", path.to_str().unwrap(), "--json", "--direction", "in", "udp dst port 9"];
    // Whoever runs this test may have been started by nohup.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", QUAVER, "capture", "-i", &lab.sink.interface]).args(options);
    let capture = Capture::spawn(&lab.sink, command);
    let sent = send(&lab, lengths());
    // The kernel tells of it, and the shell does: the second must not end what is being put in order.
    capture.signal(Signal::HUP);
    capture.signal(Signal::HUP);
    let summary = capture.summary();
    assert_accounts(&summary);
    assert_eq!((number(&summary, "/captured"), summary["ended_by"].as_str()), (sent, Some("interrupted")));
    let (packets, whole) = read(&path);
    assert_eq!((packets.len() as u64, whole), (sent, true));
    // Who was started to outlive the terminal does.
    let mut command = Command::new("nohup");
    command.args([QUAVER, "capture", "-i", &lab.sink.interface]).args(options);
    let capture = Capture::spawn(&lab.sink, command);
    capture.signal(Signal::HUP);
    let sent = send(&lab, lengths());
    assert_eq!(number(&capture.end(), "/captured"), sent);
}

#[test]
fn without_rights_the_line_that_gives_them_is_told() {
    use std::os::unix::process::CommandExt;
    if !privileged("without_rights_the_line_that_gives_them_is_told") {
        return;
    }
    // A place where nobody may run it: the test's own directories may be closed to others.
    let directory = tempfile::Builder::new().prefix("quaver-capture-").tempdir_in("/tmp").unwrap();
    let program = directory.path().join("quaver");
    std::fs::copy(QUAVER, &program).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(&program)
        .args(["capture", "-i", "lo", "-o", "/dev/null"])
        .uid(65_534)
        .gid(65_534)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("sudo setcap cap_net_raw,cap_net_admin,cap_bpf,"), "{said}");
}
