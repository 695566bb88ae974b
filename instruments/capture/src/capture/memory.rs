//! Memory for the rings: the kernel locks it, so more than there is would have it end other programs.

use quaver_host::root::HostRoot;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_view::Cell;
use std::path::Path;

/// Share of the memory that is there which rings may take, as a fraction.
const MOST: (u64, u64) = (3, 4);

/// Refuses rings of more bytes than are free on the host or in the control group, less a reserve.
pub(super) fn check(rings_bytes: u64, root: &HostRoot) -> anyhow::Result<()> {
    let free = [(host(root), "free on this host"), (group(root), "left to this control group")];
    let least = free.into_iter().filter_map(|(bytes, whose)| Some((bytes?, whose))).min();
    let Some((free, whose)) = least else { return Ok(()) };
    let most = free / MOST.1 * MOST.0;
    if rings_bytes <= most {
        return Ok(());
    }
    Err(failure(
        ExitCode::Usage,
        format!(
            "--buffer: rings of {} bytes in all do not fit: {} bytes are {whose}, and rings may take {} of them",
            Cell::Count(rings_bytes),
            Cell::Count(free),
            Cell::Count(most)
        ),
    ))
}

/// Bytes that the host can give without swapping.
fn host(root: &HostRoot) -> Option<u64> {
    let text = root.text("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Bytes that the control group and those above it leave; none without a limit.
fn group(root: &HostRoot) -> Option<u64> {
    let groups = root.text("/proc/self/cgroup")?;
    let of = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let files = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max", "memory.current")
        } else if controllers.split(',').any(|name| name == "memory") {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
        } else {
            return None;
        };
        left(root, path, files)
    };
    groups.lines().filter_map(of).min()
}

fn left(root: &HostRoot, path: &str, (base, most, used): (&str, &str, &str)) -> Option<u64> {
    let of = |group: &Path| {
        let file = |name| format!("{base}{}/{name}", group.to_string_lossy().trim_end_matches('/'));
        let most: u64 = root.value(&file(most))?;
        Some(most.saturating_sub(root.value(&file(used))?))
    };
    Path::new(path).ancestors().filter_map(of).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_of(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn refused(bytes: u64, files: &[(&str, &str)]) -> Option<String> {
        let folder = host_of(files);
        check(bytes, &HostRoot::at(folder.path())).err().map(|error| format!("{error:#}"))
    }

    const HOST: (&str, &str) = ("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    4000 kB\n");

    #[test]
    fn rings_take_three_quarters_of_what_is_free_and_no_more() {
        assert_eq!(refused(3_000 * 1024, &[HOST]), None);
        assert!(refused(3_000 * 1024 + 1, &[HOST]).unwrap().contains("free on this host"));
        assert_eq!(refused(u64::MAX, &[]), None);
    }

    #[test]
    fn a_control_group_limits_and_so_do_those_above_it() {
        let second = [
            HOST,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "1000000\n"),
            ("sys/fs/cgroup/a/memory.current", "200000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "100000\n"),
        ];
        assert_eq!(refused(600_000, &second), None);
        assert!(refused(600_001, &second).unwrap().contains("left to this control group"));
        let first = [
            HOST,
            ("proc/self/cgroup", "5:cpu:/x\n4:memory:/a\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "800000\n"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "0\n"),
        ];
        assert_eq!(refused(600_000, &first), None);
        assert!(refused(600_001, &first).is_some());
    }
}
