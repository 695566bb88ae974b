//! A storm of timer interrupts on one CPU, with no thread behind it: a software clock event, sampled.

use super::{Injection, schedule};
use crate::phase;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
/// `disabled`, bit 0 of the flag word of `perf_event_attr`.
const DISABLED: u64 = 1;
const PERF_EVENT_IOC_ENABLE: libc::c_ulong = 0x2400;
const PERF_EVENT_IOC_DISABLE: libc::c_ulong = 0x2401;

/// The first fields of `perf_event_attr` (PERF_ATTR_SIZE_VER0).
///
/// ```text
///  0      4      8        16              24           32            40      48       52        56       64
///  +------+------+--------+---------------+------------+-------------+-------+--------+---------+--------+
///  | type | size | config | sample period | sample type| read format | flags | wakeup | bp type | config1|
///  +------+------+--------+---------------+------------+-------------+-------+--------+---------+--------+
/// ```
#[repr(C)]
#[derive(Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period_ns: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
}
const _: () = assert!(size_of::<EventAttributes>() == 64);

/// Fires `timers` timers at once each `period_ns` on `cpu`, until the injection is dropped.
///
/// # Errors
/// The system refuses to open so many.
pub fn volley(cpu: u16, timers: u32, period_ns: u64) -> io::Result<Injection> {
    let events = (0..timers).map(|_| open(cpu, period_ns, None)).collect::<io::Result<Vec<_>>>()?;
    Injection::spawn("inject-timer", move |stop| {
        // On the timers' own CPU each is started without an interrupt to another, so that all are due at one time.
        schedule::bind(0, cpu).expect("the truth run starts with a CPU that exists");
        for event in &events {
            // SAFETY: the descriptor is an open perf event and the request takes no argument.
            unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_ENABLE, 0) };
        }
        while !stop.load(Ordering::Relaxed) {
            phase::sleep_until(phase::next_block(phase::now_ns()));
        }
    })
}

/// Fires `timers` timers at once each `period_ns` on `cpu` while injection is on. One alone takes 2 us on a fast host, which
/// makes hardly a packet late.
///
/// # Errors
/// The system refuses to open so many.
pub fn storm(cpu: u16, timers: u32, period_ns: u64) -> io::Result<Injection> {
    let leader = open(cpu, period_ns, None)?;
    let others = (1..timers).map(|_| open(cpu, period_ns, Some(&leader))).collect::<io::Result<Vec<_>>>()?;
    // Members count while their leader does.
    for event in &others {
        // SAFETY: the descriptor is an open perf event and the request takes no argument.
        unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_ENABLE, 0) };
    }
    Injection::spawn("inject-timer", move |stop| {
        let _others = others;
        while !stop.load(Ordering::Relaxed) {
            let now = phase::now_ns();
            let request = if phase::is_on(now) { PERF_EVENT_IOC_ENABLE } else { PERF_EVENT_IOC_DISABLE };
            // SAFETY: the descriptor is an open perf event and the request takes no argument.
            unsafe { libc::ioctl(leader.as_raw_fd(), request, 0) };
            phase::sleep_until(phase::next_block(now));
        }
    })
}

/// An event on `cpu` that is not enabled, in the group of `leader`.
fn open(cpu: u16, period_ns: u64, leader: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let group = leader.map_or(-1, AsRawFd::as_raw_fd);
    let attributes = EventAttributes {
        kind: PERF_TYPE_SOFTWARE,
        size: size_of::<EventAttributes>() as u32,
        config: PERF_COUNT_SW_CPU_CLOCK,
        sample_period_ns: period_ns,
        flags: DISABLED,
        ..EventAttributes::default()
    };
    // SAFETY: the structure has the size that it claims and outlives the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &attributes, -1, libc::c_int::from(cpu as i16), group, 8_u64)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}
