//! Takes the drift of two clocks out of packets as they come, in constant memory.
//!
//! The least delays of short times are kept, and the lower edge ([`super::edge`]) is learned from them again and again,
//! without steps. The slots grow with the test, so that there are never more than [`MOST_SLOTS`]. Packets are held back
//! until [`HELD`] have come; so most of a short test is corrected by all that is known of it. What an edge learned later
//! would have done otherwise is part of the bound.

use super::arrival::Arrival;
use super::edge::{Edge, edge};
use super::steps::{LevelShift, ShiftSearch, level_shifts};

#[cfg(test)]
mod tests;

/// Packets that are held back at most.
pub const HELD: usize = 8_192;
/// Least delays that are kept.
const MOST_SLOTS: usize = 1_024;
/// Length of the first slots, nanoseconds.
const SLOT_NS: i64 = 100_000_000;
/// The edge is learned anew after so long by the sender's clock, nanoseconds, and after a part of the test so far.
const LEARN_EVERY_NS: i64 = 1_000_000_000;
const LEARN_EVERY: i64 = 64;
/// Slots on each side of a step.
const STEP_SLOTS: usize = 8;

/// Follows the lower edge of one flow.
#[derive(Debug, Clone)]
pub struct Follower {
    slot_ns: i64,
    /// The packet with the least delay above the edge of each slot, in order of sending.
    least: Vec<Arrival>,
    edge: Option<Edge>,
    learned_ns: i64,
    held: Vec<Arrival>,
    /// When packets were handed on, and the drift that was taken out of them.
    applied: Vec<(i64, f64)>,
}

/// What was taken out of a flow's delays.
#[derive(Debug, Clone, PartialEq)]
pub struct Following {
    /// When its first packet was sent, by the sender's clock: delays are as if the clocks had run alike since then.
    pub start_ns: i64,
    /// Mean drift, parts per million. Positive: the receiver's clock runs faster.
    pub ppm: f64,
    /// Differences of delays are right within this, nanoseconds.
    pub bound_ns: f64,
    /// The most that was taken out of a delay, nanoseconds: its error where the clocks are one.
    pub most_taken_ns: f64,
    /// Least delays over time as measured, in order of sending.
    pub least: Vec<Arrival>,
}

impl Default for Follower {
    fn default() -> Self {
        let (least, held) = (Vec::with_capacity(MOST_SLOTS), Vec::with_capacity(HELD));
        Self { slot_ns: SLOT_NS, least, edge: None, learned_ns: i64::MIN, held, applied: Vec::new() }
    }
}

impl Follower {
    /// Takes the next packet in, and hands on those before it if enough are held.
    pub fn push(&mut self, arrival: &Arrival, take: impl FnMut(&Arrival)) {
        self.notice(arrival);
        self.held.push(*arrival);
        if self.held.len() == HELD {
            if self.is_out_of_date(arrival.sent_ns) {
                self.learn();
            }
            self.release(take);
        }
    }

    /// Hands on what is held at the end.
    pub fn finish(&mut self, take: impl FnMut(&Arrival)) {
        self.learn();
        self.release(take);
    }

    fn release(&mut self, mut take: impl FnMut(&Arrival)) {
        let held = std::mem::take(&mut self.held);
        held.iter().for_each(|arrival| take(&self.corrected(arrival)));
        let some = held.iter().step_by(HELD / 32).chain(held.last());
        let ends: Vec<(i64, f64)> = some.map(|one| (one.sent_ns, self.drift_ns(one.sent_ns))).collect();
        self.applied.extend(ends);
        if self.applied.len() >= MOST_SLOTS {
            // Every other batch tells enough of a test this long.
            let mut place = 0;
            self.applied.retain(|_| {
                place += 1;
                place % 2 == 0
            });
        }
        self.held = held;
        self.held.clear();
    }

    /// A packet without the drift since the first, as far as it is known by now.
    pub fn corrected(&self, arrival: &Arrival) -> Arrival {
        // The clocks drift on while a packet waits.
        let until_ns = arrival.sent_ns.saturating_add(self.above_ns(arrival).max(0));
        let drift_ns = self.drift_ns(until_ns).round() as i64;
        Arrival { received_ns: arrival.received_ns.saturating_sub(drift_ns), ..*arrival }
    }

    /// What was found, once all packets were handed on; none without a packet.
    pub fn found(&self) -> Option<Following> {
        let edge = self.edge.as_ref()?;
        let errors = self.applied.iter().map(|(sent_ns, applied_ns)| applied_ns - self.drift_ns(*sent_ns));
        let (low, high) =
            errors.fold((0.0f64, 0.0f64), |(low, high), error| (low.min(error), high.max(error)));
        Some(Following {
            start_ns: self.least.first()?.sent_ns,
            ppm: edge.ppm,
            // A difference of two delays has the last edge in it at both times and at the start.
            bound_ns: 3.0 * edge.bound_ns + (high - low),
            most_taken_ns: self.applied.iter().map(|(_, applied_ns)| applied_ns.abs()).fold(0.0, f64::max),
            least: self.least.clone(),
        })
    }

    fn drift_ns(&self, sent_ns: i64) -> f64 {
        let known = self.edge.as_ref().zip(self.least.first());
        known.map_or(0.0, |(edge, first)| edge.at_ns(sent_ns) - edge.at_ns(first.sent_ns))
    }

    /// Delay above the edge.
    fn above_ns(&self, arrival: &Arrival) -> i64 {
        let edge_ns = self.edge.as_ref().map_or(0.0, |edge| edge.at_ns(arrival.sent_ns));
        arrival.delay_ns().saturating_sub(edge_ns.round() as i64)
    }

    fn slot(&self, arrival: &Arrival) -> i64 {
        let start_ns = self.least.first().map_or(arrival.sent_ns, |first| first.sent_ns);
        arrival.sent_ns.saturating_sub(start_ns).div_euclid(self.slot_ns)
    }

    fn notice(&mut self, arrival: &Arrival) {
        let slot = self.slot(arrival);
        match self.least.last() {
            // One from an earlier slot came late, and has not the least delay.
            Some(last) if self.slot(last) > slot => return,
            Some(last) if self.slot(last) == slot => {
                let first = self.least.len() == 1;
                if !first && self.above_ns(arrival) < self.above_ns(last) {
                    self.least.pop();
                    self.least.push(*arrival);
                }
                return;
            }
            _ => {}
        }
        // Where packets are rarer than slots, one wider slot may still hold one packet.
        while self.least.len() >= MOST_SLOTS {
            self.widen();
        }
        self.least.push(*arrival);
        if self.is_out_of_date(arrival.sent_ns) {
            self.learn();
        }
    }

    fn is_out_of_date(&self, now_ns: i64) -> bool {
        let lasted_ns = self.least.first().map_or(0, |first| now_ns.saturating_sub(first.sent_ns));
        now_ns.saturating_sub(self.learned_ns) >= LEARN_EVERY_NS.max(lasted_ns / LEARN_EVERY)
    }

    /// Makes one slot of two.
    fn widen(&mut self) {
        self.slot_ns = self.slot_ns.saturating_mul(2);
        let all = std::mem::take(&mut self.least);
        // The first stays: slots and drift count from it.
        self.least.extend(all.first());
        let slot = |arrival: &Arrival| self.slot(arrival);
        let kept: Vec<Arrival> = all[1..]
            .chunk_by(|one, other| slot(one) == slot(other))
            .filter_map(|two| two.iter().min_by_key(|arrival| self.above_ns(arrival)).copied())
            .collect();
        self.least.extend(kept);
    }

    fn learn(&mut self) {
        let Some(last) = self.least.last() else { return };
        self.learned_ns = last.sent_ns;
        let level = |(number, arrival): (usize, &Arrival)| Arrival {
            sequence: number as u64,
            sent_ns: arrival.sent_ns,
            received_ns: arrival.sent_ns.saturating_add(self.above_ns(arrival)),
        };
        let levels: Vec<Arrival> = self.least.iter().enumerate().map(level).collect();
        let search = ShiftSearch { window: STEP_SLOTS, ..ShiftSearch::new(None) };
        let shifts: Vec<LevelShift> = level_shifts(&levels, &search);
        let mut shifted_ns = 0i64;
        let mut shifts = shifts.iter().peekable();
        let points = self.least.iter().enumerate().map(|(number, arrival)| {
            while let Some(shift) = shifts.next_if(|shift| shift.sequence <= number as u64) {
                shifted_ns = shifted_ns.saturating_add(shift.size_ns);
            }
            (arrival.sent_ns, arrival.delay_ns().saturating_sub(shifted_ns))
        });
        self.edge = edge(points.collect());
    }
}
