//! Changing settings of the host so that everything can be put back.
//!
//! Whatever writes a setting writes it through the [`journal`]: what is about to be changed is on disk before it is
//! changed. A [`knob`] is one setting; [`contact`] is the only place where one is written.

pub mod class;
pub mod contact;
pub mod error;
pub mod ethtool;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod hold;
pub mod journal;
pub mod kernel_threads;
pub mod knob;
pub mod stamping;
pub mod steer;
pub mod writers;

pub use error::TuneError;
pub use journal::{Applied, Driven, Journal, JournalPlace, Session};
pub use knob::{Change, Knob};
