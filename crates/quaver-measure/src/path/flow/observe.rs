//! Segments below a TCP flow.

/// What was seen below the transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {}
