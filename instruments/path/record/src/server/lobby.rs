//! The UDP test port before a flow: whoever echoes a cookie is handed to its session. Nothing is ever sent from here.

use crate::control::same_host;
use crate::error::PathError;
use quaver_abi::wire::extension::COOKIE_BYTES;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Datagrams taken at a time, so that the rest of the server gets its turn.
const MOST_AT_ONCE: usize = 256;

/// What a session waits for.
#[derive(Debug)]
struct Expectation {
    number: u64,
    /// Of any port.
    peer: SocketAddr,
    echo: [u8; COOKIE_BYTES],
    to: Sender<SocketAddr>,
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
        let mut all = self.lock();
        let number = all.0;
        all.0 += 1;
        all.1.push(Expectation { number, peer, echo, to });
        Waiting { all: self, number }
    }

    pub(super) fn any(&self) -> bool {
        !self.lock().1.is_empty()
    }

    /// Takes out the expectation that this fulfils; whom to tell.
    fn fulfil(&self, peer: SocketAddr, echo: &[u8]) -> Option<Sender<SocketAddr>> {
        let mut all = self.lock();
        let at =
            all.1.iter().position(|expected| same_host(expected.peer, peer) && expected.echo == *echo)?;
        Some(all.1.swap_remove(at).to)
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
                    if let Some(to) = expectations.fulfil(peer, &octets[..got]) {
                        // A session that no longer waits has ended.
                        let _ = to.send(peer);
                    }
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
    use std::sync::mpsc::channel;

    #[test]
    fn only_the_right_echo_from_the_right_host_is_waited_for() {
        let all = Expectations::default();
        let (to, arriving) = channel();
        let (peer, other) = (([192, 0, 2, 1], 5).into(), ([192, 0, 2, 2], 5).into());
        let waiting = all.add(peer, [7; COOKIE_BYTES], to.clone());
        assert!(all.fulfil(other, &[7; COOKIE_BYTES]).is_none());
        assert!(all.fulfil(peer, &[8; COOKIE_BYTES]).is_none());
        assert!(all.fulfil(peer, &[7; COOKIE_BYTES - 1]).is_none());
        assert!(all.fulfil(peer, &[7; COOKIE_BYTES + 1]).is_none());
        let elsewhere = ([192, 0, 2, 1], 6).into();
        assert!(all.fulfil(elsewhere, &[7; COOKIE_BYTES]).is_some(), "from any port");
        assert!(all.fulfil(peer, &[7; COOKIE_BYTES]).is_none(), "once");
        drop(waiting);
        let waiting = all.add(peer, [9; COOKIE_BYTES], to);
        assert!(all.any());
        drop(waiting);
        assert!(!all.any(), "a session that has ended is not waited for");
        assert!(arriving.try_recv().is_err());
    }
}
