//! Results that other tools stored: cyclictest, rtla, irtt, iperf3, flent and sockperf. `quaver analyze` shows them and
//! `quaver compare` puts them beside runs of the same quantity.

#![forbid(unsafe_code)]

mod files;
pub mod formats;
pub mod result;
mod view;

use quaver_instrument::registry::Instrument;

/// The instrument, as the program takes it.
pub static INSTRUMENT: Instrument =
    Instrument { verbs: &[], kinds: &[], files: &[&files::Results], tables: &[], status: |_| None };
