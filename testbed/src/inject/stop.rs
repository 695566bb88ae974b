//! Stopping a whole process for a while, again and again: by signals, and by the freezer of a control group.

use super::Injection;
use crate::phase;
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Stops `process` for `stopped_ns` of each `period_ns` by SIGSTOP and SIGCONT. The process must not be waited for before the
/// injection was dropped.
///
/// # Errors
/// There is no such process, or it may not be signalled.
pub fn by_signal(process: u32, stopped_ns: u64, period_ns: u64) -> io::Result<Injection> {
    let pid = pid_of(process)?;
    kill_process(pid, Signal::CONT)?;
    Injection::spawn("inject-stop", move |stop| {
        while !stop.load(Ordering::Relaxed) {
            // The process may have ended by itself; then there is nothing left to stop.
            let _ = kill_process(pid, Signal::STOP);
            phase::sleep_until(phase::now_ns() + stopped_ns);
            let _ = kill_process(pid, Signal::CONT);
            phase::sleep_until(phase::now_ns() + period_ns - stopped_ns);
        }
    })
}

/// Freezes `process` for `frozen_ns` of each `period_ns` by a control group of version 2.
///
/// # Errors
/// No control group file system of version 2, or one without a freezer.
pub fn by_freezer(process: u32, frozen_ns: u64, period_ns: u64) -> io::Result<Injection> {
    let group = FreezerGroup::create(process)?;
    Injection::spawn("inject-freeze", move |stop| {
        while !stop.load(Ordering::Relaxed) {
            group.set_frozen(true).expect("the switch was written when the group was made");
            phase::sleep_until(phase::now_ns() + frozen_ns);
            group.set_frozen(false).expect("the switch was written when the group was made");
            phase::sleep_until(phase::now_ns() + period_ns - frozen_ns);
        }
    })
}

fn pid_of(process: u32) -> io::Result<Pid> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("no process has the number {process}"))
    })
}

/// A control group with one process, thawed, left and removed when dropped.
struct FreezerGroup {
    path: PathBuf,
    process: u32,
    /// Where the process was before.
    home: PathBuf,
}

impl FreezerGroup {
    fn create(process: u32) -> io::Result<Self> {
        let unsupported = |what: &str| io::Error::new(io::ErrorKind::Unsupported, what.to_owned());
        let mounts = std::fs::read_to_string("/proc/mounts")?;
        let root = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .find(|words| words.get(2) == Some(&"cgroup2"))
            .map(|words| PathBuf::from(words[1]))
            .ok_or_else(|| unsupported("no control groups of version 2 are mounted"))?;
        let groups = std::fs::read_to_string(format!("/proc/{process}/cgroup"))?;
        let home = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let group = Self {
            path: root.join(format!("quaver-truth-{}", std::process::id())),
            process,
            home: root.join(home),
        };
        std::fs::create_dir(&group.path)?;
        if !Path::exists(&group.path.join("cgroup.freeze")) {
            return Err(unsupported("control groups of version 2 have no freezer here"));
        }
        std::fs::write(group.path.join("cgroup.procs"), process.to_string())?;
        group.set_frozen(false)?;
        Ok(group)
    }

    fn set_frozen(&self, frozen: bool) -> io::Result<()> {
        std::fs::write(self.path.join("cgroup.freeze"), if frozen { "1" } else { "0" })
    }
}

impl Drop for FreezerGroup {
    fn drop(&mut self) {
        let _ = self.set_frozen(false);
        // The process may be gone already; then the group is empty and can be removed all the same.
        let _ = std::fs::write(self.home.join("cgroup.procs"), self.process.to_string());
        if let Err(error) = std::fs::remove_dir(&self.path) {
            eprintln!("truth: removing control group {}: {error}", self.path.display());
        }
    }
}
