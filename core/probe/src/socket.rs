//! The UDP sockets of source and sink.

use super::error::ProbeError;
use rustix::fd::AsFd;
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use std::io::{Error, Result};
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// What a sender asks of its socket beside the destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// Local address; none lets the kernel choose.
    pub bind: Option<SocketAddr>,
    /// Differentiated services code point, 0 to 63 (RFC 2474).
    pub dscp: Option<u8>,
    /// Time to live, or hop limit; none leaves the system's (for multicast 1).
    pub ttl: Option<u8>,
    /// Interface that multicast leaves by, by index; none lets the routes decide.
    pub multicast_interface: Option<u32>,
}

fn open(address: SocketAddr) -> std::result::Result<Socket, ProbeError> {
    Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))
        .map_err(|e| ProbeError::os(format!("open a UDP socket for {address}"), e))
}

/// `address` with the interface as its scope, where it is a group of a scope that needs one (RFC 4007) and has
/// none.
fn scoped(address: SocketAddr, interface: Option<u32>) -> SocketAddr {
    match (address, interface) {
        (SocketAddr::V6(mut group), Some(index)) if group.ip().is_multicast() && group.scope_id() == 0 => {
            group.set_scope_id(index);
            group.into()
        }
        _ => address,
    }
}

/// A socket connected to `destination`.
pub(super) fn sender(
    destination: SocketAddr,
    options: &SendOptions,
) -> std::result::Result<Socket, ProbeError> {
    let destination = scoped(destination, options.multicast_interface);
    let socket = open(destination)?;
    if let Some(address) = options.bind {
        socket
            .bind(&address.into())
            .map_err(|e| ProbeError::os(format!("bind the source to {address}"), e))?;
    }
    let set = |what: &str, outcome: Result<()>| {
        outcome.map_err(|e| ProbeError::os(format!("set {what} of the source to {destination}"), e))
    };
    let (ipv4, multicast) = (destination.is_ipv4(), destination.ip().is_multicast());
    if let Some(dscp) = options.dscp {
        let class = u32::from(dscp & 63) << 2;
        set("DSCP", if ipv4 { socket.set_tos_v4(class) } else { socket.set_tclass_v6(class) })?;
    }
    if let Some(ttl) = options.ttl.map(u32::from) {
        let outcome = match (ipv4, multicast) {
            (true, true) => socket.set_multicast_ttl_v4(ttl),
            (true, false) => socket.set_ttl_v4(ttl),
            (false, true) => socket.set_multicast_hops_v6(ttl),
            (false, false) => socket.set_unicast_hops_v6(ttl),
        };
        set("TTL", outcome)?;
    }
    if let (Some(index), true) = (options.multicast_interface, multicast) {
        let outcome =
            if ipv4 { multicast_interface_v4(&socket, index) } else { socket.set_multicast_if_v6(index) };
        set(&format!("outgoing interface {index}"), outcome)?;
    }
    socket
        .connect(&destination.into())
        .map_err(|e| ProbeError::os(format!("connect the source to {destination}"), e))?;
    Ok(socket)
}

/// Lets other sockets bind the same address while this one is bound to it, or no longer.
pub(super) fn share(
    socket: &Socket,
    address: SocketAddr,
    shared: bool,
) -> std::result::Result<(), ProbeError> {
    socket.set_reuse_address(shared).map_err(|e| ProbeError::os(format!("share the address {address}"), e))
}

/// A socket bound to `address`; where that is a multicast group, also a member of it on `interface` (by index;
/// none lets the routes decide). `shared`: beside another one that shares the address.
pub(super) fn receiver(
    address: SocketAddr,
    interface: Option<u32>,
    shared: bool,
) -> std::result::Result<Socket, ProbeError> {
    let address = scoped(address, interface);
    let socket = open(address)?;
    if shared || address.ip().is_multicast() {
        share(&socket, address, true)?;
    }
    socket.bind(&address.into()).map_err(|e| ProbeError::os(format!("bind the sink to {address}"), e))?;
    let index = interface.unwrap_or(0);
    let joined = match address.ip() {
        IpAddr::V4(group) if group.is_multicast() => {
            socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index))
        }
        IpAddr::V6(group) if group.is_multicast() => socket.join_multicast_v6(&group, index),
        _ => Ok(()),
    };
    joined.map_err(|e| ProbeError::os(format!("join group {} on interface {index}", address.ip()), e))?;
    Ok(socket)
}

/// By index; `socket2` takes an address only.
fn multicast_interface_v4(socket: &Socket, index: u32) -> Result<()> {
    let any = libc::in_addr { s_addr: 0 };
    let index = i32::try_from(index).map_err(|_| Error::from_raw_os_error(libc::ENODEV))?;
    let request = libc::ip_mreqn { imr_multiaddr: any, imr_address: any, imr_ifindex: index };
    set_option(socket.as_fd(), libc::IPPROTO_IP, libc::IP_MULTICAST_IF, &request)
}

/// Sets one socket option from plain data.
pub fn set_option<T: Copy>(socket: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> Result<()> {
    let octets = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is valid for reading `octets`, which the kernel only reads.
    let outcome =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const *value).cast(), octets) };
    if outcome < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

/// Reads one socket option of plain numbers; what the kernel does not fill stays 0.
pub fn numbers<const N: usize>(socket: BorrowedFd<'_>, level: i32, option: i32) -> Result<[u32; N]> {
    let mut value = [0u32; N];
    let mut octets = size_of::<[u32; N]>() as libc::socklen_t;
    // SAFETY: `value` and `octets` are valid for writing, and the kernel writes no more than `octets`.
    let outcome = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, value.as_mut_ptr().cast(), &raw mut octets)
    };
    if outcome < 0 { Err(Error::last_os_error()) } else { Ok(value) }
}

/// Makes the receive buffer as large as `octets`, beyond the system's limit where permitted; the size that
/// took, as the kernel counts it (twice what is asked for, and with its own overhead).
pub fn receive_buffer(socket: BorrowedFd<'_>, octets: usize) -> Result<usize> {
    let wanted = i32::try_from(octets).unwrap_or(i32::MAX / 2).min(i32::MAX / 2);
    if set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &wanted).is_err() {
        set_option(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &wanted)?;
    }
    Ok(numbers::<1>(socket, libc::SOL_SOCKET, libc::SO_RCVBUF)?[0] as usize)
}

/// Packets that the kernel dropped because the receive buffer was full (or at a failed checksum), over the life
/// of the socket, wrapping (`SO_MEMINFO`, since Linux 4.12).
pub fn drops(socket: BorrowedFd<'_>) -> Option<u32> {
    /// Position of the drop counter in the answer.
    const SK_MEMINFO_DROPS: usize = 8;
    numbers::<9>(socket, libc::SOL_SOCKET, libc::SO_MEMINFO).ok().map(|numbers| numbers[SK_MEMINFO_DROPS])
}
