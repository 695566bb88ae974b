use super::*;

/// The workorder of the document's figure 6, as we send it.
const FIGURE_6: [u8; WORKORDER_BYTES] = [
    0, 0, 0, 2, // SENDING
    0, 0, 0x03, 0xe8, // 1000
    0, 0, 0, 80, // bytes
    0, 0, 0, 17, // UDP
    0, 0, 0, 0, 0x01, 0x31, 0x2d, 0x00, // 20000000 ns
    142, 92, 34, 101, // src_ip
    142, 92, 34, 101, // dst_ip
    0x81, 0x4d, 0x0a, 0x6b, // 33101, 2667
    0, 0, 0, 0, // dscp
];

fn figure_6() -> Workorder {
    Workorder {
        src_ip: Ipv4Addr::new(142, 92, 34, 101),
        dst_ip: Ipv4Addr::new(142, 92, 34, 101),
        src_port: 33101,
        ..Workorder::new(Command::Sending)
    }
}

#[test]
fn a_workorder_has_the_octets_drawn() {
    assert_eq!(figure_6().to_octets(), FIGURE_6);
    assert_eq!(Workorder::from_octets(&FIGURE_6), Ok(figure_6()));
    let every_field = Workorder {
        command: Command::Nak,
        npkts: 0x0102_0304,
        pktlen: 0x0506_0708,
        proto: 0x090a_0b0c,
        period_ns: 0x0d0e_0f10_1112_1314,
        src_ip: Ipv4Addr::new(0x15, 0x16, 0x17, 0x18),
        dst_ip: Ipv4Addr::new(0x19, 0x1a, 0x1b, 0x1c),
        src_port: 0x1d1e,
        dst_port: 0x1f20,
        dscp: 0x2122_2324,
    };
    let mut expected: [u8; WORKORDER_BYTES] =
        core::array::from_fn(|at| at as u8 - if at < 4 { 0 } else { 3 });
    expected[..4].copy_from_slice(&[0, 0, 0, 6]);
    assert_eq!(every_field.to_octets(), expected);
    assert_eq!(Workorder::from_octets(&expected), Ok(every_field));
}

#[test]
fn defaults_are_those_of_the_document() {
    let order = Workorder::new(Command::SendMe);
    assert_eq!((order.npkts, order.pktlen, order.period_ns), (1000, 80, 20_000_000));
    assert_eq!((order.proto, order.src_port, order.dst_port, order.dscp), (17, 0, 2667, 0));
    assert_eq!((CONTROL_PORT, TEST_PORT), (2666, 2667));
}

#[test]
fn a_command_that_there_is_not_is_refused() {
    for value in [0, 9, 255, u32::MAX] {
        let mut octets = FIGURE_6;
        octets[..4].copy_from_slice(&value.to_be_bytes());
        assert_eq!(Workorder::from_octets(&octets), Err(DecodeError::UnknownCommand(value)));
    }
    for (index, command) in Command::ALL.iter().copied().enumerate() {
        assert_eq!(command as usize, index + 1);
        assert_eq!(Command::try_from(command as u32), Ok(command));
        assert_eq!(Command::from_name(command.name()), Some(command));
    }
    assert_eq!(Command::from_name("send_me"), None);
}

#[test]
fn another_length_is_refused() {
    let long = [0; 64];
    for got in (0..64).filter(|got| *got != WORKORDER_BYTES) {
        let error = DecodeError::Length { what: "workorder", expected: 40, got };
        assert_eq!(Workorder::from_octets(&long[..got]), Err(error));
    }
    for got in (0..64).filter(|got| *got != SINGLETON_BYTES) {
        let error = DecodeError::Length { what: "singleton", expected: 24, got };
        assert_eq!(Singleton::from_octets(&long[..got]), Err(error));
    }
    for got in 0..TEST_PACKET_BYTES {
        let error = DecodeError::Length { what: "test packet", expected: 12, got };
        assert_eq!(TestPacket::from_octets(&long[..got]), Err(error));
    }
}

#[test]
fn a_probe_carries_its_times_where_the_annex_says() {
    let mut probe = Workorder::rtt_probe(0x1122_3344_5566_7788);
    probe.set_t2_ns(-2);
    let octets = probe.to_octets();
    assert_eq!(octets[..8], [0, 0, 0, 7, 0, 0, 0, 0]);
    assert_eq!(octets[8..16], [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
    assert_eq!(octets[16..24], [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]);
    assert_eq!(octets[24..], [0; 16]);
    for time_ns in [0, 1, -1, i64::MIN, i64::MAX, 1_246_650_331_413_984_400] {
        let mut probe = Workorder::rtt_probe(time_ns);
        probe.set_t2_ns(time_ns);
        assert_eq!((probe.t1_ns(), probe.t2_ns()), (time_ns, time_ns));
        assert_eq!(Workorder::from_octets(&probe.to_octets()), Ok(probe));
    }
}

#[test]
fn a_test_packet_has_the_octets_drawn() {
    let packet = TestPacket { tx_real_time_ns: 1_246_650_331_413_984_400, tx_seq: 0x0102_0304 };
    let octets = [0x11, 0x4c, 0xfd, 0xdf, 0x13, 0x0d, 0xb4, 0x90, 1, 2, 3, 4];
    assert_eq!(packet.to_octets(), octets);
    let mut padded = [0x5a; 80];
    padded[..TEST_PACKET_BYTES].copy_from_slice(&octets);
    assert_eq!(TestPacket::from_octets(&padded), Ok(packet));
    assert!(!packet.is_sentinel());
    let sentinel = TestPacket { tx_real_time_ns: 0, tx_seq: SENTINEL };
    assert_eq!(sentinel.to_octets()[8..], [0xff; 4]);
    assert!(sentinel.is_sentinel());
}

#[test]
fn a_singleton_has_the_octets_drawn() {
    let singleton =
        Singleton { tx_real_time_ns: 1, tx_seq: SENTINEL, rx_real_time_ns: i64::MIN, flags: FLAG_INVALID };
    let octets = [0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 255, 255, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    assert_eq!(singleton.to_octets(), octets);
    assert_eq!(Singleton::from_octets(&octets), Ok(singleton));
}

#[test]
fn a_stream_of_singletons_may_end_within_one() {
    let of = |tx_seq| Singleton { tx_real_time_ns: 5, tx_seq, rx_real_time_ns: 6, flags: FLAG_DUPLICATE };
    let mut octets = [7; 2 * SINGLETON_BYTES + 23];
    octets[..24].copy_from_slice(&of(0).to_octets());
    octets[24..48].copy_from_slice(&of(1).to_octets());
    let (mut singletons, rest) = Singleton::all_in(&octets);
    assert_eq!(singletons.len(), 2);
    assert_eq!((singletons.next(), singletons.next()), (Some(of(0)), Some(of(1))));
    assert_eq!(rest, [7; 23]);
    let (mut none, rest) = Singleton::all_in(&octets[..5]);
    assert_eq!((none.next(), rest.len()), (None, 5));
}
