//! Analysis of captures and of ways to stamp packets. No I/O, no clock, no unsafe.
#![forbid(unsafe_code)]

pub mod compare;
pub mod flows;
