//! What chronyd says of its clock: request and answer `tracking` of its command protocol, version 6.
//!
//! The protocol has no document; names and layout are those of chrony's own header `candm.h`, which has kept them since
//! chrony 1.27 (2012). Numbers are big-endian. A request is padded to the length of its answer, so that nobody can be
//! flooded by way of chronyd.
//!
//! ```text
//! request, 104 bytes
//!   version 6 u8 | type 1 u8 | 0 u8 | 0 u8 | command 33 u16 | attempt u16 | sequence u32 | 0 u32 | 0 u32 | 0 ...
//! answer, 104 bytes
//!   version 6 u8 | type 2 u8 | 0 u8 | 0 u8 | command 33 u16 | reply 5 u16 | status u16 | 0 u16 | 0 u16 | 0 u16
//!   sequence u32 | 0 u32 | 0 u32                                                              28 bytes so far
//!   reference u32 | its address: 16 bytes, family u16, 0 u16 | stratum u16 | leap u16        56
//!   last update: seconds, high u32, low u32 | nanoseconds u32                                 68
//!   correction f | last offset f | RMS offset f | frequency f | residual frequency f | skew f
//!   root delay f | root dispersion f | update interval f                                      104
//! f, 32 bits: exponent, 7 bits with sign, | coefficient, 25 bits with sign: coefficient * 2^(exponent - 25), seconds
//! ```

/// Port of chronyd on the loopback addresses, which answers this request to everybody on the host.
pub const PORT: u16 = 323;

/// Bytes of request and answer.
pub const TRACKING_BYTES: usize = 104;

const VERSION: u8 = 6;
const REQUEST: u8 = 1;
const ANSWER: u8 = 2;
const TRACKING: u16 = 33;
const TRACKING_ANSWER: u16 = 5;
const SUCCESS: u16 = 0;
/// Leap status of a clock that follows nothing.
const UNSYNCHRONISED: u16 = 3;

/// How well a clock follows its reference, as chronyd has it. Its true error is at most |`correction_ns`| +
/// `root_dispersion_ns` + half of `root_delay_ns`, as long as the sources are right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracking {
    /// Hops to a reference clock; 0 where there is none.
    pub stratum: u16,
    /// Whether the clock follows anything.
    pub synchronised: bool,
    /// What is yet to be added to the system's clock, nanoseconds; positive: it is slow.
    pub correction_ns: i64,
    /// Offset at the last update, nanoseconds; positive: the clock was ahead.
    pub last_offset_ns: i64,
    /// Long-term mean of offsets, nanoseconds.
    pub rms_offset_ns: i64,
    /// Round trips to the reference clock, added up, nanoseconds.
    pub root_delay_ns: i64,
    /// Errors gathered on the way from the reference clock, nanoseconds.
    pub root_dispersion_ns: i64,
}

/// Bytes of [`Tracking::to_octets`].
pub const STATED_BYTES: usize = 48;

/// Bytes that ask for it. The answer bears the same number.
pub fn tracking_request(sequence: u32) -> [u8; TRACKING_BYTES] {
    let mut octets = [0; TRACKING_BYTES];
    [octets[0], octets[1]] = [VERSION, REQUEST];
    octets[4..6].copy_from_slice(&TRACKING.to_be_bytes());
    octets[8..12].copy_from_slice(&sequence.to_be_bytes());
    octets
}

impl Tracking {
    /// Reads the answer to a request with this number; none where it is no such answer, or a refusal.
    pub fn read(octets: &[u8], sequence: u32) -> Option<Self> {
        let octets: &[u8; TRACKING_BYTES] = octets.try_into().ok()?;
        let short = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
        let word =
            |at: usize| u32::from_be_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]]);
        let is_ours = [octets[0], octets[1]] == [VERSION, ANSWER]
            && (short(4), short(6), short(8)) == (TRACKING, TRACKING_ANSWER, SUCCESS)
            && word(16) == sequence;
        is_ours.then(|| Self {
            stratum: short(52),
            synchronised: short(54) != UNSYNCHRONISED,
            correction_ns: nanoseconds(word(68)),
            last_offset_ns: nanoseconds(word(72)),
            rms_offset_ns: nanoseconds(word(76)),
            root_delay_ns: nanoseconds(word(92)),
            root_dispersion_ns: nanoseconds(word(96)),
        })
    }
}

impl Tracking {
    /// As one host tells it to another in Quaver's extension:
    ///
    /// ```text
    /// stratum u32 | follows something u32: 0, 1 | correction ns i64 | last offset ns i64 | RMS offset ns i64
    /// root delay ns i64 | root dispersion ns i64                                                48 bytes
    /// ```
    pub fn to_octets(&self) -> [u8; STATED_BYTES] {
        let mut octets = [0; STATED_BYTES];
        octets[..4].copy_from_slice(&u32::from(self.stratum).to_be_bytes());
        octets[7] = u8::from(self.synchronised);
        let times = [
            self.correction_ns,
            self.last_offset_ns,
            self.rms_offset_ns,
            self.root_delay_ns,
            self.root_dispersion_ns,
        ];
        for (place, time_ns) in octets[8..].chunks_exact_mut(8).zip(times) {
            place.copy_from_slice(&time_ns.to_be_bytes());
        }
        octets
    }

    /// What exactly these bytes tell; none of another length, or with numbers that cannot be.
    pub fn from_octets(octets: &[u8]) -> Option<Self> {
        let octets: &[u8; STATED_BYTES] = octets.try_into().ok()?;
        let (words, _) = octets[8..].as_chunks::<8>();
        let [correction_ns, last_offset_ns, rms_offset_ns, root_delay_ns, root_dispersion_ns] =
            core::array::from_fn(|at| i64::from_be_bytes(words[at]));
        let stratum = u32::from_be_bytes([octets[0], octets[1], octets[2], octets[3]]);
        Some(Self {
            stratum: stratum.try_into().ok()?,
            synchronised: octets[4..8] == [0, 0, 0, 1],
            correction_ns,
            last_offset_ns,
            rms_offset_ns,
            root_delay_ns,
            root_dispersion_ns,
        })
    }
}

/// Bits of a coefficient, with its sign.
const COEFFICIENT_BITS: u32 = 25;

/// Seconds as chrony writes them, in nanoseconds, rounded.
fn nanoseconds(word: u32) -> i64 {
    // Shifts of signed numbers keep the sign.
    let exponent = word.cast_signed() >> COEFFICIENT_BITS;
    let coefficient = (word << (32 - COEFFICIENT_BITS)).cast_signed() >> (32 - COEFFICIENT_BITS);
    // 2^-89 to 2^38: neither too small nor too large for a f64, whose exponent is biased by 1023.
    let power = f64::from_bits(((1023 + exponent - COEFFICIENT_BITS.cast_signed()) as u64) << 52);
    let ns = f64::from(coefficient) * power * 1e9;
    // `round` is not in core. Casts hold what is too large at the ends.
    (if ns < 0.0 { ns - 0.5 } else { ns + 0.5 }) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What chronyd 4.3 answered to request number 0x51554156, following another chronyd on the same host.
    const ANSWERED: &str = "060200000021000500000000000000005155415600000000000000007f000001\
                            7f0000010000000000000000000000000001000000060000000000006b01bb92\
                            155ca604dd3e914dd4e8975ad6f8cfb2f12ffaa6f0e3a38cfac45d83e080b6fd\
                            dc9d803c068c159e";
    const NUMBER: u32 = 0x5155_4156;

    fn answered() -> [u8; TRACKING_BYTES] {
        core::array::from_fn(|at| u8::from_str_radix(&ANSWERED[2 * at..2 * at + 2], 16).expect("hexadecimal"))
    }

    #[test]
    fn the_answer_of_a_chronyd_is_read() {
        // chronyc said the same of it: 3.836 us and 0.9 us of root delay and dispersion, 1.4 us fast, stratum 6.
        let expected = Tracking {
            stratum: 6,
            synchronised: true,
            correction_ns: -1_441,
            last_offset_ns: 108,
            rms_offset_ns: 232,
            root_delay_ns: 3_836,
            root_dispersion_ns: 1_173,
        };
        assert_eq!(Tracking::read(&answered(), NUMBER), Some(expected));
    }

    #[test]
    fn a_request_is_what_chronyc_sends() {
        let octets = tracking_request(NUMBER);
        assert_eq!(octets[..12], [6, 1, 0, 0, 0, 33, 0, 0, 0x51, 0x55, 0x41, 0x56]);
        assert!(octets[12..].iter().all(|octet| *octet == 0));
        assert_eq!(Tracking::read(&octets, NUMBER), None, "a request is no answer");
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        assert_eq!(Tracking::read(&answered(), NUMBER + 1), None);
        assert_eq!(Tracking::read(&answered()[..103], NUMBER), None);
        // Version, type, command, kind of answer, status.
        for at in [0, 1, 5, 7, 9] {
            let mut octets = answered();
            octets[at] ^= 1;
            assert_eq!(Tracking::read(&octets, NUMBER), None, "byte {at}");
        }
        let mut octets = answered();
        octets[55] = 3;
        assert_eq!(Tracking::read(&octets, NUMBER).map(|tracking| tracking.synchronised), Some(false));
    }

    #[test]
    fn what_one_host_tells_another_reads_it() {
        let tracking = Tracking::read(&answered(), NUMBER).expect("an answer");
        let octets = tracking.to_octets();
        assert_eq!(Tracking::from_octets(&octets), Some(tracking));
        assert_eq!(octets[..16], [0, 0, 0, 6, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfa, 0x5f]);
        assert_eq!(Tracking::from_octets(&octets[1..]), None);
        assert_eq!(Tracking::from_octets(&[0xff; STATED_BYTES]), None, "no stratum has 32 bits");
    }

    #[test]
    fn numbers_keep_sign_and_size() {
        let word = |exponent: i32, coefficient: i32| {
            (exponent.cast_unsigned() << 25) | (coefficient.cast_unsigned() & 0x01ff_ffff)
        };
        assert_eq!(nanoseconds(0), 0);
        assert_eq!(nanoseconds(word(2, 1 << 23)), 1_000_000_000);
        assert_eq!(nanoseconds(word(1, -(1 << 24))), -1_000_000_000);
        assert_eq!(nanoseconds(word(1, 1 << 23)), 500_000_000);
        assert_eq!(nanoseconds(word(-64, (1 << 24) - 1)), 0);
        assert_eq!(nanoseconds(word(63, (1 << 24) - 1)), i64::MAX, "held at the end");
        assert_eq!(nanoseconds(word(63, -(1 << 24))), i64::MIN);
    }
}
