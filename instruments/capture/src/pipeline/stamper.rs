//! The hot half: one stamp, as cheap as the kind allows.

use super::converter::{LaneOut, Order};
use super::read::ReadUnordered;
use super::{Convert, PipelineKind};
use quaver_abi::stamp::StampClock;
use quaver_clock::{Counter, HardwareCounter, MonotonicCounter, realtime_ns};

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
    pub(super) state: StampState,
    /// Converter that has it; epoch of a converted stamp.
    pub(super) lane: u16,
}
const _: () = assert!(size_of::<RawStamp>() == 16);

/// What became of a stamp in the hot path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum StampState {
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
        matches!(self.state, StampState::Cycles | StampState::HandedOver).then_some(self.value)
    }

    /// A raw stamp of `cycles` that were read elsewhere, for the resolver to convert.
    #[inline(always)]
    pub const fn of_cycles(cycles: u64) -> Self {
        Self { value: cycles, detail: 0, state: StampState::Cycles, lane: 0 }
    }
}

/// One way to stamp. A hot loop is generic over it and compiled for each ([`Stamper::run`]): where packets are
/// milliseconds apart, even to look up which way is chosen costs a miss of the cache, several times the stamp.
pub trait Stamp {
    /// Stamps now.
    fn stamp(&mut self) -> RawStamp;
}

/// A loop that stamps, for [`Stamper::run`].
pub trait StampWith {
    /// What it gives back.
    type Output;
    /// Runs it.
    fn run(self, stamp: &mut impl Stamp) -> Self::Output;
}

/// Asks the kernel's clock.
#[derive(Debug)]
struct ByClock;

impl Stamp for ByClock {
    #[inline(always)]
    fn stamp(&mut self) -> RawStamp {
        RawStamp { value: realtime_ns() as u64, detail: 1, state: StampState::Clock, lane: 0 }
    }
}

/// Reads cycles and keeps them.
#[derive(Debug)]
struct Keep<K>(K);

impl<K: ReadUnordered> Stamp for Keep<K> {
    #[inline(always)]
    fn stamp(&mut self) -> RawStamp {
        RawStamp::of_cycles(self.0.read_unordered())
    }
}

/// Reads cycles and converts them.
#[derive(Debug)]
struct ConvertNow<C> {
    counter: Counter,
    convert: C,
}

impl<C: Convert> ConvertNow<C> {
    #[inline(always)]
    fn stamp_of(&self, cycles: u64) -> RawStamp {
        let stamp = self.convert.layer_stamp(cycles);
        let state =
            if stamp.clock == StampClock::Cycles { StampState::Converted } else { StampState::Fallback };
        RawStamp { value: stamp.time_ns as u64, detail: stamp.bound_ns, state, lane: stamp.epoch }
    }
}

impl<C: Convert> Stamp for ConvertNow<C> {
    #[inline(always)]
    fn stamp(&mut self) -> RawStamp {
        self.stamp_of(self.counter.read_unordered())
    }
}

/// Reads cycles and hands them to converter threads in turn.
#[derive(Debug)]
struct HandOver {
    counter: Counter,
    lanes: Vec<LaneOut>,
    next_lane: usize,
    ring_full: u64,
}

impl HandOver {
    #[inline(always)]
    fn stamp_of(&mut self, cycles: u64) -> RawStamp {
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
        RawStamp { value: cycles, detail: sequence, state: StampState::HandedOver, lane: at as u16 }
    }
}

impl Stamp for HandOver {
    #[inline(always)]
    fn stamp(&mut self) -> RawStamp {
        let cycles = self.counter.read_unordered();
        self.stamp_of(cycles)
    }
}

/// Takes stamps. Belongs to one thread at a time.
#[derive(Debug)]
pub struct Stamper<C>(Way<C>);

#[derive(Debug)]
enum Way<C> {
    Clock(ConvertNow<C>),
    Convert(ConvertNow<C>),
    HandOver(HandOver),
    Cycles,
    CyclesOfClock,
}

impl<C: Convert> Stamper<C> {
    pub(super) fn new(kind: PipelineKind, counter: Counter, convert: C, lanes: Vec<LaneOut>) -> Self {
        Self(match (kind, counter) {
            (PipelineKind::InlineClock, _) => Way::Clock(ConvertNow { counter, convert }),
            (PipelineKind::InlineCycles, _) => Way::Convert(ConvertNow { counter, convert }),
            (PipelineKind::Threaded { .. }, _) => {
                Way::HandOver(HandOver { counter, lanes, next_lane: 0, ring_full: 0 })
            }
            (PipelineKind::Batch, Counter::Hardware) => Way::Cycles,
            (PipelineKind::Batch, Counter::MonotonicClock) => Way::CyclesOfClock,
        })
    }

    /// Stamps now. A loop that stamps many packets goes through [`Self::run`] instead.
    #[inline(always)]
    pub fn stamp(&mut self) -> RawStamp {
        match &mut self.0 {
            Way::Clock(_) => ByClock.stamp(),
            Way::Convert(way) => way.stamp(),
            Way::HandOver(way) => way.stamp(),
            Way::Cycles => Keep(HardwareCounter).stamp(),
            Way::CyclesOfClock => Keep(MonotonicCounter).stamp(),
        }
    }

    /// Runs a loop that was compiled for the way that this stamper stamps.
    #[inline]
    pub fn run<W: StampWith>(&mut self, work: W) -> W::Output {
        match &mut self.0 {
            Way::Clock(_) => work.run(&mut ByClock),
            Way::Convert(way) => work.run(way),
            Way::HandOver(way) => work.run(way),
            Way::Cycles => work.run(&mut Keep(HardwareCounter)),
            Way::CyclesOfClock => work.run(&mut Keep(MonotonicCounter)),
        }
    }

    /// Sends `cycles` that were read elsewhere the way of this kind (tests give all kinds the same).
    #[inline]
    pub fn stamp_of(&mut self, cycles: u64) -> RawStamp {
        match &mut self.0 {
            Way::Clock(way) | Way::Convert(way) => way.stamp_of(cycles),
            Way::HandOver(way) => way.stamp_of(cycles),
            Way::Cycles | Way::CyclesOfClock => RawStamp::of_cycles(cycles),
        }
    }

    /// Stamps that found no room in a ring; the resolver converts these itself.
    pub fn ring_full(&self) -> u64 {
        match &self.0 {
            Way::HandOver(way) => way.ring_full,
            _ => 0,
        }
    }
}
