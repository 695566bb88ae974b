//! Reading captures: pcapng, classic pcap and snoop, block by block, in bounded memory.
//!
//! Blocks are framed here, so that no length that a file claims is believed before so many bytes are there, and none
//! above [`MOST_BLOCK_BYTES`] at all; what is in a block is taken apart by pcap-parser. Numbers in options are read here
//! too: the library reads those of big-endian files as if they were little-endian.

use super::block::{self, Interface, Parsed, Parts, TimeUnit};
use super::number;
use super::room::{FULL, Room};
use super::snoop;
use super::{CapturedInterface, CapturedPacket, CapturedSection, CapturedStatistics};
use std::io::{self, Read};

/// A longer block is passed over: the longest packet that tools keep is a quarter of it.
pub const MOST_BLOCK_BYTES: usize = 1 << 20;
/// Most interfaces of a section; more are a file made to fill memory.
const MOST_INTERFACES: usize = 4_096;
/// Different sentences of caution that are kept.
const MOST_CAUTIONS: usize = 16;
/// Bytes of the smallest block: type and both lengths.
const LEAST_BLOCK_BYTES: usize = 12;
/// Bytes of a classic file's header, and of a packet's there.
const PCAP_HEADER_BYTES: usize = 24;
const PCAP_PACKET_BYTES: usize = 16;
/// The same of the form that some kernels of old wrote.
const PCAP_MODIFIED_PACKET_BYTES: usize = 24;
/// First bytes of classic files, read as little-endian: microseconds, nanoseconds, and the form of old.
const CLASSIC: [u32; 5] = [0xa1b2_c3d4, 0xd4c3_b2a1, 0xa1b2_3c4d, 0x4d3c_b2a1, 0xa1b2_cd34];

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Neither pcapng, pcap nor snoop.
    #[error("it is no capture: it begins with the header of neither pcapng, pcap nor snoop")]
    NotACapture,
    /// The header is cut or contradicts itself.
    #[error("its header cannot be read: {0}")]
    Header(&'static str),
}

/// Whether a file that begins with these bytes says that it is a capture.
pub fn is_magic(first: [u8; 4]) -> bool {
    let magic = u32::from_le_bytes(first);
    magic == number::SECTION_HEADER || CLASSIC.contains(&magic) || snoop::MAGIC.starts_with(&first)
}

/// Which kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureFormat {
    /// pcapng.
    Pcapng,
    /// Classic pcap with microseconds.
    PcapMicroseconds,
    /// Classic pcap with nanoseconds.
    PcapNanoseconds,
    /// Snoop (RFC 1761).
    Snoop,
}

impl CaptureFormat {
    /// The word for it on pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pcapng => "pcapng",
            Self::PcapMicroseconds => "pcap, microseconds",
            Self::PcapNanoseconds => "pcap, nanoseconds",
            Self::Snoop => "snoop",
        }
    }
}

/// A classic file.
#[derive(Clone, Copy, Debug)]
struct Classic {
    big_endian: bool,
    modified: bool,
}

/// Reads a capture packet by packet.
#[derive(Debug)]
pub struct CaptureReader<R: Read> {
    source: R,
    format: CaptureFormat,
    classic: Option<Classic>,
    /// Packets that a snoop file has told to be dropped.
    snoop_drops: u32,
    big_endian: bool,
    buffer: Vec<u8>,
    /// What of the buffer is not read yet.
    from: usize,
    to: usize,
    /// Bytes of the file before `from`.
    passed: u64,
    ended: bool,
    section: Option<CapturedSection>,
    /// First interface of the section that is being read.
    section_from: usize,
    interfaces: Vec<Interface>,
    /// For what the interfaces say of themselves.
    room: Room,
    cautions: Vec<(String, u64)>,
    whole: bool,
}

/// What a step of reading came to.
enum Step {
    /// So many bytes are a block, or what precedes a packet and the packet.
    Whole(usize),
    /// The file ends here.
    End,
}

impl<R: Read> CaptureReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The file is no capture, or cannot be read.
    pub fn new(source: R) -> Result<Self, ReadError> {
        let mut reader = Self {
            source,
            format: CaptureFormat::Pcapng,
            classic: None,
            snoop_drops: 0,
            big_endian: false,
            buffer: vec![0; 64 * 1024],
            from: 0,
            to: 0,
            passed: 0,
            ended: false,
            section: None,
            section_from: 0,
            interfaces: Vec::new(),
            room: Room::new(),
            cautions: Vec::new(),
            whole: true,
        };
        if !reader.have(4)? {
            return Err(if reader.whole {
                ReadError::NotACapture
            } else {
                ReadError::Header("the compressed data are cut or damaged")
            });
        }
        let magic = reader.buffer[..4].first_chunk().map_or(0, |four| u32::from_le_bytes(*four));
        match magic {
            number::SECTION_HEADER => reader.begin_section_file()?,
            magic if CLASSIC.contains(&magic) => reader.begin_classic()?,
            magic if snoop::MAGIC.starts_with(&magic.to_le_bytes()) => reader.begin_snoop()?,
            _ => return Err(ReadError::NotACapture),
        }
        Ok(reader)
    }

    /// Which kind of file it is.
    pub fn format(&self) -> CaptureFormat {
        self.format
    }

    /// What made the file, of the latest section so far; classic files do not tell.
    pub fn section(&self) -> Option<&CapturedSection> {
        self.section.as_ref()
    }

    /// The interfaces so far, of all sections.
    pub fn interfaces(&self) -> impl ExactSizeIterator<Item = &CapturedInterface> {
        self.interfaces.iter().map(|interface| &interface.facts)
    }

    /// What was odd about the file, each with how often it was met.
    pub fn cautions(&self) -> impl Iterator<Item = (&str, u64)> {
        self.cautions.iter().map(|(sentence, times)| (sentence.as_str(), *times))
    }

    /// Whether the file was read to its end: nothing was cut off, and no length went wrong. True while it is read.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// The next packet; none at the end, which may be before that of the file: see [`CaptureReader::is_whole`].
    ///
    /// # Errors
    /// The system cannot read the file.
    pub fn next_packet(&mut self) -> Result<Option<CapturedPacket<'_>>, ReadError> {
        loop {
            let step = match self.format {
                CaptureFormat::Pcapng => self.frame_block()?,
                CaptureFormat::Snoop => self.frame_snoop()?,
                CaptureFormat::PcapMicroseconds | CaptureFormat::PcapNanoseconds => self.frame_classic()?,
            };
            let Step::Whole(octets) = step else { return Ok(None) };
            let start = self.from;
            self.from += octets;
            self.passed += octets as u64;
            let parts = match (self.format, self.classic) {
                (CaptureFormat::Snoop, _) => self.take_snoop(start, octets),
                (_, Some(classic)) => self.take_classic(start, octets, classic),
                (_, None) => self.take_block(start, octets),
            };
            if let Some(Parts { mut packet, data }) = parts {
                packet.link_type = self.interfaces[packet.interface].facts.link_type;
                let data = &self.buffer[start + data.start..start + data.end];
                return Ok(Some(CapturedPacket { data, ..packet }));
            }
        }
    }

    fn take_classic(&mut self, start: usize, octets: usize, classic: Classic) -> Option<Parts> {
        let unit = self.interfaces[0].unit;
        let block = &self.buffer[start..start + octets];
        let parts = block::classic_packet(block, classic.big_endian, classic.modified, unit);
        match &parts {
            Some(parts) => self.look_at(parts),
            None => self.caution("a packet cannot be read and is left out"),
        }
        parts
    }

    fn take_snoop(&mut self, start: usize, octets: usize) -> Option<Parts> {
        let record = &self.buffer[start..start + octets];
        let drops = snoop::word(record, 12);
        let dropped = drops.saturating_sub(self.snoop_drops);
        let parts = snoop::packet(record, dropped.into());
        self.snoop_drops = drops;
        match &parts {
            Some(parts) => self.look_at(parts),
            None => self.caution("a packet cannot be read and is left out"),
        }
        parts
    }

    /// Takes what a block says, and gives the packet that it is.
    fn take_block(&mut self, start: usize, octets: usize) -> Option<Parts> {
        let interfaces = &self.interfaces[self.section_from..];
        let block = &self.buffer[start..start + octets];
        match block::parse(block, self.big_endian, interfaces) {
            Ok(Parsed::Packet(mut parts)) => {
                parts.packet.interface += self.section_from;
                self.look_at(&parts);
                return Some(*parts);
            }
            Ok(Parsed::Section(section)) if self.section.is_some() && section.major != 1 => {
                self.stop("a section is of another version of pcapng than 1; reading ends there");
            }
            Ok(Parsed::Section(section)) => {
                self.section = Some(section);
                self.section_from = self.interfaces.len();
            }
            Ok(Parsed::Interface(mut interface)) if self.interfaces.len() < MOST_INTERFACES => {
                if !self.room.interface(&mut interface.facts) {
                    self.caution(FULL);
                }
                self.interfaces.push(*interface);
            }
            Ok(Parsed::Interface(_)) => {
                self.caution("more than 4,096 interfaces are described; packets of the rest are left out");
            }
            Ok(Parsed::Statistics(interface, statistics)) => self.take_statistics(interface, *statistics),
            Ok(Parsed::Nothing) => {}
            Err(sentence) => self.caution(sentence),
        }
        None
    }

    fn look_at(&mut self, parts: &Parts) {
        if (parts.packet.original_length as usize) < parts.data.len() {
            self.caution("packets with an original length below the captured length");
        }
    }

    fn take_statistics(&mut self, interface: usize, mut statistics: CapturedStatistics) {
        let Some(interface) = self.interfaces.get_mut(self.section_from + interface) else {
            return self.caution("counts of an interface that is not described are left out");
        };
        let place = &mut interface.facts.statistics;
        let fits = self.room.statistics(place.as_ref(), &mut statistics);
        *place = Some(statistics);
        if !fits {
            self.caution(FULL);
        }
    }

    fn begin_section_file(&mut self) -> Result<(), ReadError> {
        match self.frame_block()? {
            Step::Whole(octets) => {
                let (start, from) = (self.from, self.from + octets);
                self.from = from;
                self.passed += octets as u64;
                self.take_block(start, octets);
                match &self.section {
                    Some(section) if section.major == 1 => Ok(()),
                    Some(_) => Err(ReadError::Header("it is of a later version of pcapng than 1")),
                    None => Err(ReadError::Header("its section header is broken")),
                }
            }
            Step::End => Err(ReadError::Header("its section header is cut, or has an impossible length")),
        }
    }

    fn begin_classic(&mut self) -> Result<(), ReadError> {
        if !self.have(PCAP_HEADER_BYTES)? {
            return Err(ReadError::Header("it is cut"));
        }
        let header = &self.buffer[self.from..self.from + PCAP_HEADER_BYTES];
        let (_, header) =
            pcap_parser::parse_pcap_header(header).map_err(|_| ReadError::Header("it is broken"))?;
        let nanoseconds = header.is_nanosecond_precision();
        self.classic =
            Some(Classic { big_endian: header.is_bigendian(), modified: header.is_modified_format() });
        self.format =
            if nanoseconds { CaptureFormat::PcapNanoseconds } else { CaptureFormat::PcapMicroseconds };
        // The upper bits tell of a checksum at the end of frames.
        let link_type = (header.network.0 & 0xffff) as u16;
        let unit = TimeUnit::decimal(if nanoseconds { 9 } else { 6 });
        self.interfaces.push(Interface::classic(link_type, header.snaplen, unit));
        self.from += PCAP_HEADER_BYTES;
        self.passed += PCAP_HEADER_BYTES as u64;
        Ok(())
    }

    fn begin_snoop(&mut self) -> Result<(), ReadError> {
        if !self.have(snoop::HEADER_BYTES)? {
            return Err(ReadError::Header("it is cut"));
        }
        let header = &self.buffer[self.from..self.from + snoop::HEADER_BYTES];
        if !header.starts_with(&snoop::MAGIC) {
            return Err(ReadError::NotACapture);
        }
        if snoop::word(header, 8) != snoop::VERSION {
            return Err(ReadError::Header("it is of another version of snoop than 2"));
        }
        let link_type = snoop::link_type(snoop::word(header, 12));
        self.format = CaptureFormat::Snoop;
        self.interfaces.push(Interface::classic(link_type, 0, snoop::UNIT));
        self.from += snoop::HEADER_BYTES;
        self.passed += snoop::HEADER_BYTES as u64;
        Ok(())
    }

    /// Finds a whole packet of a snoop file.
    fn frame_snoop(&mut self) -> Result<Step, ReadError> {
        if !self.have(snoop::PACKET_BYTES)? {
            return Ok(self.end());
        }
        let length = snoop::word(&self.buffer[self.from..], 8) as usize;
        if !(snoop::PACKET_BYTES..=MOST_BLOCK_BYTES).contains(&length) {
            return Ok(self.stop("a packet has an impossible length; reading ends there"));
        }
        Ok(if self.have(length)? { Step::Whole(length) } else { self.end() })
    }

    /// Finds a whole block of pcapng, reading on as needed. Blocks that are too long are passed over.
    fn frame_block(&mut self) -> Result<Step, ReadError> {
        loop {
            if !self.have(8)? {
                return Ok(self.end());
            }
            let head = &self.buffer[self.from..self.to];
            let word = |at: usize| head.get(at..at + 4)?.first_chunk::<4>().copied();
            let of = |four: [u8; 4], big: bool| {
                if big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
            };
            let (Some(kind), Some(length)) = (word(0), word(4)) else { return Ok(self.end()) };
            // A section may be of another byte order than the one before, and says so behind its length.
            if u32::from_le_bytes(kind) == number::SECTION_HEADER {
                if !self.have(12)? {
                    return Ok(self.end());
                }
                let order = self.buffer[self.from + 8..self.from + 12].first_chunk().copied();
                match order.map(|order| (u32::from_le_bytes(order), u32::from_be_bytes(order))) {
                    Some((number::BYTE_ORDER_MAGIC, _)) => self.big_endian = false,
                    Some((_, number::BYTE_ORDER_MAGIC)) => self.big_endian = true,
                    _ => return Ok(self.stop("a section tells no byte order; reading ends there")),
                }
            }
            let length = of(length, self.big_endian) as usize;
            if length < LEAST_BLOCK_BYTES || !length.is_multiple_of(4) {
                return Ok(self.stop("a block has an impossible length; reading ends there"));
            }
            if length > MOST_BLOCK_BYTES {
                if u32::from_le_bytes(kind) == number::SECTION_HEADER && self.section.is_none() {
                    return Ok(Step::End);
                }
                if !self.pass_over(length as u64)? {
                    return Ok(self.stop("a block claims more bytes than the file has; reading stops"));
                }
                self.caution("a block of more than a mebibyte is passed over");
                continue;
            }
            if !self.have(length)? {
                return Ok(self.end());
            }
            let behind = &self.buffer[self.from + length - 4..self.from + length];
            let behind = behind.first_chunk().map_or(0, |four| of(*four, self.big_endian));
            if behind as usize != length {
                return Ok(self.stop("a block's two lengths differ; reading ends there"));
            }
            return Ok(Step::Whole(length));
        }
    }

    /// Finds a whole packet of a classic file.
    fn frame_classic(&mut self) -> Result<Step, ReadError> {
        let Some(classic) = self.classic else { return Ok(Step::End) };
        let head = if classic.modified { PCAP_MODIFIED_PACKET_BYTES } else { PCAP_PACKET_BYTES };
        if !self.have(head)? {
            return Ok(self.end());
        }
        let kept = self.buffer[self.from + 8..self.from + 12].first_chunk().map_or(0, |four| {
            if classic.big_endian { u32::from_be_bytes(*four) } else { u32::from_le_bytes(*four) }
        }) as usize;
        if kept > MOST_BLOCK_BYTES {
            // Without a second length nothing tells where the next packet begins.
            return Ok(self.stop("a packet claims more than a mebibyte; reading ends there"));
        }
        Ok(if self.have(head + kept)? { Step::Whole(head + kept) } else { self.end() })
    }

    /// Whether so many bytes stand in the buffer from `from` on, once it was filled as far as the file goes.
    fn have(&mut self, octets: usize) -> Result<bool, ReadError> {
        while self.to - self.from < octets {
            if self.ended {
                return Ok(false);
            }
            if self.from > 0 {
                self.buffer.copy_within(self.from..self.to, 0);
                self.to -= self.from;
                self.from = 0;
            }
            if self.to == self.buffer.len() {
                // Grows with what is there, never with what is claimed.
                let room = (self.buffer.len() * 2).min(2 * MOST_BLOCK_BYTES);
                self.buffer.resize(room, 0);
            }
            match self.source.read(&mut self.buffer[self.to..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.to += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.caution(&format!(
                        "the compressed file was cut or damaged ({error}); reading ends there"
                    ));
                    (self.whole, self.ended) = (false, true);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Reads past so many bytes; false where the file ends before.
    fn pass_over(&mut self, octets: u64) -> Result<bool, ReadError> {
        let mut left = octets;
        while left > 0 {
            if !self.have(1)? {
                return Ok(false);
            }
            let here = left.min((self.to - self.from) as u64);
            self.from += here as usize;
            self.passed += here;
            left -= here;
        }
        Ok(true)
    }

    /// The file ends, where it may or in the middle of something.
    fn end(&mut self) -> Step {
        let left = self.to - self.from;
        if left > 0 {
            let what = if self.format == CaptureFormat::Pcapng { "block" } else { "packet" };
            let at = self.passed;
            self.stop(&format!("the file was cut: its last {what}, at byte {at}, has only {left} bytes"));
        }
        Step::End
    }

    fn stop(&mut self, sentence: &str) -> Step {
        self.caution(sentence);
        self.whole = false;
        self.ended = true;
        self.from = self.to;
        Step::End
    }

    fn caution(&mut self, sentence: &str) {
        if let Some((_, times)) = self.cautions.iter_mut().find(|(known, _)| known == sentence) {
            *times += 1;
        } else if self.cautions.len() < MOST_CAUTIONS {
            self.cautions.push((sentence.to_owned(), 1));
        }
    }

    /// Bytes that the reader holds.
    #[cfg(test)]
    pub(super) fn buffer_bytes(&self) -> usize {
        self.buffer.capacity()
    }
}
