//! The programs of `quaver capture`: a stamp before the kernel has made a packet buffer (XDP), one at the ingress hook
//! (TC), and the records in which both arrive here.
//!
//! Programs hang on links that are descriptors of this process, so they are gone when it is, however it ends; on kernels
//! that have no such link for the ingress hook, on a filter ([`clsact`]).

mod clsact;
pub(crate) mod cost;
pub(crate) mod raw;
mod records;
#[cfg(test)]
mod tests;

pub(crate) use clsact::{Filter, Remover};
pub(crate) use records::{Records, TC_IN_CYCLES, XDP_IN_CYCLES};

use libbpf_rs::libbpf_sys::{
    BPF_F_BEFORE, BPF_TCX_INGRESS, BPF_XDP, bpf_attach_type, bpf_link_create, bpf_link_create_opts,
};
use libbpf_rs::{MapCore as _, Object, ObjectBuilder};
use quaver_host::bpf::kernel_types;
use quaver_host::bpf::load::{Aligned, failed, one_at_a_time};
use quaver_host::bpf::programs::COUNTER;
use quaver_host::trace::TraceError;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/capture.bpf.o")));
/// The same programs, which read the cycle counter where the kernel lets them; it has to describe its types for that.
static CYCLES_OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/capture_cycles.bpf.o")));
static DEVICE_OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/capture_device.bpf.o")));

const XDP: &str = "capture_xdp";
const TC: &str = "capture_tc";
const RECORDS: &str = "layer_records";

/// Bytes of a record with its header in the memory that the programs write.
const RECORD_BYTES: u64 = 56;
/// Bytes that the smallest packet takes in a ring of packets: its header, its place, and 60 bytes of Ethernet, as
/// multiples of 16 (net/packet/af_packet.c).
const LEAST_PACKET_BYTES: u64 = 144;
/// A page of any size, and what nobody needs more of.
const RECORDS_BYTES: (u64, u64) = (1 << 16, 1 << 28);

/// Bytes of memory for records of all packets that rings of so many bytes have room for: a power of two, as the kernel
/// wants it.
fn records_bytes(rings_bytes: u64) -> u32 {
    let wanted = rings_bytes.div_ceil(LEAST_PACKET_BYTES).saturating_mul(RECORD_BYTES);
    wanted.clamp(RECORDS_BYTES.0, RECORDS_BYTES.1).next_power_of_two() as u32
}

/// Whether the kernel shows that it lets programs read the cycle counter.
pub(crate) fn counter_is_shown() -> bool {
    kernel_types().is_ok_and(|types| types.functions.contains(COUNTER))
}

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
pub(crate) enum Attached {
    /// By a link, which goes with the process.
    Link { _link: OwnedFd },
    /// By a filter, which has to be removed.
    Filter(Filter),
}

impl CapturePrograms {
    /// Loads the programs, with room for the records of all packets in rings of so many bytes; without `xdp`, only that
    /// of TC. With `cycles` they stamp by the cycle counter where the kernel shows that it lets programs read it.
    pub(crate) fn load(xdp: bool, rings_bytes: u64, cycles: bool) -> Result<Self, TraceError> {
        let by_cycles = cycles && counter_is_shown();
        let loaded = by_cycles.then(|| Self::load_from(CYCLES_OBJECT, xdp, rings_bytes).ok()).flatten();
        loaded.map_or_else(|| Self::load_from(OBJECT, xdp, rings_bytes), Ok)
    }

    fn load_from(from: &Aligned<[u8]>, xdp: bool, rings_bytes: u64) -> Result<Self, TraceError> {
        one_at_a_time(|| {
            let mut open = ObjectBuilder::default()
                .open_memory(&from.0)
                .map_err(|error| failed("opening the BPF programs of the capture", &error))?;
            for mut program in open.progs_mut() {
                let wanted = xdp || program.name() == TC;
                program.set_autoload(wanted);
            }
            for mut map in open.maps_mut().filter(|map| map.name() == RECORDS) {
                map.set_max_entries(records_bytes(rings_bytes))
                    .map_err(|error| failed("sizing the memory of the capture's programs", &error))?;
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

    /// Loads the XDP program for the device of the interface with this index, and attaches it there in the driver: it
    /// brings along what the driver tells XDP programs. It stamps by the cycle counter where the kernel lets it, so it is
    /// not for whoever cannot convert that (`cycles`).
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the driver tells them nothing, and what the kernel says else: it has to be Linux 6.3 or newer,
    /// with its types.
    pub(crate) fn attach_device_xdp(interface: u32, cycles: bool) -> Result<Attached, TraceError> {
        /// linux/bpf.h.
        const BPF_F_XDP_DEV_BOUND_ONLY: u32 = 1 << 6;
        if !cycles && counter_is_shown() {
            return Err(TraceError::NotSupported {
                operation: "stamping by the kernel's clock in the BPF program for a device".to_owned(),
                remedy: "the other XDP program does".to_owned(),
            });
        }
        let object = one_at_a_time(|| {
            let mut open = ObjectBuilder::default()
                .open_memory(&DEVICE_OBJECT.0)
                .map_err(|error| failed("opening the BPF program for a device", &error))?;
            for mut program in open.progs_mut() {
                program.set_ifindex(interface);
                program.set_flags(BPF_F_XDP_DEV_BOUND_ONLY);
            }
            open.load().map_err(|error| failed("loading the BPF program for a device", &error))
        })?;
        let attached = match object.progs().next() {
            Some(program) => link(program.as_fd(), interface, BPF_XDP, 1 << 2),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        // The link keeps the program.
        attached.map_err(|source| TraceError::Os {
            operation: "attaching the BPF program for a device".to_owned(),
            source,
        })
    }

    /// Attaches the TC program before the interface's ingress hook (tcx, since Linux 6.6), as the first there: one before
    /// it that passes a packet on, redirects or drops it would keep it from ours.
    pub(crate) fn attach_tc(&self, interface: u32) -> io::Result<Attached> {
        self.attach(TC, interface, BPF_TCX_INGRESS, BPF_F_BEFORE)
            .or_else(|_| self.attach(TC, interface, BPF_TCX_INGRESS, 0))
    }

    /// Attaches the TC program by a filter at the interface's ingress hook, as kernels from 4.5 on have it. It outlives
    /// a process that is killed, until the next of ours comes.
    pub(crate) fn attach_clsact(&self, interface: u32) -> io::Result<Attached> {
        Filter::hang(self.program(TC)?, interface).map(Attached::Filter)
    }

    fn attach(&self, name: &str, interface: u32, hook: bpf_attach_type, flags: u32) -> io::Result<Attached> {
        link(self.program(name)?, interface, hook, flags)
    }

    fn program(&self, name: &str) -> io::Result<BorrowedFd<'_>> {
        let program = self.object.progs().find(|program| program.name() == name);
        let program = program.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        // SAFETY: the program, and its descriptor, live as long as the object, which the answer borrows.
        Ok(unsafe { BorrowedFd::borrow_raw(program.as_fd().as_raw_fd()) })
    }

    /// What the programs write.
    pub(crate) fn records(&self) -> io::Result<Records> {
        Records::map(map_of(&self.object, RECORDS)?, map_of(&self.object, "layer_lost")?)
    }
}

/// A map of an object, and how many entries it has.
fn map_of<'a>(object: &'a Object, name: &str) -> io::Result<(BorrowedFd<'a>, u32)> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("the object has no map {name}"));
    let map = object.maps().find(|map| map.name() == name).ok_or_else(missing)?;
    // SAFETY: the map, and its descriptor, live as long as the object, which the answer borrows.
    let descriptor = unsafe { BorrowedFd::borrow_raw(map.as_fd().as_raw_fd()) };
    Ok((descriptor, map.max_entries()))
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
    Ok(Attached::Link { _link: unsafe { OwnedFd::from_raw_fd(link) } })
}
