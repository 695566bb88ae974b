//! Several rings of one interface: each packet once, in one file, in order of time, and accounted for ring by ring.

use super::support::*;
use quaver_host::netns::Lab;
use rustix::process::Signal;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};

const FLOWS: u64 = 64;
const PACKETS: u64 = 300;

/// CPUs that this process may run on.
fn cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect()
}

/// Sends `PACKETS` of each of `FLOWS` flows from each of these CPUs, bound to it. A payload has the flow and the packet's number.
fn send_flows(lab: &Lab, from: &[usize]) -> u64 {
    let send = |at: usize, cpu: usize| {
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).unwrap();
        let sockets: Vec<UdpSocket> =
            (0..FLOWS).map(|_| UdpSocket::bind((lab.source.ipv4, 0)).unwrap()).collect();
        for number in 0..PACKETS {
            for (flow, socket) in (at as u64 * FLOWS..).zip(&sockets) {
                let payload = [flow.to_be_bytes(), number.to_be_bytes()].concat();
                socket.send_to(&payload, (lab.sink.ipv4, PORT)).unwrap();
            }
        }
    };
    std::thread::scope(|scope| {
        for (at, cpu) in from.iter().copied().enumerate() {
            scope.spawn(move || lab.source.within(|| send(at, cpu)).unwrap());
        }
    });
    from.len() as u64 * FLOWS * PACKETS
}

/// Seen, delivered and dropped packets of each ring; all that was seen is one of these.
fn rings(summary: &Value) -> Vec<[u64; 3]> {
    let rings = summary["interfaces"][0]["rings"].as_array().unwrap().iter();
    let counts = rings.map(|ring| {
        let [seen, delivered, dropped] = ["/seen", "/delivered", "/dropped"].map(|at| number(ring, at));
        assert_eq!((delivered + dropped, number(ring, "/unaccounted")), (seen, 0), "{ring}");
        [seen, delivered, dropped]
    });
    counts.collect()
}

/// What the file holds, packet by packet: time, flow and number of each.
fn there(path: &std::path::Path) -> Vec<(i64, u64, u64)> {
    let (packets, whole) = read(path);
    assert!(whole);
    let eight = |data: &[u8], at: usize| u64::from_be_bytes(data[at..at + 8].try_into().unwrap());
    let of =
        |packet: &Packet| (packet.time_ns, eight(&packet.data, HEADERS), eight(&packet.data, HEADERS + 8));
    packets.iter().map(of).collect()
}

/// Captures that stream by two rings, and holds it to every packet once, in order of time and of each flow.
fn capture_flows(kind: &str, from: &[usize]) -> Vec<[u64; 3]> {
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("all.pcapng");
    let options = ["-o", path.to_str().unwrap(), "--json", "--direction", "in", "--layers", "none"];
    let fanout = ["--fanout", "2", "--fanout-type", kind, "udp dst port 9"];
    let capture = Capture::start(&lab.sink, &[&options[..], &fanout].concat());
    let sent = send_flows(&lab, from);
    let summary = capture.end();
    assert_accounts(&summary);
    assert_eq!((number(&summary, "/captured"), number(&summary, "/dropped")), (sent, 0));
    let rings = rings(&summary);
    assert_eq!((rings.len(), rings.iter().map(|ring| ring[1]).sum()), (2, sent));
    let packets = there(&path);
    assert_eq!(packets.len() as u64, sent);
    assert!(packets.is_sorted_by_key(|(time_ns, ..)| *time_ns), "{kind}");
    let mut next = BTreeMap::new();
    for (_, flow, number) in packets {
        let expected = next.entry(flow).or_insert(0);
        assert_eq!(number, *expected, "{kind}: flow {flow}");
        *expected += 1;
    }
    assert_eq!(next.len(), from.len() * FLOWS as usize);
    rings
}

#[test]
fn packets_of_many_flows_come_by_several_rings_and_stand_in_order_of_time() {
    if !privileged("packets_of_many_flows_come_by_several_rings_and_stand_in_order_of_time") {
        return;
    }
    let cpus = cpus();
    // One CPU stamps, so all stamps are in order; flows, or turns, fill both rings.
    for kind in ["hash", "lb"] {
        let rings = capture_flows(kind, &cpus[..1]);
        assert!(rings.iter().all(|ring| ring[0] > FLOWS * PACKETS / 8), "{kind}: {rings:?}");
    }
    // Two CPUs stamp, each into a ring of its own, which is exactly what it sent.
    let of = |parity: usize| cpus.iter().copied().find(|cpu| cpu % 2 == parity);
    let from: Vec<usize> = [0, 1].into_iter().filter_map(of).collect();
    let sent = [0, 1].map(|parity| of(parity).map_or(0, |_| FLOWS * PACKETS));
    assert_eq!(capture_flows("cpu", &from), sent.map(|packets| [packets, packets, 0]));
}

#[test]
fn on_loopback_several_rings_have_each_packet_once() {
    if !privileged("on_loopback_several_rings_have_each_packet_once") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lo.pcapng");
    let mut command = std::process::Command::new(QUAVER);
    command.args(["capture", "-i", "lo", "-o", path.to_str().unwrap(), "--json", "--layers", "none"]);
    command.args(["--fanout", "3", "--fanout-type", "lb", "udp dst port 9"]);
    let capture = Capture::spawn(&lab.sink, command);
    let send = || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for number in 0..PACKETS {
            let payload = [0u64.to_be_bytes(), number.to_be_bytes()].concat();
            socket.send_to(&payload, (Ipv4Addr::LOCALHOST, PORT)).unwrap();
        }
    };
    lab.sink.within(send).unwrap();
    let summary = capture.end();
    assert_accounts(&summary);
    // Loopback shows each packet twice, sent and received. No ring takes the sent one.
    assert_eq!((number(&summary, "/seen"), number(&summary, "/captured")), (PACKETS, PACKETS));
    assert_eq!(rings(&summary).len(), 3);
    assert!(there(&path).iter().map(|packet| packet.2).eq(0..PACKETS));
}

#[test]
fn what_finds_no_room_is_counted_ring_by_ring() {
    if !privileged("what_finds_no_room_is_counted_ring_by_ring") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some.pcapng");
    let options =
        ["-o", path.to_str().unwrap(), "--json", "--direction", "in", "--layers", "none", "-s", "128"];
    let fanout = ["--fanout", "2", "--fanout-type", "hash", "--buffer", "256KiB", "udp dst port 9"];
    let capture = Capture::start(&lab.sink, &[&options[..], &fanout].concat());
    // While it does not run, each ring takes what it has room for.
    capture.signal(Signal::STOP);
    let sent = send_flows(&lab, &cpus()[..1]);
    capture.signal(Signal::CONT);
    let summary = capture.end();
    assert_accounts(&summary);
    let rings = rings(&summary);
    assert!(rings.iter().all(|[_, delivered, dropped]| *delivered > 0 && *dropped > 0), "{rings:?}");
    let sum = |at: usize| rings.iter().map(|ring| ring[at]).sum::<u64>();
    assert_eq!((sum(0), sum(1)), (sent, number(&summary, "/captured")));
    assert_eq!(sum(2), number(&summary, "/interfaces/0/dropped/ring"));
    let packets = there(&path);
    assert_eq!(packets.len() as u64, sum(1));
    assert!(packets.is_sorted_by_key(|(time_ns, ..)| *time_ns));
}

#[test]
fn what_several_rings_cannot_do_is_refused() {
    for (with, words) in [
        (&["--immediate"][..], "--fanout with --immediate"),
        (&["--pipeline", "threaded"], "--fanout with --pipeline threaded"),
        (&["--cores", "capture=0"], "--fanout with --cores capture"),
    ] {
        let output = std::process::Command::new(QUAVER)
            .args(["capture", "-i", "lo", "-o", "x.pcapng", "--fanout", "2"])
            .args(with)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
