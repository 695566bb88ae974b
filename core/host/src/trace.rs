//! What every tier of kernel tracing offers, so that an instrument need not know which one runs.
//!
//! The tiers are BPF ([`crate::bpf`]), a tracefs instance ([`crate::tracefs`]), and none at all.

use quaver_abi::record::{EventRecord, StampRecord};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// What the payload of the followed flow is, so that a kernel layer can read a packet's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Our source's header ([`quaver_abi::wire::stream`]) at this offset of the UDP payload.
    Ours {
        /// Bytes before our header (RTP and HBRMT headers of a profile).
        offset: u16,
    },
    /// RTP: the key is the 16-bit sequence number.
    Rtp,
    /// Unknown: packets are joined by `sk_buff` address, then by the socket's order.
    Opaque,
}

/// The packets to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Destination address; none for any.
    pub address: Option<IpAddr>,
    /// UDP destination ports, at most 8.
    pub ports: Vec<u16>,
    /// Payload.
    pub payload: Payload,
}

/// What to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSpec {
    /// Flow whose packets are stamped at each kernel layer; none: events only.
    pub flow: Option<Flow>,
    /// Threads whose wake-ups, migrations and page faults are recorded.
    pub threads: Vec<u32>,
    /// A running process whose receive calls are the application layer (`--pid`).
    pub observed_process: Option<u32>,
    /// CPUs whose interference is recorded; empty for all.
    pub cpus: Vec<u16>,
    /// Packets that the stamp memory holds before old ones must have been drained.
    pub stamp_capacity: usize,
    /// Events that the memory of each CPU holds before old ones must have been drained.
    pub event_capacity: usize,
}

/// Where a tracer puts what it recorded.
pub trait TraceSink {
    /// A finished packet.
    fn stamp(&mut self, record: StampRecord);
    /// An event. Order is by CPU and end, not over all.
    fn event(&mut self, record: EventRecord);
    /// Addresses of a stack that samples refer to by number, innermost first. Comes at the end, after all events.
    fn stack(&mut self, number: u32, addresses: &[u64]) {
        let _ = (number, addresses);
    }
}

/// What a tracer counted when it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceCounts {
    /// Packets of the flow that the kernel layers saw.
    pub packets_seen: u64,
    /// Of these, stamps that were overwritten before they were drained.
    pub stamps_lost: u64,
    /// Events lost because their memory was full.
    pub events_lost: u64,
    /// Packets of the flow that the stack dropped, by `skb_drop_reason` name.
    pub drops: BTreeMap<String, u64>,
    /// A sentence for each CPU on which the hypervisor's count of steal and `/proc/stat` differ by more than 20 ms.
    pub steal_disagreements: Vec<String>,
}

/// The receive queues of an observed process's sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Packets that entered them since recording began.
    pub came: u64,
    /// Packets that receive calls took from them since.
    pub taken: u64,
    /// Packets in them when the latest entered.
    pub waiting: u64,
}

/// Which tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Nothing but user space.
    User,
    /// A tracefs instance.
    Tracefs,
    /// BPF programs.
    Bpf,
}

impl Tier {
    /// Name in manifests and on the console.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Tracefs => "tracefs",
            Self::Bpf => "bpf",
        }
    }
}

/// Why tracing did not start or broke off.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The kernel refused for want of privilege.
    #[error("{operation}: not permitted; {remedy}")]
    NotPermitted {
        /// What was tried, on what.
        operation: String,
        /// What to do.
        remedy: String,
    },
    /// The kernel or this build lacks it.
    #[error("{operation}: not supported here; {remedy}")]
    NotSupported {
        /// What was tried, on what.
        operation: String,
        /// What to do.
        remedy: String,
    },
    /// Anything else.
    #[error("{operation}: {source}")]
    Os {
        /// What was tried, on what.
        operation: String,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A tracer, recording or about to. Dropping it ends recording and leaves nothing behind in the system.
pub trait Tracer: Send {
    /// Which tier this is.
    fn tier(&self) -> Tier;
    /// Classes of events that this tracer cannot record here, each as a short noun phrase with the reason.
    fn blind(&self) -> Vec<String>;
    /// Adds the "enqueued" layer to a receive socket of our own. A tier without that layer does nothing and says so in
    /// [`Tracer::blind`].
    fn attach_receiver(&mut self, socket: BorrowedFd<'_>) -> Result<(), TraceError>;
    /// Attaches or detaches every probe, so that "off" costs nothing. Takes milliseconds.
    fn set_recording(&mut self, on: bool) -> Result<(), TraceError>;
    /// Hands over what is complete so far; packets still in flight stay.
    fn drain(&mut self, sink: &mut dyn TraceSink) -> Result<(), TraceError>;
    /// Lets [`Tracer::drain`] hand over a packet that the observed process has not received although it received a later one
    /// a second ago. True of a process with one socket alone: it will not receive that packet, or that was not seen.
    fn expect_order(&mut self) {}
    /// The receive queues of the observed process; none where receive calls are not followed.
    fn queues(&self) -> Option<QueueCounts> {
        None
    }
    /// For a reader that goes on recording: the packets that [`Tracer::drain`] keeps back, as they are now. They come again.
    fn in_flight(&mut self, sink: &mut dyn TraceSink) {
        let _ = sink;
    }

    /// Events so far that found no room.
    fn events_lost(&self) -> u64 {
        0
    }

    /// For a reader that goes on recording: intervals that are open now, as if they ended now, the stacks so far, and the
    /// counts so far. What was handed over by [`Tracer::drain`] does not come again. A tier without it hands over nothing.
    fn snapshot(&mut self, sink: &mut dyn TraceSink) -> Result<TraceCounts, TraceError> {
        let _ = sink;
        Ok(TraceCounts::default())
    }
    /// Stops recording, hands over everything, open intervals included, and the counts.
    fn finish(self: Box<Self>, sink: &mut dyn TraceSink) -> Result<TraceCounts, TraceError>;
}
