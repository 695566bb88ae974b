//! Writing pcapng. Blocks are put together in one buffer that is used again and again, so that a packet costs one copy
//! and no allocation; the buffer goes out when it is full, and when it is asked to.

use super::option::{self, StampOption};
use super::{
    InterfaceFacts, InterfaceStatistics, PacketDirection, PacketRecord, Reception, SectionFacts, number,
};
use quaver_abi::stamp::Layer;
use std::io::{self, Write};
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{Immutable, IntoBytes, Unaligned};

/// Bytes that are put together before they are written.
const BUFFER_BYTES: usize = 256 * 1024;
/// Longest text of an option.
const MOST_TEXT_BYTES: usize = u16::MAX as usize;
/// Longest packet: no interface has it, and a block's length must fit in 32 bits.
const MOST_PACKET_BYTES: usize = 1 << 30;
/// Exponent of ten of the time stamps: nanoseconds.
const TIME_RESOLUTION: u8 = 9;
const NANOSECONDS: i128 = 1_000_000_000;
/// First bytes of the run facts in their custom option, behind the enterprise number.
pub(super) const FACTS_MAGIC: &[u8; 4] = b"QVRF";

/// Why a capture could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The system refused. Callers know the file.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A packet or statistics of an interface that was not described before.
    #[error("write the capture: interface {0} has not been described; call interface() first")]
    NoInterface(u32),
    /// A packet without the stamp that it is to be shown with.
    #[error("write a packet: it has no stamp of layer {}; choose a layer that stamps every packet", .0.name())]
    NoStamp(Layer),
    /// A time that the format has no room for.
    #[error(
        "write the capture: time {0} ns lies before the interface's zero, or more than 584 years after it"
    )]
    Time(i64),
    /// A packet longer than a block can be.
    #[error(
        "write a packet: {0} bytes are more than a block holds (a gibibyte); limit what is kept of a packet"
    )]
    TooLong(usize),
    /// Facts of the run that an option has no room for.
    #[error("write the capture's facts: {0} bytes are more than an option holds (65,535)")]
    FactsTooLong(usize),
}

impl WriteError {
    /// Whether nobody reads the pipe any more.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Io(source) if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// How the block of a packet begins; its data follow.
///
/// ```text
///   0        4        8           12               20         24         28
///  +--------+--------+-----------+----------------+----------+----------+
///  | type 6 | length | interface | time, high and | captured | original |
///  |        |        |           | low 32 bits    | length   | length   |
///  +--------+--------+-----------+----------------+----------+----------+
/// ```
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct PacketHead {
    kind: U32,
    length: U32,
    interface: U32,
    time: [u8; 8],
    captured: U32,
    original: U32,
}
const _: () = assert!(size_of::<PacketHead>() == DATA_AT);

/// Where the data of a packet begin in its block.
const DATA_AT: usize = 28;

/// Writes one section of pcapng. It has its own buffer, so `W` needs none.
///
/// Dropped without [`PcapngWriter::finish`] it loses what is in the buffer.
#[derive(Debug)]
pub struct PcapngWriter<W: Write> {
    out: W,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are out already, where the rest was refused.
    written: usize,
    /// Offset of each interface's time, seconds.
    offsets_s: Vec<i64>,
    flushed: u64,
}

impl<W: Write> PcapngWriter<W> {
    /// Begins a section.
    pub fn new(out: W, facts: &SectionFacts) -> Result<Self, WriteError> {
        let buffer = Vec::with_capacity(BUFFER_BYTES + 4096);
        let mut writer = Self { out, buffer, written: 0, offsets_s: Vec::new(), flushed: 0 };
        let block = Block::begin(&mut writer.buffer, number::SECTION_HEADER);
        block.buffer.extend_from_slice(&number::BYTE_ORDER_MAGIC.to_le_bytes());
        block.buffer.extend_from_slice(&1u16.to_le_bytes());
        block.buffer.extend_from_slice(&0u16.to_le_bytes());
        // The length of the section is not told: nobody knows it while capturing.
        block.buffer.extend_from_slice(&(-1i64).to_le_bytes());
        let mut options = block.options();
        options.text(number::SHB_HARDWARE, facts.hardware.as_deref());
        options.text(number::SHB_OS, facts.os.as_deref());
        options.text(number::SHB_APPLICATION, facts.application.as_deref());
        options.text(number::COMMENT, facts.comment.as_deref());
        options.end();
        writer.drain()?;
        Ok(writer)
    }

    /// Describes an interface and gives its number: from 0, in the order of describing.
    pub fn interface(&mut self, facts: &InterfaceFacts) -> Result<u32, WriteError> {
        let block = Block::begin(&mut self.buffer, number::INTERFACE_DESCRIPTION);
        block.buffer.extend_from_slice(&facts.link_type.to_le_bytes());
        block.buffer.extend_from_slice(&0u16.to_le_bytes());
        block.buffer.extend_from_slice(&facts.snap_length.to_le_bytes());
        let mut options = block.options();
        options.text(number::IF_NAME, Some(&facts.name));
        options.text(number::IF_DESCRIPTION, facts.description.as_deref());
        if let Some(mac) = facts.mac {
            options.octets(number::IF_MAC, &mac);
        }
        options.number(number::IF_SPEED, facts.speed_bits_per_s);
        options.octets(number::IF_TIME_RESOLUTION, &[TIME_RESOLUTION]);
        if let Some(filter) = &facts.filter {
            // The first byte says that a text follows, not a compiled program.
            let mut text = vec![0];
            text.extend_from_slice(cut(filter, MOST_TEXT_BYTES - 1).as_bytes());
            options.octets(number::IF_FILTER, &text);
        }
        options.text(number::IF_OS, facts.os.as_deref());
        if facts.time_offset_s != 0 {
            options.octets(number::IF_TIME_OFFSET, &facts.time_offset_s.to_le_bytes());
        }
        options.text(number::IF_HARDWARE, facts.hardware.as_deref());
        options.text(number::COMMENT, facts.comment.as_deref());
        options.end();
        self.offsets_s.push(facts.time_offset_s);
        self.drain()?;
        Ok(self.offsets_s.len() as u32 - 1)
    }

    /// Writes a packet of an interface.
    pub fn packet(&mut self, interface: u32, packet: &PacketRecord<'_>) -> Result<(), WriteError> {
        let shown = packet.stamps.get(packet.stamp_layer).ok_or(WriteError::NoStamp(packet.stamp_layer))?;
        let time = self.time(interface, shown.time_ns)?;
        if packet.data.len() > MOST_PACKET_BYTES {
            return Err(WriteError::TooLong(packet.data.len()));
        }
        let captured = packet.data.len() as u32;
        let block = Block { start: self.buffer.len(), buffer: &mut self.buffer };
        let head = PacketHead {
            kind: U32::new(number::ENHANCED_PACKET),
            length: U32::ZERO,
            interface: U32::new(interface),
            time,
            captured: U32::new(captured),
            original: U32::new(packet.original_length.max(captured)),
        };
        block.buffer.extend_from_slice(head.as_bytes());
        block.buffer.extend_from_slice(packet.data);
        pad(block.buffer);
        let mut options = block.options();
        let flags = direction_bits(packet.direction) | (reception_bits(packet.reception) << 2);
        if flags != 0 {
            options.word(number::EPB_FLAGS, flags);
        }
        options.number(number::EPB_DROPS, packet.drops_before);
        options.number(number::EPB_PACKET_ID, packet.packet_id);
        if let Some(queue) = packet.queue {
            options.octets(number::EPB_QUEUE, &queue.to_le_bytes());
        }
        options.stamps(packet);
        options.end();
        self.drain()
    }

    /// Writes what an interface counted; the last of several holds.
    pub fn statistics(&mut self, interface: u32, counted: &InterfaceStatistics) -> Result<(), WriteError> {
        let taken = self.time(interface, counted.taken_ns)?;
        let start = counted.start_ns.map(|ns| self.time(interface, ns)).transpose()?;
        let end = counted.end_ns.map(|ns| self.time(interface, ns)).transpose()?;
        let facts = counted.run_facts.as_ref().map(facts_option).transpose()?;
        let block = Block::begin(&mut self.buffer, number::INTERFACE_STATISTICS);
        block.buffer.extend_from_slice(&interface.to_le_bytes());
        block.buffer.extend_from_slice(&taken);
        let mut options = block.options();
        options.text(number::COMMENT, counted.comment.as_deref());
        for (code, time) in [(number::ISB_START, start), (number::ISB_END, end)] {
            if let Some(time) = time {
                options.octets(code, &time);
            }
        }
        options.number(number::ISB_RECEIVED, counted.received);
        options.number(number::ISB_DROPPED, counted.dropped_by_interface);
        options.number(number::ISB_ACCEPTED, counted.accepted_by_filter);
        options.number(number::ISB_DROPPED_BY_OS, counted.dropped_by_os);
        options.number(number::ISB_DELIVERED, counted.delivered);
        if let Some(facts) = facts {
            options.octets(number::CUSTOM_TEXT, &facts);
        }
        options.end();
        self.drain()
    }

    /// Bytes of the file so far, those in the buffer included.
    pub fn octets(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    /// Bytes of the blocks that the destination has taken whole.
    pub fn whole_octets(&self) -> u64 {
        let whole = blocks(&self.buffer).take_while(|(end, _)| *end <= self.written).last();
        self.flushed + whole.map_or(0, |(end, _)| end as u64)
    }

    /// Packets that were given to the writer and that the destination has not taken whole, in their order. After a failure
    /// these are the packets that are missing from the file.
    pub fn unwritten(&self) -> impl Iterator<Item = UnwrittenPacket> {
        blocks(&self.buffer)
            .filter(|(end, _)| *end > self.written)
            .filter_map(|(_, block)| UnwrittenPacket::of(block, &self.offsets_s))
    }

    /// The destination.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// Hands over what is in the buffer: whole blocks, so a reader of a pipe sees every packet so far.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.hand_over()?;
        Ok(self.out.flush()?)
    }

    /// Writes what is left and gives the destination back.
    pub fn finish(mut self) -> Result<W, WriteError> {
        self.flush()?;
        Ok(self.out)
    }

    /// Bytes that the buffer has room for.
    #[cfg(test)]
    pub(super) fn buffer_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    fn drain(&mut self) -> Result<(), WriteError> {
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.hand_over() }
    }

    fn hand_over(&mut self) -> Result<(), WriteError> {
        while self.written < self.buffer.len() {
            match self.out.write(&self.buffer[self.written..]) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(octets) => self.written += octets,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.flushed += self.buffer.len() as u64;
        self.buffer.clear();
        self.written = 0;
        Ok(())
    }

    /// A time as blocks carry it: the high half of 64 bits, then the low.
    fn time(&self, interface: u32, time_ns: i64) -> Result<[u8; 8], WriteError> {
        let offset_s = *self.offsets_s.get(interface as usize).ok_or(WriteError::NoInterface(interface))?;
        let since = i128::from(time_ns) - i128::from(offset_s) * NANOSECONDS;
        let since = u64::try_from(since).map_err(|_| WriteError::Time(time_ns))?;
        Ok((since.rotate_left(32)).to_le_bytes())
    }
}

/// A packet that did not reach its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwrittenPacket {
    /// Its interface.
    pub interface: u32,
    /// Bytes of the whole packet.
    pub original_length: u32,
    /// Its stamps, and which of them is its time in the file.
    pub stamps: StampOption,
}

impl UnwrittenPacket {
    /// A packet of a block that this writer made; none for other blocks.
    fn of(block: &[u8], offsets_s: &[i64]) -> Option<Self> {
        if word(block, 0)? != number::ENHANCED_PACKET {
            return None;
        }
        let mut options = block.get(DATA_AT + (word(block, 20)? as usize).next_multiple_of(4)..)?;
        let stamps = loop {
            let [code, length] = [0, 2].map(|at| options.get(at..at + 2).map(|two| [two[0], two[1]]));
            let (code, length) = (u16::from_le_bytes(code?), usize::from(u16::from_le_bytes(length?)));
            let value = options.get(4..4 + length)?;
            if code == number::CUSTOM_BINARY {
                // Behind the enterprise number.
                let offset_ns = i128::from(*offsets_s.get(word(block, 8)? as usize)?) * NANOSECONDS;
                let since_ns = u64::from(word(block, 12)?) << 32 | u64::from(word(block, 16)?);
                let time_ns = i64::try_from(i128::from(since_ns) + offset_ns).ok();
                break option::decode(value.get(4..)?, time_ns)?;
            }
            options = options.get(4 + length.next_multiple_of(4)..)?;
        };
        Some(Self { interface: word(block, 8)?, original_length: word(block, 24)?, stamps })
    }
}

fn word(block: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(block.get(at..at + 4)?.try_into().ok()?))
}

/// Blocks of a buffer, each with the place where it ends.
fn blocks(buffer: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let block = buffer.get(at..at + word(buffer, at + 4)? as usize)?;
        at += block.len();
        Some((at, block))
    })
}

/// Facts of the run as the value of a custom option.
fn facts_option(facts: &serde_json::Value) -> Result<Vec<u8>, WriteError> {
    let mut value = option::ENTERPRISE.to_le_bytes().to_vec();
    value.extend_from_slice(FACTS_MAGIC);
    value.extend_from_slice(facts.to_string().as_bytes());
    if value.len() > MOST_TEXT_BYTES { Err(WriteError::FactsTooLong(value.len())) } else { Ok(value) }
}

fn direction_bits(direction: PacketDirection) -> u32 {
    match direction {
        PacketDirection::Unknown => 0,
        PacketDirection::Inbound => 1,
        PacketDirection::Outbound => 2,
    }
}

fn reception_bits(reception: Reception) -> u32 {
    match reception {
        Reception::Unknown => 0,
        Reception::Unicast => 1,
        Reception::Multicast => 2,
        Reception::Broadcast => 3,
        Reception::Promiscuous => 4,
    }
}

/// `text`, or as many whole characters of it as fit.
fn cut(text: &str, octets: usize) -> &str {
    let mut end = text.len().min(octets);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Blocks and options are multiples of 32 bits, and so is the buffer before them.
fn pad(buffer: &mut Vec<u8>) {
    let missing = buffer.len().wrapping_neg() % 4;
    buffer.extend_from_slice(&[0; 3][..missing]);
}

/// A block that is being put together.
struct Block<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Block<'a> {
    fn begin(buffer: &'a mut Vec<u8>, kind: u32) -> Self {
        let start = buffer.len();
        buffer.extend_from_slice(&kind.to_le_bytes());
        buffer.extend_from_slice(&0u32.to_le_bytes());
        Self { buffer, start }
    }

    fn options(self) -> Options<'a> {
        Options { block: self, any: false }
    }

    /// Puts the length of the block where it belongs: behind the type, and at the end.
    fn end(self) {
        let length = (self.buffer.len() - self.start + 4) as u32;
        self.buffer[self.start + 4..self.start + 8].copy_from_slice(&length.to_le_bytes());
        self.buffer.extend_from_slice(&length.to_le_bytes());
    }
}

/// The options of a block.
struct Options<'a> {
    block: Block<'a>,
    any: bool,
}

impl Options<'_> {
    fn octets(&mut self, code: u16, value: &[u8]) {
        self.any = true;
        self.block.buffer.extend_from_slice(&code.to_le_bytes());
        self.block.buffer.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.block.buffer.extend_from_slice(value);
        pad(self.block.buffer);
    }

    fn text(&mut self, code: u16, text: Option<&str>) {
        if let Some(text) = text {
            self.octets(code, cut(text, MOST_TEXT_BYTES).as_bytes());
        }
    }

    fn number(&mut self, code: u16, value: Option<u64>) {
        if let Some(value) = value {
            self.octets(code, &value.to_le_bytes());
        }
    }

    /// An option of 32 bits.
    fn word(&mut self, code: u16, value: u32) {
        self.any = true;
        let (code, octets, value) = (u64::from(code), 4 << 16, u64::from(value) << 32);
        self.block.buffer.extend_from_slice(&(code | octets | value).to_le_bytes());
    }

    fn stamps(&mut self, packet: &PacketRecord<'_>) {
        self.any = true;
        option::encode(self.block.buffer, packet.stamp_layer, packet.stamps);
    }

    fn end(self) {
        if self.any {
            self.block.buffer.extend_from_slice(&[0; 4]);
        }
        self.block.end();
    }
}
