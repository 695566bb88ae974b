//! Printing what a verb found, and judging it.

use crate::exit_code::{ExitCode, failure};
use crate::threshold::FailIf;
use serde_json::Value;
use std::io::Write;

/// Prints the page or the summary as JSON, and judges the conditions of `--fail-if`.
pub fn print(
    summary: &Value,
    page: impl FnOnce() -> String,
    json: bool,
    conditions: &[FailIf],
) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, summary).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", page())?;
    }
    out.flush()?;
    let mut code = ExitCode::Done;
    for condition in conditions {
        if let Some(sentence) = condition.check(summary).map_err(|error| failure(ExitCode::Usage, error))? {
            eprintln!("quaver: failed, as asked, since {sentence}");
            code = ExitCode::Threshold;
        }
    }
    Ok(code)
}
