//! A simulation in memory, with jitter and its cure where they are asked for: what `sim run`, `sim paper` and sweeps do.

use super::file::{Trace, TraceFile};
use super::kernel_activity::TimedActivity;
use super::recording;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_sim::config::Config;
use quaver_sim::cure::{Cure, CureConfig, CureResults, Library};
use quaver_sim::error::SimulationError;
use quaver_sim::hooks::Hooks;
use quaver_sim::inject::Recording;
use quaver_sim::machine::Machine;
use quaver_sim::statistics::Results;
use quaver_trace::file::ThreadSteps;
use quaver_trace::meetings::{MeetingSteps, Meetings};
use quaver_trace::step::{Access, Step, Steps, TraceError};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is simulated.
#[derive(Clone, Copy)]
pub(super) struct Setup<'a> {
    /// The program. It is read anew each time.
    pub(super) trace: &'a Trace,
    /// The chip.
    pub(super) machine: &'a Config,
    /// Jitter and its cure; none: neither.
    pub(super) cure: Option<&'a CureConfig>,
    /// Takes the place of the seed in `cure`.
    pub(super) seed: Option<u64>,
    /// What the kernel does for injected jitter; none: only time passes.
    pub(super) kernel: Option<&'a TimedActivity<'a>>,
    /// The recording that `cure` names.
    pub(super) recording: Option<&'a Arc<Recording>>,
    /// Intervals that are kept for a time line.
    pub(super) intervals: usize,
}

impl<'a> Setup<'a> {
    /// The program alone on the chip.
    pub(super) fn plain(trace: &'a Trace, machine: &'a Config) -> Self {
        Self { trace, machine, cure: None, seed: None, kernel: None, recording: None, intervals: 0 }
    }
}

/// How far a simulation is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    /// Instructions of the program that were read so far.
    pub(super) instructions: u64,
    /// Which part of the trace's bytes was read, 0 to 1. Frames are read whole, so it goes by leaps.
    pub(super) share: f64,
    /// Since when it runs.
    pub(super) elapsed: Duration,
}

/// How it ended.
#[derive(Debug)]
pub(super) enum End {
    /// All threads ended.
    Whole,
    /// It was told to.
    Interrupted,
    /// It cannot go on.
    Stopped(SimulationError),
}

impl End {
    /// Why the run is not complete.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Whole => None,
            Self::Interrupted => Some("interrupted by the user".to_owned()),
            Self::Stopped(error) => Some(error.to_string()),
        }
    }
}

/// What became of a simulation.
#[derive(Debug)]
pub(super) struct SimOutcome {
    /// What the chip did.
    pub(super) results: Results,
    /// What was injected, found and compensated, where that was asked for.
    pub(super) cure: Option<CureResults>,
    /// How it ended.
    pub(super) end: End,
    /// How long it took here.
    pub(super) elapsed: Duration,
}

/// Simulates. `goes_on` is asked every few thousand events; where it says no, what was simulated until then is given back.
///
/// # Errors
/// The configuration cannot be used on this chip (status 5), or kernel activity is wrong (status 5).
pub(super) fn simulate(
    setup: &Setup<'_>,
    goes_on: &mut dyn FnMut(Reached) -> bool,
) -> anyhow::Result<SimOutcome> {
    let began = Instant::now();
    let meetings = setup
        .trace
        .meetings(&mut || goes_on(Reached { instructions: 0, share: 0.0, elapsed: began.elapsed() }));
    let Some(config) = setup.cure else {
        let mut watch = Watch::new(setup.trace, goes_on);
        let steps = steps(setup.trace, &meetings, &watch.instructions);
        let machine = Machine::new(setup.machine, &setup.trace.reader.dictionary, steps);
        return Ok(watch.drive(machine.with_intervals(setup.intervals)));
    };
    let mut config = config.clone();
    if let (Some(seed), Some(injection)) = (setup.seed, &mut config.injection) {
        injection.seed = seed;
    }
    let program = setup.trace.reader.dictionary.as_ref();
    // Who injects nothing needs no kernel activity.
    let (dictionary, library) = match setup.kernel.filter(|_| config.injection.is_some()) {
        Some(kernel) => kernel.on(setup.machine, program)?,
        None => (program.clone(), Library::default()),
    };
    let wrong = |(name, expected)| {
        failure(ExitCode::BadInput, format!("configuration of the cure: {name}: {expected}"))
    };
    let named = config.injection.as_ref().and_then(|injection| injection.recording.clone());
    let mut cure = Cure::new(config, setup.machine, library).map_err(wrong)?;
    if let Some(named) = named {
        let recording = recording::named(&named, setup.recording)?;
        recording::fits(recording, setup.trace.reader.threads().max().map_or(0, |last| last + 1))?;
        cure = cure.recorded_in(Arc::clone(recording));
    }
    let mut watch = Watch::new(setup.trace, goes_on);
    let steps = steps(setup.trace, &meetings, &watch.instructions);
    let machine = Machine::with_hooks(setup.machine, &dictionary, steps, &mut cure);
    let mut outcome = watch.drive(machine.with_intervals(setup.intervals));
    outcome.cure = Some(cure.finish(outcome.results.duration_fs));
    Ok(outcome)
}

/// Looks how far a simulation is, and asks whether it goes on.
struct Watch<'a> {
    trace: &'a Trace,
    goes_on: &'a mut dyn FnMut(Reached) -> bool,
    instructions: Rc<Cell<u64>>,
    began: Instant,
    /// Bytes that were read before the first step.
    before: u64,
}

impl<'a> Watch<'a> {
    fn new(trace: &'a Trace, goes_on: &'a mut dyn FnMut(Reached) -> bool) -> Self {
        let instructions = Rc::default();
        Self { trace, goes_on, instructions, began: Instant::now(), before: trace.octets_read() }
    }

    fn reached(&self) -> Reached {
        let left = self.trace.reader.octets.saturating_sub(self.before).max(1);
        let share = (self.trace.octets_read() - self.before) as f64 / left as f64;
        Reached { instructions: self.instructions.get(), share, elapsed: self.began.elapsed() }
    }

    fn drive<H: Hooks>(&mut self, mut machine: Machine<Counted, H>) -> SimOutcome {
        let end = loop {
            match machine.run(1) {
                Ok(true) => break End::Whole,
                Ok(false) => {
                    let reached = self.reached();
                    if !(self.goes_on)(reached) {
                        break End::Interrupted;
                    }
                }
                Err(error) => break End::Stopped(error),
            }
        };
        let elapsed = self.began.elapsed();
        SimOutcome { results: machine.results(), cure: None, end, elapsed }
    }
}

/// Steps of a thread that count the instructions of their blocks, for the progress line.
struct Counted {
    steps: MeetingSteps<ThreadSteps<TraceFile>>,
    /// Instructions of each block.
    lengths: Rc<[u64]>,
    instructions: Rc<Cell<u64>>,
}

impl Steps for Counted {
    #[inline]
    fn append(&mut self, accesses: &mut Vec<Access>) -> Result<Step, TraceError> {
        let step = self.steps.append(accesses)?;
        if let Step::Block { number } = step {
            let length = self.lengths.get(number as usize).copied().unwrap_or(0);
            self.instructions.set(self.instructions.get() + length);
        }
        Ok(step)
    }
}

/// The steps of each thread, read when they are needed: a frame of each thread at a time.
fn steps(trace: &Trace, meetings: &Arc<Meetings>, instructions: &Rc<Cell<u64>>) -> Vec<Counted> {
    let blocks = &trace.reader.dictionary.blocks;
    let lengths: Rc<[u64]> = blocks.iter().map(|block| block.instructions.len() as u64).collect();
    let last = trace.reader.threads().max().unwrap_or(0);
    let of = |thread| Counted {
        steps: meetings.meeting(trace.reader.steps(thread)),
        lengths: Rc::clone(&lengths),
        instructions: Rc::clone(instructions),
    };
    (0..=last).map(of).collect()
}
