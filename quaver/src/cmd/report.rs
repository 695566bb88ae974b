//! `quaver report`: the HTML report of a stored run, drawn again.

use super::analyze::{Holds, holds};
use quaver_instrument::deliver::deliver;
use quaver_instrument::digest;
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::runs::ReportArgs;
use quaver_store::run::RunDir;
use std::path::Path;

/// Draws.
pub fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let run = RunDir::open(&args.run)?;
    let target = args.output.clone().unwrap_or_else(|| run.report());
    if run.read_manifest()?.verb == quaver_sync::verb::BENCH {
        deliver(&target, |out| quaver_sync::verb::draw_bench(&run, out))?;
        return Ok(said(&target));
    }
    if run.read_manifest()?.verb == quaver_sim_program::paper::digest::VERB {
        deliver(&target, |out| quaver_sim_program::paper::draw(&run, out))?;
        return Ok(said(&target));
    }
    if run.read_manifest()?.verb == quaver_sim_program::sweep::VERB {
        let digest = quaver_sim_program::sweep::digest::analyze(&run)?;
        deliver(&target, |out| digest.write_html(out))?;
        return Ok(said(&target));
    }
    match holds(&run)? {
        Holds::Packets => {
            let digest = digest::analyze(&run, None)?;
            deliver(&target, |out| digest.write_html(out))?;
        }
        Holds::Gaps => {
            let digest = quaver_noise::digest::analyze(&run)?;
            deliver(&target, |out| digest.write_html(out))?;
        }
        Holds::Comparison => {
            let digest = quaver_capture::compare::digest::analyze(&run)?;
            deliver(&target, |out| digest.write_html(out))?;
        }
        Holds::Cells => {
            let digest = quaver_study::digest::analyze(&run)?;
            deliver(&target, |out| digest.write_html(out))?;
        }
        Holds::Sync => {
            let digest = quaver_sync::digest::analyze(&run)?;
            deliver(&target, |out| quaver_sync::verb::write_html(&digest, out))?;
        }
        Holds::Simulation => {
            let digest = quaver_sim_program::digest::analyze(&run)?;
            deliver(&target, |out| digest.write_html(out))?;
        }
        Holds::Path => {
            let digest = quaver_path::digest::analyze(&run)?;
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
