//! `quaver lab`: places to try things in.

mod doctor;
mod fetch;
pub(in crate::cmd) mod guest;
pub(in crate::cmd) mod request;

use crate::cli::lab::{LabAction, LabArgs};
use crate::exit_code::ExitCode;

/// Does what is asked for.
pub fn run(args: &LabArgs) -> anyhow::Result<ExitCode> {
    match &args.action {
        LabAction::Doctor(args) => doctor::run(args),
        LabAction::Fetch(args) => fetch::run(args),
        LabAction::Guest => guest::run(),
    }
}
