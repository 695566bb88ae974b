//! Frequencies and voltages of a core, and the controller that gives back by speed what jitter took (the paper's 4.1.6).
//!
//! ```text
//! subframe n                         subframe n + 1
//! ran, lost J, at this point ──────> J += lost - won;  τ(f) = τ(f0) - J / k;  nearest point of the table ──> f
//! ```

pub mod controller;
pub mod deadline;
pub mod debt;
pub mod table;
pub mod what_if;

pub use controller::{Controller, ControllerConfig, Kind, SubframeTimes};
pub use debt::{Arrival, CriticalPath};
pub use table::{CoreResidency, OperatingPoint, Policy, Table};
