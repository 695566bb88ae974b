//! Loss over packet sizes and over gaps, a curve for each method and placement.

use quaver_capture_analysis::compare::{LossPoint, Placement, Sweep};
use std::collections::BTreeMap;

/// Loss of one method under one placement, over sizes or gaps.
pub(super) struct Curve {
    pub(super) sweep: Sweep,
    pub(super) placement: Placement,
    pub(super) arm: String,
    /// Sums over the repetitions, by bytes of packet or gap.
    pub(super) points: BTreeMap<u64, Sum>,
}

/// Sums over the repetitions of a point.
#[derive(Default)]
pub(super) struct Sum {
    pub(super) sent: u64,
    received: u64,
    achieved_ns: f64,
    count: u64,
}

impl Sum {
    pub(super) fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// Part of the packets that did not arrive.
    pub(super) fn share(&self) -> f64 {
        self.lost() as f64 / self.sent.max(1) as f64
    }

    /// Mean time from one packet to the next that the source reached.
    pub(super) fn spacing_ns(&self) -> f64 {
        self.achieved_ns / self.count.max(1) as f64
    }
}

/// The curves, repetitions of a point joined.
pub(super) fn curves(points: &[LossPoint]) -> Vec<Curve> {
    let mut found: BTreeMap<(Sweep, Placement, &str), BTreeMap<u64, Sum>> = BTreeMap::new();
    for point in points {
        let bytes = match point.sweep {
            Sweep::Size => u64::from(point.frame_bytes),
            Sweep::Gap => point.gap_bytes,
        };
        let curve = found.entry((point.sweep, point.placement, &point.arm)).or_default();
        let sum = curve.entry(bytes).or_default();
        sum.sent += point.sent;
        sum.received += point.received;
        sum.achieved_ns += point.achieved_ns;
        sum.count += 1;
    }
    let curve = |((sweep, placement, arm), points): ((Sweep, Placement, &str), _)| Curve {
        sweep,
        placement,
        arm: arm.to_owned(),
        points,
    };
    found.into_iter().map(curve).collect()
}
