//! Calling a server, so that a stop is heard while a dead host is waited for.

use crate::error::PathError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest wait without a look at the stop flag.
const LOOK: Duration = Duration::from_millis(50);

/// Connects within `patience`, or until `stop` is set.
pub(super) fn dial(
    server: SocketAddr,
    patience: Duration,
    stop: &AtomicBool,
) -> Result<TcpStream, PathError> {
    let failed = |error: Error| PathError::connect(server, error);
    let socket =
        Socket::new(Domain::for_address(server), Type::STREAM, Some(Protocol::TCP)).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    match socket.connect(&server.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(failed(error)),
        _ => {}
    }
    let end = Instant::now() + patience;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(PathError::Interrupted);
        }
        let left = end.saturating_duration_since(Instant::now());
        let longest = Timespec { tv_sec: 0, tv_nsec: left.min(LOOK).subsec_nanos().into() };
        let mut waited = [PollFd::new(&socket, PollFlags::OUT)];
        if poll(&mut waited, Some(&longest)).is_ok_and(|ready| ready > 0) {
            if let Some(error) = socket.take_error().map_err(failed)? {
                return Err(failed(error));
            }
            socket.set_nonblocking(false).map_err(failed)?;
            return Ok(socket.into());
        }
        if left.is_zero() {
            return Err(failed(Error::new(ErrorKind::TimedOut, "connection timed out")));
        }
    }
}
