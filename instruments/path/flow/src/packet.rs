//! What a test packet of a flow looks like, written and read.
//!
//! ```text
//!  0                 8         12                20                                36
//!  +-----------------+---------+-----------------+---------------------------------+--------------
//!  | time, UTC ns    | number  | session tag     | authentication code             | padding
//!  +-----------------+---------+-----------------+---------------------------------+--------------
//! ```
//!
//! Tag and code are there where the session has them; else padding starts there. The code is over all that is not
//! the code, with the epoch before it: how often the number has begun anew, in 64 bits, so that a packet of an
//! earlier round cannot be played back in a later one. A sentinel, which has no place in the order, has an epoch of
//! its own. Packets of OWAMP have a layout of their own, without any of this.

use super::spec::{
    AUTHENTICATION_BYTES, FlowSpec, LEAST_PACKET_BYTES, PacketAuthenticator, SESSION_TAG_BYTES,
};
use quaver_abi::wire::jitlat::{SENTINEL, TEST_PACKET_BYTES, TestPacket};
use quaver_abi::wire::owamp::{LEAST_TEST_BYTES, TestHeader};
use quaver_abi::wire::stamp::time::{ErrorEstimate, TimestampFormat};
use quaver_clock::realtime_ns;
use std::cell::Cell;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

const _: () = assert!(LEAST_PACKET_BYTES as usize == TEST_PACKET_BYTES);
const TAG_AT: usize = LEAST_PACKET_BYTES as usize;
const CODE_AT: usize = TAG_AT + SESSION_TAG_BYTES as usize;
const CODE_END: usize = CODE_AT + AUTHENTICATION_BYTES as usize;
const _: () = assert!(CODE_END == 36);

/// Numbers that packets can have: all of 32 bits but the sentinel's.
const NUMBERS: u64 = u32::MAX as u64;

/// Epoch of sentinels: no sequence reaches it.
const SENTINEL_EPOCH: u64 = u64::MAX;

/// How often numbers began anew before this packet; none stands for a sentinel.
const fn epoch_of(sequence: Option<u64>) -> u64 {
    match sequence {
        Some(sequence) => sequence / NUMBERS,
        None => SENTINEL_EPOCH,
    }
}

/// The number that packet `sequence` of a flow carries. After -2 comes 0, as -1 is the sentinel.
pub(super) const fn number_of(sequence: u64) -> i32 {
    ((sequence % NUMBERS) as u32).cast_signed()
}

/// The sequence nearest to `near` that is carried as `number`, which is not the sentinel; none if it would be
/// below 0.
pub(super) fn sequence_near(number: i32, near: u64) -> Option<u64> {
    const HALF: u64 = NUMBERS / 2;
    let ahead = (u64::from(number.cast_unsigned()) + NUMBERS - near % NUMBERS) % NUMBERS;
    if ahead <= HALF { near.checked_add(ahead) } else { near.checked_sub(NUMBERS - ahead) }
}

/// The form of a flow's packets.
pub(super) struct PacketForm {
    pub(super) packet_bytes: usize,
    tag: Option<[u8; SESSION_TAG_BYTES as usize]>,
    key: Option<Arc<dyn PacketAuthenticator>>,
    owamp: Option<Owamp>,
}

/// What packets of OWAMP need.
struct Owamp {
    /// The sender's error estimate: ours, and that of the last packet that was read.
    error: u16,
    heard: Cell<Option<u16>>,
    /// A time in whose era the stamps lie.
    near_ns: i64,
}

impl Owamp {
    fn write(&self, octets: &mut [u8], tx_real_time_ns: i64, sequence: u64) {
        let header = TestHeader {
            sequence: (sequence as u32).into(),
            sent: TimestampFormat::Ntp.encode(tx_real_time_ns).into(),
            error: self.error.into(),
        };
        octets[..LEAST_TEST_BYTES].copy_from_slice(header.as_bytes());
    }

    fn read(&self, octets: &[u8], right_length: bool) -> Content {
        let header = TestHeader::read_from_prefix(octets).map(|(header, _)| header);
        // The last number is Jitlat's sentinel, and no flow has so many packets.
        let Some(header) = header.ok().filter(|header| header.sequence != u32::MAX) else {
            return Content::Unreadable;
        };
        self.heard.set(Some(header.error.get()));
        let format = ErrorEstimate::from_bits(header.error.get()).format;
        let sequence = header.sequence.get();
        let packet = TestPacket {
            tx_real_time_ns: format.decode(header.sent.get(), self.near_ns),
            tx_seq: sequence.cast_signed(),
        };
        Content::Packet { packet, sequence: Some(sequence.into()), right_length, right_code: true }
    }
}

/// What bytes are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Too short for time and number.
    Unreadable,
    /// Of another session.
    Foreign,
    /// A packet that says it is of this flow; its place in the order, none for a sentinel and for what would be
    /// before the first; whether its length and its code bear that out.
    Packet { packet: TestPacket, sequence: Option<u64>, right_length: bool, right_code: bool },
}

impl PacketForm {
    pub(super) fn of(spec: &FlowSpec) -> Self {
        let near_ns = realtime_ns();
        let owamp = spec.owamp_error.map(|error| Owamp { error, heard: Cell::new(None), near_ns });
        Self { packet_bytes: spec.packet_bytes as usize, tag: spec.session_tag, key: spec.key.clone(), owamp }
    }

    /// The sender's error estimate in the last packet of OWAMP that was read.
    pub(super) fn heard_error(&self) -> Option<u16> {
        self.owamp.as_ref().and_then(|owamp| owamp.heard.get())
    }

    /// Whether packets carry a code.
    pub(super) fn is_keyed(&self) -> bool {
        self.key.is_some()
    }

    /// Writes all but the padding, which has to be there: packet `sequence`, or a sentinel.
    #[inline]
    pub(super) fn write(&self, octets: &mut [u8], tx_real_time_ns: i64, sequence: Option<u64>) {
        if let (Some(owamp), Some(sequence)) = (&self.owamp, sequence) {
            return owamp.write(octets, tx_real_time_ns, sequence);
        }
        let packet = TestPacket { tx_real_time_ns, tx_seq: sequence.map_or(SENTINEL, number_of) };
        octets[..TAG_AT].copy_from_slice(&packet.to_octets());
        if let Some(tag) = &self.tag {
            octets[TAG_AT..CODE_AT].copy_from_slice(tag);
        }
        if let Some(key) = &self.key {
            let code = code_of(&**key, octets, sequence);
            octets[CODE_AT..CODE_END].copy_from_slice(&code);
        }
    }

    /// Where padding begins.
    pub(super) fn padding_at(&self) -> usize {
        match (&self.owamp, &self.key, &self.tag) {
            (Some(_), ..) => LEAST_TEST_BYTES,
            (None, Some(_), _) => CODE_END,
            (None, None, Some(_)) => CODE_AT,
            (None, None, None) => TAG_AT,
        }
    }

    /// Reads a packet of `length` bytes, of which the first are there: all, if it is no longer than the flow's
    /// packets. Its number stands for the sequence nearest to `near`.
    #[inline]
    pub(super) fn read(&self, octets: &[u8], length: usize, near: u64) -> Content {
        if let Some(owamp) = &self.owamp {
            return owamp.read(octets, length == self.packet_bytes);
        }
        let Ok(packet) = TestPacket::from_octets(octets) else { return Content::Unreadable };
        if let Some(tag) = &self.tag
            && octets.get(TAG_AT..CODE_AT) != Some(tag.as_slice())
        {
            return Content::Foreign;
        }
        let sequence = if packet.is_sentinel() { None } else { sequence_near(packet.tx_seq, near) };
        let placed = sequence.is_some() || packet.is_sentinel();
        let right_code = self.key.as_ref().is_none_or(|key| {
            placed
                && octets
                    .get(CODE_AT..CODE_END)
                    .is_some_and(|code| equal_in_constant_time(code, &code_of(&**key, octets, sequence)))
        });
        Content::Packet { packet, sequence, right_length: length == self.packet_bytes, right_code }
    }
}

/// The code of a packet that is at least [`CODE_END`] bytes long.
#[inline]
fn code_of(
    key: &dyn PacketAuthenticator,
    octets: &[u8],
    sequence: Option<u64>,
) -> [u8; AUTHENTICATION_BYTES as usize] {
    key.code(&[&epoch_of(sequence).to_be_bytes(), &octets[..CODE_AT], &octets[CODE_END..]])
}

/// Takes as long for codes that differ early as for those that differ late, so that nobody can guess a code byte
/// by byte.
fn equal_in_constant_time(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_and_are_never_the_sentinel() {
        let last = u64::from(u32::MAX) - 1;
        assert_eq!(number_of(0), 0);
        assert_eq!(number_of(i32::MAX as u64), i32::MAX);
        assert_eq!(number_of(i32::MAX as u64 + 1), i32::MIN);
        assert_eq!((number_of(last), number_of(last + 1)), (-2, 0));
    }

    #[test]
    fn sequences_come_back_from_numbers_across_each_wrap() {
        let wrap = u64::from(u32::MAX);
        for around in [0, 5, i32::MAX as u64, wrap, 3 * wrap, 1 << 40] {
            for sequence in around.saturating_sub(4)..around + 4 {
                for near in [sequence, sequence.saturating_sub(1 << 30), sequence + (1 << 30)] {
                    assert_eq!(sequence_near(number_of(sequence), near), Some(sequence), "{near}");
                }
            }
        }
        assert_eq!(sequence_near(-2, 3), None, "before the first");
    }
}
