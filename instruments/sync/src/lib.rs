//! `quaver sync`: what a threaded program loses waking its threads up.

pub mod args;
pub mod bench;
pub mod compensate;
pub mod digest;
pub mod html;
pub mod page;
pub mod record;
pub mod verb;
pub mod what_if;
