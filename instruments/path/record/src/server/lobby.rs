//! The UDP test port before a flow: whoever echoes a cookie is handed to its session. Nothing is ever sent from here.
//! While a flow runs, what its client sends from another port comes here too.

use super::roaming::Follower;
use crate::control::same_host;
use crate::error::PathError;
use quaver_abi::wire::extension::COOKIE_BYTES;
use quaver_path_flow::{LEAST_PACKET_BYTES, SESSION_TAG_BYTES};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Datagrams taken at a time, so that the rest of the server gets its turn.
const MOST_AT_ONCE: usize = 256;

/// Where a cookie's echo and a test packet have the tag of their session.
const TAG_IN_ECHO: Range<usize> = 8..16;
const TAG_IN_PACKET: Range<usize> =
    LEAST_PACKET_BYTES as usize..(LEAST_PACKET_BYTES + SESSION_TAG_BYTES) as usize;

/// What a session waits for.
#[derive(Debug)]
struct Expectation {
    number: u64,
    /// Of any port.
    peer: SocketAddr,
    echo: [u8; COOKIE_BYTES],
    whom: Whom,
}

#[derive(Debug)]
enum Whom {
    /// The client of a flow that is to begin. Its session receives the address.
    Comes(Sender<SocketAddr>),
    /// The client of a running flow, at another port.
    Moves(Arc<Follower>),
}

impl Expectation {
    /// Whether the datagram is from the client. Where it only moves, a packet of its flow will do.
    fn is_met(&self, peer: SocketAddr, octets: &[u8]) -> bool {
        let tag = octets.get(TAG_IN_PACKET);
        let of_flow = matches!(self.whom, Whom::Moves(_)) && tag == Some(&self.echo[TAG_IN_ECHO]);
        same_host(self.peer, peer) && (of_flow || self.echo == *octets)
    }
}

/// All that sessions wait for.
#[derive(Debug, Default)]
pub(super) struct Expectations(Mutex<(u64, Vec<Expectation>)>);

/// Waiting; dropping it ends that.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    all: &'a Expectations,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.all.lock().1.retain(|expectation| expectation.number != self.number);
    }
}

impl Expectations {
    fn lock(&self) -> MutexGuard<'_, (u64, Vec<Expectation>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for this echo from this host; `to` is told where it came from.
    pub(super) fn add(
        &self,
        peer: SocketAddr,
        echo: [u8; COOKIE_BYTES],
        to: Sender<SocketAddr>,
    ) -> Waiting<'_> {
        self.wait(peer, echo, Whom::Comes(to))
    }

    /// Looks out for the client of a flow that runs, which may move to another port of its host.
    pub(super) fn follow(
        &self,
        peer: SocketAddr,
        echo: [u8; COOKIE_BYTES],
        follower: Arc<Follower>,
    ) -> Waiting<'_> {
        self.wait(peer, echo, Whom::Moves(follower))
    }

    fn wait(&self, peer: SocketAddr, echo: [u8; COOKIE_BYTES], whom: Whom) -> Waiting<'_> {
        let mut all = self.lock();
        let number = all.0;
        all.0 += 1;
        all.1.push(Expectation { number, peer, echo, whom });
        Waiting { all: self, number }
    }

    /// Whether a flow is to begin, so that each datagram is worth waking up for.
    pub(super) fn are_urgent(&self) -> bool {
        self.lock().1.iter().any(|expectation| matches!(expectation.whom, Whom::Comes(_)))
    }

    fn any(&self) -> bool {
        !self.lock().1.is_empty()
    }

    /// Tells whoever waits for this datagram. A flow begins once; its client may move again.
    fn fulfil(&self, peer: SocketAddr, octets: &[u8]) -> bool {
        let mut all = self.lock();
        let Some(at) = all.1.iter().position(|expected| expected.is_met(peer, octets)) else { return false };
        if let Whom::Moves(follower) = &all.1[at].whom {
            follower.follow(peer, Instant::now());
        } else if let Whom::Comes(to) = all.1.swap_remove(at).whom {
            // A session that no longer waits has ended.
            let _ = to.send(peer);
        }
        true
    }
}

/// The test port at one address.
#[derive(Debug)]
pub(super) struct Lobby {
    pub(super) socket: UdpSocket,
}

impl Lobby {
    pub(super) fn open(address: SocketAddr) -> Result<Self, PathError> {
        Ok(Self { socket: bound(address, Type::DGRAM, Protocol::UDP)?.into() })
    }

    pub(super) fn address(&self) -> Result<SocketAddr, PathError> {
        self.socket.local_addr().map_err(|e| PathError::os("read the test port", e))
    }

    /// Looks at what came, if anybody is waited for. If not, the kernel's small buffer fills and drops, which costs
    /// nothing.
    pub(super) fn look(&self, expectations: &Expectations) {
        if !expectations.any() {
            return;
        }
        // One byte more, so that a longer datagram is not taken for an echo.
        let mut octets = [0u8; COOKIE_BYTES + 1];
        for _ in 0..MOST_AT_ONCE {
            match self.socket.recv_from(&mut octets) {
                Ok((got, peer)) => {
                    expectations.fulfil(peer, &octets[..got]);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {}
            }
        }
    }
}

/// A non-blocking socket at this address, of its own family only.
pub(super) fn bound(address: SocketAddr, kind: Type, protocol: Protocol) -> Result<Socket, PathError> {
    let name = if kind == Type::DGRAM { "UDP" } else { "TCP" };
    let open = || {
        let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        if kind == Type::DGRAM {
            // The flow's connected socket has the same port; only sockets of the same user may share it.
            socket.set_reuse_port(true)?;
            socket.set_recv_buffer_size(1 << 16)?;
        } else {
            socket.set_reuse_address(true)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        Ok(socket)
    };
    open().map_err(|e: std::io::Error| PathError::os(format!("listen at {name} {address}"), e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Moved;
    use quaver_path_flow::TestSocket;
    use std::sync::mpsc::channel;

    #[test]
    fn only_the_right_echo_from_the_right_host_is_waited_for() {
        let all = Expectations::default();
        let (to, arriving) = channel();
        let (peer, other) = (([192, 0, 2, 1], 5).into(), ([192, 0, 2, 2], 5).into());
        let waiting = all.add(peer, [7; COOKIE_BYTES], to.clone());
        assert!(!all.fulfil(other, &[7; COOKIE_BYTES]));
        assert!(!all.fulfil(peer, &[8; COOKIE_BYTES]));
        assert!(!all.fulfil(peer, &[7; COOKIE_BYTES - 1]));
        assert!(!all.fulfil(peer, &[7; COOKIE_BYTES + 1]));
        assert!(arriving.try_recv().is_err());
        let elsewhere = ([192, 0, 2, 1], 6).into();
        assert!(all.fulfil(elsewhere, &[7; COOKIE_BYTES]), "from any port");
        assert_eq!(arriving.try_recv(), Ok(elsewhere));
        assert!(!all.fulfil(peer, &[7; COOKIE_BYTES]), "once");
        drop(waiting);
        let waiting = all.add(peer, [9; COOKIE_BYTES], to);
        assert!(all.are_urgent());
        drop(waiting);
        assert!(!all.any(), "a session that has ended is not waited for");
        assert!(arriving.try_recv().is_err());
    }

    #[test]
    fn a_client_moves_with_any_packet_of_its_flow_and_no_other() {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let client = UdpSocket::bind(here).unwrap().local_addr().unwrap();
        let socket = TestSocket::udp(here, false).unwrap();
        let follower = Arc::new(Follower::of(&socket).unwrap());
        let all = Expectations::default();
        let echo = [[1; 8], [2; 8], [3; 8], [3; 8]].concat().try_into().unwrap();
        let waiting = all.follow(client, echo, Arc::clone(&follower));
        assert!(!all.are_urgent());
        let packet = |tag| [&[9; LEAST_PACKET_BYTES as usize][..], &[tag; 8], &[0; 13]].concat();
        assert!(!all.fulfil(client, &packet(4)), "of another session");
        assert!(!all.fulfil(([127, 0, 0, 2], 5).into(), &packet(2)), "of another host");
        assert!(!all.fulfil(client, &packet(2)[..19]), "cut");
        assert_eq!(follower.moved(), None);
        assert!(all.fulfil(client, &packet(2)));
        assert!(all.fulfil(client, &echo));
        assert_eq!(socket.peer_address().unwrap(), client);
        assert_eq!(follower.moved(), Some(Moved { times: 1, uncounted: 2, to: client }));
        drop(waiting);
        assert!(!all.any());
    }
}
