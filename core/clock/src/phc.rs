//! An interface's own clock (PHC): tied to CLOCK_REALTIME by the kernel's ioctls, with the same bound as cycles have.
//!
//! The kernel reads CLOCK_REALTIME, the PHC, and CLOCK_REALTIME again (PTP_SYS_OFFSET_EXTENDED, Linux 5.0, where the driver
//! reads them close together; else PTP_SYS_OFFSET, with wider brackets), or lets the hardware latch both at once
//! (PTP_SYS_OFFSET_PRECISE). What a PHC counts, TAI, UTC or time since it was switched on,
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

/// `struct ptp_sys_offset`: CLOCK_REALTIME and PHC in turn, CLOCK_REALTIME first and last.
///
/// ```text
///  0         4          16             32     48             64         832
///  +---------+----------+--------------+------+--------------+--- ... ---+
///  | samples | reserved | realtime[0]  | phc  | realtime[1]  |           |
///  +---------+----------+--------------+------+--------------+--- ... ---+
/// ```
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Plain {
    samples: u32,
    reserved: [u32; 3],
    times: [PtpTime; 2 * MOST_SAMPLES + 1],
}
const _: () = assert!(size_of::<Plain>() == 832);

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

/// `_IOC(directions, '=', number, size)` of `<asm-generic/ioctl.h>`: 1 writes, 3 writes and reads.
const fn request(directions: u64, number: u64, size: usize) -> u64 {
    directions << 30 | (size as u64) << 16 | (b'=' as u64) << 8 | number
}
/// Declared as one that only writes, though the kernel answers in place.
const PLAIN: u64 = request(1, 5, size_of::<Plain>());
const PRECISE: u64 = request(3, 8, size_of::<Precise>());
const EXTENDED: u64 = request(3, 9, size_of::<Extended>());
const _: () = assert!(PLAIN == 0x4340_3d05 && PRECISE == 0xc040_3d08 && EXTENDED == 0xc4c0_3d09);

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
        "compare PTP clock {} with CLOCK_REALTIME: {source}; PTP_SYS_OFFSET needs a driver that reads its clock",
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

impl PhcError {
    const SAMPLES: Self = Self::Answer { what: "number of samples" };
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

    fn from_extended(answer: &Extended) -> Result<Self, PhcError> {
        let samples = answer.times.get(..answer.samples as usize);
        Self::tightest(samples.ok_or(PhcError::SAMPLES)?.iter().copied())
    }

    fn from_plain(answer: &Plain) -> Result<Self, PhcError> {
        let times = (answer.samples as usize).checked_mul(2).and_then(|last| answer.times.get(..=last));
        let times = times.ok_or(PhcError::SAMPLES)?;
        // The reading of CLOCK_REALTIME between two of the PHC ends one sample and begins the next.
        Self::tightest(times.windows(3).step_by(2).map(|times| [times[0], times[1], times[2]]))
    }

    /// The tightest of samples, each CLOCK_REALTIME, PHC, CLOCK_REALTIME.
    fn tightest(samples: impl Iterator<Item = [PtpTime; 3]>) -> Result<Self, PhcError> {
        let wrong = |what| PhcError::Answer { what };
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

/// How the kernel compares the clocks, the closest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Precise,
    Extended,
    Plain,
}

/// An open PTP clock device.
#[derive(Debug)]
pub struct Phc {
    file: File,
    path: PathBuf,
    way: Way,
}

impl Phc {
    /// Opens `/dev/ptpN` for reading, and finds out how its driver compares the clocks.
    ///
    /// # Errors
    /// Where there is none, or it cannot be compared.
    pub fn open(path: &Path) -> Result<Self, PhcError> {
        let file = File::open(path).map_err(|source| PhcError::Open { path: path.to_owned(), source })?;
        let mut phc = Self { file, path: path.to_owned(), way: Way::Plain };
        let better = [Way::Precise, Way::Extended];
        if let Some(way) = better.into_iter().find(|way| phc.by(*way).is_ok()) {
            phc.way = way;
        }
        phc.anchor()?;
        Ok(phc)
    }

    /// Compares it with CLOCK_REALTIME.
    ///
    /// # Errors
    /// Where the kernel refuses, or answers nonsense.
    pub fn anchor(&self) -> Result<PhcAnchor, PhcError> {
        self.by(self.way)
    }

    fn by(&self, way: Way) -> Result<PhcAnchor, PhcError> {
        match way {
            Way::Precise => {
                let mut answer = Precise::default();
                self.ask(PRECISE, &mut answer)?;
                PhcAnchor::from_precise(&answer)
            }
            Way::Extended => {
                let mut answer = Extended::new_zeroed();
                answer.samples = SAMPLES;
                self.ask(EXTENDED, &mut answer)?;
                PhcAnchor::from_extended(&answer)
            }
            Way::Plain => {
                let mut answer = Plain::new_zeroed();
                answer.samples = SAMPLES;
                self.ask(PLAIN, &mut answer)?;
                PhcAnchor::from_plain(&answer)
            }
        }
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
mod tests;
