//! A way over which nothing leaves: kept open through translators of addresses and firewalls.

use quaver_abi::wire::extension::CookieElement;
use rustix::net::{SendFlags, send};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Between two packets. A translator need not count what comes in as use of a way (RFC 4787, section 4.3, REQ-6). The
/// interval is that of RFC 8445, section 11.
const INTERVAL: Duration = Duration::from_secs(15);
/// While nothing comes: the translator may have forgotten the way. The server then sends to where the cookie came from.
const INTERVAL_OF_SILENCE: Duration = Duration::from_secs(1);

/// Repeats the cookie, by which the server sees where we are.
#[derive(Debug)]
pub(super) struct OpenWay {
    socket: OwnedFd,
    cookie: CookieElement,
    next: Instant,
    /// When something came, or the cookie went.
    last: Instant,
}

impl OpenWay {
    /// Over a connected socket for datagrams, from `now` on.
    ///
    /// # Errors
    /// No further descriptor is to be had.
    pub(super) fn new(socket: impl AsFd, cookie: &CookieElement, now: Instant) -> io::Result<Self> {
        let socket = socket.as_fd().try_clone_to_owned()?;
        Ok(Self { socket, cookie: *cookie, next: now + INTERVAL, last: now })
    }

    /// Something came over it.
    pub(super) fn heard(&mut self, now: Instant) {
        self.last = now;
    }

    /// Sends a packet if one is due.
    pub(super) fn tick(&mut self, now: Instant) {
        if now >= self.next || now >= self.last + INTERVAL_OF_SILENCE {
            self.next = now + INTERVAL;
            self.last = now;
            // Nothing depends on a single one.
            let _ = send(&self.socket, &self.cookie.echo(), SendFlags::DONTWAIT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};

    /// Cookies that come in a minute in which packets come in all seconds but those.
    fn cookies(silence: std::ops::Range<u64>) -> usize {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect(server.local_addr().unwrap()).unwrap();
        let cookie = CookieElement { tag: [1; 8], cookie: [2; 16], test_port: 7.into() };
        let begin = Instant::now();
        let mut way = OpenWay::new(&socket, &cookie, begin).unwrap();
        for second in 0..60 {
            let now = begin + Duration::from_secs(second);
            if !silence.contains(&second) {
                way.heard(now);
            }
            way.tick(now);
        }
        server.set_nonblocking(true).unwrap();
        let mut octets = [0; 64];
        let came: Vec<usize> = std::iter::from_fn(|| server.recv(&mut octets).ok()).collect();
        assert!(came.iter().all(|length| *length == 32));
        assert_eq!(octets[..32], cookie.echo());
        came.len()
    }

    #[test]
    fn a_way_that_only_receives_is_kept_open_every_15_s_and_each_second_of_silence() {
        assert_eq!(cookies(0..0), 3, "after 15, 30 and 45 s");
        assert_eq!(cookies(20..25), 1 + 5 + 2, "after 15, 20 to 24, 39 and 54 s");
    }
}
