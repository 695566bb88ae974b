//! Settings that are no plain files: drivers, latency requests, control groups, units.

use super::{Item, View};
use crate::catalogue::Good;
use quaver_host::quota::{QuotaLevel, QuotaReading};
use quaver_host::root::parse_cpu_list;
use quaver_host::settings::TuneError;
use quaver_host::settings::contact;
use quaver_host::settings::knob::{Change, Knob, PRESENT, chosen, cpu_list};

impl View<'_> {
    pub(super) fn ethtool(&self, field: &str, set: &str, good: Option<&Good>) -> Item {
        let Some(interface) = self.target.interface.clone() else {
            return Item::absent("name the network interface with --interface");
        };
        let absent = || Item::absent(format!("the driver of {interface} has no {field}"));
        let knob = Knob::Ethtool { interface: interface.clone(), field: field.to_owned() };
        self.judged(knob, set, good).unwrap_or_else(absent)
    }

    pub(super) fn latency(&self, device: &str, set: &str, unless: Option<&str>) -> Item {
        if unless.is_some_and(|path| !self.expanded(path).is_empty()) {
            return Item::absent("each CPU has a setting of its own, which spares the others");
        }
        let knob = Knob::Held { device: device.to_owned() };
        match contact::read(self.contact, &knob) {
            Err(TuneError::Vanished { .. }) => Item::absent(format!("there is no {device}")),
            Err(error) => Item::unknown(error.to_string()),
            Ok(now) => {
                let now = String::from_utf8_lossy(&now).into_owned();
                let least = |text: &str| text.parse::<i64>().unwrap_or(i64::MAX);
                if least(&now) <= least(set) {
                    return Item::good(format!("somebody holds {device} open with {now} us"));
                }
                Item::hurts(format!("nobody asks for less than {now} us"), vec![Change::new(knob, set)])
            }
        }
    }

    /// The root of control groups of version 2; none where they are not mounted.
    fn control_root(&self) -> Option<String> {
        let mounts = self.root().text("/proc/self/mounts")?;
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let place = words.next()?;
            (words.next() == Some("cgroup2")).then(|| place.to_owned())
        })
    }

    pub(super) fn partition(&self, path: &str) -> Item {
        let cpus = cpu_list(&self.target.cpus);
        let isolated = self.root().text("/sys/devices/system/cpu/isolated").unwrap_or_default();
        let listed = parse_cpu_list(&isolated);
        if self.target.cpus.iter().all(|cpu| listed.contains(cpu)) {
            return Item::good(format!("CPU {cpus} is isolated"));
        }
        let Some(root) = self.control_root() else {
            return Item::absent("control groups of version 2 are not mounted");
        };
        let has = |file: &str| {
            let text = self.root().text(&format!("{root}/{file}")).unwrap_or_default();
            text.split_whitespace().any(|word| word == "cpuset")
        };
        if !has("cgroup.controllers") {
            return Item::absent(format!("{root} has no cpuset controller"));
        }
        if self.other.is_empty() {
            return Item::absent("there is no other CPU for everybody else");
        }
        let name = path.strip_prefix("/sys/fs/cgroup").unwrap_or(path);
        let group = format!("{root}{name}");
        // Since Linux 6.7 the root lists the CPUs of all isolated partitions; what the last boot isolated is elsewhere.
        let in_partitions = self.root().text(&format!("{root}/cpuset.cpus.isolated")).unwrap_or_default();
        let of_group = |name: &str| self.root().text(&format!("{group}/{name}")).unwrap_or_default();
        let own = of_group("cpuset.cpus.partition") == "isolated";
        let own = if own { of_group("cpuset.cpus.effective") } else { String::new() };
        let partitioned = [parse_cpu_list(&in_partitions), parse_cpu_list(&own)].concat();
        if self.target.cpus.iter().all(|cpu| partitioned.contains(cpu)) {
            return Item::good(format!("CPU {cpus} is in an isolated partition of control groups"));
        }
        let file = |name: &str, value: &str| Change::new(Knob::file(format!("{group}/{name}")), value);
        let mut changes = Vec::new();
        if !has("cgroup.subtree_control") {
            changes.push(Change::new(Knob::file(format!("{root}/cgroup.subtree_control")), "+cpuset"));
        }
        changes.push(Change::new(Knob::Directory { path: group.clone() }, PRESENT));
        changes.push(file("cpuset.cpus", &cpus));
        changes.push(file("cpuset.cpus.partition", "isolated"));
        Item::hurts(format!("CPU {cpus} is not isolated; {group} can be a partition of its own"), changes)
    }

    /// A file of the control groups over the receiver, from its own up to the root.
    pub(super) fn control_groups(&self, file: &str, set: &str, good: Option<&Good>) -> Vec<Item> {
        let process = self.target.process.map_or_else(|| "self".to_owned(), |process| process.to_string());
        let own = self.root().text(&format!("/proc/{process}/cgroup")).unwrap_or_default();
        let own = own.lines().find_map(|line| line.strip_prefix("0::"));
        let (Some(root), Some(own)) = (self.control_root(), own) else {
            return vec![Item::absent("control groups of version 2 are not mounted")];
        };
        let mut items = Vec::new();
        let mut group = own.trim_end_matches('/');
        while !group.is_empty() {
            items.extend(self.judged(Knob::file(format!("{root}{group}/{file}")), set, good));
            group = group.rsplit_once('/').map_or("", |(above, _)| above);
        }
        if items.is_empty() {
            items.push(Item::absent(format!("no control group over the receiver has {file}")));
        }
        items
    }

    /// The quotas over the receiver, from the root down: version 1 lets no group have more than the one above it.
    pub(super) fn quotas(&self) -> Vec<Item> {
        let levels = QuotaReading::read(self.root(), self.target.process).levels;
        if levels.is_empty() {
            return vec![Item::absent("no control group over the receiver shows a CPU quota")];
        }
        let judged = |level: &QuotaLevel| {
            let file = |name: &str| format!("{}/{name}", level.directory);
            let (path, none) = match self.root().exists(&file("cpu.cfs_quota_us")) {
                true => (file("cpu.cfs_quota_us"), "-1"),
                false => (file("cpu.max"), "max"),
            };
            match (level.quota_us, level.period_us) {
                (Some(quota), Some(period)) => Item::hurts(
                    format!("{path} is {quota} us in each {period} us, better {none}"),
                    vec![Change::new(Knob::file(path), none)],
                ),
                _ => Item::good(format!("{} has no quota", level.directory)),
            }
        };
        levels.iter().rev().map(judged).collect()
    }

    pub(super) fn unit(&self, name: &str, set: &str) -> Item {
        let knob = Knob::Unit { name: name.to_owned() };
        match contact::read(self.contact, &knob) {
            Err(_) => Item::absent("no service manager answers (systemctl)"),
            Ok(now) if knob.same(&now, set.as_bytes()) => Item::good(format!("{name} is {set}")),
            Ok(now) => {
                let now = chosen(&String::from_utf8_lossy(&now));
                Item::hurts(format!("{name} is {now}"), vec![Change::new(knob, set)])
            }
        }
    }
}
