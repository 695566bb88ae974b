//! `quaver analyze`: the results of a stored run, computed again. Raw segments of a run that was cut short are read
//! as they are and left as they are, for the run may still be recording.

use super::chase::print_results;
use crate::cli::AnalyzeArgs;
use crate::digest;
use crate::exit_code::{ExitCode, failure};
use quaver_store::run::RunDir;

/// Analyses, stores and prints.
pub fn run(args: &AnalyzeArgs) -> anyhow::Result<ExitCode> {
    let run = RunDir::open(&args.run)?;
    let verb = run.read_manifest()?.verb;
    require_packets(&verb, "analyze")?;
    let digest = digest::analyze(&run, args.late)?;
    digest.store(&run)?;
    print_results(&digest, &run, args.json, &args.fail_if)
}

/// Refuses runs of verbs that leave no packets.
pub(super) fn require_packets(verb: &str, what: &str) -> anyhow::Result<()> {
    match verb {
        "chase" | "sink" => Ok(()),
        other => Err(failure(ExitCode::BadInput, format!("{what}: a run of `quaver {other}` holds no packets"))),
    }
}
