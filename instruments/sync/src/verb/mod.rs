//! `quaver sync`: what the threads of a program lose while they wake each other up.

mod attach;
mod kernel;
mod record;

use crate::args::SyncArgs;
use crate::digest::SyncDigest;
use anyhow::Context;
use quaver_instrument::envelope::Envelope;
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::{rights, terminal};
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use std::io::Write;
use std::path::Path;

/// Runs the program, or looks at one that runs. Of a program that was run, the process ends here with its status.
pub fn run(args: &SyncArgs) -> anyhow::Result<ExitCode> {
    if let Some(pid) = args.pid {
        return attach::run(args, pid);
    }
    let status = record::run(args)?;
    // The program's own status is none of ours, so it does not pass through them.
    std::process::exit(i32::from(status))
}

/// A run directory with its manifest.
fn begin(args: &SyncArgs, facts: &crate::digest::SyncFacts) -> anyhow::Result<(RunDir, Manifest)> {
    use quaver_host::facts::HostFacts;
    use quaver_host::root::HostRoot;
    let host = serde_json::to_value(HostFacts::read(&HostRoot::system()))?;
    let run = RunDir::create(&args.output, "sync")?;
    let asked =
        serde_json::json!({ "command": quaver_instrument::recording::command_line(), "facts": facts });
    let now_ns = quaver_clock::realtime_ns();
    let mut manifest = Manifest::begin(env!("CARGO_PKG_VERSION"), "sync", asked, host, now_ns);
    manifest.analysis = Some(Default::default());
    if let Err(error) = run.write_manifest(&manifest) {
        // It has nothing in it.
        let _ = std::fs::remove_dir_all(run.path());
        return Err(error.into());
    }
    Ok((run, manifest))
}

/// Packs and analyses a run that ended just now, and stores what came of it.
fn conclude(run: &RunDir, manifest: Manifest, quiet: bool) -> anyhow::Result<SyncDigest> {
    // Files of the program and its libraries lie anywhere.
    rights::keep_to_conclude(&[Path::new("/")], run.path());
    let digest = crate::digest::conclude(run, manifest, quiet)?;
    store(run, &digest)?;
    Ok(digest)
}

/// Writes `waits.parquet`, `summary.json` and `report.html`.
pub fn store(run: &RunDir, digest: &SyncDigest) -> anyhow::Result<()> {
    digest.write_waits(run)?;
    run.write_summary(&digest.summary)?;
    quaver_instrument::results::store_report(run, &crate::view::document(digest))
}

/// Writes the page to standard error, where it is out of the program's way, or the summary to standard output. `status` is what
/// the process ends with.
fn print(args: &SyncArgs, digest: &SyncDigest, run: &RunDir, status: u8) -> anyhow::Result<()> {
    let page = quaver_instrument::results::with_report(crate::view::document(digest), run);
    if args.json {
        let envelope = Envelope { status, ..Envelope::of(&page, Some(run.path()), ExitCode::Done) };
        let text = envelope.beside(&serde_json::to_value(&digest.summary)?)?;
        return quaver_instrument::results::to_stdout(text.as_bytes());
    }
    let text = terminal::page(&page, terminal::style_of_stderr());
    std::io::stderr().lock().write_all(text.as_bytes()).context("writing to standard error")
}
