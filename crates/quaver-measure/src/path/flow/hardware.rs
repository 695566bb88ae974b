//! Stamps of the network interface: switching them on, and turning its clock's times into UTC ones.
//!
//! The interface's clock runs freely or after a time of its own (often TAI), so it is compared with the wall clock
//! as the flow runs, by the driver's own simultaneous readings.

use super::socket::TestSocket;
use crate::clock::monotonic_ns;
use crate::host::ethtool;
use std::ffi::CStr;
use std::fs::File;
use std::io::Error;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;

/// What asks for the interface's receive stamps, as they are.
pub(super) const HARDWARE_STAMPS: u32 =
    libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;

/// Time between comparisons of the clocks, nanoseconds: at 100 ppm they drift apart by 10 us, most of which the
/// known rate takes out.
const COMPARE_EACH_NS: i64 = 100_000_000;

/// An interface that stamps, and its clock.
pub(super) struct HardwareClock {
    device: File,
    line: ClockLine,
    next_ns: i64,
    _stamping: Stamping,
}

impl HardwareClock {
    /// Switches stamping on at the interface that `socket` is bound to; none where the interface has no such thing.
    ///
    /// # Errors
    /// A sentence where it has, but it cannot be used.
    pub(super) fn open(socket: &TestSocket) -> Result<Option<Self>, String> {
        let Some(interface) = socket.local_address().ok().and_then(|local| interface_of(local.ip())) else {
            return Ok(None);
        };
        let offer = ethtool::stamping(&interface).unwrap_or_default();
        let (true, Some(clock)) = (offer.hardware_rx, offer.clock) else { return Ok(None) };
        let stamping = Stamping::switch_on(&interface).map_err(|e| {
            format!(
                "{interface} could stamp packets itself, but that cannot be switched on ({e}): run as root, or once \
                 hwstamp_ctl -i {interface} -r 1 -t 1; the kernel's stamps are used"
            )
        })?;
        let path = format!("/dev/ptp{clock}");
        let unreadable = |e: Error| {
            format!("the clock of {interface}, {path}, cannot be read ({e}); the kernel's stamps are used")
        };
        let device = File::open(&path).map_err(unreadable)?;
        let mut line = ClockLine::default();
        line.add(compare(&device).map_err(unreadable)?);
        Ok(Some(Self { device, line, next_ns: monotonic_ns() + COMPARE_EACH_NS, _stamping: stamping }))
    }

    /// Compares the clocks again, if it is time.
    pub(super) fn keep_up(&mut self) {
        let now_ns = monotonic_ns();
        if now_ns >= self.next_ns {
            self.next_ns = now_ns + COMPARE_EACH_NS;
            // A failure leaves the last comparison in force.
            if let Ok(pair) = compare(&self.device) {
                self.line.add(pair);
            }
        }
    }

    /// UTC nanoseconds of a time of the interface's clock.
    pub(super) fn utc_ns(&self, device_ns: i64) -> i64 {
        self.line.utc_ns(device_ns)
    }
}

/// Simultaneous readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pair {
    device_ns: i64,
    utc_ns: i64,
}

/// The line through the last two comparisons.
#[derive(Clone, Copy, Debug, Default)]
struct ClockLine {
    before: Option<Pair>,
    last: Pair,
}

impl ClockLine {
    fn add(&mut self, pair: Pair) {
        self.before = (self.last != Pair::default()).then_some(self.last);
        self.last = pair;
    }

    fn utc_ns(&self, device_ns: i64) -> i64 {
        let since_ns = i128::from(device_ns) - i128::from(self.last.device_ns);
        let drift_ns = self.before.map_or(0, |before| {
            let device_ns = i128::from(self.last.device_ns) - i128::from(before.device_ns);
            let utc_ns = i128::from(self.last.utc_ns) - i128::from(before.utc_ns);
            // More than 1 in 1000 is a step of one of them, not a rate.
            if device_ns <= 0 || (utc_ns - device_ns).abs() > device_ns / 1_000 {
                return 0;
            }
            since_ns * (utc_ns - device_ns) / device_ns
        });
        let utc_ns = i128::from(self.last.utc_ns) + since_ns + drift_ns;
        i64::try_from(utc_ns).unwrap_or(if utc_ns < 0 { i64::MIN } else { i64::MAX })
    }
}

/// Comparisons that are asked for at once, of which the closest counts.
const SAMPLES: usize = 9;

/// struct ptp_clock_time (linux/ptp_clock.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct DeviceTime {
    seconds: i64,
    nanoseconds: u32,
    reserved: u32,
}

/// struct ptp_sys_offset: the wall clock and the device's in turn.
#[repr(C)]
struct SystemOffset {
    samples: u32,
    reserved: [u32; 3],
    times: [DeviceTime; 51],
}
const _: () = assert!(size_of::<DeviceTime>() == 16 && size_of::<SystemOffset>() == 832);

/// `_IOW('=', 5, struct ptp_sys_offset)`.
const PTP_SYS_OFFSET: libc::Ioctl = 0x4340_3d05;

fn compare(device: &File) -> Result<Pair, Error> {
    let mut answer =
        SystemOffset { samples: SAMPLES as u32, reserved: [0; 3], times: [DeviceTime::default(); 51] };
    // SAFETY: `answer` has the layout and the size that the request's number says, and outlives the call.
    if unsafe { libc::ioctl(device.as_raw_fd(), PTP_SYS_OFFSET, &raw mut answer) } < 0 {
        return Err(Error::last_os_error());
    }
    closest(&answer.times[..2 * SAMPLES + 1]).ok_or_else(|| Error::from_raw_os_error(libc::EIO))
}

/// The reading of the device between the two closest readings of the wall clock.
fn closest(times: &[DeviceTime]) -> Option<Pair> {
    let ns =
        |time: &DeviceTime| time.seconds.wrapping_mul(1_000_000_000).wrapping_add(time.nanoseconds.into());
    let triples = (0..times.len().saturating_sub(2)).step_by(2).map(|at| {
        let (before_ns, after_ns) = (ns(&times[at]), ns(&times[at + 2]));
        let took_ns = after_ns.wrapping_sub(before_ns);
        (took_ns, Pair { device_ns: ns(&times[at + 1]), utc_ns: before_ns.wrapping_add(took_ns / 2) })
    });
    triples.filter(|(took_ns, _)| *took_ns >= 0).min_by_key(|(took_ns, _)| *took_ns).map(|(_, pair)| pair)
}

/// struct hwtstamp_config (linux/net_tstamp.h).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StampingConfig {
    flags: i32,
    transmit: i32,
    receive: i32,
}

/// Stamp what is sent if a socket asks, and all that is received.
const ALL: StampingConfig = StampingConfig { flags: 0, transmit: 1, receive: 1 };
const SIOCSHWTSTAMP: libc::Ioctl = 0x89b0;
const SIOCGHWTSTAMP: libc::Ioctl = 0x89b1;

/// Stamping that was switched on here, and goes back to what it was.
struct Stamping {
    interface: String,
    before: Option<StampingConfig>,
}

impl Stamping {
    fn switch_on(interface: &str) -> Result<Self, Error> {
        let before = request(interface, SIOCGHWTSTAMP, StampingConfig::default()).unwrap_or_default();
        let mut stamping = Self { interface: interface.to_owned(), before: None };
        if (before.transmit, before.receive) != (ALL.transmit, ALL.receive) {
            request(interface, SIOCSHWTSTAMP, ALL)?;
            stamping.before = Some(before);
        }
        Ok(stamping)
    }
}

impl Drop for Stamping {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = request(&self.interface, SIOCSHWTSTAMP, before);
        }
    }
}

fn request(
    interface: &str,
    request: libc::Ioctl,
    mut config: StampingConfig,
) -> Result<StampingConfig, Error> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut ifreq = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut config).cast() },
    };
    if interface.len() >= libc::IFNAMSIZ {
        return Err(Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in ifreq.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the name is NUL-terminated, as it is shorter than its room, and the data is a hwtstamp_config, which is
    // what both requests read and write.
    if unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut ifreq) } < 0 {
        return Err(Error::last_os_error());
    }
    Ok(config)
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
        let mut line = ClockLine::default();
        line.add(Pair { device_ns, utc_ns });
        let device = File::open("/dev/null").expect("it is everywhere");
        let stamping = Stamping { interface: String::new(), before: None };
        Self { device, line, next_ns: i64::MAX, _stamping: stamping }
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
        assert!(HardwareClock::open(&socket).unwrap().is_none());
        assert!(Stamping::switch_on("lo").is_err());
    }

    #[test]
    fn times_go_along_the_line_of_the_last_two_comparisons() {
        let mut line = ClockLine::default();
        // The device is 37 s ahead (TAI) and 100 ppm fast.
        let device_ns = |utc_ns: i64| utc_ns + 37_000_000_000 + (utc_ns - 1_000_000_000_000) / 10_000;
        for utc_ns in [1_000_000_000_000, 1_000_100_000_000, 1_000_200_000_000] {
            line.add(Pair { device_ns: device_ns(utc_ns), utc_ns });
        }
        for utc_ns in [1_000_150_000_000, 1_000_200_000_000, 1_000_290_000_000] {
            assert!((line.utc_ns(device_ns(utc_ns)) - utc_ns).abs() <= 1, "{utc_ns}");
        }
        // A step of the wall clock moves what follows, and is no rate.
        line.add(Pair { device_ns: device_ns(1_000_300_000_000), utc_ns: 1_005_300_000_000 });
        assert_eq!(line.utc_ns(device_ns(1_000_300_000_000) + 10_000), 1_005_300_010_000);
        assert_eq!(ClockLine::default().utc_ns(5), 5);
        line.add(Pair { device_ns: i64::MIN, utc_ns: i64::MAX });
        assert_eq!(line.utc_ns(i64::MAX), i64::MAX);
    }

    #[test]
    fn the_closest_comparison_counts() {
        let time = |nanoseconds| DeviceTime { seconds: 1, nanoseconds, reserved: 0 };
        let times = [time(100), time(5_000), time(300), time(5_210), time(320), time(5_400), time(900)];
        let pair = closest(&times).unwrap();
        assert_eq!((pair.utc_ns, pair.device_ns), (1_000_000_310, 1_000_005_210));
        assert_eq!(closest(&times[..2]), None);
    }
}
