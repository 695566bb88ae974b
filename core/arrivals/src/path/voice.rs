//! How a telephone call would sound: the E-model (ITU-T G.107).
//!
//! R = 93.2 - Idd - Ie-eff. 93.2 is the rating of G.107 with all its defaults; of the impairments by delay only Idd is
//! taken, the one of a long way without echo: with modern echo cancellers Idte and Idle are nearly nothing. The
//! advantage factor A is 0.

use schemars::JsonSchema;
use serde::Serialize;

/// Rating of a connection that adds neither delay nor loss (G.107, with its default values).
pub const DEFAULT_R: f64 = 93.2;

/// A codec with the ITU's planning values (G.113, appendix I).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Codec {
    /// Name.
    pub name: &'static str,
    /// Ie: equipment impairment factor without loss.
    pub ie: f64,
    /// Bpl: robustness against loss of packets. None where the ITU has published none; such a codec is rated only
    /// where nothing is lost.
    pub bpl: Option<f64>,
    /// Speech in a packet, for which Bpl holds.
    pub packet_ms: f64,
    /// Delay that coding adds: filling and working on a packet, and looking ahead (G.114, annex A), rounded up to a
    /// quarter of a millisecond.
    pub coding_ms: f64,
}

/// The usual codecs, with the provisional planning values of G.113, appendix I, for random loss.
///
/// There are such values for G.711 without and with the concealment of its appendix I, G.729A with VAD, G.723.1 at
/// 6.3 kbit/s with VAD, and GSM-EFR, which is AMR at 12.2 kbit/s bit for bit. For G.723.1 at 5.3 kbit/s there is only
/// Ie. iLBC has none and is left out.
pub const CODECS: [Codec; 6] = [
    Codec { name: "G.711", ie: 0.0, bpl: Some(4.3), packet_ms: 10.0, coding_ms: 10.25 },
    Codec { name: "G.711 with concealment", ie: 0.0, bpl: Some(25.1), packet_ms: 10.0, coding_ms: 14.0 },
    Codec { name: "G.729A", ie: 11.0, bpl: Some(19.0), packet_ms: 20.0, coding_ms: 35.0 },
    Codec { name: "G.723.1 at 6.3 kbit/s", ie: 15.0, bpl: Some(16.1), packet_ms: 30.0, coding_ms: 67.5 },
    Codec { name: "G.723.1 at 5.3 kbit/s", ie: 19.0, bpl: None, packet_ms: 30.0, coding_ms: 67.5 },
    Codec { name: "AMR-NB at 12.2 kbit/s", ie: 5.0, bpl: Some(10.0), packet_ms: 20.0, coding_ms: 40.0 },
];

/// How one codec would fare.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct VoiceRating {
    /// Codec.
    pub codec: Codec,
    /// From mouth to ear: network, de-jitter buffer and coding.
    pub delay_ms: f64,
    /// Lost and late packets, in percent (Ppl).
    pub loss_percent: f64,
    /// BurstR as it was used.
    pub burst_ratio: f64,
    /// Impairment by delay.
    pub idd: f64,
    /// Impairment by codec and loss.
    pub ie_eff: f64,
    /// R, from 0 (a rating below that is 0) to 93.2.
    pub r: f64,
    /// Mean opinion score, 1 to 4.5.
    pub mos: f64,
}

/// Rates a codec. `network_ms` is the one-way delay up to playing, buffer included; `loss_share` is the part of the
/// sent packets that is not played. A `burst_ratio` below 1, which G.107 does not provide for, counts as 1, as does one
/// that is not known. None where a figure is not finite or negative, or the codec cannot be rated with loss.
pub fn rate(codec: Codec, network_ms: f64, loss_share: f64, burst_ratio: Option<f64>) -> Option<VoiceRating> {
    let burst_ratio = burst_ratio.unwrap_or(1.0).max(1.0);
    if !network_ms.is_finite()
        || network_ms < 0.0
        || !(0.0..=1.0).contains(&loss_share)
        || !burst_ratio.is_finite()
    {
        return None;
    }
    let delay_ms = network_ms + codec.coding_ms;
    let loss_percent = 100.0 * loss_share;
    let idd = delay_impairment(delay_ms);
    let ie_eff = match codec.bpl {
        Some(bpl) => loss_impairment(codec.ie, bpl, loss_percent, burst_ratio),
        None if loss_percent == 0.0 => codec.ie,
        None => return None,
    };
    let r = (DEFAULT_R - idd - ie_eff).max(0.0);
    Some(VoiceRating { codec, delay_ms, loss_percent, burst_ratio, idd, ie_eff, r, mos: mos(r) })
}

/// Idd: impairment by too long a delay, from mouth to ear in ms (G.107, section 7.4). 0 up to 100 ms.
pub fn delay_impairment(delay_ms: f64) -> f64 {
    if delay_ms <= 100.0 {
        return 0.0;
    }
    let x = (delay_ms / 100.0).log2();
    let sixth_root = |y: f64| (1.0 + y.powi(6)).powf(1.0 / 6.0);
    25.0 * (sixth_root(x) - 3.0 * sixth_root(x / 3.0) + 2.0)
}

/// Ie-eff: impairment by a codec that loses `loss_percent` of its packets (G.107, section 7.5).
pub fn loss_impairment(ie: f64, bpl: f64, loss_percent: f64, burst_ratio: f64) -> f64 {
    ie + (95.0 - ie) * loss_percent / (loss_percent / burst_ratio + bpl)
}

/// Mean opinion score of a rating (G.107, annex B): 1 for R up to 0, 4.5 from 100 on. The formula dips below 1 for the
/// smallest ratings; it is held at 1.
pub fn mos(r: f64) -> f64 {
    if r <= 0.0 {
        return 1.0;
    }
    if r >= 100.0 {
        return 4.5;
    }
    (1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r)).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(a: f64, b: f64, within: f64) {
        assert!((a - b).abs() <= within, "{a} is not {b}");
    }

    #[test]
    fn opinions_of_ratings() {
        near(mos(93.2), 4.41, 0.005);
        // G.107, annex B, table B.1; its 4.03 at 80 is more than its own formula gives, and the formula wins.
        for (r, score) in [(90.0, 4.34), (80.0, 4.024), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
            near(mos(r), score, 0.0051);
        }
        assert_eq!([mos(-1.0), mos(0.0), mos(3.0), mos(100.0), mos(101.0)], [1.0, 1.0, 1.0, 4.5, 4.5]);
    }

    #[test]
    fn impairment_by_delay_worked_by_hand() {
        assert_eq!([delay_impairment(0.0), delay_impairment(100.0)], [0.0, 0.0]);
        // X = 1: 25 (2^(1/6) - 3 (1 + 1/729)^(1/6) + 2).
        near(delay_impairment(200.0), 25.0 * (1.122_462_048 - 3.000_685_480 + 2.0), 1e-6);
        // X = 2: 25 (65^(1/6) - 3 (1 + 64/729)^(1/6) + 2).
        near(delay_impairment(400.0), 24.070, 5e-3);
    }

    #[test]
    fn impairment_by_loss_worked_by_hand() {
        // 5 % random loss: 95 * 5 / (5 + 4.3), and with concealment 95 * 5 / (5 + 25.1).
        near(loss_impairment(0.0, 4.3, 5.0, 1.0), 51.075_268_8, 1e-6);
        near(loss_impairment(0.0, 25.1, 5.0, 1.0), 15.780_730_9, 1e-6);
        // In bursts twice as long: 11 + 84 * 5 / (2.5 + 19).
        near(loss_impairment(11.0, 19.0, 5.0, 2.0), 30.534_883_7, 1e-6);
        assert_eq!(loss_impairment(11.0, 19.0, 0.0, 2.0), 11.0);
    }

    #[test]
    fn a_call_without_fault_and_one_that_cannot_be_rated() {
        let rated = |loss_share, burst_ratio| {
            CODECS.into_iter().filter_map(|codec| rate(codec, 50.0, loss_share, burst_ratio)).count()
        };
        assert_eq!((rated(0.0, None), rated(0.01, Some(2.0))), (6, 5));
        let best = rate(CODECS[0], 0.0, 0.0, None).expect("all figures are known");
        assert_eq!((best.r, best.idd, best.ie_eff, best.burst_ratio), (93.2, 0.0, 0.0, 1.0));
        let low = CODECS[4];
        assert!(rate(low, 0.0, 0.0, None).is_some_and(|rating| rating.ie_eff == 19.0));
        assert_eq!(rate(low, 0.0, 0.01, None), None);
        assert_eq!(rate(CODECS[0], f64::NAN, 0.0, None), None);
        assert_eq!(rate(CODECS[0], 0.0, f64::NAN, None), None);
        assert_eq!(rate(CODECS[0], 0.0, 1.5, None), None);
        assert_eq!(rate(CODECS[0], 0.0, 0.0, Some(f64::INFINITY)), None);
        let all_lost = rate(CODECS[0], 1e9, 1.0, Some(100.0)).expect("all figures are known");
        assert_eq!((all_lost.r, all_lost.mos), (0.0, 1.0));
    }

    proptest! {
        #[test]
        fn more_delay_loss_or_bursts_never_sound_better(
            codec in 0usize..6, delay in 0.0..2000.0f64, loss in 0.0..0.5f64, burst in 1.0..8.0f64,
            more in 0.0..1.0f64,
        ) {
            let codec = CODECS[codec];
            let r = |delay, loss, burst| rate(codec, delay, loss, Some(burst)).map(|rating| rating.r);
            let Some(base) = r(delay, loss, burst) else { return Ok(()) };
            prop_assert!((0.0..=DEFAULT_R).contains(&base));
            for worse in [r(delay + 500.0 * more, loss, burst), r(delay, loss + more / 2.0, burst),
                r(delay, loss, burst + more)]
            {
                prop_assert!(worse.is_some_and(|worse| worse <= base + 1e-9));
            }
        }
    }
}
