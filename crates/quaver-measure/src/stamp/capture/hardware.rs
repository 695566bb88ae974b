//! Stamps of the interface itself: switched on for all packets, seen to be on, and put back.

use crate::host::ethtool;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// struct hwtstamp_config (linux/net_tstamp.h).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Config {
    flags: i32,
    transmit: i32,
    receive: i32,
}
const _: () = assert!(size_of::<Config>() == 12);

const SIOCSHWTSTAMP: libc::Ioctl = 0x89b0;
const SIOCGHWTSTAMP: libc::Ioctl = 0x89b1;
/// Filter of received packets: stamp none, stamp all.
const RECEIVE_NONE: i32 = 0;
const RECEIVE_ALL: i32 = 1;

/// Stamping of received packets that was switched on here; dropping it puts the setting back.
#[derive(Debug)]
pub(super) struct HardwareStamping {
    interface: String,
    before: Option<Config>,
}

impl HardwareStamping {
    /// Has every packet that the interface receives stamped. Unless it `may_set` that, it takes it as it finds it.
    ///
    /// # Errors
    /// A sentence: what is lacking, and what to do about it.
    pub(super) fn switch_on(interface: &str, may_set: bool) -> Result<Self, String> {
        let offer = ethtool::stamping(interface).unwrap_or_default();
        if !offer.hardware_rx {
            return Err(format!("{interface} has no hardware that stamps received packets"));
        }
        Self::with(interface, may_set, request)
    }

    fn with(
        interface: &str,
        may_set: bool,
        request: impl Fn(&str, libc::Ioctl, Config) -> io::Result<Config>,
    ) -> Result<Self, String> {
        let before = request(interface, SIOCGHWTSTAMP, Config::default()).unwrap_or_default();
        let mut stamping = Self { interface: interface.to_owned(), before: None };
        if before.receive == RECEIVE_ALL {
            return Ok(stamping);
        }
        if !may_set {
            return Err(format!(
                "{interface} could stamp packets itself; ask for that with --layers nic, as it changes the interface's \
                 setting while the capture runs, which makes some interrupt their link"
            ));
        }
        let asked = Config { receive: RECEIVE_ALL, ..before };
        let got = request(interface, SIOCSHWTSTAMP, asked).map_err(|e| {
            format!(
                "{interface} could stamp packets itself, but that cannot be switched on ({e}): run as root, or once \
                 hwstamp_ctl -i {interface} -r 1"
            )
        })?;
        stamping.before = Some(before);
        // A driver answers with what it does, which may be less than what it was asked for.
        if got.receive == RECEIVE_ALL {
            return Ok(stamping);
        }
        let what = if got.receive == RECEIVE_NONE { "no packets" } else { "packets of PTP only" };
        Err(format!("{interface} stamps {what} itself (receive filter {})", got.receive))
    }
}

impl Drop for HardwareStamping {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = request(&self.interface, SIOCSHWTSTAMP, before);
        }
    }
}

/// What puts interfaces' settings back while somebody else still holds them: for a process that has to end at once. It
/// does so in the calling thread's namespace.
#[derive(Clone, Debug, Default)]
pub struct PutBack {
    settings: Vec<(String, Config)>,
}

impl PutBack {
    pub(super) fn of(stampings: &[HardwareStamping]) -> Self {
        let changed = |of: &HardwareStamping| Some((of.interface.clone(), of.before?));
        Self { settings: stampings.iter().filter_map(changed).collect() }
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }

    /// Puts back what was changed, as far as the system lets us.
    pub fn now(&self) {
        self.with(request);
    }

    fn with(&self, request: impl Fn(&str, libc::Ioctl, Config) -> io::Result<Config>) {
        for (interface, before) in &self.settings {
            let _ = request(interface, SIOCSHWTSTAMP, *before);
        }
    }
}

fn request(interface: &str, request: libc::Ioctl, mut config: Config) -> io::Result<Config> {
    // SAFETY: a hwtstamp_config is what both requests read and write.
    unsafe { ask(interface, request, &mut config) }?;
    Ok(config)
}

/// struct ethtool_drvinfo (linux/ethtool.h).
#[repr(C)]
#[derive(Clone, Copy)]
struct DriverInfo {
    command: u32,
    driver_version_firmware: [u8; 96],
    bus: [u8; 32],
    rest: [u8; 64],
}
const _: () = assert!(size_of::<DriverInfo>() == 196);

/// Whether the interface's driver names a place on a bus.
pub(super) fn on_a_bus(interface: &str) -> bool {
    const ETHTOOL_GDRVINFO: u32 = 3;
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    let mut info = DriverInfo {
        command: ETHTOOL_GDRVINFO,
        driver_version_firmware: [0; 96],
        bus: [0; 32],
        rest: [0; 64],
    };
    // SAFETY: an ethtool_drvinfo is what the request with this command reads and writes.
    let answered = unsafe { ask(interface, SIOCETHTOOL, &mut info) };
    answered.is_ok() && info.bus[0] != 0 && !info.bus.starts_with(b"N/A")
}

/// # Safety
/// The request reads and writes no more than a `T` behind the pointer of its ifreq, any octets of which are a `T`.
unsafe fn ask<T>(interface: &str, request: libc::Ioctl, value: &mut T) -> io::Result<()> {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).or_else(|_| UdpSocket::bind(("::", 0)))?;
    let mut ifreq = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut *value).cast() },
    };
    if interface.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in ifreq.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the name is NUL-terminated, as it is shorter than its room, and the data is what the caller promises.
    if unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut ifreq) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_no_such_hardware() {
        assert!(HardwareStamping::switch_on("lo", true).unwrap_err().contains("no hardware"));
    }

    #[test]
    fn what_the_driver_answers_counts() {
        let driver = |before: i32, does: i32| {
            move |_: &str, request, asked: Config| match request {
                SIOCGHWTSTAMP => Ok(Config { receive: before, ..Config::default() }),
                _ => Ok(Config { receive: does, ..asked }),
            }
        };
        assert_eq!(HardwareStamping::with("no-such", true, driver(1, 0)).unwrap().before, None);
        assert!(HardwareStamping::with("no-such", false, driver(0, 1)).unwrap_err().contains("--layers nic"));
        let on = HardwareStamping::with("no-such", true, driver(0, 1)).unwrap();
        assert_eq!(on.before, Some(Config::default()));
        let untouched = HardwareStamping::with("left-alone", true, driver(1, 0)).unwrap();
        assert!(PutBack::of(std::slice::from_ref(&untouched)).is_empty());
        let asked = std::cell::RefCell::new(Vec::new());
        PutBack::of(&[untouched, on]).with(|interface, number, config| {
            asked.borrow_mut().push((interface.to_owned(), number, config));
            Ok(config)
        });
        assert_eq!(asked.take(), [("no-such".to_owned(), SIOCSHWTSTAMP, Config::default())]);
        assert!(HardwareStamping::with("no-such", true, driver(0, 12)).unwrap_err().contains("PTP only"));
        assert!(HardwareStamping::with("no-such", true, driver(0, 0)).unwrap_err().contains("no packets"));
        let refused = |_: &str, _, _: Config| Err(io::Error::from_raw_os_error(libc::EPERM));
        assert!(HardwareStamping::with("no-such", true, refused).unwrap_err().contains("hwstamp_ctl"));
    }
}
