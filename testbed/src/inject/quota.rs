//! A CPU quota on one thread or one process, by the control group file system (version 1, or threaded groups of version 2).

use super::Injection;
use crate::phase;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// A control group made for this injection; removed when dropped.
struct Group {
    path: PathBuf,
    /// Where the thread or process goes back to.
    parent: PathBuf,
    quota: PathBuf,
    on: String,
    off: String,
    number: u32,
}

/// Lets `thread` run `quota_us` of each `period_us` while injection is on.
pub fn throttle(thread: u32, quota_us: u32, period_us: u32) -> io::Result<Injection> {
    let group = Group::create("tasks", thread, quota_us, period_us)?;
    Injection::spawn("inject-quota", move |stop| {
        while !stop.load(Ordering::Relaxed) {
            let now = phase::now_ns();
            let value = if phase::is_on(now) { &group.on } else { &group.off };
            std::fs::write(&group.quota, value).expect("the quota file was written when the group was made");
            phase::sleep_until(phase::next_block(now));
        }
    })
}

/// Lets the whole `process` run `quota_us` of each `period_us` until the injection is dropped.
///
/// # Errors
/// No version 1 cpu controller, or a process that may not be moved into a group.
pub fn hold(process: u32, quota_us: u32, period_us: u32) -> io::Result<Injection> {
    let group = Group::create("cgroup.procs", process, quota_us, period_us)?;
    std::fs::write(&group.quota, &group.on)?;
    Injection::spawn("inject-quota", move |stop| {
        while !stop.load(Ordering::Relaxed) {
            phase::sleep_until(phase::next_block(phase::now_ns()));
        }
        drop(group);
    })
}

impl Group {
    /// A group without a quota, with the thread or process of this number in it; `members` is the file that lists them.
    fn create(members: &str, number: u32, quota_us: u32, period_us: u32) -> io::Result<Self> {
        let name = format!("quaver-truth-{}", std::process::id());
        let version_1 = Path::new("/sys/fs/cgroup/cpu");
        if version_1.join("cpu.cfs_quota_us").exists() || version_1.join("tasks").exists() {
            let path = version_1.join(name);
            std::fs::create_dir(&path)?;
            let group = Self {
                parent: version_1.join(members),
                quota: path.join("cpu.cfs_quota_us"),
                on: quota_us.to_string(),
                off: "-1".into(),
                path,
                number,
            };
            std::fs::write(group.path.join("cpu.cfs_period_us"), period_us.to_string())?;
            std::fs::write(&group.quota, &group.off)?;
            std::fs::write(group.path.join(members), number.to_string())?;
            return Ok(group);
        }
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "no version 1 cpu controller at /sys/fs/cgroup/cpu: a single thread cannot be given a quota here",
        ))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It may be gone already; then the group is empty and can be removed all the same.
        let _ = std::fs::write(&self.parent, self.number.to_string());
        if let Err(error) = std::fs::remove_dir(&self.path) {
            eprintln!("truth: removing control group {}: {error}", self.path.display());
        }
    }
}
