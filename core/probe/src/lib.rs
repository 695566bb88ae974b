//! The instruments of the packet and noise measurements, and the threads that they measure on.

mod error;
pub mod noise;
pub mod profile;
pub mod schedule;
pub mod sink;
pub mod socket;
pub mod source;
pub mod thread;
mod worker;

pub use error::ProbeError;
pub use socket::SendOptions;
