//! Hardware stamping of an interface (`SIOCSHWTSTAMP`) as a setting that can be put back: a field of a network driver.

use super::error::TuneError;
use super::knob::{Change, Knob};
use crate::ifreq;
use std::fmt;
use std::io;
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
    /// No sent packet.
    pub const TRANSMIT_OFF: i32 = 0;
    /// Those sent packets whose sockets ask for it.
    pub const TRANSMIT_ON: i32 = 1;

    /// What has to be changed so that all received packets are stamped, and with `sent` those sent ones whose sockets ask
    /// for it; nothing where it is so already.
    pub fn to_stamp_all(self, interface: &str, sent: bool) -> Option<Change> {
        let receive = Self { receive: Self::RECEIVE_ALL, ..self };
        self.to(interface, if sent { receive.with_sent() } else { receive })
    }

    /// What has to be changed so that sent packets are stamped whose sockets ask for it; nothing where it is so already.
    pub fn to_stamp_sent(self, interface: &str) -> Option<Change> {
        self.to(interface, self.with_sent())
    }

    fn with_sent(self) -> Self {
        let on = self.transmit == Self::TRANSMIT_OFF;
        Self { transmit: if on { Self::TRANSMIT_ON } else { self.transmit }, ..self }
    }

    fn to(self, interface: &str, asked: Self) -> Option<Change> {
        let knob = Knob::Ethtool { interface: interface.to_owned(), field: FIELD.to_owned() };
        (asked != self).then(|| Change::new(knob, asked.to_string()))
    }

    /// # Errors
    /// A sentence where not every received packet is stamped.
    pub fn receives_all(self, interface: &str) -> Result<(), String> {
        let what = match self.receive {
            Self::RECEIVE_ALL => return Ok(()),
            Self::RECEIVE_NONE => "no packets",
            _ => "packets of PTP only",
        };
        Err(format!("{interface} stamps {what} itself (receive filter {})", self.receive))
    }
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

/// Why an interface that could stamp packets itself does not.
pub fn not_switched_on(interface: &str, error: &TuneError) -> String {
    format!(
        "{interface} could stamp packets itself, but that cannot be switched on so that it will be put back ({error}); \
         once by hand: hwstamp_ctl -i {interface} -r 1"
    )
}

fn request(interface: &str, request: libc::Ioctl, mut stamping: Stamping) -> io::Result<Stamping> {
    // SAFETY: a hwtstamp_config is what both requests read and write.
    unsafe { ifreq::with_data(interface, request, &mut stamping) }.map(|()| stamping)
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeMachine;
    use super::super::steer::Steered;
    use super::*;
    use crate::settings::Journal;

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
    fn no_more_is_changed_than_has_to_be() {
        let before = Stamping { flags: 0, transmit: 2, receive: 12 };
        let change = before.to_stamp_all("eth0", true).unwrap();
        assert_eq!(change.value, "rx 1 tx 2 flags 0", "what stamps sent packets in one step does so on");
        assert_eq!(
            (change.knob.to_string().as_str(), change.knob.objection()),
            ("stamping.config of eth0", None)
        );
        let off = Stamping { transmit: 0, ..before };
        assert_eq!(off.to_stamp_all("eth0", false).unwrap().value, "rx 1 tx 0 flags 0");
        assert_eq!(off.to_stamp_all("eth0", true).unwrap().value, "rx 1 tx 1 flags 0");
        assert_eq!(off.to_stamp_sent("eth0").unwrap().value, "rx 12 tx 1 flags 0");
        assert!(before.to_stamp_sent("eth0").is_none());
        assert!(Stamping { receive: 1, ..before }.to_stamp_all("eth0", true).is_none());
        assert!(Stamping { receive: 1, ..off }.to_stamp_all("eth0", false).is_none());
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
