//! `quaver study`: what each source of lateness costs.

pub mod args;
pub mod digest;
pub mod html;
pub mod page;
pub mod stamps;
pub mod verb;
