//! When datagrams left the kernel: stamps from the socket's error queue, matched to packets by their number there
//! (`SOF_TIMESTAMPING_OPT_ID`).

use super::hardware::HardwareClock;
use super::inbox::{control_messages, receive_stamps, stamp_in};
use super::report::{TransmitStamp, TransmitStamps};
use super::socket::TestSocket;
use super::spec::FlowSpec;
use crate::clock::monotonic_ns;
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

/// Room for control messages: stamps (64 octets with their header) and the extended error (at most 64).
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
                // SAFETY: all-zero octets are a valid mmsghdr: no name, no parts, no control data.
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
        (is_stamp && (of_ip || of_ipv6)).then(|| u32::from_ne_bytes(data.try_into().expect("4 octets")))
    })
}
