//! Moving a thread between CPUs.

use super::{Injection, schedule};
use crate::phase;
use std::io;
use std::sync::atomic::Ordering;

/// Time that the thread stays away: many times what a machine does by itself meanwhile.
const AWAY_NS: u64 = 200_000;

/// Moves `thread` from `home` to `away` and back each `period_ns` while injection is on. Done by a thread on `home`,
/// so that `resident`, which runs on `away`, is disturbed by nothing but the moved thread; and it is made so heavy
/// that the moved thread does not get its turn there. Meanwhile `home` is idle: that the thread waits is due to the
/// move alone.
pub fn shuttle(thread: u32, resident: u32, home: u16, away: u16, period_ns: u64) -> io::Result<Injection> {
    schedule::nice(resident, -20)?;
    Injection::spawn("inject-migrate", move |stop| {
        schedule::bind(0, home).expect("the truth run starts with a CPU that exists");
        schedule::fifo(0, 60).expect("the truth run is started as root");
        let mut next = phase::now_ns();
        while !stop.load(Ordering::Relaxed) {
            next += period_ns;
            // Slept in the blocks without injection too: its own wake-ups are no part of what is judged.
            phase::sleep_until(next);
            if phase::is_on(next) {
                // The thread may end before the injection does; then there is nothing left to move.
                let _ = schedule::bind(thread, away);
                phase::sleep_until(phase::now_ns() + AWAY_NS);
                let _ = schedule::bind(thread, home);
            }
        }
    })
}
