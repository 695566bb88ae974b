//! What depends on the processor: the cycle counter and CPU number, the thread's block of initial-exec storage,
//! and additions that a signal handler cannot fall into.

use libc::c_void;
use quaver_abi::sync::CPU_UNKNOWN;
use std::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering};

/// Where glibc keeps the area that it shares with the kernel (rseq), from the thread pointer on; 0 is unknown.
static RSEQ_OFFSET: AtomicIsize = AtomicIsize::new(0);
/// Offset of `cpu_id` in `struct rseq`.
const RSEQ_CPU_ID: isize = 4;

/// Bytes of a thread's block: room for `ring::Thread`, asserted there.
pub(crate) const THREAD_BYTES: usize = 448;

// `thread_local!` in a shared object would call __tls_get_addr, which may allocate. A block of our own, reached by
// an offset from the thread pointer that is fixed at load time (initial-exec), takes two instructions.
std::arch::global_asm!(
    ".pushsection .tbss.quaver_sync_thread,\"awT\",@nobits",
    ".hidden quaver_sync_thread",
    ".globl quaver_sync_thread",
    ".type quaver_sync_thread, @object",
    ".size quaver_sync_thread, {octets}",
    ".balign 64",
    "quaver_sync_thread:",
    ".zero {octets}",
    ".popsection",
    octets = const THREAD_BYTES,
);

/// The calling thread's block, zero when the thread begins.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn thread_block() -> *mut c_void {
    let block: *mut c_void;
    // SAFETY: reads the thread pointer and a constant of the linker's; the block lies at their sum.
    unsafe {
        std::arch::asm!(
            "mov {block}, qword ptr fs:[0]",
            "add {block}, qword ptr [rip + quaver_sync_thread@GOTTPOFF]",
            block = out(reg) block,
            options(pure, readonly, nostack),
        );
    }
    block
}

/// The calling thread's block, zero when the thread begins.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn thread_block() -> *mut c_void {
    let block: *mut c_void;
    // SAFETY: reads the thread pointer and a constant of the linker's; the block lies at their sum.
    unsafe {
        std::arch::asm!(
            "mrs {block}, tpidr_el0",
            "adrp {offset}, :gottprel:quaver_sync_thread",
            "ldr {offset}, [{offset}, :gottprel_lo12:quaver_sync_thread]",
            "add {block}, {block}, {offset}",
            block = out(reg) block,
            offset = out(reg) _,
            options(pure, readonly, nostack),
        );
    }
    block
}

/// Tells where the C library keeps the CPU's number of the running thread, from the thread pointer on.
pub(crate) fn set_rseq_offset(offset: isize) {
    RSEQ_OFFSET.store(offset, Ordering::Relaxed);
}

/// The cycle counter.
#[inline(always)]
pub(crate) fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a counter. That it is there and runs steadily is doctor's business.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: reads a counter.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack)) };
        count
    }
}

/// The cycle counter once all before is done. Read alone it may be read before an unlock in front of it has been seen by others,
/// by as long as its cache line takes to come: the unlock would seem to have returned before a thread asked that still found the
/// lock taken.
#[inline(always)]
pub(crate) fn cycles_after() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: each x86-64 has SSE2, of which this is.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: barriers; they touch nothing.
    unsafe {
        std::arch::asm!("dmb ish", "isb", options(nostack, preserves_flags));
    }
    cycles()
}

/// The CPU that the thread runs on, from the memory that the kernel keeps up to date (rseq).
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn cpu() -> u16 {
    let offset = RSEQ_OFFSET.load(Ordering::Relaxed);
    if offset == 0 {
        let mut aux = 0;
        // SAFETY: reads a counter and the number that Linux puts beside it (CPU in the low 12 bits).
        unsafe { std::arch::x86_64::__rdtscp(&raw mut aux) };
        return (aux & 0xfff) as u16;
    }
    let number: i32;
    // SAFETY: glibc says that the area lies there in every thread.
    unsafe {
        std::arch::asm!(
            "mov {number:e}, dword ptr fs:[{at}]",
            number = out(reg) number,
            at = in(reg) offset + RSEQ_CPU_ID,
            options(readonly, nostack, preserves_flags),
        );
    }
    if number < 0 { CPU_UNKNOWN } else { number as u16 }
}

/// The CPU that the thread runs on, from the memory that the kernel keeps up to date (rseq).
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn cpu() -> u16 {
    let offset = RSEQ_OFFSET.load(Ordering::Relaxed);
    if offset == 0 {
        return CPU_UNKNOWN;
    }
    let thread: *const u8;
    // SAFETY: reads the thread pointer.
    unsafe { std::arch::asm!("mrs {}, tpidr_el0", out(reg) thread, options(nomem, nostack)) };
    // SAFETY: glibc says that the area lies there in every thread.
    let number = unsafe { thread.offset(offset + RSEQ_CPU_ID).cast::<i32>().read_volatile() };
    if number < 0 { CPU_UNKNOWN } else { number as u16 }
}

/// Adds one to a count that only this thread and its signal handlers write: one instruction, so that no
/// handler's addition is lost, and no lock of the bus, since no other thread adds.
#[inline(always)]
pub(crate) fn count(counter: &AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a valid counter, aligned.
    unsafe {
        std::arch::asm!("inc qword ptr [{}]", in(reg) counter.as_ptr(), options(nostack));
    }
    #[cfg(not(target_arch = "x86_64"))]
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Takes one from a count that only this thread and its signal handlers write; whether it is at zero now.
#[inline(always)]
pub(crate) fn runs_out(counter: &AtomicU64) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let is_zero: u8;
        // SAFETY: a valid counter, aligned.
        unsafe {
            std::arch::asm!(
                "dec qword ptr [{at}]",
                "setz {is_zero}",
                at = in(reg) counter.as_ptr(),
                is_zero = out(reg_byte) is_zero,
                options(nostack),
            );
        }
        is_zero != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        counter.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

/// Moves a pointer that only this thread and its signal handlers move, in one instruction; its old value.
#[inline(always)]
pub(crate) fn claim(next: &AtomicUsize, octets: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let mut old = octets;
        // SAFETY: a valid word, aligned.
        unsafe {
            std::arch::asm!("xadd qword ptr [{}], {}", in(reg) next.as_ptr(), inout(reg) old, options(nostack));
        }
        old
    }
    #[cfg(not(target_arch = "x86_64"))]
    next.fetch_add(octets, Ordering::Relaxed)
}
