//! A client whose datagrams come from another port than at the beginning. A translator of addresses (NAT) gives it one
//! when it has forgotten the first (RFC 4787, section 4.3).

use quaver_abi::wire::extension::MoveElement;
use quaver_path_flow::{FlowError, TestSocket, Transport};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two moves. A client whose packets alternate between ports costs no more.
const LEAST_STAY: Duration = Duration::from_secs(1);

/// Where a client's packets came from at last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    /// How often the flow followed.
    pub(super) times: u32,
    /// Datagrams that came before the flow followed, as far as they were seen.
    pub(super) uncounted: u64,
    pub(super) to: SocketAddr,
    at: Instant,
}

impl Move {
    pub(super) fn element(&self) -> MoveElement {
        let ip = match self.to.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        MoveElement {
            times: self.times.into(),
            uncounted: self.uncounted.into(),
            address: ip.octets(),
            port: self.to.port().into(),
        }
    }
}

/// Leads a flow's socket to where its client is now.
#[derive(Debug)]
pub(super) struct Follower {
    /// The flow's own.
    socket: TestSocket,
    last: Mutex<Option<Move>>,
}

impl Follower {
    /// Of a flow through this socket.
    ///
    /// # Errors
    /// No further descriptor is to be had.
    pub(super) fn of(socket: &TestSocket) -> Result<Self, FlowError> {
        Ok(Self { socket: socket.try_clone()?, last: Mutex::new(None) })
    }

    /// A datagram of the client came from `peer`, and not through the flow's socket. That socket takes what comes from
    /// there from now on, and sends there.
    pub(super) fn follow(&self, peer: SocketAddr, now: Instant) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let stays = |last: &Move| now.saturating_duration_since(last.at) < LEAST_STAY;
        let (times, uncounted) = last.map_or((0, 0), |last| (last.times, last.uncounted));
        *last = match *last {
            Some(before) if stays(&before) => Some(Move { uncounted: uncounted + 1, ..before }),
            // An address that cannot be sent to is none of the client's.
            before if self.socket.connect(peer).is_err() => before,
            _ => Some(Move { times: times + 1, uncounted: uncounted + 1, to: peer, at: now }),
        };
    }

    pub(super) fn transport(&self) -> Transport {
        self.socket.transport()
    }

    pub(super) fn last(&self) -> Option<Move> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};

    #[test]
    fn a_flow_follows_its_client_once_a_second_and_counts_what_came_before() {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let clients = [UdpSocket::bind(here).unwrap(), UdpSocket::bind(here).unwrap()];
        let ports = clients.each_ref().map(|client| client.local_addr().unwrap());
        let socket = TestSocket::udp(here, false).unwrap();
        let follower = Follower::of(&socket).unwrap();
        assert_eq!(follower.last(), None);
        let begin = Instant::now();
        for (client, after_ms) in [(0, 0), (1, 400), (1, 999), (1, 1_000), (1, 1_100)] {
            follower.follow(ports[client], begin + Duration::from_millis(after_ms));
        }
        assert_eq!(socket.peer_address().unwrap(), ports[1]);
        let last = follower.last().unwrap();
        assert_eq!((last.times, last.uncounted, last.to), (2, 5, ports[1]));
        let element = last.element();
        assert_eq!(element.address[10..], [255, 255, 127, 0, 0, 1]);
        assert_eq!(u16::from(element.port), ports[1].port());
    }
}
