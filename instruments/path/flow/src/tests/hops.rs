//! What the TTLs and DSCPs of packets say of their way.

use super::*;
use quaver_abi::wire::jitlat::TestPacket;
use std::net::{IpAddr, Ipv6Addr};

#[test]
fn changes_of_the_ttl_and_the_dscp_are_told() {
    for host in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let socket = TestSocket::udp((host, 0).into(), false).unwrap();
        let sender = socket2::Socket::from(UdpSocket::bind((host, 0)).unwrap());
        let spec = FlowSpec {
            end_timeout_ns: 200_000_000,
            dscp: Some(46),
            ..FlowSpec::new(40, Some(30), FlowSchedule::every(1_000_000))
        };
        prepare_receive(&socket, &spec).unwrap();
        let to = socket.local_address().unwrap();
        for number in 0..30 {
            let ttl = if number < 12 { 60 } else { 57 };
            if host.is_ipv4() { sender.set_ttl_v4(ttl) } else { sender.set_unicast_hops_v6(ttl) }.unwrap();
            // The last seven without their class, the ECN of which says nothing.
            let class = if number < 23 { 46 << 2 | 2 } else { 1 };
            if host.is_ipv4() { sender.set_tos_v4(class) } else { sender.set_tclass_v6(class) }.unwrap();
            let mut packet = [0; 40];
            packet[..12].copy_from_slice(&TestPacket { tx_real_time_ns: 1, tx_seq: number }.to_octets());
            sender.send_to(&packet, &to.into()).unwrap();
        }
        let stop = AtomicBool::new(false);
        let report = receive_flow(&socket, &spec, &mut |_| {}, &stop).unwrap();
        assert_eq!(
            (report.summary.received, report.summary.hops.ttl, report.summary.hops.changes),
            (30, 60, 1)
        );
        assert_eq!(report.summary.dscps, DscpChanges { packets: 7, last: 0 });
        assert_eq!(report.summary.hops.first[0], HopChange { from_packet: 12, before: 60, after: 57 });
    }
}
