//! What ST 2110-21 derives from a video format: read schedules (sections 6.3 and 6.4) and limits (section 7.1).
//!
//! Times are held as whole ticks of a fraction of a nanosecond in which every instant of the schedule is a whole
//! number, so nothing is rounded: 60000/1001 frames a second have no period in nanoseconds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Type of sender (section 7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SenderType {
    /// N, `TP=2110TPN`.
    Narrow,
    /// NL, `TP=2110TPNL`.
    NarrowLinear,
    /// W, `TP=2110TPW`.
    Wide,
}

impl SenderType {
    /// Reads it as SDP has it (section 8.1): `2110TPN`, `2110TPNL` or `2110TPW`.
    ///
    /// # Errors
    /// A sentence with the names.
    pub fn of_sdp(text: &str) -> Result<Self, String> {
        match text {
            "2110TPN" => Ok(Self::Narrow),
            "2110TPNL" => Ok(Self::NarrowLinear),
            "2110TPW" => Ok(Self::Wide),
            _ => Err(format!("`{text}` is no type of sender: 2110TPN, 2110TPNL and 2110TPW are")),
        }
    }

    /// Its letters: `N`, `NL`, `W`.
    pub const fn letters(self) -> &'static str {
        match self {
            Self::Narrow => "N",
            Self::NarrowLinear => "NL",
            Self::Wide => "W",
        }
    }

    /// The read schedule that this type is measured by.
    pub fn schedule(self) -> ReadSchedule {
        if self == SenderType::Narrow { ReadSchedule::Gapped } else { ReadSchedule::Linear }
    }
}

/// Packet read schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadSchedule {
    /// With a gap where SDI has its blanking (section 6.3).
    Gapped,
    /// Even over the whole frame (section 6.4).
    Linear,
}

/// How the image is scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scan {
    /// Progressive, but not segmented.
    Progressive,
    /// Interlaced, 525 lines (BT.656).
    Interlaced525,
    /// Interlaced, 625 lines (BT.656).
    Interlaced625,
    /// Interlaced or segmented, 1125 lines (BT.709).
    Interlaced1125,
}

impl Scan {
    /// Lines in all for an interlaced format.
    fn total_lines(self) -> Option<u32> {
        match self {
            Scan::Progressive => None,
            Scan::Interlaced525 => Some(525),
            Scan::Interlaced625 => Some(625),
            Scan::Interlaced1125 => Some(1125),
        }
    }
}

/// A stream of video frames, each of the same count of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VideoFormat {
    rate: (u32, u32),
    scan: Scan,
    height: u32,
    packets_per_frame: u64,
    max_udp_octets: u32,
}

const NANOSECONDS: i128 = 1_000_000_000;

/// Part of the frame that is active in progressive formats (section 6.3.2).
const ACTIVE_PROGRESSIVE: (i128, i128) = (1080, 1125);

impl VideoFormat {
    /// The Standard UDP Size Limit as section 7.1 counts it.
    pub const STANDARD_UDP_OCTETS: u32 = 1500;

    /// `rate` is frames (not fields) a second as a fraction, `height` the lines of the image, `packets_per_frame` those
    /// of both fields where interlaced, `max_udp_octets` 1500 or the extended limit of ST 2110-10.
    ///
    /// None where a figure is zero, the image is higher than its scanning has lines, or there are more than a million
    /// frames a second, packets a frame, or as much in the fraction's denominator: no such video exists.
    pub fn new(
        rate: (u32, u32),
        scan: Scan,
        height: u32,
        packets_per_frame: u64,
        max_udp_octets: u32,
    ) -> Option<VideoFormat> {
        const MOST: u64 = 1_000_000;
        let sane = |x: u64| (1..=MOST).contains(&x);
        let fits = scan.total_lines().is_none_or(|lines| height <= lines);
        let all =
            sane(rate.0.into()) && sane(rate.1.into()) && sane(packets_per_frame) && sane(height.into());
        (all && fits && max_udp_octets > 0).then_some(VideoFormat {
            rate,
            scan,
            height,
            packets_per_frame,
            max_udp_octets,
        })
    }

    /// N_PACKETS.
    pub fn packets_per_frame(&self) -> u64 {
        self.packets_per_frame
    }

    /// How the image is scanned.
    pub fn scan(&self) -> Scan {
        self.scan
    }

    /// T_FRAME in nanoseconds, rounded.
    pub fn frame_ns(&self) -> f64 {
        1e9 * f64::from(self.rate.1) / f64::from(self.rate.0)
    }

    /// VRX_FULL in packets (sections 7.1.2 to 7.1.4).
    pub fn vrx_full(&self, sender: SenderType) -> u64 {
        let (octets, per_second) = match sender {
            SenderType::Narrow | SenderType::NarrowLinear => (1500 * 8, 27_000),
            SenderType::Wide => (1500 * 720, 300),
        };
        (octets / u64::from(self.max_udp_octets)).max(self.packets_a_second_over(per_second, (1, 1)))
    }

    /// C_MAX in packets (sections 7.1.2 to 7.1.4); none for wide senders of 900,000 packets/s or more.
    pub fn c_max(&self, sender: SenderType) -> Option<u64> {
        match sender {
            SenderType::Narrow => Some(self.packets_a_second_over(43_200, self.active()).max(4)),
            SenderType::NarrowLinear => Some(self.packets_a_second_over(43_200, (1, 1)).max(4)),
            SenderType::Wide if self.packets_a_second_over(900_000, (1, 1)) > 0 => None,
            SenderType::Wide => Some(self.packets_a_second_over(21_600, (1, 1)).max(16)),
        }
    }

    /// INT(N_PACKETS / (divisor × active × T_FRAME)).
    fn packets_a_second_over(&self, divisor: u64, active: (i128, i128)) -> u64 {
        let packets = i128::from(self.packets_per_frame) * i128::from(self.rate.0) * active.1;
        (packets / (i128::from(divisor) * i128::from(self.rate.1) * active.0)) as u64
    }

    /// R_ACTIVE (sections 6.3.2 and 6.3.3, table 1).
    fn active(&self) -> (i128, i128) {
        self.scan
            .total_lines()
            .map_or(ACTIVE_PROGRESSIVE, |lines| (i128::from(self.height), i128::from(lines)))
    }

    /// Drain instants of the network compatibility model in `span_ns` after one of them: INT(span / T_DRAIN), with
    /// T_DRAIN = T_FRAME / N_PACKETS / 1.10 (section 6.6.1).
    pub(super) fn drains_in(&self, span_ns: i128) -> i128 {
        let (frames, seconds) = (i128::from(self.rate.0), i128::from(self.rate.1));
        (span_ns * frames * i128::from(self.packets_per_frame) * 11).div_euclid(NANOSECONDS * seconds * 10)
    }

    /// Into so many parts each frame divides with all its instants whole.
    fn parts(&self) -> i128 {
        // 2250 is the least that 1125 and 750 divide; half lines need twice the lines.
        let lines = self.scan.total_lines().map_or(2250, |lines| 2 * i128::from(lines));
        lines * i128::from(self.packets_per_frame)
    }

    pub(super) fn ticks_per_ns(&self) -> i128 {
        i128::from(self.rate.0) * self.parts()
    }

    pub(super) fn frame_ticks(&self) -> i128 {
        NANOSECONDS * i128::from(self.rate.1) * self.parts()
    }

    pub(super) fn spacing_ticks(&self, schedule: ReadSchedule) -> i128 {
        let (active, total) = match schedule {
            ReadSchedule::Gapped => self.active(),
            ReadSchedule::Linear => (1, 1),
        };
        self.frame_ticks() / total / i128::from(self.packets_per_frame) * active
    }

    /// TRO_DEFAULT (sections 6.3.2, 6.3.3 and 6.4).
    pub(super) fn default_offset_ticks(&self) -> i128 {
        let (part, whole) = match self.scan.total_lines() {
            Some(lines) => (i128::from((lines - self.height) / 2), i128::from(lines)),
            None if self.height >= 1080 => (43, 1125),
            None => (28, 750),
        };
        self.frame_ticks() / whole * part
    }

    /// TPR_j - T_VD: when packet `index` of a frame is read, after the first of it.
    pub(super) fn read_ticks(&self, schedule: ReadSchedule, index: u64) -> i128 {
        let spacing = self.spacing_ticks(schedule);
        let half = self.packets_per_frame / 2;
        match self.scan.total_lines().filter(|_| schedule == ReadSchedule::Gapped && index >= half) {
            Some(lines) => {
                let half_line = self.frame_ticks() / (2 * i128::from(lines));
                self.frame_ticks() / 2 + half_line + i128::from(index - half) * spacing
            }
            None => i128::from(index) * spacing,
        }
    }
}
