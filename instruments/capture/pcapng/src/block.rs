//! What is in one block, or in one packet of a classic file.

use super::option::{self, StampOption};
use super::write::FACTS_MAGIC;
use super::{
    CapturedInterface, CapturedPacket, CapturedSection, CapturedStatistics, PacketDirection, number,
};
use pcap_parser::{Block, PcapNGOption, parse_block_be, parse_block_le};
use std::ops::Range;

/// Where the data of a packet begin in its block.
const ENHANCED_DATA: usize = 28;
const SIMPLE_DATA: usize = 12;
const NANOSECONDS: i128 = 1_000_000_000;
/// Texts are shown, so they are kept short.
const MOST_TEXT_CHARACTERS: usize = 200;

/// What a time stamp of an interface counts, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeUnit {
    /// As `if_tsresol` has it: bit 7 tells powers of two from those of ten.
    resolution: u8,
    offset_s: i64,
}

impl TimeUnit {
    pub(super) const fn decimal(exponent: u8) -> Self {
        Self { resolution: exponent, offset_s: 0 }
    }

    /// Nanoseconds since 1970, rounded down; none beyond 64 bits.
    pub(super) fn ns(self, units: u64) -> Option<i64> {
        let exponent = u32::from(self.resolution & 0x7f);
        let since = if self.resolution & 0x80 == 0 {
            if exponent <= 9 {
                i128::from(units) * 10i128.pow(9 - exponent)
            } else {
                // Beyond 10^38 every time is less than a nanosecond after the start.
                10i128.checked_pow(exponent - 9).map_or(0, |divisor| i128::from(units) / divisor)
            }
        } else {
            // 64 bits times 10^9 are below 2^94, so a shift of more leaves nothing.
            (i128::from(units) * NANOSECONDS).checked_shr(exponent).unwrap_or(0)
        };
        i64::try_from(since + i128::from(self.offset_s) * NANOSECONDS).ok()
    }

    /// Length of a unit in nanoseconds, at least 1.
    pub(super) fn resolution_ns(self) -> u64 {
        let exponent = u32::from(self.resolution & 0x7f);
        let units_a_second = if self.resolution & 0x80 == 0 {
            10u64.checked_pow(exponent)
        } else {
            1u64.checked_shl(exponent)
        };
        1_000_000_000u64.div_ceil(units_a_second.unwrap_or(u64::MAX))
    }
}

/// An interface, and how its times are read.
#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub(super) facts: CapturedInterface,
    pub(super) unit: TimeUnit,
}

impl Interface {
    /// That of a classic file.
    pub(super) fn classic(link_type: u16, snap_length: u32, unit: TimeUnit) -> Self {
        let facts = CapturedInterface {
            link_type,
            snap_length,
            resolution_ns: unit.resolution_ns(),
            ..CapturedInterface::default()
        };
        Self { facts, unit }
    }
}

/// A packet without its data, and where in its block they lie.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) packet: CapturedPacket<'static>,
    pub(super) data: Range<usize>,
}

/// What a block says.
pub(super) enum Parsed {
    Section(CapturedSection),
    Interface(Box<Interface>),
    /// Of the interface with this number in its section.
    Packet(Box<Parts>),
    Statistics(usize, Box<CapturedStatistics>),
    /// Nothing that is of use here.
    Nothing,
}

/// Takes one whole block apart; a sentence where it contradicts itself.
pub(super) fn parse(
    octets: &[u8],
    big_endian: bool,
    interfaces: &[Interface],
) -> Result<Parsed, &'static str> {
    let reader = Numbers { big_endian };
    if reader.u32(octets) == Some(number::PACKET) {
        return reader.old_packet(octets, interfaces);
    }
    // The library refuses some blocks of others that say nothing here.
    if !matches!(
        reader.u32(octets),
        Some(number::SECTION_HEADER | number::INTERFACE_DESCRIPTION | number::SIMPLE_PACKET)
            | Some(number::INTERFACE_STATISTICS | number::ENHANCED_PACKET)
    ) {
        return Ok(Parsed::Nothing);
    }
    let parse = if big_endian { parse_block_be } else { parse_block_le };
    let (_, block) = parse(octets).map_err(|_| "a block cannot be read and is left out")?;
    match block {
        Block::SectionHeader(block) => Ok(Parsed::Section(reader.section(&block))),
        Block::InterfaceDescription(block) => Ok(Parsed::Interface(Box::new(reader.interface(&block)))),
        Block::EnhancedPacket(block) => reader.packet(&block, interfaces),
        Block::SimplePacket(block) => simple_packet(&block, interfaces),
        Block::InterfaceStatistics(block) => {
            let interface = interfaces.get(block.if_id as usize);
            let unit = interface.ok_or("counts of an interface that is not described are left out")?.unit;
            Ok(Parsed::Statistics(block.if_id as usize, Box::new(reader.statistics(&block, unit))))
        }
        _ => Ok(Parsed::Nothing),
    }
}

/// A packet without time or options: of the first interface.
fn simple_packet(
    block: &pcap_parser::SimplePacketBlock<'_>,
    interfaces: &[Interface],
) -> Result<Parsed, &'static str> {
    let first = interfaces.first().ok_or(NO_INTERFACE)?;
    let limit = match first.facts.snap_length {
        0 => u32::MAX,
        limit => limit,
    };
    let kept = (block.origlen.min(limit) as usize).min(block.data.len());
    let packet = bare(None, block.origlen);
    Ok(Parsed::Packet(Box::new(Parts { packet, data: SIMPLE_DATA..SIMPLE_DATA + kept })))
}

const NO_INTERFACE: &str = "packets of interfaces that are not described are left out";

/// A packet of a classic file, header and data; none where it cannot be.
pub(super) fn classic_packet(
    octets: &[u8],
    big_endian: bool,
    modified: bool,
    unit: TimeUnit,
) -> Option<Parts> {
    let parsed = match (modified, big_endian) {
        (true, _) => pcap_parser::parse_pcap_frame_modified(octets),
        (false, true) => pcap_parser::parse_pcap_frame_be(octets),
        (false, false) => pcap_parser::parse_pcap_frame(octets),
    };
    let (_, packet) = parsed.ok()?;
    let head = octets.len() - packet.data.len();
    let second_ns = i64::from(packet.ts_sec) * 1_000_000_000;
    // The field of the parts of a second is not held to be below a second: it is carried.
    let part_ns = unit.ns(u64::from(packet.ts_usec))?;
    let packet = bare(second_ns.checked_add(part_ns), packet.origlen);
    Some(Parts { packet, data: head..octets.len() })
}

/// A packet of the first interface of which no more is known.
fn bare(time_ns: Option<i64>, original_length: u32) -> CapturedPacket<'static> {
    CapturedPacket {
        interface: 0,
        link_type: 0,
        time_ns,
        original_length,
        data: &[],
        stamps: None,
        drops_before: None,
        direction: PacketDirection::Unknown,
        packet_id: None,
        queue: None,
    }
}

/// The numbers of a section, in its byte order.
#[derive(Clone, Copy)]
struct Numbers {
    big_endian: bool,
}

impl Numbers {
    /// A packet block of old differs from an enhanced one in one word: interface and drops have half of it each.
    fn old_packet(self, octets: &[u8], interfaces: &[Interface]) -> Result<Parsed, &'static str> {
        const BROKEN: &str = "a block cannot be read and is left out";
        let word = self.u32(octets.get(8..).unwrap_or_default()).ok_or(BROKEN)?;
        let (first, second) = (word >> 16, word & 0xffff);
        let (interface, drops) = if self.big_endian { (first, second) } else { (second, first) };
        let of = |number: u32| if self.big_endian { number.to_be_bytes() } else { number.to_le_bytes() };
        let mut enhanced = octets.to_vec();
        enhanced[..4].copy_from_slice(&of(number::ENHANCED_PACKET));
        enhanced[8..12].copy_from_slice(&of(interface));
        let mut parsed = parse(&enhanced, self.big_endian, interfaces)?;
        // All ones: nobody counted.
        if let Parsed::Packet(parts) = &mut parsed {
            parts.packet.drops_before = (drops != 0xffff).then_some(drops.into());
        }
        Ok(parsed)
    }

    fn u32(self, octets: &[u8]) -> Option<u32> {
        let four = *octets.first_chunk::<4>()?;
        Some(if self.big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
    }

    fn u64(self, octets: &[u8]) -> Option<u64> {
        let eight = *octets.first_chunk::<8>()?;
        Some(if self.big_endian { u64::from_be_bytes(eight) } else { u64::from_le_bytes(eight) })
    }

    /// A time is two numbers of 32 bits, the higher first.
    fn time(self, octets: &[u8]) -> Option<u64> {
        let (high, low) = (self.u32(octets)?, self.u32(octets.get(4..)?)?);
        Some(u64::from(high) << 32 | u64::from(low))
    }

    fn section(self, block: &pcap_parser::SectionHeaderBlock<'_>) -> CapturedSection {
        let of = |code| text(&block.options, code);
        CapturedSection {
            major: block.major_version,
            hardware: of(number::SHB_HARDWARE),
            os: of(number::SHB_OS),
            application: of(number::SHB_APPLICATION),
            comment: of(number::COMMENT),
        }
    }

    fn interface(self, block: &pcap_parser::InterfaceDescriptionBlock<'_>) -> Interface {
        let options = &block.options;
        let of = |code| value(options, code);
        let unit = TimeUnit {
            resolution: of(number::IF_TIME_RESOLUTION)
                .and_then(|octets| octets.first().copied())
                .unwrap_or(6),
            offset_s: of(number::IF_TIME_OFFSET)
                .and_then(|octets| self.u64(octets))
                .map_or(0, u64::cast_signed),
        };
        let facts = CapturedInterface {
            name: text(options, number::IF_NAME),
            description: text(options, number::IF_DESCRIPTION),
            link_type: block.linktype.0 as u16,
            snap_length: block.snaplen,
            // Behind the first byte, which is 0 for a text.
            filter: of(number::IF_FILTER).and_then(|octets| octets.strip_prefix(&[0])).map(shown),
            mac: of(number::IF_MAC).and_then(|octets| octets.first_chunk().copied()),
            speed_bits_per_s: of(number::IF_SPEED).and_then(|octets| self.u64(octets)),
            os: text(options, number::IF_OS),
            hardware: text(options, number::IF_HARDWARE),
            comment: text(options, number::COMMENT),
            resolution_ns: unit.resolution_ns(),
            statistics: None,
        };
        Interface { facts, unit }
    }

    fn packet(
        self,
        block: &pcap_parser::EnhancedPacketBlock<'_>,
        interfaces: &[Interface],
    ) -> Result<Parsed, &'static str> {
        let interface = interfaces.get(block.if_id as usize).ok_or(NO_INTERFACE)?;
        let kept = block.caplen as usize;
        if kept > block.data.len() {
            return Err("packets that claim more bytes than their block has are skipped");
        }
        let of = |code| value(&block.options, code);
        let flags = of(number::EPB_FLAGS).and_then(|octets| self.u32(octets)).unwrap_or(0);
        let time_ns = interface.unit.ns(u64::from(block.ts_high) << 32 | u64::from(block.ts_low));
        let packet = CapturedPacket {
            interface: block.if_id as usize,
            link_type: 0,
            time_ns,
            original_length: block.origlen,
            data: &[],
            stamps: self.stamps(&block.options, time_ns),
            drops_before: of(number::EPB_DROPS).and_then(|octets| self.u64(octets)),
            direction: match flags & 3 {
                1 => PacketDirection::Inbound,
                2 => PacketDirection::Outbound,
                _ => PacketDirection::Unknown,
            },
            packet_id: of(number::EPB_PACKET_ID).and_then(|octets| self.u64(octets)),
            queue: of(number::EPB_QUEUE).and_then(|octets| self.u32(octets)),
        };
        Ok(Parsed::Packet(Box::new(Parts { packet, data: ENHANCED_DATA..ENHANCED_DATA + kept })))
    }

    /// Our option, which may stand beside those of others with the same code.
    fn stamps(self, options: &[PcapNGOption<'_>], time_ns: Option<i64>) -> Option<StampOption> {
        let ours = |option: &PcapNGOption<'_>| {
            let octets = option.as_bytes().ok()?;
            let is_ours =
                option.code.0 == number::CUSTOM_BINARY && self.u32(octets) == Some(option::ENTERPRISE);
            if is_ours { option::decode(octets.get(4..)?, time_ns) } else { None }
        };
        options.iter().find_map(ours)
    }

    fn statistics(
        self,
        block: &pcap_parser::InterfaceStatisticsBlock<'_>,
        unit: TimeUnit,
    ) -> CapturedStatistics {
        let of = |code| value(&block.options, code);
        let count = |code| of(code).and_then(|octets| self.u64(octets));
        let time = |code| of(code).and_then(|octets| self.time(octets)).and_then(|units| unit.ns(units));
        CapturedStatistics {
            taken_ns: unit.ns(u64::from(block.ts_high) << 32 | u64::from(block.ts_low)),
            start_ns: time(number::ISB_START),
            end_ns: time(number::ISB_END),
            received: count(number::ISB_RECEIVED),
            dropped_by_interface: count(number::ISB_DROPPED),
            accepted_by_filter: count(number::ISB_ACCEPTED),
            dropped_by_os: count(number::ISB_DROPPED_BY_OS),
            delivered: count(number::ISB_DELIVERED),
            comment: text(&block.options, number::COMMENT),
            run_facts: block.options.iter().find_map(|option| self.run_facts(option)),
        }
    }

    fn run_facts(self, option: &PcapNGOption<'_>) -> Option<serde_json::Value> {
        let octets = option.as_bytes().ok().filter(|_| option.code.0 == number::CUSTOM_TEXT)?;
        let ours = self.u32(octets) == Some(option::ENTERPRISE);
        let text = octets.get(4..)?.strip_prefix(FACTS_MAGIC).filter(|_| ours)?;
        serde_json::from_slice(text).ok()
    }
}

/// The first option of this code.
fn value<'o>(options: &'o [PcapNGOption<'_>], code: u16) -> Option<&'o [u8]> {
    options.iter().find(|option| option.code.0 == code)?.as_bytes().ok()
}

fn text(options: &[PcapNGOption<'_>], code: u16) -> Option<String> {
    value(options, code).map(shown)
}

fn shown(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).trim_end_matches('\0').chars().take(MOST_TEXT_CHARACTERS).collect()
}
