//! The other half: from raw stamps to time.

use super::Convert;
use super::converter::{Delivery, LaneBack};
use super::stamper::{RawStamp, StampState};
use quaver_abi::stamp::{LayerStamp, StampClock};
use std::time::Duration;

/// Who converted the stamps that were resolved. Their sum is the count of stamps resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The hot path itself (the inline kinds).
    pub inline: u64,
    /// Converter threads.
    pub by_threads: u64,
    /// The resolver: all of the batch kind; of the threaded kind those that found a ring full or a thread gone.
    pub here: u64,
    /// Deliveries of converter threads whose raw stamps were never given to the resolver; not in the sum.
    pub unclaimed: u64,
}

/// Resolves raw stamps, in the order in which they were taken.
#[derive(Debug)]
pub struct Resolver<C> {
    convert: C,
    lanes: Vec<LaneBack>,
    counts: Resolved,
}

impl<C: Convert> Resolver<C> {
    pub(super) fn new(convert: C, lanes: Vec<LaneBack>) -> Self {
        Self { convert, lanes, counts: Resolved::default() }
    }

    /// The instant of one raw stamp and its bound. Of the threaded kind it waits for the converter thread.
    #[inline]
    pub fn resolve(&mut self, raw: RawStamp) -> LayerStamp {
        let clock = match raw.state {
            StampState::HandedOver => return self.receive(raw),
            StampState::Cycles => {
                self.counts.here += 1;
                return self.convert.layer_stamp(raw.value);
            }
            StampState::Converted => StampClock::Cycles,
            StampState::Clock | StampState::Fallback => StampClock::Realtime,
        };
        self.counts.inline += 1;
        LayerStamp { clock, time_ns: raw.value as i64, bound_ns: raw.detail, epoch: raw.lane }
    }

    /// As [`Self::resolve`], for many; `into` is emptied first.
    pub fn resolve_all(&mut self, raws: &[RawStamp], into: &mut Vec<LayerStamp>) {
        into.clear();
        into.extend(raws.iter().map(|raw| self.resolve(*raw)));
    }

    /// Who converted what was resolved so far.
    pub fn counts(&self) -> Resolved {
        self.counts
    }

    /// Raw cycles that converter threads spent on stamps so far, on other CPUs.
    pub fn converter_cycles(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.busy_cycles.load(std::sync::atomic::Ordering::Relaxed)).sum()
    }

    fn receive(&mut self, raw: RawStamp) -> LayerStamp {
        let lane = self.lanes.get_mut(usize::from(raw.lane));
        match lane.and_then(|lane| take(lane, raw.detail, &mut self.counts.unclaimed)) {
            Some(stamp) => {
                self.counts.by_threads += 1;
                stamp
            }
            None => {
                self.counts.here += 1;
                self.convert.layer_stamp(raw.value)
            }
        }
    }
}

/// Takes the delivery with this number; none if it has been passed over or will never come.
fn take(lane: &mut LaneBack, sequence: u32, unclaimed: &mut u64) -> Option<LayerStamp> {
    let mut looks = 0u32;
    if ahead(lane.expected, sequence) > 0 {
        return None;
    }
    loop {
        // Asked before the ring is looked at: what was delivered before the thread ended is then seen.
        let last_look = lane.from_converter.is_abandoned();
        match lane.from_converter.peek() {
            Ok(&Delivery { sequence: found, stamp }) => {
                let distance = ahead(found, sequence);
                if distance > 0 {
                    return None;
                }
                let _ = lane.from_converter.pop();
                lane.expected = found.wrapping_add(1);
                if distance == 0 {
                    return Some(stamp);
                }
                *unclaimed += 1;
            }
            Err(_) if last_look => return None,
            Err(_) if looks < 300 => {
                looks += 1;
                std::hint::spin_loop();
            }
            Err(_) => std::thread::sleep(Duration::from_micros(50)),
        }
    }
}

/// How far one number lies ahead of another, over their wrap.
fn ahead(number: u32, other: u32) -> i32 {
    number.wrapping_sub(other) as i32
}
