//! Whether the way out keeps a packet's time to be sent at, and asking for it.

use crate::error::ProbeError;
use crate::socket::set_option;
use quaver_host::route::RouteSocket;
use socket2::Socket;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// The queueing discipline that keeps times on CLOCK_MONOTONIC.
const KEEPS_TIMES: &str = "fq";

/// Turns `SO_TXTIME` on. The kernel takes the option and the times everywhere, and a queueing discipline that
/// does not know them sends at once: so look first.
pub(super) fn enable(
    socket: &Socket,
    destination: SocketAddr,
    multicast_interface: Option<u32>,
) -> Result<(), ProbeError> {
    let failed =
        |e| ProbeError::os(format!("find the interface and queueing discipline towards {destination}"), e);
    let mut route = RouteSocket::open().map_err(failed)?;
    let interface = match multicast_interface {
        Some(index) => index,
        None => route.interface_towards(destination.ip()).map_err(failed)?,
    };
    let disciplines = route.queueing_disciplines(interface).map_err(failed)?;
    if !disciplines.iter().any(|kind| kind == KEEPS_TIMES) {
        return Err(ProbeError::NotSupported {
            operation: format!(
                "pace txtime towards {destination}: interface {interface} has the queueing discipline {}",
                if disciplines.is_empty() { "none".to_owned() } else { disciplines.join(", ") }
            ),
            remedy: "install fq (tc qdisc replace dev INTERFACE root fq; kernel option CONFIG_NET_SCH_FQ), or \
                     choose another pace",
        });
    }
    let request = libc::sock_txtime { clockid: libc::CLOCK_MONOTONIC, flags: 0 };
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TXTIME, &request)
        .map_err(|e| ProbeError::os("set SO_TXTIME of the source", e))
}
