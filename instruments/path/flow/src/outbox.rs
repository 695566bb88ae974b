//! Buffers of packets to send, and the calls that send them.

use super::packet::PacketForm;
use super::random::Random;
use super::socket::{LONGEST_WAIT, TestSocket, wait};
use super::spec::{FlowSpec, Transport};
use quaver_clock::realtime_ns;
use quaver_probe::socket::set_option;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Most packets in one call.
pub(super) const MOST_BATCHED: usize = 64;
/// Memory for packets at most, bytes; long packets go in smaller batches.
const MOST_BYTES: usize = 4 << 20;
/// How long a stopped or acknowledged sender tries to finish a record that the connection has taken in part.
const RECORD_GRACE: Duration = Duration::from_millis(500);

/// What became of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The kernel took it.
    Sent,
    /// The kernel took it at the second try: the first only told that the peer had refused an earlier packet.
    SentAgain,
    /// It did not.
    Failed(Errno),
    /// The connection is gone.
    Closed,
}

/// Packets ready to go but for number and time.
pub(super) struct Outbox<'a> {
    form: PacketForm,
    socket: &'a TestSocket,
    random: Random,
    octets: Vec<u8>,
    slots: usize,
    /// Packets of a train; 1: each by itself.
    train: usize,
    /// Why the kernel takes no trains.
    pub(super) train_refused: Option<Errno>,
    headers: Vec<libc::mmsghdr>,
    /// What `headers` point to: a part for each slot.
    _parts: Vec<libc::iovec>,
    /// Time in each packet of the last batch, UTC nanoseconds.
    pub(super) sent_ns: Vec<i64>,
    /// What became of each.
    pub(super) fates: Vec<Fate>,
}

impl<'a> Outbox<'a> {
    pub(super) fn new(spec: &FlowSpec, socket: &'a TestSocket) -> Self {
        let form = PacketForm::of(spec);
        let slots = (MOST_BYTES / form.packet_bytes).clamp(1, MOST_BATCHED);
        let mut octets = vec![0u8; slots * form.packet_bytes];
        let mut random = Random::new(realtime_ns().cast_unsigned());
        let padding_at = form.padding_at();
        let mut parts = Vec::with_capacity(slots);
        for packet in octets.chunks_exact_mut(form.packet_bytes) {
            random.fill(&mut packet[padding_at..]);
            parts.push(libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: packet.len() });
        }
        let headers = parts
            .iter_mut()
            .map(|part| {
                // SAFETY: all-zero bytes are a valid mmsghdr: no name, no parts, no control data.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_iov = &raw mut *part;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        let (sent_ns, fates) = (Vec::with_capacity(slots), Vec::with_capacity(slots));
        Self {
            form,
            socket,
            random,
            octets,
            slots,
            train: 1,
            train_refused: None,
            headers,
            _parts: parts,
            sent_ns,
            fates,
        }
    }

    /// Most packets that one call takes.
    pub(super) fn most(&self) -> usize {
        if self.train > 1 { self.train } else { self.slots }
    }

    /// Packets of a train; 1: each goes by itself.
    pub(super) fn train(&self) -> usize {
        self.train
    }

    /// From now on `packets` go as a train: the kernel is given them as one datagram, and cuts it apart.
    pub(super) fn make_trains(&mut self, packets: usize) {
        let packets = packets.min(self.slots);
        let segment_bytes = if packets > 1 { self.form.packet_bytes as libc::c_int } else { 0 };
        if packets > 1 || self.train > 1 {
            let set = set_option(self.socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, &segment_bytes);
            if let Err(error) = set {
                self.train_refused = Some(Errno::from_io_error(&error).unwrap_or(Errno::IO));
                self.train = 1;
                return;
            }
        }
        self.train = packets;
    }

    /// Sends `count` packets, numbered from `sequence` on, at once.
    #[inline]
    pub(super) fn send(&mut self, sequence: u64, count: usize, give_up: [&AtomicBool; 2]) {
        self.sent_ns.clear();
        self.fates.clear();
        // One reading for all: they go in one call.
        let tx_real_time_ns = realtime_ns();
        for (slot, octets) in self.octets.chunks_exact_mut(self.form.packet_bytes).take(count).enumerate() {
            self.form.write(octets, tx_real_time_ns, Some(sequence + slot as u64));
            self.sent_ns.push(tx_real_time_ns);
        }
        self.transmit(count, give_up);
    }

    /// Sends a sentinel.
    pub(super) fn send_sentinel(&mut self, give_up: [&AtomicBool; 2]) -> Fate {
        self.fates.clear();
        self.form.write(&mut self.octets[..self.form.packet_bytes], realtime_ns(), None);
        self.transmit(1, give_up);
        self.fates.first().copied().unwrap_or(Fate::Closed)
    }

    /// Gives the packets that were sent new padding; done while there is time.
    #[inline]
    pub(super) fn refill(&mut self, count: usize) {
        let padding_at = self.form.padding_at();
        for packet in self.octets.chunks_exact_mut(self.form.packet_bytes).take(count) {
            self.random.fill(&mut packet[padding_at..]);
        }
    }

    #[inline]
    fn transmit(&mut self, count: usize, give_up: [&AtomicBool; 2]) {
        let packets = &self.octets[..count * self.form.packet_bytes];
        match (self.socket.transport(), count) {
            (Transport::Udp, 1) => self.fates.push(send_datagram(self.socket.as_fd(), packets)),
            (Transport::Udp, _) if self.train > 1 => self.send_train(count),
            (Transport::Udp, _) => self.send_datagrams(count),
            (Transport::Tcp, _) => {
                for packet in packets.chunks_exact(self.form.packet_bytes) {
                    let fate = send_record(self.socket.as_fd(), packet, give_up);
                    self.fates.push(fate);
                    if fate == Fate::Closed {
                        break;
                    }
                }
            }
        }
    }

    fn send_train(&mut self, count: usize) {
        match send_datagram(self.socket.as_fd(), &self.octets[..count * self.form.packet_bytes]) {
            // Packets longer than the way's MTU allows, or a device that does not compute checksums.
            Fate::Failed(error @ (Errno::INVAL | Errno::MSGSIZE | Errno::IO | Errno::OPNOTSUPP)) => {
                self.make_trains(1);
                self.train_refused = Some(error);
                self.send_datagrams(count);
            }
            Fate::SentAgain => {
                self.fates.push(Fate::SentAgain);
                self.fates.extend(std::iter::repeat_n(Fate::Sent, count - 1));
            }
            fate => self.fates.extend(std::iter::repeat_n(fate, count)),
        }
    }

    fn send_datagrams(&mut self, count: usize) {
        let mut done = 0;
        while done < count {
            let rest = &mut self.headers[done..count];
            // SAFETY: each header leads to a part, which leads to a packet in `octets`; all are owned by self and
            // neither moved nor resized since, and `rest` is as long as is said.
            let sent = unsafe {
                libc::sendmmsg(
                    self.socket.as_fd().as_raw_fd(),
                    rest.as_mut_ptr(),
                    rest.len() as libc::c_uint,
                    libc::MSG_DONTWAIT,
                )
            };
            match usize::try_from(sent) {
                Ok(sent) if sent > 0 => {
                    self.fates.extend(std::iter::repeat_n(Fate::Sent, sent));
                    done += sent;
                }
                // The first of the rest failed; sent alone it says why, and the others follow it.
                _ => {
                    let packet = &self.octets[done * self.form.packet_bytes..][..self.form.packet_bytes];
                    let error = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
                    let fate = match error {
                        Errno::CONNREFUSED => again(send_datagram(self.socket.as_fd(), packet)),
                        error => Fate::Failed(error),
                    };
                    self.fates.push(fate);
                    done += 1;
                }
            }
        }
    }
}

impl Drop for Outbox<'_> {
    /// The socket outlives the flow.
    fn drop(&mut self) {
        self.make_trains(1);
    }
}

#[inline]
fn send_datagram(socket: BorrowedFd<'_>, packet: &[u8]) -> Fate {
    match send(socket, packet, SendFlags::DONTWAIT) {
        Ok(_) => Fate::Sent,
        // A peer that refused an earlier packet makes the next call fail without sending its packet.
        Err(Errno::CONNREFUSED) => again(match send(socket, packet, SendFlags::DONTWAIT) {
            Ok(_) => Fate::Sent,
            Err(error) => Fate::Failed(error),
        }),
        Err(error) => Fate::Failed(error),
    }
}

fn again(fate: Fate) -> Fate {
    if fate == Fate::Sent { Fate::SentAgain } else { fate }
}

/// Sends a record whole: a stream that was cut within one could never be read again.
fn send_record(socket: BorrowedFd<'_>, record: &[u8], give_up: [&AtomicBool; 2]) -> Fate {
    let (mut sent, mut grace_end) = (0, None);
    while sent < record.len() {
        match send(socket, &record[sent..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(octets) => sent += octets,
            Err(Errno::AGAIN) => {
                // A receiver that has ended reads no more: without this look a full connection would block for ever.
                if give_up.iter().any(|flag| flag.load(Ordering::Relaxed)) {
                    if sent == 0 {
                        return Fate::Failed(Errno::AGAIN);
                    }
                    let end = *grace_end.get_or_insert_with(|| Instant::now() + RECORD_GRACE);
                    if Instant::now() >= end {
                        return Fate::Closed;
                    }
                }
                wait(socket, PollFlags::OUT, LONGEST_WAIT);
            }
            Err(Errno::INTR) => {}
            Err(_) => return Fate::Closed,
        }
    }
    Fate::Sent
}
