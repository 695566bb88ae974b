//! Sockets that flows go through.

use super::drops::SocketDrops;
use super::error::FlowError;
use super::spec::Transport;
use quaver_probe::socket::{numbers, set_option};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest wait without a look at the stop flag.
pub(super) const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// A socket that test packets go through, both ways: bound or connected UDP, or connected TCP.
#[derive(Debug)]
pub struct TestSocket {
    socket: Socket,
    transport: Transport,
    drops: SocketDrops,
}

impl TestSocket {
    /// A UDP socket at `bind`; with `share_port` others of this user may have the same port (`SO_REUSEPORT`). Port
    /// 0 lets the kernel choose.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn udp(bind: SocketAddr, share_port: bool) -> Result<Self, FlowError> {
        let socket = Socket::new(Domain::for_address(bind), Type::DGRAM, Some(Protocol::UDP))
            .map_err(|e| FlowError::os(format!("open a UDP socket for {bind}"), e))?;
        if share_port {
            socket
                .set_reuse_port(true)
                .map_err(|e| FlowError::os(format!("share the UDP port of {bind}"), e))?;
        }
        socket
            .bind(&bind.into())
            .map_err(|e| FlowError::os(format!("bind the test socket to UDP {bind}"), e))?;
        Self::from_socket(socket, Transport::Udp)
    }

    /// A TCP connection to `peer`, from `bind` if given, that is there within `timeout`.
    ///
    /// # Errors
    /// When the peer refuses or does not answer.
    pub fn tcp(peer: SocketAddr, bind: Option<SocketAddr>, timeout: Duration) -> Result<Self, FlowError> {
        let socket = Socket::new(Domain::for_address(peer), Type::STREAM, Some(Protocol::TCP))
            .map_err(|e| FlowError::os(format!("open a TCP socket for {peer}"), e))?;
        if let Some(bind) = bind {
            socket
                .set_reuse_address(true)
                .and_then(|()| socket.bind(&bind.into()))
                .map_err(|e| FlowError::os(format!("bind the test connection to TCP {bind}"), e))?;
        }
        socket
            .connect_timeout(&peer.into(), timeout)
            .map_err(|e| FlowError::os(format!("connect the test connection to TCP {peer}"), e))?;
        Self::from_socket(socket, Transport::Tcp)
    }

    /// Takes a socket that somebody else made. TCP is told to send each packet at once.
    ///
    /// # Errors
    /// When an option is refused.
    pub fn from_socket(socket: Socket, transport: Transport) -> Result<Self, FlowError> {
        if transport == Transport::Tcp {
            socket
                .set_tcp_nodelay(true)
                .map_err(|e| FlowError::os("set TCP_NODELAY of the test connection", e))?;
            socket
                .set_nonblocking(true)
                .map_err(|e| FlowError::os("make the test connection non-blocking", e))?;
        }
        let drops = SocketDrops::of(socket.as_fd());
        Ok(Self { socket, transport, drops })
    }

    /// Fixes the peer of a UDP socket: packets go there, and only its packets are received.
    ///
    /// # Errors
    /// When there is no way to it.
    pub fn connect(&self, peer: SocketAddr) -> Result<(), FlowError> {
        self.socket
            .connect(&peer.into())
            .map_err(|e| FlowError::os(format!("connect the test socket to {peer}"), e))
    }

    /// Marks what is sent from here with a DSCP, 0 to 63 (RFC 2474).
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn set_dscp(&self, dscp: u8) -> Result<(), FlowError> {
        let class = u32::from(dscp & 63) << 2;
        let outcome = match self.local_address()? {
            SocketAddr::V4(_) => self.socket.set_tos_v4(class),
            SocketAddr::V6(_) => self.socket.set_tclass_v6(class),
        };
        outcome.map_err(|e| FlowError::os(format!("set DSCP {dscp} of the test socket"), e))
    }

    /// What carries its packets.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Local address.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_address(&self) -> Result<SocketAddr, FlowError> {
        internet(self.socket.local_addr(), "read the test socket's address")
    }

    /// Peer that it is connected to.
    ///
    /// # Errors
    /// When it is not connected.
    pub fn peer_address(&self) -> Result<SocketAddr, FlowError> {
        internet(self.socket.peer_addr(), "read the address of the test socket's peer")
    }

    /// The socket itself.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The socket alone.
    pub fn into_socket(self) -> Socket {
        self.socket
    }

    /// Another handle to the same socket, for a sender and a receiver in two threads.
    ///
    /// # Errors
    /// When the process has no more file descriptors.
    pub fn try_clone(&self) -> Result<Self, FlowError> {
        let socket = self.socket.try_clone().map_err(|e| FlowError::os("copy the test socket", e))?;
        Ok(Self { socket, transport: self.transport, drops: self.drops.clone() })
    }

    pub(super) fn set(&self, option: i32, value: i32) -> Result<(), Error> {
        set_option(self.as_fd(), libc::SOL_SOCKET, option, &value)
    }

    /// Packets dropped at the socket since the last call, or since it was made ([`SocketDrops::since`]).
    pub(super) fn new_drops(&self) -> Option<u64> {
        self.drops.since(self.as_fd())
    }

    /// Size of the receive buffer as the kernel counts it.
    pub(super) fn receive_buffer_bytes(&self) -> usize {
        numbers::<1>(self.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF).map_or(0, |numbers| numbers[0] as usize)
    }
}

impl AsFd for TestSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Waits for the test connection of a TCP flow.
#[derive(Debug)]
pub struct TestListener {
    socket: Socket,
}

impl TestListener {
    /// Listens at `bind`. Port 0 lets the kernel choose.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn bind(bind: SocketAddr) -> Result<Self, FlowError> {
        let failed = |e| FlowError::os(format!("listen for the test connection at TCP {bind}"), e);
        let socket =
            Socket::new(Domain::for_address(bind), Type::STREAM, Some(Protocol::TCP)).map_err(failed)?;
        socket.set_reuse_address(true).map_err(failed)?;
        socket.bind(&bind.into()).map_err(failed)?;
        socket.listen(8).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        Ok(Self { socket })
    }

    /// Local address.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_address(&self) -> Result<SocketAddr, FlowError> {
        internet(self.socket.local_addr(), "read the address of the listener")
    }

    /// The next connection that `admit` lets in; others are closed. None when the time is over or `stop` is set.
    ///
    /// # Errors
    /// When the system fails to accept.
    pub fn accept(
        &self,
        timeout: Duration,
        stop: &AtomicBool,
        mut admit: impl FnMut(SocketAddr) -> bool,
    ) -> Result<Option<TestSocket>, FlowError> {
        let end = Instant::now() + timeout;
        while !stop.load(Ordering::Relaxed) {
            let nobody = match self.socket.accept() {
                Ok((socket, peer)) if peer.as_socket().is_some_and(&mut admit) => {
                    return TestSocket::from_socket(socket, Transport::Tcp).map(Some);
                }
                Ok(_) => false,
                Err(e) if e.kind() == ErrorKind::WouldBlock => true,
                // The peer went away in between, or a signal came.
                Err(e) if matches!(e.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => false,
                Err(e) => return Err(FlowError::os("accept the test connection", e)),
            };
            // However many others come, the time is over when it is.
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if nobody {
                wait(self.socket.as_fd(), PollFlags::IN, left.min(LONGEST_WAIT));
            }
        }
        Ok(None)
    }
}

/// Returns when the socket is ready for `what`, when a signal comes, or when the time is over.
pub(super) fn wait(socket: BorrowedFd<'_>, what: PollFlags, longest: Duration) {
    let mut waited = [PollFd::from_borrowed_fd(socket, what)];
    let longest = Timespec {
        tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: longest.subsec_nanos().into(),
    };
    // Whatever it says, the caller tries again and hears of it there.
    let _ = poll(&mut waited, Some(&longest));
}

fn internet(address: Result<SockAddr, Error>, operation: &str) -> Result<SocketAddr, FlowError> {
    let address = address.map_err(|e| FlowError::os(operation, e))?;
    address.as_socket().ok_or_else(|| FlowError::os(operation, Error::from_raw_os_error(libc::EAFNOSUPPORT)))
}
