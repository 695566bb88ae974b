//! libpcap, which is looked for when a filter or a comparison asks for it: what both use of it (pcap/pcap.h, pcap/bpf.h).

use libloading::{Error, Library};
use std::ffi::{CStr, c_uint};

/// Names under which distributions have it.
const NAMES: [&str; 3] = ["libpcap.so.1", "libpcap.so.0.8", "libpcap.so"];
/// The mask of the network where it is not known: `ip broadcast` is then refused.
pub(crate) const MASK_UNKNOWN: u32 = 0xffff_ffff;

/// struct bpf_program.
#[repr(C)]
pub(crate) struct Program {
    pub(crate) length: c_uint,
    pub(crate) instructions: *mut libc::sock_filter,
}

/// struct pcap_pkthdr; microseconds are nanoseconds where those were asked for.
#[repr(C)]
pub(crate) struct PacketHeader {
    pub(crate) time: libc::timeval,
    pub(crate) captured: u32,
    pub(crate) length: u32,
}

/// The library; none where it is not installed.
pub(crate) fn find() -> Option<Library> {
    // SAFETY: libpcap has no initialiser that could do harm, and is looked for in the system's places only.
    NAMES.iter().find_map(|name| unsafe { Library::new(*name) }.ok())
}

/// A function of it.
///
/// # Safety
/// `T` is the type of the function.
pub(crate) unsafe fn symbol<T: Copy>(library: &Library, name: &CStr) -> Result<T, Error> {
    // SAFETY: as the caller promises.
    unsafe { library.get::<T>(name.to_bytes_with_nul()) }.map(|symbol| *symbol)
}
