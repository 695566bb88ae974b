//! What must not become worse, and by how much a remedy makes it worse.

use quaver_analysis::intervals::mean;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Figures of one block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockFigures {
    /// What is to become smaller: a share, or nanoseconds.
    pub objective: f64,
    /// Packets that did not arrive, as a share of those expected.
    pub lost_share: f64,
    /// Packets received, or runs of a program, a second.
    pub received_per_s: f64,
    /// What the host bore meanwhile.
    #[serde(flatten)]
    pub burden: Burden,
}

/// What the host and others on it bore during a block. None: not readable there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Burden {
    /// Time that all CPUs of the host were busy, over the block's time. Of a program, CPU time of a run over the time of the first
    /// one: CPUs that it is given make no run dearer.
    pub busy_cpus: f64,
    /// Threads of other receivers that waited for a CPU, in the mean. None for a block below 100 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_waiting: Option<f64>,
    /// The same of all other programs, receivers included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs_waiting: Option<f64>,
    /// Programs whose threads waited for a CPU for 0.5 % of the block or more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Waits>,
    /// Packets that UDP sockets of other programs dropped, a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_dropped_per_s: Option<f64>,
    /// Power of all packages of CPUs, watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// Hottest sensor of a CPU at the block's end, degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hottest_c: Option<f64>,
}

/// How long one program's threads waited for a CPU during a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waits {
    /// Its name and number.
    pub program: String,
    /// Whether it has a UDP or TCP socket.
    pub receives: bool,
    /// Its threads that waited, in the mean.
    pub waiting: f64,
    /// CPUs that it used, in the mean.
    pub used: f64,
}

impl Waits {
    /// Wants below this, in CPUs, count as this: what a program that hardly needs a CPU waits for costs it little throughput.
    const LEAST_WANTED: f64 = 0.25;

    /// Waits over the CPU time that it wanted: the part of its throughput that it lost.
    fn lost(&self) -> f64 {
        self.waiting / (self.waiting + self.used).max(Self::LEAST_WANTED)
    }
}

/// What must not become worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Guard {
    /// Packets that did not arrive.
    Losses,
    /// Packets received a second.
    Throughput,
    /// Time that the host's CPUs were busy.
    CpuTime,
    /// Waits of another receiver for a CPU.
    Others,
    /// Packets that other receivers dropped.
    OthersDropped,
    /// Throughput of another program that receives nothing: CPU time that it wanted and waited for.
    Programs,
    /// Power of the CPUs.
    Power,
    /// Temperature of the CPUs.
    Heat,
}

impl Guard {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Losses,
        Self::Throughput,
        Self::CpuTime,
        Self::Others,
        Self::OthersDropped,
        Self::Programs,
        Self::Power,
        Self::Heat,
    ];

    /// Its name and unit.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Losses => "packets lost",
            Self::Throughput => "packets or runs a second",
            Self::CpuTime => "busy CPUs",
            Self::Others => "threads of other receivers that wait for a CPU",
            Self::OthersDropped => "packets that other receivers drop, a second",
            Self::Programs => "threads of all other programs that wait for a CPU",
            Self::Power => "power of the CPUs, W",
            Self::Heat => "hottest CPU, °C",
        }
    }

    /// The most that is accepted.
    pub const fn limit(self) -> &'static str {
        match self {
            Self::Losses => "0.1 % of all packets more",
            Self::Throughput => "1 % less",
            Self::CpuTime => "0.25 more",
            Self::Others => "0.01 more of each receiver, or 2 % where that is more",
            Self::OthersDropped => "1 more, or a quarter where that is more",
            Self::Programs => "a tenth of each program's CPU time",
            Self::Power => "a quarter more",
            Self::Heat => "5 more",
        }
    }

    /// What a block says of it; none where that could not be read.
    pub const fn value(self, block: &BlockFigures) -> Option<f64> {
        match self {
            Self::Losses => Some(block.lost_share),
            Self::Throughput => Some(block.received_per_s),
            Self::CpuTime => Some(block.burden.busy_cpus),
            Self::Others => block.burden.others_waiting,
            Self::OthersDropped => block.burden.others_dropped_per_s,
            Self::Programs => block.burden.programs_waiting,
            Self::Power => block.burden.power_w,
            Self::Heat => block.burden.hottest_c,
        }
    }

    /// Those of whom it speaks: each program by itself, since one that gains is no comfort to another. None of the host as a whole.
    fn subjects<'a>(self, blocks: impl IntoIterator<Item = &'a BlockFigures>) -> Vec<Option<&'a str>> {
        let receives = match self {
            Self::Others => true,
            Self::Programs => false,
            _ => return vec![None],
        };
        let waits = blocks.into_iter().flat_map(|block| &block.burden.waits);
        let names: BTreeSet<&str> =
            waits.filter(|one| one.receives == receives).map(|one| one.program.as_str()).collect();
        names.into_iter().map(Some).collect()
    }

    fn value_of(self, subject: Option<&str>, block: &BlockFigures) -> Option<f64> {
        let Some(program) = subject else { return self.value(block) };
        let waits = block.burden.waits.iter().find(|one| one.program == program);
        let of = |one: &Waits| if self == Self::Programs { one.lost() } else { one.waiting };
        // What is not listed waited for less than is listed.
        self.value(block).map(|_| waits.map_or(0.0, of))
    }

    /// How much worse `with` is than `without`: 1 is the most that is accepted. 0 where it is not known.
    fn excess(self, subject: Option<&str>, without: &BlockFigures, with: &BlockFigures) -> f64 {
        let values = self.value_of(subject, with).zip(self.value_of(subject, without));
        let Some((with, without)) = values else { return 0.0 };
        let (rise, accepted) = match self {
            Self::Losses => (with - without, 0.001),
            Self::Throughput => (without - with, 0.01 * without.max(1.0)),
            Self::CpuTime => (with - without, 0.25),
            Self::Others => (with - without, (0.02 * without).max(0.01)),
            // Those that drop anyway drop more where more is sent to them.
            Self::OthersDropped => (with - without, (0.25 * without).max(1.0)),
            Self::Programs => (with - without, (0.1 * (1.0 - without)).max(0.03)),
            Self::Power => (with - without, 0.25 * without.max(1.0)),
            Self::Heat => (with - without, 5.0),
        };
        rise / accepted
    }

    /// Times of what is accepted by which one block is grossly worse.
    const fn gross(self) -> f64 {
        match self {
            Self::CpuTime | Self::Programs | Self::Power => 8.0,
            Self::Heat => 4.0,
            Self::Losses | Self::Throughput | Self::Others => 50.0,
            // A receiver drops packets in bursts, whatever others do: rounds have to show whose doing it is.
            Self::OthersDropped => f64::INFINITY,
        }
    }
}

/// A guard that a remedy harms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Harm {
    /// Which.
    pub guard: Guard,
    /// Whom it harms, where that is one program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Mean without the remedy.
    pub without: f64,
    /// Mean with it.
    pub with: f64,
}

impl Harm {
    fn of<'a>(
        guard: Guard,
        subject: Option<&str>,
        without: impl Iterator<Item = &'a BlockFigures>,
        with: impl Iterator<Item = &'a BlockFigures>,
    ) -> Self {
        let of = |block: &BlockFigures| guard.value_of(subject, block);
        let (without, with): (Vec<f64>, Vec<f64>) =
            (without.filter_map(of).collect(), with.filter_map(of).collect());
        Self { guard, program: subject.map(str::to_owned), without: mean(&without), with: mean(&with) }
    }

    /// In words with its figures, after "it harmed".
    pub fn words(&self) -> String {
        let (without, with) = (self.without, self.with);
        let (percent_without, percent_with) = (100.0 * without, 100.0 * with);
        let program = self.program.as_deref().unwrap_or("others");
        let waits =
            format!("{with:.3} threads of {program} waited for a CPU in the mean, instead of {without:.3}");
        match self.guard {
            Guard::Losses => {
                format!(
                    "delivery: {percent_with:.2} % of packets were lost, instead of {percent_without:.2} %"
                )
            }
            Guard::Throughput => {
                format!("throughput: {with:.1} packets or runs a second, instead of {without:.1}")
            }
            Guard::CpuTime => format!("CPU time: {with:.2} CPUs were busy, instead of {without:.2}"),
            Guard::Others => format!("another receiver: {waits}"),
            Guard::OthersDropped => {
                format!("other receivers: they dropped {with:.1} packets a second, instead of {without:.1}")
            }
            Guard::Programs => format!(
                "another program: {program} waited for {percent_with:.1} % of the CPU time that it wanted, instead of \
                 {percent_without:.1} %"
            ),
            Guard::Power => format!("power: the CPUs took {with:.1} W, instead of {without:.1} W"),
            Guard::Heat => format!("temperature: the CPUs had {with:.1} °C, instead of {without:.1} °C"),
        }
    }
}

/// The guard that is harmed in these pairs of blocks, without and with a remedy: worse by more than is accepted in the mean, and
/// not by chance. Guards and programs are not corrected for their number: a needless refusal costs less than harm.
pub(crate) fn harm(pairs: &[(&BlockFigures, &BlockFigures)], is_certain: fn(&[f64]) -> bool) -> Option<Harm> {
    let (without, with) = (|| pairs.iter().map(|pair| pair.0), || pairs.iter().map(|pair| pair.1));
    Guard::ALL.into_iter().find_map(|guard| {
        let mut worst: Option<(f64, Option<&str>)> = None;
        for subject in guard.subjects(without().chain(with())) {
            let excess: Vec<f64> =
                pairs.iter().map(|(without, with)| guard.excess(subject, without, with)).collect();
            let most = worst.map_or(1.0, |(most, _)| most);
            if mean(&excess) > most && is_certain(&excess) {
                worst = Some((mean(&excess), subject));
            }
        }
        worst.map(|(_, subject)| Harm::of(guard, subject, without(), with()))
    })
}

/// The guard that one block breaks grossly, of which a second one ends its remedy's trial: worse than every bare block so far by
/// fifty times what is accepted (of waits so much as they were), or by two whole CPUs, 0.8 threads of another program, three times
/// the power, 20 degrees.
pub fn gross_harm(bare: &[BlockFigures], with: &BlockFigures) -> Option<Harm> {
    let beyond = |guard: Guard, subject: Option<&str>| {
        !bare.is_empty() && bare.iter().all(|without| guard.excess(subject, without, with) > guard.gross())
    };
    Guard::ALL.into_iter().find_map(|guard| {
        let broken = guard.subjects([with]).into_iter().find(|subject| beyond(guard, *subject))?;
        Some(Harm::of(guard, broken, bare.iter(), [with].into_iter()))
    })
}
