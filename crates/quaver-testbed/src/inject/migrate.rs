//! Moving a thread between CPUs.

use super::{Injection, schedule};
use crate::phase;
use std::io;
use std::sync::atomic::Ordering;

/// Moves `thread` from `home` to `away` and back each `period_ns` while injection is on. Done by a thread on `home`,
/// so that the source, which may share `away` with nobody else, is disturbed by nothing but the moved thread.
pub fn shuttle(thread: u32, home: u16, away: u16, period_ns: u64) -> io::Result<Injection> {
    Injection::spawn("inject-migrate", move |stop| {
        schedule::bind(0, home).expect("the truth run starts with a CPU that exists");
        schedule::fifo(0, 60).expect("the truth run is started as root");
        let mut next = phase::now_ns();
        while !stop.load(Ordering::Relaxed) {
            next += period_ns;
            phase::sleep_until(next);
            if phase::is_on(next) {
                // The thread may end before the injection does; then there is nothing left to move.
                let _ = schedule::bind(thread, away);
                let _ = schedule::bind(thread, home);
            }
        }
    })
}
