//! An interface's own clock (PHC): tied to CLOCK_REALTIME by the kernel's ioctls, with the same bound as cycles have.
//!
//! The kernel reads CLOCK_REALTIME, the PHC, and CLOCK_REALTIME again (PTP_SYS_OFFSET_EXTENDED, Linux 5.0), or lets the
//! hardware latch both at once (PTP_SYS_OFFSET_PRECISE). What a PHC counts, TAI, UTC or time since it was switched on,
//! is nowhere written and not guessed: only the difference is measured.

use super::live::{Line, Rate, RateWindow};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Samples that are asked for at once, and at most.
const SAMPLES: u32 = 9;
const MOST_SAMPLES: usize = 25;
/// How much the rate between PHC and CLOCK_REALTIME may change between anchors: both are steered, and have oscillators of
/// their own.
const WANDER: f64 = 1e-6;

/// `struct ptp_clock_time` of `<linux/ptp_clock.h>`.
///
/// ```text
///  0          8       12         16
///  +----------+-------+----------+
///  | seconds  | ns    | reserved |
///  +----------+-------+----------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct PtpTime {
    sec: i64,
    nsec: u32,
    reserved: u32,
}
const _: () = assert!(size_of::<PtpTime>() == 16);

impl PtpTime {
    fn ns(self) -> Option<i64> {
        let nsec = (self.nsec < 1_000_000_000).then_some(i64::from(self.nsec))?;
        self.sec.checked_mul(1_000_000_000)?.checked_add(nsec)
    }
}

/// `struct ptp_sys_offset_extended`: per sample CLOCK_REALTIME before, PHC, CLOCK_REALTIME after.
///
/// ```text
///  0         4       8          16          32     48          64            1216
///  +---------+-------+----------+-----------+------+-----------+--- ... ---+
///  | samples | clock | reserved | before[0] | phc  | after[0]  |           |
///  +---------+-------+----------+-----------+------+-----------+--- ... ---+
/// ```
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Extended {
    samples: u32,
    /// 0 is CLOCK_REALTIME, the only one before Linux 6.12.
    clock: u32,
    reserved: [u32; 2],
    times: [[PtpTime; 3]; MOST_SAMPLES],
}
const _: () = assert!(size_of::<Extended>() == 1_216);

/// `struct ptp_sys_offset_precise`: PHC, CLOCK_REALTIME and CLOCK_MONOTONIC_RAW of one instant, four reserved words.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Precise {
    device: PtpTime,
    realtime: PtpTime,
    monotonic_raw: PtpTime,
    reserved: [u32; 4],
}
const _: () = assert!(size_of::<Precise>() == 64);

/// `_IOWR('=', number, size)` of `<asm-generic/ioctl.h>`.
const fn request(number: u64, size: usize) -> u64 {
    3 << 30 | (size as u64) << 16 | (b'=' as u64) << 8 | number
}
const PRECISE: u64 = request(8, size_of::<Precise>());
const EXTENDED: u64 = request(9, size_of::<Extended>());
const _: () = assert!(PRECISE == 0xc040_3d08 && EXTENDED == 0xc4c0_3d09);

/// A PHC cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PhcError {
    /// There is none, or it may not be opened.
    #[error(
        "open PTP clock {}: {source}; `ls /sys/class/ptp` lists those of this machine and `ethtool -T IFACE` tells which \
         belongs to an interface (in a KVM guest `modprobe ptp_kvm` gives the host's); reading one needs read permission \
         on the device",
        path.display()
    )]
    Open {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It cannot be compared with the system's clock.
    #[error(
        "compare PTP clock {} with CLOCK_REALTIME: {source}; PTP_SYS_OFFSET_EXTENDED needs Linux 5.0 or later and a \
         driver that reads its clock",
        path.display()
    )]
    Compare {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The kernel's answer makes no sense.
    #[error(
        "compare PTP clock with CLOCK_REALTIME: {what} in the kernel's answer; update the interface's driver"
    )]
    Answer {
        /// What does not.
        what: &'static str,
    },
}

/// A PHC paired with CLOCK_REALTIME.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhcAnchor {
    /// The PHC, nanoseconds of its own count.
    pub phc_ns: i64,
    /// CLOCK_REALTIME, nanoseconds.
    pub realtime_ns: i64,
    /// The pairing is wrong by no more, nanoseconds.
    pub half_bracket_ns: i64,
}

impl PhcAnchor {
    /// PHC minus CLOCK_REALTIME, nanoseconds: near 37 s where the PHC counts TAI.
    pub fn offset_ns(&self) -> i64 {
        self.phc_ns.saturating_sub(self.realtime_ns)
    }

    /// The tightest sample.
    fn from_extended(answer: &Extended) -> Result<Self, PhcError> {
        let wrong = |what| PhcError::Answer { what };
        let samples = answer.times.get(..answer.samples as usize).ok_or(wrong("number of samples"))?;
        let mut best: Option<Self> = None;
        for sample in samples {
            let [before, phc, after] = sample.map(PtpTime::ns);
            let all = before.zip(phc).zip(after).ok_or(wrong("time"))?;
            let ((before_ns, phc_ns), after_ns) = all;
            // Backwards if the clock was set in between: that sample tells nothing.
            let Some(width_ns) = after_ns.checked_sub(before_ns).filter(|width| *width >= 0) else {
                continue;
            };
            // One nanosecond for the whole ones that both count in.
            let half_bracket_ns = width_ns / 2 + width_ns % 2 + 1;
            if best.is_none_or(|best| half_bracket_ns < best.half_bracket_ns) {
                best = Some(Self { phc_ns, realtime_ns: before_ns + width_ns / 2, half_bracket_ns });
            }
        }
        best.ok_or(wrong("no sample"))
    }

    /// Both clocks latched at once: only their rounding is left, and what the hardware's latch costs, which no driver tells.
    fn from_precise(answer: &Precise) -> Result<Self, PhcError> {
        let pair = answer.device.ns().zip(answer.realtime.ns());
        let (phc_ns, realtime_ns) = pair.ok_or(PhcError::Answer { what: "time" })?;
        Ok(Self { phc_ns, realtime_ns, half_bracket_ns: 1 })
    }
}

/// An open PTP clock device.
#[derive(Debug)]
pub struct Phc {
    file: File,
    path: PathBuf,
    precise: bool,
}

impl Phc {
    /// Opens `/dev/ptpN` for reading, and finds out whether its hardware compares the clocks itself.
    ///
    /// # Errors
    /// Where there is none, or it cannot be compared.
    pub fn open(path: &Path) -> Result<Self, PhcError> {
        let file = File::open(path).map_err(|source| PhcError::Open { path: path.to_owned(), source })?;
        let mut phc = Self { file, path: path.to_owned(), precise: true };
        phc.precise = phc.anchor().is_ok();
        phc.anchor()?;
        Ok(phc)
    }

    /// Whether the hardware latches both clocks at once.
    pub fn is_precise(&self) -> bool {
        self.precise
    }

    /// Compares it with CLOCK_REALTIME.
    ///
    /// # Errors
    /// Where the kernel refuses, or answers nonsense.
    pub fn anchor(&self) -> Result<PhcAnchor, PhcError> {
        if self.precise {
            let mut answer = Precise::default();
            self.ask(PRECISE, &mut answer)?;
            return PhcAnchor::from_precise(&answer);
        }
        let mut answer = Extended::new_zeroed();
        answer.samples = SAMPLES;
        self.ask(EXTENDED, &mut answer)?;
        PhcAnchor::from_extended(&answer)
    }

    fn ask<T: FromBytes + IntoBytes>(&self, request: u64, answer: &mut T) -> Result<(), PhcError> {
        // SAFETY: `answer` is exclusively borrowed, any bits are valid for it, and each request above is paired with the
        // type whose size it encodes, which is what the kernel reads and writes.
        if unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, std::ptr::from_mut(answer)) } == 0 {
            return Ok(());
        }
        Err(PhcError::Compare { path: self.path.clone(), source: std::io::Error::last_os_error() })
    }
}

/// CLOCK_REALTIME of a PHC's stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhcInstant {
    /// CLOCK_REALTIME, nanoseconds.
    pub realtime_ns: i64,
    /// The true instant lies no farther off, nanoseconds; `u32::MAX` is unknown.
    pub bound_ns: u32,
    /// Number of the epoch: grows when one of the clocks was set, or their rates changed.
    pub epoch: u32,
}

/// Converts a PHC's stamps as they come: anchors, rate and bound as for cycles.
#[derive(Debug)]
pub struct PhcClock {
    window: RateWindow,
    line: Line,
    epoch: u32,
}

impl PhcClock {
    /// From a first anchor; until the second the two are taken to run alike to 1000 ppm.
    pub fn new(first: PhcAnchor) -> Self {
        let mut clock =
            Self { window: RateWindow::new(Self::ROUGH), line: Line::unknown(Self::ROUGH), epoch: 0 };
        clock.settle(first);
        clock
    }

    const ROUGH: Rate = Rate { ns_per_cycle: 1.0, error: 1e-3 };

    /// Takes another anchor, each 100 ms say. Where it lies outside the bound, a new epoch begins, and returned is by how
    /// many nanoseconds CLOCK_REALTIME was off what was predicted.
    pub fn anchor(&mut self, anchor: PhcAnchor) -> Option<i64> {
        let (predicted_ns, bound_ns) = self.line.at(anchor.phc_ns.cast_unsigned());
        let residual_ns = anchor.realtime_ns.saturating_sub(predicted_ns);
        let parted = anchor.phc_ns.cast_unsigned() <= self.line.cycles
            || residual_ns.unsigned_abs() > bound_ns + anchor.half_bracket_ns.unsigned_abs();
        if parted {
            self.epoch += 1;
            self.window = RateWindow::new(Self::ROUGH);
        }
        self.settle(anchor);
        parted.then_some(residual_ns)
    }

    fn settle(&mut self, anchor: PhcAnchor) {
        let cycles = anchor.phc_ns.cast_unsigned();
        self.window.push(cycles, anchor.realtime_ns, anchor.half_bracket_ns);
        let mut rate = self.window.rate();
        rate.error += WANDER;
        self.line = Line { cycles, ns: anchor.realtime_ns, half_ns: anchor.half_bracket_ns, rate };
    }

    /// CLOCK_REALTIME of a stamp.
    pub fn realtime(&self, phc_ns: i64) -> PhcInstant {
        let (realtime_ns, bound_ns) = self.line.at(phc_ns.cast_unsigned());
        let bound_ns = bound_ns.saturating_add(self.line.half_ns.unsigned_abs());
        PhcInstant { realtime_ns, bound_ns: u32::try_from(bound_ns).unwrap_or(u32::MAX), epoch: self.epoch }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_NS: i64 = 1_800_000_000_000_000_000;

    fn time(ns: i64) -> PtpTime {
        PtpTime { sec: ns.div_euclid(1_000_000_000), nsec: ns.rem_euclid(1_000_000_000) as u32, reserved: 0 }
    }

    fn extended(samples: &[(i64, i64, i64)]) -> Extended {
        let mut answer = Extended::new_zeroed();
        answer.samples = samples.len() as u32;
        for (to, (before, phc, after)) in answer.times.iter_mut().zip(samples) {
            *to = [time(*before), time(*phc), time(*after)];
        }
        answer
    }

    #[test]
    fn the_tightest_sample_counts_and_half_of_it_is_the_bound() {
        let tai = NOW_NS + 37_000_000_000;
        let answer = extended(&[
            (NOW_NS, tai + 900, NOW_NS + 2_001),
            (NOW_NS + 5_000, tai + 5_350, NOW_NS + 5_701),
            (NOW_NS + 9_000, tai + 9_500, NOW_NS + 8_000),
        ]);
        let anchor = PhcAnchor::from_extended(&answer).unwrap();
        assert_eq!(
            anchor,
            PhcAnchor { phc_ns: tai + 5_350, realtime_ns: NOW_NS + 5_350, half_bracket_ns: 352 }
        );
        assert_eq!(anchor.offset_ns(), 37_000_000_000);
    }

    #[test]
    fn answers_are_read_as_the_kernel_lays_them_out() {
        let mut octets = [0_u8; 64];
        octets[..8].copy_from_slice(&1_800_000_037_i64.to_ne_bytes());
        octets[8..12].copy_from_slice(&123_456_789_u32.to_ne_bytes());
        octets[16..24].copy_from_slice(&1_800_000_000_i64.to_ne_bytes());
        octets[24..28].copy_from_slice(&123_456_000_u32.to_ne_bytes());
        let anchor = PhcAnchor::from_precise(&Precise::read_from_bytes(&octets).unwrap()).unwrap();
        assert_eq!((anchor.offset_ns(), anchor.half_bracket_ns), (37_000_000_789, 1));
        // Sample 24, the last one, begins at 16 + 24 * 48.
        let mut octets = [0_u8; 1_216];
        octets[..4].copy_from_slice(&25_u32.to_ne_bytes());
        for sample in 0..25 {
            octets[16 + sample * 48 + 40] = 200;
        }
        octets[16 + 24 * 48 + 24] = 50;
        octets[16 + 24 * 48 + 40] = 100;
        let anchor = PhcAnchor::from_extended(&Extended::read_from_bytes(&octets).unwrap()).unwrap();
        assert_eq!(anchor, PhcAnchor { phc_ns: 50, realtime_ns: 50, half_bracket_ns: 51 });
    }

    #[test]
    fn nonsense_is_refused() {
        let mut many = extended(&[(0, 1, 2)]);
        many.samples = 26;
        let mut late = extended(&[(0, 1, 2)]);
        late.times[0][1].nsec = 1_000_000_000;
        let mut far = extended(&[(0, 1, 2)]);
        far.times[0][2].sec = i64::MAX;
        for answer in [many, late, far, extended(&[]), extended(&[(5, 1, 2)])] {
            let error = PhcAnchor::from_extended(&answer).unwrap_err();
            assert!(error.to_string().contains("kernel's answer"), "{error}");
        }
    }

    #[test]
    fn a_missing_device_is_named_with_what_to_do() {
        let error = Phc::open(Path::new("/dev/ptp-of-no-machine")).unwrap_err().to_string();
        assert!(error.contains("/dev/ptp-of-no-machine") && error.contains("ethtool -T"), "{error}");
        // A file that is no clock opens, and is refused then.
        let error = Phc::open(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.contains("PTP_SYS_OFFSET_EXTENDED"), "{error}");
    }

    /// A PHC 37 s ahead, 8 ppm fast, with brackets of 300 to 900 ns: the truth lies within the bound.
    #[test]
    fn conversions_hold_and_a_set_clock_opens_an_epoch() {
        let mut set_ns = 0;
        let phc_at =
            |true_ns: i64, set_ns: i64| true_ns + (true_ns - NOW_NS) / 125_000 + 37_000_000_000 + set_ns;
        let anchor = |true_ns: i64, set_ns: i64, wobble: i64| PhcAnchor {
            phc_ns: phc_at(true_ns, set_ns),
            realtime_ns: true_ns + wobble % 150,
            half_bracket_ns: 150 + wobble.abs() % 300,
        };
        let mut clock = PhcClock::new(anchor(NOW_NS, 0, 77));
        for step in 1..200_i64 {
            let now = NOW_NS + step * 100_000_000;
            for back in [1, 40_000_000, 99_000_000] {
                let instant = clock.realtime(phc_at(now - back, set_ns));
                let error_ns = instant.realtime_ns.abs_diff(now - back);
                assert!(error_ns <= instant.bound_ns.into(), "{step}: {error_ns} {instant:?}");
                assert!(
                    step < 5 || (100..104).contains(&step) || instant.bound_ns < 1_200,
                    "{step} {instant:?}"
                );
            }
            if step == 100 {
                set_ns = -250_000_000_000;
            }
            let parted = clock.anchor(anchor(now, set_ns, step * 7_919 % 601 - 300));
            assert_eq!(parted.is_some(), step == 100, "{step}: {parted:?}");
        }
        assert_eq!(clock.realtime(0).epoch, 1);
    }
}
