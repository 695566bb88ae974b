//! The format of an ST 2110-20 stream as somebody tells it who has its SDP, in place of what the stream shows.

use crate::gapped::SenderType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is told; the rest is learned from the stream. The width of the image enters neither model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VideoTold {
    /// Lines of the image, of both fields where interlaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// Whether frames come as two fields or segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interlaced: Option<bool>,
    /// Frames (not fields) a second as a fraction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_rate: Option<(u32, u32)>,
    /// TROFF: TR_OFFSET of the sender (ST 2110-21, section 8), nanoseconds. TRO_DEFAULT where it is not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub troff_ns: Option<i64>,
    /// TP: the type of sender that it signals, whose limits it has to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<SenderType>,
}

impl VideoTold {
    /// Whether nothing is told.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads `1080p59.94`, `1080i25` or `720p60000/1001`: lines, scanning, frames (not fields) a second.
    ///
    /// # Errors
    /// A sentence with an example.
    pub fn format(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is no format of video: write for example `1080p59.94` or `1080i25`");
        let (at, _) = text.char_indices().find(|(_, c)| matches!(c, 'p' | 'i')).ok_or_else(bad)?;
        let height = text[..at].parse().ok().filter(|height| (1..=16_384).contains(height));
        let frame_rate = fraction(&text[at + 1..]).ok_or_else(bad)?;
        Ok(Self {
            height: Some(height.ok_or_else(bad)?),
            interlaced: Some(&text[at..=at] == "i"),
            frame_rate: Some(frame_rate),
            ..Self::default()
        })
    }
}

/// `25`, `30000/1001`, or what people write for the latter: `29.97`.
fn fraction(text: &str) -> Option<(u32, u32)> {
    let sane = |rate: &(u32, u32)| (1..=1_000_000).contains(&rate.0) && (1..=1_000_000).contains(&rate.1);
    if let Some((frames, seconds)) = text.split_once('/') {
        return Some((frames.parse().ok()?, seconds.parse().ok()?)).filter(sane);
    }
    if let Ok(frames) = text.parse() {
        return Some((frames, 1)).filter(sane);
    }
    let value: f64 = text.parse().ok()?;
    let whole = value.ceil();
    // Two digits behind the point at least: 23.98 or 23.976, never 23.9.
    let slowed = whole * 1000.0 / 1001.0;
    ((value - slowed).abs() < 0.006 && whole <= 1_000.0).then_some((whole as u32 * 1_000, 1_001))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_as_people_write_them() {
        let told = |height, interlaced, frame_rate| {
            let (height, interlaced, frame_rate) = (Some(height), Some(interlaced), Some(frame_rate));
            Ok(VideoTold { height, interlaced, frame_rate, ..VideoTold::default() })
        };
        assert_eq!(VideoTold::format("1080p59.94"), told(1_080, false, (60_000, 1_001)));
        assert_eq!(VideoTold::format("1080i25"), told(1_080, true, (25, 1)));
        assert_eq!(VideoTold::format("720p60000/1001"), told(720, false, (60_000, 1_001)));
        assert_eq!(VideoTold::format("2160p23.976"), told(2_160, false, (24_000, 1_001)));
        assert_eq!(VideoTold::format("2160p23.98"), told(2_160, false, (24_000, 1_001)));
        assert_eq!(VideoTold::format("486i29.97"), told(486, true, (30_000, 1_001)));
        for wrong in
            ["", "1080", "p25", "0p25", "1080p", "1080p0", "1080p25/0", "1080p24.5", "1080x25", "-1p25"]
        {
            let error = VideoTold::format(wrong).expect_err(wrong);
            assert!(error.contains("1080p59.94"), "{error}");
        }
    }
}
