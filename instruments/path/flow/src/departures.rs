//! When datagrams left the kernel: stamps from the socket's error queue, matched to packets by their number there
//! (`SOF_TIMESTAMPING_OPT_ID`).

use super::hardware::HardwareClock;
use super::inbox::{control_messages, receive_stamps, stamp_in};
use super::report::{TransmitStamp, TransmitStamps};
use super::socket::TestSocket;
use super::spec::FlowSpec;
use super::summary::Lateness;
use hdrhistogram::Histogram;
use quaver_clock::monotonic_ns;
use std::collections::VecDeque;
use std::io::Error;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// What asks for stamps of departure, by number, without the packet itself.
const DEPARTURE_STAMPS: u32 =
    libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
/// Origin of messages of the error queue that carry stamps (`SO_EE_ORIGIN_TIMESTAMPING`).
const ORIGIN_TIMESTAMPING: u8 = 4;
/// Packets whose stamp is awaited; of more, the oldest are given up.
const MOST_AWAITED: usize = 1 << 16;
/// Messages taken in one call.
const MOST_TAKEN: usize = 32;
/// Packets after which the queue is emptied although the next one is nearly due.
const OFTEN_ENOUGH: usize = 256;
/// How long the last stamps are waited for, nanoseconds.
const LAST_WAIT_NS: i64 = 20_000_000;

/// Room for control messages: stamps (64 bytes with their header) and the extended error (at most 64).
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 256]);

/// Collects stamps of departure of one flow.
pub(super) struct Departures<'a> {
    socket: &'a TestSocket,
    most_kept: usize,
    /// Sequence and time of packets whose stamp is awaited, in the order of their numbers in the queue; of
    /// `first_number` is the first.
    awaited: VecDeque<Option<(u64, i64)>>,
    first_number: u32,
    stamps: TransmitStamps,
    sum_ns: i128,
    took: Histogram<u64>,
    sent: u64,
    /// What the socket asks for beside stamps of departure.
    receive_stamps: u32,
    hardware: Option<HardwareClock>,
    headers: Vec<libc::mmsghdr>,
    controls: Vec<Control>,
}

impl<'a> Departures<'a> {
    /// Starts to collect.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn start(
        socket: &'a TestSocket,
        spec: &FlowSpec,
        hardware: Option<HardwareClock>,
    ) -> Result<Self, Error> {
        let receive_stamps = receive_stamps(spec.stamps);
        number_from_zero(socket, receive_stamps, hardware.is_some())?;
        let mut controls = vec![Control([0; 256]); MOST_TAKEN];
        let headers = controls
            .iter_mut()
            .map(|control| {
                // SAFETY: all-zero bytes are a valid mmsghdr: no name, no parts, no control data.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
                header
            })
            .collect();
        Ok(Self {
            socket,
            most_kept: spec.stamps_kept,
            awaited: VecDeque::with_capacity(MOST_AWAITED),
            first_number: 0,
            stamps: TransmitStamps::default(),
            sum_ns: 0,
            took: Lateness::histogram(),
            sent: 0,
            receive_stamps,
            hardware,
            headers,
            controls,
        })
    }

    /// Notes a packet that the kernel took.
    #[inline]
    pub(super) fn sent(&mut self, sequence: u64, sent_ns: i64) {
        if self.awaited.len() == MOST_AWAITED {
            self.awaited.pop_front();
            self.first_number = self.first_number.wrapping_add(1);
        }
        self.awaited.push_back(Some((sequence, sent_ns)));
        self.sent += 1;
    }

    /// Begins to number anew: after a failed try nobody knows whether the kernel counted it. `sent_after_all` tells
    /// of a packet that went at the second try.
    pub(super) fn renumber(&mut self, sent_after_all: bool) {
        self.sent += u64::from(sent_after_all);
        self.drain();
        self.awaited.clear();
        self.first_number = 0;
        // If it is refused, stamps stay away or match nothing, and are counted as missing.
        let _ = number_from_zero(self.socket, self.receive_stamps, self.hardware.is_some());
    }

    /// Whether the queue ought to be emptied although there is little time.
    pub(super) fn is_urgent(&self) -> bool {
        self.awaited.len() >= OFTEN_ENOUGH
    }

    /// Takes the stamps that are there.
    pub(super) fn drain(&mut self) {
        if let Some(hardware) = &mut self.hardware {
            hardware.keep_up();
        }
        loop {
            for header in &mut self.headers {
                header.msg_hdr.msg_controllen = size_of::<Control>() as _;
            }
            // SAFETY: each header leads to a control of the length it says, owned by self and never moved; there are
            // no parts and no names, and no timeout is given.
            let taken = unsafe {
                libc::recvmmsg(
                    self.socket.as_fd().as_raw_fd(),
                    self.headers.as_mut_ptr(),
                    MOST_TAKEN as libc::c_uint,
                    libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
                    std::ptr::null_mut(),
                )
            };
            let taken = usize::try_from(taken).unwrap_or(0);
            for slot in 0..taken {
                let control = self.controls[slot];
                let written = self.headers[slot].msg_hdr.msg_controllen.min(control.0.len());
                self.note(&control.0[..written]);
            }
            if taken < MOST_TAKEN {
                return;
            }
        }
    }

    fn note(&mut self, control: &[u8]) {
        let Some((number, (left_ns, stamped_by))) =
            number_in(control).zip(stamp_in(control, self.hardware.as_ref()))
        else {
            return;
        };
        let place = number.wrapping_sub(self.first_number) as usize;
        let Some((sequence, sent_ns)) = self.awaited.get_mut(place).and_then(Option::take) else { return };
        let took_ns = left_ns.saturating_sub(sent_ns);
        self.sum_ns += i128::from(took_ns);
        self.stamps.largest_ns = self.stamps.largest_ns.max(took_ns);
        // Below 0 only where the wall clock was stepped in between.
        self.took.saturating_record(u64::try_from(took_ns).unwrap_or(0));
        self.stamps.stamped_by[stamped_by as usize] += 1;
        self.stamps.count += 1;
        if self.stamps.kept.len() < self.most_kept {
            self.stamps.kept.push(TransmitStamp { sequence, sent_ns, left_ns, stamped_by });
        }
        while self.awaited.front() == Some(&None) {
            self.awaited.pop_front();
            self.first_number = self.first_number.wrapping_add(1);
        }
    }

    /// Waits shortly for the last stamps, and ends the stamping of what the socket sends.
    pub(super) fn finish(mut self) -> TransmitStamps {
        let end_ns = monotonic_ns() + LAST_WAIT_NS;
        self.drain();
        while !self.awaited.is_empty() && monotonic_ns() < end_ns {
            std::thread::sleep(std::time::Duration::from_micros(500));
            self.drain();
        }
        // A stamp left in the queue would wake every wait for packets, so none is asked for any more.
        let _ = self.socket.set(libc::SO_TIMESTAMPING, self.receive_stamps as i32);
        self.stamps.missing = self.sent - self.stamps.count;
        if self.stamps.count > 0 {
            self.stamps.mean_ns = self.sum_ns as f64 / self.stamps.count as f64;
            let quantile = |quantile: f64| self.took.value_at_quantile(quantile).cast_signed();
            (self.stamps.median_ns, self.stamps.p99_ns) = (quantile(0.5), quantile(0.99));
        }
        self.stamps
    }
}

/// The kernel numbers from 0 whenever numbering is switched on.
fn number_from_zero(socket: &TestSocket, receive_stamps: u32, hardware: bool) -> Result<(), Error> {
    let by_hardware = if hardware { libc::SOF_TIMESTAMPING_TX_HARDWARE } else { 0 };
    socket.set(libc::SO_TIMESTAMPING, receive_stamps as i32)?;
    socket.set(libc::SO_TIMESTAMPING, (receive_stamps | DEPARTURE_STAMPS | by_hardware) as i32)
}

/// The number that an extended error among the messages carries, if it is about a stamp.
fn number_in(control: &[u8]) -> Option<u32> {
    control_messages(control).find_map(|(level, kind, error)| {
        let of_ip = level == libc::SOL_IP && kind == libc::IP_RECVERR;
        let of_ipv6 = level == libc::SOL_IPV6 && kind == libc::IPV6_RECVERR;
        // struct sock_extended_err: errno, then origin, type, code and nothing, info, data.
        let is_stamp = error.get(4) == Some(&ORIGIN_TIMESTAMPING);
        let data = error.get(12..16)?;
        (is_stamp && (of_ip || of_ipv6)).then(|| u32::from_ne_bytes(data.try_into().expect("4 bytes")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FlowSchedule, StampSource, TestSocket};
    use std::net::Ipv4Addr;

    /// A control message as the kernel lays it out on 64-bit hosts: length, level, type, data, to the next 8 bytes.
    fn control_message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let length = 16 + data.len();
        let mut octets = length.to_ne_bytes().to_vec();
        octets.extend(level.to_ne_bytes());
        octets.extend(kind.to_ne_bytes());
        octets.extend(data);
        octets.resize(length.next_multiple_of(8), 0);
        octets
    }

    /// struct scm_timestamping: three times of seconds and nanoseconds: software, nothing, hardware.
    fn stamps(software: (i64, i64), hardware: (i64, i64)) -> Vec<u8> {
        let words = [software.0, software.1, 0, 0, hardware.0, hardware.1];
        let octets: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        control_message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &octets)
    }

    /// struct sock_extended_err with ENOMSG and the number of a packet, and the address behind it.
    fn number(number: u32, origin: u8) -> Vec<u8> {
        let mut error = 42u32.to_ne_bytes().to_vec();
        error.extend([origin, 0, 0, 0]);
        error.extend(0u32.to_ne_bytes());
        error.extend(number.to_ne_bytes());
        error.extend([0; 16]);
        control_message(libc::SOL_IP, libc::IP_RECVERR, &error)
    }

    /// The messages of a datagram's departure from an interface that stamps, in the order of Linux.
    fn departure(at: u32, software: (i64, i64), hardware: (i64, i64)) -> Vec<u8> {
        [stamps(software, hardware), number(at, ORIGIN_TIMESTAMPING)].concat()
    }

    /// A flow whose stamps are given by hand; the interface's clock is 37 s ahead (TAI).
    fn noting(test: impl FnOnce(&mut Departures<'_>)) -> TransmitStamps {
        let socket = TestSocket::udp((Ipv4Addr::LOCALHOST, 0).into(), false).unwrap();
        let spec = FlowSpec::new(80, Some(10), FlowSchedule::every(1_000_000));
        let hardware = HardwareClock::fixed(1_037_000_000_000, 1_000_000_000_000);
        let mut departures = Departures::start(&socket, &spec, None).unwrap();
        departures.hardware = Some(hardware);
        test(&mut departures);
        departures.awaited.clear();
        departures.finish()
    }

    #[test]
    fn the_interfaces_stamp_is_preferred_and_turned_into_utc() {
        let stamps = noting(|departures| {
            departures.sent(0, 1_000_000_100_000);
            departures.sent(1, 1_000_000_200_000);
            departures.sent(2, 1_000_000_300_000);
            // The kernel tells of each of its own stamps and of the interface's in a message of its own.
            departures.note(&departure(0, (0, 0), (1_037, 107_000)));
            departures.note(&departure(1, (1_000, 209_000), (0, 0)));
            departures.note(&departure(2, (1_000, 305_000), (1_037, 312_000)));
        });
        let told: Vec<_> =
            stamps.kept.iter().map(|stamp| (stamp.sequence, stamp.left_ns, stamp.stamped_by)).collect();
        assert_eq!(
            told,
            [
                (0, 1_000_000_107_000, StampSource::Hardware),
                (1, 1_000_000_209_000, StampSource::Kernel),
                (2, 1_000_000_312_000, StampSource::Hardware),
            ]
        );
        assert_eq!((stamps.count, stamps.missing, stamps.stamped_by), (3, 0, [2, 1, 0]));
        assert_eq!((stamps.mean_ns.round(), stamps.largest_ns), (9_333.0, 12_000));
        assert!((stamps.median_ns - 9_000).abs() <= 9 && (stamps.p99_ns - 12_000).abs() <= 12, "{stamps:?}");
    }

    #[test]
    fn what_is_no_stamp_of_ours_is_left_out() {
        let whole = departure(0, (1_000, 209_000), (0, 0));
        let stamps = noting(|departures| {
            departures.sent(0, 1_000_000_100_000);
            departures.note(&[]);
            (0..whole.len() - 24).for_each(|length| departures.note(&whole[..length]));
            // A refusal (ICMP), a number that was never sent, a departure without any time.
            departures.note(&[stamps_of_nothing(), number(0, 2)].concat());
            departures.note(&departure(1, (1_000, 209_000), (0, 0)));
            departures.note(&departure(0, (0, 0), (0, 0)));
            departures.note(&whole);
            departures.note(&whole);
        });
        assert_eq!((stamps.count, stamps.kept.len(), stamps.missing), (1, 1, 0), "once");
        assert_eq!(stamps.kept[0].left_ns, 1_000_000_209_000);
    }

    fn stamps_of_nothing() -> Vec<u8> {
        stamps((1_000, 209_000), (0, 0))
    }
}
