//! What a host has done to a guest while a command runs there: on a machine of others it would be out of the question.

use anyhow::Context;
use quaver_study::verb::request::{Fault, FaultKind};
use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};
use std::time::Duration;

/// Waits until it is time, and does it.
///
/// # Errors
/// The machine does not let it happen.
pub(super) fn happen(fault: Fault) -> anyhow::Result<()> {
    let after = Duration::from_nanos(fault.after_ns);
    std::thread::sleep(after);
    match fault.what {
        FaultKind::StepClock(by_ns) => {
            let now = Duration::try_from(clock_gettime(ClockId::Realtime)).context("reading the clock")?;
            let then =
                Timespec::try_from(now + Duration::from_nanos(by_ns)).context("adding to the clock")?;
            clock_settime(ClockId::Realtime, then).context("setting the clock")
        }
        FaultKind::Offline(cpu) => {
            switch(cpu, "0")?;
            std::thread::sleep(after);
            switch(cpu, "1")
        }
    }
}

fn switch(cpu: u16, on: &str) -> anyhow::Result<()> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    std::fs::write(&path, on).with_context(|| format!("writing {on} to {path}"))
}
