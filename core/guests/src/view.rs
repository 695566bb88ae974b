//! The machine's settings as they are seen from one end of a lab, whose interface no other place shows.

use quaver_host::netns::{LabEnd, LabError};
use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, move_mount,
    open_tree,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::os::fd::OwnedFd;

/// What other file systems are mounted on below `/sys`, where they are.
const BELOW: [&str; 3] = ["/sys/fs/cgroup", "/sys/fs/resctrl", "/sys/kernel/debug"];

/// Runs `body` on a short-lived thread in the end's network namespace, and with a `/sys` that shows it: sysfs ties what it shows
/// to the namespace that it was mounted in. What the thread mounts is its own and goes with it; files elsewhere are the same.
///
/// # Errors
/// Where namespaces or mounts are not permitted. A panic of `body` goes on in the caller.
pub fn within<T: Send>(end: &LabEnd, body: impl FnOnce() -> T + Send) -> Result<T, LabError> {
    end.within(|| {
        mount_own_sys().map_err(|source| LabError::Os {
            operation: format!("mount a view of /sys that shows {}", end.interface),
            source: source.into(),
        })?;
        Ok(body())
    })?
}

fn mount_own_sys() -> rustix::io::Result<()> {
    // SAFETY: the thread was made for this, and shares no more than open descriptors with the others afterwards; its
    // working directory and root stay the same places, seen through a copy of the mounts.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let kept: Vec<(&str, OwnedFd)> =
        BELOW.iter().filter_map(|place| Some((*place, open_tree(CWD, *place, flags).ok()?))).collect();
    mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None::<&std::ffi::CStr>)?;
    for (place, tree) in kept {
        // A place that is nothing but a folder of sysfs is there anew, and cannot be mounted twice.
        let _ = move_mount(&tree, "", CWD, place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_host::netns::Lab;
    use quaver_testbed::privileged::privileged;
    use std::path::Path;

    #[test]
    fn an_end_of_a_lab_is_seen_in_its_own_sys_and_nowhere_else() {
        if !privileged("an_end_of_a_lab_is_seen_in_its_own_sys_and_nowhere_else") {
            return;
        }
        let lab = Lab::create().unwrap();
        let path = format!("/sys/class/net/{}/ifindex", lab.sink.interface);
        assert!(!Path::new(&path).exists());
        let groups = std::fs::read_dir("/sys/fs/cgroup").map(Iterator::count).unwrap_or(0);
        let (index, inside) = within(&lab.sink, || {
            let groups = std::fs::read_dir("/sys/fs/cgroup").map(Iterator::count).unwrap_or(0);
            (std::fs::read_to_string(&path).unwrap(), groups)
        })
        .unwrap();
        assert_eq!(index.trim(), lab.sink.interface_index.to_string());
        assert_eq!(inside, groups, "control groups are still there");
        assert!(!Path::new(&path).exists(), "the thread's mounts went with it");
    }
}
