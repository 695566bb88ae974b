//! Putting raw cycles and CLOCK_REALTIME stamps on the one time line: CLOCK_MONOTONIC nanoseconds.

use quaver_abi::cycles::{CycleScale, SHIFT};
use quaver_abi::record::AnchorRecord;

/// Bit of [`AnchorRecord::flags`]: CLOCK_REALTIME was stepped since the anchor before.
const STEPPED: u16 = 1;
/// Two anchors whose offset between CLOCK_REALTIME and CLOCK_MONOTONIC differs by more lie around a step, even
/// where nobody said so: the kernel slews both clocks together, so nothing else moves the offset.
const STEP_NS: i64 = 100_000;

/// Converts stamps that come nearly in order; the pair of anchors last used is kept, so a conversion costs a
/// multiplication.
#[derive(Clone, Debug)]
pub struct Timeline {
    anchors: Vec<AnchorRecord>,
    /// The pair in use is `anchors[after - 1]` and `anchors[after]`.
    after: usize,
    scale: CycleScale,
    /// First cycle count for which the pair in use is the right one, and the last.
    valid: (u64, u64),
    /// Stretches without a step of CLOCK_REALTIME: first instant (monotonic) and offset realtime - monotonic.
    offsets: Vec<(i64, i64)>,
}

impl Timeline {
    /// From anchors in the order in which they were taken. Anchors that do not advance both clocks are left out;
    /// none where fewer than two remain.
    pub fn new(anchors: &[AnchorRecord]) -> Option<Self> {
        let mut usable: Vec<AnchorRecord> = Vec::with_capacity(anchors.len());
        for anchor in anchors {
            match usable.last() {
                Some(last) if CycleScale::between(last, anchor).is_none_or(|s| s.mult == 0) => {}
                _ => usable.push(*anchor),
            }
        }
        let scale = CycleScale::between(usable.first()?, usable.get(1)?)?;
        let mut timeline =
            Self { offsets: offsets(&usable), anchors: usable, after: 1, scale, valid: (0, 0) };
        timeline.use_pair(1);
        Some(timeline)
    }

    /// CLOCK_MONOTONIC nanoseconds of a cycle count: the same as [`quaver_abi::cycles::monotonic_ns`].
    pub fn monotonic_ns(&mut self, cycles: u64) -> i64 {
        if cycles < self.valid.0 || cycles > self.valid.1 {
            let after = self.anchors.partition_point(|a| a.cycles <= cycles);
            self.use_pair(after.clamp(1, self.anchors.len() - 1));
        }
        let from = &self.anchors[self.after - 1];
        let distance = scaled(self.scale, cycles.abs_diff(from.cycles));
        if cycles >= from.cycles {
            from.monotonic_ns.saturating_add(distance)
        } else {
            from.monotonic_ns.saturating_sub(distance)
        }
    }

    /// CLOCK_MONOTONIC nanoseconds of a CLOCK_REALTIME stamp that was taken shortly before the instant
    /// `before_ns` (monotonic). Where CLOCK_REALTIME was stepped about then, the side of the step that puts the
    /// stamp nearer before that instant is taken.
    pub fn from_realtime_ns(&self, realtime_ns: i64, before_ns: i64) -> i64 {
        let convert = |stretch: &(i64, i64)| realtime_ns.saturating_sub(stretch.1);
        let at =
            self.offsets.partition_point(|(start, _)| *start <= before_ns).clamp(1, self.offsets.len()) - 1;
        let here = convert(&self.offsets[at]);
        // The step lies somewhere between the last anchor of one stretch and the first of the next.
        let next = self.offsets.get(at + 1).filter(|(start, _)| {
            let last = self.anchors.partition_point(|a| a.monotonic_ns < *start);
            last == 0 || self.anchors[last - 1].monotonic_ns <= before_ns
        });
        let Some(there) = next.map(convert) else { return here };
        let distance = |ns: i64| (ns > before_ns, ns.abs_diff(before_ns));
        if distance(there) < distance(here) { there } else { here }
    }

    fn use_pair(&mut self, after: usize) {
        let (from, to) = (&self.anchors[after - 1], &self.anchors[after]);
        // The constructor kept only anchors that advance, so there is a scale.
        self.scale = CycleScale::between(from, to).unwrap_or(self.scale);
        let first = if after == 1 { 0 } else { from.cycles };
        let last = if after == self.anchors.len() - 1 { u64::MAX } else { to.cycles - 1 };
        (self.after, self.valid) = (after, (first, last));
    }
}

/// Nanoseconds in `cycles`, as [`CycleScale::ns`], but held at the largest that fits.
fn scaled(scale: CycleScale, cycles: u64) -> i64 {
    i64::try_from((u128::from(cycles) * u128::from(scale.mult)) >> SHIFT).unwrap_or(i64::MAX)
}

/// The median offset of each stretch without a step.
fn offsets(anchors: &[AnchorRecord]) -> Vec<(i64, i64)> {
    let mut stretches = Vec::new();
    let mut current: Vec<i64> = Vec::new();
    let mut start = anchors[0].monotonic_ns;
    let mut close = |start: i64, current: &mut Vec<i64>| {
        current.sort_unstable();
        stretches.push((start, current[current.len() / 2]));
        current.clear();
    };
    for anchor in anchors {
        let offset = anchor.realtime_ns.saturating_sub(anchor.monotonic_ns);
        let jumped = current.last().is_some_and(|last| last.abs_diff(offset) > STEP_NS.unsigned_abs());
        if !current.is_empty() && (jumped || anchor.flags & STEPPED != 0) {
            close(start, &mut current);
            start = anchor.monotonic_ns;
        }
        current.push(offset);
    }
    close(start, &mut current);
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quaver_abi::cycles::monotonic_ns;

    const EPOCH: i64 = 1_790_000_000_000_000_000;

    fn anchor(cycles: u64, monotonic_ns: i64, step_ns: i64) -> AnchorRecord {
        let realtime_ns = monotonic_ns + EPOCH + step_ns;
        AnchorRecord { cycles, monotonic_ns, realtime_ns, ..AnchorRecord::default() }
    }

    proptest! {
        #[test]
        fn equals_the_shared_arithmetic(
            gaps in proptest::collection::vec((1u64..4_000_000_000, 1i64..2_000_000_000), 1..8),
            cycles in proptest::collection::vec(0u64..40_000_000_000, 1..50),
        ) {
            let (mut c, mut ns) = (5_000_000_000, 7_000_000_000);
            let mut anchors = vec![anchor(c, ns, 0)];
            for (dc, dns) in gaps {
                (c, ns) = (c + dc, ns + dns);
                anchors.push(anchor(c, ns, 0));
            }
            // A scale that rounds to zero is no scale; the shared arithmetic has no such rule.
            prop_assume!(anchors.windows(2).all(|w| CycleScale::between(&w[0], &w[1]).is_some_and(|s| s.mult > 0)));
            let mut timeline = Timeline::new(&anchors).unwrap();
            for cycles in cycles {
                prop_assert_eq!(Some(timeline.monotonic_ns(cycles)), monotonic_ns(&anchors, cycles));
            }
        }

        #[test]
        fn hostile_anchors_do_not_panic(
            raw in proptest::collection::vec((any::<u64>(), any::<i64>(), any::<i64>(), any::<u16>()), 0..12),
            cycles: u64, realtime: i64, before: i64,
        ) {
            let anchors: Vec<_> = raw.into_iter().map(|(cycles, monotonic_ns, realtime_ns, flags)| {
                AnchorRecord { cycles, monotonic_ns, realtime_ns, flags, ..AnchorRecord::default() }
            }).collect();
            if let Some(mut timeline) = Timeline::new(&anchors) {
                timeline.monotonic_ns(cycles);
                timeline.from_realtime_ns(realtime, before);
            }
        }
    }

    #[test]
    fn stamps_around_a_step_of_the_wall_clock() {
        let day = 86_400_000_000_000;
        let mut anchors: Vec<_> = (1..=3).map(|k| anchor(k * 1_000, k as i64 * 1_000_000_000, 0)).collect();
        anchors.extend((4..=6).map(|k| anchor(k * 1_000, k as i64 * 1_000_000_000, -day)));
        let timeline = Timeline::new(&anchors).unwrap();
        for (taken, before, step) in [
            (2_500_000_000, 2_500_040_000, 0),
            (3_200_000_000, 3_200_040_000, 0),
            (3_800_000_000, 3_800_040_000, -day),
            (5_000_000_000, 5_000_000_001, -day),
            (9_000_000_000, 9_000_040_000, -day),
        ] {
            assert_eq!(timeline.from_realtime_ns(taken + EPOCH + step, before), taken);
        }
    }

    #[test]
    fn a_noisy_pairing_does_not_move_every_stamp() {
        let anchors: Vec<_> = [0, 40, -30, 0, 10]
            .iter()
            .zip(1..)
            .map(|(n, k)| anchor(k * 1_000, k as i64 * 1_000_000, *n))
            .collect();
        assert_eq!(
            Timeline::new(&anchors).unwrap().from_realtime_ns(EPOCH + 2_000_000, 2_000_100),
            2_000_000
        );
    }
}
