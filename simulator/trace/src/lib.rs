//! Traces of programs: which blocks of instructions each thread ran, where they read and wrote, and how the threads
//! waited for each other.
//!
//! Pure: no clock, no unsafe, and bytes come from and go to whatever the caller gives. The QEMU plugin writes what is here
//! and the simulator reads it. The layout of files is drawn in [`file`], that of steps in [`frame`].
#![forbid(unsafe_code)]

pub mod armour;
pub mod block;
pub(crate) mod container;
pub mod decode;
mod dictionary;
pub mod epochs;
pub mod file;
pub mod frame;
pub mod import;
pub mod meetings;
pub mod step;
pub mod summary;
mod varint;
