//! What a program of one's own on libpcap does: it takes each packet with its nanosecond stamp, counts it, and writes
//! nothing. libpcap is looked for when it is asked for.

use super::CompareError;
use crate::record::libpcap::{self, MASK_UNKNOWN, PacketHeader, Program};
use libloading::Library;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// PCAP_TSTAMP_PRECISION_NANO (pcap/pcap.h).
const NANOSECONDS: c_int = 1;
/// PCAP_ERRBUF_SIZE.
const ERROR_BYTES: usize = 256;
/// How long packets may wait in the kernel for more to come, milliseconds.
const TIMEOUT_MS: c_int = 100;
/// Between looks at the end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// What to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibpcapPlan {
    /// Interface.
    pub interface: String,
    /// Filter in libpcap's language.
    pub filter: String,
    /// Bytes kept of each packet.
    pub snap_bytes: u32,
    /// Buffer that the kernel may fill.
    pub buffer_bytes: u32,
}

/// What was captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LibpcapCount {
    /// Packets that libpcap handed over.
    pub captured: u64,
    /// Bytes of them.
    pub octets: u64,
    /// Packets with an earlier stamp than the one before.
    pub backwards: u64,
    /// Packets that passed the filter, by `pcap_stats`.
    pub received: u64,
    /// Of those, dropped for want of room.
    pub dropped: u64,
}

/// struct pcap_stat (pcap/pcap.h).
#[repr(C)]
#[derive(Default)]
struct Statistics {
    received: c_uint,
    dropped: c_uint,
    dropped_by_interface: c_uint,
}

type Handle = *mut c_void;
type Callback = unsafe extern "C" fn(*mut u8, *const PacketHeader, *const u8);
type SetNumber = unsafe extern "C" fn(Handle, c_int) -> c_int;

/// The functions of libpcap that are used, by their types in pcap/pcap.h.
struct Functions {
    create: unsafe extern "C" fn(*const c_char, *mut c_char) -> Handle,
    set_snap: SetNumber,
    set_timeout: SetNumber,
    set_buffer: SetNumber,
    set_precision: SetNumber,
    activate: unsafe extern "C" fn(Handle) -> c_int,
    set_nonblock: unsafe extern "C" fn(Handle, c_int, *mut c_char) -> c_int,
    compile: unsafe extern "C" fn(Handle, *mut Program, *const c_char, c_int, u32) -> c_int,
    set_filter: unsafe extern "C" fn(Handle, *mut Program) -> c_int,
    free_code: unsafe extern "C" fn(*mut Program),
    descriptor: unsafe extern "C" fn(Handle) -> c_int,
    dispatch: unsafe extern "C" fn(Handle, c_int, Callback, *mut u8) -> c_int,
    statistics: unsafe extern "C" fn(Handle, *mut Statistics) -> c_int,
    error: unsafe extern "C" fn(Handle) -> *const c_char,
    close: unsafe extern "C" fn(Handle),
    /// Holds the functions.
    _library: Library,
}

fn failed(operation: &str, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> CompareError {
    CompareError::os(operation, io::Error::other(why))
}

/// # Safety
/// `T` is the type of the function.
unsafe fn symbol<T: Copy>(library: &Library, name: &CStr) -> Result<T, CompareError> {
    // SAFETY: as the caller promises.
    unsafe { libpcap::symbol(library, name) }.map_err(|e| failed("use libpcap (1.5 or newer)", e))
}

impl Functions {
    fn load() -> Result<Self, CompareError> {
        let library = libpcap::find().ok_or_else(|| {
            failed("load libpcap", "it is not installed (Debian, Ubuntu: apt install libpcap0.8)")
        })?;
        // SAFETY: each type is that of the documented function.
        unsafe {
            Ok(Self {
                create: symbol(&library, c"pcap_create")?,
                set_snap: symbol(&library, c"pcap_set_snaplen")?,
                set_timeout: symbol(&library, c"pcap_set_timeout")?,
                set_buffer: symbol(&library, c"pcap_set_buffer_size")?,
                set_precision: symbol(&library, c"pcap_set_tstamp_precision")?,
                activate: symbol(&library, c"pcap_activate")?,
                set_nonblock: symbol(&library, c"pcap_setnonblock")?,
                compile: symbol(&library, c"pcap_compile")?,
                set_filter: symbol(&library, c"pcap_setfilter")?,
                free_code: symbol(&library, c"pcap_freecode")?,
                descriptor: symbol(&library, c"pcap_get_selectable_fd")?,
                dispatch: symbol(&library, c"pcap_dispatch")?,
                statistics: symbol(&library, c"pcap_stats")?,
                error: symbol(&library, c"pcap_geterr")?,
                close: symbol(&library, c"pcap_close")?,
                _library: library,
            })
        }
    }
}

/// An open capture; closed when dropped.
struct Capture {
    functions: Functions,
    handle: Handle,
}

impl Drop for Capture {
    fn drop(&mut self) {
        // SAFETY: the handle came from `pcap_create` and is closed here only.
        unsafe { (self.functions.close)(self.handle) };
    }
}

impl Capture {
    fn open(plan: &LibpcapPlan) -> Result<Self, CompareError> {
        let functions = Functions::load()?;
        let operation = format!("capture on {} by libpcap", plan.interface);
        let text = |words: &str| CString::new(words).map_err(|e| failed(&operation, e));
        let (interface, filter) = (text(&plan.interface)?, text(&plan.filter)?);
        let mut error = [0; ERROR_BYTES];
        // SAFETY: the name is NUL-terminated, and the error text has the room that libpcap asks for.
        let handle = unsafe { (functions.create)(interface.as_ptr(), error.as_mut_ptr()) };
        if handle.is_null() {
            // SAFETY: libpcap has written a NUL-terminated text.
            let why = unsafe { CStr::from_ptr(error.as_ptr()) }.to_string_lossy().into_owned();
            return Err(failed(&operation, why));
        }
        let capture = Self { functions, handle };
        let number = |value: u32| value.min(i32::MAX as u32) as c_int;
        let Functions { set_snap, set_timeout, set_buffer, set_precision, activate, .. } = &capture.functions;
        // SAFETY: the handle is valid and not active yet, as these functions want it.
        unsafe {
            set_snap(handle, number(plan.snap_bytes));
            set_timeout(handle, TIMEOUT_MS);
            set_buffer(handle, number(plan.buffer_bytes));
            capture.check(&operation, set_precision(handle, NANOSECONDS))?;
            // Warnings are above zero.
            capture.check(&operation, activate(handle).min(0))?;
        }
        let mut program = Program { length: 0, instructions: std::ptr::null_mut() };
        let Functions { compile, set_filter, free_code, set_nonblock, .. } = &capture.functions;
        // SAFETY: the handle is active; the filter is NUL-terminated; the program is filled, used and then freed by libpcap.
        unsafe {
            capture.check(&operation, compile(handle, &raw mut program, filter.as_ptr(), 1, MASK_UNKNOWN))?;
            let set = set_filter(handle, &raw mut program);
            free_code(&raw mut program);
            capture.check(&operation, set)?;
            capture.check(&operation, set_nonblock(handle, 1, error.as_mut_ptr()))?;
        }
        Ok(capture)
    }

    /// The error that libpcap tells, if `code` is one.
    fn check(&self, operation: &str, code: c_int) -> Result<c_int, CompareError> {
        if code >= 0 {
            return Ok(code);
        }
        // SAFETY: the handle is valid, and so is its error text until the next call.
        let why = unsafe { CStr::from_ptr((self.functions.error)(self.handle)) };
        Err(failed(operation, why.to_string_lossy().into_owned()))
    }

    /// Takes what is there; how many packets that were.
    fn dispatch(&self, seen: &mut CallbackState) -> Result<c_int, CompareError> {
        // SAFETY: the callback gets `seen`, which lives through the call and which nobody else uses meanwhile.
        let taken = unsafe { (self.functions.dispatch)(self.handle, -1, take, (&raw mut *seen).cast()) };
        self.check("read packets by libpcap", taken)
    }

    fn count(&self, seen: &CallbackState) -> Result<LibpcapCount, CompareError> {
        let mut statistics = Statistics::default();
        // SAFETY: the handle is valid, and the numbers are written to `statistics`.
        let told = unsafe { (self.functions.statistics)(self.handle, &raw mut statistics) };
        self.check("read the counts of libpcap", told)?;
        let Statistics { received, dropped, .. } = statistics;
        Ok(LibpcapCount { received: received.into(), dropped: dropped.into(), ..seen.count })
    }
}

/// What the callback knows.
#[derive(Default)]
struct CallbackState {
    count: LibpcapCount,
    last: (i64, i64),
}

/// Called by libpcap for each packet.
unsafe extern "C" fn take(seen: *mut u8, header: *const PacketHeader, _: *const u8) {
    // SAFETY: `Capture::dispatch` passes a `Seen` that nothing else borrows, and libpcap a header, both for this call.
    let (seen, header) = unsafe { (&mut *seen.cast::<CallbackState>(), &*header) };
    let time = (header.time.tv_sec, header.time.tv_usec);
    seen.count.captured += 1;
    seen.count.octets += u64::from(header.captured);
    seen.count.backwards += u64::from(time < seen.last);
    seen.last = time;
}

/// Captures until `stop` is set, then takes what is left; `ready` is called as soon as packets are captured.
///
/// # Errors
/// Without libpcap or the right to capture, or where the interface or the filter is none.
pub fn count_by_libpcap(
    plan: &LibpcapPlan,
    stop: &AtomicBool,
    ready: impl FnOnce(),
) -> Result<LibpcapCount, CompareError> {
    let capture = Capture::open(plan)?;
    // SAFETY: the handle is valid.
    let descriptor = unsafe { (capture.functions.descriptor)(capture.handle) };
    if descriptor < 0 {
        return Err(failed("wait for packets by libpcap", "this interface cannot be waited for"));
    }
    // SAFETY: libpcap keeps the descriptor open for as long as the handle, which outlives this borrow.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let mut seen = CallbackState::default();
    ready();
    let mut end = None;
    while end.is_none_or(|end| Instant::now() < end) {
        if end.is_none() && stop.load(Ordering::Relaxed) {
            // What came until now is handed over by then.
            end = Some(Instant::now() + Duration::from_millis(3 * TIMEOUT_MS as u64));
        }
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&LOOK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(CompareError::os("wait for packets by libpcap", error)),
        }
        capture.dispatch(&mut seen)?;
    }
    capture.count(&seen)
}
