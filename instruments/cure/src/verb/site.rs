//! Where a cure measures: its stream, its receiver, and how one block goes.

use crate::args::{CureArgs, Objective};
use anyhow::Context;
use quaver_chase::args::{ChaseArgs, LabKind};
use quaver_chase::chase;
use quaver_chase::digest::{self, ChaseDigest};
use quaver_cure_analysis::BlockFigures;
use quaver_host::netns::Lab;
use quaver_host::root::HostRoot;
use quaver_instrument::args::TierName;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_lab_guests::view;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_tune::survey::Target;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Jiffies of `/proc/stat` in a second (USER_HZ, proc(5)).
const JIFFIES_PER_S: f64 = 100.0;

/// A stream with its receiver, measured again and again.
pub(super) struct Site<'a> {
    args: ChaseArgs,
    objective: Objective,
    ends: Option<Arc<Lab>>,
    interrupt: &'a Interrupt,
}

impl<'a> Site<'a> {
    /// Between two namespaces that outlive the blocks where the stream is made here and these can be had, else over loopback.
    pub(super) fn open(args: &CureArgs, directory: &Path, interrupt: &'a Interrupt) -> anyhow::Result<Self> {
        let mut chase = args.chase.clone();
        let made_here = chase.pid.is_none() && chase.listen.is_none() && chase.from.is_none();
        let ends = match chase.lab {
            _ if !made_here => None,
            Some(LabKind::Loopback) => None,
            Some(_) => {
                Some(Lab::create().map_err(|error| failure(ExitCode::Unsupported, error.to_string()))?)
            }
            None => Lab::create().ok(),
        };
        if let Some(lab) = ends.as_ref().filter(|_| chase.rps) {
            // Once for all blocks: a remedy may take it away.
            let cpu = chase.sink_cpu.or_else(|| online().last().copied()).unwrap_or(0);
            lab.sink
                .steer_receive(&[cpu])
                .map_err(|error| failure(ExitCode::Unsupported, error.to_string()))?;
            chase.rps = false;
        }
        if made_here && ends.is_none() {
            chase.lab = Some(LabKind::Loopback);
        }
        chase.output.output = directory.to_owned();
        chase.output.quiet = true;
        Ok(Self { args: chase, objective: args.objective, ends: ends.map(Arc::new), interrupt })
    }

    /// Runs `body` where the receiver's interface is to be seen.
    pub(super) fn within<T: Send>(&self, body: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        match &self.ends {
            None => Ok(body()),
            Some(lab) => view::within(&lab.sink, body)
                .map_err(|error| failure(ExitCode::Unsupported, error.to_string())),
        }
    }

    /// Whether the receiver's interface goes when this does.
    pub(super) fn interface_of_ours(&self) -> bool {
        self.ends.is_some()
    }

    /// Finds the causes, with the best tier.
    pub(super) fn find_causes(&self, length: Duration) -> anyhow::Result<(RunDir, ChaseDigest)> {
        let args = ChaseArgs { duration: length, no_cost: true, ..self.args.clone() };
        let (run, manifest) = self.measure(&args)?;
        let digest = chase::conclude(&run, manifest, true)?;
        Ok((run, digest))
    }

    /// Measures in a thread of its own, since a chase keeps the thread that calls it off the CPUs of its source and sink: the
    /// next one would choose among the CPUs that are left.
    fn measure(&self, args: &ChaseArgs) -> anyhow::Result<(RunDir, Manifest)> {
        std::thread::scope(|scope| {
            let measure = || chase::measure(args, self.ends.clone(), self.interrupt);
            let chased = quaver_waiting::start_in(scope, "quaver-chase", measure).context("measuring")?;
            chased.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// The receiver, as the first measurement saw it.
    pub(super) fn target(&self, found: &ChaseDigest) -> anyhow::Result<Target> {
        let receiver = found.manifest.analysis.as_ref().and_then(|facts| facts.receiver.cpu);
        let Some(cpu) = receiver.or(self.args.sink_cpu) else {
            let message = "the receiver keeps to no CPU, so that no CPU's settings are its own: give it one (taskset -cp)";
            return Err(failure(ExitCode::Unsupported, message));
        };
        let loopback = || (self.args.lab == Some(LabKind::Loopback)).then(|| "lo".to_owned());
        let ours = self.ends.as_ref().map(|lab| lab.sink.interface.clone());
        Ok(Target {
            cpus: vec![cpu],
            interface: ours.or_else(|| self.args.interface.clone()).or_else(loopback),
            process: self.args.pid,
        })
    }

    /// Measures one block. None where the user ended it.
    pub(super) fn block(&self, length: Duration) -> anyhow::Result<Option<BlockFigures>> {
        let tier = if self.args.pid.is_some() { self.args.tier } else { Some(TierName::User) };
        let args = ChaseArgs { duration: length, no_cost: true, tier, ..self.args.clone() };
        let (began, before) = (Instant::now(), busy_s());
        let (run, mut manifest) = self.measure(&args)?;
        let (took, after) = (began.elapsed(), busy_s());
        let removed = |run: &RunDir| {
            std::fs::remove_dir_all(run.path()).with_context(|| format!("removing {}", run.path().display()))
        };
        if self.interrupt.requested() {
            removed(&run)?;
            return Ok(None);
        }
        let ended_early = manifest.interrupted.clone();
        digest::convert(&run, &mut manifest)?;
        let summary = digest::analyze(&run, None)?.analysis.summary;
        removed(&run)?;
        if let Some(reason) = ended_early {
            return Err(failure(ExitCode::Peer, reason));
        }
        let losses = &summary.losses;
        let lost = losses.network.unwrap_or(0)
            + losses.nic_ring.unwrap_or(0)
            + losses.stack.values().sum::<u64>()
            + losses.socket_buffer.unwrap_or(0)
            + losses.unaccounted;
        let received = losses.received.max(1) as f64;
        let objective = match self.objective {
            Objective::LateShare => summary.lateness.packets as f64 / received,
            Objective::P999 => summary.lateness.distribution.p99_9_ns as f64,
            Objective::Worst => summary.lateness.distribution.max_ns as f64,
        };
        Ok(Some(BlockFigures {
            objective,
            lost_share: lost as f64 / (received + lost as f64),
            received_per_s: losses.received as f64 / length.as_secs_f64(),
            busy_cpus: (after - before) / took.as_secs_f64(),
        }))
    }
}

fn online() -> Vec<u16> {
    HostRoot::system().cpu_list("/sys/devices/system/cpu/online")
}

/// Seconds that all CPUs of the host have been busy: user, nice, system, interrupts, softirqs.
fn busy_s() -> f64 {
    let text = HostRoot::system().text("/proc/stat").unwrap_or_default();
    let numbers = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let numbers: Vec<f64> = numbers.filter_map(|word| word.parse().ok()).collect();
    let of = |at: usize| numbers.get(at).copied().unwrap_or(0.0);
    [0, 1, 2, 5, 6].map(of).iter().sum::<f64>() / JIFFIES_PER_S
}
