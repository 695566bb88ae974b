//! `quaver sim trace --armour`: a trace as text, and back.

use anyhow::Context;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::results;
use quaver_trace::armour;
use std::path::Path;

/// Turns a file of one kind into the other.
pub(super) fn run(path: &Path, output: Option<&Path>) -> anyhow::Result<ExitCode> {
    let octets = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let turned = if armour::is_armour(&octets) {
        armour::decode(&octets)
            .map_err(|reason| failure(ExitCode::BadInput, format!("{}: {reason}", path.display())))?
    } else {
        armour::encode(&octets).into_bytes()
    };
    match output {
        Some(output) => {
            std::fs::write(output, &turned)
                .map_err(|error| failure(ExitCode::Output, format!("write {}: {error}", output.display())))?;
        }
        None => results::to_stdout(&turned)?,
    }
    Ok(ExitCode::Done)
}
