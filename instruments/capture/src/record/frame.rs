//! One packet as the kernel left it in a block of the ring (TPACKET_V3), or alone in a frame of its own (TPACKET_V2), made
//! into what a file holds.
//!
//! ```text
//! TPACKET_V3, offset from the packet's header
//!   0           4        8        12         16        20         24       26       28
//!  +-----------+--------+--------+----------+---------+----------+--------+--------+
//!  | next      | seconds| ns     | captured | length  | status   | mac at | net at |
//!  +-----------+--------+--------+----------+---------+----------+--------+--------+
//!  28          32         36        38       40         48                       68
//!  +-----------+----------+---------+--------+----------+------------------------+
//!  | flow hash | VLAN TCI | VLAN    | unused | unused   | sockaddr_ll            |
//!  |           |          | TPID    |        |          |                        |
//!  +-----------+----------+---------+--------+----------+------------------------+
//! TPACKET_V2
//!   0        4        8          12       14       16        20   24       26        28       32             52
//!  +--------+--------+----------+--------+--------+---------+----+--------+---------+--------+--------------+
//!  | status | length | captured | mac at | net at | seconds | ns | VLAN   | VLAN    | unused | sockaddr_ll  |
//!  |        |        |          |        |        |         |    | TCI    | TPID    |        |              |
//!  +--------+--------+----------+--------+--------+---------+----+--------+---------+--------+--------------+
//! sockaddr_ll: family 2, protocol 2 (network order), interface 4, ARP type 2, packet type 1, address length 1,
//! address 8.
//! ```
//!
//! The kernel takes the tag of a VLAN out of the packet; it is put back in front of the protocol, in place, for the
//! block is ours until it is returned. In the same way a packet of the interface `any` gets the header of LINUX_SLL2.

use std::ops::Range;

/// Bytes of the address behind the header.
const ADDRESS_BYTES: usize = 20;
/// Bytes of a VLAN tag.
pub(super) const TAG_BYTES: usize = 4;
/// Bytes before the tag's place in an Ethernet header: both addresses.
pub(super) const ADDRESSES_BYTES: usize = 12;
/// Bytes of the header of LINKTYPE_LINUX_SLL2.
const COOKED_BYTES: usize = 20;
/// Protocol of a customer's VLAN tag, where the kernel does not tell it.
const TAG_8021Q: u16 = 0x8100;

// Status of a packet (linux/if_packet.h).
const LOSING: u32 = 1 << 2;
const VLAN_VALID: u32 = 1 << 4;
const VLAN_PROTOCOL_VALID: u32 = 1 << 6;
const STAMP_SOFTWARE: u32 = 1 << 29;
const STAMP_HARDWARE: u32 = 1 << 31;

/// What a packet begins with in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// An Ethernet header (LINKTYPE_ETHERNET, 1).
    Ethernet,
    /// The IP header (LINKTYPE_RAW, 101).
    RawIp,
    /// A header made here of what the kernel tells of the packet (LINKTYPE_LINUX_SLL2, 276).
    Cooked,
}

impl LinkKind {
    /// Its number in a capture file.
    pub const fn link_type(self) -> u16 {
        match self {
            Self::Ethernet => 1,
            Self::RawIp => 101,
            Self::Cooked => 276,
        }
    }

    /// Its number in libpcap, which differs for raw IP.
    pub(crate) const fn pcap_type(self) -> i32 {
        match self {
            Self::Ethernet => 1,
            Self::RawIp => 12,
            Self::Cooked => 276,
        }
    }
}

/// How a packet came or went, as the kernel tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// To this machine.
    Host,
    /// To all.
    Broadcast,
    /// To a group.
    Multicast,
    /// To another machine.
    OtherHost,
    /// From this machine.
    Outgoing,
    /// None of these.
    Unknown(u8),
}

impl PacketKind {
    fn from_number(number: u8) -> Self {
        match number {
            libc::PACKET_HOST => Self::Host,
            libc::PACKET_BROADCAST => Self::Broadcast,
            libc::PACKET_MULTICAST => Self::Multicast,
            libc::PACKET_OTHERHOST => Self::OtherHost,
            libc::PACKET_OUTGOING => Self::Outgoing,
            other => Self::Unknown(other),
        }
    }
}

/// Who took the stamp that stands in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingStamp {
    /// The interface, by its own clock.
    Hardware,
    /// The kernel, on entry into the stack (CLOCK_REALTIME).
    Kernel,
    /// The packet socket itself, because nobody stamped the packet before: late by what the packet waited.
    Late,
}

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The stamp, nanoseconds; never 0 for a hardware stamp (0 is missing).
    pub time_ns: i64,
    /// Who took it.
    pub stamped_by: RingStamp,
    /// Bytes of the whole packet.
    pub original_length: u32,
    /// Bytes that the kernel counted, before a tag or a header was put in: what programs in the kernel saw.
    pub kernel_length: u32,
    /// Bytes kept.
    pub data: &'a [u8],
    /// How it came or went.
    pub kind: PacketKind,
    /// Index of the interface.
    pub interface: u32,
    /// Whether the kernel says that it dropped packets before this one.
    pub losing: bool,
}

fn half(block: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(block.get(at..at + 2)?.try_into().ok()?))
}

fn word(block: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(block.get(at..at + 4)?.try_into().ok()?))
}

/// What stands before a packet, whichever the version; places are counted from the begin of the block.
struct Head {
    /// How far behind this header the next one is.
    next: usize,
    status: u32,
    seconds: u32,
    ns: u32,
    captured: usize,
    length: u32,
    /// Where the packet begins.
    start: usize,
    tag: u16,
    tag_protocol: u16,
    /// Where the address is.
    address: usize,
}

impl Head {
    fn in_block(block: &[u8], at: usize) -> Option<Self> {
        let head = block.get(at..at.checked_add(48 + ADDRESS_BYTES)?)?;
        Some(Self {
            next: word(head, 0)? as usize,
            seconds: word(head, 4)?,
            ns: word(head, 8)?,
            captured: word(head, 12)? as usize,
            length: word(head, 16)?,
            status: word(head, 20)?,
            start: at.checked_add(usize::from(half(head, 24)?))?,
            tag: word(head, 32)? as u16,
            tag_protocol: half(head, 36)?,
            address: at + 48,
        })
    }

    fn alone(frame: &[u8]) -> Option<Self> {
        let head = frame.get(..32 + ADDRESS_BYTES)?;
        Some(Self {
            next: 0,
            status: word(head, 0)?,
            length: word(head, 4)?,
            captured: word(head, 8)? as usize,
            start: usize::from(half(head, 12)?),
            seconds: word(head, 16)?,
            ns: word(head, 20)?,
            tag: half(head, 24)?,
            tag_protocol: half(head, 26)?,
            address: 32,
        })
    }

    fn time_ns(&self) -> i64 {
        i64::from(self.seconds) * 1_000_000_000 + i64::from(self.ns)
    }

    /// Where the packet's bytes are; none where the block ends before them.
    fn place(&self, block: &[u8]) -> Option<Range<usize>> {
        let place = self.start..self.start.checked_add(self.captured)?;
        block.get(place.clone()).map(|_| place)
    }

    /// What the address says: the kind of packet, and its interface.
    fn origin(&self, block: &[u8]) -> Option<(PacketKind, u32)> {
        let address = block.get(self.address..self.address + ADDRESS_BYTES)?;
        Some((PacketKind::from_number(address[10]), word(address, 4)?))
    }

    fn frame<'a>(&self, data: &'a [u8], (kind, interface): (PacketKind, u32), added: u32) -> Frame<'a> {
        let time_ns = self.time_ns();
        Frame {
            time_ns,
            stamped_by: if self.status & STAMP_HARDWARE != 0 && time_ns != 0 {
                RingStamp::Hardware
            } else if self.status & STAMP_SOFTWARE != 0 {
                RingStamp::Kernel
            } else {
                RingStamp::Late
            },
            original_length: self.length.saturating_add(added),
            kernel_length: self.length,
            data,
            kind,
            interface,
            losing: self.status & LOSING != 0,
        }
    }
}

/// The packet whose header is at `at`. None where the block does not hold what it claims, which a kernel never does.
pub(super) fn decode(block: &mut [u8], at: usize, link: LinkKind) -> Option<Frame<'_>> {
    let head = Head::in_block(block, at)?;
    complete(block, &head, link)
}

/// How far behind the header at `at` the next one is (0: it is the last).
pub(super) fn next_in_block(block: &[u8], at: usize) -> Option<usize> {
    Some(Head::in_block(block, at)?.next)
}

/// The stamp of the packet whose header is at `at`.
pub(super) fn time_ns_in_block(block: &[u8], at: usize) -> Option<i64> {
    Some(Head::in_block(block, at)?.time_ns())
}

/// The stamp of the packet that has a frame of its own.
pub(super) fn time_ns_alone(frame: &[u8]) -> Option<i64> {
    Some(Head::alone(frame)?.time_ns())
}

/// The packet that has a frame of its own. None where it does not hold what it claims.
pub(super) fn decode_alone(frame: &mut [u8], link: LinkKind) -> Option<Frame<'_>> {
    let head = Head::alone(frame)?;
    complete(frame, &head, link)
}

/// The packet that has a frame of its own, as the kernel left it.
pub(super) fn decode_unchanged(frame: &[u8]) -> Option<Frame<'_>> {
    let head = Head::alone(frame)?;
    let (place, from) = (head.place(frame)?, head.origin(frame)?);
    Some(head.frame(frame.get(place)?, from, 0))
}

fn complete<'a>(block: &'a mut [u8], head: &Head, link: LinkKind) -> Option<Frame<'a>> {
    // The address is read first: a cooked header reaches over it.
    let (place, from) = (head.place(block)?, head.origin(block)?);
    let (place, added) = match link {
        LinkKind::Ethernet => restore_tag(block, head, place)?,
        LinkKind::RawIp => (place, 0),
        LinkKind::Cooked => cook(block, head, place)?,
    };
    Some(head.frame(block.get(place)?, from, added))
}

/// Puts the tag back that the kernel took out: the addresses move forward by its length.
fn restore_tag(block: &mut [u8], head: &Head, place: Range<usize>) -> Option<(Range<usize>, u32)> {
    let room = place.start >= head.address + ADDRESS_BYTES + TAG_BYTES;
    if head.status & VLAN_VALID == 0 || place.len() < ADDRESSES_BYTES || !room {
        return Some((place, 0));
    }
    let protocol = if head.status & VLAN_PROTOCOL_VALID != 0 { head.tag_protocol } else { TAG_8021Q };
    let start = place.start - TAG_BYTES;
    block.copy_within(place.start..place.start + ADDRESSES_BYTES, start);
    let into = block.get_mut(start + ADDRESSES_BYTES..start + ADDRESSES_BYTES + TAG_BYTES)?;
    into[..2].copy_from_slice(&protocol.to_be_bytes());
    into[2..].copy_from_slice(&head.tag.to_be_bytes());
    Some((start..place.end, TAG_BYTES as u32))
}

/// Puts the header of LINUX_SLL2 before the packet: protocol 2, zero 2, interface 4, ARP type 2, packet type 1,
/// address length 1, address 8, all in network order. It reaches over the kernel's address where there is no room
/// between, which has been read by then.
fn cook(block: &mut [u8], head: &Head, place: Range<usize>) -> Option<(Range<usize>, u32)> {
    let mut header = [0u8; COOKED_BYTES];
    let address = block.get(head.address..head.address + ADDRESS_BYTES)?;
    header[..2].copy_from_slice(&address[2..4]);
    header[4..8].copy_from_slice(&word(address, 4)?.to_be_bytes());
    header[8..10].copy_from_slice(&half(address, 8)?.to_be_bytes());
    header[10] = address[10];
    header[11] = address[11].min(8);
    header[12..].copy_from_slice(&address[12..20]);
    let start = place.start.checked_sub(COOKED_BYTES).filter(|start| *start >= head.address)?;
    block.get_mut(start..place.start)?.copy_from_slice(&header);
    Some((start..place.end, COOKED_BYTES as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the header and of the address behind it.
    const HEAD_BYTES: usize = 68;

    /// A block with one packet of `data`, which begins `gap` bytes behind its head.
    fn block(status: u32, data: &[u8], gap: usize, tag: (u16, u16)) -> Vec<u8> {
        let mut octets = vec![0u8; 48 + HEAD_BYTES + gap];
        let mut put = |at: usize, value: &[u8]| octets[48 + at..48 + at + value.len()].copy_from_slice(value);
        put(4, &1_700_000_000u32.to_ne_bytes());
        put(8, &123_456_789u32.to_ne_bytes());
        put(12, &(data.len() as u32).to_ne_bytes());
        put(16, &1500u32.to_ne_bytes());
        put(20, &status.to_ne_bytes());
        put(24, &((HEAD_BYTES + gap) as u16).to_ne_bytes());
        put(32, &u32::from(tag.0).to_ne_bytes());
        put(36, &tag.1.to_ne_bytes());
        put(50, &0x0800u16.to_be_bytes());
        put(52, &7u32.to_ne_bytes());
        put(56, &1u16.to_ne_bytes());
        put(58, &[3, 6, 2, 0, 0, 0, 0, 9]);
        octets.extend_from_slice(data);
        octets
    }

    const ETHERNET: [u8; 18] = [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 8, 0, 0x45, 0, 0, 99];

    #[test]
    fn a_packet_that_the_kernel_stamped() {
        let mut block = block(STAMP_SOFTWARE | LOSING | 1, &ETHERNET, 14, (0, 0));
        let next = next_in_block(&block, 48);
        let frame = decode(&mut block, 48, LinkKind::Ethernet).unwrap();
        assert_eq!((frame.time_ns, frame.stamped_by), (1_700_000_000_123_456_789, RingStamp::Kernel));
        assert_eq!((frame.original_length, frame.kernel_length, next), (1500, 1500, Some(0)));
        assert_eq!((frame.data, frame.kind, frame.interface), (&ETHERNET[..], PacketKind::OtherHost, 7));
        assert!(frame.losing);
    }

    #[test]
    fn who_stamped_is_told_and_zero_is_missing() {
        let by = |status| {
            decode(&mut block(status, &ETHERNET, 14, (0, 0)), 48, LinkKind::RawIp).unwrap().stamped_by
        };
        assert_eq!(by(STAMP_HARDWARE | STAMP_SOFTWARE), RingStamp::Hardware);
        assert_eq!(by(STAMP_SOFTWARE), RingStamp::Kernel);
        assert_eq!(by(0), RingStamp::Late);
        let mut zero = block(STAMP_HARDWARE, &ETHERNET, 14, (0, 0));
        zero[52..60].fill(0);
        assert_eq!(decode(&mut zero, 48, LinkKind::RawIp).unwrap().stamped_by, RingStamp::Late);
    }

    #[test]
    fn the_tag_of_a_vlan_is_put_back() {
        for (status, protocol) in [(VLAN_VALID, 0x8100u16), (VLAN_VALID | VLAN_PROTOCOL_VALID, 0x88a8)] {
            let mut block = block(status, &ETHERNET, 14, (0x2005, 0x88a8));
            let frame = decode(&mut block, 48, LinkKind::Ethernet).unwrap();
            let mut expected = ETHERNET[..12].to_vec();
            expected.extend(protocol.to_be_bytes());
            expected.extend([0x20, 5]);
            expected.extend(&ETHERNET[12..]);
            assert_eq!((frame.data, frame.original_length, frame.kernel_length), (&expected[..], 1504, 1500));
        }
        // No room in front: the packet stays as it is.
        let mut tight = block(VLAN_VALID, &ETHERNET, 0, (5, 0));
        assert_eq!(decode(&mut tight, 48, LinkKind::Ethernet).unwrap().data, ETHERNET);
    }

    #[test]
    fn a_cooked_header_as_linux_sll2_has_it() {
        let mut block = block(0, &[0x45, 0], 28, (0, 0));
        let frame = decode(&mut block, 48, LinkKind::Cooked).unwrap();
        let head = [8, 0, 0, 0, 0, 0, 0, 7, 0, 1, 3, 6, 2, 0, 0, 0, 0, 9, 0, 0];
        assert_eq!((&frame.data[..20], &frame.data[20..]), (&head[..], &[0x45, 0][..]));
        assert_eq!(frame.original_length, 1520);
    }

    /// A frame with one packet of `data`, as the other version has it.
    fn frame(status: u32, data: &[u8], gap: usize, tag: (u16, u16)) -> Vec<u8> {
        let mut octets = vec![0u8; 52 + gap];
        let mut put = |at: usize, value: &[u8]| octets[at..at + value.len()].copy_from_slice(value);
        put(0, &status.to_ne_bytes());
        put(4, &1500u32.to_ne_bytes());
        put(8, &(data.len() as u32).to_ne_bytes());
        put(12, &((52 + gap) as u16).to_ne_bytes());
        put(16, &1_700_000_000u32.to_ne_bytes());
        put(20, &123_456_789u32.to_ne_bytes());
        put(24, &tag.0.to_ne_bytes());
        put(26, &tag.1.to_ne_bytes());
        put(34, &0x0800u16.to_be_bytes());
        put(36, &7u32.to_ne_bytes());
        put(40, &1u16.to_ne_bytes());
        put(42, &[3, 6, 2, 0, 0, 0, 0, 9]);
        octets.extend_from_slice(data);
        octets
    }

    #[test]
    fn a_packet_in_a_frame_of_its_own_is_the_same() {
        for status in
            [STAMP_SOFTWARE | LOSING | 1, STAMP_HARDWARE, 0, VLAN_VALID, VLAN_VALID | VLAN_PROTOCOL_VALID]
        {
            for link in [LinkKind::Ethernet, LinkKind::RawIp, LinkKind::Cooked] {
                let mut alone = frame(status, &ETHERNET, 28, (0x2005, 0x88a8));
                let mut whole = block(status, &ETHERNET, 28, (0x2005, 0x88a8));
                assert_eq!(decode_alone(&mut alone, link), decode(&mut whole, 48, link));
            }
        }
        let whole = frame(0, &ETHERNET, 28, (0, 0));
        for length in 0..whole.len() {
            assert!(decode_alone(&mut whole[..length].to_vec(), LinkKind::Ethernet).is_none(), "{length}");
        }
    }

    #[test]
    fn a_block_that_claims_too_much_is_refused() {
        let whole = block(0, &ETHERNET, 14, (0, 0));
        for length in 0..whole.len() {
            assert!(decode(&mut whole[..length].to_vec(), 48, LinkKind::Ethernet).is_none(), "{length}");
        }
        let mut long = whole.clone();
        long[60..64].fill(0xff);
        assert!(decode(&mut long, 48, LinkKind::Ethernet).is_none());
        assert!(decode(&mut whole.clone(), usize::MAX - 3, LinkKind::Ethernet).is_none());
    }
}
