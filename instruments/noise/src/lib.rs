//! `quaver noise`: what interrupts a busy loop.

pub mod args;
pub mod digest;
pub mod html;
pub mod page;
pub mod record;
