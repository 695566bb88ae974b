//! `quaver report`: the HTML report of a stored run, drawn again.

use super::analyze::{Holds, holds};
use super::deliver::deliver;
use crate::cli::runs::ReportArgs;
use crate::digest;
use crate::exit_code::ExitCode;
use quaver_store::run::RunDir;
use std::path::Path;

/// Draws.
pub fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let run = RunDir::open(&args.run)?;
    let target = args.output.clone().unwrap_or_else(|| run.report());
    if run.read_manifest()?.verb == super::sync::BENCH {
        deliver(&target, |out| super::sync::draw_bench(&run, out))?;
        return Ok(said(&target));
    }
    if run.read_manifest()?.verb == digest::sim_paper::VERB {
        deliver(&target, |out| super::sim::paper::draw(&run, out))?;
        return Ok(said(&target));
    }
    if run.read_manifest()?.verb == super::sim::sweep::VERB {
        let digest = digest::sim_sweep::analyze(&run)?;
        deliver(&target, |out| digest.write_html(out))?;
        return Ok(said(&target));
    }
    match holds(&run)? {
        Holds::Packets => {
            let digest = digest::analyze(&run, None)?;
            deliver(&target, |out| digest.write_html(out))?;
        }
        Holds::Gaps => {
            let digest = digest::noise::analyze(&run)?;
            deliver(&target, |out| digest.write_html(out))?;
        }
        Holds::Comparison => {
            let digest = digest::compare::analyze(&run)?;
            deliver(&target, |out| digest.write_html(out))?;
        }
        Holds::Cells => {
            let digest = digest::study::analyze(&run)?;
            deliver(&target, |out| digest.write_html(out))?;
        }
        Holds::Sync => {
            let digest = digest::sync::analyze(&run)?;
            deliver(&target, |out| digest.write_html(out))?;
        }
        Holds::Simulation => {
            let digest = digest::sim::analyze(&run)?;
            deliver(&target, |out| digest.write_html(out))?;
        }
        Holds::Path => {
            let digest = digest::path::analyze(&run)?;
            let facts = digest::run_facts(&run, &run.read_manifest()?);
            deliver(&target, |out| digest.write_html(&facts, out))?;
        }
    }
    Ok(said(&target))
}

fn said(target: &Path) -> ExitCode {
    if target != Path::new("-") {
        eprintln!("written: {}", target.display());
    }
    ExitCode::Done
}
