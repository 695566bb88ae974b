//! Voltage and frequency scaling that gives lost time back: tables, controllers, power. No I/O, no clock, no unsafe.
#![forbid(unsafe_code)]

pub mod dvfs;
pub mod normal;
pub mod power;
