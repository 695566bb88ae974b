//! Settings of the host: what is set, what would be better, and changing it so that everything can be put back.
//!
//! Whatever writes a setting writes it through the [`journal`](quaver_host::settings::journal): what is about to be changed is on disk before it is
//! changed. A [`knob`](quaver_host::settings::knob) is one setting; [`contact`](quaver_host::settings::contact) is the only place where one is written.

pub mod args;
pub mod verb;
pub mod view;

pub mod audit;
pub mod boot;
pub mod catalogue;
pub mod plan;
pub mod profile;
pub mod survey;

use quaver_instrument::registry::Instrument;
use quaver_instrument::verb;

/// The instrument, as the program takes it.
pub static INSTRUMENT: Instrument = Instrument::of(&[verb!(
    "tune",
    "Find what is set so that it makes packets late, set it otherwise, and put it back",
    args::TuneArgs,
    verb::run
)]);
