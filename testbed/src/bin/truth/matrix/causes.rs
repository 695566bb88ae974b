//! What is injected, and which identifiers are right for it.

use super::program::{Program, silent};
use quaver_testbed::inject::{kernel_work, migrate, quota, stop, thread, timer, traffic};
use std::any::Any;
use std::io;
use std::path::Path;

/// CPU of the source and of the tool.
pub(super) const SOURCE_CPU: u16 = 0;
/// CPU of the receiver.
pub(super) const RECEIVER_CPU: u16 = 1;

/// A receiver that runs.
pub(super) struct Target<'a> {
    pub(super) receiver: u32,
    pub(super) source: u32,
    /// Part of its CPU that the receiver uses when it is left alone.
    pub(super) used_share: f64,
    /// A folder on a disk.
    pub(super) folder: &'a Path,
}

/// Something that ends its interference when it is dropped.
pub(super) type Guard = Box<dyn Any>;

/// Who makes the receiver late.
pub(super) enum How {
    /// The receiver itself: what it is told to do each 250 packets.
    Deed(&'static str),
    /// Somebody else.
    Inject(fn(&Target) -> io::Result<Guard>),
}

/// Policies under which a cause does anything.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Under {
    Any,
    Fifo,
    Normal,
}

/// A cause of lateness.
pub(super) struct Cause {
    pub(super) name: &'static str,
    pub(super) how: How,
    pub(super) under: Under,
    /// A program that the injection needs.
    pub(super) needs: Option<&'static str>,
    /// What is right, by identifier of the catalogue. After a space follows what the name must begin with, where the
    /// identifier alone is shared with innocents. All that the injected work makes the kernel do on the receiver's CPU counts.
    pub(super) right: &'static [&'static str],
}

const fn deed(name: &'static str, right: &'static [&'static str]) -> Cause {
    Cause { name, how: How::Deed(name), under: Under::Any, needs: None, right }
}

const fn injected(
    name: &'static str,
    under: Under,
    right: &'static [&'static str],
    inject: fn(&Target) -> io::Result<Guard>,
) -> Cause {
    Cause { name, how: How::Inject(inject), under, needs: None, right }
}

const fn by_program(
    name: &'static str,
    under: Under,
    program: &'static str,
    right: &'static [&'static str],
    inject: fn(&Target) -> io::Result<Guard>,
) -> Cause {
    Cause { name, how: How::Inject(inject), under, needs: Some(program), right }
}

const STOPPED_NS: u64 = 20_000_000;
const STOP_EACH_NS: u64 = 250_000_000;
const QUOTA_PERIOD_US: u32 = 100_000;

/// What writing files makes the kernel do on the CPU of the writer.
const DISK_WORK: &[&str] =
    &["kernel-work", "writeback", "dev-irq", "softirq-other", "wq-bound", "wq-unbound"];

/// All of them.
pub(super) const ALL: [Cause; 22] = [
    injected("sigstop", Under::Any, &["stopped"], |target| {
        Ok(Box::new(stop::by_signal(target.receiver, STOPPED_NS, STOP_EACH_NS)?))
    }),
    injected("freezer", Under::Any, &["frozen"], |target| {
        Ok(Box::new(stop::by_freezer(target.receiver, STOPPED_NS, STOP_EACH_NS)?))
    }),
    by_program("strace", Under::Any, "strace", &["traced"], |target| {
        let mut command = silent("strace");
        command.args(["-f", "-o", "/dev/null", "-p", &target.receiver.to_string()]);
        Ok(Box::new(Program::start(command, SOURCE_CPU, None)?))
    }),
    deed("sleep", &["own-sleep"]),
    deed("timerfd", &["own-sleep"]),
    deed("lock", &["lock"]),
    deed("lock-sleep", &["lock"]),
    deed("pipe", &["peer-wait"]),
    // The time in the call itself is part of the deed.
    deed("disk", &["disk", "own-call"]),
    deed("compute", &["own-code"]),
    deed("gc", &["own-code"]),
    // Giving the pages back is a call of the deed.
    deed("faults", &["faults", "own-call"]),
    // A little more than it needs: it waits for its next period now and then.
    injected("quota", Under::Normal, &["quota"], |target| quota_of(target, 1.1)),
    injected("quota-behind", Under::Normal, &["quota"], |target| quota_of(target, 0.6)),
    injected("kernel-work", Under::Any, &["kernel-work", "cfs-preempt thread inject-kernel"], |_| {
        Ok(Box::new(kernel_work::semaphores(RECEIVER_CPU)?))
    }),
    by_program("hdd", Under::Fifo, "stress-ng", DISK_WORK, |target| stress(target, "--hdd")),
    by_program("cache", Under::Fifo, "stress-ng", &["kernel-work", "cache/mem-bw"], |target| {
        stress(target, "--cache")
    }),
    injected("fifo-burst", Under::Any, &["rt-thread thread inject-fifo"], |_| {
        Ok(Box::new(thread::fifo_ticker(RECEIVER_CPU, 1_000_000, 20_000_000)?))
    }),
    injected("competing", Under::Normal, &["cfs-preempt thread inject-normal"], |_| {
        Ok(Box::new(thread::normal_hog(RECEIVER_CPU)?))
    }),
    // Steering takes the stream's own packets to the receiver's CPU too.
    injected("other-traffic", Under::Any, &["net-rx", "rps", "own-packets"], |_| {
        Ok(Box::new(traffic::steered(RECEIVER_CPU, SOURCE_CPU, 40, 4_000_000)?))
    }),
    injected(
        "migration",
        Under::Any,
        &[
            "migration",
            "stopper",
            "rt-thread thread inject-migrate",
            "ipi-resched reschedule interrupt from inject-migrate",
        ],
        |target| {
            Ok(Box::new(migrate::shuttle(
                target.receiver,
                target.source,
                RECEIVER_CPU,
                SOURCE_CPU,
                10_000_000,
            )?))
        },
    ),
    injected("timers", Under::Any, &["timers", "timer-irq"], |_| {
        Ok(Box::new(timer::volley(RECEIVER_CPU, 400, 5_000_000)?))
    }),
];

fn quota_of(target: &Target, share: f64) -> io::Result<Guard> {
    // The kernel takes no quota below 1 ms.
    let quota_us = (target.used_share * share * f64::from(QUOTA_PERIOD_US)) as u32;
    Ok(Box::new(quota::hold(target.receiver, quota_us.max(1_000), QUOTA_PERIOD_US)?))
}

fn stress(target: &Target, stressor: &str) -> io::Result<Guard> {
    let mut command = silent("stress-ng");
    command.args(["--quiet", stressor, "1", "--temp-path"]).arg(target.folder);
    Ok(Box::new(Program::start(command, RECEIVER_CPU, None)?))
}
