//! Cycles to nanoseconds: a multiply and a shift, as the kernel does it, and interpolation between anchors.

use crate::record::AnchorRecord;

/// `ns = (cycles * mult) >> SHIFT`, exact to below 1 ns over 2^31 ns for counters from 1 MHz to 16 GHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CycleScale {
    /// Nanoseconds per cycle, fixed point with 32 fractional bits.
    pub mult: u64,
}

/// Fractional bits of [`CycleScale::mult`].
pub const SHIFT: u32 = 32;

impl CycleScale {
    /// Scale from two readings; none if they do not advance.
    pub fn between(from: &AnchorRecord, to: &AnchorRecord) -> Option<Self> {
        let cycles = to.cycles.checked_sub(from.cycles).filter(|c| *c > 0)?;
        let ns = u64::try_from(to.monotonic_ns.checked_sub(from.monotonic_ns)?).ok().filter(|n| *n > 0)?;
        let mult = ((u128::from(ns) << SHIFT) + u128::from(cycles / 2)) / u128::from(cycles);
        u64::try_from(mult).ok().map(|mult| Self { mult })
    }

    /// Nanoseconds in `cycles`, rounded down.
    pub fn ns(self, cycles: u64) -> u64 {
        ((u128::from(cycles) * u128::from(self.mult)) >> SHIFT) as u64
    }

    /// Cycles in `ns`, rounded up, so that waiting for them never ends early.
    pub fn cycles(self, ns: u64) -> u64 {
        (u128::from(ns) << SHIFT).div_ceil(u128::from(self.mult)) as u64
    }

    /// Signed distance in nanoseconds from cycle reading `from` to cycle reading `to`.
    pub fn signed_ns(self, from: u64, to: u64) -> i64 {
        if to >= from { self.ns(to - from) as i64 } else { -(self.ns(from - to) as i64) }
    }
}

/// CLOCK_MONOTONIC nanoseconds of a cycle reading, by interpolation between the anchors around it (or from the
/// nearest pair where it lies outside). `anchors` must be in order; none with fewer than two that advance.
pub fn monotonic_ns(anchors: &[AnchorRecord], cycles: u64) -> Option<i64> {
    if anchors.len() < 2 {
        return None;
    }
    let after = anchors.partition_point(|a| a.cycles <= cycles).clamp(1, anchors.len() - 1);
    let (from, to) = (&anchors[after - 1], &anchors[after]);
    let scale = CycleScale::between(from, to)?;
    Some(from.monotonic_ns + scale.signed_ns(from.cycles, cycles))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(cycles: u64, monotonic_ns: i64) -> AnchorRecord {
        AnchorRecord { cycles, monotonic_ns, ..AnchorRecord::default() }
    }

    #[test]
    fn scale_of_a_2_6_ghz_counter() {
        let scale = CycleScale::between(&anchor(1_000, 0), &anchor(2_600_001_000, 1_000_000_000)).unwrap();
        assert_eq!(scale.ns(2_600_000_000), 1_000_000_000 - 1);
        assert_eq!(scale.ns(26), 9, "rounded down from 9.9999…");
        assert!(scale.ns(scale.cycles(7_410)) >= 7_409);
    }

    #[test]
    fn interpolates_between_and_beyond() {
        let anchors = [anchor(1_000, 10_000), anchor(2_000, 11_000), anchor(3_000, 13_000)];
        assert_eq!(monotonic_ns(&anchors, 1_500), Some(10_500));
        assert_eq!(monotonic_ns(&anchors, 2_500), Some(12_000));
        assert_eq!(monotonic_ns(&anchors, 3_500), Some(14_000));
        assert_eq!(monotonic_ns(&anchors, 500), Some(9_500));
    }

    #[test]
    fn refuses_what_does_not_advance() {
        assert_eq!(CycleScale::between(&anchor(5, 5), &anchor(5, 9)), None);
        assert_eq!(CycleScale::between(&anchor(5, 9), &anchor(6, 9)), None);
        assert_eq!(monotonic_ns(&[anchor(1, 1)], 1), None);
    }
}
