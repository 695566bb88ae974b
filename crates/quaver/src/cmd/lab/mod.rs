//! `quaver lab`: places to try things in.

mod activity;
mod doctor;
mod fetch;
pub(in crate::cmd) mod guest;
mod osnoise;
pub(in crate::cmd) mod request;
mod run;

use crate::cli::lab::{LabAction, LabArgs};
use crate::exit_code::ExitCode;

/// Does what is asked for.
pub fn run(args: &LabArgs) -> anyhow::Result<ExitCode> {
    match &args.action {
        LabAction::Doctor(args) => doctor::run(args),
        LabAction::Fetch(args) => fetch::run(args),
        LabAction::Run(args) => run::run(args),
        LabAction::Osnoise(args) => osnoise::run(args),
        LabAction::Guest => guest::run(),
    }
}
