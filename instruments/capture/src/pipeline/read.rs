//! The cheapest reading of the cycle counter.

use quaver_clock::{Counter, CycleCounter, HardwareCounter, MonotonicCounter};

/// Raw reading of the hardware cycle counter that does not wait for earlier instructions.
///
/// A fence before it would double its cost. Without one, the processor may read the counter before loads that
/// come earlier in the program have arrived, so the reading can lie before the event that it stamps by what the
/// processor runs ahead: one miss of the cache at the most, some 100 ns, and nothing where the packet's own
/// bytes were in the cache. A difference between two readings around something must use [`quaver_clock::cycles`].
#[inline(always)]
pub fn cycles_unordered() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has the instruction.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let value: u64;
        // SAFETY: reads a counter register that Linux opens to user space; touches no memory.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nostack, nomem)) };
        value
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        quaver_clock::cycles()
    }
}

/// Counters that can be read without waiting for earlier instructions.
pub(super) trait ReadUnordered {
    fn read_unordered(&self) -> u64;
}

impl ReadUnordered for HardwareCounter {
    #[inline(always)]
    fn read_unordered(&self) -> u64 {
        cycles_unordered()
    }
}

impl ReadUnordered for MonotonicCounter {
    #[inline(always)]
    fn read_unordered(&self) -> u64 {
        self.read()
    }
}

impl ReadUnordered for Counter {
    #[inline(always)]
    fn read_unordered(&self) -> u64 {
        match self {
            Self::Hardware => cycles_unordered(),
            Self::MonotonicClock => MonotonicCounter.read(),
        }
    }
}
