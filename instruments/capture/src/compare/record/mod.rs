//! The comparison of pipelines by the paper's checkpoint method: what one stamp costs on the path of a real
//! packet.
//!
//! ```text
//! user space                                      kernel (a stock one, by its own tracepoints)
//!
//! receive call returns                            net:netif_rx_entry ─┐ checkpoint, raw cycles
//! checkpoint, raw cycles ──┐                      stamp of the kernel │ (where somebody asked for stamps)
//! stamp by one pipeline    │ the difference       net:netif_rx ───────┘ checkpoint, raw cycles
//! checkpoint, raw cycles ──┘
//! ```
//!
//! The cost of the checkpoints themselves is measured in the same run, by blocks in which nothing (or, in the
//! kernel, no stamp) lies between them. Blocks of all arms alternate in an order that the caller draws at random.

mod kernel;
mod libpcap;
mod peer;
mod receive;

pub use kernel::{
    Checkpoints, KernelArm, KernelComparison, KernelOutcome, KernelPlan, KernelSample, TRACE_CLOCK,
    stamped_for_others,
};
pub use libpcap::{LibpcapCount, LibpcapPlan, count_by_libpcap};
pub use peer::{Peer, PeerCommand, PeerOutcome};
pub use receive::{ArmCost, Received, ReceiverPlan, Receiving, Sample, start};

use crate::pipeline::PipelineError;
use quaver_probe::thread::SettingRefused;

/// A comparison could not be set up or went wrong.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A setting that the receiving thread requires.
    #[error("receiving thread: {0}")]
    Thread(#[from] SettingRefused),
    /// A pipeline did not start.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// The kernel's tracer.
    #[error(transparent)]
    Trace(#[from] quaver_host::trace::TraceError),
    /// Anything else.
    #[error("{operation}: {source}")]
    Os {
        /// What was tried, on what.
        operation: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl CompareError {
    fn os(operation: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::Os { operation: operation.into(), source: source.into() }
    }
}

#[cfg(test)]
mod tests;
