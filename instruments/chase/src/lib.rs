//! `quaver chase`, `quaver source` and `quaver sink`: a packet stream, and what makes its packets late.

pub mod args;
pub mod chase;
pub mod far_source;
pub mod first_look;
pub mod sink;
pub mod source;
pub mod stream_plan;
