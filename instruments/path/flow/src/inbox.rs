//! Receiving datagrams in batches, each with its stamp.

use super::error::FlowError;
use super::hardware::{HARDWARE_STAMPS, HardwareClock, Way};
use super::schedule::FlowSchedule;
use super::schedule::HIGH_RATE_PERIOD_NS;
use super::socket::TestSocket;
use super::spec::{FlowSpec, StampSource, StampWish, TrainWish, Transport};
use quaver_clock::realtime_ns;
use rustix::io::Errno;
use std::mem::size_of;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Most datagrams taken in one call.
pub(super) const MOST_TAKEN: usize = 128;
/// Memory for datagrams at most, bytes.
const MOST_BYTES: usize = 8 << 20;
/// Bytes of a datagram that are kept at least: all that is ever read.
const LEAST_KEPT: usize = 64;

/// Room for what the kernel hands over in one piece: the longest datagram.
const PIECE_BYTES: usize = 1 << 16;

/// Room for control messages: the stamps (64 bytes with their header), and to spare.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 160]);

/// A datagram as it was received.
#[derive(Clone, Copy)]
pub(super) struct Datagram<'a> {
    /// Its start: all of it, if it is no longer than the flow's packets.
    pub(super) octets: &'a [u8],
    /// How long it was.
    pub(super) length: usize,
    /// Where it came from, if that was asked for.
    pub(super) from: Option<SocketAddr>,
    /// UTC nanoseconds.
    pub(super) received_ns: i64,
    pub(super) stamped_by: StampSource,
    /// Whether the kernel handed it over with others in one piece, which has one stamp.
    pub(super) of_train: bool,
    /// TTL or hop limit; 0 where the kernel did not say.
    pub(super) ttl: u8,
    /// DSCP; none where the kernel did not say.
    pub(super) dscp: Option<u8>,
}

/// Buffers for datagrams, and the call that fills them.
pub(super) struct Inbox<'a> {
    socket: &'a TestSocket,
    octets: Vec<u8>,
    kept: usize,
    headers: Vec<libc::mmsghdr>,
    controls: Vec<Control>,
    names: Vec<libc::sockaddr_storage>,
    /// What `headers` point to: a part for each slot.
    _parts: Vec<libc::iovec>,
    taken: usize,
    read_ns: i64,
    hardware: Option<HardwareClock>,
}

impl<'a> Inbox<'a> {
    pub(super) fn new(
        socket: &'a TestSocket,
        spec: &FlowSpec,
        addresses: bool,
        hardware: Option<HardwareClock>,
    ) -> Self {
        let kept =
            if takes_trains(spec) { PIECE_BYTES } else { (spec.packet_bytes as usize).max(LEAST_KEPT) };
        let slots = (MOST_BYTES / kept).clamp(1, MOST_TAKEN);
        let mut octets = vec![0u8; slots * kept];
        let mut controls = vec![Control([0; 160]); slots];
        // SAFETY: all-zero bytes are a valid sockaddr_storage, of no family.
        let no_name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let mut names = vec![no_name; if addresses { slots } else { 0 }];
        let mut parts: Vec<libc::iovec> = octets
            .chunks_exact_mut(kept)
            .map(|room| libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() })
            .collect();
        let mut headers = Vec::with_capacity(slots);
        for (slot, (part, control)) in parts.iter_mut().zip(&mut controls).enumerate() {
            // SAFETY: all-zero bytes are a valid mmsghdr: no name, no parts, no control data.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = &raw mut *part;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            if let Some(name) = names.get_mut(slot) {
                header.msg_hdr.msg_name = (&raw mut *name).cast();
            }
            headers.push(header);
        }
        let mut inbox = Self {
            socket,
            octets,
            kept,
            headers,
            controls,
            names,
            _parts: parts,
            taken: slots,
            read_ns: 0,
            hardware,
        };
        inbox.renew();
        inbox.taken = 0;
        inbox
    }

    /// Most datagrams that one call takes.
    pub(super) fn most(&self) -> usize {
        self.headers.len()
    }

    /// The kernel wrote lengths over the room there was.
    #[inline]
    fn renew(&mut self) {
        let name_bytes = if self.names.is_empty() { 0 } else { size_of::<libc::sockaddr_storage>() };
        for header in &mut self.headers[..self.taken] {
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
            header.msg_hdr.msg_namelen = name_bytes as libc::socklen_t;
        }
    }

    /// Takes the datagrams that are there, and if `wait` is set waits for the first. How many.
    #[inline]
    pub(super) fn take(&mut self, wait: bool) -> Result<usize, Errno> {
        self.renew();
        self.taken = 0;
        let how = if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        // SAFETY: each header leads to a part of `octets`, to a control and to a name if there are any, all owned by
        // self, never moved nor resized, and as long as the header says; no timeout is given.
        let taken = unsafe {
            libc::recvmmsg(
                self.socket.as_fd().as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                how | libc::MSG_TRUNC,
                std::ptr::null_mut(),
            )
        };
        self.read_ns = realtime_ns();
        if let Some(hardware) = &mut self.hardware {
            hardware.keep_up();
        }
        match usize::try_from(taken) {
            Ok(taken) => self.taken = taken,
            Err(_) => {
                let error = std::io::Error::last_os_error();
                return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
            }
        }
        Ok(self.taken)
    }

    /// The datagrams that were taken last; those that came in one piece one by one.
    pub(super) fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        let rooms = self.octets.chunks_exact(self.kept);
        self.headers[..self.taken].iter().zip(rooms).enumerate().flat_map(|(slot, (header, room))| {
            let length = header.msg_len as usize;
            let control = &self.controls[slot].0;
            // What the kernel says it wrote is at most the room that it was given.
            let control = &control[..header.msg_hdr.msg_controllen.min(control.len())];
            let said = Said::read(control);
            let stamp = said.stamps.and_then(|stamps| stamp_of(stamps, self.hardware.as_ref()));
            let (received_ns, stamped_by) = stamp.unwrap_or((self.read_ns, StampSource::Application));
            let Said { ttl, dscp, .. } = said;
            let from = self.names.get(slot).and_then(address_in);
            let kept = &room[..length.min(self.kept)];
            let segment_bytes = said.segment_bytes.filter(|bytes| *bytes < kept.len());
            // An empty datagram is one, too.
            let whole = segment_bytes.is_none().then_some(Datagram {
                octets: kept,
                length,
                from,
                received_ns,
                stamped_by,
                of_train: false,
                ttl,
                dscp,
            });
            let segments = segment_bytes.map(|bytes| {
                kept.chunks(bytes).map(move |octets| Datagram {
                    octets,
                    length: octets.len(),
                    from,
                    received_ns,
                    stamped_by,
                    of_train: true,
                    ttl,
                    dscp,
                })
            });
            whole.into_iter().chain(segments.into_iter().flatten())
        })
    }
}

/// Whether datagrams that come together are taken in one piece: where the rate needs it, or the sender makes trains. A
/// piece has one stamp, and below that rate each packet's own is worth more.
pub(super) fn takes_trains(spec: &FlowSpec) -> bool {
    spec.transport == Transport::Udp
        && match spec.train {
            TrainWish::Auto => spec.schedule.mean_period_ns() < HIGH_RATE_PERIOD_NS,
            TrainWish::Packets(packets) => packets > 1,
        }
}

/// Asks the kernel to hand over in one piece what came together, or not to; where it cannot, each datagram comes alone.
pub(super) fn take_trains(socket: &TestSocket, spec: &FlowSpec) {
    let wanted = libc::c_int::from(takes_trains(spec));
    let _ = quaver_probe::socket::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, &wanted);
}

/// What the kernel says beside a datagram.
#[derive(Default)]
struct Said<'a> {
    stamps: Option<&'a [u8]>,
    /// Bytes of each packet in one piece but perhaps the last.
    segment_bytes: Option<usize>,
    ttl: u8,
    dscp: Option<u8>,
}

impl<'a> Said<'a> {
    #[inline]
    fn read(control: &'a [u8]) -> Self {
        let mut said = Self::default();
        for (level, kind, data) in control_messages(control) {
            let number = || data.first_chunk().map(|octets| i32::from_ne_bytes(*octets));
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => said.stamps = Some(data),
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    said.ttl = number().unwrap_or(0) as u8;
                }
                // An octet of IPv4, a number of IPv6 (ip(7), ipv6(7)).
                (libc::IPPROTO_IP, libc::IP_TOS) => said.dscp = data.first().map(|class| class >> 2),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    said.dscp = number().map(|class| class as u8 >> 2);
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let bytes = number().and_then(|bytes| usize::try_from(bytes).ok());
                    said.segment_bytes = bytes.filter(|bytes| *bytes > 0);
                }
                _ => {}
            }
        }
        said
    }
}

/// Asks for the TTL and the traffic class of each packet; where that is refused none is known.
pub(super) fn ask_for_header(socket: &TestSocket) {
    let ipv6 = socket.local_address().is_ok_and(|address| address.is_ipv6());
    let (level, options) = if ipv6 {
        (libc::IPPROTO_IPV6, [libc::IPV6_RECVHOPLIMIT, libc::IPV6_RECVTCLASS])
    } else {
        (libc::IPPROTO_IP, [libc::IP_RECVTTL, libc::IP_RECVTOS])
    };
    for option in options {
        let _ = quaver_probe::socket::set_option(socket.as_fd(), level, option, &1i32);
    }
}

/// What asks for receive stamps of the kernel.
pub(super) const RECEIVE_STAMPS: u32 = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;

/// What asks for the receive stamps that are wished for.
pub(super) fn receive_stamps(wish: StampWish) -> u32 {
    RECEIVE_STAMPS | if wish == StampWish::Best { HARDWARE_STAMPS } else { 0 }
}

/// The interface's clock, if its stamps are wished for and it has one; else why it cannot be used goes to `remarks`.
pub(super) fn hardware_clock(
    socket: &TestSocket,
    spec: &FlowSpec,
    way: Way,
    remarks: &mut Vec<String>,
) -> Option<HardwareClock> {
    if spec.stamps != StampWish::Best {
        return None;
    }
    HardwareClock::open(socket, way).unwrap_or_else(|remark| {
        remarks.push(remark);
        None
    })
}

/// Asks the kernel to stamp what the socket receives from now on; a sentence if it refuses.
pub(super) fn ask_for_stamps(socket: &TestSocket, spec: &FlowSpec) -> Option<String> {
    if spec.stamps == StampWish::Application {
        return None;
    }
    match socket.set(libc::SO_TIMESTAMPING, receive_stamps(spec.stamps) as i32) {
        Ok(()) => {
            wait_for_stamps();
            None
        }
        Err(e) => Some(format!("kernel receive stamps are refused ({e}); receive times are the program's")),
    }
}

/// The kernel begins to stamp some milliseconds after the first socket of the system asks for it. Sends itself
/// packets until one is stamped; gives up after 50 ms, or where loopback does not work.
fn wait_for_stamps() {
    let Ok(probe) = TestSocket::udp((Ipv4Addr::LOCALHOST, 0).into(), false) else { return };
    let asked = probe.set(libc::SO_TIMESTAMPING, RECEIVE_STAMPS as i32);
    let connected = probe.local_address().and_then(|own| probe.connect(own));
    if asked.is_err() || connected.is_err() {
        return;
    }
    let spec = FlowSpec::new(LEAST_KEPT as u32, Some(1), FlowSchedule::every(1_000_000));
    let mut inbox = Inbox::new(&probe, &spec, false, None);
    for _ in 0..100 {
        if probe.socket().send(&[0; LEAST_KEPT]).is_err() {
            return;
        }
        let taken = inbox.take(false);
        if taken.is_ok() && inbox.datagrams().any(|datagram| datagram.stamped_by == StampSource::Kernel) {
            return;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Makes the receive buffer as large as the flow asks for, or as permitted.
///
/// # Errors
/// When the system refuses any size.
pub(super) fn size_buffer(socket: &TestSocket, spec: &FlowSpec) -> Result<usize, FlowError> {
    quaver_probe::socket::receive_buffer(socket.as_fd(), spec.receive_buffer_bytes)
        .map_err(|e| FlowError::os("set the receive buffer of the test socket", e))
}

/// A control message's header as Linux lays it out for 64-bit programs.
const HEADER_BYTES: usize = size_of::<libc::cmsghdr>();

/// The messages in what the kernel wrote: level, type, data.
pub(super) fn control_messages(mut control: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    std::iter::from_fn(move || {
        let header = control.get(..HEADER_BYTES)?;
        let number = |at: usize| i32::from_ne_bytes(header[at..at + 4].try_into().expect("4 bytes"));
        let length = usize::from_ne_bytes(header[..size_of::<usize>()].try_into().expect("a length's bytes"));
        let data = control.get(HEADER_BYTES..length)?;
        let message = (number(size_of::<usize>()), number(size_of::<usize>() + 4), data);
        control = control.get(length.next_multiple_of(size_of::<usize>())..).unwrap_or(&[]);
        Some(message)
    })
}

/// The stamp among the messages, UTC nanoseconds: the interface's if its clock is known, else the kernel's.
pub(super) fn stamp_in(control: &[u8], hardware: Option<&HardwareClock>) -> Option<(i64, StampSource)> {
    stamp_of(Said::read(control).stamps?, hardware)
}

#[inline]
fn stamp_of(stamps: &[u8], hardware: Option<&HardwareClock>) -> Option<(i64, StampSource)> {
    // struct scm_timestamping: software, unused, hardware; each seconds and nanoseconds of 64 bits.
    let time_ns = |place: usize| {
        let word =
            |at: usize| stamps.get(at..at + 8).map(|w| i64::from_ne_bytes(w.try_into().expect("8 bytes")));
        let (seconds, nanoseconds) = (word(place * 16)?, word(place * 16 + 8)?);
        (seconds != 0 || nanoseconds != 0)
            .then(|| seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds))
    };
    if let Some((clock, device_ns)) = hardware.zip(hardware.and_then(|_| time_ns(2))) {
        return Some((clock.utc_ns(device_ns), StampSource::Hardware));
    }
    time_ns(0).map(|time_ns| (time_ns, StampSource::Kernel))
}

fn address_in(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the kernel wrote a sockaddr_in, as the family says, and storage is larger and aligned for it.
            let name = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in>() };
            let host = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
            Some((host, u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the kernel wrote a sockaddr_in6, as the family says, and storage is larger and aligned for it.
            let name = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in6>() };
            let host = Ipv6Addr::from(name.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(host, u16::from_be(name.sin6_port), 0, name.sin6_scope_id).into())
        }
        _ => None,
    }
}
