//! The host: what it is, what it lets us see, and the kernel events that it shows.

pub mod trace;
