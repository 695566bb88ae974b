//! Time stamps of STAMP: NTP's and PTP's 64 bits, and the error estimate beside them.
//!
//! ```text
//!  NTP (RFC 5905)   seconds since 1900 modulo 2^32 | fraction of a second in 2^-32
//!  PTP, truncated   seconds since 1970 modulo 2^32 | nanoseconds, 0 to 999999999
//! ```
//!
//! Both are made here from UTC, as the system clock has it. Seconds wrap (NTP's in February 2036), so a reader needs
//! a time that is near; any within 68 years will do.

/// Nanoseconds of a second.
const SECOND_NS: i64 = 1_000_000_000;
/// Seconds from 1900 to 1970 (RFC 5905, figure 4).
const NTP_UNIX_OFFSET_S: i64 = 2_208_988_800;

/// How 64 bits are a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimestampFormat {
    /// NTP version 4; the default (RFC 8762, section 4.2.1).
    Ntp,
    /// Truncated PTP version 2 (RFC 8186, section 2.3).
    Ptp,
}

impl TimestampFormat {
    /// The stamp of a time in nanoseconds of UTC since 1970.
    pub fn encode(self, utc_ns: i64) -> u64 {
        let (seconds, nanoseconds) =
            (utc_ns.div_euclid(SECOND_NS), utc_ns.rem_euclid(SECOND_NS).cast_unsigned());
        let (seconds, fraction) = match self {
            // To the nearest of 2^-32 s, which is finer than a nanosecond, so that reading gives the same nanosecond.
            // The greatest nanosecond still rounds to less than a second.
            Self::Ntp => (
                seconds.wrapping_add(NTP_UNIX_OFFSET_S),
                ((nanoseconds << 32) + SECOND_NS.cast_unsigned() / 2) / SECOND_NS.cast_unsigned(),
            ),
            Self::Ptp => (seconds, nanoseconds),
        };
        (u64::from(seconds as u32) << 32) | fraction
    }

    /// The time of a stamp, nanoseconds of UTC since 1970, taken from the era that is nearest to `near_ns`.
    /// Saturates at the ends of what 64 bits hold. Nanoseconds of a PTP stamp above 999999999 are carried.
    pub fn decode(self, stamp: u64, near_ns: i64) -> i64 {
        let (seconds, fraction) = ((stamp >> 32) as u32, stamp & 0xffff_ffff);
        let (epoch, nanoseconds) = match self {
            Self::Ntp => (NTP_UNIX_OFFSET_S, (fraction * SECOND_NS.cast_unsigned() + (1 << 31)) >> 32),
            Self::Ptp => (0, fraction),
        };
        let near = near_ns.div_euclid(SECOND_NS) + epoch;
        let ahead = seconds.wrapping_sub(near as u32).cast_signed();
        let seconds = near + i64::from(ahead) - epoch;
        let total_ns = i128::from(seconds) * i128::from(SECOND_NS) + i128::from(nanoseconds);
        i64::try_from(total_ns).unwrap_or(if total_ns < 0 { i64::MIN } else { i64::MAX })
    }
}

/// How good a sender's or reflector's stamps are (RFC 4656, section 4.1.2; RFC 8186, section 2.3).
///
/// ```text
///  0                   1
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5
/// +-+-+-----------+---------------+
/// |S|Z|   Scale   |   Multiplier  |   error = Multiplier x 2^Scale x 2^-32 s
/// +-+-+-----------+---------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorEstimate {
    /// S: the clock is kept in step with UTC by something outside.
    pub synchronized: bool,
    /// Z: format of the stamps beside it.
    pub format: TimestampFormat,
    /// Power of two, 0 to 63.
    pub scale: u8,
    /// Never 0 in a valid estimate.
    pub multiplier: u8,
}

impl ErrorEstimate {
    /// The least estimate that is not below `error_ns`.
    pub fn new(format: TimestampFormat, synchronized: bool, error_ns: u64) -> Self {
        let units = (u128::from(error_ns) << 32).div_ceil(1_000_000_000).max(1);
        // 2^64 ns are less than 2^67 units, so the scale stays below 60.
        let scale = (0..60).find(|scale| units.div_ceil(1 << scale) <= 255).unwrap_or(60);
        Self { synchronized, format, scale, multiplier: units.div_ceil(1 << scale) as u8 }
    }

    /// The error in nanoseconds, rounded up; none where the multiplier is 0, which says that there is no estimate.
    pub fn error_ns(&self) -> Option<u64> {
        let units = u128::from(self.multiplier) << self.scale;
        let error_ns = (units * 1_000_000_000).div_ceil(1 << 32);
        (self.multiplier != 0).then(|| u64::try_from(error_ns).unwrap_or(u64::MAX))
    }

    /// As it goes over the wire.
    pub fn to_bits(self) -> u16 {
        (u16::from(self.synchronized) << 15)
            | (u16::from(self.format == TimestampFormat::Ptp) << 14)
            | (u16::from(self.scale & 63) << 8)
            | u16::from(self.multiplier)
    }

    /// The estimate that these bits are; any are one.
    pub fn from_bits(bits: u16) -> Self {
        Self {
            synchronized: bits & 0x8000 != 0,
            format: if bits & 0x4000 == 0 { TimestampFormat::Ntp } else { TimestampFormat::Ptp },
            scale: (bits >> 8) as u8 & 63,
            multiplier: bits as u8,
        }
    }
}
