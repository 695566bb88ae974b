//! The host: what it is, what it lets us see, the kernel events that it shows, and its settings.

pub mod bpf;
pub mod capabilities;
pub mod confinement;
pub mod counters;
pub mod cpufreq;
pub mod ethtool;
pub mod facts;
#[cfg(test)]
mod fake;
pub mod hazards;
pub mod ifreq;
pub mod interface;
pub mod names;
pub mod netns;
pub mod quota;
pub mod root;
pub mod route;
pub mod segment;
pub mod settings;
pub mod sockets;
pub mod stamp_module;
pub mod stat;
pub mod symbols;
pub mod timens;
pub mod trace;
pub mod tracefs;
