//! `quaver capture`: packets with every stamp that this machine gives.

pub mod args;
#[cfg(feature = "bpf")]
pub mod bpf;
pub mod capture;
pub mod compare;
pub mod digest;
pub mod frames;
pub mod page;
pub mod pipeline;
pub mod record;
