//! What is written, byte by byte.

use super::write::*;
use super::*;
use quaver_abi::stamp::{LayerStamp, StampClock};

fn stamps() -> PacketStamps {
    let mut stamps = PacketStamps::default();
    stamps.set(
        Layer::Kernel,
        LayerStamp {
            clock: StampClock::Realtime,
            time_ns: 1_700_000_000_123_456_789,
            bound_ns: 40,
            epoch: 0,
        },
    );
    stamps.set(
        Layer::Application,
        LayerStamp {
            clock: StampClock::Cycles,
            time_ns: 1_700_000_000_123_460_000,
            bound_ns: u32::MAX,
            epoch: 0,
        },
    );
    stamps
}

fn le(octets: &[u8]) -> u32 {
    u32::from_le_bytes(octets.try_into().expect("four bytes"))
}

/// The blocks of a file, each with its type; lengths before and behind must agree.
fn blocks(file: &[u8]) -> Vec<(u32, &[u8])> {
    let (mut rest, mut found) = (file, Vec::new());
    while !rest.is_empty() {
        let length = le(&rest[4..8]) as usize;
        assert_eq!((length % 4, le(&rest[length - 4..length])), (0, length as u32));
        found.push((le(&rest[..4]), &rest[8..length - 4]));
        rest = &rest[length..];
    }
    found
}

#[test]
fn octets_of_a_packet_are_those_drawn() {
    let mut writer = PcapngWriter::new(Vec::new(), &SectionFacts::default()).unwrap();
    let facts =
        InterfaceFacts { name: "e".to_owned(), link_type: LINK_ETHERNET, ..InterfaceFacts::default() };
    assert_eq!(writer.interface(&facts).unwrap(), 0);
    let stamps = stamps();
    let record = PacketRecord {
        direction: PacketDirection::Inbound,
        reception: Reception::Multicast,
        drops_before: Some(3),
        ..PacketRecord::new(Layer::Kernel, &stamps, b"abcde", 60)
    };
    writer.packet(0, &record).unwrap();
    let octets = writer.octets();
    let file = writer.finish().unwrap();
    assert_eq!(octets, file.len() as u64);
    let blocks = blocks(&file);
    assert_eq!(blocks[0].0, 0x0a0d_0d0a);
    assert_eq!(
        blocks[0].1,
        [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]
    );
    assert_eq!(
        blocks[1].1,
        [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, b'e', 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]
    );
    let mut expected = vec![0, 0, 0, 0];
    let time = 1_700_000_000_123_456_789u64;
    expected.extend(((time >> 32) as u32).to_le_bytes());
    expected.extend((time as u32).to_le_bytes());
    expected.extend([5, 0, 0, 0, 60, 0, 0, 0, b'a', b'b', b'c', b'd', b'e', 0, 0, 0]);
    expected.extend([2, 0, 4, 0, 1 | 2 << 2, 0, 0, 0]);
    expected.extend([4, 0, 8, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend([0xad, 0x0b, 44, 0, 0xd9, 0x7e, 0, 0]);
    expected.extend(b"QVTS\x01\x03\x02\x00");
    expected.extend([3, 1, 0, 0, 40, 0, 0, 0]);
    expected.extend(1_700_000_000_123_456_789i64.to_le_bytes());
    expected.extend([6, 5, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    expected.extend(1_700_000_000_123_460_000i64.to_le_bytes());
    expected.extend([0, 0, 0, 0]);
    assert_eq!(blocks[2], (6, &expected[..]));
    assert_eq!((option::HEAD_BYTES, option::ENTRY_BYTES, option::MOST_BYTES), (12, 16, 140));
}

#[test]
fn octets_of_raw_cycles_are_those_drawn() {
    let mut stamps = PacketStamps::default();
    stamps.set(Layer::Raw, LayerStamp { clock: StampClock::Cycles, time_ns: 258, bound_ns: 90, epoch: 513 });
    stamps.set_raw_cycles(0x8000_0000_0000_0001);
    let mut writer = PcapngWriter::new(Vec::new(), &SectionFacts::default()).unwrap();
    writer.interface(&InterfaceFacts::default()).unwrap();
    writer.packet(0, &PacketRecord::new(Layer::Raw, &stamps, b"", 0)).unwrap();
    let file = writer.finish().unwrap();
    let mut expected = vec![0xad, 0x0b, 44, 0, 0xd9, 0x7e, 0, 0];
    expected.extend(b"QVTS\x01\x07\x02\x00");
    expected.extend([7, 5, 1, 2, 90, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
    // No time: the counter's reading.
    expected.extend([7, 6, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x80]);
    expected.extend([0, 0, 0, 0]);
    let (kind, block) = blocks(&file)[2];
    assert!(kind == 6 && block.ends_with(&expected), "{block:?}");
    let option = option::StampOption { shown: Some(Layer::Raw), stamps };
    assert_eq!(option::decode(&expected[8..], None), Some(option));
}

#[test]
fn stamps_of_kernel_and_application_alone_take_sixteen_bytes_and_come_back_whole() {
    let stamp = |clock, time_ns, bound_ns, epoch| LayerStamp { clock, time_ns, bound_ns, epoch };
    let of = |kernel: LayerStamp, application: LayerStamp| {
        let mut stamps = PacketStamps::default();
        stamps.set(Layer::Kernel, kernel);
        stamps.set(Layer::Application, application);
        stamps
    };
    let file = |shown: Layer, stamps: &PacketStamps, time_offset_s: i64| {
        let mut writer = PcapngWriter::new(Vec::new(), &SectionFacts::default()).unwrap();
        writer.interface(&InterfaceFacts { time_offset_s, ..InterfaceFacts::default() }).unwrap();
        writer.packet(0, &PacketRecord::new(shown, stamps, b"", 0)).unwrap();
        let lost: Vec<_> = writer.unwritten().map(|packet| packet.stamps).collect();
        let file = writer.finish().unwrap();
        let mut reader = CaptureReader::new(file.as_slice()).unwrap();
        let read = reader.next_packet().unwrap().unwrap().stamps;
        let option = Some(option::StampOption { shown: Some(shown), stamps: *stamps });
        assert_eq!((read, lost), (option, option.into_iter().collect()));
        file
    };
    let at = 1_700_000_000_123_456_789;
    let kernel = stamp(StampClock::Realtime, at, 1, 0);
    let usual = of(kernel, stamp(StampClock::Cycles, at + 0x0102_0304, 90, 513));
    let mut expected = vec![0xad, 0x0b, 16, 0, 0xd9, 0x7e, 0, 0];
    expected.extend(b"QVTA\x04\x03\x02\x01\x01\x02");
    expected.extend([90, 0, 0, 0, 0, 0]);
    assert!(blocks(&file(Layer::Kernel, &usual, 0))[2].1.ends_with(&expected));
    let bytes = |shown, stamps| blocks(&file(shown, &stamps, 1_600_000_000))[2].1.len();
    let application = |time_ns, bound_ns| stamp(StampClock::Cycles, time_ns, bound_ns, 1);
    let (least, most) = (i64::from(u32::MIN), i64::from(u32::MAX));
    for (delay_ns, bound_ns) in [(least, 0), (most, u32::MAX), (7, 65_534)] {
        assert_eq!(bytes(Layer::Kernel, of(kernel, application(at + delay_ns, bound_ns))), 44);
    }
    // All else keeps the longer form.
    for (delay_ns, bound_ns) in [(least - 1, 0), (most + 1, 0), (7, 65_535), (7, u32::MAX - 1)] {
        assert_eq!(bytes(Layer::Kernel, of(kernel, application(at + delay_ns, bound_ns))), 72);
    }
    let usual = application(at + 7, 90);
    assert_eq!(bytes(Layer::Application, of(kernel, usual)), 72);
    assert_eq!(bytes(Layer::Kernel, of(kernel, LayerStamp { clock: StampClock::Realtime, ..usual })), 72);
    assert_eq!(bytes(Layer::Kernel, of(LayerStamp { bound_ns: u32::MAX, ..kernel }, usual)), 72);
    assert_eq!(bytes(Layer::Kernel, of(LayerStamp { clock: StampClock::Tai, ..kernel }, usual)), 72);
    for layer in [Layer::Nic, Layer::Xdp, Layer::Raw, Layer::Tc, Layer::Socket] {
        let mut stamps = of(kernel, usual);
        stamps.set(layer, stamp(StampClock::Monotonic, at, 3, 0));
        assert_eq!(bytes(Layer::Kernel, stamps), 88);
    }
}

#[test]
fn what_cannot_be_written_is_refused_and_leaves_the_file_whole() {
    let mut writer = PcapngWriter::new(Vec::new(), &SectionFacts::default()).unwrap();
    let stamps = stamps();
    let record = PacketRecord::new(Layer::Kernel, &stamps, b"x", 1);
    assert!(matches!(writer.packet(0, &record), Err(WriteError::NoInterface(0))));
    writer.interface(&InterfaceFacts::default()).unwrap();
    let unstamped = PacketRecord { stamp_layer: Layer::Nic, ..record };
    assert!(matches!(writer.packet(0, &unstamped), Err(WriteError::NoStamp(Layer::Nic))));
    let mut early = PacketStamps::default();
    early.set(Layer::Nic, LayerStamp { clock: StampClock::Phc, time_ns: -1, bound_ns: 0, epoch: 0 });
    let early = PacketRecord { stamp_layer: Layer::Nic, stamps: &early, ..record };
    assert!(matches!(writer.packet(0, &early), Err(WriteError::Time(-1))));
    assert_eq!(blocks(&writer.finish().unwrap()).len(), 2);
}

#[test]
fn long_texts_are_cut_between_characters() {
    let long = "ü".repeat(40_000);
    let facts = SectionFacts { comment: Some(long), ..SectionFacts::default() };
    let file = PcapngWriter::new(Vec::new(), &facts).unwrap().finish().unwrap();
    let block = blocks(&file)[0].1;
    assert_eq!(&block[16..20], [1, 0, 0xfe, 0xff]);
    assert!(std::str::from_utf8(&block[20..20 + 65_534]).is_ok());
}

/// A destination that counts how often it is written to.
#[derive(Default)]
struct Counted {
    writes: u64,
    octets: u64,
}

impl std::io::Write for Counted {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        self.writes += 1;
        self.octets += octets.len() as u64;
        Ok(octets.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn packets_are_gathered_and_the_buffer_does_not_grow() {
    let mut writer = PcapngWriter::new(Counted::default(), &SectionFacts::default()).unwrap();
    writer.interface(&InterfaceFacts::default()).unwrap();
    let stamps = stamps();
    let data = [7; 1_500];
    let record = PacketRecord::new(Layer::Kernel, &stamps, &data, 1_500);
    let room = writer.buffer_bytes();
    (0..20_000).for_each(|_| writer.packet(0, &record).unwrap());
    assert_eq!(writer.buffer_bytes(), room);
    let octets = writer.octets();
    let out = writer.finish().unwrap();
    assert_eq!(out.octets, octets);
    assert!(out.writes < octets / 200_000, "{} writes", out.writes);
}

/// Takes so many bytes, and then no more, as a full disk does.
struct FullDisk<'a> {
    file: &'a std::cell::RefCell<Vec<u8>>,
    room: usize,
}

impl std::io::Write for FullDisk<'_> {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        let mut file = self.file.borrow_mut();
        let taken = octets.len().min(self.room - file.len());
        if taken == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        file.extend_from_slice(&octets[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn wherever_the_disk_is_full_each_packet_is_in_the_file_or_told_as_unwritten() {
    const PACKETS: u32 = 6;
    let facts = InterfaceFacts { name: "e".to_owned(), ..InterfaceFacts::default() };
    let stamps = stamps();
    let write = |room: usize| {
        let file = std::cell::RefCell::new(Vec::new());
        let mut writer = PcapngWriter::new(FullDisk { file: &file, room }, &SectionFacts::default()).unwrap();
        writer.interface(&facts).unwrap();
        for number in 0..PACKETS {
            let data = vec![7; number as usize];
            let record = PacketRecord {
                direction: PacketDirection::Inbound,
                ..PacketRecord::new(Layer::Kernel, &stamps, &data, 100 + number)
            };
            writer.packet(0, &record).unwrap();
            if number == 2 {
                let _ = writer.flush();
            }
        }
        let failed = writer.flush().is_err();
        let lost: Vec<_> = writer.unwritten().collect();
        let (whole, told) = (writer.whole_octets() as usize, writer.octets() as usize);
        drop(writer);
        (file.into_inner(), lost, whole, told, failed)
    };
    let (all, lost, whole, told, failed) = write(usize::MAX);
    assert_eq!((lost.len(), whole, told, failed), (0, all.len(), all.len(), false));
    for room in 0..all.len() {
        let (mut file, lost, whole, told, failed) = write(room);
        assert_eq!((file.len(), told, failed), (room, all.len(), true));
        file.truncate(whole);
        assert_eq!(file, all[..whole], "{room}");
        let there = blocks(&file).iter().filter(|(kind, _)| *kind == 6).count() as u32;
        assert_eq!(there + lost.len() as u32, PACKETS, "{room}");
        for (number, packet) in (there..).zip(&lost) {
            let option = option::StampOption { shown: Some(Layer::Kernel), stamps };
            let expected = UnwrittenPacket { interface: 0, original_length: 100 + number, stamps: option };
            assert_eq!(*packet, expected, "{room}");
        }
    }
}
