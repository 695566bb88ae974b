//! Which control group the settings name, as the kernel tells groups apart.

use crate::config::ThreadsSettings;
use quaver_host::quota::{GroupMount, group_mounts};
use quaver_host::root::HostRoot;
use std::os::unix::fs::MetadataExt as _;

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ControlGroup {
    /// Its directory.
    pub(super) path: String,
    /// Its number within its hierarchy: that of the directory (include/linux/kernfs.h, `kernfs_ino`).
    pub(super) id: u64,
    /// Groups above it.
    pub(super) level: u32,
    /// A process instead of a group: its number.
    pub(super) process: u32,
    /// Of version 2; else of the hierarchy of version 1 with the controller `cpu`.
    pub(super) unified: bool,
}

/// The group that a table names, as it is now.
///
/// # Errors
/// There is none; the message says what to do.
pub(super) fn find(table: &ThreadsSettings, root: &HostRoot) -> Result<ControlGroup, String> {
    let mountinfo = root.text("proc/self/mountinfo").unwrap_or_default();
    let mounts = group_mounts(&mountinfo);
    if table.pid.is_some() || table.comm.is_some() {
        return process(table, root);
    }
    let path = match (&table.group, &table.unit) {
        (Some(path), _) => path.to_string_lossy().trim_end_matches('/').to_owned(),
        (None, Some(unit)) => {
            of_unit(unit, root, &mounts).ok_or_else(|| format!("no process runs in the unit {unit}"))?
        }
        (None, None) => return Err("no control group is named".to_owned()),
    };
    // `/sys/fs/cgroup/cpu` is a link where the hierarchy is mounted at `cpu,cpuacct`.
    let whole = std::fs::canonicalize(&path).map_err(|error| format!("open {path}: {error}"))?;
    let metadata = std::fs::metadata(&whole).map_err(|error| format!("open {path}: {error}"))?;
    let placed = place(&whole.to_string_lossy(), &mounts).filter(|_| metadata.is_dir());
    let (unified, level) = placed.ok_or_else(|| {
        format!("{path} is no control group of version 2 or of the controller cpu: /proc/PID/cgroup lists those of a process")
    })?;
    Ok(ControlGroup { path, id: metadata.ino(), level, unified, process: 0 })
}

/// The process that a table names; of several with the name, that with the lowest number.
fn process(table: &ThreadsSettings, root: &HostRoot) -> Result<ControlGroup, String> {
    let name = |pid: &u32| root.text(&format!("proc/{pid}/comm")).map(|name| name.trim().to_owned());
    let all = root.names("proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    let is_it = |pid: &u32| table.pid.is_none_or(|wanted| wanted == *pid);
    let mut named = all.filter(is_it).filter_map(|pid| Some((pid, name(&pid)?)));
    let found = named.by_ref().filter(|(_, name)| table.comm.as_ref().is_none_or(|comm| comm == name)).min();
    let (process, name) = found.ok_or("no such process runs")?;
    let path = format!("process {process} ({name})");
    Ok(ControlGroup { path, id: process.into(), level: 0, unified: false, process })
}

/// Hierarchy and level of a group's directory.
fn place(path: &str, mounts: &[GroupMount]) -> Option<(bool, u32)> {
    let inside = |mount: &GroupMount| {
        let rest = path.strip_prefix(mount.point.as_str())?;
        (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_owned())
    };
    let (mount, rest) = mounts
        .iter()
        .filter_map(|mount| Some((mount, inside(mount)?)))
        .max_by_key(|(mount, _)| mount.point.len())?;
    let depth = |path: &str| path.split('/').filter(|part| !part.is_empty()).count() as u32;
    Some((mount.unified, depth(&mount.part) + depth(&rest)))
}

/// Directory of a unit's group, of version 2 where there is one.
fn of_unit(unit: &str, root: &HostRoot, mounts: &[GroupMount]) -> Option<String> {
    let processes = root.names("proc").into_iter().filter(|name| name.parse::<u32>().is_ok());
    let groups: Vec<String> =
        processes.filter_map(|process| root.text(&format!("proc/{process}/cgroup"))).collect();
    [true, false].into_iter().find_map(|unified| {
        let mount = mounts.iter().find(|mount| mount.unified == unified)?;
        let lines = groups.iter().flat_map(|text| text.lines());
        let mut paths = lines.filter_map(|line| {
            let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
            let of_mount = if unified {
                controllers.is_empty()
            } else {
                controllers.split(',').any(|name| name == "cpu")
            };
            of_mount.then_some(group)
        });
        let group = paths.find_map(|group| {
            let whole = format!("{group}/");
            let end = whole.find(&format!("/{unit}/"))? + 1 + unit.len();
            Some(whole[..end].to_owned())
        })?;
        let inside =
            if mount.part == "/" { Some(group.as_str()) } else { group.strip_prefix(mount.part.as_str()) };
        Some(format!("{}{}", mount.point, inside?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
30 20 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
31 20 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 20 0:29 /box /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    #[test]
    fn a_directory_is_placed_in_its_hierarchy_and_others_are_none() {
        let mounts = group_mounts(MOUNTS);
        let at = |path: &str| place(path, &mounts);
        assert_eq!(at("/sys/fs/cgroup/cpu,cpuacct/a/b"), Some((false, 2)));
        assert_eq!(at("/sys/fs/cgroup/unified"), Some((true, 1)));
        assert_eq!(at("/sys/fs/cgroup/unified/a.slice"), Some((true, 2)));
        assert_eq!(at("/sys/fs/cgroup/memory/a"), None);
        assert_eq!(at("/sys/fs/cgroup/unifiedly"), None);
    }

    #[test]
    fn a_unit_is_found_by_its_processes_in_version_2_first() {
        let place = tempfile::tempdir().unwrap();
        let process = |number: u32, groups: &str| {
            let directory = place.path().join(format!("proc/{number}"));
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("cgroup"), groups).unwrap();
        };
        process(7, "4:cpu,cpuacct:/system.slice/tone.service\n0::/box/system.slice/tone.service/sub");
        process(8, "4:cpu,cpuacct:/system.slice/old.service\n0::/");
        let root = HostRoot::at(place.path());
        let unit = |name: &str| of_unit(name, &root, &group_mounts(MOUNTS));
        assert_eq!(unit("tone.service").as_deref(), Some("/sys/fs/cgroup/unified/system.slice/tone.service"));
        assert_eq!(
            unit("old.service").as_deref(),
            Some("/sys/fs/cgroup/cpu,cpuacct/system.slice/old.service")
        );
        assert_eq!(unit("one.service"), None);
    }
}
