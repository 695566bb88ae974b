//! `quaver sync`: what a threaded program loses waking its threads up.

pub mod args;
pub mod bench;
#[cfg(feature = "bpf")]
pub mod bpf;
pub mod compensate;
pub mod digest;
mod drawing;
mod head;
pub mod record;
pub mod verb;
pub mod view;
pub mod what_if;
