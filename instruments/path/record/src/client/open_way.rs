//! A way over which nothing leaves: kept open through translators of addresses and firewalls.

use quaver_abi::wire::extension::CookieElement;
use rustix::net::{SendFlags, send};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Between two packets. A translator need not count what comes in as use of a way (RFC 4787, section 4.3, REQ-6). The
/// interval is that of RFC 8445, section 11.
const INTERVAL: Duration = Duration::from_secs(15);

/// Repeats the cookie, which the server does not read any more.
#[derive(Debug)]
pub(super) struct OpenWay {
    socket: OwnedFd,
    cookie: CookieElement,
    next: Instant,
}

impl OpenWay {
    /// Over a connected socket for datagrams, from `now` on.
    ///
    /// # Errors
    /// No further descriptor is to be had.
    pub(super) fn new(socket: impl AsFd, cookie: &CookieElement, now: Instant) -> io::Result<Self> {
        let socket = socket.as_fd().try_clone_to_owned()?;
        Ok(Self { socket, cookie: *cookie, next: now + INTERVAL })
    }

    /// Sends a packet if one is due.
    pub(super) fn tick(&mut self, now: Instant) {
        if now >= self.next {
            self.next = now + INTERVAL;
            // Nothing depends on a single one.
            let _ = send(&self.socket, &self.cookie.echo(), SendFlags::DONTWAIT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};

    #[test]
    fn a_way_that_only_receives_is_kept_open_every_15_s() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect(server.local_addr().unwrap()).unwrap();
        let cookie = CookieElement { tag: [1; 8], cookie: [2; 16], test_port: 7.into() };
        let begin = Instant::now();
        let mut way = OpenWay::new(&socket, &cookie, begin).unwrap();
        (0..60).for_each(|second| way.tick(begin + Duration::from_secs(second)));
        server.set_nonblocking(true).unwrap();
        let mut octets = [0; 64];
        let came: Vec<usize> = std::iter::from_fn(|| server.recv(&mut octets).ok()).collect();
        assert_eq!(came, [32; 3], "after 15, 30 and 45 s");
        assert_eq!(octets[..32], cookie.echo());
    }
}
