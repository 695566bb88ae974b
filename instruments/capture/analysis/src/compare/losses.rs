//! Loss against packet size and gap (the paper's figure 6).

use super::model::{LossPoint, Placement, Sweep};
use quaver_analysis::rounds::{Interval, Rounds, Verdict, interval};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The pipeline that others are held against, where it took part.
const GENERIC: &str = "inline-clock";

/// All points of one pipeline under one placement.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LossTotal {
    /// Where softirq and receiver ran.
    pub placement: Placement,
    /// Pipeline.
    pub arm: String,
    /// Packets sent.
    pub sent: u64,
    /// Packets that did not arrive.
    pub lost: u64,
    /// Of those, dropped at the receiver's full buffer.
    pub at_socket: u64,
    /// Dropped at a CPU's full backlog.
    pub at_backlog: u64,
    /// At no place that was counted. A negative number is a count of drops beyond what was lost: of others' packets.
    pub unaccounted: i64,
}

/// How much more one pipeline lost than another.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LossDifference {
    /// Where softirq and receiver ran.
    pub placement: Placement,
    /// The one.
    pub of: String,
    /// The other.
    pub to: String,
    /// Mean over the points: share lost by the one less share lost by the other.
    pub share: f64,
    /// 95 %, from the points and repetitions.
    pub interval: Option<Interval>,
    /// What it says.
    pub verdict: Verdict,
}

/// The loss sweeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct LossSummary {
    /// Sums.
    pub totals: Vec<LossTotal>,
    /// Each pipeline against the kernel's clock asked inline (or the first, where that took no part).
    pub differences: Vec<LossDifference>,
    /// Points as recorded.
    pub points: Vec<LossPoint>,
}

impl LossSummary {
    /// Of these points.
    pub fn of(points: &[LossPoint]) -> Self {
        let mut totals: Vec<LossTotal> = Vec::new();
        for point in points {
            let known = |total: &&mut LossTotal| total.placement == point.placement && total.arm == point.arm;
            let lost = point.sent.saturating_sub(point.received);
            let (at_socket, at_backlog) = (point.socket_drops.unwrap_or(0), point.backlog_drops.unwrap_or(0));
            let unaccounted = lost as i64 - at_socket as i64 - at_backlog as i64;
            match totals.iter_mut().find(known) {
                Some(total) => {
                    total.sent += point.sent;
                    total.lost += lost;
                    total.at_socket += at_socket;
                    total.at_backlog += at_backlog;
                    total.unaccounted += unaccounted;
                }
                None => totals.push(LossTotal {
                    placement: point.placement,
                    arm: point.arm.clone(),
                    sent: point.sent,
                    lost,
                    at_socket,
                    at_backlog,
                    unaccounted,
                }),
            }
        }
        // Pipelines alternate in a random order; the table must not.
        totals.sort_by(|a, b| {
            (a.placement, a.arm != GENERIC, &a.arm).cmp(&(b.placement, b.arm != GENERIC, &b.arm))
        });
        let differences = differences(points, &totals);
        Self { totals, differences, points: points.to_vec() }
    }
}

/// What makes two points of different pipelines comparable.
type Cell = (Sweep, Placement, u32, u32, u64);

fn differences(points: &[LossPoint], totals: &[LossTotal]) -> Vec<LossDifference> {
    let mut cells: BTreeMap<Cell, BTreeMap<&str, f64>> = BTreeMap::new();
    for point in points.iter().filter(|point| point.sent > 0) {
        let cell = (point.sweep, point.placement, point.round, point.frame_bytes, point.gap_bytes);
        let share = point.sent.saturating_sub(point.received) as f64 / point.sent as f64;
        cells.entry(cell).or_default().insert(&point.arm, share);
    }
    let mut found = Vec::new();
    for (at, to) in totals.iter().enumerate() {
        let Some(of) = totals.iter().find(|first| first.placement == to.placement) else { continue };
        if totals.iter().position(|total| std::ptr::eq(total, of)) == Some(at) {
            continue;
        }
        let pairs: Vec<(usize, f64)> = cells
            .iter()
            .filter(|(cell, _)| cell.1 == to.placement)
            .filter_map(|(_, shares)| Some(shares.get(of.arm.as_str())? - shares.get(to.arm.as_str())?))
            .enumerate()
            .collect();
        if pairs.is_empty() {
            continue;
        }
        let rounds = Rounds::of(&pairs, pairs.len());
        let interval = interval(&[&rounds.all], |sums| sums[0].mean());
        found.push(LossDifference {
            placement: to.placement,
            of: of.arm.clone(),
            to: to.arm.clone(),
            share: pairs.iter().map(|(_, share)| share).sum::<f64>() / pairs.len() as f64,
            interval,
            verdict: Verdict::of(interval, 0.0),
        });
    }
    found
}
