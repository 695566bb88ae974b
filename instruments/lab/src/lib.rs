//! `quaver lab`: places to try things in.

pub mod args;

mod doctor;
mod faults;
mod fetch;
pub(crate) mod guest;
mod osnoise;
mod run;

use crate::args::{LabAction, LabArgs};
use quaver_instrument::exit_code::ExitCode;
use quaver_lab_guests::GuestError;

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

/// The exit status of a guest that could not be had.
pub fn exit_status(error: &(dyn std::error::Error + 'static)) -> Option<ExitCode> {
    Some(match error.downcast_ref()? {
        GuestError::Missing { .. } => ExitCode::Unsupported,
        _ => ExitCode::Output,
    })
}

use quaver_instrument::registry::Instrument;
use quaver_instrument::verb;

/// The instrument, as the program takes it.
pub static INSTRUMENT: Instrument = Instrument {
    verbs: &[verb!("lab", "Labs to try things in: what each needs, and how to get it", args::LabArgs, run)],
    kinds: &[],
    files: &[],
    tables: &[],
    status: exit_status,
};
