//! When each packet of a stream is due, exactly.

/// Due times relative to the start of a stream, as exact fractions: equal frames, each with equally spaced slots
/// from its start. A constant bit rate is a frame of one slot.
///
/// Slot `i` is due at `floor(((i / slots) * frame + (i % slots) * spacing) / denominator)` nanoseconds; no error
/// adds up, however long the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    frame: u64,
    spacing: u64,
    slots: u64,
    denominator: u64,
}

/// A schedule that cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The period is zero or below one nanosecond.
    #[error("period of {0}/{1} ns between packets: give at least 1 ns")]
    TooShort(u64, u64),
    /// The numbers do not fit 64 bits.
    #[error("period between packets is too long: give less than 584 years")]
    TooLong,
    /// The slots do not fit into the frame.
    #[error("the packets of a frame need longer than the frame")]
    Crowded,
}

impl Schedule {
    /// A packet each `numerator / denominator` nanoseconds.
    ///
    /// # Errors
    /// When that is shorter than a nanosecond.
    pub fn every(numerator: u64, denominator: u64) -> Result<Self, ScheduleError> {
        if denominator == 0 || numerator < denominator {
            return Err(ScheduleError::TooShort(numerator, denominator));
        }
        let divisor = gcd(numerator, denominator);
        let (frame, denominator) = (numerator / divisor, denominator / divisor);
        Ok(Self { frame, spacing: frame, slots: 1, denominator })
    }

    /// `slots` packets in each frame of `frame` nanoseconds, `spacing` nanoseconds apart from its start, then
    /// silence until the next; both as (numerator, denominator).
    ///
    /// # Errors
    /// When the packets do not fit into the frame, or are closer than a nanosecond.
    pub fn framed(frame: (u64, u64), slots: u64, spacing: (u64, u64)) -> Result<Self, ScheduleError> {
        if frame.1 == 0 || spacing.1 == 0 || slots == 0 || spacing.0 < spacing.1 {
            return Err(ScheduleError::TooShort(spacing.0, spacing.1));
        }
        let wide = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let (frame_wide, spacing_wide) = (wide(frame.0, spacing.1), wide(spacing.0, frame.1));
        if spacing_wide.checked_mul(u128::from(slots)).is_none_or(|needed| needed > frame_wide) {
            return Err(ScheduleError::Crowded);
        }
        let denominator = wide(frame.1, spacing.1);
        let divisor = gcd_wide(gcd_wide(frame_wide, spacing_wide), denominator);
        let narrow = |value: u128| u64::try_from(value / divisor).map_err(|_| ScheduleError::TooLong);
        Ok(Self {
            frame: narrow(frame_wide)?,
            spacing: narrow(spacing_wide)?,
            slots,
            denominator: narrow(denominator)?,
        })
    }

    /// Nanoseconds from the start of the stream to slot `index`, rounded down; saturating.
    #[inline]
    pub fn offset_ns(&self, index: u64) -> i64 {
        let (frame, slot) =
            if self.slots == 1 { (index, 0) } else { (index / self.slots, index % self.slots) };
        let exact = u128::from(frame) * u128::from(self.frame) + u128::from(slot) * u128::from(self.spacing);
        i64::try_from(exact / u128::from(self.denominator)).unwrap_or(i64::MAX)
    }

    /// The first slot due later than `offset_ns` after the start of the stream.
    pub fn first_after(&self, offset_ns: i64) -> u64 {
        let Ok(offset_ns) = u64::try_from(offset_ns) else { return 0 };
        let due = (u128::from(offset_ns) + 1) * u128::from(self.denominator);
        let frame = due / u128::from(self.frame);
        let within = (due % u128::from(self.frame)).div_ceil(u128::from(self.spacing));
        let slot = (frame * u128::from(self.slots)).saturating_add(within.min(u128::from(self.slots)));
        u64::try_from(slot).unwrap_or(u64::MAX)
    }

    /// Mean nanoseconds between packets as an exact (numerator, denominator), in lowest terms.
    pub fn mean_period_ns(&self) -> (u128, u128) {
        let (numerator, denominator) =
            (u128::from(self.frame), u128::from(self.denominator) * u128::from(self.slots));
        let divisor = gcd_wide(numerator, denominator);
        (numerator / divisor, denominator / divisor)
    }

    /// Nanoseconds between neighbouring packets within a frame, rounded.
    pub fn spacing_ns(&self) -> u64 {
        (self.spacing + self.denominator / 2) / self.denominator
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn gcd_wide(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd_wide(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1001/30000 s in 4497 packets, in lowest terms: 1001e9 / (30000 * 4497) ns.
    fn hd_sdi() -> Schedule {
        Schedule::every(1_001_000_000_000, 30_000 * 4_497).unwrap()
    }

    #[test]
    fn a_million_deadlines_are_those_of_the_fraction() {
        let schedule = hd_sdi();
        for index in 0..1_000_000u64 {
            let exact = u128::from(index) * 1_001_000_000_000 / (30_000 * 4_497);
            assert_eq!(schedule.offset_ns(index), exact as i64, "slot {index}");
        }
        assert_eq!(schedule.offset_ns(4_497 * 30_000), 1_001_000_000_000, "30000 frames in 1001 s");
        assert_eq!(schedule.mean_period_ns(), (100_100_000, 13_491));
        assert_eq!(schedule.spacing_ns(), 7_420);
    }

    #[test]
    fn a_gapped_frame_is_silent_at_its_end() {
        // 10 packets 1.5 ns apart in 100/3 ns.
        let schedule = Schedule::framed((100, 3), 10, (3, 2)).unwrap();
        let offsets: Vec<i64> = (0..12).map(|index| schedule.offset_ns(index)).collect();
        assert_eq!(offsets, [0, 1, 3, 4, 6, 7, 9, 10, 12, 13, 33, 34]);
        assert_eq!(schedule.mean_period_ns(), (10, 3));
        assert_eq!(schedule.slots, 10);
    }

    #[test]
    fn the_next_slot_is_the_first_that_is_later() {
        for schedule in [hd_sdi(), Schedule::framed((100_000, 3), 10, (3_000, 2)).unwrap()] {
            for offset in (0..200_000).step_by(37) {
                let next = schedule.first_after(offset);
                assert!(schedule.offset_ns(next) > offset, "slot {next} after {offset}");
                assert!(
                    next == 0 || schedule.offset_ns(next - 1) <= offset,
                    "slot before {next} after {offset}"
                );
            }
            assert_eq!(schedule.first_after(-1), 0);
            assert_eq!(schedule.first_after(0), 1);
        }
    }

    #[test]
    fn impossible_schedules_are_refused() {
        assert_eq!(Schedule::every(0, 1), Err(ScheduleError::TooShort(0, 1)));
        assert_eq!(Schedule::every(5, 0), Err(ScheduleError::TooShort(5, 0)));
        assert_eq!(Schedule::every(5, 6), Err(ScheduleError::TooShort(5, 6)));
        assert_eq!(Schedule::framed((10, 1), 11, (1, 1)), Err(ScheduleError::Crowded));
        assert!(Schedule::framed((u64::MAX, 7), 3, (u64::MAX, u64::MAX - 1)).is_err());
        assert_eq!(Schedule::every(u64::MAX, 1).unwrap().offset_ns(u64::MAX), i64::MAX, "saturates");
    }
}
