//! `quaver capture --compare`: the timestamping paper's evaluation as one command, on this machine.
//!
//! A source in one network namespace sends to a receiver in another over a veth pair; both namespaces have no name,
//! so they go with this process. Ways to stamp alternate in blocks whose order is drawn at random, in several starts of
//! the program ([`starts`]).

pub mod digest;
pub mod record;
pub(crate) mod runs;
pub mod samples;
pub mod view;

mod by_libpcap;
mod cores;
mod far;
mod kernel;
mod loss;
mod module;
mod passing;
mod peers;
mod place;
mod plan;
mod starts;
mod stream;
mod traffic;
mod user;

use crate::args::CaptureArgs;
use crate::compare::record::{KernelArm, stamped_for_others};
use anyhow::Context;
use far::Far;
use place::ReceiverSite;
use plan::Plan;
use quaver_capture_analysis::compare::{CompareFacts, CompareTable, PatternFacts};
use quaver_clock::live::{LiveClock, LiveOptions};
use quaver_clock::{CounterSupport, realtime_ns};
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_instrument::exit_code::{ExitCode, sentence};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::registry::Analyzed;
use quaver_instrument::results;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use starts::Starts;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

/// What all parts of a comparison share.
struct Bench<'a> {
    plan: &'a Plan,
    place: ReceiverSite,
    clock: LiveClock,
    run: RunDir,
    interrupt: Interrupt,
    progress: Progress,
    /// Why the source at another host went without a word.
    lost: OnceLock<String>,
}

/// Compares, stores, prints.
pub(super) fn run(args: &CaptureArgs) -> anyhow::Result<ExitCode> {
    if let Some(stream) = &args.compare.count_by_libpcap {
        return by_libpcap::run(stream, args.snaplen);
    }
    let mut plan = Plan::of(args)?;
    let interrupt = Interrupt::catch()?;
    starts::hear_requests();
    let Some((run, before)) = Starts::before()? else { return start(args, &plan, interrupt, None) };
    plan.seed = before.seed();
    if interrupt.requested() {
        return finish(args, &run, before, &interrupt, None);
    }
    let (number, kept) = (before.count(), run.path().display().to_string());
    start(args, &plan, interrupt, Some((run, before)))
        .with_context(|| format!("start {} ({kept} keeps the {number} before)", number + 1))
}

/// One start, and the end of the comparison where it is the last.
fn start(
    args: &CaptureArgs,
    plan: &Plan,
    interrupt: Interrupt,
    before: Option<(RunDir, Starts)>,
) -> anyhow::Result<ExitCode> {
    let place = match &args.compare.from {
        None => ReceiverSite::lab()?,
        Some(host) => {
            let far = Far::find(host, args.compare.key_file.as_deref())?;
            if let Some((_, before)) = &before {
                before.tell(&far, plan);
            }
            ReceiverSite::far(far)
        }
    };
    let clock = LiveClock::start(LiveOptions::checked(plan.counter))?;
    let first = before.is_none();
    let (run, mut starts) = before.map_or_else(|| begin(args, plan), Ok)?;
    let progress = Progress::timed(plan.length(), args.quiet);
    let bench = Bench { plan, place, clock, run, interrupt, progress, lost: OnceLock::new() };
    let number = starts.count() + 1;
    match bench.measure(number) {
        Ok((table, facts)) => starts.facts.join(&mut starts.table, facts, table),
        Err(error) if first => return Err(bench.discard(error)),
        // What the starts before have measured is kept.
        Err(_) if bench.interrupt.requested() => {}
        Err(error) => return Err(error),
    }
    let more = number < plan.starts && !bench.stopped();
    starts.store(&bench.run)?;
    if !more {
        bench
            .sweep(&mut starts.facts)
            .or_else(|error| bench.interrupt.requested().then_some(()).ok_or(error))?;
        starts.store(&bench.run)?;
    }
    let Bench { place, run, interrupt, progress, clock, lost, .. } = bench;
    drop((place, clock, progress));
    if more {
        starts::again(&run, &interrupt)?;
    }
    finish(args, &run, starts, &interrupt, lost.into_inner())
}

/// A run without a start.
fn begin(args: &CaptureArgs, plan: &Plan) -> anyhow::Result<(RunDir, Starts)> {
    let run = RunDir::create(&args.compare.runs, "capture-compare")?;
    let host = serde_json::to_value(HostFacts::read(&HostRoot::system()))?;
    let version = env!("CARGO_PKG_VERSION");
    let manifest = Manifest::begin(version, "capture-compare", plan.asked(), host, realtime_ns());
    run.write_manifest(&manifest)?;
    Ok((run, Starts { manifest, facts: plan.facts(), table: CompareTable::default() }))
}

/// Closes the run and prints what it says. `lost`: why the source at another host went.
fn finish(
    args: &CaptureArgs,
    run: &RunDir,
    mut starts: Starts,
    interrupt: &Interrupt,
    lost: Option<String>,
) -> anyhow::Result<ExitCode> {
    let went = lost.is_some();
    let cut_short = interrupt.requested().then(|| "interrupted by the user".to_owned()).or(lost);
    starts.manifest.end(realtime_ns(), cut_short);
    run.write_manifest(&starts.manifest)?;
    let digest = crate::compare::digest::analyze(run)?;
    digest.store(run)?;
    let ended = match (interrupt.requested(), went) {
        (true, _) => Some(ExitCode::Interrupted),
        (false, true) => Some(ExitCode::Peer),
        (false, false) => None,
    };
    let (summary, page) = (digest.summary()?, digest.page(run)?);
    results::print(&results::Found::of_run(&summary, run).ended(ended), || page, args.json, &[])
}

impl Bench<'_> {
    /// Measures all patterns in this start.
    fn measure(&self, start: u32) -> anyhow::Result<(CompareTable, CompareFacts)> {
        let mut table = CompareTable::default();
        let mut facts = self.plan.facts();
        if self.plan.cpus.moved().is_some() {
            facts.cannot.extend(self.place.share_cpu(false, &self.plan.cpus)?.err());
        }
        let mut kernel = self.plan.kernel;
        for (number, pattern) in self.plan.patterns.iter().enumerate() {
            if self.stopped() {
                break;
            }
            let stage = format!("start {start} of {}, pattern {}", self.plan.starts, pattern.name);
            self.progress.say(format!("{stage}: stamps in user space"));
            let mut found = user::measure(self, number as u16, (pattern, &stage), &mut table)
                .with_context(|| format!("comparing with pattern {}", pattern.name))?;
            if kernel && !self.stopped() {
                self.progress.say(format!("{stage}: stamps in the kernel"));
                let others = stamped_for_others();
                match kernel::measure(self, number as u16, pattern, &mut table) {
                    Ok(measured) => {
                        found.count_sent(measured.sent.sent, measured.sent.missed);
                        found.kernel = measured.arms.iter().map(|arm| arm.name().to_owned()).collect();
                        found.kernel_blocks = vec![measured.blocks];
                        facts.absent.extend(measured.absent);
                        // Looked at before and after: a capture may have come or gone meanwhile.
                        if others == Some(true) || stamped_for_others() == Some(true) {
                            facts.cannot.push(stamped_anyway(pattern.name));
                        }
                    }
                    Err(error) => {
                        let names = KernelArm::ALL.iter().map(|arm| arm.name().to_owned());
                        let why = sentence(&error);
                        facts.absent.extend(names.map(|name| (name, why.clone())));
                        // That of other starts may have been measured.
                        facts
                            .cannot
                            .push(format!("The kernel part of at least one start was not measured: {why}."));
                        kernel = false;
                    }
                }
            }
            self.by_module(number as u16, (pattern, &stage), &mut found, &mut facts, &mut table)?;
            facts.patterns.push(found);
        }
        Ok((table, facts))
    }

    /// Stamps of our module, where it can be read.
    fn by_module(
        &self,
        number: u16,
        (pattern, stage): (&plan::Pattern, &str),
        found: &mut PatternFacts,
        facts: &mut CompareFacts,
        table: &mut CompareTable,
    ) -> anyhow::Result<()> {
        let why_not = match self.plan.kernel {
            true if self.stopped() => return Ok(()),
            true => module::why_not(self)?,
            false => Some("it was not asked for (--no-kernel)".to_owned()),
        };
        if let Some(why) = why_not {
            facts.absent.extend(module::names().map(|name| (name.to_owned(), why.clone())));
            return Ok(());
        }
        self.progress.say(format!("{stage}: stamps of the module"));
        let measured = module::measure(self, number, pattern, table)?;
        found.count_sent(measured.sent.sent, measured.sent.missed);
        (found.module_arms, found.module_blocks) = (measured.arms, vec![measured.blocks]);
        Ok(())
    }

    /// The loss sweeps and whole captures, once.
    fn sweep(&self, facts: &mut CompareFacts) -> anyhow::Result<()> {
        let (points, cannot) = loss::measure(self)?;
        facts.loss = points;
        facts.cannot.extend(cannot);
        let (points, cannot) = peers::measure(self)?;
        facts.peers = points;
        facts.cannot.extend(cannot);
        let mut known = BTreeSet::new();
        facts.cannot.retain(|sentence| known.insert(sentence.clone()));
        Ok(())
    }

    /// Whether the user ended it, or the source at another host went.
    fn stopped(&self) -> bool {
        self.interrupt.requested() || self.lost.get().is_some()
    }

    /// Takes away a run of which nothing was kept.
    fn discard(self, error: anyhow::Error) -> anyhow::Error {
        // One that is left over is found to be empty by whoever opens it.
        let _ = std::fs::remove_dir_all(self.run.path());
        error
    }

    /// Waits until `done`, the interruption, or so long; whether it is done.
    fn wait(&self, length: Duration, mut done: impl FnMut() -> bool) -> bool {
        let start = std::time::Instant::now();
        while !done() {
            if self.interrupt.requested() || start.elapsed() >= length {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }
}

fn stamped_anyway(pattern: &str) -> String {
    format!(
        "Pattern {pattern}: the kernel stamped every packet for some other program (a capture, a PTP daemon), so the cost of \
         its stamp is hidden: stop that program."
    )
}

/// The counter that this machine's stamps are read from.
fn counter() -> quaver_clock::Counter {
    CounterSupport::detect(Path::new("/")).counter
}
