//! From anchors to time: CLOCK_MONOTONIC nanoseconds of recorded cycles and of kernel stamps, with bounds.

use super::anchor::STEP_MIN_NS;
use quaver_abi::cycles::CycleScale;
use quaver_abi::record::AnchorRecord;

/// An instant and how wrong it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub monotonic_ns: i64,
    /// The true instant lies no farther off, nanoseconds.
    pub bound_ns: i64,
}

/// No time base can be made of these anchors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimebaseError {
    /// Fewer than two.
    #[error(
        "conversion of cycles needs two clock anchors, found {found}; the run ended before the second was taken"
    )]
    TooFew {
        /// How many.
        found: usize,
    },
    /// Cycles or CLOCK_MONOTONIC do not advance.
    #[error(
        "clock anchor {at} does not advance on the one before it: the cycle counter is unusable as a clock (suspend, \
         migration of the virtual machine, unstable TSC); run `quaver doctor`"
    )]
    NotAdvancing {
        /// Index of the later anchor.
        at: usize,
    },
}

/// The line between two anchors.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: AnchorRecord,
    scale: CycleScale,
    cycles: u64,
    /// Bound inside the piece.
    bound_ns: i64,
    /// Error of the rate, for instants outside all pieces: nanoseconds a nanosecond.
    rate_error: f64,
    /// Change of CLOCK_REALTIME against CLOCK_MONOTONIC within the piece, where it is a step.
    step_ns: i64,
}

/// Converts what a run recorded. Built once after the measured part; conversions cost some nanoseconds.
#[derive(Clone, Debug)]
pub struct Timebase {
    pieces: Vec<Piece>,
    last: AnchorRecord,
}

impl Timebase {
    /// Time base from anchors in the order in which they were taken.
    ///
    /// Between two anchors the conversion is linear. Its bound is the larger half-bracket of the two, and what
    /// a change of rate within or around the piece may add: a kink of the rate by d in a piece of length T
    /// moves the truth off the line by at most d·T/4, and both neighbours together show at least d.
    ///
    /// # Errors
    /// With fewer than two anchors, or where they do not advance.
    pub fn from_anchors(anchors: &[AnchorRecord]) -> Result<Self, TimebaseError> {
        let [.., last] = anchors else { return Err(TimebaseError::TooFew { found: 0 }) };
        if anchors.len() < 2 {
            return Err(TimebaseError::TooFew { found: 1 });
        }
        let rates = anchors
            .windows(2)
            .enumerate()
            .map(|(at, pair)| {
                CycleScale::between(&pair[0], &pair[1]).ok_or(TimebaseError::NotAdvancing { at: at + 1 })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let pieces = anchors
            .windows(2)
            .enumerate()
            .map(|(at, pair)| {
                let before = at.checked_sub(1).map(|at| rates[at]);
                piece(&pair[0], &pair[1], rates[at], before, rates.get(at + 1).copied())
            })
            .collect();
        Ok(Self { pieces, last: *last })
    }

    /// CLOCK_MONOTONIC of a cycle reading. Outside the anchors the nearest piece is prolonged, and its rate's
    /// error grows with the distance.
    #[inline]
    pub fn monotonic_ns(&self, cycles: u64) -> Converted {
        let piece = self.piece_of(|piece| piece.from.cycles <= cycles);
        let monotonic_ns = piece.from.monotonic_ns + piece.scale.signed_ns(piece.from.cycles, cycles);
        let beyond = match cycles.checked_sub(piece.from.cycles) {
            None => piece.from.cycles - cycles,
            Some(inside) => inside.saturating_sub(piece.cycles),
        };
        let extra = if beyond == 0 { 0.0 } else { piece.scale.ns(beyond) as f64 * piece.rate_error };
        Converted { monotonic_ns, bound_ns: piece.bound_ns + extra.ceil() as i64 }
    }

    /// CLOCK_MONOTONIC of a CLOCK_REALTIME stamp, such as the kernel's on a received packet.
    ///
    /// A realtime stamp alone is ambiguous where that clock was stepped, so `near_ns`, an instant known to lie
    /// close after it (the application's stamp of the same packet), picks the piece. In a piece that holds a
    /// step, the reading that lies closest before `near_ns` counts, and the bound is the step.
    #[inline]
    pub fn realtime_to_monotonic(&self, realtime_ns: i64, near_ns: i64) -> Converted {
        let piece = self.piece_of(|piece| piece.from.monotonic_ns <= near_ns);
        let before_step_ns = realtime_ns - (piece.from.realtime_ns - piece.from.monotonic_ns);
        if piece.step_ns == 0 {
            return Converted { monotonic_ns: before_step_ns, bound_ns: piece.bound_ns };
        }
        let after_step_ns = before_step_ns - piece.step_ns;
        let distance = |ns: i64| (near_ns - ns < 0, (near_ns - ns).abs());
        let monotonic_ns =
            if distance(after_step_ns) < distance(before_step_ns) { after_step_ns } else { before_step_ns };
        Converted { monotonic_ns, bound_ns: piece.step_ns.abs() }
    }

    /// Largest bound of any instant between the first and the last anchor, nanoseconds.
    pub fn worst_bound_ns(&self) -> i64 {
        self.pieces.iter().map(|piece| piece.bound_ns).max().expect("a time base has a piece")
    }

    /// CLOCK_REALTIME minus CLOCK_MONOTONIC at the first anchor, nanoseconds.
    pub fn realtime_minus_monotonic_ns(&self) -> i64 {
        self.pieces[0].from.realtime_ns - self.pieces[0].from.monotonic_ns
    }

    /// Steps of CLOCK_REALTIME seen: the instant (CLOCK_MONOTONIC) of the anchor before each, and its size.
    pub fn realtime_steps(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.pieces.iter().filter(|p| p.step_ns != 0).map(|p| (p.from.monotonic_ns, p.step_ns))
    }

    /// First and last instant that anchors enclose, CLOCK_MONOTONIC nanoseconds.
    pub fn span_ns(&self) -> (i64, i64) {
        (self.pieces[0].from.monotonic_ns, self.last.monotonic_ns)
    }

    /// Mean rate of the counter over all anchors, Hz.
    pub fn counter_hz(&self) -> f64 {
        let first = &self.pieces[0].from;
        (self.last.cycles - first.cycles) as f64 * 1e9 / (self.last.monotonic_ns - first.monotonic_ns) as f64
    }

    #[inline]
    fn piece_of(&self, begins_before: impl Fn(&Piece) -> bool) -> &Piece {
        &self.pieces[self.pieces.partition_point(begins_before).saturating_sub(1)]
    }
}

fn piece(
    from: &AnchorRecord,
    to: &AnchorRecord,
    scale: CycleScale,
    before: Option<CycleScale>,
    after: Option<CycleScale>,
) -> Piece {
    let length_ns = (to.monotonic_ns - from.monotonic_ns) as f64;
    let bracket_ns = from.half_bracket_ns.max(to.half_bracket_ns);
    let change = |other: Option<CycleScale>| {
        other.map(|other| (other.mult as f64 - scale.mult as f64).abs() / scale.mult as f64)
    };
    // At either end one neighbour is missing, and the other one stands for it.
    let kink = match (change(before), change(after)) {
        (Some(before), Some(after)) => before + after,
        (Some(one), None) | (None, Some(one)) => 2.0 * one,
        (None, None) => 0.0,
    };
    let offset_change_ns = (to.realtime_ns - to.monotonic_ns) - (from.realtime_ns - from.monotonic_ns);
    Piece {
        from: *from,
        scale,
        cycles: to.cycles - from.cycles,
        // One nanosecond for the rounding of the conversion itself.
        bound_ns: bracket_ns + (kink * length_ns / 4.0).ceil() as i64 + 1,
        rate_error: kink + 2.0 * bracket_ns as f64 / length_ns,
        step_ns: if offset_change_ns.abs() >= STEP_MIN_NS { offset_change_ns } else { 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::{AnchorKeeper, ClockSource, FLAG_STEPPED};
    use crate::{Counter, CounterSupport, CycleCounter, monotonic_ns, realtime_ns};
    use std::cell::Cell;
    use std::path::Path;
    use std::rc::Rc;
    use std::time::Duration;

    /// Clocks that go as told: 3 cycles a nanosecond, each reading takes 10 ns.
    #[derive(Clone, Default)]
    struct FakeClocks {
        /// True time, in units of 1 ns.
        now: Rc<Cell<i64>>,
        /// From then on CLOCK_MONOTONIC runs this much faster, parts per million.
        faster: Rc<Cell<(i64, i64)>>,
        /// CLOCK_REALTIME minus CLOCK_MONOTONIC.
        offset_ns: Rc<Cell<i64>>,
    }

    impl FakeClocks {
        fn tick(&self) -> i64 {
            self.now.set(self.now.get() + 10);
            self.now.get()
        }

        fn monotonic_at(&self, now: i64) -> i64 {
            let (since, ppm) = self.faster.get();
            now + (now - since).max(0) * ppm / 1_000_000
        }
    }

    impl ClockSource for FakeClocks {
        fn cycles(&mut self) -> (u64, u16) {
            (3 * self.tick() as u64, 1)
        }
        fn monotonic_ns(&mut self) -> i64 {
            let now = self.tick();
            self.monotonic_at(now)
        }
        fn realtime_ns(&mut self) -> i64 {
            let now = self.tick();
            self.monotonic_at(now) + self.offset_ns.get()
        }
        fn monotonic_raw_ns(&mut self) -> i64 {
            self.tick()
        }
        fn frequency_ppb(&mut self) -> i64 {
            42
        }
        fn scale(&self) -> CycleScale {
            CycleScale { mult: (1 << 32) / 3 + 1 }
        }
    }

    const OFFSET_NS: i64 = 1_700_000_000_000_000_000;

    /// Anchors each 100 ms for `seconds`, with `change` called at each true instant before an anchor.
    fn record(seconds: i64, change: impl Fn(&FakeClocks, i64)) -> (FakeClocks, Vec<AnchorRecord>) {
        let clocks = FakeClocks::default();
        clocks.now.set(5_000_000_000);
        clocks.offset_ns.set(OFFSET_NS);
        let mut keeper = AnchorKeeper::with_clocks(clocks.clone(), Duration::from_millis(100));
        let begin = clocks.now.get();
        for tick in 1..=seconds * 100 {
            let at = begin + tick * 10_000_000;
            change(&clocks, tick * 10);
            clocks.now.set(at.max(clocks.now.get()));
            keeper.tick();
        }
        (clocks.clone(), keeper.finish())
    }

    #[test]
    fn anchors_come_when_due_and_pair_the_clocks_within_their_bracket() {
        let (_, anchors) = record(2, |_, _| ());
        assert!((20..=22).contains(&anchors.len()), "{}", anchors.len());
        for anchor in &anchors {
            assert!((anchor.cycles as i64 / 3 - anchor.monotonic_ns).abs() <= anchor.half_bracket_ns);
            assert_eq!((anchor.half_bracket_ns, anchor.frequency_ppb, anchor.cpu), (10 + 1, 42, 1));
            assert!((anchor.realtime_ns - anchor.monotonic_ns - OFFSET_NS).abs() <= 10);
            assert_eq!(anchor.flags, 0);
        }
    }

    #[test]
    fn constant_rate_has_the_bracket_for_its_bound() {
        let (clocks, anchors) = record(2, |_, _| ());
        let timebase = Timebase::from_anchors(&anchors).unwrap();
        assert!(timebase.worst_bound_ns() <= 14, "{}", timebase.worst_bound_ns());
        assert!((timebase.counter_hz() - 3e9).abs() < 1_000.0);
        let (first, last) = timebase.span_ns();
        for now in (first..last).step_by(999_983) {
            let converted = timebase.monotonic_ns(3 * now as u64);
            assert!((converted.monotonic_ns - clocks.monotonic_at(now)).abs() <= converted.bound_ns);
        }
    }

    #[test]
    fn change_of_frequency_stays_within_the_bound() {
        // 400 ppm faster from 1.03 s on, inside a piece: the line is wrong by up to 10 us there.
        let (clocks, anchors) = record(2, |clocks, ms| {
            if ms == 1_030 {
                clocks.faster.set((clocks.now.get(), 400));
            }
        });
        let timebase = Timebase::from_anchors(&anchors).unwrap();
        let (first, _) = timebase.span_ns();
        let mut worst_ns = 0;
        for now in (first..first + 1_950_000_000).step_by(999_983) {
            let converted = timebase.monotonic_ns(3 * now as u64);
            let error_ns = (converted.monotonic_ns - clocks.monotonic_at(now)).abs();
            worst_ns = worst_ns.max(error_ns);
            assert!(error_ns <= converted.bound_ns, "{now}: {error_ns} > {}", converted.bound_ns);
        }
        assert!((5_000..12_000).contains(&worst_ns), "{worst_ns}");
        assert!(timebase.worst_bound_ns() < 12_000);
        assert!(timebase.monotonic_ns(3 * (first + 300_000_000) as u64).bound_ns < 20, "far from the change");
    }

    #[test]
    fn step_of_realtime_is_flagged_and_does_not_move_monotonic() {
        const STEP_NS: i64 = -250_000_000;
        let (clocks, anchors) = record(2, |clocks, ms| {
            if ms == 1_050 {
                clocks.offset_ns.set(OFFSET_NS + STEP_NS);
            }
        });
        assert_eq!(anchors.iter().filter(|a| a.flags & FLAG_STEPPED != 0).count(), 1);
        let timebase = Timebase::from_anchors(&anchors).unwrap();
        let steps: Vec<_> = timebase.realtime_steps().collect();
        assert!(steps.len() == 1 && (steps[0].1 - STEP_NS).abs() < 30, "{steps:?}");
        let (first, last) = timebase.span_ns();
        let stepped_at = first + 1_050_000_000;
        for now in (first + 1_000..last).step_by(10_000_019) {
            let offset_ns = if now < stepped_at { OFFSET_NS } else { OFFSET_NS + STEP_NS };
            let true_ns = clocks.monotonic_at(now);
            let converted = timebase.realtime_to_monotonic(true_ns + offset_ns, true_ns + 5_000);
            let near_step = (now - stepped_at).abs() < 150_000_000;
            let error_ns = (converted.monotonic_ns - true_ns).abs();
            assert!(error_ns <= 30, "{now}: {error_ns}");
            assert!(near_step || converted.bound_ns < 30);
        }
    }

    #[test]
    fn refuses_anchors_that_do_not_make_a_line() {
        let anchor = |cycles, monotonic_ns| AnchorRecord { cycles, monotonic_ns, ..AnchorRecord::default() };
        assert_eq!(Timebase::from_anchors(&[]).unwrap_err(), TimebaseError::TooFew { found: 0 });
        assert_eq!(Timebase::from_anchors(&[anchor(1, 1)]).unwrap_err(), TimebaseError::TooFew { found: 1 });
        let error = Timebase::from_anchors(&[anchor(1, 1), anchor(9, 9), anchor(5, 12)]).unwrap_err();
        assert_eq!(error, TimebaseError::NotAdvancing { at: 2 });
    }

    #[test]
    fn outside_the_anchors_the_bound_grows() {
        let (clocks, anchors) = record(1, |_, _| ());
        let timebase = Timebase::from_anchors(&anchors).unwrap();
        let (first, last) = timebase.span_ns();
        for far in [first - 1_000_000_000, last + 1_000_000_000] {
            let converted = timebase.monotonic_ns(3 * far as u64);
            assert!((converted.monotonic_ns - clocks.monotonic_at(far)).abs() <= converted.bound_ns);
            assert!(converted.bound_ns > timebase.worst_bound_ns());
        }
    }

    /// The real clocks: each sample is a cycle reading between two of CLOCK_MONOTONIC, so the converted value
    /// must lie between these, widened by the bound.
    fn conversions_hold(counter: Counter) {
        let mut keeper = AnchorKeeper::start(counter);
        let mut samples = Vec::new();
        let end = monotonic_ns() + 2_200_000_000;
        while monotonic_ns() < end {
            keeper.tick();
            for _ in 0..50 {
                let before = monotonic_ns();
                let cycles = counter.read();
                let after = monotonic_ns();
                samples.push((before, cycles, after, realtime_ns()));
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        let timebase = Timebase::from_anchors(&keeper.finish()).unwrap();
        assert!(samples.len() > 1_000);
        let held = samples.iter().filter(|(before, cycles, after, _)| {
            let converted = timebase.monotonic_ns(*cycles);
            converted.monotonic_ns >= before - converted.bound_ns
                && converted.monotonic_ns <= after + converted.bound_ns
        });
        let held = held.count();
        println!("{counter:?}: {held} of {} within {} ns", samples.len(), timebase.worst_bound_ns());
        assert!(held as f64 >= 0.999 * samples.len() as f64, "{held} of {}", samples.len());
        if timebase.realtime_steps().next().is_none() {
            let ordered = samples.iter().all(|(_, _, after, realtime)| {
                let converted = timebase.realtime_to_monotonic(*realtime, after + 1_000);
                converted.monotonic_ns >= after - converted.bound_ns
            });
            assert!(ordered, "a realtime stamp taken later was converted to before");
        }
    }

    #[test]
    fn conversions_hold_against_the_kernels_clock() {
        let support = CounterSupport::detect(Path::new("/"));
        println!("{support:?}");
        conversions_hold(support.counter);
    }

    #[test]
    fn conversions_hold_with_the_fallback() {
        conversions_hold(Counter::MonotonicClock);
    }
}
