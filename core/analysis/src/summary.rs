//! What an analysis says: the numbers behind the console page, `summary.json` and the report.
//!
//! Times are nanoseconds, shares lie in 0..=1.

use crate::model::{Layer, Unread};
pub use quaver_arrivals::distribution::Distribution;
use quaver_arrivals::gapped::SenderType;
use quaver_arrivals::rtp::RtpSummary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the summary's shape, in its `schema` field.
pub const CHASE_SCHEMA: &str = "quaver.chase/1";

/// ΔT of successive packets at one layer (Chasing, section III-A). Pairs with a loss or a reordering between
/// them have no ΔT and are not counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerSummary {
    /// Layer.
    pub layer: Layer,
    /// Packets with a stamp at this layer.
    pub stamped: u64,
    /// ΔT.
    pub delta_t: Distribution,
}

/// Time between two layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageSummary {
    /// Where the stage starts.
    pub from: Layer,
    /// Where it ends.
    pub to: Layer,
    /// Packets that were not late.
    pub on_time: Distribution,
    /// Late packets.
    pub late: Distribution,
    /// Time that late packets spent here beyond the median of packets on time, summed.
    pub excess_ns: i64,
    /// Part of the excess of all stages together.
    pub excess_share: f64,
}

/// Packets by fate. `None` is unknown, not zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Losses {
    /// Sent.
    pub sent: Option<u64>,
    /// Received by the application, duplicates included.
    pub received: u64,
    /// Copies of packets that had been received already.
    pub duplicates: u64,
    /// Received after a packet with a later sequence number (RFC 4737, section 3).
    pub reordered: u64,
    /// Never seen by this host's network stack.
    pub network: Option<u64>,
    /// Dropped in the network device's ring.
    pub nic_ring: Option<u64>,
    /// Dropped by the stack, by reason.
    pub stack: std::collections::BTreeMap<String, u64>,
    /// Dropped at the full socket buffer.
    pub socket_buffer: Option<u64>,
    /// Received by another process, which shares the receiver's socket or its port. Not lost.
    #[serde(default)]
    pub elsewhere: u64,
    /// Received but not recorded by us.
    pub ours: u64,
    /// Missing, and no counter says where.
    pub unaccounted: u64,
}

/// Class of a source, after the paper's conclusion (Chasing, section V), with two of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SourceClass {
    /// Between the wire and the interrupt handler; firmware; the hypervisor.
    Hardware,
    /// From the interrupt handler to the application.
    NetworkStack,
    /// What interrupts packet processing from outside.
    NetworkIndependent,
    /// The sender was late.
    Stream,
    /// The measurement itself.
    Tool,
}

/// What removes a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remedy {
    /// Setting that takes effect at run time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub setting: Option<String>,
    /// Boot option.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub boot: Option<String>,
    /// What the run and its host tell of a remedy that they do not bear out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub known: Option<String>,
}

/// A function in what the samples of a cause told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionShare {
    /// Its name; its file's where it has none.
    pub name: String,
    /// Part of the samples that met it on the stack.
    pub share: f64,
    /// Part of the samples in which it ran itself.
    pub itself: f64,
    /// Samples that met it on the stack.
    pub samples: u64,
}

/// One named source of lateness. Times are disjoint over all causes: their sum with the unexplained time is the
/// late time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseSummary {
    /// Identifier in the catalogue of sources (`rt-throttle`, `dev-irq`, …).
    pub source: String,
    /// What it was here (`irq 41 virtio3-rx`, `thread stress-ng (fifo 50)`, …).
    pub name: String,
    /// The same without what differs from run to run, where it has that: which threads of a process were met, or how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable_name: Option<String>,
    /// Class.
    pub class: SourceClass,
    /// Time inside handlers or threads, their entry and exit, and the catching up after them.
    pub time_ns: i64,
    /// Of that, before the first and after the last trace point of an interruption.
    pub entry_exit_ns: i64,
    /// Of that, the receiver reading the packets that had queued up behind it.
    pub catch_up_ns: i64,
    /// Part of the late time.
    pub share: f64,
    /// Late packets of which this was the leading cause.
    pub packets: u64,
    /// Interruptions.
    pub intervals: u64,
    /// Longest stay in one late window.
    pub worst_ns: i64,
    /// Sequence number of the packet with that.
    pub example_seq: u64,
    /// What removes it.
    pub remedy: Remedy,
    /// The threads of the process that it is, by their time in late windows, where they are more than one; largest
    /// first, at most [`MOST_THREADS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadTime>,
    /// What ran, by samples inside late windows: the leading function first, then those that ran themselves. Empty where
    /// nothing was sampled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionShare>,
    /// Of the time, what is inferred: it lies in late windows without a sample of the cause, or no record can show the cause.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub inferred_ns: i64,
}

impl CauseSummary {
    /// What it is called in any run.
    pub fn stable_name(&self) -> &str {
        self.stable_name.as_deref().unwrap_or(&self.name)
    }

    /// Of the time, what records do not show themselves, nanoseconds: entry and exit and the catching up, which are
    /// learned, and [`Self::inferred_ns`].
    pub fn inferred_in_all_ns(&self) -> i64 {
        let inferred_ns =
            self.inferred_ns.saturating_add(self.entry_exit_ns).saturating_add(self.catch_up_ns);
        inferred_ns.clamp(0, self.time_ns.max(0))
    }
}

fn is_zero(time_ns: &i64) -> bool {
    *time_ns == 0
}

/// Most threads that a cause lists.
pub const MOST_THREADS: usize = 64;

/// Time of the threads of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadTime {
    /// Their name.
    pub name: String,
    /// How many threads have it.
    pub threads: u64,
    /// Time that they held the CPU.
    pub time_ns: i64,
}

/// The late time that no event explains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unexplained {
    /// Time.
    pub time_ns: i64,
    /// Part of the late time.
    pub share: f64,
    /// Late packets of which most is unexplained.
    pub packets: u64,
    /// Longest stay.
    pub worst_ns: i64,
    /// Sequence number of the packet with that.
    pub example_seq: Option<u64>,
    /// Of the time, what the hypervisor may have taken: steal whose place between two looks is not known.
    #[serde(default)]
    pub unplaced_steal_ns: i64,
    /// Of the time, what lies in receive calls of a polling receiver that took much longer than others, or in calls of a program of
    /// others which no sample shows running.
    #[serde(default)]
    pub in_call_ns: i64,
    /// Period on which turns of a polling receiver begin that nothing recorded explains; none where they have none.
    #[serde(default)]
    pub gap_period_ns: Option<i64>,
    /// What it can be on this host, given what was recorded.
    pub note: String,
}

/// How late packets are told, and how many there were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lateness {
    /// A packet is late when it reaches the application this much after its expected instant.
    pub threshold_ns: i64,
    /// Typical time from schedule to application (median of those that nothing held up), part of the expected instant.
    pub typical_path_ns: i64,
    /// Late packets.
    pub packets: u64,
    /// Union of the late windows.
    pub time_ns: i64,
    /// Lateness of all packets.
    pub distribution: Distribution,
}

/// A limit that was given, and whether the stream kept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitResult {
    /// No packet may be late by more, nanoseconds, or be lost; none of the other kind.
    pub late_ns: Option<i64>,
    /// The stream has to keep the limits of this type of sender (SMPTE ST 2110-21:2022, section 7.1).
    pub sender: Option<SenderType>,
    /// Whether it was kept; null where that is not known.
    pub kept: Option<bool>,
}

/// Added time per packet of our own probes, from alternating blocks with probes on and off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeCost {
    /// Mean added time per packet.
    pub per_packet_ns: f64,
    /// Ends of its 95 % interval.
    pub interval_ns: (f64, f64),
    /// Blocks of each kind.
    pub blocks: u32,
}

/// What a source at another host says of its stream, and what arrived of it: all of the stream, so also what was
/// sent before and after the measured part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FarSource {
    /// The server that sent it, `address:port` of its control connection.
    pub server: String,
    /// Packets that its kernel took.
    pub sent: u64,
    /// Send calls that failed; their numbers are used up.
    pub send_failed: u64,
    /// Refusals by this host; the packet at hand was then sent again.
    pub refused: u64,
    /// Slots that it skipped since it was late.
    pub slots_missed: u64,
    /// Packets that it sent later than half a period after their deadline.
    pub sent_late: u64,
    /// Median of sending time less deadline.
    pub lateness_p50_ns: u64,
    /// 99th percentile of the same.
    pub lateness_p99_ns: u64,
    /// The largest.
    pub lateness_max_ns: u64,
    /// Slope of lateness over deadline by least squares, parts per million; none for fewer than two packets.
    pub drift_ppm: Option<f64>,
    /// First to last deadline used.
    pub lasted_ns: u64,
    /// Of the packets sent, those that the sink received, each counted once.
    pub arrived: u64,
    /// The rest: sent = arrived + lost.
    pub lost: u64,
    /// Where it sent to at last, if this host's packets came to it from another port than at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<FarMove>,
}

/// A source at another host followed this host to another port. Something on the way gave it one, as a NAT does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FarMove {
    /// How often it followed.
    pub times: u32,
    /// Where it sent to at last, `address:port`.
    pub to: String,
}

/// A receiver that does not keep up: packets wait in its queue all the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Backlog {
    /// Packets a second that came to its sockets, dropped ones included.
    pub came_per_s: f64,
    /// Packets a second that it took.
    pub taken_per_s: f64,
    /// Packets in its queues when the measured phase began.
    pub packets_at_start: u64,
    /// Packets in them when it ended.
    pub packets_at_end: u64,
    /// Memory that they took at the start, bytes, by the kernel's count.
    pub bytes_at_start: u64,
    /// Memory that they took at the end.
    pub bytes_at_end: u64,
    /// Packets dropped at a full queue meanwhile.
    pub dropped: u64,
}

impl Backlog {
    /// How long a packet that comes now waits until it is taken, nanoseconds; none where none is taken.
    pub fn wait_ns(&self) -> Option<f64> {
        (self.taken_per_s > 0.0).then(|| self.packets_at_end as f64 / self.taken_per_s * 1e9)
    }
}

/// How the period was learned from a stream whose schedule is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaceSummary {
    /// Whether the packets keep to a period. If not, only what this host adds to a packet's way is lateness.
    pub steady: bool,
    /// Half of the 95 % interval of the period.
    pub uncertainty_ns: f64,
    /// Slots without a packet: skipped by the sender, or lost where packets have no numbers. 0 where there is no period.
    pub skipped_slots: u64,
    /// Part of the packets that arrived when due.
    pub on_schedule_share: f64,
    /// Where there is no period: the most frequent ΔT of packets that follow each other (the middle of the narrowest quarter).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual_delta_ns: Option<f64>,
    /// A packet that arrives within this much of its due instant is on time; 0 where there is no period.
    pub instant_uncertainty_ns: i64,
    /// Shorter periods that the sender kept for a while, the one of most packets first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faster: Vec<FasterPace>,
}

/// A period that a sender kept for a while, shorter than that of its stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FasterPace {
    /// Time from packet to packet.
    pub period_ns: f64,
    /// Packets that were sent so.
    pub packets: u64,
}

/// All that `quaver chase` says of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChaseSummary {
    /// [`CHASE_SCHEMA`].
    pub schema: String,
    /// Period of the stream; mean time between packets where it keeps to none ([`PaceSummary::steady`]).
    pub period_ns: f64,
    /// Whether the period was learned from the stream.
    pub period_learned: bool,
    /// How it was learned; none where the schedule is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<PaceSummary>,
    /// First to last application stamp; from the slot of the first packet on, where that was late.
    pub duration_ns: i64,
    /// Fates.
    pub losses: Losses,
    /// ΔT by layer, in the packet's order.
    pub layers: Vec<LayerSummary>,
    /// Stages between the stamped layers, in the packet's order.
    pub stages: Vec<StageSummary>,
    /// Late packets.
    pub lateness: Lateness,
    /// Limits that were given, and whether the stream kept them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitResult>,
    /// Ranked by time, largest first.
    pub causes: Vec<CauseSummary>,
    /// The rest.
    pub unexplained: Unexplained,
    /// Own cost, where it was measured.
    pub probe_cost: Option<ProbeCost>,
    /// Packets that nobody had read when the run ended. The first of them is one of the late packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<Unread>,
    /// A backlog that persisted through the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Backlog>,
    /// The source at another host that was started for this run, as far as it could still be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_source: Option<Box<FarSource>>,
    /// Which tier of tracing ran (`bpf`, `tracefs`, `user`).
    pub tier: String,
    /// Why not a better one.
    pub tier_reason: Option<String>,
    /// Classes of causes that could not be seen.
    pub blind: Vec<String>,
    /// Sentences with a remedy each.
    pub warnings: Vec<String>,
    /// What RTP headers tell, where the packets are RTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtp: Option<Box<RtpSummary>>,
    /// False where the run was cut short.
    pub complete: bool,
}

/// Version of the noise summary's shape, in its `schema` field.
pub const NOISE_SCHEMA: &str = "quaver.noise/1";

/// Entries of one class of events on one CPU, and their time net of what interrupted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassCount {
    /// Entries.
    pub count: u64,
    /// Net time.
    pub net_ns: u64,
    /// Longest net time of one.
    pub max_ns: u64,
}

/// One CPU's noise. Counting follows the kernel's osnoise tracer: every entry while the loop ran counts, and
/// nesting is subtracted (NMI from interrupt, interrupt from softirq, softirq from thread).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoiseCpu {
    /// CPU.
    pub cpu: u16,
    /// How long the loop ran.
    pub runtime_ns: i64,
    /// Turns of the loop.
    pub turns: u64,
    /// Shortest turn (dummy program: least lateness), where it is known.
    pub shortest_turn_ns: Option<i64>,
    /// Gaps above the threshold.
    pub gaps: u64,
    /// Union of their time.
    pub noise_ns: i64,
    /// Part of the time that the loop had the CPU: 1 - noise / runtime.
    pub available_share: f64,
    /// Length of the gaps.
    pub gap: Distribution,
    /// Gaps in which no event was recorded: hardware or firmware, in a virtual machine hypervisor or hardware.
    pub hardware: ClassCount,
    /// Non-maskable interrupts.
    pub nmi: ClassCount,
    /// Interrupts, of devices and system vectors.
    pub irq: ClassCount,
    /// Softirqs.
    pub softirq: ClassCount,
    /// Other threads than the loop's, idle included.
    pub thread: ClassCount,
}

/// What the paper saw of its dummy program ([`crate::paced::PAPER`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PaperDummy {
    /// Distance of deadlines.
    pub period_ns: u64,
    /// Timestamps taken.
    pub timestamps: u64,
    /// Spikes of ΔT among them.
    pub spikes: u64,
    /// About how high they were.
    pub spike_ns: i64,
}

/// Stamps of the dummy program (Chasing, section IV-B): one at each deadline, and one ΔT between two that follow each
/// other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DummyProgram {
    /// Stamps taken, on all CPUs.
    pub timestamps: u64,
    /// Of these, stamps later than their deadline by the threshold or more.
    pub late: u64,
    /// ΔT of twice the period or more: at least one deadline came and went within it.
    pub spikes: u64,
    /// The same among a million ΔT.
    pub spikes_per_million: f64,
    /// ΔT.
    pub delta_t: Distribution,
    /// Stamp minus deadline.
    pub lateness: Distribution,
    /// What the paper saw, for comparison.
    pub paper: PaperDummy,
}

/// All that `quaver noise` says of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoiseSummary {
    /// [`NOISE_SCHEMA`].
    pub schema: String,
    /// Period of the dummy program; none for the tight loop.
    pub period_ns: Option<f64>,
    /// Gaps shorter than this were not recorded.
    pub threshold_ns: i64,
    /// One entry a CPU, by number.
    pub cpus: Vec<NoiseCpu>,
    /// Ranked by time over all CPUs, largest first. `packets` counts gaps that the cause leads, `example_seq` is
    /// a turn of the loop.
    pub causes: Vec<CauseSummary>,
    /// The rest.
    pub unexplained: Unexplained,
    /// Union of the gaps of each CPU, summed over the CPUs.
    pub noise_ns: i64,
    /// The dummy program's stamps; none for the tight loop.
    pub dummy: Option<DummyProgram>,
    /// Which tier of tracing ran (`bpf`, `tracefs`, `user`).
    pub tier: String,
    /// Why not a better one.
    pub tier_reason: Option<String>,
    /// Classes of causes that could not be seen.
    pub blind: Vec<String>,
    /// Sentences with a remedy each.
    pub warnings: Vec<String>,
    /// False where the run was cut short.
    pub complete: bool,
}
