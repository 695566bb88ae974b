//! The two hosts of a test.

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The one that asked for the test.
    Client,
    /// The one that serves.
    Server,
}
