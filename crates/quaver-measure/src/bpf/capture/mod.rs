//! The programs of `quaver capture`: a stamp before the kernel has made a packet buffer (XDP), one at the ingress hook
//! (TC), and the records in which both arrive here.
//!
//! Programs hang on links that are descriptors of this process, so they are gone when it is, however it ends.

mod records;
#[cfg(test)]
mod tests;

pub(crate) use records::Records;

use super::load::{failed, one_at_a_time};
use crate::host::trace::TraceError;
use libbpf_rs::libbpf_sys::{
    BPF_F_BEFORE, BPF_TCX_INGRESS, BPF_XDP, bpf_attach_type, bpf_link_create, bpf_link_create_opts,
};
use libbpf_rs::{MapCore as _, Object, ObjectBuilder};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

#[repr(C, align(8))]
struct Aligned<B: ?Sized>(B);
static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/capture.bpf.o")));

const XDP: &str = "capture_xdp";
const TC: &str = "capture_tc";

/// Where the XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum XdpMode {
    /// In the driver, before a packet buffer is made.
    Native,
    /// In the stack, after the kernel's own stamp.
    Generic,
}

/// The programs in the kernel, not attached to anything.
pub(crate) struct CapturePrograms {
    object: Object,
}

/// A program that is attached until this is dropped.
#[derive(Debug)]
pub(crate) struct Attached {
    _link: OwnedFd,
}

impl CapturePrograms {
    /// Loads the programs; without `xdp`, only that of TC.
    pub(crate) fn load(xdp: bool) -> Result<Self, TraceError> {
        one_at_a_time(|| {
            let mut open = ObjectBuilder::default()
                .open_memory(&OBJECT.0)
                .map_err(|error| failed("opening the BPF programs of the capture", &error))?;
            for mut program in open.progs_mut() {
                let wanted = xdp || program.name() == TC;
                program.set_autoload(wanted);
            }
            let object =
                open.load().map_err(|error| failed("loading the BPF programs of the capture", &error))?;
            Ok(Self { object })
        })
    }

    /// Attaches the XDP program to the interface with this index in the calling thread's namespace.
    pub(crate) fn attach_xdp(&self, interface: u32, mode: XdpMode) -> io::Result<Attached> {
        // linux/if_link.h: XDP_FLAGS_SKB_MODE and XDP_FLAGS_DRV_MODE.
        let flags = match mode {
            XdpMode::Generic => 1 << 1,
            XdpMode::Native => 1 << 2,
        };
        self.attach(XDP, interface, BPF_XDP, flags)
    }

    /// Attaches the TC program before the interface's ingress hook (tcx, since Linux 6.6), as the first there: one before
    /// it that passes a packet on, redirects or drops it would keep it from ours.
    pub(crate) fn attach_tc(&self, interface: u32) -> io::Result<Attached> {
        self.attach(TC, interface, BPF_TCX_INGRESS, BPF_F_BEFORE)
            .or_else(|_| self.attach(TC, interface, BPF_TCX_INGRESS, 0))
    }

    fn attach(&self, name: &str, interface: u32, hook: bpf_attach_type, flags: u32) -> io::Result<Attached> {
        let program = self.object.progs().find(|program| program.name() == name);
        let program = program.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        link(program.as_fd(), interface, hook, flags)
    }

    /// What the programs write.
    pub(crate) fn records(&self) -> io::Result<Records> {
        Records::map(self.map("layer_records")?, self.map("layer_lost")?)
    }

    fn map(&self, name: &str) -> io::Result<(BorrowedFd<'_>, u32)> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("the object has no map {name}"));
        let map = self.object.maps().find(|map| map.name() == name).ok_or_else(missing)?;
        // SAFETY: the map, and its descriptor, live as long as the object, which the answer borrows.
        let descriptor = unsafe { BorrowedFd::borrow_raw(map.as_fd().as_raw_fd()) };
        Ok((descriptor, map.max_entries()))
    }
}

/// Hangs a program on a hook of an interface.
fn link(program: BorrowedFd<'_>, interface: u32, hook: bpf_attach_type, flags: u32) -> io::Result<Attached> {
    let interface = i32::try_from(interface).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    let options =
        bpf_link_create_opts { sz: size_of::<bpf_link_create_opts>() as _, flags, ..Default::default() };
    // SAFETY: the options are of the size that they say and live through the call.
    let link = unsafe { bpf_link_create(program.as_raw_fd(), interface, hook, &raw const options) };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    // SAFETY: the descriptor was made just now and belongs to nobody else.
    Ok(Attached { _link: unsafe { OwnedFd::from_raw_fd(link) } })
}
