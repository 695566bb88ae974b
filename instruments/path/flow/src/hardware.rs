//! Stamps of the network interface: switching them on, and turning its clock's times into UTC ones.
//!
//! The interface's clock runs freely or after a time of its own (often TAI), so it is compared with the wall clock
//! as the flow runs, by the driver's own simultaneous readings.

mod stamping;

pub(super) use stamping::Way;

use super::socket::TestSocket;
use quaver_clock::monotonic_ns;
#[cfg(test)]
use quaver_clock::phc::PhcAnchor;
use quaver_clock::phc::{Phc, PhcClock};
use quaver_host::ethtool;
use stamping::{Interfaces, Wish};
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// What asks for the interface's receive stamps, as they are.
pub(super) const HARDWARE_STAMPS: u32 =
    libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;

/// Time between comparisons of the clocks, nanoseconds: at 100 ppm they drift apart by 10 us, most of which the
/// known rate takes out.
const COMPARE_EACH_NS: i64 = 100_000_000;

/// An interface that stamps, and its clock.
pub(super) struct HardwareClock {
    clock: PhcClock,
    /// Nothing in tests, which cannot compare.
    device: Option<Phc>,
    next_ns: i64,
    _wish: Option<Wish>,
}

impl HardwareClock {
    /// Switches stamping on at the interface that `socket` is bound to, until this is dropped; none where the interface
    /// has no such thing.
    ///
    /// # Errors
    /// A sentence where it has, but it cannot be used.
    pub(super) fn open(socket: &TestSocket, way: Way) -> Result<Option<Self>, String> {
        let Some(interface) = socket.local_address().ok().and_then(|local| interface_of(local.ip())) else {
            return Ok(None);
        };
        let offer = ethtool::stamping(&interface).unwrap_or_default();
        let (true, Some(clock)) = (offer.hardware_rx, offer.clock) else { return Ok(None) };
        let kernels = |why: String| format!("{why}; the kernel's stamps are used");
        let wish = Interfaces::system().stamp(&interface, way).map_err(kernels)?;
        let device = Phc::open(Path::new(&format!("/dev/ptp{clock}")));
        let (device, anchor) = device
            .and_then(|device| device.anchor().map(|anchor| (device, anchor)))
            .map_err(|error| kernels(error.to_string()))?;
        Ok(Some(Self {
            clock: PhcClock::new(anchor),
            device: Some(device),
            next_ns: monotonic_ns() + COMPARE_EACH_NS,
            _wish: Some(wish),
        }))
    }

    /// Compares the clocks again, if it is time.
    pub(super) fn keep_up(&mut self) {
        let now_ns = monotonic_ns();
        if now_ns >= self.next_ns {
            self.next_ns = now_ns + COMPARE_EACH_NS;
            // A failure leaves the last comparison in force.
            if let Some(Ok(anchor)) = self.device.as_ref().map(Phc::anchor) {
                self.clock.anchor(anchor);
            }
        }
    }

    /// UTC nanoseconds of a time of the interface's clock.
    pub(super) fn utc_ns(&self, device_ns: i64) -> i64 {
        self.clock.realtime(device_ns).realtime_ns
    }
}

/// Name of the interface that has an address.
fn interface_of(address: IpAddr) -> Option<String> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: `first` is a valid out-pointer; what it gets is freed below.
    if unsafe { libc::getifaddrs(&raw mut first) } < 0 {
        return None;
    }
    let (mut at, mut found) = (first, None);
    // SAFETY: the list is valid until it is freed; each entry's name is NUL-terminated, and its address, if there is
    // one, is of the type that its family says.
    unsafe {
        while let Some(entry) = at.as_ref() {
            if found.is_none() && address_of(entry.ifa_addr) == Some(address.to_canonical()) {
                found = CStr::from_ptr(entry.ifa_name).to_str().ok().map(str::to_owned);
            }
            at = entry.ifa_next;
        }
        libc::freeifaddrs(first);
    }
    found
}

/// # Safety
/// The address is null or of the type that its family says.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: as the caller promises.
    match i32::from(unsafe { address.as_ref() }?.sa_family) {
        libc::AF_INET => {
            // SAFETY: as the caller promises.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as the caller promises.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
impl HardwareClock {
    /// A clock that is compared once and never again; nothing is switched on.
    pub(super) fn fixed(device_ns: i64, utc_ns: i64) -> Self {
        let anchor = PhcAnchor { phc_ns: device_ns, realtime_ns: utc_ns, half_bracket_ns: 1 };
        Self { clock: PhcClock::new(anchor), device: None, next_ns: i64::MAX, _wish: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_and_has_no_hardware() {
        assert_eq!(interface_of(Ipv4Addr::LOCALHOST.into()).as_deref(), Some("lo"));
        assert_eq!(interface_of(Ipv4Addr::new(192, 0, 2, 7).into()), None);
        let socket = TestSocket::udp((Ipv4Addr::LOCALHOST, 0).into(), false).unwrap();
        for way in [Way::Received, Way::Sent] {
            assert!(HardwareClock::open(&socket, way).unwrap().is_none());
        }
    }

    #[test]
    fn a_clock_that_was_compared_once_runs_like_the_wall_clock() {
        let clock = HardwareClock::fixed(1_037_000_000_000, 1_000_000_000_000);
        assert_eq!(clock.utc_ns(1_037_000_107_000), 1_000_000_107_000);
        assert_eq!(clock.utc_ns(1_036_999_999_000), 999_999_999_000);
        let (first, last) = (clock.utc_ns(i64::MIN / 2), clock.utc_ns(i64::MAX / 2));
        assert!(first < last, "{first} {last}");
    }
}
