//! Printing what a verb found, and judging it.

use crate::exit_code::{ExitCode, failure};
use crate::threshold::FailIf;
use anyhow::Context;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use serde_json::Value;
use std::io::{BufWriter, Write};

/// Writes to standard output, all of it.
pub fn to_stdout(octets: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(octets).and_then(|()| out.flush()).context("writing to standard output")
}

/// Writes `report.html`.
///
/// # Errors
/// The file cannot be created or written, or `draw` fails.
pub fn store_report(
    run: &RunDir,
    draw: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let path = run.report();
    let file = std::fs::File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    let mut out = BufWriter::new(file);
    draw(&mut out)?;
    out.flush().with_context(|| format!("writing {}", path.display()))
}

/// Prints the page or the summary as JSON, and judges the conditions of `--fail-if`.
pub fn print(
    summary: &Value,
    page: impl FnOnce() -> String,
    json: bool,
    conditions: &[FailIf],
) -> anyhow::Result<ExitCode> {
    let text = if json { format!("{}\n", serde_json::to_string_pretty(summary)?) } else { page() };
    to_stdout(text.as_bytes())?;
    judge(summary, conditions)
}

/// Judges the conditions of `--fail-if`.
pub fn judge(summary: &Value, conditions: &[FailIf]) -> anyhow::Result<ExitCode> {
    let mut code = ExitCode::Done;
    for condition in conditions {
        if let Some(sentence) = condition.check(summary).map_err(|error| failure(ExitCode::Usage, error))? {
            crate::tell!("quaver: failed, as asked, since {sentence}");
            code = ExitCode::Threshold;
        }
    }
    Ok(code)
}

/// Status of a run that did not go its full length: by the user's doing, or since a CPU that it needed was taken away.
pub fn ended_early(manifest: &Manifest, interrupted: bool) -> Option<ExitCode> {
    match manifest.cpu_lost {
        _ if interrupted => Some(ExitCode::Interrupted),
        Some(_) => Some(ExitCode::Output),
        None => None,
    }
}
