//! `quaver cure`: finds what makes packets late, tries the settings that remove it, proves them, and keeps what helps.

pub mod args;
pub mod objective;
mod runs;
pub mod summary;
pub mod verb;
pub mod view;

use args::CureArgs;
use clap::{Args, Command, FromArgMatches};
use quaver_instrument::registry::{Instrument, Verb};

/// The instrument, as the program takes it.
pub static INSTRUMENT: Instrument = Instrument {
    verbs: &[Verb {
        command: || {
            CureArgs::augment_args(Command::new("cure"))
                .about("Find what makes packets late, try the settings that remove it, prove them, keep what helps")
                .long_about(None)
                .after_help(args::HELP)
                .mut_arg("duration", |arg| {
                    arg.default_value("2min").help("Time for everything: measuring, trying and proving")
                })
        },
        run: |matches| verb::run(&CureArgs::from_arg_matches(matches)?),
    }],
    kinds: &[&runs::CureRuns],
    files: &[],
    tables: &[],
    status: |_| None,
};
