//! Reading time in a hot loop.

/// Raw reading of the hardware cycle counter, taken after all earlier instructions have completed.
///
/// On x86-64 the time-stamp counter behind an `lfence`; on aarch64 the virtual counter behind an `isb`;
/// elsewhere CLOCK_MONOTONIC nanoseconds. Ask [`super::CounterSupport`] whether it can be used as a clock.
#[inline(always)]
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has both instructions.
        unsafe {
            core::arch::x86_64::_mm_lfence();
            core::arch::x86_64::_rdtsc()
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let value: u64;
        // SAFETY: reads a counter register that Linux opens to user space; touches no memory.
        unsafe { core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) value, options(nostack)) };
        value
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        monotonic_ns() as u64
    }
}

/// Raw reading of the hardware cycle counter and the CPU that it was taken on, as one instruction on x86-64
/// (`rdtscp`: the kernel keeps the CPU in the low 12 bits of `TSC_AUX`); elsewhere two reads.
#[inline(always)]
pub fn cycles_and_cpu() -> (u64, u16) {
    #[cfg(target_arch = "x86_64")]
    {
        let mut aux = 0;
        // SAFETY: `rdtscp` exists wherever `CounterSupport` offers the hardware counter; `aux` is a local.
        let value = unsafe { core::arch::x86_64::__rdtscp(&raw mut aux) };
        (value, (aux & 0xfff) as u16)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        (cycles(), current_cpu())
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
#[inline]
pub fn monotonic_ns() -> i64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME in nanoseconds since 1970.
#[inline]
pub fn realtime_ns() -> i64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// How long this machine has been suspended, in all: what CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC, nanoseconds. In a time
/// namespace a constant is added.
pub fn suspended_ns() -> i64 {
    // A thread may lose its CPU between two readings. The least difference of a few has the least of that.
    let ahead = || {
        let monotonic_ns = clock_ns(libc::CLOCK_MONOTONIC);
        clock_ns(libc::CLOCK_BOOTTIME) - monotonic_ns
    };
    (0..8).fold(ahead(), |least, _| least.min(ahead()))
}

#[inline]
pub(super) fn clock_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid out-pointer. The clocks asked for exist on every Linux, so it cannot fail.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[inline]
fn current_cpu() -> u16 {
    rustix::thread::sched_getcpu() as u16
}

/// What hot loops stamp with. Loops are generic over it, so that each is compiled for its counter.
pub trait CycleCounter: Copy + Send + 'static {
    /// Raw reading.
    fn read(&self) -> u64;
    /// Raw reading and the CPU that it was taken on.
    fn read_with_cpu(&self) -> (u64, u16);
}

/// The hardware counter. Only for use where [`super::CounterSupport`] says so.
#[derive(Clone, Copy, Debug)]
pub struct HardwareCounter;

impl CycleCounter for HardwareCounter {
    #[inline(always)]
    fn read(&self) -> u64 {
        cycles()
    }

    #[inline(always)]
    fn read_with_cpu(&self) -> (u64, u16) {
        cycles_and_cpu()
    }
}

/// CLOCK_MONOTONIC nanoseconds in place of cycles.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicCounter;

impl CycleCounter for MonotonicCounter {
    #[inline(always)]
    fn read(&self) -> u64 {
        monotonic_ns() as u64
    }

    #[inline(always)]
    fn read_with_cpu(&self) -> (u64, u16) {
        (monotonic_ns() as u64, current_cpu())
    }
}

/// The counter chosen at run time. It can be read as it is, at the price of one predictable branch; a loop for
/// which that is too much matches once outside and runs with [`HardwareCounter`] or [`MonotonicCounter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    /// The hardware counter.
    Hardware,
    /// CLOCK_MONOTONIC nanoseconds.
    MonotonicClock,
}

impl Counter {
    /// Name in manifests and on the console.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hardware if cfg!(target_arch = "x86_64") => "tsc",
            Self::Hardware => "cntvct",
            Self::MonotonicClock => "clock-monotonic",
        }
    }
}

impl CycleCounter for Counter {
    #[inline(always)]
    fn read(&self) -> u64 {
        match self {
            Self::Hardware => HardwareCounter.read(),
            Self::MonotonicClock => MonotonicCounter.read(),
        }
    }

    #[inline(always)]
    fn read_with_cpu(&self) -> (u64, u16) {
        match self {
            Self::Hardware => HardwareCounter.read_with_cpu(),
            Self::MonotonicClock => MonotonicCounter.read_with_cpu(),
        }
    }
}
