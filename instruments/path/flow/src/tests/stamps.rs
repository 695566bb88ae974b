//! Where times come from.

use super::*;

#[test]
fn kernel_stamps_are_there_and_in_order() {
    let (sent, received, packets) = run(&udp_pair(), &spec(200, 200_000));
    assert_eq!(
        (received.summary.received, received.summary.stamped_by),
        (200, [0, 200, 0]),
        "{:?}",
        received.remarks
    );
    for packet in &packets {
        let Singleton { tx_real_time_ns, rx_real_time_ns, .. } = packet.singleton;
        assert!(tx_real_time_ns <= rx_real_time_ns, "one clock: {packet:?}");
        assert_eq!(packet.stamped_by, StampSource::Kernel);
    }
    let stamps = sent.transmit_stamps.expect("asked for");
    assert_eq!((stamps.count, stamps.missing, stamps.kept.len()), (200, 0, 200));
    for (stamp, packet) in stamps.kept.iter().zip(&packets) {
        let Singleton { tx_real_time_ns, tx_seq, rx_real_time_ns, .. } = packet.singleton;
        assert_eq!((stamp.sequence, stamp.sent_ns), (tx_seq as u64, tx_real_time_ns));
        assert!(stamp.sent_ns <= stamp.left_ns && stamp.left_ns <= rx_real_time_ns, "{stamp:?} {packet:?}");
        assert_eq!(stamp.stamped_by, StampSource::Kernel);
    }
}

#[test]
fn stamps_of_the_program_where_they_are_asked_for() {
    let spec = FlowSpec { stamps: StampWish::Application, ..spec(100, 200_000) };
    let (sent, received, packets) = run(&udp_pair(), &spec);
    assert_eq!(received.summary.stamped_by, [0, 0, 100]);
    assert!(sent.transmit_stamps.is_none());
    assert!(packets.iter().all(|p| p.singleton.tx_real_time_ns <= p.singleton.rx_real_time_ns));
}

#[test]
fn stamps_of_transmission_survive_refused_sends() {
    let (sending, receiving) = udp_pair();
    let to = receiving.local_address().unwrap();
    drop(receiving);
    let spec = FlowSpec { sentinel_timeout_ns: 0, ..spec(20, 300_000) };
    let sent = send_flow(&sending, &spec, &AtomicBool::new(false), &AtomicBool::new(false)).unwrap();
    let stamps = sent.transmit_stamps.unwrap();
    assert_eq!(stamps.count + stamps.missing, 20);
    for stamp in &stamps.kept {
        assert!(stamp.sent_ns <= stamp.left_ns, "{stamp:?}");
    }
    let receiving = TestSocket::udp(to, false).unwrap();
    let (sent, ..) = run(&(sending, receiving), &super::spec(20, 300_000));
    assert_eq!(sent.transmit_stamps.unwrap().count, 20, "numbers start anew with each flow");
}

#[test]
fn stamps_are_kept_up_to_the_limit_and_counted_beyond() {
    let spec = FlowSpec { stamps_kept: 10, ..spec(100, 200_000) };
    let (sent, ..) = run(&udp_pair(), &spec);
    let stamps = sent.transmit_stamps.unwrap();
    assert_eq!((stamps.kept.len(), stamps.count), (10, 100));
    assert!(stamps.mean_ns > 0.0 && stamps.largest_ns as f64 >= stamps.mean_ns);
}

#[test]
fn a_high_rate_flow_is_received_in_gathered_batches() {
    let train = TrainWish::Packets(1);
    let spec = FlowSpec { train, receive_buffer_bytes: 16 << 20, ..spec(5_000, 10_000) };
    let (sent, received, packets) = run(&udp_pair(), &spec);
    assert_eq!(received.summary.received + received.summary.own_drops.unwrap(), sent.summary.sent);
    assert_eq!(received.summary.stamped_by[StampSource::Kernel as usize], received.summary.received);
    let mut times: Vec<i64> = packets.iter().map(|packet| packet.singleton.rx_real_time_ns).collect();
    times.dedup();
    assert_eq!(times.len(), packets.len(), "each packet has its own stamp, not its batch's");
}
