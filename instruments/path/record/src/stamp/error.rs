//! Why there is no measurement and no reflector.

use crate::error::socket_remedy;
use std::io::Error;

/// A reflector could not be run, or a session not be begun. What comes over the network is never an error.
#[derive(Debug, thiserror::Error)]
pub enum StampError {
    /// What was asked for cannot be.
    #[error("{0}")]
    Options(String),
    /// The system refused.
    #[error("{operation}: {source}{remedy}")]
    Os {
        /// What was tried, on what.
        operation: String,
        /// What the system said.
        source: Error,
        /// What to do, with its own leading punctuation; may be empty.
        remedy: &'static str,
    },
}

impl StampError {
    pub(super) fn os(operation: impl Into<String>, source: impl Into<Error>) -> Self {
        let (operation, source) = (operation.into(), source.into());
        let remedy = socket_remedy(source.kind());
        Self::Os { operation, source, remedy }
    }
}
