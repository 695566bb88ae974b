//! The ways to wait for a packet and to take it.

use super::SinkOptions;
use crate::error::ProbeError;
use crate::socket::set_option;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// How the sink waits for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receive {
    /// Receives without waiting, over and over, as the paper does: takes a CPU.
    Poll,
    /// Sleeps in the receive call.
    Block,
    /// Sleeps in `epoll_wait`, then receives until nothing is left.
    Epoll,
    /// Sleeps in the receive call, where the kernel polls the device first (`SO_BUSY_POLL`).
    BusyPoll,
}

impl Receive {
    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Block => "block",
            Self::Epoll => "epoll",
            Self::BusyPoll => "busy-poll",
        }
    }
}

/// How long the kernel polls the device before it sleeps, microseconds.
const BUSY_POLL_US: i32 = 50;

/// Sets the socket options that `options` call for.
pub(super) fn configure(socket: BorrowedFd<'_>, options: &SinkOptions) -> Result<(), ProbeError> {
    let set = |option: i32, value: i32| set_option(socket, libc::SOL_SOCKET, option, &value);
    if options.kernel_stamps {
        for (option, name) in [(libc::SO_TIMESTAMPNS, "SO_TIMESTAMPNS"), (libc::SO_RXQ_OVFL, "SO_RXQ_OVFL")] {
            set(option, 1).map_err(|e| ProbeError::os(format!("set {name} of the sink"), e))?;
        }
    }
    if options.receive == Receive::BusyPoll {
        set(libc::SO_BUSY_POLL, BUSY_POLL_US).map_err(|e| match e.raw_os_error() {
            Some(libc::EPERM) => ProbeError::NotPermitted {
                operation: format!("set SO_BUSY_POLL of the sink to {BUSY_POLL_US} us"),
                remedy: "give CAP_NET_ADMIN (setcap cap_net_admin+ep on the program), or run as root",
            },
            _ => ProbeError::os("set SO_BUSY_POLL of the sink", e),
        })?;
    }
    Ok(())
}

/// What the kernel said with a packet.
#[derive(Clone, Copy, Default)]
pub(super) struct Arrival {
    /// Length of the payload in bytes, which may exceed the buffer.
    pub(super) octets: usize,
    /// Receive stamp, CLOCK_REALTIME nanoseconds; 0 if there is none.
    pub(super) realtime_ns: i64,
    /// Drops at the socket so far.
    pub(super) drops: u32,
}

/// Takes one packet.
pub(super) trait Take {
    fn take(&mut self, socket: BorrowedFd<'_>, buffer: &mut [u8], flags: RecvFlags)
    -> Result<Arrival, Errno>;
}

/// `recv`: the payload alone.
pub(super) struct Plain;

impl Take for Plain {
    #[inline(always)]
    fn take(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
        flags: RecvFlags,
    ) -> Result<Arrival, Errno> {
        let (_, octets) = rustix::net::recv(socket, buffer, flags | RecvFlags::TRUNC)?;
        Ok(Arrival { octets, ..Arrival::default() })
    }
}

/// Room for control messages: a stamp (32 bytes with its header) and a drop count (24), and to spare.
#[repr(C, align(8))]
struct ControlSpace([u8; 128]);

/// `recvmsg`: the payload, the kernel's stamp and the drop count.
pub(super) struct WithStamps {
    control: ControlSpace,
    /// The kernel tells drops only with the packets after the first drop.
    drops: u32,
}

impl WithStamps {
    pub(super) fn new() -> Self {
        Self { control: ControlSpace([0; 128]), drops: 0 }
    }
}

impl Take for WithStamps {
    #[inline(always)]
    fn take(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
        flags: RecvFlags,
    ) -> Result<Arrival, Errno> {
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all-zero bytes are a valid msghdr: no name, no parts, no control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = self.control.0.as_mut_ptr().cast();
        message.msg_controllen = self.control.0.len() as _;
        let flags = (flags | RecvFlags::TRUNC).bits() as libc::c_int;
        // SAFETY: the message leads to `buffer` and `control`, valid for writing for the lengths given.
        let octets = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
        let Ok(octets) = usize::try_from(octets) else {
            return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
        };
        let mut arrival = Arrival { octets, realtime_ns: 0, drops: self.drops };
        // SAFETY: the kernel filled `control` with whole messages and set msg_controllen; the macros stay within
        // it, and each message read here holds the type that its number says.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(&raw const message);
            while let Some(found) = header.as_ref() {
                if found.cmsg_level == libc::SOL_SOCKET {
                    let data = libc::CMSG_DATA(header);
                    match found.cmsg_type {
                        libc::SCM_TIMESTAMPNS => {
                            let time = data.cast::<libc::timespec>().read_unaligned();
                            arrival.realtime_ns = time.tv_sec * 1_000_000_000 + time.tv_nsec;
                        }
                        libc::SO_RXQ_OVFL => arrival.drops = data.cast::<u32>().read_unaligned(),
                        _ => {}
                    }
                }
                header = libc::CMSG_NXTHDR(&raw const message, header);
            }
        }
        self.drops = arrival.drops;
        Ok(arrival)
    }
}

/// Waits for a packet before it is taken, and says how to take it.
pub(super) trait WaitForPacket {
    /// Flags of the receive call.
    const FLAGS: RecvFlags;
    /// Called when the receive call found nothing.
    fn wait(&mut self);
}

/// Does not wait.
pub(super) struct Spin;

impl WaitForPacket for Spin {
    const FLAGS: RecvFlags = RecvFlags::DONTWAIT;

    #[inline(always)]
    fn wait(&mut self) {}
}

/// The receive call itself waits.
pub(super) struct InCall;

impl WaitForPacket for InCall {
    const FLAGS: RecvFlags = RecvFlags::empty();

    #[inline(always)]
    fn wait(&mut self) {}
}

/// Waits in `epoll_wait`.
pub(super) struct InEpoll {
    epoll: OwnedFd,
}

impl InEpoll {
    pub(super) fn new(socket: BorrowedFd<'_>) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, socket, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(Self { epoll })
    }
}

impl WaitForPacket for InEpoll {
    const FLAGS: RecvFlags = RecvFlags::DONTWAIT;

    #[inline(always)]
    fn wait(&mut self) {
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
        // A signal or an error only means to try the receive again, which then says what is wrong.
        let _ = epoll::wait(self.epoll.as_fd(), &mut events, None);
    }
}
