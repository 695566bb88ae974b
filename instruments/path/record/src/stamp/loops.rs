//! Packets that answer us. Somebody who forges the address of one reflector towards another makes them answer each
//! other for ever, if each takes the other's reply for a request: RFC 8762 tells the two only by their direction.
//! But a reply repeats our stamp in a place that a request has zeros or padding in.

use quaver_abi::wire::stamp::Mode;
use quaver_abi::wire::stamp::time::TimestampFormat;

/// A reply that took longer is not known for one; what goes round so slowly does no harm.
const LONGEST_NS: i64 = 60_000_000_000;

/// Where a reply has the stamp of what it answers.
const fn answered_stamp_at(mode: Mode) -> usize {
    match mode {
        Mode::Unauthenticated => 28,
        Mode::Authenticated => 64,
    }
}

/// Whether this is a reply to a packet of ours: it repeats a stamp of our clock of the last minute. Random padding of
/// TWAMP Light does so once in some seventy million packets.
pub(super) fn answers_us(octets: &[u8], mode: Mode, format: TimestampFormat, now_ns: i64) -> bool {
    let stamp = octets.get(answered_stamp_at(mode)..).and_then(|rest| rest.first_chunk());
    stamp.map(|stamp| u64::from_be_bytes(*stamp)).filter(|stamp| *stamp != 0).is_some_and(|stamp| {
        let age_ns = now_ns.saturating_sub(format.decode(stamp, now_ns));
        (0..=LONGEST_NS).contains(&age_ns)
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Protection, ReflectorOptions, StampKey, reflect};
    use super::*;
    use quaver_abi::wire::stamp::time::ErrorEstimate;
    use quaver_abi::wire::stamp::{ReflectorPacket, SenderPacket};
    use quaver_clock::realtime_ns;
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Ends the reflector, also where the test fails.
    struct Ends<'a>(&'a AtomicBool);

    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    const NOW_NS: i64 = 1_790_000_000_000_000_000;

    fn reply(mode: Mode, format: TimestampFormat, sender_timestamp: u64) -> Vec<u8> {
        let error_estimate = ErrorEstimate::new(format, false, 1_000);
        let mut octets = vec![0; mode.base_bytes()];
        let packet = ReflectorPacket {
            sequence: 7,
            timestamp: format.encode(NOW_NS),
            error_estimate,
            ssid: 3,
            receive_timestamp: format.encode(NOW_NS),
            sender_sequence: 7,
            sender_timestamp,
            sender_error_estimate: error_estimate,
            sender_ttl: 64,
        };
        packet.write(mode, &mut octets).unwrap();
        octets
    }

    #[test]
    fn a_reply_is_known_by_our_stamp_in_it() {
        for mode in [Mode::Unauthenticated, Mode::Authenticated] {
            for format in [TimestampFormat::Ntp, TimestampFormat::Ptp] {
                let answers = |stamp| answers_us(&reply(mode, format, stamp), mode, format, NOW_NS);
                for age_ns in [0, 1_000, LONGEST_NS] {
                    assert!(answers(format.encode(NOW_NS - age_ns)), "{age_ns}");
                }
                for age_ns in [-1_000_000, LONGEST_NS + 1_000, 3_600_000_000_000] {
                    assert!(!answers(format.encode(NOW_NS - age_ns)), "{age_ns}");
                }
                assert!(!answers(0), "as a request has it");
                let error_estimate = ErrorEstimate::new(format, false, 1_000);
                let timestamp = format.encode(NOW_NS);
                let mut request = vec![0; mode.base_bytes()];
                let packet = SenderPacket { sequence: 7, timestamp, error_estimate, ssid: 3 };
                packet.write(mode, &mut request).unwrap();
                assert!(!answers_us(&request, mode, format, NOW_NS));
                assert!(!answers_us(&request[..30], mode, format, NOW_NS), "cut off");
            }
        }
    }

    /// The other reflector is played by hand, at a port that is not the first one's.
    #[test]
    fn two_reflectors_do_not_answer_each_other() {
        let key = StampKey::new(b"a key of some bytes").unwrap();
        for protection in [Protection::None, Protection::All(key)] {
            let (mode, format) = (protection.mode(), TimestampFormat::Ntp);
            let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let options =
                ReflectorOptions { bind, protection: protection.clone(), ..ReflectorOptions::default() };
            let (stop, (send, events)) = (AtomicBool::new(false), channel());
            let totals = std::thread::scope(|scope| {
                let ours = scope.spawn(|| {
                    reflect(&options, &stop, &mut |event| {
                        let _ = send.send(event);
                    })
                });
                let ends = Ends(&stop);
                let first = events.recv().unwrap();
                let super::super::ReflectorEvent::Listening { address, .. } = first else {
                    panic!("{first}")
                };
                let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                other.connect(address).unwrap();
                other.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                let ask = |sequence| {
                    let error_estimate = ErrorEstimate::new(format, false, 1_000);
                    let timestamp = format.encode(realtime_ns());
                    let packet = SenderPacket { sequence, timestamp, error_estimate, ssid: 3 };
                    let mut request = vec![0; mode.base_bytes()];
                    packet.write(mode, &mut request).unwrap();
                    sealed(&protection, &mut request);
                    other.send(&request).unwrap();
                    let mut answer = vec![0; mode.base_bytes()];
                    assert_eq!(other.recv(&mut answer).unwrap(), answer.len());
                    ReflectorPacket::read(mode, &answer).unwrap()
                };
                let answer = ask(1);
                let mut looping = reply(mode, format, answer.timestamp);
                sealed(&protection, &mut looping);
                other.send(&looping).unwrap();
                assert_eq!(ask(2).sender_sequence, 2, "the next answer is to the next request");
                drop(ends);
                ours.join().unwrap().unwrap()
            });
            assert_eq!((totals.received, totals.reflected), (3, 2));
            assert_eq!(totals.refused[super::super::Refusal::Looping as usize], 1);
        }
    }

    fn sealed(protection: &Protection, octets: &mut [u8]) {
        if let Protection::All(key) = protection {
            key.seal_base(octets);
        }
    }
}
