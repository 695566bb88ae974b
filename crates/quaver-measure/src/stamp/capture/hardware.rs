//! Stamps of the interface itself: switched on for all packets through the journal of settings, and seen to be on.

use crate::host::ethtool;
use crate::tune::stamping::{self, Stamping};
use crate::tune::{Applied, Change, Knob, TuneError};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Changes a setting so that it will be put back, whatever ends this process.
pub type SetSetting<'a> = dyn FnMut(&Change) -> Result<Applied, TuneError> + 'a;

/// Has every packet that the interface receives stamped. Without `set` it takes it as it finds it.
///
/// # Errors
/// A sentence: what is lacking, and what to do about it.
pub(super) fn switch_on(interface: &str, set: Option<&mut SetSetting<'_>>) -> Result<(), String> {
    let offer = ethtool::stamping(interface).unwrap_or_default();
    if !offer.hardware_rx {
        return Err(format!("{interface} has no hardware that stamps received packets"));
    }
    let before = stamping::get(interface).unwrap_or_default();
    let Some(change) = change(interface, before) else { return Ok(()) };
    let Some(set) = set else {
        return Err(format!(
            "{interface} could stamp packets itself; ask for that with --layers nic, as it changes the interface's \
             setting while the capture runs, which makes some interrupt their link"
        ));
    };
    judge(interface, set(&change))
}

/// What has to be changed; nothing where it is so already.
fn change(interface: &str, before: Stamping) -> Option<Change> {
    let asked = Stamping { receive: Stamping::RECEIVE_ALL, ..before };
    let knob = Knob::Ethtool { interface: interface.to_owned(), field: stamping::FIELD.to_owned() };
    (before.receive != Stamping::RECEIVE_ALL).then(|| Change::new(knob, asked.to_string()))
}

/// A driver does what it can of what it was asked for, which may be less.
fn judge(interface: &str, done: Result<Applied, TuneError>) -> Result<(), String> {
    let done = done.map_err(|e| {
        format!(
            "{interface} could stamp packets itself, but that cannot be switched on so that it will be put back ({e}); \
             once by hand: hwstamp_ctl -i {interface} -r 1"
        )
    })?;
    let receive = done.now.parse::<Stamping>().map_or(Stamping::RECEIVE_NONE, |now| now.receive);
    let what = match receive {
        Stamping::RECEIVE_ALL => return Ok(()),
        Stamping::RECEIVE_NONE => "no packets",
        _ => "packets of PTP only",
    };
    Err(format!("{interface} stamps {what} itself (receive filter {receive})"))
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
    use crate::tune::journal::Outcome;

    #[test]
    fn loopback_has_no_such_hardware() {
        let mut nobody = |_: &Change| -> Result<Applied, TuneError> { unreachable!("nothing is to be set") };
        assert!(switch_on("lo", Some(&mut nobody)).unwrap_err().contains("no hardware"));
        assert!(switch_on("lo", None).unwrap_err().contains("no hardware"));
    }

    #[test]
    fn only_the_filter_of_received_packets_is_changed() {
        let before = Stamping { flags: 0, transmit: 2, receive: 12 };
        let change = change("eth0", before).unwrap();
        assert_eq!(change.value, "rx 1 tx 2 flags 0");
        assert_eq!(
            (change.knob.to_string().as_str(), change.knob.objection()),
            ("stamping.config of eth0", None)
        );
        assert!(super::change("eth0", Stamping { receive: 1, ..before }).is_none());
    }

    #[test]
    fn what_the_driver_does_counts() {
        let knob = change("eth0", Stamping::default()).unwrap().knob;
        let done = |now: &str| {
            let (before, now) = ("rx 0 tx 0 flags 0".to_owned(), now.to_owned());
            judge(
                "eth0",
                Ok(Applied { knob: knob.clone(), before, now, outcome: Outcome::Set, pending: None }),
            )
        };
        assert_eq!(done("rx 1 tx 0 flags 0"), Ok(()));
        assert!(done("rx 12 tx 0 flags 0").unwrap_err().contains("PTP only"));
        assert!(done("rx 0 tx 0 flags 0").unwrap_err().contains("no packets"));
        let refused = TuneError::NotPermitted { operation: "making /var/lib/quaver".to_owned() };
        let refused = judge("eth0", Err(refused)).unwrap_err();
        assert!(refused.contains("run as root") && refused.contains("hwstamp_ctl"), "{refused}");
    }
}
