//! Small dealings with the system that neither allocate nor panic.

use libc::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// A line or path put together in place; what does not fit is left out.
pub(crate) struct Text<const N: usize> {
    octets: [u8; N],
    used: usize,
}

impl<const N: usize> Text<N> {
    pub(crate) const fn new() -> Self {
        Self { octets: [0; N], used: 0 }
    }

    /// Appends bytes. The last byte stays zero, so that it is a C string at any time.
    pub(crate) fn push(&mut self, octets: &[u8]) -> &mut Self {
        for octet in octets {
            if self.used.saturating_add(1) < N
                && let Some(place) = self.octets.get_mut(self.used)
            {
                *place = *octet;
                self.used = self.used.wrapping_add(1);
            }
        }
        self
    }

    /// Appends a number in decimal digits.
    pub(crate) fn push_number(&mut self, mut number: u64) -> &mut Self {
        let mut digits = [0u8; 20];
        let mut first = digits.len();
        loop {
            first = first.wrapping_sub(1);
            if let Some(place) = digits.get_mut(first) {
                *place = b'0'.wrapping_add((number % 10) as u8);
            }
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.push(digits.get(first..).unwrap_or(&[]))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.octets.get(..self.used).unwrap_or(&[])
    }

    pub(crate) fn as_ptr(&self) -> *const libc::c_char {
        self.octets.as_ptr().cast()
    }

    /// Cuts it back to a length that it had.
    pub(crate) fn cut(&mut self, length: usize) {
        while self.used > length {
            self.used = self.used.wrapping_sub(1);
            if let Some(place) = self.octets.get_mut(self.used) {
                *place = 0;
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.used
    }
}

/// The calling thread's error number.
pub(crate) fn errno() -> c_int {
    // SAFETY: the C library gives a valid address in every thread.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's error number.
pub(crate) fn set_errno(number: c_int) {
    // SAFETY: the C library gives a valid address in every thread.
    unsafe { *libc::__errno_location() = number };
}

fn clock_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid out-pointer.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec)
}

/// CLOCK_MONOTONIC now, nanoseconds.
pub(crate) fn monotonic_ns() -> i64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME now, nanoseconds.
pub(crate) fn realtime_ns() -> i64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// Cycle counter and CLOCK_MONOTONIC nanoseconds at one instant: of a few pairs, the one read fastest.
pub(crate) fn anchor() -> (u64, i64) {
    let mut best = (0, 0);
    let mut shortest = u64::MAX;
    for _ in 0..3 {
        let before = crate::arch::cycles();
        let now = monotonic_ns();
        let took = crate::arch::cycles().wrapping_sub(before);
        if took < shortest {
            shortest = took;
            best = (before.wrapping_add(took / 2), now);
        }
    }
    best
}

/// The program restricts its system calls from now on (seccomp(2)): any of ours could be its end.
static JAILED: AtomicBool = AtomicBool::new(false);

/// Asks the kernel nothing from now on.
pub(crate) fn jail() {
    JAILED.store(true, Ordering::Relaxed);
}

/// Whether the kernel must not be asked.
#[inline(always)]
pub(crate) fn is_jailed() -> bool {
    JAILED.load(Ordering::Relaxed)
}

/// Name of the caller.
pub(crate) fn thread_name() -> [u8; 16] {
    let mut name = [0; 16];
    // SAFETY: PR_GET_NAME fills 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Thread id of the caller.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: takes nothing. Not through `syscall`, which is one of our own symbols here: `gettid` is in glibc
    // since 2.30 only, so the kernel is asked by its number.
    unsafe { raw_system_call(libc::SYS_gettid as usize, 0, 0, 0, 0) as u32 }
}

/// Asks the kernel without the C library: no cancellation, no `errno`, none of our own hooks.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn raw_system_call(number: usize, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result: isize;
    // SAFETY: the caller passes what that call takes.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Asks the kernel without the C library: no cancellation, no `errno`, none of our own hooks.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn raw_system_call(number: usize, a: usize, b: usize, c: usize, d: usize) -> isize {
    let result: isize;
    // SAFETY: the caller passes what that call takes.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d,
            options(nostack),
        );
    }
    result
}

/// Signals of the calling thread held back, those of the thread library itself (cancellation) included.
pub(crate) struct HeldSignals {
    before: u64,
}

impl HeldSignals {
    /// Holds all of them back until [`Self::release`].
    pub(crate) fn hold() -> Self {
        let all = u64::MAX;
        let mut before = 0u64;
        // SAFETY: the kernel's signal set is eight bytes, in and out.
        unsafe {
            raw_system_call(
                libc::SYS_rt_sigprocmask as usize,
                libc::SIG_SETMASK as usize,
                &raw const all as usize,
                &raw mut before as usize,
                size_of::<u64>(),
            )
        };
        Self { before }
    }

    /// Lets through again what was let through before.
    pub(crate) fn release(self) {
        // SAFETY: as above.
        unsafe {
            raw_system_call(
                libc::SYS_rt_sigprocmask as usize,
                libc::SIG_SETMASK as usize,
                &raw const self.before as usize,
                0,
                size_of::<u64>(),
            )
        };
    }
}

/// Reads the first bytes of a file; how many.
pub(crate) fn read_file(path: &std::ffi::CStr, into: &mut [u8]) -> usize {
    // SAFETY: a C string; the descriptor is closed below.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return 0;
    }
    let mut used = 0usize;
    while let Some(rest) = into.get_mut(used..).filter(|rest| !rest.is_empty()) {
        // SAFETY: `rest` is valid for its length.
        let got = unsafe { libc::read(file, rest.as_mut_ptr().cast::<c_void>(), rest.len()) };
        if got <= 0 {
            break;
        }
        used = used.wrapping_add(got as usize);
    }
    // SAFETY: opened above.
    unsafe { libc::close(file) };
    used
}

/// Gives each byte of a file to `take`.
pub(crate) fn read_by_parts(path: &std::ffi::CStr, mut take: impl FnMut(u8)) {
    // SAFETY: a C string; the descriptor is closed below.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return;
    }
    let mut part = [0_u8; 1024];
    loop {
        // SAFETY: the part is valid for its length.
        let got = unsafe { libc::read(file, part.as_mut_ptr().cast::<c_void>(), part.len()) };
        let Some(read) = part.get(..got.max(0) as usize).filter(|read| !read.is_empty()) else { break };
        read.iter().for_each(|octet| take(*octet));
    }
    // SAFETY: opened above.
    unsafe { libc::close(file) };
}

/// The same without the C library, in which a thread may be cancelled.
pub(crate) fn read_without_library(path: &std::ffi::CStr, mut take: impl FnMut(u8)) {
    let (here, flags) = (libc::AT_FDCWD as usize, (libc::O_RDONLY | libc::O_CLOEXEC) as usize);
    // SAFETY: a C string; the descriptor is closed below.
    let file = unsafe { raw_system_call(libc::SYS_openat as usize, here, path.as_ptr() as usize, flags, 0) };
    if file < 0 {
        return;
    }
    let file = file as usize;
    let mut part = [0_u8; 1024];
    loop {
        let at = part.as_mut_ptr() as usize;
        // SAFETY: the part is valid for its length.
        let got = unsafe { raw_system_call(libc::SYS_read as usize, file, at, part.len(), 0) };
        let Some(read) = part.get(..got.max(0) as usize).filter(|read| !read.is_empty()) else { break };
        read.iter().for_each(|octet| take(*octet));
    }
    // SAFETY: opened above.
    unsafe { raw_system_call(libc::SYS_close as usize, file, 0, 0, 0) };
}

/// Writes all bytes to a descriptor, as far as it takes them.
pub(crate) fn write_all(file: c_int, mut octets: &[u8]) {
    while !octets.is_empty() {
        // SAFETY: valid for its length.
        let wrote = unsafe { libc::write(file, octets.as_ptr().cast::<c_void>(), octets.len()) };
        if wrote <= 0 {
            return;
        }
        octets = octets.get(wrote as usize..).unwrap_or(&[]);
    }
}

/// Makes a file with what `from` holds at the moment.
pub(crate) fn copy_file(from: &std::ffi::CStr, to: *const libc::c_char) {
    // SAFETY: C strings; the descriptors are closed below.
    unsafe {
        let source = libc::open(from.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if source < 0 {
            return;
        }
        let target = libc::open(to, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC, 0o644);
        if target >= 0 {
            let mut octets = [0u8; 4096];
            loop {
                let got = libc::read(source, octets.as_mut_ptr().cast::<c_void>(), octets.len());
                if got <= 0 {
                    break;
                }
                write_all(target, octets.get(..got as usize).unwrap_or(&[]));
            }
            libc::close(target);
        }
        libc::close(source);
    }
}

/// When this process started, clock ticks since boot; 0 where `/proc` does not tell.
pub(crate) fn start_ticks() -> u64 {
    let mut octets = [0u8; 1024];
    let used = read_file(c"/proc/self/stat", &mut octets);
    let text = octets.get(..used).unwrap_or(&[]);
    // The name, in parentheses, may hold anything; field 22 is the twentieth after it.
    let Some(name_end) = text.iter().rposition(|octet| *octet == b')') else { return 0 };
    let after = text.get(name_end.wrapping_add(2)..).unwrap_or(&[]);
    let field = after.split(|octet| *octet == b' ').nth(19).unwrap_or(&[]);
    field
        .iter()
        .filter(|octet| octet.is_ascii_digit())
        .fold(0u64, |number, digit| number.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0'))))
}
