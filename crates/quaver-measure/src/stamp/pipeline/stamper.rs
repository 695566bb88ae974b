//! The hot half: one stamp, as cheap as the kind allows.

use super::converter::{LaneOut, Order};
use super::read::cycles_unordered;
use super::{Convert, PipelineKind};
use crate::clock::{Counter, CycleCounter, MonotonicCounter, realtime_ns};
use quaver_abi::stamp::StampClock;

/// What a stamp read, to be given to the [`super::Resolver`] of the same pipeline.
///
/// ```text
/// offset 0         8        12      14     16
///        | value   | detail | state | lane |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RawStamp {
    /// Cycles, or CLOCK_REALTIME nanoseconds where `state` says that it is converted.
    pub(super) value: u64,
    /// Bound in nanoseconds of a converted stamp; sequence number of one that was handed over.
    pub(super) detail: u32,
    pub(super) state: State,
    /// Converter that has it.
    pub(super) lane: u16,
}
const _: () = assert!(size_of::<RawStamp>() == 16);

/// What became of a stamp in the hot path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum State {
    /// Cycles that the resolver converts.
    Cycles,
    /// Cycles that a converter thread has.
    HandedOver,
    /// Nanoseconds that the kernel's clock said.
    Clock,
    /// Nanoseconds that the hot path computed from cycles.
    Converted,
    /// As `Converted`, but the converter had to fall back to the kernel's clock.
    Fallback,
}

impl RawStamp {
    /// The cycles that it read, where it did and keeps them (not for the inline kinds).
    pub fn cycles(&self) -> Option<u64> {
        matches!(self.state, State::Cycles | State::HandedOver).then_some(self.value)
    }

    /// A raw stamp of `cycles` that were read elsewhere, for the resolver to convert.
    pub const fn of_cycles(cycles: u64) -> Self {
        Self { value: cycles, detail: 0, state: State::Cycles, lane: 0 }
    }
}

/// Takes stamps. Belongs to one thread at a time.
#[derive(Debug)]
pub struct Stamper<C> {
    kind: PipelineKind,
    counter: Counter,
    convert: C,
    lanes: Vec<LaneOut>,
    next_lane: usize,
    ring_full: u64,
}

impl<C: Convert> Stamper<C> {
    pub(super) fn new(kind: PipelineKind, counter: Counter, convert: C, lanes: Vec<LaneOut>) -> Self {
        Self { kind, counter, convert, lanes, next_lane: 0, ring_full: 0 }
    }

    /// Stamps now.
    #[inline(always)]
    pub fn stamp(&mut self) -> RawStamp {
        match self.kind {
            PipelineKind::InlineClock => {
                RawStamp { value: realtime_ns() as u64, detail: 1, state: State::Clock, lane: 0 }
            }
            _ => {
                let cycles = match self.counter {
                    Counter::Hardware => cycles_unordered(),
                    Counter::MonotonicClock => MonotonicCounter.read(),
                };
                self.stamp_of(cycles)
            }
        }
    }

    /// Sends `cycles` that were read elsewhere the way of this kind (tests give all kinds the same).
    #[inline(always)]
    pub fn stamp_of(&mut self, cycles: u64) -> RawStamp {
        match self.kind {
            PipelineKind::Batch => RawStamp::of_cycles(cycles),
            PipelineKind::InlineClock | PipelineKind::InlineCycles => self.convert_now(cycles),
            PipelineKind::Threaded { .. } => self.hand_over(cycles),
        }
    }

    /// Stamps that found no room in a ring; the resolver converts these itself.
    pub fn ring_full(&self) -> u64 {
        self.ring_full
    }

    /// Its kind.
    pub fn kind(&self) -> PipelineKind {
        self.kind
    }

    #[inline]
    fn convert_now(&self, cycles: u64) -> RawStamp {
        let stamp = self.convert.layer_stamp(cycles);
        let state = if stamp.clock == StampClock::Cycles { State::Converted } else { State::Fallback };
        RawStamp { value: stamp.time_ns as u64, detail: stamp.bound_ns, state, lane: 0 }
    }

    #[inline]
    fn hand_over(&mut self, cycles: u64) -> RawStamp {
        let at = self.next_lane;
        let lane = &mut self.lanes[at];
        let sequence = lane.sequence;
        if lane.to_converter.push(Order { cycles, sequence }).is_err() {
            // Same lane next time: the order of a lane is that of its sequence numbers either way.
            self.ring_full += 1;
            return RawStamp::of_cycles(cycles);
        }
        lane.sequence = sequence.wrapping_add(1);
        self.next_lane = if at + 1 == self.lanes.len() { 0 } else { at + 1 };
        RawStamp { value: cycles, detail: sequence, state: State::HandedOver, lane: at as u16 }
    }
}
