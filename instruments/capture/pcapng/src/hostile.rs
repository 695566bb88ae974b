//! Captures that somebody broke, or made to break us: each gives a sentence.

use super::block::TimeUnit;
use super::*;
use std::io::Read;

/// Blocks in the byte order asked for.
struct Made {
    file: Vec<u8>,
    big: bool,
}

impl Made {
    fn new(big: bool) -> Self {
        let mut made = Self { file: Vec::new(), big };
        let magic = made.u32(number::BYTE_ORDER_MAGIC);
        let version = [made.u16(1), made.u16(0)].concat();
        made.block(number::SECTION_HEADER, &[&magic[..], &version, &[0xff; 8]].concat());
        made
    }

    fn u16(&self, value: u16) -> [u8; 2] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn u32(&self, value: u32) -> [u8; 4] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn u64(&self, value: u64) -> [u8; 8] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let length = self.u32(body.len() as u32 + 12);
        self.file.extend([&self.u32(kind)[..], &length, body, &length].concat());
    }

    fn option(&self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = [self.u16(code), self.u16(value.len() as u16)].concat();
        option.extend(value);
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    fn interface(&mut self, options: &[u8]) {
        let body = [&self.u16(1)[..], &[0, 0], &self.u32(0), options].concat();
        self.block(number::INTERFACE_DESCRIPTION, &body);
    }

    fn packet(&mut self, interface: u32, time: u64, claimed: u32, data: &[u8], options: &[u8]) {
        let words =
            [interface, (time >> 32) as u32, time as u32, claimed, claimed].map(|word| self.u32(word));
        let mut body = words.concat();
        body.extend(data);
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(options);
        self.block(number::ENHANCED_PACKET, &body);
    }
}

/// Times of the packets, sentences, and whether all was read.
fn read(file: &[u8]) -> (Vec<Option<i64>>, Vec<String>, bool) {
    let mut reader = CaptureReader::new(file).unwrap();
    let mut times = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        times.push(packet.time_ns);
    }
    let cautions = reader.cautions().map(|(sentence, times)| format!("{sentence}: {times}")).collect();
    (times, cautions, reader.is_whole())
}

#[test]
fn resolutions_offsets_and_both_byte_orders() {
    for big in [false, true] {
        for (resolution, offset_s, units, time_ns) in [
            (None, 0, 1_700_000_000_123_456, Some(1_700_000_000_123_456_000)),
            (Some(9), 0, 1_700_000_000_123_456_789, Some(1_700_000_000_123_456_789)),
            (Some(0), 0, 1_700_000_000, Some(1_700_000_000_000_000_000)),
            (Some(12), 1_700_000_000, 1_999, Some(1_700_000_000_000_000_001)),
            (Some(0x80 | 32), 1_700_000_000, 1 << 31, Some(1_700_000_000_500_000_000)),
            (Some(0x80), -1, 2, Some(1_000_000_000)),
            (Some(6), -5, 1, Some(-4_999_999_000)),
            (Some(9), 0, u64::MAX, None),
            (Some(6), i64::MIN, 0, None),
            (Some(127), 0, u64::MAX, Some(0)),
            (Some(0xff), 0, u64::MAX, Some(0)),
        ] {
            let mut made = Made::new(big);
            let mut options = resolution.map_or_else(Vec::new, |octet| made.option(9, &[octet]));
            options.extend(made.option(14, &made.u64(i64::cast_unsigned(offset_s))));
            made.interface(&options);
            made.packet(0, units, 1, b"x", &[]);
            assert_eq!(read(&made.file), (vec![time_ns], vec![], true), "{resolution:?} {offset_s} {big}");
        }
    }
    assert_eq!(TimeUnit::decimal(6).resolution_ns(), 1_000);
    assert_eq!((TimeUnit::decimal(9).resolution_ns(), TimeUnit::decimal(127).resolution_ns()), (1, 1));
}

#[test]
fn options_of_big_endian_files_are_read_in_their_order() {
    let mut made = Made::new(true);
    made.interface(&made.option(8, &made.u64(1_000)));
    let mut stamps = PacketStamps::default();
    let stamp = quaver_abi::stamp::LayerStamp {
        clock: quaver_abi::stamp::StampClock::Tai,
        time_ns: -3,
        bound_ns: 4,
        epoch: 0,
    };
    stamps.set(Layer::Nic, stamp);
    let mut ours = Vec::new();
    option::encode(&mut ours, Layer::Nic, &stamps);
    // Behind code and length. A copier rewrites the enterprise number alone.
    let mut ours = ours.split_off(4);
    ours[..4].copy_from_slice(&made.u32(option::ENTERPRISE));
    let foreign = [&made.u32(option::ENTERPRISE)[..], b"else"].concat();
    let options = [
        made.option(4, &made.u64(7)),
        made.option(2, &made.u32(2)),
        made.option(2989, &foreign),
        made.option(2989, &ours),
    ];
    made.packet(0, 0, 0, b"", &options.concat());
    let mut reader = CaptureReader::new(&made.file[..]).unwrap();
    let packet = reader.next_packet().unwrap().unwrap();
    assert_eq!((packet.drops_before, packet.direction), (Some(7), PacketDirection::Outbound));
    assert_eq!(packet.stamps.unwrap().stamps, stamps);
    assert_eq!(reader.interfaces().next().unwrap().speed_bits_per_s, Some(1_000));
}

#[test]
fn a_section_of_the_other_byte_order_follows() {
    let mut made = Made::new(false);
    made.interface(&[]);
    made.packet(0, 5, 1, b"x", &[]);
    let mut other = Made::new(true);
    other.interface(&other.option(9, &[9]));
    other.packet(0, 6, 1, b"y", &[]);
    // Its interfaces are counted from 0 again.
    other.packet(1, 7, 1, b"z", &[]);
    made.file.extend(&other.file);
    let (times, cautions, whole) = read(&made.file);
    assert_eq!((times, whole), (vec![Some(5_000), Some(6)], true));
    assert_eq!(cautions, ["packets of interfaces that are not described are left out: 1"]);
}

#[test]
fn lengths_that_cannot_be() {
    for (length, sentence) in [
        (0u32, "impossible length"),
        (11, "impossible length"),
        (13, "impossible length"),
        (8, "impossible length"),
        (u32::MAX - 3, "more bytes than the file has"),
        (1 << 20, "the file was cut"),
        (40, "two lengths differ"),
    ] {
        let mut made = Made::new(false);
        made.interface(&[]);
        made.packet(0, 5, 1, b"x", &[]);
        let good = made.file.len();
        made.packet(0, 6, 40, &[1; 40], &[]);
        made.file[good + 4..good + 8].copy_from_slice(&length.to_le_bytes());
        let (times, cautions, whole) = read(&made.file);
        assert_eq!((times.len(), whole), (1, false), "{length}");
        assert!(cautions[0].contains(sentence), "{length}: {cautions:?}");
    }
}

#[test]
fn packets_and_options_that_claim_too_much() {
    let mut made = Made::new(false);
    made.interface(&[]);
    for claimed in [5, 100, u32::MAX, u32::MAX - 4, u32::MAX - 40] {
        made.packet(0, 5, claimed, b"x", &[]);
    }
    let mut huge = made.option(1, b"text");
    huge[2..4].copy_from_slice(&[0xff, 0xff]);
    made.packet(0, 6, 0, b"", &huge);
    let (times, cautions, whole) = read(&made.file);
    assert_eq!((times, whole), (vec![Some(6_000)], true));
    assert_eq!(cautions.iter().filter(|caution| caution.contains("left out")).count(), cautions.len());
    let left_out: u64 =
        cautions.iter().map(|caution| caution.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(left_out, 5, "{cautions:?}");
}

#[test]
fn long_blocks_are_passed_over_without_room_for_them() {
    let mut made = Made::new(false);
    made.interface(&[]);
    made.block(0x1234, &vec![7; 5 << 20]);
    made.packet(0, 5, 1, b"x", &[]);
    let mut reader = CaptureReader::new(&made.file[..]).unwrap();
    assert!(reader.next_packet().unwrap().is_some());
    assert!(reader.buffer_bytes() <= 2 << 20);
    assert_eq!(
        reader.cautions().collect::<Vec<_>>(),
        [("a block of more than a mebibyte is passed over", 1)]
    );
}

impl Made {
    fn statistics(&mut self, interface: u32, dropped: u64) {
        let counts = self.option(number::ISB_DROPPED_BY_OS, &self.u64(dropped));
        let body = [&self.u32(interface)[..], &[0; 8], &counts].concat();
        self.block(number::INTERFACE_STATISTICS, &body);
    }
}

/// A section of one byte order with interfaces of this resolution (power of ten), one packet of each at 5 units, and
/// counts of the last one.
fn section(big: bool, resolutions: &[u8], dropped: u64) -> Vec<u8> {
    let mut made = Made::new(big);
    resolutions.iter().for_each(|resolution| made.interface(&made.option(9, &[*resolution])));
    (0..).zip(resolutions).for_each(|(number, _)| made.packet(number, 5, 1, b"x", &[]));
    made.statistics(resolutions.len() as u32 - 1, dropped);
    made.file
}

#[test]
fn each_section_has_its_own_byte_order_and_interfaces() {
    let file = [section(false, &[9, 6], 70), section(true, &[3], 80), section(false, &[0, 9], 90)].concat();
    let mut reader = CaptureReader::new(&file[..]).unwrap();
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet().unwrap() {
        packets.push((packet.interface, packet.time_ns));
    }
    let expected = [(0, 5), (1, 5_000), (2, 5_000_000), (3, 5_000_000_000), (4, 5)];
    assert_eq!(packets, expected.map(|(interface, time_ns)| (interface, Some(time_ns))));
    let dropped: Vec<_> =
        reader.interfaces().map(|of| of.statistics.as_ref().and_then(|of| of.dropped_by_os)).collect();
    assert_eq!(dropped, [None, Some(70), Some(80), None, Some(90)]);
    assert_eq!((reader.cautions().count(), reader.is_whole()), (0, true));
}

#[test]
fn a_section_of_another_version_ends_the_reading_and_blocks_of_others_do_not() {
    let mut later = section(true, &[3], 80);
    later[12..14].copy_from_slice(&2u16.to_be_bytes());
    let file = [section(false, &[9], 70), later].concat();
    let mut reader = CaptureReader::new(&file[..]).unwrap();
    assert!(reader.next_packet().unwrap().is_some());
    assert!(reader.next_packet().unwrap().is_none());
    let cautions: Vec<_> = reader.cautions().map(|(sentence, _)| sentence).collect();
    assert_eq!(cautions, ["a section is of another version of pcapng than 1; reading ends there"]);
    assert!(!reader.is_whole());
    // Names, secrets, journals and custom blocks without what the library wants of them.
    for kind in [4, 9, 10, 0xbad, 0x4000_0bad, 0x8000_0001] {
        let mut made = Made::new(false);
        made.block(kind, &[]);
        let mut reader = CaptureReader::new(&made.file[..]).unwrap();
        assert!(reader.next_packet().unwrap().is_none());
        assert_eq!((reader.cautions().count(), reader.is_whole()), (0, true), "{kind}");
    }
}

#[test]
fn counts_have_their_times_in_two_words() {
    for big in [false, true] {
        let mut made = Made::new(big);
        made.interface(&made.option(9, &[9]));
        let words = |time: u64| [made.u32((time >> 32) as u32), made.u32(time as u32)].concat();
        let (taken, start, end) = (0x0123_4567_89ab_cdef, 0x0123_4567_89ab_0001, 0x0123_4568_0000_0002);
        let counts = [(2, words(start)), (3, words(end)), (4, made.u64(11).into()), (6, made.u64(12).into())];
        let counts: Vec<u8> = counts.iter().flat_map(|(code, value)| made.option(*code, value)).collect();
        let body = [&made.u32(0)[..], &words(taken), &counts].concat();
        // The smallest block has 12 bytes.
        made.block(0x0bad, &[]);
        made.block(number::INTERFACE_STATISTICS, &body);
        let mut reader = CaptureReader::new(&made.file[..]).unwrap();
        assert!(reader.next_packet().unwrap().is_none());
        let counted = reader.interfaces().next().unwrap().statistics.clone().unwrap();
        let times = [counted.taken_ns, counted.start_ns, counted.end_ns];
        assert_eq!(times, [taken, start, end].map(|time: u64| Some(time.cast_signed())));
        assert_eq!(
            (counted.received, counted.accepted_by_filter, counted.delivered),
            (Some(11), Some(12), None)
        );
        assert_eq!((reader.cautions().count(), reader.is_whole()), (0, true));
    }
}

#[test]
fn what_a_later_section_does_not_describe_is_no_interface_of_the_one_before() {
    let mut second = Made::new(true);
    second.packet(0, 5, 1, b"x", &[]);
    second.statistics(0, 9);
    let file = [section(false, &[9], 70), second.file].concat();
    let (times, cautions, whole) = read(&file);
    assert_eq!((times, whole, cautions.len()), (vec![Some(5)], true, 2), "neither packet nor counts");
    let mut reader = CaptureReader::new(&file[..]).unwrap();
    while reader.next_packet().unwrap().is_some() {}
    assert_eq!(reader.interfaces().next().unwrap().statistics.as_ref().unwrap().dropped_by_os, Some(70));
}

#[test]
fn a_second_section_that_is_cut_or_broken_ends_the_reading() {
    let first = section(false, &[9], 70);
    let second = section(true, &[9], 80);
    for kept in 1..28 {
        let (times, cautions, whole) = read(&[&first[..], &second[..kept]].concat());
        assert_eq!((times.len(), whole, cautions.len()), (1, false, 1), "{kept} octets: {cautions:?}");
        let at = first.len();
        assert!(cautions[0].contains(&format!("at byte {at}, has only {kept} bytes")), "{cautions:?}");
    }
    let mut order = second.clone();
    order[8] = 0;
    let (times, cautions, whole) = read(&[&first[..], &order].concat());
    assert_eq!((times.len(), whole), (1, false));
    assert_eq!(cautions, ["a section tells no byte order; reading ends there: 1"]);
}

#[test]
fn endless_interfaces_fill_no_memory() {
    let mut made = Made::new(false);
    (0..5_000).for_each(|_| made.interface(&[]));
    made.packet(4_095, 5, 1, b"x", &[]);
    made.packet(4_999, 5, 1, b"x", &[]);
    let mut reader = CaptureReader::new(&made.file[..]).unwrap();
    assert!(reader.next_packet().unwrap().is_some());
    assert!(reader.next_packet().unwrap().is_none());
    assert_eq!(reader.interfaces().len(), 4_096);
}

#[test]
fn texts_of_many_interfaces_fill_no_memory() {
    let mut made = Made::new(false);
    let text = [b'q'; 200];
    let options: Vec<u8> = [2, 3, 12, 15, 1].iter().flat_map(|code| made.option(*code, &text)).collect();
    // Small in the file, large in memory.
    let facts =
        [&made.u32(option::ENTERPRISE)[..], super::write::FACTS_MAGIC, b"[", &b"[],".repeat(15_000), b"0]"];
    let facts = made.option(number::CUSTOM_TEXT, &facts.concat());
    for number in 0..4_096u32 {
        made.interface(&options);
        if number < 20 {
            let counts = [&made.u32(number)[..], &[0; 8], &facts].concat();
            // Counts take the place of those before, so that only the last use room.
            (0..3).for_each(|_| made.block(number::INTERFACE_STATISTICS, &counts));
        }
    }
    let mut reader = CaptureReader::new(&made.file[..]).unwrap();
    assert!(reader.next_packet().unwrap().is_none());
    let with = |said: fn(&CapturedInterface) -> bool| reader.interfaces().filter(|of| said(of)).count();
    let run_facts = |of: &CapturedInterface| of.statistics.as_ref().is_some_and(|of| of.run_facts.is_some());
    assert_eq!((reader.interfaces().len(), with(|of| of.statistics.is_some())), (4_096, 20));
    // 15,001 values of 32 bytes, and one around them.
    let each = 15_002 * size_of::<serde_json::Value>();
    let kept_facts = (4 << 20) / each;
    let with_name = with(|of| of.name.is_some());
    assert_eq!((with(run_facts), with(|of| of.comment.is_some())), (kept_facts, with_name));
    assert!(with_name > 20 && with_name * 1_000 + kept_facts * each <= 4 << 20, "{with_name}");
    let cautions: Vec<_> = reader.cautions().collect();
    let left_out = (4_096 - with_name + 3 * (20 - kept_facts)) as u64;
    assert_eq!(cautions, [(room::FULL, left_out)]);
}

#[test]
fn what_is_no_capture_is_said_to_be_none() {
    let error = |file: &[u8]| CaptureReader::new(file).unwrap_err().to_string();
    for file in [&b""[..], b"abc", b"GIF89a......................", &[0; 100]] {
        assert!(error(file).contains("no capture"), "{file:?}");
    }
    let mut later = Made::new(false);
    later.file[12] = 2;
    assert!(error(&later.file).contains("later version"));
    assert!(error(&later.file[..20]).contains("cut"));
    let mut order = Made::new(false);
    order.file[8] = 0;
    assert!(error(&order.file).contains("section header"));
    assert!(error(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0]).contains("cut"));
}

#[test]
fn simple_packets_have_no_time() {
    let mut made = Made::new(false);
    let mut body = made.u32(1_500).to_vec();
    body.extend([1; 60]);
    made.block(3, &body);
    made.interface(&[]);
    made.block(3, &body);
    let mut reader = CaptureReader::new(&made.file[..]).unwrap();
    let packet = reader.next_packet().unwrap().unwrap();
    assert_eq!((packet.time_ns, packet.original_length, packet.data.len()), (None, 1_500, 60));
    assert!(reader.next_packet().unwrap().is_none());
    assert_eq!(reader.cautions().count(), 1, "the first came before its interface");
}

/// A source that fails in the middle.
struct Failing(usize);

impl Read for Failing {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let file = Made::new(false).file;
        if self.0 == file.len() {
            return Err(std::io::Error::other("the disk is gone"));
        }
        into[0] = file[self.0];
        self.0 += 1;
        Ok(1)
    }
}

#[test]
fn a_source_that_fails_is_an_error_and_no_end() {
    let mut reader = CaptureReader::new(Failing(0)).unwrap();
    assert_eq!(reader.next_packet().unwrap_err().to_string(), "the disk is gone");
}
