//! Another thread on the sink's CPU.

use super::{Injection, schedule};
use crate::phase;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// A SCHED_FIFO thread that runs `busy_ns` each `period_ns`.
pub fn fifo_ticker(cpu: u16, busy_ns: u64, period_ns: u64) -> io::Result<Injection> {
    Injection::spawn("inject-fifo", move |stop| {
        schedule::bind(0, cpu).expect("the truth run starts with a CPU that exists");
        schedule::fifo(0, 80).expect("the truth run is started as root");
        let mut next = phase::now_ns();
        while !stop.load(Ordering::Relaxed) {
            next += period_ns;
            phase::sleep_until(next);
            if phase::is_on(next) {
                burn_until(next + busy_ns);
            }
        }
    })
}

/// A thread of normal priority that never sleeps while injection is on.
pub fn normal_hog(cpu: u16) -> io::Result<Injection> {
    Injection::spawn("inject-normal", move |stop: &AtomicBool| {
        schedule::bind(0, cpu).expect("the truth run starts with a CPU that exists");
        while !stop.load(Ordering::Relaxed) {
            let now = phase::now_ns();
            if phase::is_on(now) {
                burn_until(now + 100_000);
            } else {
                phase::sleep_until(phase::next_block(now));
            }
        }
    })
}

/// Uses the CPU until an instant.
pub fn burn_until(monotonic_ns: u64) {
    while phase::now_ns() < monotonic_ns {
        std::hint::spin_loop();
    }
}
