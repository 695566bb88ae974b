//! Looks at what the observed threads run, a thousand times a second on each recorded CPU, by the kernel's clock event
//! of `perf_event_open`.

use super::layout::{CpuState, STACK_DEPTH};
use super::load::{failed, invalid};
use super::memory::Mapping;
use crate::trace::{TraceError, TraceSink};
use libbpf_rs::{Link, MapCore as _, MapFlags, Object, ProgramMut};
use quaver_abi::record::SAMPLE_PERIOD_NS;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd};

/// Head of `struct perf_event_attr` as `PERF_ATTR_SIZE_VER0` has it (Linux `include/uapi/linux/perf_event.h`).
#[derive(Default)]
#[repr(C)]
struct EventAttributes {
    event_type: u32,
    bytes: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}
const _: () = assert!(size_of::<EventAttributes>() == 64);

/// A stopped clock event of one CPU.
fn open(cpu: libc::c_int) -> io::Result<OwnedFd> {
    const SOFTWARE: u32 = 1;
    const CPU_CLOCK: u64 = 0;
    const DISABLED: u64 = 1;
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    const EVERY_PROCESS: libc::pid_t = -1;
    const NO_GROUP: libc::c_int = -1;
    let attributes = EventAttributes {
        event_type: SOFTWARE,
        bytes: size_of::<EventAttributes>() as u32,
        config: CPU_CLOCK,
        sample_period: SAMPLE_PERIOD_NS,
        flags: DISABLED,
        ..EventAttributes::default()
    };
    // SAFETY: the call reads the attributes, which live through it and are as long as they say.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            EVERY_PROCESS,
            cpu,
            NO_GROUP,
            CLOSE_ON_EXEC,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call gave us this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(result as libc::c_int) })
}

/// Whether the kernel lets this process look, on the CPU that it is on.
pub(crate) fn trial() -> io::Result<()> {
    // SAFETY: the call takes nothing and only reads.
    let cpu = unsafe { libc::sched_getcpu() };
    open(cpu).map(drop)
}

/// Lets the program look at each recorded CPU. A CPU that is offline, or where the kernel refuses, is left out.
pub(crate) fn attach(program: &ProgramMut<'_>, cpus: &Mapping<CpuState>) -> Vec<Link> {
    attach_to(program, (0..cpus.len()).filter(|cpu| cpus.copy(*cpu).recorded != 0))
}

/// Lets the program look at these CPUs. One that is offline, or where the kernel refuses, is left out.
pub fn attach_to(program: &ProgramMut<'_>, cpus: impl Iterator<Item = usize>) -> Vec<Link> {
    let attached = cpus.filter_map(|cpu| {
        let event = open(cpu as libc::c_int).ok()?;
        let number = event.as_raw_fd();
        let link = program.attach_perf_event(number).ok()?;
        // The link closes the event with itself.
        let _ = event.into_raw_fd();
        Some(link)
    });
    attached.collect()
}

/// Hands over the stacks that the program kept.
pub(crate) fn stacks(object: &Object, sink: &mut dyn TraceSink) -> Result<(), TraceError> {
    let map = object.maps().find(|map| map.name() == "stacks");
    let map = map.ok_or_else(|| invalid("reading the stacks", "the object has no map of stacks"))?;
    for key in map.keys() {
        let Ok(number) = key.as_slice().try_into().map(u32::from_ne_bytes) else { continue };
        let value = map.lookup(&key, MapFlags::ANY).map_err(|error| failed("reading a stack", &error))?;
        let Some(value) = value else { continue };
        let words = value.chunks_exact(8).take(STACK_DEPTH);
        let addresses: Vec<u64> = words
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
            .take_while(|address| *address != 0)
            .collect();
        sink.stack(number, &addresses);
    }
    Ok(())
}
