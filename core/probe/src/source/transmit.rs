//! Handing a packet to the kernel.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Hands over one packet; whether it took a second try because an earlier packet was refused, or the error
/// number.
pub(super) trait Transmit {
    fn send(&mut self, packet: &[u8], deadline_ns: i64) -> Result<bool, i32>;
}

/// Sends now.
pub(super) struct AtOnce<'a> {
    pub(super) socket: BorrowedFd<'a>,
}

impl Transmit for AtOnce<'_> {
    #[inline(always)]
    fn send(&mut self, packet: &[u8], _deadline_ns: i64) -> Result<bool, i32> {
        let flags = rustix::net::SendFlags::DONTWAIT;
        // A destination that refused an earlier packet makes the next call fail without sending its packet.
        match rustix::net::send(self.socket, packet, flags) {
            Ok(_) => Ok(false),
            Err(rustix::io::Errno::CONNREFUSED) => rustix::net::send(self.socket, packet, flags)
                .map(|_| true)
                .map_err(rustix::io::Errno::raw_os_error),
            Err(e) => Err(e.raw_os_error()),
        }
    }
}

/// Gives the queueing discipline the deadline to send at (`SO_TXTIME`).
pub(super) struct AtTime<'a> {
    socket: BorrowedFd<'a>,
    /// The clock that the discipline keeps, minus CLOCK_MONOTONIC.
    ahead_ns: i64,
    control: Control,
}

/// A control message with one 64-bit time.
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    time_ns: u64,
}
const _: () = assert!(size_of::<Control>() == 24, "no padding between header and time");

impl<'a> AtTime<'a> {
    pub(super) fn new(socket: BorrowedFd<'a>, ahead_ns: i64) -> Self {
        let header = libc::cmsghdr {
            cmsg_len: size_of::<Control>() as _,
            cmsg_level: libc::SOL_SOCKET,
            cmsg_type: libc::SCM_TXTIME,
        };
        Self { socket, ahead_ns, control: Control { header, time_ns: 0 } }
    }
}

impl Transmit for AtTime<'_> {
    fn send(&mut self, packet: &[u8], deadline_ns: i64) -> Result<bool, i32> {
        self.control.time_ns = (deadline_ns + self.ahead_ns).unsigned_abs();
        let mut parts = [IoSlice::new(packet)];
        // SAFETY: all-zero bytes are a valid msghdr: no name, no parts, no control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = parts.as_mut_ptr().cast();
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut self.control).cast();
        message.msg_controllen = size_of::<Control>() as _;
        let mut again = false;
        loop {
            // SAFETY: the message leads to `parts` and `control`, which outlive the call; IoSlice has the layout
            // of iovec.
            let sent =
                unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
            if sent >= 0 {
                return Ok(again);
            }
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            if errno != libc::ECONNREFUSED || again {
                return Err(errno);
            }
            again = true;
        }
    }
}
