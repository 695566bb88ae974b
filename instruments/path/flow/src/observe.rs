//! Looking at a TCP connection's segments below the transport: through a packet socket with a filter for this one
//! connection, where that is permitted, and by the connection's own counters in any case.

mod filter;

use super::error::FlowError;
use super::inbox::{RECEIVE_STAMPS, stamp_in};
use super::segments::{SegmentCounts, SegmentStream, Side, read_segment};
use super::socket::{LONGEST_WAIT, TestSocket, wait};
use quaver_clock::realtime_ns;
use quaver_probe::socket::{numbers, receive_buffer, set_option};
use rustix::event::PollFlags;
use std::io::Error;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// What was seen below the transport, from the call of this host's end of the flow to its end. A receiver that is
/// called after the sender's first packets sees only what came later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentReport {
    /// Segments as a packet socket saw them; none where that is not permitted, and `remark` says so. Segments that
    /// the kernel passes on in one piece (segmentation and receive offloads) count as one.
    pub seen: Option<SegmentCounts>,
    /// Segments that the packet socket had no room for; they look like holes.
    pub unseen: u64,
    /// What the connection counted.
    pub counters: Option<ConnectionCounters>,
    /// What could not be had.
    pub remark: Option<String>,
}

/// Counters of a connection (`TCP_INFO`), as they grew over the flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounters {
    /// Segments sent with bytes, each time counted.
    pub segments_sent: u32,
    /// Segments received with bytes, each time counted.
    pub segments_received: u32,
    /// Segments sent again.
    pub retransmitted: u32,
    /// Reordering events that acknowledgements showed.
    pub reordering_events: u32,
    /// Duplicates that the peer reported (RFC 2883).
    pub duplicates_reported: u32,
    /// Segments received out of order.
    pub received_out_of_order: u32,
}

impl ConnectionCounters {
    fn read(socket: &TestSocket) -> Option<Self> {
        /// Places of 32-bit numbers in struct tcp_info, up to tcpi_rcv_ooopack (Linux 5.4).
        const LENGTH: usize = 57;
        let info = numbers::<LENGTH>(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_INFO).ok()?;
        Some(Self {
            segments_sent: info[39],
            segments_received: info[38],
            retransmitted: info[25],
            reordering_events: info[55],
            duplicates_reported: info[54],
            received_out_of_order: info[56],
        })
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            segments_sent: self.segments_sent.wrapping_sub(before.segments_sent),
            segments_received: self.segments_received.wrapping_sub(before.segments_received),
            retransmitted: self.retransmitted.wrapping_sub(before.retransmitted),
            reordering_events: self.reordering_events.wrapping_sub(before.reordering_events),
            duplicates_reported: self.duplicates_reported.wrapping_sub(before.duplicates_reported),
            received_out_of_order: self.received_out_of_order.wrapping_sub(before.received_out_of_order),
        }
    }
}

/// Looks on while a flow runs.
pub(super) struct Watch<'a> {
    socket: &'a TestSocket,
    before: Option<ConnectionCounters>,
    watcher: Result<Watcher, FlowError>,
}

struct Watcher {
    done: Arc<AtomicBool>,
    thread: JoinHandle<(SegmentCounts, u64)>,
}

impl<'a> Watch<'a> {
    /// Starts to look at what goes from the sender to the receiver, of which `side` is this host.
    pub(super) fn start(socket: &'a TestSocket, side: Side) -> Self {
        Self { socket, before: ConnectionCounters::read(socket), watcher: Watcher::start(socket, side) }
    }

    pub(super) fn finish(self) -> SegmentReport {
        let after = ConnectionCounters::read(self.socket);
        let counters = self.before.zip(after).map(|(before, after)| after.since(&before));
        match self.watcher {
            Ok(watcher) => {
                watcher.done.store(true, Ordering::Release);
                match watcher.thread.join() {
                    Ok((seen, unseen)) => SegmentReport { seen: Some(seen), unseen, counters, remark: None },
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Err(error) => {
                SegmentReport { counters, remark: Some(error.to_string()), ..SegmentReport::default() }
            }
        }
    }
}

impl Watcher {
    fn start(socket: &TestSocket, side: Side) -> Result<Self, FlowError> {
        let (local, peer) = (socket.local_address()?, socket.peer_address()?);
        let (from, to) = match side {
            Side::Sender => (local, peer),
            Side::Receiver => (peer, local),
        };
        let tap = filter::open_tap(from, to, side)?;
        let failed = |e| FlowError::os("make the packet socket for the segments ready", e);
        set_option(tap.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &(RECEIVE_STAMPS as i32))
            .map_err(failed)?;
        receive_buffer(tap.as_fd(), TAP_BUFFER_BYTES).map_err(failed)?;
        let done = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&done);
        let thread = quaver_waiting::start("quaver-segments", move || look_on(&tap, side, &flag))
            .map_err(|e| FlowError::os("start the thread that looks at segments", e))?;
        Ok(Self { done, thread })
    }
}

const TAP_BUFFER_BYTES: usize = 16 << 20;

/// Takes segments until `done` is set and none is left.
fn look_on(tap: &OwnedFd, side: Side, done: &AtomicBool) -> (SegmentCounts, u64) {
    let mut stream = SegmentStream::new(side);
    let mut tap_reader = TapReader { interface: None };
    loop {
        let last_round = done.load(Ordering::Acquire);
        while let Some((octets, length, seen_ns)) = tap_reader.next(tap) {
            if let Some(segment) = read_segment(&octets[..length], seen_ns) {
                stream.take(&segment);
            }
        }
        if last_round {
            return (stream.counts(), filter::unseen(tap));
        }
        wait(tap.as_fd(), PollFlags::IN, LONGEST_WAIT);
    }
}

/// A segment that crosses several interfaces of this host is seen at each; only the first one's count.
struct TapReader {
    interface: Option<i32>,
}

impl TapReader {
    fn next(&mut self, tap: &OwnedFd) -> Option<([u8; filter::KEPT_BYTES], usize, i64)> {
        loop {
            let mut octets = [0u8; filter::KEPT_BYTES];
            let mut control = [0u64; 16];
            let mut part = libc::iovec { iov_base: octets.as_mut_ptr().cast(), iov_len: octets.len() };
            // SAFETY: all-zero bytes are a valid sockaddr_ll, which is plain numbers.
            let mut name: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            // SAFETY: all-zero bytes are a valid msghdr: no name, no parts, no control data.
            let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control) as _;
            message.msg_name = (&raw mut name).cast();
            message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            // SAFETY: the message leads to `octets`, `control` and `name`, valid for writing for the lengths given.
            let length = unsafe { libc::recvmsg(tap.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
            let length = usize::try_from(length).ok()?.min(octets.len());
            if *self.interface.get_or_insert(name.sll_ifindex) != name.sll_ifindex {
                continue;
            }
            let control: Vec<u8> = control.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let written = message.msg_controllen.min(control.len());
            let seen_ns =
                stamp_in(&control[..written], None).map_or_else(realtime_ns, |(seen_ns, _)| seen_ns);
            return Some((octets, length, seen_ns));
        }
    }
}

/// Takes a file descriptor that the kernel has just made.
fn own(fd: i32) -> Result<OwnedFd, Error> {
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the kernel returned it to this call, so that nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
