//! Trains: cut apart by the sender's kernel, put together by the receiver's, or not.

use super::*;
use quaver_abi::wire::jitlat::FLAG_INVALID;
use quaver_host::netns::Lab;
use quaver_probe::socket::set_option;
use quaver_testbed::privileged::privileged;
use std::os::fd::AsFd;

/// 200,000 packets a second in trains of 16.
fn in_trains(packets: u64) -> FlowSpec {
    FlowSpec { train: TrainWish::Packets(16), receive_buffer_bytes: 16 << 20, ..spec(packets, 5_000) }
}

fn assert_whole(sent: &SendReport, received: &ReceiveReport, packets: &[Received], count: u64) {
    assert_eq!(
        (sent.end, sent.summary.packets, sent.summary.sent),
        (SendEnd::Acknowledged, count, count),
        "{:?}",
        sent.failed
    );
    assert_eq!(received.summary.received + received.summary.own_drops.unwrap(), count, "{received:?}");
    assert_eq!(
        (
            received.summary.invalid,
            received.summary.foreign,
            received.summary.unreadable,
            received.summary.duplicates
        ),
        (0, 0, 0, 0)
    );
    assert_eq!(numbers(packets), (0..count as i32).collect::<Vec<_>>(), "loopback keeps the order");
}

#[test]
fn each_packet_of_a_train_is_counted_in_its_place_and_marked() {
    // 1003 leave a train of 11 at the end.
    for (packet_bytes, count) in [(80, 1_003), (12, 160), (1_400, 500)] {
        let spec = FlowSpec { packet_bytes, ..in_trains(count) };
        let (sent, received, packets) = run(&udp_pair(), &spec);
        assert_whole(&sent, &received, &packets, count);
        assert_eq!(
            (
                sent.summary.sending.unwrap().longest_train,
                sent.summary.misses,
                sent.summary.sending.unwrap().unsent
            ),
            (16, 0, 0),
            "{:?}",
            sent.remarks
        );
        assert_eq!(sent.summary.sending.unwrap().train_packets, count);
        assert_eq!(
            received.summary.of_trains,
            packets.iter().filter(|packet| packet.of_train).count() as u64
        );
        assert_eq!(received.summary.of_trains, count);
        assert_eq!(received.summary.stamped_by[StampSource::Kernel as usize], count);
        assert!(sent.transmit_stamps.is_none(), "no stamp of departure is one packet's");
        for train in packets.chunks(16) {
            let one = |stamp: fn(&Singleton) -> i64| {
                train.iter().all(|packet| stamp(&packet.singleton) == stamp(&train[0].singleton))
            };
            assert!(one(|packet| packet.rx_real_time_ns) && one(|packet| packet.tx_real_time_ns));
        }
    }
}

#[test]
fn a_receiver_that_takes_no_trains_gets_each_packet_alone() {
    let (sending, receiving) = udp_pair();
    let (spec, alone) = (in_trains(1_000), FlowSpec { train: TrainWish::Packets(1), ..in_trains(1_000) });
    let never = AtomicBool::new(false);
    let (sent, received, packets) = run_with(&sending, &receiving, &spec, &alone, &never, &mut |_| ());
    assert_whole(&sent, &received, &packets, 1_000);
    assert_eq!((sent.summary.sending.unwrap().longest_train, received.summary.of_trains), (16, 0));
    // The other way round: one that would take trains gets single packets.
    let (sending, receiving) = udp_pair();
    let (sent, received, packets) = run_with(&sending, &receiving, &alone, &spec, &never, &mut |_| ());
    assert_whole(&sent, &received, &packets, 1_000);
    assert_eq!((sent.summary.sending.unwrap().longest_train, received.summary.of_trains), (0, 0));
}

/// Gives the kernel these bytes at once, to be cut apart after `segment_bytes` each.
fn send_segments(sending: &TestSocket, octets: &[u8], segment_bytes: i32) {
    set_option(sending.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, &segment_bytes).unwrap();
    assert_eq!(sending.socket().send(octets).unwrap(), octets.len());
}

#[test]
fn an_odd_last_segment_is_what_it_would_be_alone() {
    let (sending, receiving) = udp_pair();
    let spec = in_trains(10);
    prepare_receive(&receiving, &spec).unwrap();
    let four: Vec<u8> = (0..4).flat_map(octets).collect();
    send_segments(&sending, &four[..4 * 80 - 1], 80);
    send_segments(&sending, &[&octets(4)[..], &octets(5), &octets(6)[..11]].concat(), 80);
    send_segments(&sending, &[&octets(7)[..], &octets(SENTINEL)].concat(), 80);
    let (received, packets) = receive_sent(&receiving, &spec);
    assert_eq!(numbers(&packets), [0, 1, 2, 3, 4, 5, 7]);
    let flags: Vec<i32> = packets.iter().map(|packet| packet.singleton.flags).collect();
    assert_eq!(flags, [0, 0, 0, FLAG_INVALID, 0, 0, 0], "one byte short");
    assert_eq!(
        (received.summary.unreadable, received.end),
        (1, ReceiveEnd::Sentinel),
        "11 bytes are no packet"
    );
}

#[test]
fn segments_of_another_length_are_invalid_each() {
    let (sending, receiving) = udp_pair();
    let spec = in_trains(10);
    prepare_receive(&receiving, &spec).unwrap();
    let long: Vec<u8> = (0..3).flat_map(|number| [&octets(number)[..], &[0; 7]].concat()).collect();
    send_segments(&sending, &long, 87);
    let (received, packets) = receive_sent(&receiving, &FlowSpec { end_timeout_ns: 50_000_000, ..spec });
    assert_eq!(
        (received.summary.received, received.summary.invalid, numbers(&packets)),
        (3, 3, vec![0, 1, 2])
    );
}

#[test]
fn where_the_kernel_makes_no_trains_each_packet_goes_alone_and_it_is_told() {
    let (sending, receiving) = udp_pair();
    // The kernel cuts nothing apart whose checksums it is not to compute.
    set_option(sending.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, &1i32).unwrap();
    let (sent, received, packets) = run(&(sending, receiving), &in_trains(1_000));
    assert_whole(&sent, &received, &packets, 1_000);
    assert_eq!((sent.summary.sending.unwrap().longest_train, received.summary.of_trains), (0, 0));
    assert!(sent.remarks.iter().any(|remark| remark.contains("makes no trains")), "{:?}", sent.remarks);
}

#[test]
fn trains_grow_until_a_rate_is_reached_that_single_packets_do_not() {
    // The least period: not even trains of 64 reach it, and the flow is over in time.
    let spec = FlowSpec {
        lasting_ns: Some(600_000_000),
        receive_buffer_bytes: 32 << 20,
        end_timeout_ns: 60_000_000_000,
        ..FlowSpec::new(80, Some(6_000_000), FlowSchedule::every(LEAST_PERIOD_NS))
    };
    let (sent, received, packets) = run(&udp_pair(), &spec);
    assert!(
        sent.summary.sending.unwrap().finished && sent.summary.sending.unwrap().longest_train > 1,
        "{sent:?}"
    );
    assert_eq!(sent.summary.packets + sent.summary.sending.unwrap().unsent, 6_000_000);
    // The kernel counts what it drops in pieces, of as many packets as a train has at most.
    let (missing, drops) =
        (sent.summary.sent - received.summary.received, received.summary.own_drops.unwrap());
    assert!(
        (drops..=drops * sent.summary.sending.unwrap().longest_train).contains(&missing),
        "{missing} in {drops} pieces"
    );
    assert!(numbers(&packets).is_sorted());
}

#[test]
fn a_socket_makes_no_trains_after_its_flow() {
    let pair = udp_pair();
    run(&pair, &in_trains(32));
    pair.0.socket().send(&[7; 200]).unwrap();
    let mut room = [0; 300];
    let mut next = || rustix::net::recv(&pair.1, &mut room[..], rustix::net::RecvFlags::empty()).unwrap().1;
    let longest = (0..10_000).map(|_| next()).find(|octets| *octets != 80);
    assert_eq!(longest, Some(200), "whole, after sentinels that were under way");
}

#[test]
fn across_a_link_trains_are_cut_to_its_mtu_and_longer_packets_go_alone() {
    if !privileged("across_a_link_trains_are_cut_to_its_mtu_and_longer_packets_go_alone") {
        return;
    }
    let lab = Lab::with_mtu(1_500).unwrap();
    let pair = || {
        let sending =
            lab.source.within(|| TestSocket::udp((lab.source.ipv4, 0).into(), false)).unwrap().unwrap();
        let receiving =
            lab.sink.within(|| TestSocket::udp((lab.sink.ipv4, 0).into(), false)).unwrap().unwrap();
        sending.connect(receiving.local_address().unwrap()).unwrap();
        receiving.connect(sending.local_address().unwrap()).unwrap();
        (sending, receiving)
    };
    // 1472 bytes and their headers fill the MTU; one more, and IP cuts each packet in two.
    for (packet_bytes, longest) in [(80, 16), (1_472, 16), (1_473, 0)] {
        let spec = FlowSpec { packet_bytes, ..in_trains(480) };
        let (sent, received, packets) = run(&pair(), &spec);
        assert_whole(&sent, &received, &packets, 480);
        assert_eq!(
            sent.summary.sending.unwrap().longest_train,
            longest,
            "{packet_bytes} bytes: {:?}",
            sent.remarks
        );
        assert_eq!(sent.remarks.iter().any(|remark| remark.contains("makes no trains")), longest == 0);
        assert!(longest > 0 || received.summary.of_trains == 0);
    }
}
