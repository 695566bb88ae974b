//! The clock of RTP timestamps: at which rate it runs, and how that is known.

use super::RtpPacket;
use super::kind::RtpKind;
use quaver_abi::wire::{hbrmt, rfc4175};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the rate is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClockKnown {
    /// From the payload type, which is assigned (RFC 3551, section 6).
    PayloadType,
    /// From the payload's format: ST 2022-6, ST 2110-20.
    Format,
    /// From the stream: the usual rate nearest to that of timestamps over arrivals, within 0.9 %.
    Learned,
    /// Not known; 90 kHz is taken, the rate of most dynamic payload types.
    Assumed,
}

/// Rate of the RTP timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MediaClock {
    /// Rate used, Hz.
    pub hz: u32,
    /// How it is known.
    pub known: ClockKnown,
    /// Rate of the timestamps over the arrivals, by our clock; none where the stream is too short (below 0.1 s).
    pub measured_hz: Option<f64>,
}

/// Rates in use for RTP.
const USUAL_HZ: [u32; 14] = [
    8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 88_200, 90_000, 96_000, 192_000,
    27_000_000,
];
const ASSUMED_HZ: u32 = 90_000;
/// Two usual rates are 2 % apart at least.
const NEAR: f64 = 0.009;
/// A shorter stream tells no rate.
pub(super) const LEAST_SPAN_NS: i64 = 100_000_000;

impl MediaClock {
    /// What the reader should know before believing figures that come from this rate.
    pub(super) fn caution(&self) -> Option<String> {
        let (hz, measured) = (self.hz, self.measured_hz);
        let ran = measured.map(|hz| format!("; the timestamps ran at {hz:.1} Hz")).unwrap_or_default();
        match self.known {
            ClockKnown::Assumed => Some(format!(
                "the rate of the media clock is not known and is assumed to be {hz} Hz, on which interarrival jitter depends{ran}"
            )),
            ClockKnown::PayloadType | ClockKnown::Format if measured.is_some_and(|m| !near(m, hz)) => {
                Some(format!(
                    "the media clock ought to run at {hz} Hz{ran}: the sender's pace is not that of its timestamps, and \
                 interarrival jitter has the difference in it"
                ))
            }
            _ => None,
        }
    }
}

pub(super) fn near(measured: f64, hz: u32) -> bool {
    (measured / f64::from(hz) - 1.0).abs() <= NEAR
}

/// The clock that needs no packet more to be known: by the format, else by the payload type.
pub(super) fn told(kind: RtpKind, payload_type: Option<u8>) -> Option<(u32, ClockKnown)> {
    match kind {
        RtpKind::St2022_6 => Some((hbrmt::RTP_CLOCK_HZ, ClockKnown::Format)),
        RtpKind::St2110_20 => Some((rfc4175::RTP_CLOCK_HZ, ClockKnown::Format)),
        RtpKind::Other => Some((assigned_hz(payload_type?)?, ClockKnown::PayloadType)),
    }
}

/// The clock of a stream whose packets stand in order of arrival.
pub(super) fn of(packets: &[RtpPacket], kind: RtpKind, payload_type: Option<u8>) -> MediaClock {
    let measured_hz = measured_hz(packets);
    let (hz, known) = if let Some(told) = told(kind, payload_type) {
        told
    } else if let Some(hz) = measured_hz.and_then(usual_hz) {
        (hz, ClockKnown::Learned)
    } else {
        (ASSUMED_HZ, ClockKnown::Assumed)
    };
    MediaClock { hz, known, measured_hz }
}

pub(super) fn usual_hz(measured: f64) -> Option<u32> {
    USUAL_HZ.into_iter().find(|hz| near(measured, *hz))
}

/// Rate of the timestamps over the arrivals; none of too short a stream. Only the first packet of a frame was sent at the frame's
/// time, and the first packet of all may be in the middle of one.
pub(super) fn measured_hz(packets: &[RtpPacket]) -> Option<f64> {
    // A copy shares its timestamp too.
    let shared =
        packets.windows(2).filter(|pair| pair[0].fields.timestamp == pair[1].fields.timestamp).count();
    let of_frames = 2 * shared + 1 >= packets.len();
    let (mut media, mut before) = (Unwrapped::default(), None);
    let mut starts = packets.iter().filter_map(|packet| {
        let ticks = media.next(packet.fields.timestamp);
        let begins = before.replace(ticks) != Some(ticks) || !of_frames;
        begins.then_some((ticks, packet.arrived_ns))
    });
    let (first, first_ns) = starts.nth(usize::from(of_frames))?;
    let (last, last_ns) = starts.last()?;
    let span_ns = last_ns.saturating_sub(first_ns);
    (span_ns >= LEAST_SPAN_NS).then(|| (last - first) as f64 * 1e9 / span_ns as f64)
}

/// Clock rate of an assigned payload type (RFC 3551, tables 4 and 5); none for dynamic and unassigned ones.
fn assigned_hz(payload_type: u8) -> Option<u32> {
    Some(match payload_type {
        0 | 3..=5 | 7..=9 | 12 | 13 | 15 | 18 => 8_000,
        6 => 16_000,
        10 | 11 => 44_100,
        16 => 11_025,
        17 => 22_050,
        14 | 25 | 26 | 28 | 31..=34 => 90_000,
        _ => return None,
    })
}

/// Timestamps made whole over their wraps, from 0 for the first.
#[derive(Clone, Debug, Default)]
pub(super) struct Unwrapped {
    last: Option<u32>,
    ticks: i64,
}

impl Unwrapped {
    pub(super) fn next(&mut self, timestamp: u32) -> i64 {
        let last = self.last.replace(timestamp).unwrap_or(timestamp);
        self.ticks += i64::from(timestamp.wrapping_sub(last).cast_signed());
        self.ticks
    }
}

/// An instant in ticks of a clock, of which a timestamp keeps the low 32 bits.
pub(super) fn ticks(ns: i64, hz: u32) -> u32 {
    (i128::from(ns) * i128::from(hz)).div_euclid(1_000_000_000) as u32
}

/// So many ticks in nanoseconds, rounded down.
pub(super) fn nanoseconds(ticks: i64, hz: u32) -> i64 {
    let ns = (i128::from(ticks) * 1_000_000_000).div_euclid(i128::from(hz));
    i64::try_from(ns).unwrap_or(i64::MAX)
}
