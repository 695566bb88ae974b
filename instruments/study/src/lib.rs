//! `quaver study`: what each source of lateness costs.

pub mod args;
pub mod digest;
pub mod request;
pub mod stamps;
pub mod verb;
pub mod view;
