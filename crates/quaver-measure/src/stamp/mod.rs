//! The stamp: packets captured with every stamp that this machine can give, the pipelines that turn raw cycles
//! into time, and the comparison between them.

pub mod capture;
pub mod compare;
pub mod pipeline;
