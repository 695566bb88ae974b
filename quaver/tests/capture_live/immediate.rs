//! `--immediate`: each packet is taken by itself, and its application stamp is its own.

use super::support::*;
use quaver_abi::stamp::Layer;
use quaver_clock::realtime_ns;
use quaver_host::netns::Lab;
use rustix::process::Signal;
use std::collections::HashSet;

const ORDER: [Layer; 4] = [Layer::Xdp, Layer::Kernel, Layer::Tc, Layer::Application];

#[test]
fn each_packet_has_its_own_stamps_in_the_order_of_the_layers() {
    if !privileged("each_packet_has_its_own_stamps_in_the_order_of_the_layers") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("each.pcapng");
    let file = path.to_str().unwrap();
    let lengths = || (0..3_000).map(|number| 64 + number * 37 % 1_451);
    // Room for all of them: this machine may have other things to do than to take them.
    let options = ["-o", file, "--json", "--immediate", "-s", "1514", "--direction", "in", "udp dst port 9"];
    let capture = Capture::start(&lab.sink, &options);
    assert!(capture.heard.concat().contains(" packets of "), "{:?}", capture.heard);
    let mut before_ns = Vec::new();
    let sent = send_each(&lab, PORT, lengths(), || before_ns.push(realtime_ns()));
    let summary = capture.end();
    let after_ns = realtime_ns();
    assert_accounts(&summary);
    let of = |place| number(&summary, place);
    assert_eq!((of("/captured"), of("/dropped"), of("/stamps_lost")), (sent, 0, 0));
    assert_eq!(of("/interfaces/0/stamps_out_of_order"), 0);
    let (packets, whole) = read(&path);
    assert_eq!((packets.len() as u64, whole), (sent, true));
    let (mut applications, mut lacking) = (HashSet::new(), 0);
    for ((packet, length), before_ns) in packets.iter().zip(lengths()).zip(before_ns) {
        assert_eq!((packet.data.len(), packet.original_length as usize), (length, length));
        let stamps = ORDER.map(|layer| packet.stamps.get(layer));
        let [Some(_), Some(_), Some(_), Some(application)] = stamps else {
            lacking += 1;
            continue;
        };
        assert_bounds(&packet.stamps, before_ns, after_ns);
        assert!(
            applications.insert(application.time_ns),
            "two packets were taken at {}",
            application.time_ns
        );
    }
    // A packet is not waited with for longer than half a millisecond, which this host may take from a CPU.
    assert!(lacking * 1_000 <= sent, "{lacking} of {sent} lack a stamp");
}

#[test]
fn what_has_no_room_is_counted_and_what_is_too_long_is_cut() {
    if !privileged("what_has_no_room_is_counted_and_what_is_too_long_is_cut") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("few.pcapng");
    let file = path.to_str().unwrap();
    let options =
        ["-o", file, "--json", "--immediate", "--direction", "in", "-s", "100", "--buffer", "16KiB"];
    let capture = Capture::start(&lab.sink, &[&options[..], &["udp dst port 9"]].concat());
    assert!(
        capture.heard.concat().contains("ring of 64 packets of 256 bytes, snap length 100 bytes"),
        "{:?}",
        capture.heard
    );
    // A reader that is stopped is as slow as can be.
    capture.signal(Signal::STOP);
    let sent = send(&lab, std::iter::repeat_n(1_000, 1_000));
    capture.signal(Signal::CONT);
    let summary = capture.end();
    assert_accounts(&summary);
    let of = |place| number(&summary, place);
    let (captured, dropped) = (of("/captured"), of("/interfaces/0/dropped/ring"));
    assert_eq!((of("/seen"), captured + dropped), (sent, sent));
    assert!(captured >= 64 && dropped > 800, "{summary}");
    let (packets, whole) = read(&path);
    assert_eq!((packets.len() as u64, whole), (captured, true));
    assert!(packets.iter().all(|packet| (packet.data.len(), packet.original_length) == (100, 1_000)));
}

#[test]
fn packets_of_any_interface_have_their_cooked_header() {
    if !privileged("packets_of_any_interface_have_their_cooked_header") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("any.pcapng");
    let words =
        ["capture", "-i", "any", "-o", path.to_str().unwrap(), "--json", "--immediate", "--direction", "in"];
    let mut command = std::process::Command::new(QUAVER);
    command.args(words).arg("udp dst port 9");
    let capture = Capture::spawn(&lab.sink, command);
    let sent = send(&lab, std::iter::repeat_n(100, 50));
    let summary = capture.end();
    assert_accounts(&summary);
    assert_eq!(number(&summary, "/captured"), sent);
    // LINUX_SLL2: 20 bytes in place of the 14 of Ethernet.
    assert!(read(&path).0.iter().all(|packet| packet.data.len() == 106 && packet.data[..2] == [8, 0]));
}
