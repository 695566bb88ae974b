//! The parsers of what comes over a network, under arbitrary bytes and under bytes that are nearly right.

mod wire_checks;

use proptest::collection::vec;
use proptest::prelude::*;
use quaver_abi::wire::jitlat::{Command, Singleton, TestPacket, Workorder};
use quaver_abi::wire::stamp::time::ErrorEstimate;
use quaver_abi::wire::stamp::{Mode, ReflectorPacket, SenderPacket};
use std::net::Ipv4Addr;

/// Bytes, many of them small, so that lengths, types and commands often mean something.
fn octets() -> impl Strategy<Value = Vec<u8>> {
    let octet = prop_oneof![3 => 0..10u8, 1 => any::<u8>()];
    prop_oneof![vec(any::<u8>(), 0..260), vec(octet, 0..260)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whatever_comes_is_understood_or_refused(octets in octets()) {
        for (_, check) in wire_checks::ALL {
            check(&octets);
        }
    }

    #[test]
    fn a_workorder_survives_the_wire(
        command in 0..8usize,
        numbers in any::<[u32; 4]>(),
        period_ns in any::<u64>(),
        addresses in any::<[u32; 2]>(),
        ports in any::<[u16; 2]>(),
    ) {
        let order = Workorder {
            command: Command::ALL[command],
            npkts: numbers[0],
            pktlen: numbers[1],
            proto: numbers[2],
            period_ns,
            src_ip: Ipv4Addr::from(addresses[0]),
            dst_ip: Ipv4Addr::from(addresses[1]),
            src_port: ports[0],
            dst_port: ports[1],
            dscp: numbers[3],
        };
        prop_assert_eq!(Workorder::from_octets(&order.to_octets()), Ok(order));
    }

    #[test]
    fn packets_and_singletons_survive_the_wire(
        tx_real_time_ns in any::<i64>(), tx_seq in any::<i32>(), rx_real_time_ns in any::<i64>(), flags in any::<i32>(),
    ) {
        let packet = TestPacket { tx_real_time_ns, tx_seq };
        prop_assert_eq!(TestPacket::from_octets(&packet.to_octets()), Ok(packet));
        let singleton = Singleton { tx_real_time_ns, tx_seq, rx_real_time_ns, flags };
        prop_assert_eq!(Singleton::from_octets(&singleton.to_octets()), Ok(singleton));
    }

    #[test]
    fn stamp_packets_survive_the_wire(
        sequences in any::<[u32; 2]>(), stamps in any::<[u64; 3]>(), small in any::<[u16; 3]>(), sender_ttl in any::<u8>(),
    ) {
        let error_estimate = ErrorEstimate::from_bits(small[0]);
        let packet = SenderPacket { sequence: sequences[0], timestamp: stamps[0], error_estimate, ssid: small[1] };
        let reply = ReflectorPacket {
            sequence: sequences[1],
            timestamp: stamps[1],
            error_estimate,
            ssid: small[1],
            receive_timestamp: stamps[2],
            sender_sequence: sequences[0],
            sender_timestamp: stamps[0],
            sender_error_estimate: ErrorEstimate::from_bits(small[2]),
            sender_ttl,
        };
        for mode in [Mode::Unauthenticated, Mode::Authenticated] {
            let mut octets = [0xff; 112];
            packet.write(mode, &mut octets).expect("room");
            prop_assert_eq!(SenderPacket::read(mode, &octets), Ok(packet));
            reply.write(mode, &mut octets).expect("room");
            prop_assert_eq!(ReflectorPacket::read(mode, &octets), Ok(reply));
        }
    }
}
