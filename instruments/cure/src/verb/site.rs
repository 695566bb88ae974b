//! Where a cure measures: its stream, its receiver, and how one block goes.

use crate::args::CureArgs;
use crate::objective::Objective;
use anyhow::Context;
use quaver_chase::args::{ChaseArgs, LabKind};
use quaver_chase::chase;
use quaver_chase::chase::observe::Blocks;
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
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Jiffies of `/proc/stat` in a second (USER_HZ, proc(5)).
const JIFFIES_PER_S: f64 = 100.0;

/// Dropped at the start of a block of a stream that comes here anyway: two periods of a usual quota.
const WASH_OUT: Duration = Duration::from_millis(200);

/// A stream with its receiver, measured again and again.
pub(super) struct Site<'a> {
    args: ChaseArgs,
    objective: Objective,
    ends: Option<Arc<Lab>>,
    interrupt: &'a Interrupt,
    /// The recorder of a receiver of somebody else.
    blocks: RefCell<Option<Blocks>>,
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
        // Who misses the deadline is late, for the causes too.
        chase.late = args.deadline.or(chase.late);
        chase.output.output = directory.to_owned();
        chase.output.quiet = true;
        Ok(Self {
            args: chase,
            objective: args.objective,
            ends: ends.map(Arc::new),
            interrupt,
            blocks: RefCell::default(),
        })
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
        let (ends, interrupt) = (self.ends.clone(), self.interrupt);
        std::thread::scope(|scope| {
            let measure = || chase::measure(args, ends, interrupt);
            let chased = quaver_waiting::start_in(scope, "quaver-chase", measure).context("measuring")?;
            chased.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Starts the recorder that all blocks of a receiver of somebody else have in common.
    pub(super) fn ready(&self) -> anyhow::Result<()> {
        if let Some(pid) = self.args.pid {
            *self.blocks.borrow_mut() = Some(Blocks::open(pid, self.interrupt)?);
        }
        Ok(())
    }

    /// A block of what that recorder sees.
    fn observed_block(&self, blocks: Blocks, length: Duration) -> anyhow::Result<ChaseDigest> {
        let args = ChaseArgs { duration: length, ..self.args.clone() };
        let (blocks, digest) = blocks.measure(&args, WASH_OUT, self.interrupt)?;
        *self.blocks.borrow_mut() = Some(blocks);
        Ok(digest)
    }

    /// A block that is a chase of its own, with its own socket.
    fn block_of_its_own(&self, length: Duration) -> anyhow::Result<ChaseDigest> {
        let tier = Some(TierName::User);
        let args = ChaseArgs { duration: length, no_cost: true, tier, ..self.args.clone() };
        let (run, mut manifest) = self.measure(&args)?;
        digest::convert(&run, &mut manifest)?;
        digest::analyze(&run, None)
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
        let (began, before) = (Instant::now(), busy_s());
        let recorder = self.blocks.borrow_mut().take();
        let digest = match recorder {
            Some(blocks) => self.observed_block(blocks, length)?,
            None => self.block_of_its_own(length)?,
        };
        let (took, after) = (began.elapsed(), busy_s());
        let directory = &digest.facts.directory;
        std::fs::remove_dir_all(directory).with_context(|| format!("removing {directory}"))?;
        if self.interrupt.requested() {
            return Ok(None);
        }
        if let Some(reason) = digest.manifest.interrupted {
            return Err(failure(ExitCode::Peer, reason));
        }
        let busy_cpus = (after - before) / took.as_secs_f64();
        Ok(Some(self.objective.figures(&digest.analysis.summary, length.as_secs_f64(), busy_cpus)))
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
