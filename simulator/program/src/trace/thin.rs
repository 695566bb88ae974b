//! `quaver sim trace --thin`: fewer epochs of a library, of all kinds and durations.

use crate::file;
use crate::trace::args::SimTraceArgs;
use anyhow::Context;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_trace::epochs::{EpochReader, thinned};
use quaver_trace::file::ReadAt;
use std::path::Path;

/// Writes the smaller library.
pub(super) fn run(path: &Path, args: &SimTraceArgs) -> anyhow::Result<ExitCode> {
    let library = file::open_library(path)?;
    let output = args.output.as_deref().context("clap asks for a name")?;
    let (octets, told) = choose(&library, args.octets).map_err(|error| file::refused(path, &error))?;
    std::fs::write(output, &octets)
        .map_err(|error| failure(ExitCode::Output, format!("write {}: {error}", output.display())))?;
    if !args.quiet {
        quaver_instrument::tell!("quaver: {}: {told}, {} bytes", output.display(), octets.len());
    }
    Ok(ExitCode::Done)
}

fn choose<R: ReadAt>(
    library: &EpochReader<R>,
    most: u64,
) -> Result<(Vec<u8>, String), quaver_trace::file::FileError> {
    let octets = thinned(library, most)?;
    let told = EpochReader::open(octets.clone())?.facts.changes.last().cloned().unwrap_or_default();
    Ok((octets, told))
}
