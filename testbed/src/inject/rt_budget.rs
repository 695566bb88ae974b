//! Real-time throttling: the kernel stops SCHED_FIFO threads that have used up their time of a period.

use super::Injection;
use super::setting::Setting;
use crate::phase;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Period and time of the root group of version 1's cpu controller (kernels with CONFIG_RT_GROUP_SCHED).
const PERIOD: &str = "/sys/fs/cgroup/cpu/cpu.rt_period_us";
const RUNTIME: &str = "/sys/fs/cgroup/cpu/cpu.rt_runtime_us";
/// Switch of all throttling: -1 is off, anything else leaves it to the groups.
const SWITCH: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const OFF: &str = "-1";

/// Lets SCHED_FIFO threads run `runtime_us` of each `period_us` on every CPU while injection is on, and all the time while
/// it is off. The kernel looks at its ticks only, so periods of a few ticks are the shortest that do anything.
///
/// # Errors
/// A kernel whose groups have no real-time budget.
pub fn throttle(runtime_us: u32, period_us: u32) -> io::Result<Injection> {
    if !Path::new(RUNTIME).exists() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "no cpu.rt_runtime_us at /sys/fs/cgroup/cpu: this kernel has no real-time groups, and throttles nothing \
             since Linux 6.12",
        ));
    }
    // Put back in the order of this tuple: the period must never be shorter than the time in it.
    let kept = (Setting::keep(SWITCH)?, Setting::keep(PERIOD)?, Setting::keep(RUNTIME)?);
    let on = kept.0.before().to_owned();
    if on == OFF {
        return Err(io::Error::other("real-time throttling is switched off on this machine"));
    }
    kept.2.set(&runtime_us.to_string())?;
    kept.1.set(&period_us.to_string())?;
    Injection::spawn("inject-rt-budget", move |stop| {
        let (switch, ..) = &kept;
        while !stop.load(Ordering::Relaxed) {
            let now = phase::now_ns();
            let value = if phase::is_on(now) { on.as_str() } else { OFF };
            switch.set(value).expect("the switch was read when the injection began");
            phase::sleep_until(phase::next_block(now));
        }
    })
}
