//! Whether the way out keeps a packet's time to be sent at, and asking for it.

use crate::error::ProbeError;
use crate::socket::set_option;
use quaver_clock::monotonic_ns;
use quaver_host::route::RouteSocket;
use socket2::Socket;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// The queueing discipline that keeps times on CLOCK_MONOTONIC.
const MONOTONIC: &str = "fq";
/// The one that keeps times on CLOCK_TAI, and drops packets whose times are by another clock.
const TAI: &str = "etf";
/// Readings of which the closest pair counts.
const READINGS: usize = 100;

/// The clock that the way out keeps, beside CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptClock {
    id: i32,
    /// To add to a deadline. A step of the clock while the source sends is not followed.
    pub(super) ahead_ns: i64,
}

impl KeptClock {
    fn of(disciplines: &[String]) -> Option<Self> {
        let has = |wanted: &str| disciplines.iter().any(|kind| kind == wanted);
        if has(TAI) {
            return Some(Self { id: libc::CLOCK_TAI, ahead_ns: tai_ahead_ns() });
        }
        has(MONOTONIC).then_some(Self { id: libc::CLOCK_MONOTONIC, ahead_ns: 0 })
    }
}

/// CLOCK_TAI minus CLOCK_MONOTONIC, by the reading between the closest two.
fn tai_ahead_ns() -> i64 {
    let readings = (0..READINGS).filter_map(|_| {
        let before_ns = monotonic_ns();
        let tai = rustix::time::clock_gettime_dynamic(rustix::time::DynamicClockId::Tai).ok()?;
        let bracket_ns = monotonic_ns() - before_ns;
        Some((bracket_ns, tai.tv_sec * 1_000_000_000 + tai.tv_nsec - before_ns - bracket_ns / 2))
    });
    readings.min().map_or(0, |(_, ahead_ns)| ahead_ns)
}

/// Turns `SO_TXTIME` on, by the clock that the way out keeps. The kernel takes the option and the times everywhere, and a queueing discipline that
/// does not know them sends at once: so look first.
pub(super) fn enable(
    socket: &Socket,
    destination: SocketAddr,
    multicast_interface: Option<u32>,
) -> Result<KeptClock, ProbeError> {
    let failed =
        |e| ProbeError::os(format!("find the interface and queueing discipline towards {destination}"), e);
    let mut route = RouteSocket::open().map_err(failed)?;
    let interface = match multicast_interface {
        Some(index) => index,
        None => route.interface_towards(destination.ip()).map_err(failed)?,
    };
    let disciplines = route.queueing_disciplines(interface).map_err(failed)?;
    let Some(kept) = KeptClock::of(&disciplines) else {
        return Err(ProbeError::NotSupported {
            operation: format!(
                "pace txtime towards {destination}: interface {interface} has the queueing discipline {}",
                if disciplines.is_empty() { "none".to_owned() } else { disciplines.join(", ") }
            ),
            remedy: "install fq (tc qdisc replace dev INTERFACE root fq; kernel option CONFIG_NET_SCH_FQ) or etf \
                     (… root etf clockid CLOCK_TAI delta 200000; CONFIG_NET_SCH_ETF), or choose another pace",
        });
    };
    let request = libc::sock_txtime { clockid: kept.id, flags: 0 };
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TXTIME, &request)
        .map(|()| kept)
        .map_err(|e| ProbeError::os("set SO_TXTIME of the source", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(disciplines: &[&str]) -> Option<i32> {
        let disciplines: Vec<String> = disciplines.iter().map(|kind| (*kind).to_owned()).collect();
        KeptClock::of(&disciplines).map(|kept| kept.id)
    }

    #[test]
    fn the_clock_is_that_of_the_discipline() {
        assert_eq!(clock(&["mq", "fq"]), Some(libc::CLOCK_MONOTONIC));
        assert_eq!(clock(&["mq", "etf"]), Some(libc::CLOCK_TAI));
        assert_eq!((clock(&["fq_codel"]), clock(&[])), (None, None));
    }
}
