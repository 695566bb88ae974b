//! The ring that the programs of `quaver sync` write, emptied by libbpf.

use libbpf_rs::libbpf_sys::{ring_buffer, ring_buffer__consume_n, ring_buffer__free, ring_buffer__new};
use quaver_abi::kernel_side::KernelSideRecord;
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null};
use zerocopy::FromBytes;

/// Records that are taken at once: more than the ring holds, so that a program which writes as fast as they are read does not
/// keep the reader for ever.
const MOST: u64 = 1 << 20;

/// Records gathered by one emptying.
type Gathered = Vec<KernelSideRecord>;

/// The reader's end.
pub(super) struct Ring {
    buffer: NonNull<ring_buffer>,
    /// Where libbpf's callback puts records: its address is known to libbpf, so it stays where it is.
    gathered: NonNull<Gathered>,
}

// SAFETY: neither libbpf's reader nor the list is tied to a thread, and both belong to this value alone.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring.
    pub(super) fn new(map: BorrowedFd<'_>) -> io::Result<Self> {
        let gathered = NonNull::from(Box::leak(Box::<Gathered>::default()));
        // SAFETY: the descriptor is that of a ring; the callback and its context live until `drop` frees both.
        let buffer =
            unsafe { ring_buffer__new(map.as_raw_fd(), Some(gather), gathered.as_ptr().cast(), null()) };
        match NonNull::new(buffer) {
            Some(buffer) => Ok(Self { buffer, gathered }),
            None => {
                let error = io::Error::last_os_error();
                // SAFETY: leaked above, and known to nobody since no reader was made.
                drop(unsafe { Box::from_raw(gathered.as_ptr()) });
                Err(error)
            }
        }
    }

    /// Hands over what is complete, nearly in the order of time.
    pub(super) fn drain(&mut self, take: &mut dyn FnMut(KernelSideRecord)) -> io::Result<()> {
        // SAFETY: the reader is alive; its callback touches the list only while this call lasts.
        let taken = unsafe { ring_buffer__consume_n(self.buffer.as_ptr(), MOST) };
        if taken < 0 {
            return Err(io::Error::from_raw_os_error(-taken));
        }
        // SAFETY: alive until `drop`, and no callback runs now.
        for record in unsafe { self.gathered.as_mut() }.drain(..) {
            take(record);
        }
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: made in `new` and freed once; after it nobody calls the callback.
        unsafe { ring_buffer__free(self.buffer.as_ptr()) };
        // SAFETY: leaked in `new` and freed once.
        drop(unsafe { Box::from_raw(self.gathered.as_ptr()) });
    }
}

/// Called by libbpf for each record.
unsafe extern "C" fn gather(context: *mut c_void, data: *mut c_void, size: u64) -> c_int {
    // SAFETY: the context is the list given to libbpf in `Ring::new`, used by nobody else while the ring is emptied.
    let gathered = unsafe { &mut *context.cast::<Gathered>() };
    // SAFETY: libbpf gives the address and the length of one complete record.
    let octets = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size as usize) };
    if let Ok((record, _)) = KernelSideRecord::read_from_prefix(octets) {
        gathered.push(record);
    }
    0
}
