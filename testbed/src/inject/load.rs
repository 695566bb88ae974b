//! A host that is busy with something else.

use super::thread::burn_until;
use super::{Injection, schedule};
use crate::phase;
use std::io;
use std::sync::atomic::Ordering;

const PERIOD_NS: u64 = 4_000_000;
const BUSY_NS: u64 = 1_000_000;

/// A thread of normal priority that uses a quarter of `cpu`.
pub fn quarter(cpu: u16) -> io::Result<Injection> {
    Injection::spawn("load", move |stop| {
        schedule::bind(0, cpu).expect("the truth run starts with a CPU that exists");
        while !stop.load(Ordering::Relaxed) {
            let start_ns = phase::now_ns();
            burn_until(start_ns + BUSY_NS);
            phase::sleep_until(start_ns + PERIOD_NS);
        }
    })
}
