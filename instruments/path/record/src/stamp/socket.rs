//! UDP with what STAMP needs to know of each packet: addresses, TTL, class of service, the kernel's stamp.

use crate::error::PathError;
use quaver_clock::realtime_ns;
use quaver_path_flow::{SocketDrops, StampSource};
use quaver_probe::socket::{receive_buffer, set_option};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, SockAddrStorage, Socket, Type};
use std::io::Error;
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Longest wait without a look at the stop flag.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Bytes of the largest UDP payload, and one more.
pub(crate) const MOST_BYTES: usize = 65_536;

/// Replies that wait for a sender that the host keeps from running: 10,000 in a second, each of 768 bytes to the kernel. The
/// kernel gives less where `net.core.rmem_max` is below, and the process may not go beyond.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// What the system said with a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) octets: usize,
    pub(crate) from: SocketAddr,
    /// Address that it was sent to.
    pub(crate) to: Option<IpAddr>,
    /// TTL or hop limit.
    pub(crate) ttl: Option<u8>,
    /// Traffic class: DSCP and ECN.
    pub(crate) class: u8,
    /// UTC nanoseconds.
    pub(crate) received_ns: i64,
    pub(crate) stamped_by: StampSource,
}

/// Room for control messages of a received packet: stamps (64 bytes with the header), TTL and class (24 each), the
/// destination (40), and to spare.
#[repr(C, align(8))]
struct ControlSpace([u8; 256]);

/// The socket.
#[derive(Debug)]
pub(crate) struct StampSocket {
    socket: Socket,
    drops: SocketDrops,
    /// Whether the kernel was willing to stamp.
    pub(crate) kernel_stamps: bool,
}

impl StampSocket {
    /// A non-blocking socket at `bind`; an IPv6 wildcard takes IPv4 too.
    pub(crate) fn bind(bind: SocketAddr) -> Result<Self, PathError> {
        let failed = |e: Error| PathError::os(format!("open UDP {bind} for STAMP"), e);
        let socket =
            Socket::new(Domain::for_address(bind), Type::DGRAM, Some(Protocol::UDP)).map_err(failed)?;
        if bind.is_ipv6() {
            socket.set_only_v6(!bind.ip().is_unspecified()).map_err(failed)?;
        }
        socket.set_nonblocking(true).map_err(failed)?;
        ask_for_headers(&socket, bind.is_ipv6())?;
        let kernel_stamps = ask_for_stamps(&socket);
        receive_buffer(socket.as_fd(), RECEIVE_BUFFER_BYTES).map_err(failed)?;
        let drops = SocketDrops::of(socket.as_fd());
        socket.bind(&bind.into()).map_err(failed)?;
        Ok(Self { socket, drops, kernel_stamps })
    }

    /// Fixes the peer: packets go there, and only its packets are received.
    pub(crate) fn connect(&self, peer: SocketAddr) -> Result<(), PathError> {
        self.socket
            .connect(&peer.into())
            .map_err(|e| PathError::os(format!("connect to the reflector {peer}"), e))
    }

    pub(crate) fn local_address(&self) -> Result<SocketAddr, PathError> {
        let failed = |e: Error| PathError::os("read the address of the STAMP socket", e);
        let address = self.socket.local_addr().map_err(failed)?;
        address.as_socket().ok_or_else(|| failed(Error::from_raw_os_error(libc::EAFNOSUPPORT)))
    }

    /// Marks all that is sent from here with a DSCP, 0 to 63.
    pub(crate) fn set_dscp(&self, dscp: u8, ipv6: bool) -> Result<(), PathError> {
        let class = u32::from(dscp & 63) << 2;
        let outcome = if ipv6 { self.socket.set_tclass_v6(class) } else { self.socket.set_tos_v4(class) };
        outcome.map_err(|e| PathError::os(format!("set DSCP {dscp} of the STAMP socket"), e))
    }

    /// Lets all that is sent from here begin with the greatest TTL, so that its receiver sees how many hops it took
    /// (RFC 4656, section 4.1.1).
    pub(crate) fn count_hops(&self) -> Result<(), PathError> {
        count_hops(&self.socket).map_err(|e| PathError::os("set the TTL of the test socket", e))
    }

    /// Sends to the connected peer.
    pub(crate) fn send(&self, octets: &[u8]) -> Result<(), Error> {
        self.socket.send(octets).map(|_| ())
    }

    /// Packets that came and found no room in the receive buffer, since the last call ([`SocketDrops::since`]).
    pub(crate) fn new_drops(&self) -> Option<u64> {
        self.drops.since(self.socket.as_fd())
    }

    /// Waits until something may have come, or the time is over.
    pub(crate) fn wait(&self, longest: Duration) {
        let longest = longest.min(LONGEST_WAIT);
        let mut waited = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        let longest = Timespec { tv_sec: 0, tv_nsec: longest.subsec_nanos().into() };
        // Whatever it says, the caller tries to receive and hears of it there.
        let _ = poll(&mut waited, Some(&longest));
    }

    /// Takes one packet, whose bytes beyond `buffer` are lost.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Result<Arrival, Errno> {
        let mut storage = SockAddrStorage::zeroed();
        let mut control = ControlSpace([0; 256]);
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all-zero bytes are a valid msghdr: no name, no parts, no control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = (&raw mut storage).cast();
        message.msg_namelen = storage.size_of();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        // SAFETY: the message leads to `storage`, `buffer` and `control`, valid for writing for the lengths given.
        let octets = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, 0) };
        let Ok(octets) = usize::try_from(octets) else {
            return Err(Errno::from_io_error(&Error::last_os_error()).unwrap_or(Errno::IO));
        };
        // SAFETY: the kernel wrote an address of `msg_namelen` bytes into `storage`.
        let from = unsafe { SockAddr::new(storage, message.msg_namelen) };
        let from = from.as_socket().ok_or(Errno::AFNOSUPPORT)?;
        let mut arrival = Arrival {
            octets,
            from,
            to: None,
            ttl: None,
            class: 0,
            received_ns: 0,
            stamped_by: StampSource::Kernel,
        };
        // SAFETY: the kernel filled `control` with whole messages and set msg_controllen; the macros stay within it.
        unsafe { read_control(&message, &mut arrival) };
        if arrival.received_ns == 0 {
            arrival.received_ns = realtime_ns();
            arrival.stamped_by = StampSource::Application;
        }
        Ok(arrival)
    }

    /// Sends to `to` with a traffic class, from the address that `from` names, so that the reply of a host with many
    /// addresses comes from the one that was asked.
    pub(crate) fn reply(
        &self,
        octets: &[u8],
        to: SocketAddr,
        from: Option<IpAddr>,
        class: u8,
    ) -> Result<(), Error> {
        let address = SockAddr::from(to);
        let mut control = ControlSpace([0; 256]);
        let mut part = libc::iovec { iov_base: octets.as_ptr().cast_mut().cast(), iov_len: octets.len() };
        // SAFETY: all-zero bytes are a valid msghdr: no name, no parts, no control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = address.as_ptr().cast_mut().cast();
        message.msg_namelen = address.len();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        let ipv4 = to.ip().to_canonical().is_ipv4();
        let mut used = 0;
        let class = libc::c_int::from(class);
        let (level, option) =
            if ipv4 { (libc::IPPROTO_IP, libc::IP_TOS) } else { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) };
        used += put(&mut control, used, level, option, &class);
        match from.map(|from| from.to_canonical()) {
            Some(IpAddr::V4(from)) if ipv4 && !from.is_multicast() && !from.is_broadcast() => {
                let source = libc::in_addr { s_addr: u32::from_ne_bytes(from.octets()) };
                let any = libc::in_addr { s_addr: 0 };
                let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: any };
                used += put(&mut control, used, libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            Some(IpAddr::V6(from)) if !ipv4 && !from.is_multicast() => {
                let source = libc::in6_addr { s6_addr: from.octets() };
                let info = libc::in6_pktinfo { ipi6_addr: source, ipi6_ifindex: 0 };
                used += put(&mut control, used, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            _ => {}
        }
        message.msg_controllen = used as _;
        // SAFETY: the message leads to `address`, `octets` and `control`, which live on and are only read.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
        if sent < 0 { Err(Error::last_os_error()) } else { Ok(()) }
    }
}

/// Gives a socket the greatest TTL.
pub(crate) fn count_hops(socket: &Socket) -> Result<(), Error> {
    match socket.local_addr()?.is_ipv6() {
        true => socket.set_unicast_hops_v6(255),
        false => socket.set_ttl_v4(255),
    }
}

/// Writes one control message at `at` and gives the bytes that it takes.
fn put<T: Copy>(control: &mut ControlSpace, at: usize, level: i32, option: i32, value: &T) -> usize {
    // SAFETY: CMSG_SPACE and CMSG_LEN only compute.
    let (space, length) = unsafe {
        (libc::CMSG_SPACE(size_of::<T>() as u32) as usize, libc::CMSG_LEN(size_of::<T>() as u32) as usize)
    };
    let place = &mut control.0[at..at + space];
    let header: *mut libc::cmsghdr = place.as_mut_ptr().cast();
    // SAFETY: `place` is `space` bytes long, which hold header and value; it is aligned to 8 bytes, because the
    // whole is and `space` is a multiple of 8.
    unsafe {
        (*header).cmsg_len = length as _;
        (*header).cmsg_level = level;
        (*header).cmsg_type = option;
        libc::CMSG_DATA(header).cast::<T>().write_unaligned(*value);
    }
    space
}

/// Takes what is known from the control messages of a received packet.
///
/// # Safety
/// `message` comes from a `recvmsg` that succeeded, and its control space is still there.
unsafe fn read_control(message: &libc::msghdr, arrival: &mut Arrival) {
    // SAFETY: as the caller promises; the macros stay within the control space.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: the macros give null or a header within the control space.
    while let Some(found) = unsafe { header.as_ref() } {
        // SAFETY: `header` is not null.
        let data = unsafe { libc::CMSG_DATA(header) };
        // SAFETY: the message is of the type that its level and number say, so it holds what is read.
        unsafe {
            match (found.cmsg_level, found.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    arrival.ttl = Some(data.cast::<libc::c_int>().read_unaligned() as u8);
                }
                (libc::IPPROTO_IP, libc::IP_TOS) => arrival.class = data.read(),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    arrival.class = data.cast::<libc::c_int>().read_unaligned() as u8;
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    arrival.to = Some(IpAddr::from(info.ipi_addr.s_addr.to_ne_bytes()));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    // With a packet of IPv4 on a socket of IPv6 both messages come; the other one is plain.
                    let address = IpAddr::from(info.ipi6_addr.s6_addr).to_canonical();
                    arrival.to = arrival.to.or(Some(address));
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                    // The first of three is software's.
                    let time = data.cast::<libc::timespec>().read_unaligned();
                    arrival.received_ns = time.tv_sec * 1_000_000_000 + time.tv_nsec;
                }
                _ => {}
            }
        }
        // SAFETY: as the caller promises; `header` lies in the control space.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
}

fn ask_for_headers(socket: &Socket, ipv6: bool) -> Result<(), PathError> {
    let ask = |level: i32, option: i32, name: &str| {
        set_option(socket.as_fd(), level, option, &1i32)
            .map_err(|e| PathError::os(format!("set {name} of the STAMP socket"), e))
    };
    if ipv6 {
        ask(libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, "IPV6_RECVHOPLIMIT")?;
        ask(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, "IPV6_RECVTCLASS")?;
        ask(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, "IPV6_RECVPKTINFO")?;
    }
    // On a socket of IPv6 too: IPv4 comes to it in mapped addresses.
    ask(libc::IPPROTO_IP, libc::IP_RECVTTL, "IP_RECVTTL")?;
    ask(libc::IPPROTO_IP, libc::IP_RECVTOS, "IP_RECVTOS")?;
    ask(libc::IPPROTO_IP, libc::IP_PKTINFO, "IP_PKTINFO")
}

/// Whether the kernel is willing to stamp what is received (SO_TIMESTAMPING).
fn ask_for_stamps(socket: &Socket) -> bool {
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags.cast_signed()).is_ok()
}
