//! `quaver chase`, `quaver source` and `quaver sink`: a packet stream, and what makes its packets late.

pub mod args;
pub mod chase;
pub mod digest;
pub mod endpoint;
pub mod far_source;
pub mod first_look;
mod runs;
pub mod sink;
pub mod source;
pub mod stream_plan;
pub mod view;

use quaver_instrument::registry::Instrument;
use quaver_instrument::verb;

/// The instrument, as the program takes it.
pub static INSTRUMENT: Instrument = Instrument {
    verbs: &[
        verb!(
            "chase",
            "Receive a constant-rate packet stream and name the source of every late packet",
            args::ChaseArgs,
            chase::run
        ),
        verb!("source", "Send a constant-rate packet stream", args::SourceArgs, source::run),
        verb!("sink", "Receive a packet stream with one timestamp a packet", args::SinkArgs, sink::run),
    ],
    kinds: &[&runs::PacketRuns],
    files: &[],
    tables: &[],
    status: |_| None,
};
