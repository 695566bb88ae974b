//! When somebody last corrected the kernel's clock, and whether that has ceased.
//!
//! The kernel adds 500 us to its `maxerror` each second, and who corrects the clock sets it anew (adjtimex(2)). Until it reaches
//! 16 s, 8.9 hours after the last correction, the kernel calls its clock synchronised.

use crate::kernel::KernelState;

/// What the kernel adds to `maxerror` each second.
const GROWTH_NS: i64 = 500_000;
/// Without growth for so long, `maxerror` was set in between: two of its seconds and an anchor's delay.
const STILL_NS: i64 = 2_500_000_000;
/// So many corrections make a habit.
const HABIT: u32 = 4;
/// A habit has ceased after so many of its longest gaps, and a time more.
const GAPS: i64 = 4;
const PATIENCE_NS: i64 = 5_000_000_000;

/// Corrections of the kernel's clock, as far as readings of its state show them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Corrections {
    last: KernelState,
    read_ns: i64,
    /// When `maxerror` last changed.
    moved_ns: i64,
    /// When the clock was last corrected, and how often it was.
    corrected_ns: i64,
    count: u32,
    longest_gap_ns: i64,
    told: bool,
}

impl Corrections {
    /// From a first reading at `now_ns`, CLOCK_MONOTONIC.
    pub(super) const fn begin(state: KernelState, now_ns: i64) -> Self {
        Self {
            last: state,
            read_ns: now_ns,
            moved_ns: now_ns,
            corrected_ns: now_ns,
            count: 0,
            longest_gap_ns: 0,
            told: false,
        }
    }

    /// Takes another reading. Once corrections have ceased, returned is since when, nanoseconds.
    pub(super) fn read(&mut self, state: KernelState, now_ns: i64) -> Option<i64> {
        let grown_ns = state.max_error_ns - self.last.max_error_ns;
        // The kernel's seconds may begin between the clock's reading and that of the state.
        let seconds = (now_ns - self.read_ns).max(0) / 1_000_000_000 + 2;
        let by_itself = grown_ns >= 0 && grown_ns % GROWTH_NS == 0 && grown_ns / GROWTH_NS <= seconds;
        let still = grown_ns == 0 && now_ns - self.moved_ns >= STILL_NS;
        let corrected =
            !by_itself || still || state.frequency_ppb != self.last.frequency_ppb || !state.synchronised;
        if corrected || grown_ns != 0 {
            self.moved_ns = now_ns;
        }
        (self.last, self.read_ns) = (state, now_ns);
        let silent_ns = now_ns - self.corrected_ns;
        if corrected {
            // The first one only begins the first gap.
            if self.count > 0 {
                self.longest_gap_ns = self.longest_gap_ns.max(silent_ns);
            }
            (self.corrected_ns, self.told) = (now_ns, false);
            // A clock that follows nothing has no habit.
            self.count = if state.synchronised { self.count + 1 } else { 0 };
            return None;
        }
        let ceased = self.count >= HABIT && silent_ns > GAPS * self.longest_gap_ns + PATIENCE_NS;
        (ceased && !std::mem::replace(&mut self.told, true)).then_some(silent_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    /// The kernel's state at `now_ns` where somebody corrects its clock at the times `corrected_ns`, and sets `maxerror` to
    /// `set_ns` then.
    fn state(now_ns: i64, corrected_ns: &[i64], set_ns: i64) -> KernelState {
        let last_ns = corrected_ns.iter().copied().filter(|at| *at <= now_ns).max().unwrap_or(0);
        let max_error_ns = set_ns + (now_ns / S - last_ns / S) * GROWTH_NS;
        KernelState { synchronised: true, max_error_ns, ..KernelState::with_frequency(7) }
    }

    /// When it was said that corrections had ceased, and since when.
    fn said(corrected_ns: &[i64], set_ns: i64, until_ns: i64, each_ns: i64) -> Vec<(i64, i64)> {
        let mut corrections = Corrections::begin(state(0, corrected_ns, set_ns), 0);
        let reads = (1..).map(|n| n * each_ns).take_while(|now_ns| *now_ns <= until_ns);
        reads
            .filter_map(|now_ns| {
                Some((now_ns, corrections.read(state(now_ns, corrected_ns, set_ns), now_ns)?))
            })
            .collect()
    }

    #[test]
    fn corrections_that_cease_are_said_once_and_again_when_they_cease_again() {
        for phase_ns in [1_000_000, 990_000_000] {
            let each_second = |seconds: std::ops::Range<i64>| seconds.map(move |n| n * S + phase_ns);
            let once: Vec<i64> = each_second(0..20).collect();
            let found = said(&once, 0, 100 * S, S / 10);
            assert_eq!(found.len(), 1, "{found:?}");
            let (at_ns, silent_ns) = found[0];
            assert!((24 * S..45 * S).contains(&at_ns) && at_ns - silent_ns <= 22 * S, "{found:?}");
            let twice: Vec<i64> = each_second(0..20).chain(each_second(100..120)).collect();
            // The gap in between is a habit of 80 s.
            assert_eq!(said(&twice, 0, 440 * S, S / 10).len(), 1);
            assert_eq!(said(&twice, 0, 600 * S, S / 10).len(), 2);
        }
    }

    #[test]
    fn who_corrects_is_not_taken_to_have_ceased() {
        // phc2sys each second, chronyd each 64 s and then each 128 s, which vouches for 18 ms; and nobody at all.
        let seconds: Vec<i64> = (0..600).map(|n| n * S + 1_000_000).collect();
        assert_eq!(said(&seconds, 0, 600 * S, S / 10), []);
        let polls: Vec<i64> = (1..6).map(|n| n * 64 * S).chain((1..6).map(|n| (320 + n * 128) * S)).collect();
        assert_eq!(said(&polls, 18_000_123, 960 * S, S / 10), []);
        assert_eq!(said(&[], 3_000_000, 3_600 * S, S / 10), []);
        // A reader that is held up sees seconds go by at once.
        assert_eq!(said(&[], 0, 3_600 * S, 7 * S), []);
    }

    #[test]
    fn a_frequency_that_is_set_is_a_correction_though_the_error_grows_as_before() {
        let mut corrections = Corrections::begin(state(0, &[], 0), 0);
        let mut read = |n: i64, frequency_ppb| {
            corrections.read(KernelState { frequency_ppb, ..state(n * S, &[], 0) }, n * S)
        };
        assert!((1..=20).all(|n| read(n, n).is_none()));
        let found: Vec<i64> = (21..60).filter_map(|n| read(n, 20)).collect();
        assert_eq!(found, [10 * S]);
    }
}
