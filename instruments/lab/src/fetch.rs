//! `quaver lab fetch`: runs the script that the repository's own setup runs.

use crate::args::LabFetchArgs;
use anyhow::Context;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_lab_guests::store::LabStore;
use std::io::Write;
use std::process::{Command, Stdio};

/// Handed to the shell, so that a program that was copied alone can fetch as well.
const SCRIPT: &str = include_str!("../assets/fetch.sh");

/// Fetches what is missing.
pub(super) fn run(args: &LabFetchArgs) -> anyhow::Result<ExitCode> {
    let store = args.directory.clone().map_or_else(LabStore::standard, LabStore::at);
    let mut command = Command::new("bash");
    command.args(["-s", "--"]).arg(store.directory()).stdin(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        failure(ExitCode::Unsupported, format!("starting bash, which fetches: {error}; install it"))
    })?;
    let mut script = child.stdin.take().context("handing the script to bash")?;
    // Bash may end before it has read all; its status says why.
    let _ = script.write_all(SCRIPT.as_bytes());
    drop(script);
    let status = child.wait().context("waiting for the script that fetches")?;
    match status.code() {
        Some(0) => Ok(ExitCode::Done),
        Some(3) => Ok(ExitCode::Unsupported),
        Some(130) | None => Ok(ExitCode::Interrupted),
        Some(code) => {
            let message = format!("download failed with status {code}; see its output above");
            Err(failure(ExitCode::Output, message))
        }
    }
}
