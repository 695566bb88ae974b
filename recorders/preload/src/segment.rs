//! The file of one process image: made once, mapped whole, handed out by chunks.
//!
//! The file is sparse and its room large; the mapping is the only hold on it, since a program may close every
//! descriptor that it did not open. What lies beyond the chunks handed out is mapped without access, so that a
//! program that locks its memory (`mlockall`) locks only what is used. A chunk's pages are made present and
//! writable before it is handed out, which is also where a full file system is noticed: a store never faults.

use crate::system::{self, Text};
use quaver_abi::segment::BYTE_ORDER;
use quaver_abi::sync::{
    PAGE_BYTES, SYNC_MAGIC, SYNC_VERSION, SyncEnd, SyncRecord, SyncSegmentHeader, TEXT_BYTES,
};
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Most bytes of a path.
pub(crate) const PATH_BYTES: usize = 4096;
/// A path, as a C string.
pub(crate) type Path = Text<PATH_BYTES>;

/// Pages opened for access at a time.
const OPEN_PAGES: u64 = 1024;
/// Pages made present at the start: header, and the first chunks of some threads.
const FIRST_PAGES: u64 = 32;
/// Least room that is worth beginning with.
const LEAST_OCTETS: u64 = 1 << 20;
/// Part of the address space that a program allows itself (RLIMIT_AS) which a segment may take.
const PART_OF_ADDRESSES: u64 = 16;
/// Room where pages cannot be made present ahead of use (Linux before 5.14): all of it is reserved at once.
const RESERVED_OCTETS: u64 = 64 << 20;

static BASE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static ROOM: AtomicU64 = AtomicU64::new(0);
static OPEN: AtomicU64 = AtomicU64::new(0);
static CAN_POPULATE: AtomicBool = AtomicBool::new(true);
static FULL: AtomicBool = AtomicBool::new(false);

/// What could not be done, for the one line that the user gets.
pub(crate) struct Failure {
    pub(crate) operation: &'static str,
    pub(crate) errno: i32,
}

fn failure(operation: &'static str) -> Failure {
    Failure { operation, errno: system::errno() }
}

fn counter(offset: usize) -> Option<&'static AtomicU64> {
    let base = BASE.load(Ordering::Acquire);
    if base.is_null() {
        return None;
    }
    // SAFETY: the header is mapped for as long as the process lives, and the field is an aligned u64.
    Some(unsafe { &*base.add(offset).cast::<AtomicU64>() })
}

/// Adds one to a count of the header; what it was.
fn add(offset: usize) -> u64 {
    counter(offset).map_or(0, |counter| counter.fetch_add(1, Ordering::Relaxed))
}

/// Number of a new ring.
pub(crate) fn number_thread() -> u32 {
    add(offset_of!(SyncSegmentHeader, threads)) as u32
}

/// A thread got no ring.
pub(crate) fn count_lost_thread() {
    add(offset_of!(SyncSegmentHeader, threads_lost));
}

/// Number of a creation, from 1.
pub(crate) fn number_creation() -> u32 {
    (add(offset_of!(SyncSegmentHeader, creations)) as u32).wrapping_add(1)
}

/// Bytes of room: what was asked for, what half of the free space and the limits on files and addresses allow.
fn room_octets(file: i32, wanted: u64) -> u64 {
    let mut room = wanted;
    // SAFETY: plain data, valid as zeros; the calls fill it.
    unsafe {
        let mut space: libc::statvfs = std::mem::zeroed();
        if libc::fstatvfs(file, &raw mut space) == 0 {
            let free = (space.f_bavail as u64).saturating_mul(space.f_frsize as u64);
            room = room.min(free / 2);
        }
    }
    let limit_octets = |resource| {
        // SAFETY: plain data, valid as zeros; the call fills it.
        unsafe {
            let mut limit: libc::rlimit = std::mem::zeroed();
            let known =
                libc::getrlimit(resource, &raw mut limit) == 0 && limit.rlim_cur != libc::RLIM_INFINITY;
            known.then_some(limit.rlim_cur)
        }
    };
    if let Some(octets) = limit_octets(libc::RLIMIT_FSIZE) {
        room = room.min(octets);
    }
    if let Some(octets) = limit_octets(libc::RLIMIT_AS) {
        room = room.min(octets / PART_OF_ADDRESSES);
    }
    room / (PAGE_BYTES as u64) * (PAGE_BYTES as u64)
}

/// Makes the file at `path` (which must not exist), maps it, and fills in its header. `first` is an anchor.
pub(crate) fn create(
    path: &Path,
    exec_number: u32,
    start_ticks: u64,
    wanted: u64,
    first: (u64, i64),
) -> Result<(), Failure> {
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    // SAFETY: a C string; the descriptor is closed below.
    let file = unsafe { libc::open(path.as_ptr(), flags, 0o644) };
    if file < 0 {
        return Err(failure("make a file in QUAVER_SYNC_DIR"));
    }
    let made = map(file, wanted);
    // SAFETY: opened above.
    unsafe { libc::close(file) };
    match made {
        Ok((base, room)) => {
            fill_header(base, room, exec_number, start_ticks, first);
            ROOM.store(room, Ordering::Relaxed);
            FULL.store(false, Ordering::Relaxed);
            BASE.store(base, Ordering::Release);
            Ok(())
        }
        Err(failure) => {
            // SAFETY: a C string.
            unsafe { libc::unlink(path.as_ptr()) };
            Err(failure)
        }
    }
}

/// Maps the file; where, and how many pages it has.
fn map(file: i32, wanted: u64) -> Result<(*mut u8, u64), Failure> {
    let mut octets = room_octets(file, wanted);
    loop {
        if octets < LEAST_OCTETS {
            system::set_errno(libc::ENOSPC);
            return Err(failure("find a mebibyte of room in QUAVER_SYNC_DIR"));
        }
        // SAFETY: a new mapping of our own file at an address of the kernel's choice.
        let base = unsafe {
            if libc::ftruncate(file, octets as i64) != 0 {
                return Err(failure("size a file in QUAVER_SYNC_DIR"));
            }
            let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), octets as usize, libc::PROT_NONE, flags, file, 0)
        };
        if base != libc::MAP_FAILED {
            return make_ready(file, base.cast::<u8>(), octets);
        }
        // A limit on address space: less will do.
        octets = octets / 2 / (PAGE_BYTES as u64) * (PAGE_BYTES as u64);
    }
}

fn make_ready(file: i32, base: *mut u8, octets: u64) -> Result<(*mut u8, u64), Failure> {
    let pages = octets / (PAGE_BYTES as u64);
    let give_up = |operation| {
        let failed = failure(operation);
        // SAFETY: the mapping that was just made and that nobody knows.
        unsafe { libc::munmap(base.cast(), octets as usize) };
        Err(failed)
    };
    // SAFETY: the range is that of the mapping. A dump of memory has no use for it.
    unsafe { libc::madvise(base.cast(), octets as usize, libc::MADV_DONTDUMP) };
    OPEN.store(0, Ordering::Relaxed);
    if !open_up_to(base, pages, OPEN_PAGES.min(pages)) {
        return give_up("map a file in QUAVER_SYNC_DIR");
    }
    CAN_POPULATE.store(true, Ordering::Relaxed);
    match populate(base, FIRST_PAGES.min(pages)) {
        Ok(()) => Ok((base, pages)),
        Err(libc::EINVAL) => {
            CAN_POPULATE.store(false, Ordering::Relaxed);
            let reserved = octets.min(RESERVED_OCTETS);
            // SAFETY: our own file.
            let refused = unsafe { libc::posix_fallocate(file, 0, reserved as i64) };
            if refused != 0 {
                system::set_errno(refused);
                return give_up("reserve room in QUAVER_SYNC_DIR");
            }
            Ok((base, reserved / (PAGE_BYTES as u64)))
        }
        Err(errno) => {
            // The kernel says EFAULT where a store would have met a full file system.
            system::set_errno(if errno == libc::EFAULT { libc::ENOSPC } else { errno });
            give_up("reserve room in QUAVER_SYNC_DIR")
        }
    }
}

/// Opens the mapping for access up to that page at least.
fn open_up_to(base: *mut u8, room: u64, page: u64) -> bool {
    let open = OPEN.load(Ordering::Acquire);
    if page <= open {
        return true;
    }
    let to = page.saturating_add(OPEN_PAGES).min(room);
    let octets = to.wrapping_sub(open).wrapping_mul(PAGE_BYTES as u64);
    // SAFETY: a range inside our mapping. Two threads may open the same range: the second changes nothing.
    let opened = unsafe {
        let from = base.add((open as usize).wrapping_mul(PAGE_BYTES));
        libc::mprotect(from.cast(), octets as usize, libc::PROT_READ | libc::PROT_WRITE) == 0
    };
    if opened {
        OPEN.fetch_max(to, Ordering::AcqRel);
    }
    opened
}

/// Makes pages present and writable.
fn populate(from: *mut u8, pages: u64) -> Result<(), i32> {
    let octets = (pages as usize).wrapping_mul(PAGE_BYTES);
    if CAN_POPULATE.load(Ordering::Relaxed) {
        // SAFETY: a range inside our mapping that is open for access; populating changes no contents.
        let done = unsafe { libc::madvise(from.cast(), octets, libc::MADV_POPULATE_WRITE) };
        return if done == 0 { Ok(()) } else { Err(system::errno()) };
    }
    for page in 0..pages as usize {
        // SAFETY: as above, and the blocks are reserved.
        unsafe {
            let octet = from.add(page.wrapping_mul(PAGE_BYTES));
            octet.write_volatile(octet.read_volatile());
        }
    }
    Ok(())
}

/// Whether there is no more room.
pub(crate) fn is_full() -> bool {
    FULL.load(Ordering::Relaxed)
}

/// Hands out a chunk of pages, present, writable and zero; none once there is no more room.
pub(crate) fn take_chunk(pages: u64) -> Option<*mut u8> {
    if FULL.load(Ordering::Relaxed) {
        return None;
    }
    let base = BASE.load(Ordering::Acquire);
    let used = counter(offset_of!(SyncSegmentHeader, pages_used))?;
    let first = used.fetch_add(pages, Ordering::Relaxed);
    let end = first.saturating_add(pages);
    let room = ROOM.load(Ordering::Relaxed);
    if end > room || !open_up_to(base, room, end) {
        FULL.store(true, Ordering::Relaxed);
        return None;
    }
    // SAFETY: inside the mapping, as just checked.
    let chunk = unsafe { base.add((first as usize).wrapping_mul(PAGE_BYTES)) };
    if end > FIRST_PAGES && populate(chunk, pages).is_err() {
        FULL.store(true, Ordering::Relaxed);
        return None;
    }
    Some(chunk)
}

fn fill_header(base: *mut u8, room: u64, exec_number: u32, start_ticks: u64, first: (u64, i64)) {
    let header = base.cast::<SyncSegmentHeader>();
    let mut exe = [0u8; PATH_BYTES];
    // SAFETY: a C string and a buffer with its length.
    let exe_bytes = unsafe {
        let link = c"/proc/self/exe";
        libc::readlink(link.as_ptr(), exe.as_mut_ptr().cast(), TEXT_BYTES / 2)
    }
    .max(0) as usize;
    // SAFETY: page 0 of a mapping that is open, present, ours, and zero; nobody else knows it yet.
    unsafe {
        let text = (&raw mut (*header).text).cast::<u8>();
        std::ptr::copy_nonoverlapping(exe.as_ptr(), text, exe_bytes);
        let arguments = exe_bytes.wrapping_add(1);
        let rest = std::slice::from_raw_parts_mut(text.add(arguments), TEXT_BYTES.wrapping_sub(arguments));
        let argv_bytes = system::read_file(c"/proc/self/cmdline", rest);
        (*header).version = SYNC_VERSION;
        (*header).byte_order = BYTE_ORDER;
        (*header).record_bytes = size_of::<SyncRecord>() as u32;
        (*header).page_bytes = PAGE_BYTES as u32;
        (*header).pid = libc::getpid() as u32;
        (*header).parent = libc::getppid() as u32;
        (*header).exec_number = exec_number;
        (*header).exe_bytes = exe_bytes as u32;
        (*header).argv_bytes = argv_bytes as u32;
        (*header).start_ticks = start_ticks;
        (*header).created_realtime_ns = system::realtime_ns();
        (*header).first_cycles = first.0;
        (*header).first_monotonic_ns = first.1;
        (*header).pages_used = 1;
        (*header).pages_room = room;
        (*header.cast::<AtomicU64>()).store(u64::from_ne_bytes(SYNC_MAGIC), Ordering::Release);
    }
}

/// Keeps an anchor as the latest, for images that are killed. A thread that meets another at it leaves it alone.
pub(crate) fn keep_anchor(cycles: u64, monotonic_ns: i64) {
    static KEEPING: AtomicBool = AtomicBool::new(false);
    let fields = (
        counter(offset_of!(SyncSegmentHeader, last_cycles)),
        counter(offset_of!(SyncSegmentHeader, last_monotonic_ns)),
    );
    if let (Some(last_cycles), Some(last_ns)) = fields
        && !KEEPING.swap(true, Ordering::Acquire)
    {
        last_ns.store(0, Ordering::Release);
        last_cycles.store(cycles, Ordering::Release);
        last_ns.store(monotonic_ns.unsigned_abs(), Ordering::Release);
        KEEPING.store(false, Ordering::Release);
    }
}

/// Says in the header that the image ends, with a last anchor. Threads that still run may go on writing. Whether
/// it was this process's to say.
pub(crate) fn end(how: SyncEnd) -> bool {
    let base = BASE.load(Ordering::Acquire);
    if base.is_null() {
        return false;
    }
    let header = base.cast::<SyncSegmentHeader>();
    let ended = |header: *mut SyncSegmentHeader| {
        // SAFETY: page 0 is mapped for as long as the process lives.
        unsafe { (*(&raw mut (*header).ended).cast::<AtomicU32>()).store(how as u32, Ordering::Release) };
    };
    if system::is_jailed() {
        ended(header);
        return true;
    }
    // SAFETY: page 0 is mapped for as long as the process lives. A child that shares our memory (`vfork`) must
    // not end its parent's recording, hence the look at the process id.
    unsafe {
        if (*header).pid != libc::getpid() as u32 {
            return false;
        }
        let (cycles, monotonic_ns) = system::anchor();
        keep_anchor(cycles, monotonic_ns);
    }
    ended(header);
    true
}

/// The program is about to limit its address space to so many bytes: lets go of addresses beyond its part of them, and of none in
/// use. A thread that takes a chunk meanwhile has it in the mebibyte that is left at least.
pub(crate) fn limit_addresses(octets: u64) {
    let base = BASE.load(Ordering::Acquire);
    if base.is_null() || system::is_jailed() {
        return;
    }
    let header = base.cast::<SyncSegmentHeader>();
    // SAFETY: page 0 is mapped for as long as the process lives. A child that shares our memory (`vfork`) limits itself alone.
    if unsafe { (*header).pid != libc::getpid() as u32 } {
        return;
    }
    let page_octets = PAGE_BYTES as u64;
    let used =
        counter(offset_of!(SyncSegmentHeader, pages_used)).map_or(0, |used| used.load(Ordering::Relaxed));
    let least = used.saturating_add(LEAST_OCTETS / page_octets);
    let room = least.max(octets / PART_OF_ADDRESSES / page_octets);
    let before = ROOM.fetch_min(room, Ordering::AcqRel);
    let Some(pages) = before.checked_sub(room).filter(|pages| *pages > 0) else { return };
    OPEN.fetch_min(room, Ordering::AcqRel);
    if let Some(in_header) = counter(offset_of!(SyncSegmentHeader, pages_room)) {
        in_header.store(room, Ordering::Relaxed);
    }
    let octets_of = |pages: u64| (pages as usize).wrapping_mul(PAGE_BYTES);
    let errno = system::errno();
    // SAFETY: the end of our mapping, of which no chunk was handed out, and none will be.
    unsafe { libc::munmap(base.add(octets_of(room)).cast(), octets_of(pages)) };
    system::set_errno(errno);
}

/// In the child of a fork: lets go of the parent's segment.
pub(crate) fn forget() {
    let base = BASE.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // Not unmapped: a signal handler of this very thread may have been interrupted half-way through a record.
    // The pages are shared with the parent and cost the child nothing.
    let _ = base;
}
