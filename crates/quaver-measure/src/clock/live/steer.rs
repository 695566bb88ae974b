//! From anchors to the published course.

use super::table::{Piece, SHIFT, Table, flags};
use super::{LiveInstant, LiveOptions, Mark};
use crate::clock::anchor::{ClockSource, take_anchor_from};
use crate::clock::counter::Counter;
use quaver_abi::cycles;
use quaver_abi::record::AnchorRecord;
use std::sync::Mutex;

/// Brackets tried for each anchor.
const ROUNDS: u32 = 16;
/// How much the rate may wander unseen, parts of 2^32: 0.25 ppm, one unit of the kernel's multiplier.
const WANDER: u64 = 1 << 10;
const MARGIN_NS: u64 = 1_000_000;

pub(super) struct Steering {
    first: AnchorRecord,
    cross_ns: u64,
    flags: u32,
    interval_ns: u64,
}

impl Steering {
    pub(super) fn begin(clocks: &mut impl ClockSource, options: &LiveOptions) -> (Self, Piece) {
        let first = take_anchor_from(clocks, ROUNDS);
        let flags = if options.counter == Counter::MonotonicClock { flags::KERNEL_COUNTER } else { 0 };
        let cross =
            options.cross_core.as_ref().map_or(0, |cross| cross.proven_offset_ns().max(cross.backward_ns()));
        let after = clocks.scale().mult << (SHIFT - cycles::SHIFT);
        let piece = Piece {
            from: first.cycles,
            base_ns: first.monotonic_ns,
            after,
            offset_ns: first.realtime_ns - first.monotonic_ns,
            bound_ns: 2 * first.half_bracket_ns as u64 + 1 + cross as u64,
            // 50 ppm.
            drift: after / 20_000,
            flags,
            ..Piece::default()
        };
        let interval_ns = options.interval.as_nanos() as u64;
        (Self { first, cross_ns: cross as u64, flags, interval_ns }, piece)
    }

    pub(super) fn anchor(&mut self, clocks: &mut impl ClockSource, table: &Table, _marks: &Mutex<Vec<Mark>>) {
        let anchor = take_anchor_from(clocks, ROUNDS);
        let Some(scale) = cycles::CycleScale::between(&self.first, &anchor) else { return };
        let after = scale.mult << (SHIFT - cycles::SHIFT);
        let length_ns = (anchor.monotonic_ns - self.first.monotonic_ns) as u128;
        let error_ns = (anchor.half_bracket_ns + self.first.half_bracket_ns) as u128;
        let drift = (u128::from(after) * error_ns / length_ns) as u64
            + ((u128::from(after) * u128::from(WANDER)) >> 32) as u64;
        let target = Piece {
            from: anchor.cycles,
            base_ns: anchor.monotonic_ns,
            after,
            offset_ns: anchor.realtime_ns - anchor.monotonic_ns,
            bound_ns: 2 * anchor.half_bracket_ns as u64 + 2 + self.cross_ns,
            drift,
            flags: self.flags,
            ..Piece::default()
        };
        let knee = scale.cycles(self.interval_ns);
        let margin = scale.cycles(MARGIN_NS);
        table.publish(|| clocks.cycles().0, margin, |old, from| join(old, &target, from, knee));
    }
}

/// `target` from `from` on, slewed to from where `old` stands there.
fn join(old: &Piece, target: &Piece, from: u64, knee: u64) -> Piece {
    let (stands, ought) = (old.at(from).monotonic_ns, target.at(from));
    let behind_ns = i128::from(ought.monotonic_ns - stands);
    let bend = (behind_ns << SHIFT) / i128::from(knee.max(1));
    Piece {
        from,
        base_ns: stands,
        bend: bend.clamp(-i128::from(target.after / 2), i128::from(target.after)) as i64,
        knee,
        bound_ns: ought.bound_ns,
        ..*target
    }
}

/// The kernel's time now, less the age of the reading.
pub(super) fn kernel_instant(clocks: &mut impl ClockSource, cycles: u64, piece: &Piece) -> LiveInstant {
    let anchor = take_anchor_from(clocks, 3);
    let now = Piece { from: anchor.cycles, base_ns: anchor.monotonic_ns, bend: 0, knee: 0, ..*piece };
    let point = Piece { bound_ns: 2 * anchor.half_bracket_ns as u64 + 1, ..now }.at(cycles);
    LiveInstant {
        realtime_ns: point.monotonic_ns.wrapping_add(anchor.realtime_ns - anchor.monotonic_ns),
        monotonic_ns: point.monotonic_ns,
        bound_ns: u32::try_from(point.bound_ns).unwrap_or(u32::MAX),
        epoch: piece.epoch,
        fallback: true,
    }
}
