//! Preloaded into a measured process by the truth run: interference that needs the process's own address space.
//!
//! `QUAVER_TESTBED_INJECT` is `tlb` or `membarrier` (storms by a thread of its own on CPU `QUAVER_TESTBED_CPU`) or
//! `faults` (taken by the sink's thread before a receive).

use quaver_testbed::{inject::schedule, phase};
use std::cell::Cell;
use std::sync::OnceLock;

const PAGE_BYTES: usize = 4096;

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    match inject().as_str() {
        "tlb" => storm(shoot_down),
        "membarrier" => storm(membarrier),
        _ => {}
    }
}

fn inject() -> String {
    std::env::var("QUAVER_TESTBED_INJECT").unwrap_or_default()
}

/// Starts a thread that repeats `shot` in the blocks of injection, on the CPU asked for.
fn storm(shot: fn()) {
    let cpu = std::env::var("QUAVER_TESTBED_CPU").ok().and_then(|cpu| cpu.parse().ok()).unwrap_or(0);
    let body = move || {
        schedule::bind(0, cpu).expect("the truth run names a CPU that exists");
        loop {
            let now = phase::now_ns();
            if phase::is_on(now) {
                shot();
            } else {
                phase::sleep_until(phase::next_block(now));
            }
        }
    };
    std::thread::Builder::new().name("inject-storm".into()).spawn(body).expect("a thread can be started");
}

/// Few enough that each page is flushed by itself, many enough that the flush takes microseconds.
const FLUSHED_PAGES: usize = 16;

/// Gives pages back, so that every CPU that runs this process must forget them.
fn shoot_down() {
    static ARENA: OnceLock<usize> = OnceLock::new();
    let arena = *ARENA.get_or_init(|| map(FLUSHED_PAGES * PAGE_BYTES) as usize) as *mut u8;
    for page in 0..FLUSHED_PAGES {
        // SAFETY: the arena is mapped for writing, FLUSHED_PAGES long, and only this thread uses it.
        unsafe { arena.add(page * PAGE_BYTES).write_volatile(1) };
    }
    give_back(arena, FLUSHED_PAGES * PAGE_BYTES);
}

const MEMBARRIER_PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Interrupts every CPU that runs this process, to make it serialise.
fn membarrier() {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    REGISTERED.get_or_init(|| {
        // SAFETY: membarrier takes no pointers.
        unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0) };
    });
    // SAFETY: membarrier takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) };
}

/// Pages touched in one go, enough to take some tens of microseconds.
const BURST_PAGES: usize = 64;
/// Bursts in a block of injection.
const BURSTS: usize = (phase::BLOCK_NS / FAULT_EACH_NS) as usize + 1;
const FAULT_EACH_NS: u64 = 1_000_000;

/// Takes a fault on each page of a fresh part of the arena, in the sink's thread, once a millisecond. The arena is
/// given back at the start of each block, in the time that counts for neither kind.
fn fault() {
    thread_local! {
        static LAST_NS: Cell<u64> = const { Cell::new(0) };
        static USED: Cell<usize> = const { Cell::new(0) };
        static BLOCK: Cell<u64> = const { Cell::new(u64::MAX) };
        static ARENA: Cell<*mut u8> = const { Cell::new(std::ptr::null_mut()) };
    }
    let now = phase::now_ns();
    if !phase::is_on(now) {
        return;
    }
    if ARENA.get().is_null() {
        ARENA.set(map(BURSTS * BURST_PAGES * PAGE_BYTES).cast());
    }
    let arena = ARENA.get();
    if BLOCK.get() != phase::block_of(now) {
        give_back(arena, BURSTS * BURST_PAGES * PAGE_BYTES);
        USED.set(0);
        BLOCK.set(phase::block_of(now));
    }
    if now - LAST_NS.get() < FAULT_EACH_NS || USED.get() >= BURSTS {
        return;
    }
    LAST_NS.set(now);
    let burst = USED.get() * BURST_PAGES;
    USED.set(USED.get() + 1);
    for page in burst..burst + BURST_PAGES {
        // SAFETY: the arena is mapped for writing, BURSTS * BURST_PAGES pages long, and only this thread has it.
        unsafe { arena.add(page * PAGE_BYTES).write_volatile(1) };
    }
}

/// Whether the calling thread has this name, as the kernel has it: this library's own standard library did not
/// start it and knows none.
fn is_thread(wanted: &str) -> bool {
    let mut name = [0_u8; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name.iter().position(|octet| *octet == 0).is_some_and(|end| &name[..end] == wanted.as_bytes())
}

fn map(bytes: usize) -> *mut libc::c_void {
    // SAFETY: an anonymous private mapping at an address of the kernel's choice.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(at, libc::MAP_FAILED, "mapping {bytes} bytes");
    // A huge page would turn many faults and flushes into one.
    // SAFETY: the range is the mapping made above.
    unsafe { libc::madvise(at, bytes, libc::MADV_NOHUGEPAGE) };
    at
}

/// Gives the pages of an arena of this library back to the kernel.
fn give_back(arena: *mut u8, bytes: usize) {
    // SAFETY: the range is a mapping of this library. The measured process locks its memory, and locked pages cannot
    // be given back.
    unsafe {
        libc::munlock(arena.cast(), bytes);
        libc::madvise(arena.cast(), bytes, libc::MADV_DONTNEED);
    }
}

fn in_sink() {
    thread_local!(static FAULTS: bool = inject() == "faults" && is_thread("quaver-sink"));
    if FAULTS.with(|faults| *faults) {
        fault();
    }
}

type Receive = unsafe extern "C" fn(libc::c_int, *mut libc::c_void, usize, libc::c_int) -> isize;
type ReceiveMessage = unsafe extern "C" fn(libc::c_int, *mut libc::msghdr, libc::c_int) -> isize;

fn next(name: &std::ffi::CStr) -> *mut libc::c_void {
    // SAFETY: the name is a C string.
    let symbol = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!symbol.is_null(), "the C library has {name:?}");
    symbol
}

/// The C library's `recv`, after a fault where one is due.
///
/// # Safety
/// As for `recv(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(
    socket: libc::c_int,
    buffer: *mut libc::c_void,
    octets: usize,
    flags: libc::c_int,
) -> isize {
    static NEXT: OnceLock<Receive> = OnceLock::new();
    // SAFETY: the symbol is the C library's recv, whose type this is.
    let real =
        NEXT.get_or_init(|| unsafe { std::mem::transmute::<*mut libc::c_void, Receive>(next(c"recv")) });
    in_sink();
    // SAFETY: the caller keeps recv's contract.
    unsafe { real(socket, buffer, octets, flags) }
}

/// The C library's `recvmsg`, after a fault where one is due.
///
/// # Safety
/// As for `recvmsg(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(
    socket: libc::c_int,
    message: *mut libc::msghdr,
    flags: libc::c_int,
) -> isize {
    static NEXT: OnceLock<ReceiveMessage> = OnceLock::new();
    // SAFETY: the symbol is the C library's recvmsg, whose type this is.
    let real = NEXT.get_or_init(|| unsafe {
        std::mem::transmute::<*mut libc::c_void, ReceiveMessage>(next(c"recvmsg"))
    });
    in_sink();
    // SAFETY: the caller keeps recvmsg's contract.
    unsafe { real(socket, message, flags) }
}
