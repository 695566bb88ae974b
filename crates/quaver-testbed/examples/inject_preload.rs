//! Preloaded into a measured process by the truth run: interference that needs the process's own address space.
//!
//! `QUAVER_TESTBED_INJECT` is `tlb`, `membarrier` or `faults`; `QUAVER_TESTBED_CPU` the CPU that a storm runs on.

use quaver_testbed::{inject::schedule, phase};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let kind = std::env::var("QUAVER_TESTBED_INJECT").unwrap_or_default();
    let cpu: u16 = std::env::var("QUAVER_TESTBED_CPU").ok().and_then(|cpu| cpu.parse().ok()).unwrap_or(0);
    match kind.as_str() {
        "tlb" => spawn(cpu, shoot_down),
        "membarrier" => spawn(cpu, membarriers),
        "faults" => {
            FAULT_PAGES.store(map(FAULT_ARENA_BYTES) as usize, Ordering::Release);
        }
        _ => {}
    }
}

fn spawn(cpu: u16, storm: fn()) {
    let storm_on_cpu = move || {
        schedule::bind(0, cpu).expect("the truth run names a CPU that exists");
        loop {
            let now = phase::now_ns();
            if phase::is_on(now) {
                storm();
            } else {
                phase::sleep_until(phase::next_block(now));
            }
        }
    };
    std::thread::Builder::new().name("inject-storm".into()).spawn(storm_on_cpu).expect("a thread can be started");
}

const PAGE_BYTES: usize = 4096;
/// Few enough that each page is flushed by itself, many enough that the flush takes microseconds.
const STORM_PAGES: usize = 32;

/// Gives pages back, so that every CPU that runs this process must forget them.
fn shoot_down() {
    static ARENA: OnceLock<usize> = OnceLock::new();
    let arena = *ARENA.get_or_init(|| map(STORM_PAGES * PAGE_BYTES) as usize) as *mut u8;
    for page in 0..STORM_PAGES {
        // SAFETY: the arena is mapped for writing, STORM_PAGES long, and only this thread uses it.
        unsafe { arena.add(page * PAGE_BYTES).write_volatile(1) };
    }
    // SAFETY: the range is the arena's own.
    unsafe { libc::madvise(arena.cast(), STORM_PAGES * PAGE_BYTES, libc::MADV_DONTNEED) };
}

const MEMBARRIER_PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const MEMBARRIER_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Interrupts every CPU that runs this process, to make it serialise.
fn membarriers() {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    REGISTERED.get_or_init(|| {
        // SAFETY: membarrier takes no pointers.
        unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_REGISTER_PRIVATE_EXPEDITED, 0, 0) };
    });
    // SAFETY: membarrier takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_PRIVATE_EXPEDITED, 0, 0) };
}

const FAULT_ARENA_BYTES: usize = 64 * PAGE_BYTES;
static FAULT_PAGES: AtomicUsize = AtomicUsize::new(0);

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
    assert_ne!(at, libc::MAP_FAILED, "mapping {bytes} octets");
    // A huge page would turn 64 faults into one; a locked process would populate the pages in advance.
    // SAFETY: the range is the mapping made above.
    unsafe {
        libc::madvise(at, bytes, libc::MADV_NOHUGEPAGE);
        libc::munlock(at, bytes);
    }
    at
}

/// Takes a fault on each page of the arena, in the calling thread, about once a millisecond.
fn fault() {
    thread_local!(static LAST_NS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });
    let now = phase::now_ns();
    let arena = FAULT_PAGES.load(Ordering::Acquire);
    if arena == 0 || !phase::is_on(now) || now - LAST_NS.get() < 1_000_000 {
        return;
    }
    let name = std::thread::current().name().map(str::to_owned);
    if name.as_deref() != Some("quaver-sink") {
        return;
    }
    LAST_NS.set(now);
    let arena = arena as *mut u8;
    // SAFETY: the arena is mapped for writing, FAULT_ARENA_BYTES long, and only the sink's thread touches it.
    unsafe {
        libc::madvise(arena.cast(), FAULT_ARENA_BYTES, libc::MADV_DONTNEED);
        for page in 0..FAULT_ARENA_BYTES / PAGE_BYTES {
            arena.add(page * PAGE_BYTES).write_volatile(1);
        }
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
    let real = NEXT.get_or_init(|| unsafe { std::mem::transmute::<*mut libc::c_void, Receive>(next(c"recv")) });
    fault();
    // SAFETY: the caller keeps recv's contract.
    unsafe { real(socket, buffer, octets, flags) }
}

/// The C library's `recvmsg`, after a fault where one is due.
///
/// # Safety
/// As for `recvmsg(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(socket: libc::c_int, message: *mut libc::msghdr, flags: libc::c_int) -> isize {
    static NEXT: OnceLock<ReceiveMessage> = OnceLock::new();
    // SAFETY: the symbol is the C library's recvmsg, whose type this is.
    let real =
        NEXT.get_or_init(|| unsafe { std::mem::transmute::<*mut libc::c_void, ReceiveMessage>(next(c"recvmsg")) });
    fault();
    // SAFETY: the caller keeps recvmsg's contract.
    unsafe { real(socket, message, flags) }
}
