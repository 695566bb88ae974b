//! What an analysis works on: the samples, events and facts of one run, already on one time line
//! (CLOCK_MONOTONIC of the measured host, nanoseconds).

use quaver_abi::record::EventRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A place on a packet's way where it can be stamped, in the order in which the packet passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// When the schedule wanted the packet sent.
    Schedule,
    /// When our source handed it to the kernel.
    Source,
    /// Interrupt handler of the network device.
    Interrupt,
    /// NET_RX softirq.
    Softirq,
    /// `netif_receive_skb`: the network stack has the packet.
    Receive,
    /// The kernel's own receive stamp (`SO_TIMESTAMPNS`).
    KernelStamp,
    /// Entered the socket's queue.
    Enqueued,
    /// The receiver was told.
    Ready,
    /// The receive call returned.
    Application,
}

impl Layer {
    /// Every layer, in the packet's order.
    pub const ALL: [Self; 9] = [
        Self::Schedule,
        Self::Source,
        Self::Interrupt,
        Self::Softirq,
        Self::Receive,
        Self::KernelStamp,
        Self::Enqueued,
        Self::Ready,
        Self::Application,
    ];

    /// Name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Source => "source",
            Self::Interrupt => "interrupt",
            Self::Softirq => "softirq",
            Self::Receive => "receive",
            Self::KernelStamp => "kernel-stamp",
            Self::Enqueued => "enqueued",
            Self::Ready => "ready",
            Self::Application => "application",
        }
    }
}

/// Mark of a missing stamp in [`LayerColumn::before_app_ns`].
pub const MISSING: i64 = i64::MIN;

/// Farthest that two instants of one stream can be apart: some 73 years. What is farther is no instant of the same time line,
/// and sums of distances stay within 64 bits.
pub const FARTHEST_NS: u64 = 1 << 61;

/// Distance of two instants, `later - earlier`; [`MISSING`] where it is beyond [`FARTHEST_NS`].
pub fn distance_ns(later_ns: i64, earlier_ns: i64) -> i64 {
    later_ns.checked_sub(earlier_ns).filter(|ns| ns.unsigned_abs() <= FARTHEST_NS).unwrap_or(MISSING)
}

/// One layer's stamps, as the distance back from the application's: `application - layer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerColumn {
    /// Which layer; never `Application`.
    pub layer: Layer,
    /// One entry a packet, [`MISSING`] where it has no stamp.
    pub before_app_ns: Vec<i64>,
}

/// Received packets in the order in which the application received them. All columns have one length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketTable {
    /// Sequence number, extended over wraps.
    pub seq: Vec<u64>,
    /// Application stamp, CLOCK_MONOTONIC.
    pub app_ns: Vec<i64>,
    /// CPU of the application stamp.
    pub app_cpu: Vec<u16>,
    /// CPU that ran the network stack, [`NO_CPU`] where unknown.
    pub stack_cpu: Vec<u16>,
    /// The other layers that were stamped, in layer order.
    pub layers: Vec<LayerColumn>,
}

/// Mark of an unknown CPU.
pub const NO_CPU: u16 = u16::MAX;

impl PacketTable {
    /// Count of packets.
    pub fn len(&self) -> usize {
        self.seq.len()
    }

    /// Whether nothing was received.
    pub fn is_empty(&self) -> bool {
        self.seq.is_empty()
    }

    /// The column of a layer, where that layer was stamped.
    pub fn column(&self, layer: Layer) -> Option<&LayerColumn> {
        self.layers.iter().find(|column| column.layer == layer)
    }

    /// Stamp of packet `row` at `layer`, CLOCK_MONOTONIC.
    pub fn stamp_ns(&self, row: usize, layer: Layer) -> Option<i64> {
        if layer == Layer::Application {
            return self.app_ns.get(row).copied();
        }
        let before = *self.column(layer)?.before_app_ns.get(row)?;
        (before != MISSING).then(|| self.app_ns[row].wrapping_sub(before))
    }
}

/// Names that events refer to by number or address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// Device of an interrupt number, as `/proc/interrupts` has it.
    pub irq: BTreeMap<u32, String>,
    /// Name of a thread.
    pub task: BTreeMap<u32, String>,
    /// Process of a thread.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub process: BTreeMap<u32, u32>,
    /// Kernel function at an address.
    pub symbol: BTreeMap<u64, String>,
    /// Name of an idle state.
    pub idle_state: BTreeMap<u32, String>,
    /// Name of a system call by its number on the recorded machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub call: BTreeMap<u64, String>,
    /// Functions of a stack that a sample refers to, innermost first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stack: BTreeMap<u32, Vec<String>>,
}

/// A thread whose lateness is asked about, or that made the packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Actor {
    /// Kernel thread numbers (one, but for a receiver of several threads).
    pub threads: Vec<u32>,
    /// CPU that it is pinned to.
    pub cpu: Option<u16>,
    /// Runs under SCHED_FIFO or SCHED_RR.
    pub realtime: bool,
    /// Sleeps in its receive call (else it polls); as a source, between its packets (else it spins).
    pub blocking: bool,
    /// A program of others, which may do more than receive: its own work can make it late.
    #[serde(default)]
    pub foreign: bool,
}

/// Time that an interruption takes beside its first and last trace point, on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EdgeCost {
    /// From the last instant of the interrupted program to the first trace point, nanoseconds.
    pub entry_ns: i64,
    /// From the last trace point to the first instant of the program again, nanoseconds.
    pub exit_ns: i64,
    /// Interruptions that it was measured from.
    pub samples: u32,
}

/// What is known of the host and bears on the naming of causes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Circumstances {
    /// Runs under a hypervisor: what no event explains is "hypervisor or hardware".
    pub virtual_machine: bool,
    /// Times that the CPU quota of the receiver's cgroup (or one above it) stopped it during the run.
    pub quota_stops: u64,
    /// The kernel has a fair server (6.12 and later): it may interrupt real-time threads for normal ones.
    pub fair_server: bool,
    /// `kernel.sched_rt_runtime_us` < period: real-time threads are stopped for the rest of each period.
    pub rt_throttling: bool,
    /// Steal time of all CPUs during the run, nanoseconds, in the 10 ms steps of `/proc/stat`.
    pub steal_ns: u64,
    /// What it costs to get into and out of an interrupt on the receiver's CPU, where it was measured.
    #[serde(default)]
    pub edge_cost: Option<EdgeCost>,
    /// Thread numbers of the tool itself other than receiver and source: their time is our own cost.
    pub own_threads: Vec<u32>,
    /// CPUs on which events were recorded.
    pub traced_cpus: Vec<u16>,
    /// Classes of events that could not be recorded, as the reader should see them.
    pub blind: Vec<String>,
    /// Stretches in which events found no room, from their first to their last nanosecond.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holes: Vec<(i64, i64)>,
}

/// Everything that an analysis of a packet run works on.
#[derive(Clone, Debug, Default)]
pub struct PacketRun {
    /// Period of the stream in nanoseconds (7419.7667 for 1080i29.97), none if not known: then it is learned.
    pub period_ns: Option<f64>,
    /// Received packets.
    pub packets: PacketTable,
    /// Events, in any order.
    pub events: Vec<EventRecord>,
    /// Names for the events.
    pub names: Names,
    /// Who received.
    pub receiver: Actor,
    /// Who sent, where it was on this host.
    pub source: Option<Actor>,
    /// Facts that bear on naming.
    pub circumstances: Circumstances,
    /// Counts of packets at each place, from counters.
    pub counts: PacketCounts,
    /// Packets that lay in the receiver's socket when the run ended.
    pub unread: Option<Unread>,
}

/// Packets of a followed stream that came to the receiver's socket after the last one that was read. Nobody had read them
/// when the run ended, on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unread {
    /// When the first of them came to the socket; the start of the run where that was before.
    pub since_ns: i64,
    /// End of the run.
    pub until_ns: i64,
    /// How many came, those included that the full socket dropped.
    pub packets: u64,
}

impl Unread {
    /// Whether that lasted for 100 ms: a receiver that reads nothing for less at the end of a run will read on.
    pub const fn hangs(&self) -> bool {
        self.until_ns - self.since_ns >= 100_000_000
    }
}

/// Packets counted by place. "None" is unknown, not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PacketCounts {
    /// Sent, as our source counted.
    pub sent: Option<u64>,
    /// Send calls that failed.
    pub send_failed: Option<u64>,
    /// Dropped by the network device's ring, as its counters tell.
    pub nic_dropped: Option<u64>,
    /// Dropped by the network stack before the socket, by `skb_drop_reason` name.
    pub stack_dropped: BTreeMap<String, u64>,
    /// Dropped because the receiver's socket buffer was full.
    pub socket_dropped: Option<u64>,
    /// Received by another process than the observed one.
    #[serde(default)]
    pub elsewhere: u64,
    /// Received by the application but lost by us (record space ran out).
    pub record_lost: u64,
    /// Seen by the kernel layers for this flow.
    pub kernel_seen: Option<u64>,
    /// Kernel stamps that were overwritten before they were read.
    pub stamps_lost: u64,
    /// Events that were lost because their ring was full.
    pub events_lost: u64,
}

impl PacketCounts {
    /// Divides what a socket counts as dropped, of which at most `damaged` had a wrong checksum: those found room, and the kernel
    /// discarded them.
    pub fn divide_drops(&mut self, socket_drops: Option<u64>, damaged: u64) {
        let damaged = damaged.min(socket_drops.unwrap_or(0));
        if damaged > 0 {
            self.stack_dropped.insert("UDP_CSUM".to_owned(), damaged);
        }
        self.socket_dropped = socket_drops.map(|drops| drops - damaged);
    }
}

/// Gaps that noise loops saw, all on CLOCK_MONOTONIC. All columns have one length. The gaps of one CPU are in time
/// order. They may overlap (deadlines of the dummy program that one stop made late): then each begins, for the
/// analysis, where the one before ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GapTable {
    /// Turn of the loop.
    pub index: Vec<u64>,
    /// Last stamp before the gap (loop), or the deadline (dummy program).
    pub before_ns: Vec<i64>,
    /// First stamp after it.
    pub after_ns: Vec<i64>,
    /// CPU of the loop.
    pub cpu: Vec<u16>,
}

impl GapTable {
    /// Count of gaps.
    pub fn len(&self) -> usize {
        self.before_ns.len()
    }

    /// Whether no gap was seen.
    pub fn is_empty(&self) -> bool {
        self.before_ns.is_empty()
    }
}

/// One noise loop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoiseLoop {
    /// CPU that it ran on.
    pub cpu: u16,
    /// Its thread; never blocks.
    pub actor: Actor,
    /// First stamp.
    pub start_ns: i64,
    /// Last stamp.
    pub end_ns: i64,
    /// Turns that it made.
    pub turns: u64,
    /// Shortest turn (dummy program: least lateness); none if there was none, or where it is not known.
    #[serde(default)]
    pub shortest_ns: Option<i64>,
}

/// Everything that an analysis of a noise run works on.
#[derive(Clone, Debug, Default)]
pub struct NoiseRun {
    /// Period of the paper's dummy program; none for the tight loop.
    pub period_ns: Option<f64>,
    /// Gaps shorter than this were not recorded.
    pub threshold_ns: i64,
    /// The loops, one a CPU.
    pub loops: Vec<NoiseLoop>,
    /// Their gaps.
    pub gaps: GapTable,
    /// Events, in any order.
    pub events: Vec<EventRecord>,
    /// Names for the events.
    pub names: Names,
    /// Facts that bear on naming.
    pub circumstances: Circumstances,
    /// Gaps that were not recorded because memory ran out.
    pub gaps_lost: u64,
    /// Events that were lost because their ring was full.
    pub events_lost: u64,
}
