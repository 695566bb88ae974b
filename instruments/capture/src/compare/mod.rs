//! `quaver capture --compare`: the timestamping paper's evaluation as one command, on this machine.
//!
//! A source in one network namespace sends to a receiver in another over a veth pair; both namespaces have no name,
//! so they go with this process. Ways to stamp alternate in blocks whose order is drawn at random.

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
mod peers;
mod place;
mod plan;
mod stream;
mod traffic;
mod user;

use crate::args::CaptureArgs;
use crate::compare::record::stamped_for_others;
use crate::compare::samples::write_compare_samples;
use anyhow::Context;
use far::Far;
use place::ReceiverSite;
use plan::Plan;
use quaver_capture_analysis::compare::{CompareFacts, CompareTable};
use quaver_clock::live::{LiveClock, LiveOptions};
use quaver_clock::{CounterSupport, nominal_scale, realtime_ns};
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::registry::Analyzed;
use quaver_instrument::results;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
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
    let plan = Plan::of(args)?;
    let interrupt = Interrupt::catch()?;
    let place = match &args.compare.from {
        None => ReceiverSite::lab()?,
        Some(host) => ReceiverSite::far(Far::find(host, args.compare.key_file.as_deref())?),
    };
    let clock = LiveClock::start(LiveOptions::checked(plan.counter))?;
    let run = RunDir::create(&args.compare.runs, "capture-compare")?;
    let host = serde_json::to_value(HostFacts::read(&HostRoot::system()))?;
    let mut manifest =
        Manifest::begin(env!("CARGO_PKG_VERSION"), "capture-compare", plan.asked(), host, realtime_ns());
    run.write_manifest(&manifest)?;
    let progress = Progress::timed(plan.length(), args.quiet);
    let bench = Bench { plan: &plan, place, clock, run, interrupt, progress, lost: OnceLock::new() };
    let (table, facts) = match bench.measure() {
        Ok(found) => found,
        Err(error) => return Err(bench.discard(error)),
    };
    let Bench { run, interrupt, progress, clock, lost, .. } = bench;
    progress.say("computing the results");
    manifest.compare = Some(serde_json::to_value(facts)?);
    write_compare_samples(&run.samples(), &table)?;
    let lost = lost.into_inner();
    let went = lost.is_some() && !interrupt.requested();
    let cut_short = interrupt.requested().then(|| "interrupted by the user".to_owned()).or(lost);
    manifest.end(realtime_ns(), cut_short);
    run.write_manifest(&manifest)?;
    drop(clock);
    let digest = crate::compare::digest::analyze(&run)?;
    digest.store(&run)?;
    drop(progress);
    let code = results::print(&digest.summary()?, || digest.page(&run), args.json, &[])?;
    Ok(match (interrupt.requested(), went) {
        (true, _) => ExitCode::Interrupted,
        (false, true) => ExitCode::Peer,
        (false, false) => code,
    })
}

impl Bench<'_> {
    fn measure(&self) -> anyhow::Result<(CompareTable, CompareFacts)> {
        let mut table = CompareTable::default();
        // A second is long enough for the rate to be good to a few parts in a million.
        let hz = nominal_scale(self.plan.counter).cycles(1_000_000_000) as f64;
        let mut facts = CompareFacts {
            cycles_per_second: hz,
            seed: self.plan.seed,
            cores: self.plan.cpus.words(),
            from: self.plan.from.clone(),
            cannot: self.plan.cannot.clone(),
            ..CompareFacts::default()
        };
        if self.plan.cpus.moved().is_some() {
            facts.cannot.extend(self.place.share_cpu(false, &self.plan.cpus)?.err());
        }
        let mut kernel = self.plan.kernel;
        for (number, pattern) in self.plan.patterns.iter().enumerate() {
            if self.stopped() {
                break;
            }
            self.progress.say(format!("pattern {}: stamps in user space", pattern.name));
            let mut found = user::measure(self, number as u16, pattern, &mut table)
                .with_context(|| format!("comparing with pattern {}", pattern.name))?;
            if kernel && !self.stopped() {
                self.progress.say(format!("pattern {}: stamps in the kernel", pattern.name));
                let others = stamped_for_others();
                match kernel::measure(self, number as u16, pattern, &mut table) {
                    Ok(arms) => {
                        found.kernel = arms;
                        // Looked at before and after: a capture may have come or gone meanwhile.
                        if others == Some(true) || stamped_for_others() == Some(true) {
                            facts.cannot.push(stamped_anyway(pattern.name));
                        }
                    }
                    Err(error) => {
                        facts.cannot.push(format!("Kernel part not measured: {error:#}."));
                        kernel = false;
                    }
                }
            }
            facts.patterns.push(found);
        }
        if self.plan.loss.is_some() && !self.stopped() {
            let (points, cannot) = loss::measure(self)?;
            facts.loss = points;
            facts.cannot.extend(cannot);
            let (points, cannot) = peers::measure(self)?;
            facts.peers = points;
            facts.cannot.extend(cannot);
        }
        let mut told = BTreeSet::new();
        facts.cannot.retain(|sentence| told.insert(sentence.clone()));
        Ok((table, facts))
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
