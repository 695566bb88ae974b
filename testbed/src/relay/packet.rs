//! What the relay reads and writes in a datagram. On purpose none of the code that it is there to check.

use serde::{Deserialize, Serialize};

/// The sequence number that ends a Jitlat test.
const SENTINEL: i32 = -1;
/// Bytes of a Jitlat test packet before its padding: time of sending and sequence number.
const HEADER: usize = 12;
/// A datagram whose first eight bytes are further than this from now is no Jitlat test packet.
const PLAUSIBLE_NS: u64 = 86_400_000_000_000;

/// How datagrams are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Jitlat test packets; all else passes untouched and uncounted.
    #[default]
    Jitlat,
    /// STAMP test packets (RFC 8762), whose first four bytes are the sequence number: every datagram counts.
    Stamp,
    /// Every datagram counts, and none is known to have a sequence number.
    Any,
}

/// What a datagram is to the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A test packet: numbered, and subject to the rules. With its sequence number where the protocol has one.
    Test(Option<i64>),
    /// The end mark of a Jitlat flow.
    Sentinel,
    /// Anything else, such as a cookie: passes untouched.
    Other,
}

fn time_of(octets: &[u8]) -> Option<i64> {
    Some(i64::from_be_bytes(octets.get(..8)?.try_into().ok()?))
}

/// The Jitlat sequence number, as it stands on the wire.
fn jitlat_sequence(octets: &[u8]) -> Option<i32> {
    Some(i32::from_be_bytes(octets.get(8..HEADER)?.try_into().ok()?))
}

/// What a datagram is, `utc_ns` being now.
pub fn kind(protocol: Protocol, octets: &[u8], utc_ns: i64) -> Kind {
    match protocol {
        Protocol::Any => Kind::Test(None),
        Protocol::Stamp => Kind::Test(sequence(protocol, octets)),
        Protocol::Jitlat => match (time_of(octets), jitlat_sequence(octets)) {
            (Some(time), Some(sequence)) if time.abs_diff(utc_ns) <= PLAUSIBLE_NS => match sequence {
                SENTINEL => Kind::Sentinel,
                sequence => Kind::Test(Some(sequence.into())),
            },
            _ => Kind::Other,
        },
    }
}

/// The sequence number in a test packet.
pub fn sequence(protocol: Protocol, octets: &[u8]) -> Option<i64> {
    match protocol {
        Protocol::Any => None,
        Protocol::Stamp => Some(u32::from_be_bytes(octets.get(..4)?.try_into().ok()?).into()),
        Protocol::Jitlat => jitlat_sequence(octets).map(i64::from),
    }
}

/// A part of a Jitlat test packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Field {
    /// Bytes 0 to 7: time of sending.
    Time,
    /// Bytes 8 to 11: sequence number.
    Sequence,
    /// Bytes 12 to 19: the session tag of Quaver's extension, or padding.
    Tag,
    /// All from byte 12.
    Payload,
    /// All.
    #[default]
    Any,
}

impl Field {
    /// The field's bytes in a datagram of that length; empty where it has none.
    pub fn range(self, length: usize) -> std::ops::Range<usize> {
        let (from, to) = match self {
            Self::Time => (0, 8),
            Self::Sequence => (8, HEADER),
            Self::Tag => (HEADER, HEADER + 8),
            Self::Payload => (HEADER, length),
            Self::Any => (0, length),
        };
        from.min(length)..to.min(length)
    }
}

/// Flips the bit at `position`, counted from the most significant bit of the first byte. Beyond the end: nothing.
pub fn flip(octets: &mut [u8], position: usize) {
    if let Some(octet) = octets.get_mut(position / 8) {
        *octet ^= 0x80 >> (position % 8);
    }
}

/// A sender's clock that is wrong: it was `offset_ns` ahead at the first packet, gains `rate_ppb`, and jumps by
/// `step_ns` before packet `step_at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongClock {
    /// Gain in parts per billion: positive runs fast.
    pub rate_ppb: i64,
    /// How far it is ahead at the first packet.
    pub offset_ns: i64,
    /// How far it jumps.
    pub step_ns: i64,
    /// The packet before which it jumps.
    pub step_at: u64,
}

impl WrongClock {
    /// What the wrong clock shows when the right one shows `time_ns`, at the packet with this arrival number;
    /// the first packet was sent at `first_ns`.
    pub fn shows(&self, number: u64, time_ns: i64, first_ns: i64) -> i64 {
        let since = i128::from(time_ns) - i128::from(first_ns);
        let gained = (since * i128::from(self.rate_ppb)).div_euclid(1_000_000_000);
        let step = if number >= self.step_at { self.step_ns } else { 0 };
        let shown = i128::from(time_ns) + gained + i128::from(self.offset_ns) + i128::from(step);
        shown.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

/// Writes what a wrong clock shows over the time of sending of a Jitlat test packet. `first_ns` remembers the first
/// packet's time.
pub fn restamp(octets: &mut [u8], clock: &WrongClock, number: u64, first_ns: &mut Option<i64>) {
    let Some(time_ns) = time_of(octets) else { return };
    let shown = clock.shows(number, time_ns, *first_ns.get_or_insert(time_ns));
    octets[..8].copy_from_slice(&shown.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000_000_000;

    fn packet(time_ns: i64, sequence: i32) -> Vec<u8> {
        let mut octets = time_ns.to_be_bytes().to_vec();
        octets.extend(sequence.to_be_bytes());
        octets.extend([0xaa; 20]);
        octets
    }

    #[test]
    fn test_packets_sentinels_and_the_rest_are_told_apart() {
        let of = |octets: &[u8]| kind(Protocol::Jitlat, octets, NOW);
        assert_eq!(of(&packet(NOW - 5, 0)), Kind::Test(Some(0)));
        assert_eq!(of(&packet(NOW, i32::MIN)), Kind::Test(Some(i32::MIN.into())));
        assert_eq!(of(&packet(NOW, -1)), Kind::Sentinel);
        assert_eq!(of(&packet(0x5155_4156_4552_0001, 0)), Kind::Other);
        assert_eq!(of(&packet(NOW, 3)[..11]), Kind::Other);
        assert_eq!(kind(Protocol::Any, b"x", NOW), Kind::Test(None));
        assert_eq!(kind(Protocol::Stamp, &[0, 0, 1, 2, 9], NOW), Kind::Test(Some(258)));
    }

    #[test]
    fn bits_are_counted_from_the_first_octet_of_the_wire() {
        let mut octets = [0, 0];
        flip(&mut octets, 0);
        flip(&mut octets, 15);
        flip(&mut octets, 16);
        assert_eq!(octets, [0x80, 0x01]);
    }

    #[test]
    fn fields_end_where_the_datagram_does() {
        assert_eq!(Field::Sequence.range(80), 8..12);
        assert_eq!(Field::Tag.range(16), 12..16);
        assert_eq!(Field::Payload.range(12), 12..12);
        assert_eq!(Field::Time.range(4), 0..4);
    }

    #[test]
    fn a_wrong_clock_is_ahead_gains_and_jumps() {
        let clock = WrongClock { rate_ppb: 50_000, offset_ns: 10, step_ns: -1_000, step_at: 2 };
        let mut first = None;
        let shown = [(0, NOW), (1, NOW + 1_000_000_000), (2, NOW + 2_000_000_000)].map(|(number, time)| {
            let mut octets = packet(time, 0);
            restamp(&mut octets, &clock, number, &mut first);
            time_of(&octets).unwrap() - time
        });
        assert_eq!(shown, [10, 50_010, 99_010]);
    }
}
