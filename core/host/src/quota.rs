//! CPU quotas of control groups: the limit that stops a whole group until its next period begins.
//!
//! Version 1 shows `cpu.cfs_quota_us` and `throttled_time` in nanoseconds; version 2 shows `cpu.max` and
//! `throttled_usec`. A process is stopped by its own group's quota or by any group's above, so all are read.

use super::root::HostRoot;
use serde::{Deserialize, Serialize};

/// One group on the way from a process up to the root of its hierarchy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaLevel {
    /// The group's directory.
    pub directory: String,
    /// CPU time that the group may use in each period, in microseconds; none: no limit.
    pub quota_us: Option<u64>,
    /// Length of a period, in microseconds.
    pub period_us: Option<u64>,
    /// Periods that ran since the group was made (between readings, after [`QuotaReading::since`]).
    pub periods: u64,
    /// Periods in which the group was stopped.
    pub throttled_periods: u64,
    /// Time that the group was stopped, over all CPUs, in nanoseconds.
    pub throttled_ns: u64,
}

/// Quotas over a process, own group first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaReading {
    /// Groups that show CPU quotas. Empty: no quota controller, or the hierarchy is not mounted here.
    pub levels: Vec<QuotaLevel>,
}

impl QuotaReading {
    /// Reads the quotas over a process; `None` is this process.
    pub fn read(root: &HostRoot, pid: Option<u32>) -> Self {
        let process = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
        let groups = root.text(&format!("proc/{process}/cgroup")).unwrap_or_default();
        let mounts = root.text("proc/self/mountinfo").unwrap_or_default();
        let mounts = group_mounts(&mounts);
        let mut levels = Vec::new();
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let unified = controllers.is_empty();
            if !unified && !controllers.split(',').any(|name| name == "cpu") {
                continue;
            }
            if let Some(mount) = mounts.iter().find(|mount| mount.unified == unified) {
                levels.extend(climb(root, mount, group, unified));
            }
        }
        Self { levels }
    }

    /// Whether any group over the process has a limit.
    pub fn limited(&self) -> bool {
        self.levels.iter().any(|level| level.quota_us.is_some())
    }

    /// Time that the process's groups were stopped, in nanoseconds: the largest of all levels, since a
    /// stopped parent stops its children and both count it.
    pub fn throttled_ns(&self) -> u64 {
        self.levels.iter().map(|level| level.throttled_ns).max().unwrap_or(0)
    }

    /// What was counted between an earlier reading of the same process and this one. A group that the
    /// process joined in between is left out, for its counters tell nothing about the process.
    pub fn since(&self, earlier: &Self) -> Self {
        let levels = self.levels.iter().filter_map(|now| {
            let then = earlier.levels.iter().find(|level| level.directory == now.directory)?;
            Some(QuotaLevel {
                periods: now.periods.saturating_sub(then.periods),
                throttled_periods: now.throttled_periods.saturating_sub(then.throttled_periods),
                throttled_ns: now.throttled_ns.saturating_sub(then.throttled_ns),
                ..now.clone()
            })
        });
        Self { levels: levels.collect() }
    }
}

/// A mounted hierarchy of control groups.
#[derive(Debug, PartialEq, Eq)]
pub struct GroupMount {
    /// Which part of the hierarchy is mounted.
    pub part: String,
    /// Where.
    pub point: String,
    /// Of version 2; else of version 1 with the controller `cpu`.
    pub unified: bool,
}

/// The mounted hierarchies of version 2 and of the controller `cpu`, by `/proc/self/mountinfo` (proc(5)).
pub fn group_mounts(mountinfo: &str) -> Vec<GroupMount> {
    mountinfo.lines().filter_map(parse_mount).collect()
}

fn parse_mount(line: &str) -> Option<GroupMount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ');
    let (part, point) = (place.nth(3)?, place.next()?);
    let mut kind = kind.split(' ');
    let (filesystem, options) = (kind.next()?, kind.nth(1)?);
    let unified = filesystem == "cgroup2";
    let has_cpu = filesystem == "cgroup" && options.split(',').any(|option| option == "cpu");
    (unified || has_cpu).then(|| GroupMount { part: part.to_owned(), point: point.to_owned(), unified })
}

fn climb(root: &HostRoot, mount: &GroupMount, group: &str, unified: bool) -> Vec<QuotaLevel> {
    // A container sees only its own part of the hierarchy; the path is told from the hierarchy's root.
    let inside = if mount.part == "/" { Some(group) } else { group.strip_prefix(mount.part.as_str()) };
    let mut inside = inside.unwrap_or("/").trim_end_matches('/');
    let mut levels = Vec::new();
    if inside.split('/').any(|part| part == "..") {
        return levels;
    }
    loop {
        let directory = format!("{}{inside}", mount.point);
        levels.extend(read_level(root, directory, unified));
        let Some((above, _)) = inside.rsplit_once('/') else { break };
        inside = above;
    }
    levels
}

fn read_level(root: &HostRoot, directory: String, unified: bool) -> Option<QuotaLevel> {
    let stat = root.text(&format!("{directory}/cpu.stat"))?;
    let counter = |name: &str| {
        stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
    };
    let (quota_us, period_us, throttled_ns) = if unified {
        let limit = root.text(&format!("{directory}/cpu.max")).unwrap_or_default();
        let mut words = limit.split_whitespace();
        let quota_us = words.next().and_then(|word| word.parse().ok());
        let period_us = words.next().and_then(|word| word.parse().ok());
        (quota_us, period_us, counter("throttled_usec").map(|time_us| time_us.saturating_mul(1000)))
    } else {
        // A quota of -1 is no limit, which is what a failed parse as unsigned gives.
        let quota_us = root.value(&format!("{directory}/cpu.cfs_quota_us"));
        (quota_us, root.value(&format!("{directory}/cpu.cfs_period_us")), counter("throttled_time"))
    };
    Some(QuotaLevel {
        directory,
        quota_us,
        period_us,
        periods: counter("nr_periods").unwrap_or(0),
        throttled_periods: counter("nr_throttled").unwrap_or(0),
        throttled_ns: throttled_ns.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeHost;
    use super::*;

    #[test]
    fn version_two_reads_every_group_above() {
        let host = FakeHost::empty();
        let top = "sys/fs/cgroup";
        host.file("proc/9/cgroup", "0::/work.slice/stream.service");
        host.file("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw");
        host.file(&format!("{top}/cpu.stat"), "usage_usec 5");
        host.file(&format!("{top}/work.slice/cpu.stat"), "nr_periods 10\nnr_throttled 4\nthrottled_usec 700");
        host.file(&format!("{top}/work.slice/cpu.max"), "50000 100000");
        host.file(&format!("{top}/work.slice/stream.service/cpu.stat"), "nr_periods 0\nnr_throttled 0");
        host.file(&format!("{top}/work.slice/stream.service/cpu.max"), "max 100000");

        let before = QuotaReading::read(&host.root(), Some(9));
        assert_eq!(before.levels.len(), 3);
        assert_eq!(before.levels[0].quota_us, None);
        assert_eq!(before.levels[1].quota_us, Some(50_000));
        assert!(before.limited());
        assert_eq!(before.throttled_ns(), 700_000);

        host.file(&format!("{top}/work.slice/cpu.stat"), "nr_periods 12\nnr_throttled 6\nthrottled_usec 950");
        let run = QuotaReading::read(&host.root(), Some(9)).since(&before);
        assert_eq!((run.levels[1].throttled_periods, run.throttled_ns()), (2, 250_000));
    }

    #[test]
    fn version_one_counts_nanoseconds_and_sees_only_what_is_mounted() {
        let host = FakeHost::empty();
        host.file("proc/self/cgroup", "3:memory:/box\n2:cpu,cpuacct:/box/inner\n0::/");
        host.file(
            "proc/self/mountinfo",
            "32 31 0:29 /box /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
             33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
        );
        let top = "sys/fs/cgroup/cpu";
        for (group, quota) in [("", "-1"), ("/inner", "20000")] {
            host.file(&format!("{top}{group}/cpu.cfs_quota_us"), quota);
            host.file(&format!("{top}{group}/cpu.cfs_period_us"), "100000");
            host.file(
                &format!("{top}{group}/cpu.stat"),
                "nr_periods 7\nnr_throttled 1\nthrottled_time 12345",
            );
        }
        let reading = QuotaReading::read(&host.root(), None);
        let quotas: Vec<_> = reading.levels.iter().map(|level| level.quota_us).collect();
        assert_eq!(quotas, vec![Some(20_000), None]);
        assert_eq!(reading.levels[0].throttled_ns, 12_345);
    }

    #[test]
    fn no_groups_at_all() {
        let reading = QuotaReading::read(&FakeHost::empty().root(), None);
        assert!(reading.levels.is_empty() && !reading.limited() && reading.throttled_ns() == 0);
    }
}
