//! Packets that are not the flow's.

use super::*;
use quaver_abi::wire::jitlat::{FLAG_DUPLICATE, FLAG_INVALID};
use std::sync::Arc;

fn sender_to(socket: &TestSocket) -> UdpSocket {
    let sending = UdpSocket::bind(ANY_PORT).unwrap();
    sending.connect(socket.local_address().unwrap()).unwrap();
    sending
}

fn flags(packets: &[Received]) -> Vec<i32> {
    packets.iter().map(|packet| packet.singleton.flags).collect()
}

#[test]
fn copies_impossible_numbers_and_wrong_lengths_are_flagged() {
    let receiving = udp_socket();
    let sending = sender_to(&receiving);
    for number in [0, 2, 2, 1, 0, 10, -7, 3] {
        sending.send(&octets(number)).unwrap();
    }
    sending.send(&octets(4)[..79]).unwrap();
    sending.send(&[&octets(5)[..], &[1]].concat()).unwrap();
    sending.send(&octets(6)[..11]).unwrap();
    sending.send(&[]).unwrap();
    sending.send(&octets(SENTINEL)).unwrap();
    let (received, packets) = receive_sent(&receiving, &spec(10, 100_000));
    assert_eq!(numbers(&packets), [0, 2, 2, 1, 0, 10, -7, 3, 4, 5]);
    let (copy, invalid) = (FLAG_DUPLICATE, FLAG_INVALID);
    assert_eq!(flags(&packets), [0, 0, copy, 0, copy, invalid, invalid, 0, invalid, invalid]);
    assert_eq!(
        (received.summary.received, received.summary.duplicates, received.summary.invalid),
        (10, 2, 4)
    );
    assert_eq!(
        (received.summary.unreadable, received.summary.sentinels, received.end),
        (2, 1, ReceiveEnd::Sentinel)
    );
}

#[test]
fn packets_from_elsewhere_are_left_out() {
    let receiving = udp_socket();
    let (ours, other) = (sender_to(&receiving), sender_to(&receiving));
    other.send(&octets(0)).unwrap();
    other.send(&octets(SENTINEL)).unwrap();
    ours.send(&octets(1)).unwrap();
    ours.send(&octets(SENTINEL)).unwrap();
    let accept_from = AcceptFrom::Socket(ours.local_addr().unwrap());
    let (received, packets) = receive_sent(&receiving, &FlowSpec { accept_from, ..spec(5, 100_000) });
    assert_eq!((numbers(&packets), received.summary.foreign, received.summary.sentinels), (vec![1], 2, 1));
    let receiving = udp_socket();
    let other = sender_to(&receiving);
    other.send(&octets(0)).unwrap();
    let accept_from = AcceptFrom::Host(Ipv4Addr::new(192, 0, 2, 1).into());
    let elsewhere = FlowSpec { accept_from, end_timeout_ns: 0, ..spec(5, 100_000) };
    assert_eq!(receive_sent(&receiving, &elsewhere).0.summary.foreign, 1);
    let receiving = udp_socket();
    let other = sender_to(&receiving);
    other.send(&octets(0)).unwrap();
    other.send(&octets(SENTINEL)).unwrap();
    let accept_from = AcceptFrom::Host(Ipv4Addr::LOCALHOST.into());
    assert_eq!(receive_sent(&receiving, &FlowSpec { accept_from, ..spec(5, 100_000) }).0.summary.received, 1);
}

#[test]
fn tags_and_codes_let_only_the_session_through() {
    let tagged = FlowSpec { session_tag: Some(*b"session1"), ..spec(50, 50_000) };
    let keyed = FlowSpec { key: Some(Arc::new(ToyKey(7))), packet_bytes: 36, ..tagged.clone() };
    for spec in [&tagged, &keyed] {
        let (sent, received, packets) = run(&udp_pair(), spec);
        assert_eq!(
            (sent.end, received.summary.received, received.summary.invalid),
            (SendEnd::Acknowledged, 50, 0)
        );
        assert_eq!(numbers(&packets), (0..50).collect::<Vec<i32>>());
    }
    let stranger = FlowSpec { session_tag: Some(*b"session2"), sentinel_timeout_ns: 0, ..keyed.clone() };
    let forger = FlowSpec { key: Some(Arc::new(ToyKey(8))), sentinel_timeout_ns: 0, ..keyed.clone() };
    let receiver = FlowSpec { end_timeout_ns: 100_000_000, ..keyed.clone() };
    let (sending, receiving) = udp_pair();
    let (sent, received, packets) =
        run_with(&sending, &receiving, &stranger, &receiver, &AtomicBool::new(false), &mut |_| ());
    assert_eq!((received.end, packets.len()), (ReceiveEnd::TimedOut, 0));
    assert_eq!(received.summary.foreign, 50 + sent.summary.sentinels);
    let (sending, receiving) = udp_pair();
    let (sent, received, packets) =
        run_with(&sending, &receiving, &forger, &receiver, &AtomicBool::new(false), &mut |_| ());
    assert_eq!(
        (received.end, received.summary.sentinels),
        (ReceiveEnd::TimedOut, 0),
        "a forged sentinel ends nothing"
    );
    assert_eq!(received.summary.invalid, 50 + sent.summary.sentinels);
    assert!(packets.iter().all(|packet| packet.singleton.flags == FLAG_INVALID));
    let untagged = FlowSpec { session_tag: None, ..keyed };
    assert!(untagged.check().is_err(), "a key without a tag could be replayed");
}

#[test]
fn random_datagrams_are_counted_one_and_all() {
    let mut random = super::super::random::Random::new(20_260_101);
    let keyed = FlowSpec { session_tag: Some([3; 8]), key: Some(Arc::new(ToyKey(1))), ..spec(100, 100_000) };
    for spec in [spec(100, 100_000), FlowSpec { packets: None, ..spec(0, 5_000) }, keyed] {
        let receiving = udp_socket();
        let sending = sender_to(&receiving);
        let spec = FlowSpec { end_timeout_ns: 100_000_000, ..spec };
        prepare_receive(&receiving, &spec).unwrap();
        for _ in 0..500 {
            let mut datagram = vec![0; random.below(3_000) as usize];
            random.fill(&mut datagram);
            if datagram.get(8..12) == Some(&[255; 4]) {
                datagram[11] = 0;
            }
            sending.send(&datagram).unwrap();
        }
        sending.send(&vec![7; 65_507]).unwrap();
        let (received, packets) = receive_sent(&receiving, &spec);
        assert_eq!(received.end, ReceiveEnd::TimedOut);
        assert_eq!(
            received.summary.received
                + received.summary.foreign
                + received.summary.unreadable
                + received.summary.sentinels,
            501
        );
        assert_eq!(packets.len() as u64, received.summary.received);
    }
}
