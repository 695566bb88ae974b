//! The last seconds of a stream while a capture goes on. Whoever asks for figures each second gets a sliding window of ten.

use super::figures::RecentFigures;
use quaver_arrivals::path::rolling::Figures;
use quaver_arrivals::path::voice::{CODECS, Codec, rate};
use std::collections::VecDeque;

/// Stretches between two looks that the window has.
const STRETCHES: usize = 10;

/// Between two looks.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    unique: u64,
    /// Highest number before it.
    before: u64,
    pdv_ns: Option<u64>,
}

/// The window.
#[derive(Debug, Default)]
pub(super) struct Recent {
    stretches: VecDeque<Stretch>,
    highest: u64,
}

impl Recent {
    /// Of a stream that begins with this number.
    pub(super) fn new(base: u64) -> Self {
        Self { stretches: VecDeque::new(), highest: base.wrapping_sub(1) }
    }

    /// A look: the stretch since the last one, and the highest number so far. `interarrival_ns` is as of now.
    pub(super) fn look(
        &mut self,
        stretch: &Figures,
        highest: u64,
        interarrival_ns: f64,
        payload_type: Option<u8>,
    ) -> RecentFigures {
        let (unique, pdv_ns) = (stretch.counts().unique, stretch.pdv_quantile_ns(0.99));
        let before = std::mem::replace(&mut self.highest, highest);
        self.stretches.push_back(Stretch { unique, before, pdv_ns });
        if self.stretches.len() > STRETCHES {
            self.stretches.pop_front();
        }
        let packets = self.stretches.iter().map(|stretch| stretch.unique).sum();
        let before = self.stretches.front().map_or(before, |stretch| stretch.before);
        // As receiver reports count it (RFC 3550, appendix A.3): what comes late makes up for it in a later stretch.
        let expected = highest.wrapping_sub(before);
        let lost = expected.saturating_sub(packets);
        let loss_share = if expected > 0 { lost as f64 / expected as f64 } else { 0.0 };
        let worst_pdv_p99_ns = self.stretches.iter().filter_map(|stretch| stretch.pdv_ns).max();
        let mos = payload_type.and_then(codec).zip(worst_pdv_p99_ns).and_then(|(codec, pdv_ns)| {
            rate(codec, pdv_ns as f64 / 1e6, loss_share, None).map(|rating| rating.mos)
        });
        RecentFigures { packets, lost, loss_share, worst_pdv_p99_ns, interarrival_ns, mos }
    }
}

/// The codec of an assigned payload type (RFC 3551, table 4), where the ITU has values for it.
fn codec(payload_type: u8) -> Option<Codec> {
    let [_, g711, g729, g723, ..] = CODECS;
    match payload_type {
        0 | 8 => Some(g711),
        18 => Some(g729),
        4 => Some(g723),
        _ => None,
    }
}
