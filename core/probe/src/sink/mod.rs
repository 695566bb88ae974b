//! The sink: one timestamp per packet, taken right after the receive returned (Chasing, section III-A).
//!
//! The hot loop writes into memory that is there before it starts, allocates nothing and makes no system call
//! but the receive (and the wait of [`Receive::Epoll`]).

mod look;
mod payload;
mod receive;
mod report;
mod run;
mod turns;

pub use look::{KEPT_BYTES, SeenPacket};
pub use payload::classify;
pub use receive::Receive;
pub use report::{SinkLive, SinkReport};

use super::error::ProbeError;
use super::socket;
use super::thread::{PreparedThread, ThreadSettings};
use super::worker::{Prepared, Running};
use quaver_abi::record::{GapRecord, PacketRecord};
use quaver_clock::Counter;
use quaver_host::segment::SegmentWriter;
use quaver_host::trace::Payload;
use rustix::net::Shutdown;
use socket2::Socket;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Called before each receive, with the count of packets received so far: for tests that disturb the sink on
/// its own thread. Costs nothing where there is none.
pub type Disturb = fn(u64);

/// What to receive and how.
#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// Local address and port (0: the kernel chooses); a multicast group is joined.
    pub bind: SocketAddr,
    /// Interface to join a group on, by index; none lets the routes decide.
    pub multicast_interface: Option<u32>,
    /// How packets are waited for.
    pub receive: Receive,
    /// Ask the kernel for its receive stamp (`SO_TIMESTAMPNS`) and the socket's drop count (`SO_RXQ_OVFL`) with
    /// each packet. Off is cheaper; the total of drops is reported either way.
    pub kernel_stamps: bool,
    /// Size of the receive buffer to ask for, bytes.
    pub receive_buffer_bytes: usize,
    /// What the payload is.
    pub payload: Payload,
    /// Identity of the stream to follow; packets of our sources with another are not taken for ours. None
    /// follows all.
    pub stream_id: Option<u32>,
    /// Longest payload received whole, bytes; the rest of a longer one is cut off and the record says so.
    pub payload_capacity: usize,
    /// The thread.
    pub thread: ThreadSettings,
    /// What packets are stamped with.
    pub counter: Counter,
    /// Interference by a test.
    pub disturb: Option<Disturb>,
}

impl SinkOptions {
    /// Options with nothing special: polling, no kernel stamps, 8 MiB of buffer, our payload without headers
    /// before it, up to 9216 bytes, unprivileged thread settings.
    pub fn new(bind: SocketAddr, counter: Counter) -> Self {
        Self {
            bind,
            multicast_interface: None,
            receive: Receive::Poll,
            kernel_stamps: false,
            receive_buffer_bytes: 8 << 20,
            payload: Payload::Ours { offset: 0 },
            stream_id: None,
            payload_capacity: 9_216,
            thread: ThreadSettings::default(),
            counter,
            disturb: None,
        }
    }
}

/// A sink whose socket is open: packets queue in its buffer from here on.
#[derive(Debug)]
pub struct Sink {
    socket: Arc<Socket>,
    address: SocketAddr,
    receive_buffer_bytes: usize,
    options: SinkOptions,
    turns: Option<SegmentWriter<GapRecord>>,
}

impl Sink {
    /// Opens the socket in the network namespace of the calling thread.
    ///
    /// # Errors
    /// When the address cannot be bound, the group not joined, or an option is refused.
    pub fn open(options: SinkOptions) -> Result<Self, ProbeError> {
        Self::bind(options, false)
    }

    /// Opens another socket at this one's address, with an empty queue and counts that begin at 0, and closes this one.
    /// The new one takes the packets before the old one goes, so that none finds the port closed: the kernel would answer
    /// it by ICMP, at which some senders end.
    ///
    /// # Errors
    /// As [`Sink::open`].
    pub fn renew(self, options: SinkOptions) -> Result<Self, ProbeError> {
        let options = SinkOptions { bind: self.address, ..options };
        socket::share(&self.socket, self.address, true)?;
        let next = Self::bind(options, true)?;
        if !self.address.ip().is_multicast() {
            socket::share(&next.socket, next.address, false)?;
        }
        Ok(next)
    }

    fn bind(options: SinkOptions, shared: bool) -> Result<Self, ProbeError> {
        let bind = options.bind;
        let socket = socket::receiver(bind, options.multicast_interface, shared)?;
        let receive_buffer_bytes = socket::receive_buffer(socket.as_fd(), options.receive_buffer_bytes)
            .map_err(|e| ProbeError::os(format!("set the receive buffer of the sink at {bind}"), e))?;
        receive::configure(socket.as_fd(), &options)?;
        let address = socket
            .local_addr()
            .ok()
            .and_then(|address| address.as_socket())
            .ok_or_else(|| ProbeError::os("read the sink's address", std::io::Error::last_os_error()))?;
        Ok(Self { socket: Arc::new(socket), address, receive_buffer_bytes, options, turns: None })
    }

    /// Local address, with the port that the kernel chose.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Size of the socket's receive buffer, as the kernel counts it: twice what it grants of what was asked for.
    pub fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_bytes
    }

    /// Records the turns of a polling sink ([`Receive::Poll`]) that take longer than 2 us and four times the usual turn.
    /// Another sink has no turns, and writes nothing.
    pub fn record_turns(&mut self, segment: SegmentWriter<GapRecord>) {
        self.turns = Some(segment);
    }

    /// Starts the thread, which waits for [`PreparedSink::go`]. Each packet becomes a record of `segment`.
    ///
    /// # Errors
    /// When a required thread setting is refused.
    pub fn prepare(self, segment: SegmentWriter<PacketRecord>) -> Result<PreparedSink, ProbeError> {
        let live = Arc::new(SinkLive::default());
        let (shared, socket) = (Arc::clone(&live), Arc::clone(&self.socket));
        let settings = self.options.thread.clone();
        let (options, receive_buffer_bytes) = (self.options, self.receive_buffer_bytes);
        let turns = self.turns;
        let worker = Prepared::spawn("quaver-sink", settings, move |stop| {
            let mut outcome = run::run(&socket, &options, (segment, turns), &shared, stop);
            outcome.report.receive_buffer_bytes = receive_buffer_bytes;
            outcome
        })?;
        Ok(PreparedSink { worker, live, socket: self.socket, address: self.address })
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A sink ready to go: its thread's number and its socket are there for a tracer.
#[derive(Debug)]
pub struct PreparedSink {
    worker: Prepared<SinkOutcome>,
    live: Arc<SinkLive>,
    socket: Arc<Socket>,
    address: SocketAddr,
}

impl PreparedSink {
    /// What its thread asked for and got.
    pub fn thread(&self) -> &PreparedThread {
        self.worker.thread()
    }

    /// Kernel's number of its thread.
    pub fn tid(&self) -> u32 {
        self.worker.tid()
    }

    /// Local address, with the port that the kernel chose.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Starts to receive.
    pub fn go(self) -> RunningSink {
        RunningSink { worker: self.worker.go().0, live: self.live, socket: self.socket }
    }
}

impl AsFd for PreparedSink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A sink that receives.
#[derive(Debug)]
pub struct RunningSink {
    worker: Running<SinkOutcome>,
    live: Arc<SinkLive>,
    socket: Arc<Socket>,
}

impl RunningSink {
    /// Counters to read at any time.
    pub fn live(&self) -> &Arc<SinkLive> {
        &self.live
    }

    /// Ends it: sets the flag and shuts the socket down for reading, which wakes a waiting receive and costs
    /// nothing before (a receive timeout would arm a timer for each wait).
    pub fn stop(&self) {
        self.worker.ask_to_stop();
        // An unconnected socket answers ENOTCONN, yet wakes its waiters.
        let _ = rustix::net::shutdown(self.socket.as_fd(), Shutdown::Read);
    }

    /// Whether its thread has ended.
    pub fn is_finished(&self) -> bool {
        self.worker.is_finished()
    }

    /// Stops and waits for the end.
    ///
    /// # Errors
    /// The process was asked to end, and the sink's thread is not let run.
    pub fn join(self) -> Result<SinkOutcome, ProbeError> {
        self.stop();
        self.worker.join()
    }
}

impl AsFd for RunningSink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What a sink leaves.
#[derive(Debug)]
pub struct SinkOutcome {
    /// Its accounts.
    pub report: SinkReport,
    /// The records, to be finished.
    pub segment: SegmentWriter<PacketRecord>,
    /// Long turns, where they were to be recorded; to be finished.
    pub turns: Option<SegmentWriter<GapRecord>>,
}

#[cfg(test)]
mod tests;
