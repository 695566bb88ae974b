//! What a comparison does, from its options.

use super::cores::Cpus;
use crate::args::CaptureArgs;
use crate::args::compare::WantedPattern;
use crate::capture::cores::{check_online, online_cpus};
use crate::pipeline::PipelineKind;
use anyhow::Context;
use quaver_capture_analysis::compare::CompareFacts;
use quaver_clock::{Counter, nominal_scale, realtime_ns};
use quaver_instrument::host_state::allowed_cpus;
use quaver_path_record::StreamShape;
use quaver_probe::profile::{Profile, ProfileName};
use quaver_probe::source::Pace;
use serde_json::{Value, json};
use std::time::Duration;

/// Packets at the start of each block that are left out of the results.
pub(super) const SETTLE: u32 = 4;
/// Bytes of an Ethernet frame that are not UDP payload, without preamble and check sequence.
pub(super) const FRAME_OVERHEAD: u32 = 42;
/// The rate that the paper's gaps are counted at: 8 ns a byte.
pub(super) const OCTET_NS: u64 = 8;

/// A traffic pattern.
pub(super) struct Pattern {
    pub(super) name: &'static str,
    pub(super) shape: StreamShape,
    pub(super) profile: Profile,
    pub(super) ifg_bytes: Option<u64>,
    pub(super) pace: Pace,
    /// Rounds of a start; each has two blocks of every arm.
    pub(super) rounds: u32,
    /// Packets of a block, with those that settle.
    pub(super) per_block: u32,
    /// Packets of a block in the kernel.
    pub(super) kernel_block: u64,
}

impl Pattern {
    pub(super) fn period_ns(&self) -> f64 {
        let (numerator, denominator) = self.profile.schedule().mean_period_ns();
        numerator as f64 / denominator as f64
    }

    /// Time that so many packets take.
    pub(super) fn lasting(&self, packets: u64) -> Duration {
        Duration::from_nanos((packets as f64 * self.period_ns()) as u64)
    }

    pub(super) fn frame_bytes(&self) -> u32 {
        self.profile.payload_bytes() as u32 + FRAME_OVERHEAD
    }
}

/// The loss sweeps.
pub(super) struct LossPlan {
    pub(super) packets: u64,
    pub(super) rounds: u32,
    pub(super) sizes: Vec<u32>,
    pub(super) gaps: Vec<u64>,
}

/// Everything.
pub(super) struct Plan {
    pub(super) patterns: Vec<Pattern>,
    pub(super) loss: Option<LossPlan>,
    pub(super) kernel: bool,
    pub(super) cpus: Cpus,
    pub(super) counter: Counter,
    pub(super) seed: u64,
    /// Starts of the program.
    pub(super) starts: u32,
    pub(super) cannot: Vec<String>,
    pub(super) quick: bool,
    /// The host that sends, in words.
    pub(super) from: Option<String>,
}

/// What is compared in user space; none is the checkpoints alone. Each takes part twice in a round: a comparison that finds a
/// difference between equals is worth nothing.
pub(super) fn arms() -> Vec<(String, Option<PipelineKind>)> {
    let named = |kind: PipelineKind| (kind.to_string(), Some(kind));
    vec![
        ("checkpoints".to_owned(), None),
        named(PipelineKind::InlineClock),
        named(PipelineKind::InlineCycles),
        named(PipelineKind::Threaded { converters: 1 }),
        named(PipelineKind::Threaded { converters: 2 }),
        named(PipelineKind::Batch),
    ]
}

impl Plan {
    pub(super) fn of(args: &CaptureArgs) -> anyhow::Result<Self> {
        let options = &args.compare;
        let allowed = allowed_cpus().context("reading the CPUs that this process may use")?;
        let cores = args.cores.clone().unwrap_or_default();
        let far = options.from.is_some();
        if let Some(softirq) = cores.softirq.filter(|_| far) {
            check_online(softirq, &online_cpus())?;
        }
        let cpus = Cpus::choose(&allowed, &cores, far)?;
        let wanted = |pattern| [pattern, WantedPattern::All].contains(&options.pattern);
        let pattern = |which, defaults: (u32, u32), build: fn(u32, u32) -> Pattern| {
            let quarter = if options.quick { 4 } else { 1 };
            let rounds = options.rounds.unwrap_or(defaults.1 / quarter.min(2)).div_ceil(options.starts);
            let packets = options.packets.unwrap_or(defaults.0 / quarter);
            wanted(which).then(|| build(rounds, packets.div_ceil(2 * rounds * options.starts) + SETTLE))
        };
        let patterns = [
            pattern(WantedPattern::One, (400, 10), first),
            pattern(WantedPattern::Two, (2_000, 20), second),
            pattern(WantedPattern::Fast, (50_000, 20), fast),
        ];
        let mut cannot = vec![
            "Interrupts were not disabled around stamps, but for those of the module quaver_stamp: a stock kernel has no switch for it.".to_owned(),
        ];
        cannot.extend(cpus.shared());
        Ok(Self {
            patterns: patterns.into_iter().flatten().collect(),
            loss: (!options.no_loss).then(|| loss_plan(options.quick)),
            kernel: !options.no_kernel,
            cpus,
            counter: super::counter(),
            seed: options.seed.unwrap_or(realtime_ns() as u64),
            starts: options.starts,
            cannot,
            quick: options.quick,
            from: options.from.as_ref().map(|far| format!("{}, port {}", far.host, far.port)),
        })
    }

    /// Options as they were resolved.
    pub(super) fn asked(&self) -> Value {
        let patterns = self.patterns.iter().map(|pattern| {
            json!({"name": pattern.name, "rounds": pattern.rounds, "packets_per_block": pattern.per_block})
        });
        json!({
            "command": std::env::args().collect::<Vec<_>>().join(" "),
            "stream": self.stream_words(),
            "patterns": patterns.collect::<Vec<_>>(),
            "loss": self.loss.is_some(),
            "kernel": self.kernel,
            "quick": self.quick,
            "seed": self.seed,
            "starts": self.starts,
            "cores": self.cpus.words(),
        })
    }

    /// Facts before anything is measured.
    pub(super) fn facts(&self) -> CompareFacts {
        // A second is long enough for the rate to be good to a few parts in a million.
        let hz = nominal_scale(self.counter).cycles(1_000_000_000) as f64;
        CompareFacts {
            cycles_per_second: hz,
            seed: self.seed,
            cores: self.cpus.words(),
            from: self.from.clone(),
            cannot: self.cannot.clone(),
            ..CompareFacts::default()
        }
    }

    fn stream_words(&self) -> String {
        match &self.from {
            Some(far) => format!("from {far}"),
            None => "local, between two network namespaces".to_owned(),
        }
    }

    /// About how long a start takes.
    pub(super) fn length(&self) -> Duration {
        let arms = arms().len() as f64;
        let user: f64 = self
            .patterns
            .iter()
            .map(|one| f64::from(one.rounds * 2) * f64::from(one.per_block) * arms * one.period_ns())
            .sum();
        Duration::from_nanos(user as u64)
    }
}

/// The paper's first pattern: 140 bytes each 20 ms. Its gap of 2,499,860 bytes and the packet make 20 ms at 1 Gbit/s.
fn first(rounds: u32, per_block: u32) -> Pattern {
    Pattern {
        name: "1",
        shape: StreamShape::Named(ProfileName::G729),
        profile: Profile::named(ProfileName::G729),
        ifg_bytes: Some(2_499_860),
        pace: Pace::Hybrid,
        rounds,
        per_block,
        kernel_block: 10,
    }
}

/// The paper's second: 1368 bytes and a gap of 169,631, so a packet each 1.367992 ms.
fn second(rounds: u32, per_block: u32) -> Pattern {
    Pattern {
        name: "2",
        shape: StreamShape::Named(ProfileName::Hd1368),
        profile: Profile::named(ProfileName::Hd1368),
        ifg_bytes: Some(169_631),
        pace: Pace::Hybrid,
        rounds,
        per_block,
        kernel_block: 50,
    }
}

/// 100,000 packets a second of the first one's size.
fn fast(rounds: u32, per_block: u32) -> Pattern {
    let shape = StreamShape::Plain { payload_bytes: 140 - FRAME_OVERHEAD, period: (10_000, 1) };
    Pattern {
        name: "100kpps",
        shape,
        profile: shape.profile().expect("10 us is a period, and our header fits into 98 bytes"),
        ifg_bytes: None,
        pace: Pace::Spin,
        rounds,
        per_block,
        kernel_block: 1_000,
    }
}

fn loss_plan(quick: bool) -> LossPlan {
    LossPlan {
        // The paper sends 20,000 packets a point.
        packets: if quick { 2_000 } else { 20_000 },
        rounds: if quick { 1 } else { 3 },
        sizes: vec![76, 128, 256, 512, 1_024, 1_368, 1_514],
        gaps: vec![12, 100, 500, 1_000, 2_000, 5_000],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_gaps_make_its_periods() {
        for (pattern, period_ns, frame_bytes) in
            [(first(1, 1), 20_000_000.0, 140), (second(1, 1), 1_367_992.0, 1_368)]
        {
            assert_eq!((pattern.period_ns(), pattern.frame_bytes()), (period_ns, frame_bytes));
            let octets = u64::from(frame_bytes) + pattern.ifg_bytes.unwrap();
            assert_eq!((octets * OCTET_NS) as f64, period_ns, "frame and gap at 1 Gbit/s");
        }
        assert_eq!((fast(1, 1).period_ns(), fast(1, 1).frame_bytes()), (10_000.0, 140));
    }
}
