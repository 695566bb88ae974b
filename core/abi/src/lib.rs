//! Layouts that every producer of measurements shares, and the arithmetic that turns raw cycles into time.
//!
//! Nothing here touches the operating system. The records are fixed in size, drawn byte by byte, and their
//! sizes are asserted at compile time, because a raw segment outlives the program that wrote it.
#![no_std]
#![forbid(unsafe_code)]

pub mod compensation;
pub mod cycles;
pub mod guest_marks;
pub mod kernel_side;
pub mod marks;
pub mod record;
pub mod segment;
pub mod stamp;
pub mod sync;
pub mod wire;
