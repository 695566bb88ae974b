//! What a comparison recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where stamps were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Context {
    /// By our receiver, after its receive call.
    User,
    /// In the kernel, between two tracepoints.
    Kernel,
    /// In the kernel, by our module with interrupts off.
    Module,
}

impl Context {
    /// As [`CompareTable::context`] has it.
    pub(super) const fn number(self) -> u16 {
        match self {
            Self::User => 0,
            Self::Kernel => 1,
            Self::Module => 2,
        }
    }
}

/// Packets between checkpoints, in the order of recording: a row a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompareTable {
    /// Index of the pattern ([`CompareFacts::patterns`]).
    pub pattern: Vec<u16>,
    /// 0 in user space, 1 in the kernel, 2 there by our module.
    pub context: Vec<u16>,
    /// Index of the arm, of the pattern's arms in that context.
    pub arm: Vec<u16>,
    /// Block, from 0 in each pattern and context.
    pub block: Vec<u32>,
    /// Place in the block, from 0.
    pub position: Vec<u32>,
    /// Number of the packet in its stream; in the kernel, the place in the recording.
    pub seq: Vec<u64>,
    /// CPU, in the kernel; in user space that of the receiver.
    pub cpu: Vec<u16>,
    /// Raw cycles of the first checkpoint.
    pub before_cycles: Vec<u64>,
    /// Raw cycles between the checkpoints.
    pub between_cycles: Vec<u64>,
    /// The stamp, CLOCK_REALTIME nanoseconds; 0 is missing (checkpoints alone, and between tracepoints).
    pub stamp_ns: Vec<i64>,
    /// Its bound, nanoseconds.
    pub bound_ns: Vec<u32>,
    /// Interrupts were off at the first checkpoint (known in the kernel only).
    pub interrupts_off: Vec<bool>,
}

impl CompareTable {
    /// Rows.
    pub fn len(&self) -> usize {
        self.pattern.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pattern.is_empty()
    }
}

/// Facts that the analysis needs beside the table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CompareFacts {
    /// Rate of the counter, Hz.
    pub cycles_per_second: f64,
    /// Seed of the order of blocks.
    pub seed: u64,
    /// CPUs, in words: softirq and source, capture, converters.
    pub cores: String,
    /// The host whose server sent the streams; none where they were made here.
    pub from: Option<String>,
    /// Patterns, in the order of running.
    pub patterns: Vec<PatternFacts>,
    /// Points of the loss sweeps.
    pub loss: Vec<LossPoint>,
    /// Whole captures of a stream: our own and others'.
    pub peers: Vec<PeerPoint>,
    /// What this machine or kernel did not let us do, in sentences.
    pub cannot: Vec<String>,
    /// Why an arm took no part, by its name.
    pub absent: BTreeMap<String, String>,
}

/// A traffic pattern and how it was run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PatternFacts {
    /// `1`, `2` (the paper's), `100kpps`.
    pub name: String,
    /// Bytes of each packet as the paper counts: the Ethernet frame without preamble and check sequence.
    pub frame_bytes: u32,
    /// Time between packets, nanoseconds.
    pub period_ns: f64,
    /// The paper's gap between two packets in bytes at 1 Gbit/s, where it gives one.
    pub ifg_bytes: Option<u64>,
    /// Packets that the source sent in user space, for the kernel and for our module together, and slots that it missed.
    pub sent: u64,
    /// Slots that the source missed.
    pub missed: u64,
    /// Packets dropped because the receiver's buffer was full; none where the kernel does not tell.
    pub socket_drops: Option<u64>,
    /// Packets at the start of each block that are left out: the code of another arm ran before.
    pub settle: u32,
    /// Arms in user space.
    pub user: Vec<UserArmFacts>,
    /// Names of the arms in the kernel; empty where it could not be looked into.
    pub kernel: Vec<String>,
    /// Blocks in user space, by start of the program. A round has each arm twice, for the comparison with itself.
    pub user_blocks: Vec<u32>,
    /// Blocks in the kernel, by start.
    pub kernel_blocks: Vec<u32>,
    /// Arms of our module; empty where it could not be read.
    pub module_arms: Vec<UserArmFacts>,
    /// Blocks of our module, by start.
    pub module_blocks: Vec<u32>,
}

/// An arm whose stamps may be converted later: in user space, or of our module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UserArmFacts {
    /// `checkpoints`, or the name of a pipeline.
    pub name: String,
    /// Stamps taken.
    pub stamps: u64,
    /// What resolving them took on the receiving thread after each block, nanoseconds a stamp.
    pub resolve_ns: f64,
    /// What converter threads spent on them on other CPUs, nanoseconds a stamp, without waits for the next stamp.
    pub converter_ns: f64,
    /// Both together, by start of the program.
    pub later_ns: Vec<f64>,
    /// Stamps that found a ring full: the resolver converts them at once, and those of the module are missing.
    pub ring_full: u64,
}

impl CompareFacts {
    /// The name of an arm by the numbers that [`CompareTable`] has: `2.user.raw`.
    pub fn arm_name(&self, (pattern, context, arm): (u16, u16, u16)) -> Option<String> {
        let pattern = self.patterns.get(usize::from(pattern))?;
        let (context, arm) = match context {
            0 => ("user", &pattern.user.get(usize::from(arm))?.name),
            1 => ("kernel", pattern.kernel.get(usize::from(arm))?),
            _ => ("module", &pattern.module_arms.get(usize::from(arm))?.name),
        };
        Some(format!("{}.{context}.{arm}", pattern.name))
    }

    /// Takes over what another start of the program measured, whose patterns are a prefix of these or these of it.
    /// The blocks in `its_table` are numbered behind those of `table`.
    pub fn join(&mut self, table: &mut CompareTable, its: Self, its_table: CompareTable) {
        let before: Vec<[u32; 3]> = self.patterns.iter().map(PatternFacts::blocks).collect();
        self.cycles_per_second = its.cycles_per_second;
        self.absent.extend(its.absent);
        self.cannot
            .extend(its.cannot.into_iter().filter(|said| !self.cannot.contains(said)).collect::<Vec<_>>());
        for (at, pattern) in its.patterns.into_iter().enumerate() {
            match self.patterns.get_mut(at) {
                Some(known) => known.join(pattern),
                None => self.patterns.push(pattern),
            }
        }
        let blocks = its_table.block.iter().zip(its_table.pattern.iter().zip(&its_table.context));
        table.block.extend(blocks.map(|(block, (pattern, context))| {
            block + before.get(usize::from(*pattern)).map_or(0, |all| all[usize::from(*context).min(2)])
        }));
        table.pattern.extend(its_table.pattern);
        table.context.extend(its_table.context);
        table.arm.extend(its_table.arm);
        table.position.extend(its_table.position);
        table.seq.extend(its_table.seq);
        table.cpu.extend(its_table.cpu);
        table.before_cycles.extend(its_table.before_cycles);
        table.between_cycles.extend(its_table.between_cycles);
        table.stamp_ns.extend(its_table.stamp_ns);
        table.bound_ns.extend(its_table.bound_ns);
        table.interrupts_off.extend(its_table.interrupts_off);
    }
}

impl PatternFacts {
    /// Blocks of all starts: in user space, in the kernel, of our module.
    fn blocks(&self) -> [u32; 3] {
        [&self.user_blocks, &self.kernel_blocks, &self.module_blocks].map(|blocks| blocks.iter().sum())
    }

    /// Counts another stream of the pattern.
    pub fn count_sent(&mut self, sent: u64, missed: u64) {
        self.sent += sent;
        self.missed += missed;
    }

    fn join(&mut self, its: Self) {
        self.count_sent(its.sent, its.missed);
        self.socket_drops = self.socket_drops.zip(its.socket_drops).map(|(a, b)| a + b);
        self.user_blocks.extend(its.user_blocks);
        self.kernel_blocks.extend(its.kernel_blocks);
        if self.kernel.is_empty() {
            self.kernel = its.kernel;
        }
        self.module_blocks.extend(its.module_blocks);
        if self.module_arms.is_empty() {
            self.module_arms = its.module_arms;
        } else {
            join_arms(&mut self.module_arms, its.module_arms);
        }
        join_arms(&mut self.user, its.user);
    }
}

fn join_arms(arms: &mut [UserArmFacts], others: Vec<UserArmFacts>) {
    for (arm, other) in arms.iter_mut().zip(others) {
        let (ours, theirs) = (arm.stamps as f64, other.stamps as f64);
        let joined = |a: f64, b: f64| (a * ours + b * theirs) / (ours + theirs).max(1.0);
        arm.resolve_ns = joined(arm.resolve_ns, other.resolve_ns);
        arm.converter_ns = joined(arm.converter_ns, other.converter_ns);
        arm.later_ns.extend(other.later_ns);
        arm.stamps += other.stamps;
        arm.ring_full += other.ring_full;
    }
}

/// Which softirq placement a loss point ran under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Softirq and receiver on different CPUs.
    Apart,
    /// Both on one CPU: overload.
    Together,
}

/// What a loss sweep varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sweep {
    /// Size of the packets (figure 6a).
    Size,
    /// Gap between them (figure 6b).
    Gap,
}

/// One burst of packets of one size and gap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LossPoint {
    /// What the sweep varies.
    pub sweep: Sweep,
    /// Where softirq and receiver ran.
    pub placement: Placement,
    /// Pipeline.
    pub arm: String,
    /// Repetition.
    pub round: u32,
    /// Bytes of each packet, as in [`PatternFacts::frame_bytes`].
    pub frame_bytes: u32,
    /// Gap asked for, bytes at 1 Gbit/s; the source may not reach it.
    pub gap_bytes: u64,
    /// Time between packets that the source reached, nanoseconds.
    pub achieved_ns: f64,
    /// Packets that the kernel took from the source.
    pub sent: u64,
    /// Packets that the receiver got.
    pub received: u64,
    /// Dropped because the receiver's buffer was full; none where the kernel does not tell.
    pub socket_drops: Option<u64>,
    /// Dropped before: the backlog of a CPU was full (`/proc/net/softnet_stat`).
    pub backlog_drops: Option<u64>,
}

/// One stream that a program captured to a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerPoint {
    /// Program.
    pub program: String,
    /// Where softirq and capture ran.
    pub placement: Placement,
    /// Repetition.
    pub round: u32,
    /// Bytes of each packet, as in [`PatternFacts::frame_bytes`].
    pub frame_bytes: u32,
    /// Packets that the kernel took from the source.
    pub sent: u64,
    /// Packets that the program says it captured.
    pub captured: u64,
    /// Packets that it says were dropped.
    pub dropped: u64,
    /// CPU time from its start until it captured, nanoseconds.
    pub startup_cpu_ns: u64,
    /// Packets of the steady part: sent after a tenth of the stream.
    pub steady_sent: u64,
    /// CPU time of the steady part, nanoseconds.
    pub steady_cpu_ns: u64,
}
