//! The pace of a stream, followed packet by packet in bounded memory, so that a late packet is seen a moment after it came.
//!
//! A packet is due where the earliest of those that follow it, each less its number times the period, would put it, as in
//! the analysis of a run (`quaver_analysis`, `pace.rs`): a sender that skips slots moves all that follow, and a packet that
//! is held up moves only itself. Here those that follow are the rest of its stretch and the next one. The period is the
//! median slope between the earliest packets of some stretches.

use std::collections::VecDeque;

/// A stretch lasts so long, and has so many packets at least, ...
const STRETCH_NS: i64 = 125_000_000;
const STRETCH_PACKETS: usize = 4;
/// ... and at most.
const MOST_PACKETS: usize = 1 << 15;
/// Stretches that the period is taken of: two seconds of a fast stream. It is known from half of them on.
const STRETCHES: usize = 16;
/// Slopes are taken between stretches up to so many apart. A sender that skips a slot then spoils fewer than a fifth.
const LAGS: usize = 4;
/// Stretches before one that tell how early its packets can be due.
const RECENT: usize = 4;
/// After a silence of so long the pace is learned anew.
const SILENCE_NS: i64 = 2_000_000_000;

/// A packet by its number, extended over wraps, and its time.
#[derive(Clone, Copy, Debug)]
struct Point {
    number: u64,
    ns: i64,
}

impl Point {
    /// Its time less its number, counted from `origin`, times the period.
    fn residual_ns(self, origin: u64, period_ns: f64) -> i64 {
        self.ns - ((self.number as i64 - origin as i64) as f64 * period_ns) as i64
    }
}

/// A packet whose lateness is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Judged {
    pub(super) at_ns: i64,
    /// At least 0.
    pub(super) lateness_ns: i64,
}

/// The pace so far.
#[derive(Debug, Default)]
pub(super) struct LivePace {
    /// Of each stretch.
    earliest: VecDeque<Point>,
    /// Packets of the stretch before, and of this one.
    before: Vec<Point>,
    here: Vec<Point>,
    last_ns: i64,
}

impl LivePace {
    /// Takes a packet. The answer is those of an earlier stretch, once it is over and the pace is known.
    pub(super) fn take(&mut self, number: u64, ns: i64) -> Vec<Judged> {
        if ns - self.last_ns > SILENCE_NS {
            *self = Self::default();
        }
        self.last_ns = ns;
        self.here.push(Point { number, ns });
        let lasted = ns - self.here[0].ns >= STRETCH_NS && self.here.len() >= STRETCH_PACKETS;
        if lasted || self.here.len() >= MOST_PACKETS { self.end_stretch() } else { Vec::new() }
    }

    fn end_stretch(&mut self) -> Vec<Judged> {
        let origin = self.here[0].number;
        let period_ns = self.period_ns();
        let residual = |point: &Point| point.residual_ns(origin, period_ns.unwrap_or(0.0));
        let least = self.here.iter().copied().min_by_key(residual);
        let known = period_ns.filter(|_| self.earliest.len() >= STRETCHES / 2);
        // A sender that becomes faster comes before its slots: that makes nobody late who came when due before.
        let recent = self.earliest.iter().rev().skip(1).take(RECENT);
        let floor_ns = recent.map(residual).min().unwrap_or(i64::MIN);
        let judged = match (known, least) {
            (Some(_), Some(least)) => {
                let mut earliest_ns = residual(&least);
                let judge = |point: &Point| {
                    earliest_ns = earliest_ns.min(residual(point));
                    let due_ns = earliest_ns.max(floor_ns).min(residual(point));
                    Judged { at_ns: point.ns, lateness_ns: residual(point) - due_ns }
                };
                let mut judged: Vec<Judged> = self.before.iter().rev().map(judge).collect();
                judged.reverse();
                judged
            }
            _ => Vec::new(),
        };
        self.earliest.extend(least);
        if self.earliest.len() > STRETCHES {
            self.earliest.pop_front();
        }
        std::mem::swap(&mut self.before, &mut self.here);
        self.here.clear();
        judged
    }

    /// Median slope between the earliest packets of stretches.
    pub(super) fn period_ns(&self) -> Option<f64> {
        let points = &self.earliest;
        let pairs = (1..=LAGS).flat_map(|lag| points.iter().zip(points.iter().skip(lag)));
        let mut slopes: Vec<f64> = pairs.filter_map(|(from, to)| slope(from, to)).collect();
        slopes.sort_by(f64::total_cmp);
        slopes.get(slopes.len() / 2).copied()
    }
}

/// Time per packet between two; none where the later one has no higher number.
fn slope(from: &Point, to: &Point) -> Option<f64> {
    let packets = to.number.checked_sub(from.number).filter(|packets| *packets > 0)?;
    Some((to.ns - from.ns) as f64 / packets as f64)
}

/// Sequence numbers of `bits` bits, extended over wraps, and the packets that are missing between them.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    highest: Option<u64>,
    /// What comes after a number that was far below the highest, if the sender began anew.
    anew: Option<u64>,
}

/// A packet's place in a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Numbered {
    pub(super) number: u64,
    /// Packets that are missing before it; below 0 for one that had been missing.
    pub(super) missing: i64,
    /// The sender began anew with other numbers.
    pub(super) anew: bool,
}

impl Sequence {
    /// A skip of more packets than this is a new beginning.
    const MOST_LOST: u64 = 10_000;
    /// Two packets in a row that are so far behind are one as well (`MAX_MISORDER` of RFC 3550, A.1).
    const MOST_BEHIND: i64 = 100;

    /// Extends a number, and says what is missing before it.
    pub(super) fn take(&mut self, key: u64, bits: u32) -> Numbered {
        let Some(highest) = self.highest else {
            self.highest = Some(key + (1 << 16));
            return Numbered { number: key + (1 << 16), ..Numbered::default() };
        };
        let step = if bits == 16 {
            i64::from((key as u16).wrapping_sub(highest as u16) as i16)
        } else {
            (key + (1 << 16)).wrapping_sub(highest) as i64
        };
        let number = highest.wrapping_add_signed(step);
        let again = self.anew.take() == Some(number) && step < -Self::MOST_BEHIND;
        if step > 0 {
            self.highest = Some(number);
            let missing = step - 1;
            let anew = missing > Self::MOST_LOST as i64;
            Numbered { number, missing: if anew { 0 } else { missing }, anew }
        } else if again || step < -(Self::MOST_LOST as i64) {
            self.highest = Some(number);
            Numbered { number, missing: 0, anew: true }
        } else {
            if step < -Self::MOST_BEHIND {
                self.anew = Some(number.wrapping_add(1));
            }
            // A duplicate is taken for one that was missing; that can only hide a loss in its own second.
            Numbered { number, missing: if step < 0 { -1 } else { 0 }, anew: false }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lateness of each packet of a stream that was judged: its number, counted from 0, and when it came after its slot.
    fn follow(period_ns: f64, packets: u64, extra_ns: impl Fn(u64) -> i64) -> Vec<(u64, i64)> {
        let mut pace = LivePace::default();
        let at = |number: u64| 1_000_000_000 + (number as f64 * period_ns) as i64 + extra_ns(number);
        let times: std::collections::BTreeMap<i64, u64> =
            (0..packets).map(|number| (at(number), number)).collect();
        let judged = (0..packets).flat_map(|number| pace.take(70_000 + number, at(number)));
        judged.map(|judged| (times[&judged.at_ns], judged.lateness_ns)).collect()
    }

    #[test]
    fn packets_that_are_held_up_are_late_by_what_held_them_up() {
        // 6,000 packets of 1 ms; from 4,000 on they come together, up to 19.5 ms late.
        let held = |number: u64| match number {
            4_000..4_020 => 19_500_000 - (number as i64 - 4_000) * 999_999,
            _ => 0,
        };
        let seen = follow(1e6, 6_000, held);
        assert!(seen[0].0 > 800 && seen.len() > 4_500, "{} from {}", seen.len(), seen[0].0);
        for (number, lateness_ns) in seen {
            let error = lateness_ns - held(number);
            assert!(error.abs() <= 2_000, "packet {number}: {error}");
        }
    }

    #[test]
    fn a_sender_that_skips_slots_makes_no_packet_late() {
        let skipped = |number: u64| (number / 700) as i64 * 5_000_000;
        let seen = follow(1e6, 8_000, skipped);
        assert!(seen.len() > 6_000);
        assert!(
            seen.iter().all(|(_, lateness_ns)| *lateness_ns < 50_000),
            "{:?}",
            seen.iter().map(|seen| seen.1).max()
        );
    }

    #[test]
    fn a_sender_that_becomes_faster_makes_no_packet_late() {
        for share in [0.3, 0.5, 0.8] {
            let earlier = |number: u64| -(number.saturating_sub(4_000) as f64 * 1e6 * (1.0 - share)) as i64;
            let seen = follow(1e6, 12_000, earlier);
            assert!(seen.len() > 6_500, "{share}: {}", seen.len());
            let worst = seen.iter().max_by_key(|seen| seen.1);
            assert!(worst.is_some_and(|worst| worst.1 < 2_000), "{share}: {worst:?}");
        }
    }

    #[test]
    fn a_sender_that_catches_up_is_late() {
        // 300 ms without a packet, then all that were due, one each 20 us.
        let held = |number: u64| match number {
            4_000..4_300 => 300_000_000 - (number as i64 - 4_000) * 980_000,
            _ => 0,
        };
        let seen = follow(1e6, 8_000, |number| held(number).max(0));
        let late = seen.iter().filter(|seen| seen.1 > 100_000).count();
        assert!(late.abs_diff(300) < 10, "{late}");
    }

    #[test]
    fn a_silence_begins_anew_and_memory_is_bounded() {
        let silent = |number: u64| if number >= 3_000 { 3_000_000_000 } else { 0 };
        let seen = follow(1e6, 6_000, silent);
        assert!(
            seen.iter().all(|(number, lateness_ns)| *lateness_ns < 2_000 && !(2_990..3_800).contains(number))
        );
        let mut pace = LivePace::default();
        (0..200_000).for_each(|number| drop(pace.take(number, 1_000_000_000 + number as i64)));
        assert!(pace.here.len() + pace.before.len() <= 2 * MOST_PACKETS);
    }

    proptest! {
        #[test]
        fn any_period_and_small_noise_leaves_packets_in_time(period_us in 8.0f64..5_000.0, noise in 1i64..50, seed: u64) {
            let packets = (5e6 / period_us) as u64 + 200;
            let random = |number: u64| ((number ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as i64 % (noise * 1_000);
            let seen = follow(period_us * 1e3, packets, random);
            let known: Vec<i64> = seen.into_iter().map(|(_, lateness_ns)| lateness_ns).collect();
            prop_assert!(!known.is_empty());
            prop_assert!(known.iter().all(|late| *late < 4 * noise * 1_000 + 2_000), "{:?}", known.iter().max());
        }

        #[test]
        fn numbers_come_back_over_wraps_and_losses_are_counted(start: u16, lost in proptest::collection::vec(0u64..50, 1..300)) {
            let mut sequence = Sequence::default();
            let first = sequence.take(start.into(), 16).number;
            let (mut number, mut missing) = (u64::from(start), 0);
            for skip in &lost {
                number += skip + 1;
                let taken = sequence.take(number & 0xffff, 16);
                prop_assert_eq!((taken.number - first, taken.anew), (number - u64::from(start), false));
                missing += taken.missing;
            }
            prop_assert_eq!(missing as u64, lost.iter().sum::<u64>());
        }
    }

    #[test]
    fn a_packet_out_of_order_is_missing_and_then_not() {
        let mut sequence = Sequence::default();
        let missing: i64 = [5, 6, 8, 7, 9].into_iter().map(|key| sequence.take(key, 64).missing).sum();
        assert_eq!(missing, 0);
        let anew = |sequence: &mut Sequence, key| {
            let taken = sequence.take(key, 64);
            (taken.missing, taken.anew)
        };
        assert_eq!(anew(&mut sequence, 1_000_000), (0, true), "a new beginning");
        assert_eq!(anew(&mut sequence, 3), (0, true), "and back");
        assert_eq!(anew(&mut sequence, 5), (1, false));
        // Late by far is one packet; two in a row are a sender that began anew.
        assert_eq!(anew(&mut sequence, 5_000), (4_994, false));
        assert_eq!(
            [70, 5_001, 71, 5_002].map(|key| anew(&mut sequence, key)),
            [(-1, false), (0, false), (-1, false), (0, false)]
        );
        assert_eq!([70, 71, 72].map(|key| anew(&mut sequence, key)), [(-1, false), (0, true), (0, false)]);
    }
}
