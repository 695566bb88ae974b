//! Captures that were changed at random, and captures of anything.

mod pcapng_checks;

use pcapng_checks::{Said, capture, read};
use proptest::prelude::*;
use quaver_abi::stamp::{Layer, LayerStamp, PacketStamps, StampClock};
use quaver_pcapng::{
    CaptureReader, InterfaceFacts, InterfaceStatistics, PacketDirection, PacketRecord, PcapngWriter,
    SectionFacts,
};

const START_NS: i64 = 1_700_000_000_000_000_000;

/// A small capture with everything that we write.
fn ours() -> Vec<u8> {
    let section = SectionFacts { application: Some("test".to_owned()), ..SectionFacts::default() };
    let mut writer = PcapngWriter::new(Vec::new(), &section).unwrap();
    for name in ["first", "second"] {
        let facts = InterfaceFacts {
            name: name.to_owned(),
            filter: Some("udp".to_owned()),
            mac: Some([1, 2, 3, 4, 5, 6]),
            speed_bits_per_s: Some(1_000_000_000),
            time_offset_s: 5,
            link_type: 1,
            ..InterfaceFacts::default()
        };
        writer.interface(&facts).unwrap();
    }
    for n in 0..4u32 {
        let mut stamps = PacketStamps::default();
        let stamp = LayerStamp {
            clock: StampClock::Realtime,
            time_ns: START_NS + i64::from(n),
            bound_ns: 9,
            epoch: 0,
        };
        stamps.set(Layer::Kernel, stamp);
        stamps.set(Layer::Application, stamp);
        let data = vec![n as u8; 13 * n as usize];
        let record = PacketRecord {
            drops_before: Some(u64::from(n)),
            direction: PacketDirection::Inbound,
            packet_id: Some(7),
            queue: Some(1),
            ..PacketRecord::new(Layer::Kernel, &stamps, &data, 13 * n)
        };
        writer.packet(n % 2, &record).unwrap();
    }
    let counted = InterfaceStatistics {
        taken_ns: START_NS,
        received: Some(4),
        run_facts: Some(serde_json::json!({"a": [1, 2]})),
        ..Default::default()
    };
    writer.statistics(1, &counted).unwrap();
    writer.finish().unwrap()
}

/// The same as classic pcap of one of its forms.
fn classic(magic: u32, big: bool) -> Vec<u8> {
    let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let version = if big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
    let mut file = [word(magic), version, word(0), word(0), word(65_535), word(1)].concat();
    for n in 0..3u32 {
        file.extend([word(1_700_000_000), word(123_456 + n), word(5 * n), word(60)].concat());
        if magic == 0xa1b2_cd34 {
            file.extend([0; 8]);
        }
        file.extend(vec![n as u8; 5 * n as usize]);
    }
    file
}

#[test]
fn classic_files_of_each_form() {
    for (magic, big, unit_ns) in [
        (0xa1b2_c3d4, false, 1_000),
        (0xa1b2_c3d4, true, 1_000),
        (0xa1b2_3c4d, false, 1),
        (0xa1b2_3c4d, true, 1),
        (0xa1b2_cd34, false, 1_000),
    ] {
        let said = read(&classic(magic, big)[..]);
        let time = |n: i64| Some(START_NS + (123_456 + n) * unit_ns);
        let packets = vec![(0, time(0), 0, None), (0, time(1), 5, None), (0, time(2), 10, None)];
        assert_eq!(said, Said { packets, whole: true, ..Said::default() }, "{magic:x} {big}");
    }
}

#[test]
fn each_cut_is_read_up_to_its_last_whole_packet_and_said() {
    for file in [ours(), classic(0xa1b2_c3d4, false)] {
        let whole = read(&file[..]);
        assert!(whole.whole && whole.cautions.is_empty(), "{whole:?}");
        for length in 0..file.len() {
            let said = read(&file[..length]);
            assert!(whole.packets.starts_with(&said.packets));
            let ended_between = said.whole && said.error.is_none();
            assert!(
                ended_between || said.error.is_some() || said.cautions[0].0.contains("was cut"),
                "{said:?}"
            );
        }
    }
}

#[test]
fn what_we_write_we_read() {
    let file = ours();
    let mut reader = CaptureReader::new(&file[..]).unwrap();
    let mut packets = 0;
    while let Some(packet) = reader.next_packet().unwrap() {
        let n = packets as i64;
        let stamps = packet.stamps.unwrap();
        assert_eq!((packet.interface, packet.time_ns), (packets % 2, Some(START_NS + n)));
        assert_eq!((stamps.shown, stamps.stamps.iter().count()), (Some(Layer::Kernel), 2));
        let kernel = stamps.stamps.get(Layer::Kernel).unwrap();
        assert_eq!((kernel.clock, kernel.time_ns, kernel.bound_ns), (StampClock::Realtime, START_NS + n, 9));
        assert_eq!((packet.drops_before, packet.packet_id, packet.queue), (Some(n as u64), Some(7), Some(1)));
        assert_eq!(
            (packet.direction, packet.data),
            (PacketDirection::Inbound, &vec![n as u8; 13 * packets][..])
        );
        packets += 1;
    }
    assert_eq!(packets, 4);
    assert_eq!(reader.section().unwrap().application.as_deref(), Some("test"));
    let interfaces: Vec<_> = reader.interfaces().collect();
    assert_eq!(
        (interfaces[0].name.as_deref(), interfaces[0].filter.as_deref()),
        (Some("first"), Some("udp"))
    );
    assert_eq!((interfaces[0].mac, interfaces[0].resolution_ns), (Some([1, 2, 3, 4, 5, 6]), 1));
    assert_eq!(interfaces[0].speed_bits_per_s, Some(1_000_000_000));
    assert_eq!(interfaces[0].statistics, None);
    let counted = interfaces[1].statistics.as_ref().unwrap();
    assert_eq!((counted.taken_ns, counted.received, counted.delivered), (Some(START_NS), Some(4), None));
    assert_eq!(counted.run_facts, Some(serde_json::json!({"a": [1, 2]})));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn changed_at_random(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(), which in 0..4,
    ) {
        let mut file = match which {
            0 => ours(),
            1 => [ours(), ours()].concat(),
            2 => classic(0xa1b2_3c4d, true),
            _ => classic(0xa1b2_cd34, false),
        };
        for (at, octet) in changes {
            let at = at.index(file.len());
            file[at] = octet;
        }
        capture(&file);
        capture(&file[..cut.index(file.len())]);
    }

    #[test]
    fn anything(octets in prop::collection::vec(any::<u8>(), 0..300), header in 0..3) {
        let mut file = match header {
            0 => Vec::new(),
            1 => ours()[..200].to_vec(),
            _ => classic(0xa1b2_c3d4, false)[..24].to_vec(),
        };
        file.extend(octets);
        capture(&file);
    }

    #[test]
    fn stamps_of_any_value(
        layers in prop::collection::vec((0usize..7, 0usize..5, any::<i64>(), any::<u32>(), any::<u16>()), 0..8),
        cycles in prop::option::of(any::<u64>()),
    ) {
        let mut stamps = PacketStamps::default();
        let shown = LayerStamp { clock: StampClock::Realtime, time_ns: START_NS, bound_ns: 0, epoch: 0 };
        cycles.into_iter().for_each(|cycles| stamps.set_raw_cycles(cycles));
        for (layer, clock, time_ns, bound_ns, epoch) in layers {
            stamps.set(Layer::ALL[layer], LayerStamp { clock: StampClock::ALL[clock], time_ns, bound_ns, epoch });
        }
        stamps.set(Layer::Kernel, shown);
        let mut writer = PcapngWriter::new(Vec::new(), &SectionFacts::default()).unwrap();
        writer.interface(&InterfaceFacts::default()).unwrap();
        writer.packet(0, &PacketRecord::new(Layer::Kernel, &stamps, b"", 0)).unwrap();
        let file = writer.finish().unwrap();
        let mut reader = CaptureReader::new(&file[..]).unwrap();
        let packet = reader.next_packet().unwrap().unwrap();
        prop_assert_eq!(packet.stamps.map(|option| option.stamps), Some(stamps));
    }
}
