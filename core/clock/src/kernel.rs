//! What the kernel says of its clocks: their correction, leap seconds, TAI, and whether it still counts by the counter.

use super::support::{CounterSupport, current_clocksource};
use std::path::Path;

/// Units of `freq` in `struct timex`: parts per million with 16 fractional bits.
const FREQUENCY_UNIT: i64 = 65_536;
/// What `adjtime()` speeds the clock up or down by until it is done, parts per billion (MAX_TICKADJ of the kernel).
const ADJTIME_PPB: i64 = 500_000;
/// Shift of the kernel's phase-locked loop (SHIFT_PLL): each second it works off 2^-(2 + constant) of the offset.
const PLL_SHIFT: i64 = 2;

/// Where the kernel stands with a leap second (adjtimex(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeapState {
    /// None is due.
    #[default]
    None,
    /// One is inserted at the end of this UTC day: CLOCK_REALTIME will go back by a second (TIME_INS).
    InsertPending,
    /// One is left out at the end of this UTC day (TIME_DEL).
    DeletePending,
    /// Within the inserted second (TIME_OOP).
    Within,
    /// Over; the daemon has not yet cleared it (TIME_WAIT).
    Over,
}

impl LeapState {
    /// From what adjtimex returned and its status bits. A clock that is not synchronised returns TIME_ERROR whatever
    /// the leap state, so the bits tell then.
    fn of(state: i32, status: i32) -> Self {
        match state {
            libc::TIME_INS => Self::InsertPending,
            libc::TIME_DEL => Self::DeletePending,
            libc::TIME_OOP => Self::Within,
            libc::TIME_WAIT => Self::Over,
            _ if status & libc::STA_INS != 0 => Self::InsertPending,
            _ if status & libc::STA_DEL != 0 => Self::DeletePending,
            _ => Self::None,
        }
    }

    /// The word for it in manifests and on the console.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::InsertPending => "insert pending",
            Self::DeletePending => "delete pending",
            Self::Within => "within",
            Self::Over => "over",
        }
    }
}

/// What the kernel knows of TAI. Nothing here guesses: the number of leap seconds is in no kernel unless somebody told it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaiState {
    /// Nobody set the kernel's offset, which is 0 then: its CLOCK_TAI reads the same as CLOCK_REALTIME, hence UTC, and
    /// what TAI is cannot be said on this host. chronyd (`leapsectz`), ntpd (`leapfile`) and phc2sys set it.
    #[default]
    Unset,
    /// The offset that somebody told the kernel.
    Known {
        /// TAI minus UTC, seconds: 37 since 2017.
        offset_s: i32,
    },
}

impl TaiState {
    const fn of(offset_s: i32) -> Self {
        if offset_s == 0 { Self::Unset } else { Self::Known { offset_s } }
    }

    /// The offset, where it is known: seconds.
    pub const fn offset_s(self) -> Option<i32> {
        match self {
            Self::Unset => None,
            Self::Known { offset_s } => Some(offset_s),
        }
    }
}

/// What the kernel says of its clocks at one moment. CLOCK_REALTIME and CLOCK_MONOTONIC are corrected alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelState {
    /// Lasting correction of the rate (`freq` and `tick`), parts per billion.
    pub frequency_ppb: i64,
    /// What is added to it while an offset is worked off (the kernel's loop, or `adjtime()`), parts per billion.
    pub slew_ppb: i64,
    /// How much of that may change before anybody asks again, parts per billion.
    pub slew_end_ppb: i64,
    /// Leap second.
    pub leap: LeapState,
    /// TAI.
    pub tai: TaiState,
    /// Whether the kernel thinks that its clock follows a reference.
    pub synchronised: bool,
    /// What its error is at most, by who corrected it last, and 500 us more for each second since (`maxerror`), nanoseconds.
    pub max_error_ns: i64,
    /// Whether processor and clocksource still allow the hardware counter as a clock.
    pub counter_trusted: bool,
}

impl KernelState {
    /// A state of which only the correction is known.
    pub const fn with_frequency(frequency_ppb: i64) -> Self {
        Self {
            frequency_ppb,
            slew_ppb: 0,
            slew_end_ppb: 0,
            leap: LeapState::None,
            tai: TaiState::Unset,
            synchronised: false,
            max_error_ns: 0,
            counter_trusted: true,
        }
    }

    /// The clock was corrected no longer ago than this, nanoseconds: who corrects it sets `maxerror` to 0 or more.
    pub const fn corrected_within_ns(&self) -> i64 {
        // Half a millisecond each second, and the second that has begun.
        self.max_error_ns.saturating_mul(2_000).saturating_add(1_000_000_000)
    }

    /// Asks the kernel; two system calls and one small file. Where adjtimex is refused (seccomp), the state is that of
    /// a kernel that says nothing.
    pub fn now() -> Self {
        let trusted = CounterSupport::trusts(current_clocksource(Path::new("/")).as_deref());
        let Some((state, timex)) = ask_adjtimex(0) else {
            return Self { counter_trusted: trusted, ..Self::with_frequency(0) };
        };
        let adjtime_us = ask_adjtimex(libc::ADJ_OFFSET_SS_READ).map_or(0, |(_, timex)| timex.offset);
        Self { counter_trusted: trusted, ..Self::read(state, &timex, adjtime_us) }
    }

    fn read(state: i32, timex: &libc::timex, adjtime_us: i64) -> Self {
        let unit = if timex.status & libc::STA_NANO != 0 { 1 } else { 1_000 };
        let pll = timex.status & libc::STA_PLL != 0;
        let shift = (PLL_SHIFT + timex.constant).clamp(0, 62);
        let loop_ppb = if pll { (timex.offset * unit) >> shift } else { 0 };
        let adjtime_ppb = adjtime_us.signum() * ADJTIME_PPB;
        Self {
            frequency_ppb: frequency_ppb(timex),
            slew_ppb: loop_ppb + adjtime_ppb,
            // The loop's part shrinks by itself each second; that of adjtime() ends at once.
            slew_end_ppb: (loop_ppb.abs() >> shift) + adjtime_ppb.abs(),
            leap: LeapState::of(state, timex.status),
            tai: TaiState::of(timex.tai),
            synchronised: state != libc::TIME_ERROR && timex.status & libc::STA_UNSYNC == 0,
            // Microseconds whatever STA_NANO says.
            max_error_ns: timex.maxerror.saturating_mul(1_000),
            counter_trusted: true,
        }
    }

    /// Correction as it is now, parts per billion.
    pub(super) const fn rate_ppb(&self) -> i64 {
        self.frequency_ppb + self.slew_ppb
    }
}

/// What adjtimex returns and fills in; none where it is refused.
fn ask_adjtimex(modes: u32) -> Option<(i32, libc::timex)> {
    // SAFETY: all-zero bytes are a valid timex: it is plain numbers.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    timex.modes = modes;
    // SAFETY: `timex` is valid for reading and writing. The modes used here (0, ADJ_OFFSET_SS_READ) change nothing.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    (state >= 0).then_some((state, timex))
}

/// The kernel's lasting correction, parts per billion; 0 where it refuses to say.
pub(super) fn current_frequency_ppb() -> i64 {
    ask_adjtimex(0).map_or(0, |(_, timex)| frequency_ppb(&timex))
}

/// `tick` is microseconds per tick of USER_HZ (100 Hz).
fn frequency_ppb(timex: &libc::timex) -> i64 {
    let tick_us = if timex.tick == 0 { 10_000 } else { timex.tick };
    timex.freq * 1_000 / FREQUENCY_UNIT + (tick_us - 10_000) * 100_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timex(change: impl FnOnce(&mut libc::timex)) -> libc::timex {
        // SAFETY: all-zero bytes are a valid timex.
        let mut timex: libc::timex = unsafe { std::mem::zeroed() };
        timex.tick = 10_000;
        change(&mut timex);
        timex
    }

    #[test]
    fn corrections_are_read_in_parts_per_billion() {
        let state = KernelState::read(0, &timex(|t| (t.freq, t.tick) = (-12 * 65_536, 10_001)), 0);
        assert_eq!((state.frequency_ppb, state.slew_ppb), (88_000, 0));
        // 1 ms to work off with time constant 6: 1/256 of it in the first second.
        let pll = |nano: i32| {
            timex(|t| {
                (t.status, t.constant) = (libc::STA_PLL | nano, 6);
                t.offset = if nano == 0 { 1_000 } else { 1_000_000 };
            })
        };
        for nano in [0, libc::STA_NANO] {
            let state = KernelState::read(0, &pll(nano), 0);
            assert_eq!((state.slew_ppb, state.slew_end_ppb), (3_906, 15));
        }
        let state = KernelState::read(0, &timex(|_| ()), -250);
        assert_eq!((state.slew_ppb, state.slew_end_ppb, state.rate_ppb()), (-500_000, 500_000, -500_000));
    }

    #[test]
    fn the_greatest_error_says_how_long_ago_the_clock_was_corrected_at_most() {
        let state = KernelState::read(0, &timex(|t| (t.maxerror, t.status) = (17_500, libc::STA_NANO)), 0);
        assert_eq!((state.max_error_ns, state.corrected_within_ns()), (17_500_000, 36_000_000_000));
    }

    #[test]
    fn leap_seconds_are_seen_in_the_state_and_where_that_is_hidden_in_the_status() {
        assert_eq!(LeapState::of(libc::TIME_INS, 0), LeapState::InsertPending);
        assert_eq!(LeapState::of(libc::TIME_DEL, 0), LeapState::DeletePending);
        assert_eq!(LeapState::of(libc::TIME_OOP, libc::STA_INS), LeapState::Within);
        assert_eq!(LeapState::of(libc::TIME_WAIT, libc::STA_INS), LeapState::Over);
        assert_eq!(LeapState::of(libc::TIME_ERROR, libc::STA_INS), LeapState::InsertPending);
        assert_eq!(LeapState::of(libc::TIME_ERROR, libc::STA_UNSYNC), LeapState::None);
    }

    #[test]
    fn tai_is_known_only_where_the_kernel_was_told() {
        assert_eq!((TaiState::of(37).offset_s(), TaiState::of(0).offset_s()), (Some(37), None));
    }

    #[test]
    fn this_kernel_answers_without_privilege() {
        let state = KernelState::now();
        println!("{state:?}");
        assert!(state.frequency_ppb.abs() <= 100_000_000, "{state:?}");
    }
}
