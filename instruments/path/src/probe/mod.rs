//! `quaver probe`: what an application with a steady stream of packets would see between two hosts.

mod hops;
mod live;
pub(crate) mod logs;
pub(crate) mod options;
pub(crate) mod plots;
mod stamp;

use crate::args::{PaceName, ProbeArgs, ThreadArgs};
use crate::digest as path;
use crate::digest::PathDigest;
use crate::facts::PathFacts;
use crate::samples::write_path_samples;
use crate::test_facts::{cut_short, of_test, sent};
use crate::thread::spinners_loss;
use crate::tui::{LiveView, NO_TERMINAL};
use anyhow::Context;
use live::Live;
use quaver_abi::wire::jitlat::Singleton;
use quaver_arrivals::path::arrival::Numbering;
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::results::{self, Found};
use quaver_instrument::rights;
use quaver_path_record::{Completion, run_client};
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_store::utc::rfc3339_utc;
use quaver_view::Document;
pub use stamp::keep_stretch;
use std::path::Path;
use std::time::Duration;

/// Measures in one test, analyses, prints.
pub(crate) fn run(args: &ProbeArgs, interrupt: &Interrupt) -> anyhow::Result<ExitCode> {
    if let Some(reflector) = stamp::Reflector::of(args) {
        refuse_beside_stamp(args, reflector.option())?;
        return stamp::run(args, reflector, interrupt);
    }
    let options = options::client_options(args)?;
    let by_packets = options
        .packets
        .map(|packets| Duration::from_nanos(options.schedule.mean_period_ns().saturating_mul(packets)));
    let length = options.lasting.or(by_packets);
    let view = args
        .live
        .then(|| LiveView::open(live::view(&options, length), interrupt, NO_TERMINAL))
        .transpose()?;
    let loss = spinners_loss(&args.thread, &HostFacts::read(&HostRoot::system()).scheduling);
    let record = Record::begin(args)?.noting(&Vec::from_iter(loss));
    record.give_up_rights(args);
    let mut live = Live::new(args.json_lines, args.output.quiet, length, view, Numbering::Jitlat);
    let outcome = match run_client(&options, interrupt.flag(), &mut |progress| live.hear(progress)) {
        Ok(outcome) => outcome,
        Err(error) => {
            drop(live);
            record.discard();
            return Err(error).context(format!("measuring the path to {}", options::host(args)));
        }
    };
    if let Some(error) = live.failed.take() {
        quaver_instrument::tell!("quaver: {}", quaver_instrument::exit_code::sentence(&error));
    }
    let complete = matches!(outcome.completion, Completion::Complete);
    let sent = |direction| sent(outcome.flows.iter().find(|flow| flow.direction == direction)?, complete);
    let rolling = live.finish(sent);
    let mut facts = of_test(&outcome);
    if options.rolling {
        facts.rolling = rolling;
    }
    let packets: Vec<&[Singleton]> = outcome.flows.iter().map(|flow| flow.singletons.as_slice()).collect();
    if let Some(path) = &args.log {
        logs::write(path, &facts, &packets)?;
    }
    let changes: Vec<String> = outcome.flows.iter().flat_map(hops::changes).collect();
    let record = record.noting(&changes);
    let (digest, report) = record.conclude(facts, &packets, cut_short(&outcome))?;
    let ended = match &outcome.completion {
        Completion::Complete => None,
        Completion::Interrupted => Some(ExitCode::Interrupted),
        Completion::ServerLost(_) => Some(ExitCode::Peer),
    };
    let code = print(args, &digest, &report, ended)?;
    if let Completion::ServerLost(sentence) = outcome.completion {
        quaver_instrument::tell!("quaver: {sentence}; results so far are kept");
    }
    Ok(code)
}

/// What a session with a reflector has not: its sender sleeps for replies as well, and its reflector answers packet by packet.
fn refuse_beside_stamp(args: &ProbeArgs, reflector: &str) -> anyhow::Result<()> {
    let ThreadArgs { pace, cpu, fifo } = args.thread;
    let asked = [
        ("--train", args.train.is_some()),
        ("--pace", pace != PaceName::Hybrid),
        ("--cpu", cpu.is_some()),
        ("--fifo", fifo.is_some()),
    ];
    match asked.into_iter().find(|(_, asked)| *asked) {
        Some((option, _)) => {
            Err(failure(ExitCode::Usage, format!("{option} is not for {reflector}: leave it out")))
        }
        None => Ok(()),
    }
}

/// A run that is being measured. Its directory is made first, so that a place that cannot be written to is known before
/// hours of measuring.
pub(crate) struct Record {
    run: RunDir,
    manifest: Manifest,
}

impl Record {
    pub(super) fn begin(args: &ProbeArgs) -> anyhow::Result<Self> {
        Self::begin_in(&args.output.output)
    }

    /// The same in any directory.
    pub(crate) fn begin_in(parent: &Path) -> anyhow::Result<Self> {
        let run = RunDir::create(parent, "probe")?;
        let command: Vec<String> = std::env::args().collect();
        let asked = serde_json::json!({"command": command.join(" ")});
        let host = serde_json::to_value(HostFacts::read(&HostRoot::system()))?;
        let now_ns = quaver_clock::realtime_ns();
        let manifest = Manifest::begin(env!("CARGO_PKG_VERSION"), "probe", asked, host, now_ns);
        run.write_manifest(&manifest)?;
        Ok(Self { run, manifest })
    }

    /// Before the first answer: all but what it sends and stores with.
    pub(super) fn give_up_rights(&self, args: &ProbeArgs) {
        let outputs = [&args.log, &args.gnuplot].into_iter().flatten().map(|place| rights::ground_of(place));
        rights::keep_to_send(&[], &outputs.chain([self.run.path()]).collect::<Vec<_>>());
    }

    /// Adds a sentence that the pages of the run show.
    pub(super) fn noting(mut self, notes: &[String]) -> Self {
        let noted = self.manifest.asked["notes"].as_array().into_iter().flatten();
        let all: Vec<_> = noted.cloned().chain(notes.iter().map(|note| note.as_str().into())).collect();
        if !all.is_empty() {
            self.manifest.asked["notes"] = all.into();
        }
        self
    }

    /// Adds what was asked for.
    fn asking(mut self, more: serde_json::Map<String, serde_json::Value>) -> Self {
        self.manifest.asked.as_object_mut().into_iter().for_each(|asked| asked.extend(more.clone()));
        self
    }

    /// Name of its directory.
    pub(crate) fn name(&self) -> String {
        self.run.name()
    }

    /// Takes the directory away, where nothing was measured.
    pub(crate) fn discard(self) {
        // One that is left over is found to be empty by whoever opens it.
        let _ = std::fs::remove_dir_all(self.run.path());
    }

    /// Stores packets and facts, analyses them, and stores the results. Gives the path of the report too.
    pub(crate) fn conclude(
        mut self,
        facts: PathFacts,
        packets: &[&[Singleton]],
        cut_short: Option<String>,
    ) -> anyhow::Result<(PathDigest, String)> {
        self.manifest.end(quaver_clock::realtime_ns(), cut_short);
        let digest = self.store(facts, packets)?;
        let report = self.run.report().display().to_string();
        Ok((digest, report))
    }

    /// The same of what was measured between two instants before now, UTC nanoseconds.
    fn conclude_as_of(
        mut self,
        (from_ns, to_ns): (i64, i64),
        facts: PathFacts,
        packets: &[&[Singleton]],
    ) -> anyhow::Result<RunDir> {
        (self.manifest.started_realtime_ns, self.manifest.started) = (from_ns, rfc3339_utc(from_ns));
        self.manifest.end(to_ns, None);
        self.store(facts, packets)?;
        Ok(self.run)
    }

    fn store(&mut self, facts: PathFacts, packets: &[&[Singleton]]) -> anyhow::Result<PathDigest> {
        write_path_samples(&self.run.samples(), packets)?;
        self.manifest.path = Some(serde_json::to_value(facts)?);
        self.run.write_manifest(&self.manifest)?;
        let digest = path::analyze(&self.run)?;
        digest.store(&self.run)?;
        Ok(digest)
    }
}

/// Prints the results and judges the conditions of `--fail-if`; `ended` is the status of a test that ended early.
pub(super) fn print(
    args: &ProbeArgs,
    digest: &PathDigest,
    report: &str,
    ended: Option<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let summary = serde_json::to_value(&digest.summary)?;
    // Lines of figures are on standard output already; a page behind them would spoil them.
    if args.json_lines && !args.output.json {
        let code = results::judge(&summary, &args.output.fail_if)?;
        return Ok(ended.unwrap_or(code));
    }
    let page = || Document { report_path: Some(report.to_owned()), ..digest.document() };
    let found = Found { run: Some(Path::new(&digest.run.directory)), ended, ..Found::new(&summary) };
    let code = results::print(&found, page, args.output.json, &args.output.fail_if)?;
    plots::show(args, digest)?;
    Ok(code)
}
