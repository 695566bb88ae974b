//! Whether, when and under which name recording begins: at the first call that comes or in the constructor of
//! this library, and again in the child of each fork.
//!
//! The name `sync-PID-STARTTIME-EXECNO` is the process's for good: pid and start time stay over an `exec`, and each
//! image takes the first number that is free. So a wrapper (`timeout prog`), which records itself and then
//! becomes or starts the program, never overwrites anything.

use crate::segment::{self, Failure, Path};
use crate::{arch, code, generated, handoffs, marks, real, system, waiters};
use quaver_abi::sync::SyncEnd;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

const UNSTARTED: u32 = 0;
const STARTING: u32 = 1;
const OFF: u32 = 2;
const ON: u32 = 3;
static MODE: AtomicU32 = AtomicU32::new(UNSTARTED);

/// Value of a live word that no thread's block ever equals.
static NOT_RECORDING: AtomicU32 = AtomicU32::new(u32::MAX);
/// Where the number of the running recording stands: a page that the kernel clears in the child of a fork
/// (MADV_WIPEONFORK), however that was made, so that no child ever writes to its parent's rings.
static LIVE: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NOT_RECORDING).cast_mut());
/// Recordings of this process and the ancestors that it was forked from.
static RECORDINGS: AtomicU32 = AtomicU32::new(0);

/// Most images of one process.
const MOST_IMAGES: u32 = 100_000;
/// Room of a segment unless `QUAVER_SYNC_MAX_MIB` says otherwise, MiB.
const ROOM_MIB: u64 = 8192;

struct Names {
    directory: UnsafeCell<Path>,
    /// The segment's path without its ending.
    stem: UnsafeCell<Path>,
    room_mib: UnsafeCell<u64>,
}
// SAFETY: written only while MODE is STARTING, by the one thread that set it; read while it is ON, by the thread
// that ends the image.
unsafe impl Sync for Names {}
static NAMES: Names = Names {
    directory: UnsafeCell::new(Path::new()),
    stem: UnsafeCell::new(Path::new()),
    room_mib: UnsafeCell::new(ROOM_MIB),
};

/// Number of the running recording, for comparison with a thread's; never equal while there is none.
#[inline(always)]
pub(crate) fn recording() -> u32 {
    // SAFETY: points to a static or to a page that is never unmapped.
    unsafe { (*LIVE.load(Ordering::Relaxed)).load(Ordering::Relaxed) }
}

/// Whether this image is not recorded, for good.
#[inline(always)]
pub(crate) fn is_off() -> bool {
    MODE.load(Ordering::Relaxed) == OFF
}

/// Whether a recording runs.
pub(crate) fn is_recording() -> bool {
    MODE.load(Ordering::Acquire) == ON && recording() != 0
}

/// In the child of a fork: the parent's recording is not this process's. Whether the parent recorded.
pub(crate) fn leave_parent() -> bool {
    let recorded = MODE.load(Ordering::Acquire) == ON;
    if recorded {
        // SAFETY: a page that is never unmapped; the kernel has cleared it unless it is older than 4.14.
        unsafe { (*LIVE.load(Ordering::Relaxed)).store(0, Ordering::Relaxed) };
    }
    recorded
}

/// Begins recording if that is still to be done, here or since a fork; its number.
pub(crate) fn ensure() -> Option<u32> {
    match MODE.load(Ordering::Acquire) {
        UNSTARTED => start(UNSTARTED),
        ON => match recording() {
            0 => start(ON),
            number => Some(number),
        },
        _ => None,
    }
}

fn start(from: u32) -> Option<u32> {
    if MODE.compare_exchange(from, STARTING, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return None;
    }
    let held = system::HeldSignals::hold();
    let began = if from == UNSTARTED { begin_image() } else { begin_child() };
    MODE.store(if began.is_some() { ON } else { OFF }, Ordering::Release);
    held.release();
    began
}

fn begin_image() -> Option<u32> {
    real::find_all();
    // SAFETY: C strings; the environment is there before any constructor runs.
    let (directory, room) = unsafe {
        if libc::getauxval(libc::AT_SECURE) != 0 {
            return None;
        }
        (libc::getenv(c"QUAVER_SYNC_DIR".as_ptr()), libc::getenv(c"QUAVER_SYNC_MAX_MIB".as_ptr()))
    };
    if marks::begin() || directory.is_null() {
        return None;
    }
    code::find();
    generated::begin();
    if let Some(offset) = real::rseq_offset() {
        arch::set_rseq_offset(offset);
    }
    // SAFETY: C strings of the environment; NAMES is ours while MODE is STARTING.
    unsafe {
        (*NAMES.directory.get()).push(std::ffi::CStr::from_ptr(directory).to_bytes());
        let wanted = if room.is_null() { 0 } else { libc::strtoul(room, std::ptr::null_mut(), 10) };
        if wanted > 0 {
            *NAMES.room_mib.get() = wanted;
        }
    }
    begin()
}

/// In the child of a fork: one thread, its parent's memory, a file of its own.
fn begin_child() -> Option<u32> {
    segment::forget();
    waiters::forget_all();
    handoffs::forget_all();
    begin()
}

fn begin() -> Option<u32> {
    let first = system::anchor();
    let Some(live) = live_word() else {
        complain(&Failure { operation: "map a page", errno: system::errno() });
        return None;
    };
    match make_segment(first) {
        Ok(()) => {
            let number = RECORDINGS.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            // SAFETY: a page that is never unmapped.
            unsafe { (*live).store(number, Ordering::Relaxed) };
            LIVE.store(live, Ordering::Release);
            write_maps();
            Some(number)
        }
        Err(failure) => {
            complain(&failure);
            LIVE.store((&raw const NOT_RECORDING).cast_mut(), Ordering::Release);
            None
        }
    }
}

fn live_word() -> Option<*mut AtomicU32> {
    let known = LIVE.load(Ordering::Relaxed);
    if !std::ptr::eq(known, &raw const NOT_RECORDING) {
        return Some(known);
    }
    // SAFETY: a new private page at an address of the kernel's choice.
    let page = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        libc::mmap(std::ptr::null_mut(), 4096, access, flags, -1, 0)
    };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page just mapped. Where the kernel is too old (before 4.14) the handler of `fork` clears it.
    unsafe { libc::madvise(page, 4096, libc::MADV_WIPEONFORK) };
    Some(page.cast::<AtomicU32>())
}

fn make_segment(first: (u64, i64)) -> Result<(), Failure> {
    // SAFETY: NAMES is ours while MODE is STARTING.
    let (directory, stem, room_mib) =
        unsafe { (&*NAMES.directory.get(), &mut *NAMES.stem.get(), *NAMES.room_mib.get()) };
    let start_ticks = system::start_ticks();
    stem.cut(0);
    // SAFETY: takes nothing.
    let pid = unsafe { libc::getpid() } as u64;
    stem.push(directory.as_bytes()).push(b"/sync-").push_number(pid);
    stem.push(b"-").push_number(start_ticks).push(b"-");
    let without_number = stem.len();
    let room = room_mib.saturating_mul(1 << 20);
    for image in 0..MOST_IMAGES {
        stem.cut(without_number);
        stem.push_number(u64::from(image));
        let without_ending = stem.len();
        stem.push(b".seg");
        let made = segment::create(stem, image, start_ticks, room, first);
        stem.cut(without_ending);
        match made {
            Err(Failure { errno: libc::EEXIST, .. }) => {}
            other => return other,
        }
    }
    Err(Failure { operation: "find a free name in QUAVER_SYNC_DIR", errno: libc::EEXIST })
}

/// Keeps where the image's code lies, for names of addresses once the process is gone.
fn write_maps() {
    // SAFETY: NAMES is ours while MODE is STARTING, and at the end of the image nobody changes it.
    let stem = unsafe { &mut *NAMES.stem.get() };
    let without_ending = stem.len();
    stem.push(b".maps");
    system::copy_file(c"/proc/thread-self/maps", stem.as_ptr());
    stem.cut(without_ending);
}

/// Tells why there is no recording: one line to the user, and a file for the tool.
fn complain(failure: &Failure) {
    let reason: &[u8] = match failure.errno {
        libc::ENOENT => b"no such directory",
        libc::ENOTDIR => b"not a directory",
        libc::EACCES | libc::EPERM => b"permission denied; let the program's user write there",
        libc::ENOSPC | libc::EDQUOT => b"no space left; free some, or choose another directory",
        libc::EROFS => b"the file system is read-only; choose another directory",
        libc::ENOMEM => b"out of memory or address space",
        libc::EMFILE | libc::ENFILE => b"too many open files",
        _ => b"",
    };
    let mut line = system::Text::<512>::new();
    line.push(b"quaver: process ");
    // SAFETY: takes nothing.
    line.push_number(unsafe { libc::getpid() } as u64);
    line.push(b" runs unrecorded: could not ").push(failure.operation.as_bytes()).push(b": ");
    if reason.is_empty() {
        line.push(b"error ").push_number(failure.errno.unsigned_abs().into());
    } else {
        line.push(reason);
    }
    line.push(b"\n");
    system::write_all(libc::STDERR_FILENO, line.as_bytes());
    // SAFETY: NAMES is ours while MODE is STARTING.
    let stem = unsafe { &mut *NAMES.stem.get() };
    let without_ending = stem.len();
    if without_ending > 0 {
        stem.push(b".failed");
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        // SAFETY: a C string; the descriptor is closed here.
        unsafe {
            let file = libc::open(stem.as_ptr(), flags, 0o644);
            if file >= 0 {
                system::write_all(file, line.as_bytes());
                libc::close(file);
            }
        }
        stem.cut(without_ending);
    }
}

/// The image ends: the last anchor, and where code lies by now.
pub(crate) fn end(how: SyncEnd) {
    if !is_recording() {
        return;
    }
    let errno = system::errno();
    if segment::end(how) && !system::is_jailed() {
        write_maps();
    }
    system::set_errno(errno);
}
