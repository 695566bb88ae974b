//! A machine of our own to measure in: QEMU, emulating all of it in virtual time, with a stock kernel of Debian and this
//! program as its only one.
//!
//! Time in such a guest goes by instructions executed and not by the host's clock (`-icount`), so that it is the same however
//! busy the host is. Its absolute figures say nothing of any real machine; contrasts between settings do, because drivers,
//! interrupts, scheduler and network stack are the kernel's own.

pub mod plugin;

pub mod cpio;
pub mod guest;
pub mod image;
pub mod libraries;
pub mod marks;
pub mod osnoise;
pub mod process;
pub mod store;
pub mod view;

use std::path::PathBuf;

/// Model of the interfaces: QEMU emulates their interrupt throttling.
pub const INTERFACE: &str = "e1000e";
/// Model of interfaces that have a clock: QEMU emulates it, stamps of sent packets, and of received PTP messages of layer 2.
pub const CLOCKED: &str = "igb";
/// One interrupt a packet: legacy interrupts, no throttling, no delays. A value for each of the two interfaces.
pub const PARAMETERS: &str = "IntMode=0,0 InterruptThrottleRate=0,0 RxIntDelay=0,0 RxAbsIntDelay=0,0";

/// Why a guest could not be had.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// Something that the lab is made of is not there.
    #[error("{what}; `quaver lab fetch` gets it, `quaver lab doctor qemu` says what else is missing")]
    Missing {
        /// What, and where it was looked for.
        what: String,
    },
    /// A file could not be read, made or written.
    #[error("{operation} {path}: {source}", path = path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Something else that the system refused.
    #[error("{operation}: {source}")]
    Os {
        /// What was tried, on what.
        operation: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The guest or QEMU ended before it had done what it was asked.
    #[error("the guest ended early: {why}")]
    Ended {
        /// What it said last.
        why: String,
    },
}

impl GuestError {
    fn os(operation: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::Os { operation: operation.into(), source: source.into() }
    }
}
