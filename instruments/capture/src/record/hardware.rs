//! Stamps of the interface itself: switched on for all packets through the journal of settings, and seen to be on.

use quaver_host::settings::stamping;
use quaver_host::settings::stamping::Stamping;
use quaver_host::settings::{Applied, Change, TuneError};
use quaver_host::{ethtool, ifreq};

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
    let Some(change) = before.to_stamp_all(interface, false) else { return Ok(()) };
    let Some(set) = set else {
        return Err(format!(
            "{interface} could stamp packets itself; ask for that with --layers nic, as it changes the interface's \
             setting while the capture runs, which makes some interrupt their link"
        ));
    };
    judge(interface, set(&change))
}

/// A driver does what it can of what it was asked for, which may be less.
fn judge(interface: &str, done: Result<Applied, TuneError>) -> Result<(), String> {
    let done = done.map_err(|error| stamping::not_switched_on(interface, &error))?;
    done.now.parse::<Stamping>().unwrap_or_default().receives_all(interface)
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
    let answered = unsafe { ifreq::with_data(interface, SIOCETHTOOL, &mut info) };
    answered.is_ok() && info.bus[0] != 0 && !info.bus.starts_with(b"N/A")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_host::settings::journal::Outcome;

    #[test]
    fn loopback_has_no_such_hardware() {
        let mut nobody = |_: &Change| -> Result<Applied, TuneError> { unreachable!("nothing is to be set") };
        assert!(switch_on("lo", Some(&mut nobody)).unwrap_err().contains("no hardware"));
        assert!(switch_on("lo", None).unwrap_err().contains("no hardware"));
    }

    #[test]
    fn what_the_driver_does_counts() {
        let knob = Stamping::default().to_stamp_all("eth0", false).unwrap().knob;
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
