//! What a run says, drawn for people: the console page and the HTML report.
//!
//! Everything here is a pure function of its input; the caller reads the run and writes the result.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "parts of pages, which become documents of quaver-view")]

pub mod console;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
pub mod html;
pub mod rtp;
pub mod table;
pub mod units;

pub use quaver_instrument::facts::RunFacts;
