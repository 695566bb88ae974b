//! Asking chronyd on this host how well it knows the time.

use quaver_abi::wire::chrony::{PORT, TRACKING_BYTES, Tracking, tracking_request};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

/// Where chronyd answers everybody on this host, unless it is told not to.
pub(super) const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT));

/// Longest wait for its answer. Where none runs the kernel says so at once.
const PATIENCE: Duration = Duration::from_millis(100);

/// Asks it; none where nobody answers, or something else does.
pub(super) fn ask(address: SocketAddr) -> Option<Tracking> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    // Connected, so that only chronyd is heard, and its absence is.
    socket.connect(address).ok()?;
    let sequence = quaver_clock::monotonic_ns() as u32;
    socket.send(&tracking_request(sequence)).ok()?;
    let end = Instant::now() + PATIENCE;
    // One byte more than an answer has, so that a longer datagram is not taken for one.
    let mut octets = [0; TRACKING_BYTES + 1];
    loop {
        let left = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        socket.set_read_timeout(Some(left)).ok()?;
        let length = socket.recv(&mut octets).ok()?;
        if let Some(tracking) = Tracking::read(&octets[..length], sequence) {
            return Some(tracking);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// What chronyd 4.3 answered, but for the number.
    fn answer(request: &[u8]) -> Vec<u8> {
        let mut octets = vec![6, 2, 0, 0, 0, 33, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0];
        octets.extend_from_slice(&request[8..12]);
        octets.resize(52, 0);
        octets.extend([0, 6, 0, 0, 0, 0, 0, 0, 0x6b, 0x01, 0xbb, 0x92, 0x15, 0x5c, 0xa6, 0x04]);
        for word in [
            0xdd3e_914d_u32,
            0xd4e8_975a,
            0xd6f8_cfb2,
            0xf12f_faa6,
            0xf0e3_a38c,
            0xfac4_5d83,
            0xe080_b6fd,
            0xdc9d_803c,
            0x068c_159e,
        ] {
            octets.extend(word.to_be_bytes());
        }
        octets
    }

    /// Asks somebody who answers each request with these datagrams.
    fn asked(answers: impl Fn(&[u8]) -> Vec<Vec<u8>> + Sync) -> Option<Tracking> {
        let daemon = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = daemon.local_addr().expect("bound");
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut request = [0; 512];
                let (length, from) = daemon.recv_from(&mut request).expect("a request");
                assert_eq!(length, TRACKING_BYTES, "no larger an answer than the request");
                for answer in answers(&request[..length]) {
                    // Who asked may have its answer already and be gone.
                    let _ = daemon.send_to(&answer, from);
                }
            });
            ask(address)
        })
    }

    #[test]
    fn a_daemon_that_answers_is_understood() {
        let found = asked(|request| vec![answer(request)]).expect("an answer");
        assert_eq!((found.stratum, found.synchronised), (6, true));
        assert_eq!(
            (found.root_delay_ns, found.root_dispersion_ns, found.last_offset_ns),
            (3_836, 1_173, 108)
        );
    }

    #[test]
    fn other_answers_are_passed_over() {
        let found = asked(|request| {
            let mut other = answer(request);
            other[16] ^= 1;
            let mut longer = answer(request);
            longer.push(0);
            vec![Vec::new(), other, longer, answer(request)]
        });
        assert_eq!(found.map(|found| found.stratum), Some(6));
    }

    #[test]
    fn refusals_and_silence_tell_nothing() {
        let refused = |request: &[u8]| {
            let mut octets = answer(request);
            octets[9] = 2;
            vec![octets]
        };
        assert_eq!(asked(refused), None);
        assert_eq!(asked(|_| Vec::new()), None);
        let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port").local_addr().expect("bound");
        assert_eq!(ask(free), None, "nobody is there");
    }
}
