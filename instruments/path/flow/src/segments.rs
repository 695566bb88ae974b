//! What a stream of TCP segments of one direction says of its way: which were sent again, came again, or came out of
//! order. Pure: from segments to counts.
//!
//! Positions are unwrapped from 32-bit sequence numbers, so that a stream may be of any length.

use std::collections::BTreeMap;

/// A segment as it was seen, of the direction that carries the flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of its first byte (of the SYN or FIN, if it has no bytes).
    pub sequence: u32,
    /// Bytes of the stream in it.
    pub octets: u32,
    /// It opens the stream: its bytes start one further.
    pub syn: bool,
    /// The sender's clock in it (RFC 7323), if it carries that.
    pub sender_clock: Option<u32>,
    /// UTC nanoseconds at which it was seen.
    pub seen_ns: i64,
}

/// Where segments were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// As they left the sender's host: whatever was there before is sent again.
    Sender,
    /// As they reached the receiver's host.
    Receiver,
}

/// Counts of segments. `segments` is the sum of `in_order`, `retransmitted`, `duplicate` and `reordered`; those
/// without bytes are in none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentCounts {
    /// Segments with bytes of the stream.
    pub segments: u64,
    /// Bytes in them, each time counted.
    pub octets: u64,
    /// Different bytes among these.
    pub unique_octets: u64,
    /// Segments that begin where the stream had got to, or beyond.
    pub in_order: u64,
    /// Sender: all of it had been sent before in part or whole. Receiver: fills a hole, and was sent later than what
    /// came before it (its sender's clock says so).
    pub retransmitted: u64,
    /// Receiver: brings nothing new.
    pub duplicate: u64,
    /// Receiver: fills a hole, and no clock says that it was sent later: overtaken on its way.
    pub reordered: u64,
    /// Times that the stream went on beyond a hole: segments lost or late before this place (at the sender: sent by
    /// another way, or not seen).
    pub holes: u64,
    /// Bytes that never came, of the stream up to its furthest byte.
    pub missing_octets: u64,
    /// First and last time that a segment was seen, UTC nanoseconds.
    pub seen_ns: Option<(i64, i64)>,
}

/// Half of the space of sequence numbers.
const HALF: u32 = 1 << 31;

/// Follows one direction of a connection.
#[derive(Clone, Debug)]
pub struct SegmentStream {
    side: Side,
    counts: SegmentCounts,
    /// Position beyond the furthest byte, once something was seen.
    furthest: Option<u64>,
    /// Sequence number of `furthest`.
    furthest_number: u32,
    /// Sender's clock of the segment that reached furthest.
    furthest_clock: Option<u32>,
    /// Positions below `furthest` that were not seen: start to end.
    gaps: BTreeMap<u64, u64>,
}

/// Position of the first octet: so far that what comes before it has one as well.
const START: u64 = 1 << 32;

/// Holes that are remembered; of more, the oldest count as missing for good.
const MOST_HOLES: usize = 1 << 16;

impl SegmentStream {
    /// A stream seen at a side. It may be joined in its middle: its first segment is where it begins.
    pub fn new(side: Side) -> Self {
        Self {
            side,
            counts: SegmentCounts::default(),
            furthest: None,
            furthest_number: 0,
            furthest_clock: None,
            gaps: BTreeMap::new(),
        }
    }

    /// Takes the next segment, in the order in which they were seen.
    pub fn take(&mut self, segment: &Segment) {
        let first_number = segment.sequence.wrapping_add(u32::from(segment.syn));
        let Some(furthest) = self.furthest else {
            self.furthest = Some(START);
            self.furthest_number = first_number;
            if segment.octets > 0 {
                self.take_octets(segment, START, START);
            }
            return;
        };
        if segment.octets == 0 {
            return;
        }
        let ahead = first_number.wrapping_sub(self.furthest_number);
        let first = if ahead < HALF {
            furthest + u64::from(ahead)
        } else {
            furthest.saturating_sub(u64::from(ahead.wrapping_neg()))
        };
        self.take_octets(segment, first, furthest);
    }

    fn take_octets(&mut self, segment: &Segment, first: u64, furthest: u64) {
        let end = first + u64::from(segment.octets);
        self.counts.segments += 1;
        self.counts.octets += u64::from(segment.octets);
        let (earliest_ns, _) = self.counts.seen_ns.unwrap_or((segment.seen_ns, 0));
        self.counts.seen_ns = Some((earliest_ns, segment.seen_ns));
        let filled = self.fill(first, end.min(furthest));
        let new = end.saturating_sub(first.max(furthest));
        self.counts.unique_octets += filled + new;
        if first >= furthest {
            self.counts.in_order += 1;
            if first > furthest {
                self.counts.holes += 1;
                self.gaps.insert(furthest, first);
                self.forget_oldest();
            }
        } else {
            self.judge_late(segment, filled + new);
        }
        if end > furthest {
            self.furthest = Some(end);
            self.furthest_number = self.furthest_number.wrapping_add((end - furthest) as u32);
            self.furthest_clock = segment.sender_clock;
        }
    }

    /// A segment that begins before the furthest byte.
    fn judge_late(&mut self, segment: &Segment, new_octets: u64) {
        let count = match self.side {
            Side::Sender => &mut self.counts.retransmitted,
            Side::Receiver if new_octets == 0 => &mut self.counts.duplicate,
            Side::Receiver if sent_later(segment.sender_clock, self.furthest_clock) => {
                &mut self.counts.retransmitted
            }
            Side::Receiver => &mut self.counts.reordered,
        };
        *count += 1;
    }

    /// Closes gaps between two positions; how many bytes of them there were.
    fn fill(&mut self, first: u64, end: u64) -> u64 {
        let mut filled = 0;
        while let Some((&gap_start, &gap_end)) = self.gaps.range(..end).next_back() {
            if gap_end <= first {
                break;
            }
            self.gaps.remove(&gap_start);
            if gap_end > end {
                self.gaps.insert(end, gap_end);
            }
            filled += gap_end.min(end) - gap_start.max(first);
            if gap_start < first {
                self.gaps.insert(gap_start, first);
                break;
            }
        }
        filled
    }

    fn forget_oldest(&mut self) {
        if self.gaps.len() > MOST_HOLES
            && let Some((start, end)) = self.gaps.pop_first()
        {
            self.counts.missing_octets += end - start;
        }
    }

    /// Counts so far.
    pub fn counts(&self) -> SegmentCounts {
        let missing: u64 = self.gaps.iter().map(|(start, end)| end - start).sum();
        SegmentCounts { missing_octets: self.counts.missing_octets + missing, ..self.counts }
    }
}

/// Whether a sender's clock is later than another; not known is no.
fn sent_later(clock: Option<u32>, than: Option<u32>) -> bool {
    let Some((clock, than)) = clock.zip(than) else { return false };
    let ahead = clock.wrapping_sub(than);
    ahead != 0 && ahead < HALF
}

/// The segment in an IP packet that starts with the IP header, if it is one of TCP and not a later fragment. Lengths
/// are those of the headers, as the packet may be cut off.
pub fn read_segment(packet: &[u8], seen_ns: i64) -> Option<Segment> {
    let number16 = |at: usize| Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?));
    let number32 = |at: usize| Some(u32::from_be_bytes(packet.get(at..at + 4)?.try_into().ok()?));
    let (header_bytes, ip_bytes) = match packet.first()? >> 4 {
        4 => {
            let later_fragment = number16(6)? & 0x1fff != 0;
            if *packet.get(9)? != libc::IPPROTO_TCP as u8 || later_fragment {
                return None;
            }
            (usize::from(packet[0] & 15) * 4, u32::from(number16(2)?))
        }
        6 if *packet.get(6)? == libc::IPPROTO_TCP as u8 => (40, 40 + u32::from(number16(4)?)),
        _ => return None,
    };
    let tcp_bytes = usize::from(packet.get(header_bytes + 12)? >> 4) * 4;
    if header_bytes < 20 || tcp_bytes < 20 {
        return None;
    }
    let flags = *packet.get(header_bytes + 13)?;
    let options = packet.get(header_bytes + 20..(header_bytes + tcp_bytes).min(packet.len())).unwrap_or(&[]);
    Some(Segment {
        sequence: number32(header_bytes + 4)?,
        octets: ip_bytes.checked_sub((header_bytes + tcp_bytes) as u32)?,
        syn: flags & 2 != 0,
        sender_clock: sender_clock(options),
        seen_ns,
    })
}

/// Value of the timestamps option (RFC 7323, 3.2).
fn sender_clock(mut options: &[u8]) -> Option<u32> {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const TIMESTAMPS: u8 = 8;
    loop {
        match *options.first()? {
            END => return None,
            NOTHING => options = &options[1..],
            TIMESTAMPS => return Some(u32::from_be_bytes(options.get(2..6)?.try_into().ok()?)),
            _ => options = options.get(usize::from(*options.get(1)?).max(2)..)?,
        }
    }
}

#[cfg(test)]
mod tests;
