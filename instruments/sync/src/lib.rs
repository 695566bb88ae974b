//! `quaver sync`: what a threaded program loses waking its threads up.

pub mod args;
pub mod bench;
#[cfg(feature = "bpf")]
pub mod bpf;
pub mod compensate;
pub mod digest;
mod drawing;
mod head;
pub mod html;
pub mod page;
pub mod record;
pub mod verb;
pub mod what_if;
