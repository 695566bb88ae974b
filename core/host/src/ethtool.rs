//! What a network driver tells through the `SIOCETHTOOL` request: coalescing, ring sizes and time stamping.
//!
//! Only the three "get" commands below are ever sent. The request is old and stable; it needs no crate and,
//! unlike the netlink form, works on every kernel that this tool runs on.

use super::ifreq;
use serde::{Deserialize, Serialize};

/// Interrupt coalescing of the receive side: how long the device may hold a packet before it interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coalescing {
    /// Time after the first packet, in microseconds.
    pub rx_us: u32,
    /// Packets after which it interrupts anyway; 0: no such limit.
    pub rx_frames: u32,
    /// Whether the driver changes these by load, which makes the delay change with it.
    pub adaptive_rx: bool,
    /// Transmit side: time after the first completion, in microseconds.
    pub tx_us: u32,
}

/// Receive ring of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ring {
    /// Descriptors in use.
    pub rx: u32,
    /// Descriptors that the device could use.
    pub rx_max: u32,
}

/// Time stamping that the driver offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamping {
    /// Whether the device can stamp received packets.
    pub hardware_rx: bool,
    /// Whether the device can stamp sent packets.
    pub hardware_tx: bool,
    /// Whether the driver stamps received packets in software.
    pub software_rx: bool,
    /// Number of the device's clock, `/dev/ptpN`.
    pub clock: Option<u32>,
}

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GCOALESCE: u32 = 0x0e;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_GET_TS_INFO: u32 = 0x41;

/// Words of `struct ethtool_coalesce`, the largest of the three answers (linux/ethtool.h).
const WORDS: usize = 23;

/// Receive coalescing; none if the driver has none or there is no such interface.
pub fn coalescing(interface: &str) -> Option<Coalescing> {
    let words = query(interface, ETHTOOL_GCOALESCE)?;
    Some(Coalescing { rx_us: words[1], rx_frames: words[2], tx_us: words[5], adaptive_rx: words[10] != 0 })
}

/// Receive ring; none if the driver has none or there is no such interface.
pub fn ring(interface: &str) -> Option<Ring> {
    let words = query(interface, ETHTOOL_GRINGPARAM)?;
    Some(Ring { rx_max: words[1], rx: words[5] })
}

/// Time stamping; none if there is no such interface.
pub fn stamping(interface: &str) -> Option<Stamping> {
    let words = query(interface, ETHTOOL_GET_TS_INFO)?;
    let offers = |flag: u32| words[1] & flag != 0;
    Some(Stamping {
        hardware_rx: offers(libc::SOF_TIMESTAMPING_RX_HARDWARE),
        hardware_tx: offers(libc::SOF_TIMESTAMPING_TX_HARDWARE),
        software_rx: offers(libc::SOF_TIMESTAMPING_RX_SOFTWARE),
        clock: words[2].cast_signed().try_into().ok(),
    })
}

fn query(interface: &str, command: u32) -> Option<[u32; WORDS]> {
    let mut answer = [0_u32; WORDS];
    answer[0] = command;
    // SAFETY: the kernel writes no more than the largest structure of the three commands of this module, which is as large
    // as `answer`.
    unsafe { ifreq::with_data(interface, SIOCETHTOOL, &mut answer) }.ok().map(|()| answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_no_hardware() {
        if let Some(stamping) = stamping("lo") {
            assert!(!stamping.hardware_rx && stamping.clock.is_none());
        }
        assert_eq!(coalescing("lo"), None);
        assert_eq!(ring("lo"), None);
    }

    #[test]
    fn names_that_do_not_fit() {
        assert_eq!(stamping(""), None);
        assert_eq!(stamping("a-name-that-is-far-too-long"), None);
    }
}
