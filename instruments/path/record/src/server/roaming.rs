//! A client whose datagrams come from another port than at the beginning. A translator of addresses (NAT) gives it one
//! when it has forgotten the first (RFC 4787, section 4.3).

use crate::outcome::Moved;
use quaver_path_flow::{FlowError, TestSocket, Transport};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two moves. A client whose packets alternate between ports costs no more.
const LEAST_STAY: Duration = Duration::from_secs(1);

/// Leads a flow's socket to where its client is now.
#[derive(Debug)]
pub(super) struct Follower {
    /// The flow's own.
    socket: TestSocket,
    /// Its client's last move, and when it was.
    last: Mutex<Option<(Moved, Instant)>>,
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
        let (mut moved, stays) = match *last {
            Some((moved, at)) => (moved, now.saturating_duration_since(at) < LEAST_STAY),
            None => (Moved { times: 0, uncounted: 0, to: peer }, false),
        };
        moved.uncounted += 1;
        if stays {
            *last = last.map(|(_, at)| (moved, at));
        } else if self.socket.connect(peer).is_ok() {
            // An address that cannot be sent to is none of the client's.
            *last = Some((Moved { times: moved.times + 1, to: peer, ..moved }, now));
        }
    }

    pub(super) fn transport(&self) -> Transport {
        self.socket.transport()
    }

    /// Where the client is now, if it moved.
    pub(super) fn moved(&self) -> Option<Moved> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).map(|(moved, _)| moved)
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
        assert_eq!(follower.moved(), None);
        let begin = Instant::now();
        for (client, after_ms) in [(0, 0), (1, 400), (1, 999), (1, 1_000), (1, 1_100)] {
            follower.follow(ports[client], begin + Duration::from_millis(after_ms));
        }
        assert_eq!(socket.peer_address().unwrap(), ports[1]);
        assert_eq!(follower.moved(), Some(Moved { times: 2, uncounted: 5, to: ports[1] }));
    }
}
