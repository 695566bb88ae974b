//! Brute-force twin of the protocol of sync jitter: who woke whom, asked of the whole history for each wait.
//!
//! It shares no code with `quaver_analysis::sync` and is quadratic or worse on purpose: it keeps no buffers, and
//! states the rules as searches through all events. Only tests use it.

mod history;
mod twin;

pub use history::{Event, history};
pub use twin::{Answer, Matched, answer};
