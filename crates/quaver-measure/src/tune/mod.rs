//! Settings of the host: what is set, what would be better, and changing it so that everything can be put back.
//!
//! Whatever writes a setting writes it through the [`journal`]: what is about to be changed is on disk before it is
//! changed. A [`knob`] is one setting; [`contact`] is the only place where one is written.

pub mod audit;
pub mod boot;
pub mod catalogue;
pub mod contact;
mod error;
pub mod ethtool;
#[cfg(test)]
pub(crate) mod fake;
mod hold;
pub mod journal;
pub mod knob;
pub mod plan;
pub mod stamping;
pub mod steer;
pub mod survey;

pub use error::TuneError;
pub use journal::{Applied, Driven, Journal, JournalPlace, Session};
pub use knob::{Change, Knob};
