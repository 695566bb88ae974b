//! The source: a constant-bit-rate (or gapped) UDP stream against absolute deadlines.
//!
//! Packet `i` keeps the deadline of its slot of the [`Schedule`](super::schedule::Schedule). A source that is so
//! late that the next slot is already due moves to the first slot that is not, and counts what it skipped as
//! misses: sequence numbers stay consecutive and no burst ever makes up for lost time, unless
//! [`SourceOptions::catch_up`] asks for it. The deadline in the records and in the packet is that of the slot
//! that was used.

pub mod pace;
pub mod report;
mod run;
mod transmit;
mod txtime;

pub use pace::{HYBRID_MARGIN_NS, Pace};
pub use report::{SourceLive, SourceReport};

use super::error::ProbeError;
use super::profile::Profile;
use super::socket::{self, SendOptions};
use super::thread::ThreadSettings;
use super::worker::{Prepared, Running};
use quaver_abi::record::SendRecord;
use quaver_clock::Counter;
use quaver_host::segment::SegmentWriter;
use socket2::Socket;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// How long a stream lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamLength {
    /// So many packets, however many slots they take.
    Packets(u64),
    /// All slots due before this time has passed since the first.
    Lasting(Duration),
    /// Until [`RunningSource::stop`].
    UntilStopped,
}

/// What to send, where to and how.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// Where to: unicast or multicast.
    pub destination: SocketAddr,
    /// Local address, DSCP, TTL, outgoing interface.
    pub socket: SendOptions,
    /// Packets and schedule.
    pub profile: Profile,
    /// When it ends.
    pub length: StreamLength,
    /// How deadlines are waited for.
    pub pace: Pace,
    /// Send late packets at once, back to back, rather than skip slots.
    pub catch_up: bool,
    /// Identity of the stream, in every packet (and the RTP synchronisation source).
    pub stream_id: u32,
    /// Time between go and the first deadline.
    pub start_delay: Duration,
    /// The thread.
    pub thread: ThreadSettings,
    /// What the records are stamped with.
    pub counter: Counter,
}

impl SourceOptions {
    /// Options with nothing special: spinning, no catching up, unprivileged thread settings, first deadline
    /// after 10 ms.
    pub fn new(destination: SocketAddr, profile: Profile, length: StreamLength, counter: Counter) -> Self {
        Self {
            destination,
            socket: SendOptions::default(),
            profile,
            length,
            pace: Pace::Spin,
            catch_up: false,
            stream_id: 0,
            start_delay: Duration::from_millis(10),
            thread: ThreadSettings::default(),
            counter,
        }
    }

    /// Most packets that a stream of this length has; none if only a stop ends it.
    pub fn packets(&self) -> Option<u64> {
        match self.length {
            StreamLength::Packets(packets) => Some(packets),
            StreamLength::Lasting(time) => {
                let last = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX).saturating_sub(1);
                Some(if last < 0 { 0 } else { self.profile.schedule().first_after(last) })
            }
            StreamLength::UntilStopped => None,
        }
    }
}

/// What keeps the instants of a stream's packets, on the source's thread: what it does, the stream waits for.
pub trait SendLog: Send + 'static {
    /// A packet was handed to the kernel, `late_ns` nanoseconds after its deadline.
    fn take(&mut self, record: SendRecord, late_ns: i64);
}

impl SendLog for SegmentWriter<SendRecord> {
    #[inline(always)]
    fn take(&mut self, record: SendRecord, _late_ns: i64) {
        self.push(record);
    }
}

/// A source whose socket is open.
#[derive(Debug)]
pub struct Source {
    socket: Socket,
    options: SourceOptions,
    /// To add to deadlines that the way out keeps.
    ahead_ns: i64,
}

impl Source {
    /// Opens the socket in the network namespace of the calling thread, and finds out whether the pace can be
    /// kept there.
    ///
    /// # Errors
    /// [`ProbeError::NotSupported`] for [`Pace::Txtime`] where the queueing discipline does not keep it.
    pub fn open(options: SourceOptions) -> Result<Self, ProbeError> {
        let socket = socket::sender(options.destination, &options.socket)?;
        Self::through(socket, options)
    }

    /// Local address.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_address(&self) -> Result<SocketAddr, ProbeError> {
        let address = self.socket.local_addr().map_err(|e| ProbeError::os("read the source's address", e))?;
        address.as_socket().ok_or_else(|| {
            ProbeError::os("read the source's address", std::io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
        })
    }

    /// Takes a socket that is connected to [`SourceOptions::destination`]; the options of the socket that
    /// [`SourceOptions::socket`] has are its owner's business.
    ///
    /// # Errors
    /// [`ProbeError::NotSupported`] for [`Pace::Txtime`] where the queueing discipline does not keep it.
    pub fn through(socket: Socket, options: SourceOptions) -> Result<Self, ProbeError> {
        let mut ahead_ns = 0;
        if options.pace == Pace::Txtime {
            let interface = options.socket.multicast_interface;
            ahead_ns = txtime::enable(&socket, options.destination, interface)?.ahead_ns;
        }
        Ok(Self { socket, options, ahead_ns })
    }

    /// Starts the thread, which waits for [`PreparedSource::go`]. Each packet sent is told to `segment`.
    ///
    /// # Errors
    /// When a required thread setting is refused.
    pub fn prepare<L: SendLog>(self, segment: L) -> Result<PreparedSource<L>, ProbeError> {
        let live = Arc::new(SourceLive::default());
        let shared = Arc::clone(&live);
        let Self { socket, options, ahead_ns } = self;
        let settings = options.thread.clone();
        let worker = Prepared::spawn("quaver-source", settings, move |stop| {
            let (report, segment) = run::run(&socket, &options, ahead_ns, segment, &shared, stop);
            SourceOutcome { report, segment }
        })?;
        Ok(PreparedSource { worker, live })
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A source ready to go.
#[derive(Debug)]
pub struct PreparedSource<L = SegmentWriter<SendRecord>> {
    worker: Prepared<SourceOutcome<L>>,
    live: Arc<SourceLive>,
}

impl<L: SendLog> PreparedSource<L> {
    /// What its thread asked for and got.
    pub fn thread(&self) -> &super::thread::PreparedThread {
        self.worker.thread()
    }

    /// Kernel's number of its thread.
    pub fn tid(&self) -> u32 {
        self.worker.tid()
    }

    /// Starts the stream.
    pub fn go(self) -> RunningSource<L> {
        RunningSource { worker: self.worker.go().0, live: self.live }
    }
}

/// A source that sends.
#[derive(Debug)]
pub struct RunningSource<L = SegmentWriter<SendRecord>> {
    worker: Running<SourceOutcome<L>>,
    live: Arc<SourceLive>,
}

impl<L> RunningSource<L> {
    /// Counters to read at any time.
    pub fn live(&self) -> &Arc<SourceLive> {
        &self.live
    }

    /// Whether the stream has ended.
    pub fn is_finished(&self) -> bool {
        self.worker.is_finished()
    }

    /// Ends the stream soon (a sleeping source within 100 ms).
    pub fn stop(&self) {
        self.worker.ask_to_stop();
    }

    /// Waits for the end of the stream.
    ///
    /// # Errors
    /// The process was asked to end, and the source's thread is not let run.
    pub fn join(self) -> Result<SourceOutcome<L>, ProbeError> {
        self.worker.join()
    }
}

/// What a source leaves.
#[derive(Debug)]
pub struct SourceOutcome<L = SegmentWriter<SendRecord>> {
    /// The schedule that it achieved.
    pub report: SourceReport,
    /// The records, to be finished.
    pub segment: L,
}

#[cfg(test)]
mod tests;
