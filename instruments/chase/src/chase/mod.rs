//! `quaver chase`: a packet stream, its stamps at every layer, and the source of every late packet.

mod cost;
mod early_end;
mod edges;
mod made_here;
pub mod observe;
mod plan;
mod received;
mod sender;
mod stretches;

use crate::args::ChaseArgs;
use crate::digest::{self, ChaseDigest};
use quaver_host::netns::Lab;
use quaver_instrument::args::OutputArgs;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::{results, rights};
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
pub(crate) use received::Watch;
use std::sync::Arc;

/// Measures, analyses, prints.
pub fn run(args: &ChaseArgs) -> anyhow::Result<ExitCode> {
    // `quaver cure` takes it for every stream, to set what that interface has.
    if let (Some(name), None, None) = (&args.interface, &args.listen, &args.from) {
        let message = format!("--interface {name} is for multicast that --listen names");
        return Err(failure(ExitCode::Usage, message));
    }
    let interrupt = Interrupt::catch()?;
    let (run, manifest) = measure(args, None, &interrupt)?;
    // Whatever else ends a chase early is that the other side went.
    let went = manifest.interrupted.is_some().then_some(ExitCode::Peer);
    let early = results::ended_early(&manifest, interrupt.requested()).or(went);
    // The page says it too; programs that read JSON have the status alone.
    if let Some(reason) = manifest.interrupted.as_ref().filter(|_| args.output.json) {
        quaver_instrument::tell!("chase: ended early: {reason}");
    }
    rights::keep_to_conclude(&[], run.path());
    let digest = conclude(&run, manifest, args.output.quiet)?;
    print_results(&digest, &run, &args.output, early)
}

/// Measures; the run directory is left with raw segments and a manifest. A stream made here travels between `ends` where these
/// are given, which outlive it.
pub fn measure(
    args: &ChaseArgs,
    ends: Option<Arc<Lab>>,
    interrupt: &Interrupt,
) -> anyhow::Result<(RunDir, Manifest)> {
    match (args.pid, &args.listen, &args.from) {
        (Some(pid), _, _) => observe::measure(args, pid, interrupt),
        (None, Some(here), _) => received::measure_listened(args, here.address()?, interrupt),
        (None, None, Some(host)) => received::measure_from(args, host, interrupt),
        (None, None, None) => made_here::measure(args, ends, interrupt),
    }
}

/// Converts, analyses and stores a run that was just recorded.
pub fn conclude(run: &RunDir, mut manifest: Manifest, quiet: bool) -> anyhow::Result<ChaseDigest> {
    let progress = Progress::timed(std::time::Duration::from_secs(1), quiet);
    progress.say("joining packets and events");
    digest::convert(run, &mut manifest)?;
    progress.say("attributing lateness");
    let digest = digest::analyze(run, None)?;
    progress.say("writing the report");
    digest.store(run)?;
    Ok(digest)
}

/// Prints the page or JSON and judges the conditions of `--fail-if`; `early` is the status of a run that ended early.
pub fn print_results(
    digest: &ChaseDigest,
    run: &RunDir,
    output: &OutputArgs,
    early: Option<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let summary = serde_json::to_value(&digest.analysis.summary)?;
    let found = results::Found::of_run(&summary, run).ended(early);
    results::print(&found, || results::with_report(digest.document(), run), output.json, &output.fail_if)
}
