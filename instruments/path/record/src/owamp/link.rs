//! A control connection: messages of known lengths, each within a time.

use crate::control::with_interface;
use crate::error::PathError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// Longest wait without a look at the stop flag.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// Why there is no message.
#[derive(Debug)]
pub(super) enum LinkError {
    Stopped,
    TimedOut,
    Closed,
    Os(std::io::Error),
}

impl LinkError {
    /// The same as a client tells it, of one that waited for `what`.
    pub(super) fn of_client(self, peer: SocketAddr, patience: Duration, what: &'static str) -> PathError {
        match self {
            Self::Stopped => PathError::Interrupted,
            Self::TimedOut => PathError::TimedOut { peer, seconds: patience.as_secs(), waiting_for: what },
            Self::Closed => PathError::Closed { peer, phase: "before the test began" },
            Self::Os(source) => PathError::os(format!("talk to {peer}"), source),
        }
    }
}

/// The connection.
#[derive(Debug)]
pub(super) struct Link {
    socket: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
}

impl Link {
    pub(super) fn new(socket: TcpStream) -> std::io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let (peer, local) = (socket.peer_addr()?, with_interface(socket.local_addr()?));
        Ok(Self { socket, peer, local })
    }

    /// Waits until there is something to read, at most so long; whether there is.
    pub(super) fn wait(&self, longest: Duration) -> bool {
        self.poll(PollFlags::IN, longest)
    }

    fn poll(&self, what: PollFlags, longest: Duration) -> bool {
        let longest = Timespec { tv_sec: 0, tv_nsec: longest.min(LOOK).subsec_nanos().into() };
        poll(&mut [PollFd::new(&self.socket, what)], Some(&longest)).is_ok_and(|ready| ready > 0)
    }

    /// Fills `octets` before `end`.
    pub(super) fn read(
        &mut self,
        mut octets: &mut [u8],
        end: Instant,
        stop: &AtomicBool,
    ) -> Result<(), LinkError> {
        while !octets.is_empty() {
            match self.socket.read(octets) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(read) => octets = &mut octets[read..],
                Err(error) => self.again(error, PollFlags::IN, end, stop)?,
            }
        }
        Ok(())
    }

    /// The next message, before `end`.
    pub(super) fn hear<T: FromBytes + FromZeros + IntoBytes>(
        &mut self,
        end: Instant,
        stop: &AtomicBool,
    ) -> Result<T, LinkError> {
        let mut message = T::new_zeroed();
        self.read(message.as_mut_bytes(), end, stop)?;
        Ok(message)
    }

    /// Writes all before `end`.
    pub(super) fn write(
        &mut self,
        mut octets: &[u8],
        end: Instant,
        stop: &AtomicBool,
    ) -> Result<(), LinkError> {
        while !octets.is_empty() {
            match self.socket.write(octets) {
                Ok(written) => octets = &octets[written..],
                Err(error) => self.again(error, PollFlags::OUT, end, stop)?,
            }
        }
        Ok(())
    }

    /// Says a message before `end`.
    pub(super) fn say<T: IntoBytes + Immutable>(
        &mut self,
        message: &T,
        end: Instant,
        stop: &AtomicBool,
    ) -> Result<(), LinkError> {
        self.write(message.as_bytes(), end, stop)
    }

    /// Waits where a call would have to.
    fn again(
        &self,
        error: std::io::Error,
        what: PollFlags,
        end: Instant,
        stop: &AtomicBool,
    ) -> Result<(), LinkError> {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => {}
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => return Err(LinkError::Closed),
            _ => return Err(LinkError::Os(error)),
        }
        if stop.load(Ordering::Relaxed) {
            return Err(LinkError::Stopped);
        }
        if Instant::now() >= end {
            return Err(LinkError::TimedOut);
        }
        self.poll(what, LOOK);
        Ok(())
    }
}

/// An address as messages hold it: of IPv4 the first four bytes.
pub(super) fn address_octets(address: IpAddr) -> [u8; 16] {
    let mut octets = [0; 16];
    match address.to_canonical() {
        IpAddr::V4(v4) => octets[..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => octets = v6.octets(),
    }
    octets
}

/// Version of IP as messages hold it.
pub(super) fn ip_version(address: IpAddr) -> u8 {
    if address.to_canonical().is_ipv4() { 4 } else { 6 }
}

/// A time in seconds of 2^-32, as messages hold it, to the nearest; of what is too long the most.
pub(super) fn interval(ns: u64) -> u64 {
    let parts = ((u128::from(ns) << 32) + 500_000_000) / 1_000_000_000;
    u64::try_from(parts).unwrap_or(u64::MAX)
}

/// The same in nanoseconds.
pub(super) fn interval_ns(parts: u64) -> u64 {
    ((u128::from(parts) * 1_000_000_000 + (1 << 31)) >> 32) as u64
}
