//! The host: what it is, what it lets us see, and the kernel events that it shows.

pub mod capabilities;
pub mod counters;
pub mod cpufreq;
pub mod ethtool;
pub mod facts;
#[cfg(test)]
mod fake;
pub mod hazards;
pub(crate) mod ifreq;
pub mod interface;
pub mod names;
pub mod netns;
pub mod quota;
pub mod root;
pub(crate) mod route;
pub mod sockets;
pub mod trace;
pub mod tracefs;
