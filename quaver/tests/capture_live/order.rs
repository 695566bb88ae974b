//! Several interfaces in one file: packets are in the order of their stamps, whichever ring held them.

use super::support::*;
use quaver_host::netns::Lab;
use std::net::{Ipv4Addr, UdpSocket};

/// Keeps the calling thread on the CPU that it is on. The kernel queues packets for each CPU: two CPUs may bring them to one
/// ring in another order than that of their stamps.
fn stay_on_one_cpu() {
    let mut here = rustix::thread::CpuSet::new();
    here.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &here).unwrap();
}

/// Sends from both ends: in turns by sevens, then to the sink's loopback only. Returns how many went each way.
fn send_both_ways(lab: &Lab) -> [u64; 2] {
    stay_on_one_cpu();
    let link = lab.source.within(|| UdpSocket::bind((lab.source.ipv4, 0)).unwrap()).unwrap();
    let inside = lab.sink.within(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).unwrap();
    let mut sent = [0, 0];
    for number in 0..2_100u64 {
        if number / 7 % 2 == 0 {
            link.send_to(&number.to_be_bytes(), (lab.sink.ipv4, PORT)).unwrap();
            sent[0] += 1;
        } else {
            inside.send_to(&number.to_be_bytes(), (Ipv4Addr::LOCALHOST, PORT)).unwrap();
            sent[1] += 1;
        }
    }
    for number in 0..50u64 {
        inside.send_to(&number.to_be_bytes(), (Ipv4Addr::LOCALHOST, PORT)).unwrap();
        sent[1] += 1;
    }
    sent
}

#[test]
fn packets_of_two_interfaces_are_in_the_order_of_their_stamps() {
    if !privileged("packets_of_two_interfaces_are_in_the_order_of_their_stamps") {
        return;
    }
    let lab = Lab::create().unwrap();
    for how in [&[][..], &["--immediate", "-s", "128"]] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("both.pcapng");
        let options = ["-i", "lo", "-o", path.to_str().unwrap(), "--json", "--direction", "in"];
        let options = [&options[..], how, &["udp dst port 9"]].concat();
        let capture = Capture::start(&lab.sink, &options);
        let sent = std::thread::scope(|scope| scope.spawn(|| send_both_ways(&lab)).join().unwrap());
        let summary = capture.end();
        assert_accounts(&summary);
        let captured = [0, 1].map(|at| number(&summary, &format!("/interfaces/{at}/captured")));
        assert_eq!((captured, number(&summary, "/stamps_lost")), (sent, 0), "{how:?}");
        let (packets, whole) = read(&path);
        assert_eq!((packets.len() as u64, whole), (sent[0] + sent[1], true));
        let backwards = packets.windows(2).filter(|pair| pair[0].time_ns > pair[1].time_ns).count();
        assert_eq!(backwards, 0, "{how:?}");
    }
}
