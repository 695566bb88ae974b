//! Where a cure measures: its stream, its receiver, and how one block goes.

use super::burden::Bystanders;
use super::of_threads::Involved;
use super::program::{Program, Studied};
use super::trial::{BlockEnd, Place};
use crate::args::CureArgs;
use crate::objective::{Measured, Objective};
use crate::summary::FoundCause;
use anyhow::Context;
use quaver_analysis::summary::{CauseSummary, NoiseCpu};
use quaver_chase::args::{ChaseArgs, LabKind};
use quaver_chase::chase;
use quaver_chase::chase::observe::Blocks;
use quaver_chase::digest::{self, ChaseDigest};
use quaver_cure_analysis::Burden;
use quaver_host::netns::Lab;
use quaver_host::root::HostRoot;
use quaver_instrument::args::TierName;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::host_state::allowed_cpus;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::quantity::period;
use quaver_lab_guests::view;
use quaver_noise::args::NoiseArgs;
use quaver_noise::digest::NoiseDigest;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_tune::survey::Target;
use quaver_tune::verb::costs::{Costs, by_source};
use quaver_view::Cell;
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Dropped at the start of a block of a stream that comes here anyway: two periods of a usual quota.
const WASH_OUT: Duration = Duration::from_millis(200);

/// Shortest stop of a loop that counts.
const NOISE_THRESHOLD: Duration = Duration::from_micros(1);

/// A stream with its receiver, measured again and again.
pub(super) struct Site<'a> {
    args: ChaseArgs,
    /// CPUs of busy loops, where these are measured in place of a stream.
    loops: Option<Vec<u16>>,
    /// A program that is run in place of either.
    program: Option<Program<'a>>,
    objective: Objective,
    ends: Option<Arc<Lab>>,
    interrupt: &'a Interrupt,
    /// The recorder of a receiver of somebody else.
    blocks: RefCell<Option<Blocks>>,
    held_up: RefCell<HeldUp>,
    bystanders: Bystanders,
}

/// Loops that were kept from their CPU when their block was over.
#[derive(Debug, Default)]
struct HeldUp {
    all: u32,
    blocks: u32,
    longest_ns: i64,
}

impl HeldUp {
    /// Counts a block whose loops were to run for so long.
    fn add(&mut self, cpus: &[NoiseCpu], length: Duration) {
        let length_ns = i64::try_from(length.as_nanos()).unwrap_or(i64::MAX);
        let beyond = cpus.iter().map(|cpu| cpu.runtime_ns - length_ns).max().unwrap_or(0);
        self.all += 1;
        // A tenth of the block: what is shorter changes no figure much.
        if beyond > length_ns / 10 {
            self.blocks += 1;
            self.longest_ns = self.longest_ns.max(beyond);
        }
    }

    fn words(&self) -> Option<String> {
        (self.blocks > 0).then(|| {
            format!(
                "in {} of {} a loop did not run when its time was over, for up to {} more: such a block ends with that stop, \
                 all of which counts",
                self.blocks,
                Cell::several(u64::from(self.all), "block"),
                Cell::Duration(self.longest_ns)
            )
        })
    }
}

impl<'a> Site<'a> {
    /// Between two namespaces that outlive the blocks where the stream is made here and these can be had, else over loopback.
    pub(super) fn open(args: &CureArgs, directory: &Path, interrupt: &'a Interrupt) -> anyhow::Result<Self> {
        let mut chase = args.chase.clone();
        let loops = args.noise()?;
        let program = (!args.program.is_empty())
            .then(|| Program::new(&args.program, args.objective(), directory, interrupt));
        let stream = loops.is_none() && program.is_none();
        let made_here = stream && chase.pid.is_none() && chase.listen.is_none() && chase.from.is_none();
        let ours: Vec<u32> = chase.pid.into_iter().chain([std::process::id()]).collect();
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
            loops,
            program,
            objective: args.objective(),
            ends: ends.map(Arc::new),
            interrupt,
            blocks: RefCell::default(),
            held_up: RefCell::default(),
            bystanders: Bystanders::find(HostRoot::system(), &ours),
        })
    }

    /// Finds the causes, with the best tier.
    pub(super) fn find_causes(&self, length: Duration) -> anyhow::Result<Found> {
        if let Some(program) = &self.program {
            let studied = program.study()?;
            let cpus = allowed_cpus().context("reading the CPUs that this process may use")?;
            let target = Target { cpus, interface: None, process: Some(std::process::id()) };
            let (causes, measured) = (studied.parts.clone(), studied.run.clone());
            return Ok(Found { causes, studied: Some(studied), ..Found::at(measured, target) });
        }
        if let Some(cpus) = &self.loops {
            let digest = self.loop_for(cpus, length, self.args.tier)?;
            let target = Target { cpus: cpus.clone(), interface: None, process: None };
            let found = Found::at(digest.facts.directory, target);
            return Ok(found.with(&digest.analysis.summary.causes));
        }
        let args = ChaseArgs { duration: length, no_cost: true, ..self.args.clone() };
        let (run, manifest) = self.measure(&args)?;
        let digest = chase::conclude(&run, manifest, true)?;
        let target = self.target(&digest)?;
        let involved = Involved::of(&digest, self.args.pid.is_some());
        let measured = run.path().display().to_string();
        let found = Found { involved, ..Found::at(measured, target) };
        Ok(found.with(&digest.analysis.summary.causes))
    }

    /// Lets loops run in a thread of its own, for the same reason as [`Site::measure`].
    fn loop_for(
        &self,
        cpus: &[u16],
        duration: Duration,
        tier: Option<TierName>,
    ) -> anyhow::Result<NoiseDigest> {
        let ChaseArgs { fifo, output, .. } = &self.args;
        let args = NoiseArgs {
            cpus: Some(cpus.to_vec()),
            duration,
            threshold: NOISE_THRESHOLD,
            dummy: false,
            period: period("7.41us").map_err(anyhow::Error::msg)?,
            fifo: *fifo,
            tier,
            output: output.clone(),
        };
        std::thread::scope(|scope| {
            let measure = || quaver_noise::record::digest(&args, self.interrupt, || Ok(()));
            let looped = quaver_waiting::start_in(scope, "quaver-noise", measure).context("measuring")?;
            looped.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
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
    fn target(&self, found: &ChaseDigest) -> anyhow::Result<Target> {
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

    /// The figures of a block, whose run goes.
    fn figures(
        &self,
        block: OfBlock<'_>,
        measured: Measured<'_>,
        length: Duration,
        burden: Burden,
    ) -> anyhow::Result<BlockEnd> {
        let OfBlock { directory, cut_short } = block;
        std::fs::remove_dir_all(directory).with_context(|| format!("removing {directory}"))?;
        if self.interrupt.requested() {
            return Ok(BlockEnd::Interrupted);
        }
        match (cut_short, measured) {
            (_, Measured::Program(_)) => {}
            // They were kept from beginning, as the next ones need not be.
            (Some(reason), Measured::Loops(_)) => return Ok(BlockEnd::Void(reason)),
            (Some(reason), Measured::Stream(_)) => return Err(failure(ExitCode::Peer, reason)),
            (None, Measured::Loops(cpus)) => self.held_up.borrow_mut().add(cpus, length),
            (None, Measured::Stream(_)) => {}
        }
        let figures = self.objective.figures(measured, length.as_secs_f64(), burden);
        figures.map(BlockEnd::Measured).context("a block measured nothing")
    }
}

impl Place for Site<'_> {
    fn within<T: Send>(&self, body: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        match &self.ends {
            None => Ok(body()),
            Some(lab) => view::within(&lab.sink, body)
                .map_err(|error| failure(ExitCode::Unsupported, error.to_string())),
        }
    }

    fn interface_of_ours(&self) -> bool {
        self.ends.is_some()
    }

    fn remarks(&self) -> Option<String> {
        self.held_up.borrow().words()
    }

    fn launcher(&self) -> Option<u32> {
        self.program.as_ref().map(|_| std::process::id())
    }

    fn block(&self, length: Duration) -> anyhow::Result<BlockEnd> {
        if let Some(program) = &self.program {
            return program.block(&self.bystanders);
        }
        if let Some(cpus) = &self.loops {
            std::thread::sleep(WASH_OUT);
            let before = self.bystanders.counters();
            let digest = self.loop_for(cpus, length, Some(TierName::User))?;
            let burden = self.bystanders.since(&before);
            let of_block =
                OfBlock { directory: &digest.facts.directory, cut_short: digest.manifest.interrupted };
            return self.figures(of_block, Measured::Loops(&digest.analysis.summary.cpus), length, burden);
        }
        let before = self.bystanders.counters();
        let recorder = self.blocks.borrow_mut().take();
        let digest = match recorder {
            Some(blocks) => self.observed_block(blocks, length)?,
            None => self.block_of_its_own(length)?,
        };
        let burden = self.bystanders.since(&before);
        let of_block = OfBlock { directory: &digest.facts.directory, cut_short: digest.manifest.interrupted };
        self.figures(of_block, Measured::Stream(&digest.analysis.summary), length, burden)
    }
}

/// The run of a block.
struct OfBlock<'a> {
    directory: &'a str,
    /// Why it ended early.
    cut_short: Option<String>,
}

/// What the first measurement found.
pub(super) struct Found {
    /// Its run.
    pub(super) measured: String,
    /// Causes, the largest first.
    pub(super) causes: Vec<FoundCause>,
    /// What they cost by source.
    pub(super) costs: Costs,
    /// Whose settings matter.
    pub(super) target: Target,
    /// Threads that matter.
    pub(super) involved: Involved,
    /// Where the time of a program's threads went.
    pub(super) studied: Option<Studied>,
}

impl Found {
    /// That of a run, for whose settings are to be tried.
    pub(super) fn at(measured: String, target: Target) -> Self {
        let (causes, costs) = (Vec::new(), Costs::new());
        Self { measured, causes, costs, target, involved: Involved::default(), studied: None }
    }

    fn with(self, causes: &[CauseSummary]) -> Self {
        let found = |one: &CauseSummary| FoundCause {
            source: one.source.clone(),
            name: one.name.clone(),
            share: one.share,
        };
        Self { causes: causes.iter().map(found).collect(), costs: by_source(causes), ..self }
    }
}

fn online() -> Vec<u16> {
    HostRoot::system().cpu_list("/sys/devices/system/cpu/online")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_is_held_up_past_its_block_is_counted_and_a_tenth_is_not() {
        let cpu = |runtime_ms: i64| NoiseCpu { runtime_ns: runtime_ms * 1_000_000, ..NoiseCpu::default() };
        let mut held_up = HeldUp::default();
        let length = Duration::from_millis(500);
        held_up.add(&[cpu(500), cpu(550)], length);
        assert_eq!(held_up.words(), None);
        held_up.add(&[cpu(500), cpu(2_500)], length);
        held_up.add(&[cpu(600), cpu(501)], length);
        let words = held_up.words().unwrap();
        assert!(words.starts_with("in 2 of 3 blocks a loop did not run"), "{words}");
        assert!(words.contains("for up to 2.00 s more"), "{words}");
    }
}
