//! Programs of others: what a program is, how it is started under the recorder, and which signals it gets.

pub mod launch;
pub mod program;
pub mod recorder;
pub mod signals;
