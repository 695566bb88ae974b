//! A relay between a client and a server that does to their packets what a script says, and knows what it did.
//!
//! Which packet suffers what follows from the seed and the packet's arrival number in its direction, so two runs with
//! the same script have the same fates. Decisions ([`fate`]) and waiting ([`lane`]) are free of I/O and clocks;
//! `udp` and `tcp` move bytes. [`truth`] counts from the log what a right receiver must count.

mod control;
pub mod fate;
pub mod lane;
pub mod log;
pub mod packet;
pub mod random;
mod report;
mod run;
pub mod script;
mod tcp;
pub mod truth;
mod udp;

pub use report::{BothTotals, Keep, Report, Totals};
pub use run::{Relay, RelayOptions};

#[cfg(test)]
mod tests;
