//! Hardware stamping of an interface (`SIOCSHWTSTAMP`) as a setting that can be put back: a field of a network driver.

use std::fmt;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::str::FromStr;

/// Its name among the fields of a driver ([`super::ethtool`]).
pub const FIELD: &str = "stamping.config";

/// What an interface stamps: struct hwtstamp_config (linux/net_tstamp.h).
///
/// Its text is `rx 1 tx 0 flags 0`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamping {
    /// Flags; none but 0 and 1 (bonds) are in use.
    pub flags: i32,
    /// Which sent packets (HWTSTAMP_TX_*).
    pub transmit: i32,
    /// Which received packets (HWTSTAMP_FILTER_*).
    pub receive: i32,
}
const _: () = assert!(size_of::<Stamping>() == 12);

impl Stamping {
    /// Filter of received packets: none.
    pub const RECEIVE_NONE: i32 = 0;
    /// Filter of received packets: all.
    pub const RECEIVE_ALL: i32 = 1;
}

impl fmt::Display for Stamping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rx {} tx {} flags {}", self.receive, self.transmit, self.flags)
    }
}

impl FromStr for Stamping {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let number =
            |text: &str| text.parse::<i32>().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        match words[..] {
            ["rx", receive, "tx", transmit, "flags", flags] => {
                Ok(Self { flags: number(flags)?, transmit: number(transmit)?, receive: number(receive)? })
            }
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

/// What the interface stamps now.
///
/// # Errors
/// `EOPNOTSUPP` where its driver stamps nothing, `ENODEV` without the interface.
pub fn get(interface: &str) -> io::Result<Stamping> {
    const SIOCGHWTSTAMP: libc::Ioctl = 0x89b1;
    request(interface, SIOCGHWTSTAMP, Stamping::default())
}

/// Sets what the interface stamps. A driver does what it can of it, which [`get`] tells.
///
/// # Errors
/// As [`get`]; `ERANGE` where the driver can do nothing of it, `EPERM` without CAP_NET_ADMIN.
pub fn set(interface: &str, stamping: Stamping) -> io::Result<()> {
    const SIOCSHWTSTAMP: libc::Ioctl = 0x89b0;
    request(interface, SIOCSHWTSTAMP, stamping).map(|_| ())
}

fn request(interface: &str, request: libc::Ioctl, mut stamping: Stamping) -> io::Result<Stamping> {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).or_else(|_| UdpSocket::bind(("::", 0)))?;
    let mut ifreq = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut stamping).cast() },
    };
    if interface.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in ifreq.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the name is NUL-terminated, as it is shorter than its room, and a hwtstamp_config is what both requests read
    // and write.
    if unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut ifreq) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(stamping)
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeMachine;
    use super::super::steer::Steered;
    use super::super::{Change, Journal, Knob};
    use super::*;

    #[test]
    fn its_text_says_it_all() {
        let stamping = Stamping { flags: 1, transmit: 2, receive: 14 };
        assert_eq!(stamping.to_string(), "rx 14 tx 2 flags 1");
        assert_eq!("rx 14 tx 2 flags 1\n".parse::<Stamping>().unwrap(), stamping);
        for text in ["", "rx 1", "rx 1 tx 0 flags", "rx 1 tx x flags 0", "rx 1 tx 0 flags 0 0"] {
            assert!(text.parse::<Stamping>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_loopback_stamps_nothing_and_there_must_be_an_interface() {
        assert_eq!(get("lo").unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(get("no-such-dev").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        assert!(set("a-name-that-is-far-too-long", Stamping::default()).is_err());
    }

    #[test]
    fn an_interface_stamps_until_the_end_and_a_killed_ones_by_revert() {
        let driver = "drivers/eth0/stamping.config";
        let machine = FakeMachine::new(&[(driver, "rx 0 tx 1 flags 0\n")]);
        let knob = Knob::Ethtool { interface: "eth0".to_owned(), field: FIELD.to_owned() };
        let change = Change::new(knob, "rx 1 tx 1 flags 0");
        let mut held = Steered::begin(&machine.place(), "capture").unwrap();
        let done = held.set(&change).unwrap();
        assert_eq!((done.now.parse::<Stamping>().unwrap().receive, held.applied.len()), (1, 1));
        let set = machine.listing();
        // All that a killed process leaves: the setting and the journal as they are now.
        let journal = std::fs::read_dir(machine.journal()).unwrap();
        let left: Vec<_> = journal
            .map(|file| file.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect();
        drop(held);
        assert_eq!(machine.text(driver), "rx 0 tx 1 flags 0\n");
        machine.file(driver, "rx 1 tx 1 flags 0\n");
        assert_eq!(machine.listing(), set);
        left.iter().for_each(|(path, octets)| std::fs::write(path, octets).unwrap());
        let undone = Journal::open(&machine.place()).session("tune").unwrap();
        assert_eq!(undone.recovered().len(), 1, "{:?}", undone.recovered());
        assert_eq!(machine.text(driver), "rx 0 tx 1 flags 0\n");
    }
}
