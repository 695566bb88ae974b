//! Threads go on side by side, as if each had a processor of its own, however few the host has.
//!
//! QEMU runs each thread of the program in a thread of the host. On two processors two of sixteen run at a time, for
//! milliseconds, and draw all work that is there to be drawn: in the trace the others would have none. So nobody gets far ahead
//! of the slowest that runs; who waits in the system is not waited for, and begins again where the slowest is. Who was woken from a
//! futex runs from then on, though the host may take its time: else who wakes many would have done their work before they come.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// `futex` of x86-64, and what it is called for, without flags.
pub(crate) const FUTEX: i64 = 202;
const OPERATION: u64 = 0x7f;
const WAITS: [u64; 2] = [0, 9];
const WAKES: [u64; 3] = [1, 5, 10];

/// What a system call does about a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Futex {
    Waits { address: u64 },
    Wakes { address: u64, most: u64 },
}

impl Futex {
    /// Of the first three arguments of the system call.
    pub(crate) fn of(address: u64, operation: u64, value: u64) -> Option<Self> {
        match operation & OPERATION {
            waits if WAITS.contains(&waits) => Some(Self::Waits { address }),
            wakes if WAKES.contains(&wakes) => {
                Some(Self::Wakes { address, most: value & u64::from(u32::MAX) })
            }
            _ => None,
        }
    }
}

/// What a thread waits for in the system.
#[derive(Debug)]
pub(crate) struct Asleep {
    /// Address of the futex; 0 for none.
    address: AtomicU64,
    /// Since when, counted in waits of all.
    since: AtomicU64,
    woken: AtomicBool,
}

static WAITS_SO_FAR: AtomicU64 = AtomicU64::new(0);

impl Asleep {
    pub(crate) const fn new() -> Self {
        Self { address: AtomicU64::new(0), since: AtomicU64::new(0), woken: AtomicBool::new(false) }
    }

    pub(crate) fn begin(&self, address: u64) {
        self.woken.store(false, Ordering::Relaxed);
        self.since.store(WAITS_SO_FAR.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        self.address.store(address, Ordering::Release);
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Relaxed)
    }

    /// Wakes those that waited longest; `on_wake` gets the place of each.
    pub(crate) fn wake<'a>(
        all: impl Iterator<Item = (usize, &'a Self)>,
        address: u64,
        most: u64,
        on_wake: impl Fn(usize),
    ) {
        let asleep = all.filter(|(_, one)| one.address.load(Ordering::Acquire) == address && !one.is_woken());
        let mut asleep: Vec<(u64, usize, &Self)> =
            asleep.map(|(place, one)| (one.since.load(Ordering::Relaxed), place, one)).collect();
        asleep.sort_unstable_by_key(|(since, place, _)| (*since, *place));
        for (_, place, one) in asleep.into_iter().take(usize::try_from(most).unwrap_or(usize::MAX)) {
            on_wake(place);
            one.woken.store(true, Ordering::Relaxed);
        }
    }

    /// It came back. Where another was thought to have been woken, that one was not.
    pub(crate) fn end<'a>(&self, mut all: impl Iterator<Item = &'a Self>) {
        let address = self.address.swap(0, Ordering::AcqRel);
        if address == 0 || self.woken.swap(false, Ordering::Relaxed) {
            return;
        }
        let other = all.find(|one| one.address.load(Ordering::Acquire) == address && one.is_woken());
        if let Some(other) = other {
            other.woken.store(false, Ordering::Relaxed);
        }
    }
}

/// A thread looks after so many instructions whether it is ahead.
pub(crate) const LOOK: u64 = 500;
/// So many instructions it may be ahead of the slowest.
const AHEAD: u64 = 1_000;
/// Between two looks of one who waits.
const NAP: Duration = Duration::from_micros(20);
/// One that does not come on for so long is not waited for: it is held up in QEMU itself, perhaps by who waits.
const PATIENCE: Duration = Duration::from_millis(20);

/// Waits until a thread that is `own` instructions far is not ahead of the slowest of the others; none: of nobody.
pub(crate) fn keep(own: u64, slowest: impl Fn() -> Option<u64>) {
    let is_ahead = || slowest().filter(|slowest| slowest.saturating_add(AHEAD) < own);
    let Some(mut last) = is_ahead() else { return };
    let mut since = Instant::now();
    while let Some(now) = is_ahead() {
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > PATIENCE {
            return;
        }
        std::thread::sleep(NAP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn who_is_not_ahead_or_alone_does_not_wait() {
        let looks = Cell::new(0);
        for slowest in [None, Some(0), Some(10_000)] {
            keep(AHEAD, || {
                looks.set(looks.get() + 1);
                slowest
            });
        }
        assert_eq!(looks.get(), 3);
    }

    #[test]
    fn who_is_ahead_waits_until_the_slowest_came_near() {
        let slowest = Cell::new(0);
        keep(10_000, || {
            slowest.set(slowest.get() + 500);
            Some(slowest.get())
        });
        assert_eq!(slowest.get(), 10_000 - AHEAD);
    }

    #[test]
    fn who_waited_longest_is_woken_first_and_a_wrong_guess_is_put_right() {
        let all = [Asleep::new(), Asleep::new(), Asleep::new(), Asleep::new()];
        for (place, address) in [(2, 0x10), (0, 0x10), (1, 0x20), (3, 0x10)] {
            all[place].begin(address);
        }
        let woken = || all.iter().map(Asleep::is_woken).collect::<Vec<_>>();
        let wake = |address, most| Asleep::wake(all.iter().enumerate(), address, most, |_| ());
        wake(0x10, 1);
        assert_eq!(woken(), [false, false, true, false]);
        // It was the other one.
        all[0].end(all.iter());
        assert_eq!(woken(), [false, false, false, false]);
        wake(0x10, u64::from(u32::MAX));
        assert_eq!(woken(), [false, false, true, true]);
        all[2].end(all.iter());
        assert_eq!(woken(), [false, false, false, true]);
    }

    #[test]
    fn system_calls_are_read() {
        assert_eq!(Futex::of(0x10, 128, 7), Some(Futex::Waits { address: 0x10 }));
        assert_eq!(Futex::of(0x10, 9 | 128 | 256, 7), Some(Futex::Waits { address: 0x10 }));
        assert_eq!(Futex::of(0x10, 129, u64::MAX), Some(Futex::Wakes { address: 0x10, most: 0xffff_ffff }));
        assert_eq!(Futex::of(0x10, 4, 1), None);
    }

    #[test]
    fn one_that_does_not_come_on_is_not_waited_for_forever() {
        let began = Instant::now();
        keep(u64::MAX, || Some(7));
        assert!(began.elapsed() > PATIENCE);
    }
}
