//! One setting of the host, and what it means for two of its values to be the same.

use crate::root::parse_cpu_list;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One setting. Its address holds everything that is needed to find it again after a crash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Knob {
    /// A file of `/proc` or `/sys` whose text is the value: sysctls, sysfs attributes, workqueue masks, control groups.
    File {
        /// Path from the root (`/proc/sys/kernel/watchdog`).
        path: String,
    },
    /// CPUs that an interrupt is asked to go to, as a CPU list. Where it goes is the *effective* affinity.
    Irq {
        /// Number of the interrupt.
        irq: u32,
    },
    /// CPUs that a thread may run on, as a CPU list.
    Thread {
        /// Thread number.
        tid: u32,
    },
    /// Scheduling class of a thread ([`super::class`]).
    Class {
        /// Thread number.
        tid: u32,
    },
    /// A setting of a network device's driver.
    Ethtool {
        /// Name of the interface.
        interface: String,
        /// Which setting (`coalesce.rx-usecs`, `feature.rx-gro`, `pause.rx`, `eee.enabled`, `channels.combined`).
        field: String,
    },
    /// A device that asks for something for as long as it is held open: `/dev/cpu_dma_latency`, in microseconds.
    Held {
        /// Path of the device.
        device: String,
    },
    /// A unit of the service manager: `active` or `inactive`.
    Unit {
        /// Its name (`irqbalance.service`).
        name: String,
    },
    /// A directory that is made (`present`) or not (`absent`): a control group, a resource group.
    Directory {
        /// Path from the root.
        path: String,
    },
    /// A whole file of the system's configuration, which outlives a reboot: boot options. `absent` is no file.
    Config {
        /// Path from the root, below `/etc`.
        path: String,
    },
}

/// Where a knob's value lives on: it decides what a reboot does to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// In the kernel: gone with a reboot.
    Volatile,
    /// On disk.
    Persistent,
}

/// What a file holds where that is no file. Cannot be mistaken for text: configuration files end with a line end.
pub const ABSENT: &str = "absent";

/// What a directory says that is there.
pub const PRESENT: &str = "present";

impl Knob {
    /// A sysctl by its dotted name.
    pub fn sysctl(name: &str) -> Self {
        Self::File { path: format!("/proc/sys/{}", name.replace('.', "/")) }
    }

    /// A file of `/proc` or `/sys`.
    pub fn file(path: impl Into<String>) -> Self {
        Self::File { path: path.into() }
    }

    /// The file that is written, from the root; none for what is no file.
    pub fn path(&self) -> Option<String> {
        match self {
            Self::File { path } | Self::Directory { path } | Self::Config { path } => Some(path.clone()),
            Self::Irq { irq } => Some(format!("/proc/irq/{irq}/smp_affinity_list")),
            Self::Held { device } => Some(device.clone()),
            Self::Thread { .. } | Self::Class { .. } | Self::Ethtool { .. } | Self::Unit { .. } => None,
        }
    }

    /// What a reboot does to it.
    pub fn durability(&self) -> Durability {
        if matches!(self, Self::Config { .. }) { Durability::Persistent } else { Durability::Volatile }
    }

    /// Whether the kernel or a driver may make another value of what is written, such as the next frequency that exists.
    pub fn may_round(&self) -> bool {
        match self {
            Self::File { path } => !path.starts_with("/proc/sys/"),
            Self::Thread { .. } | Self::Ethtool { .. } => true,
            _ => false,
        }
    }

    /// Whether it belongs to one network namespace, so that elsewhere the same name is another setting.
    pub fn is_of_network_namespace(&self) -> bool {
        match self {
            Self::File { path } => path.starts_with("/proc/sys/net/") || path.starts_with("/sys/class/net/"),
            Self::Ethtool { .. } => true,
            _ => false,
        }
    }

    /// The CPU that it belongs to, where its address names one: it vanishes while that CPU is offline, and comes back.
    pub fn cpu(&self) -> Option<u16> {
        let (Self::File { path } | Self::Directory { path }) = self else { return None };
        let rest = path.strip_prefix("/sys/devices/system/cpu/")?;
        let number = rest.strip_prefix("cpufreq/policy").or_else(|| rest.strip_prefix("cpu"))?;
        number.split('/').next()?.parse().ok()
    }

    /// Why this is no setting that Quaver changes; none if it is one. A journal is checked by this before it is believed.
    pub fn objection(&self) -> Option<String> {
        let path = match self {
            Self::File { path } | Self::Directory { path } | Self::Config { path } => path,
            Self::Held { device } => {
                return (device != "/dev/cpu_dma_latency")
                    .then(|| format!("{device} is no device to hold open"));
            }
            Self::Ethtool { interface, .. } => {
                let bad = interface.is_empty() || interface.contains('/') || interface.len() > 15;
                return bad.then(|| format!("{interface:?} is no name of an interface"));
            }
            Self::Unit { name } => {
                let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.@:".contains(letter);
                let bad = name.is_empty() || name.starts_with('-') || !name.chars().all(fits);
                return bad.then(|| format!("{name:?} is no name of a unit"));
            }
            Self::Irq { .. } | Self::Thread { .. } | Self::Class { .. } => return None,
        };
        let places: &[&str] = match self {
            Self::File { .. } => &["/proc/sys/", "/proc/irq/default_smp_affinity", "/sys/"],
            Self::Directory { .. } => &["/sys/fs/cgroup/", "/sys/fs/resctrl/"],
            _ => &["/etc/default/grub.d/quaver", "/etc/kernel/cmdline.d/quaver"],
        };
        let below = places.iter().any(|place| path.starts_with(place));
        let climbs = path.split('/').any(|part| part == "..");
        (!below || climbs || path.contains('\0')).then(|| format!("{path} is no setting that Quaver changes"))
    }

    /// Whether two texts of this knob mean the same, although the kernel writes one of them in its own way.
    pub fn same(&self, one: &[u8], other: &[u8]) -> bool {
        if one == other {
            return true;
        }
        let (Ok(one), Ok(other)) = (std::str::from_utf8(one), std::str::from_utf8(other)) else {
            return false;
        };
        let (one, other) = (chosen(one), chosen(other));
        if one == other {
            return true;
        }
        if self.is_controllers() && one.starts_with('+') != other.starts_with('+') {
            let (asked, said) = if one.starts_with('+') { (one, other) } else { (other, one) };
            return words(&said).contains(&asked.trim_start_matches('+'));
        }
        match self.notation() {
            Notation::Text => words(&one) == words(&other),
            Notation::CpuList => parse_cpu_list(&one) == parse_cpu_list(&other),
            Notation::CpuMask => mask_cpus(&one).is_some_and(|cpus| Some(cpus) == mask_cpus(&other)),
        }
    }

    fn is_controllers(&self) -> bool {
        matches!(self, Self::File { path } if path.ends_with("/cgroup.subtree_control"))
    }

    fn notation(&self) -> Notation {
        let path = match self {
            Self::Irq { .. } | Self::Thread { .. } => return Notation::CpuList,
            Self::File { path } => path.as_str(),
            _ => return Notation::Text,
        };
        let name = path.rsplit('/').next().unwrap_or(path);
        let lists = ["cpuset.cpus", "cpuset.cpus.exclusive", "watchdog_cpumask", "smp_affinity_list"];
        let masks = ["cpumask", "rps_cpus", "xps_cpus", "smp_affinity", "default_smp_affinity"];
        if lists.contains(&name) {
            Notation::CpuList
        } else if masks.contains(&name) {
            Notation::CpuMask
        } else {
            Notation::Text
        }
    }

    /// What has to be written so that the knob says `text` again.
    ///
    /// Most files take back what they said. Those that show all choices (`always [madvise] never`) take the one in
    /// brackets; those that show nothing take an empty line, since a write of nothing is no write.
    pub fn to_write(&self, text: &[u8]) -> Vec<u8> {
        if !matches!(self, Self::File { .. }) {
            return text.to_vec();
        }
        match std::str::from_utf8(text) {
            Ok(said) if bracketed(said).is_some() => format!("{}\n", chosen(said)).into_bytes(),
            // Controllers are switched one by one; ours is the only one that was.
            Ok(said) if self.is_controllers() && !words(said).contains(&"cpuset") => b"-cpuset\n".to_vec(),
            _ if text.is_empty() => b"\n".to_vec(),
            _ => text.to_vec(),
        }
    }
}

enum Notation {
    Text,
    CpuList,
    CpuMask,
}

fn bracketed(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    let (choice, _) = rest.split_once(']')?;
    (!choice.is_empty() && !choice.contains(' ') && text.trim().contains(' ')).then_some(choice)
}

/// The value within a knob's text: the choice in brackets, or all of it without its line end.
pub fn chosen(text: &str) -> String {
    bracketed(text).unwrap_or(text.trim()).to_owned()
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// CPUs of a mask such as `f,00000003`; none if it is no mask.
pub fn mask_cpus(text: &str) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for (word, digits) in text.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(digits, 16).ok()?;
        let first = u16::try_from(word * 32).ok()?;
        cpus.extend((0..32).filter(|bit| bits & (1 << bit) != 0).map(|bit| first + bit));
    }
    Some(cpus)
}

/// The mask of some CPUs, in words of 32 from the highest to the lowest, as the kernel reads it.
pub fn cpu_mask(cpus: &[u16]) -> String {
    let words = cpus.iter().max().map_or(1, |&most| usize::from(most) / 32 + 1);
    let word = |at: usize| {
        let of = cpus.iter().filter(|&&cpu| usize::from(cpu) / 32 == at);
        of.fold(0_u32, |bits, &cpu| bits | 1 << (cpu % 32))
    };
    let mut text = format!("{:x}", word(words - 1));
    for at in (0..words - 1).rev() {
        text.push_str(&format!(",{:08x}", word(at)));
    }
    text
}

/// The list of some CPUs, as the kernel writes it (`0-2,5`).
pub fn cpu_list(cpus: &[u16]) -> String {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    cpus.dedup();
    let mut parts: Vec<(u16, u16)> = Vec::new();
    for cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let text = |(first, last): &(u16, u16)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path } => match path.strip_prefix("/proc/sys/") {
                // A dot is a separator in sysctl's notation, so a name that holds one keeps its path.
                Some(name) if !name.contains('.') => f.write_str(&name.replace('/', ".")),
                _ => f.write_str(path),
            },
            Self::Irq { irq } => write!(f, "affinity of irq {irq}"),
            Self::Thread { tid } => write!(f, "affinity of thread {tid}"),
            Self::Class { tid } => write!(f, "scheduling class of thread {tid}"),
            Self::Ethtool { interface, field } => write!(f, "{field} of {interface}"),
            Self::Held { device } => f.write_str(device),
            Self::Unit { name } => f.write_str(name),
            Self::Directory { path } | Self::Config { path } => f.write_str(path),
        }
    }
}

/// A knob and the value that it shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What to set.
    pub knob: Knob,
    /// To what: as it would be written by hand, without a line end.
    pub value: String,
    /// Row of the catalogue that asks for it; none for another verb's own need.
    pub row: Option<String>,
    /// Change it also where somebody else changed it after us.
    pub force: bool,
}

impl Change {
    /// A change for a verb's own need.
    pub fn new(knob: Knob, value: impl Into<String>) -> Self {
        Self { knob, value: value.into(), row: None, force: false }
    }

    /// The same, asked for by a row of the catalogue.
    pub fn of_row(self, row: &str) -> Self {
        Self { row: Some(row.to_owned()), ..self }
    }

    /// The same, also over somebody else's change.
    pub fn forced(self, force: bool) -> Self {
        Self { force, ..self }
    }

    /// The bytes that are written.
    pub fn bytes(&self) -> Vec<u8> {
        match self.knob {
            Knob::File { .. } => format!("{}\n", self.value).into_bytes(),
            _ => self.value.clone().into_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_ways_of_writing_a_value_are_the_same() {
        let file = |path: &str| Knob::file(path);
        let same = |knob: &Knob, one: &str, other: &str| knob.same(one.as_bytes(), other.as_bytes());
        assert!(same(
            &file("/sys/kernel/mm/transparent_hugepage/enabled"),
            "never",
            "always madvise [never]\n"
        ));
        assert!(!same(
            &file("/sys/kernel/mm/transparent_hugepage/enabled"),
            "never",
            "[always] madvise never\n"
        ));
        assert!(same(&file("/sys/class/net/eth0/queues/rx-0/rps_cpus"), "2", "00000000,00000002\n"));
        assert!(same(&file("/proc/sys/kernel/printk"), "1 4 1 7", "1\t4\t1\t7\n"));
        assert!(!same(&file("/proc/sys/kernel/watchdog"), "1", "10"));
        assert!(same(&Knob::Irq { irq: 4 }, "0,1", "0-1\n"));
        assert!(!same(&Knob::Irq { irq: 4 }, "0", "0-1\n"));
    }

    #[test]
    fn what_is_written_to_get_a_text_back() {
        let knob = Knob::file("/sys/kernel/mm/transparent_hugepage/enabled");
        assert_eq!(knob.to_write(b"always [madvise] never\n"), b"madvise\n");
        assert_eq!(knob.to_write(b"n/a\n"), b"n/a\n");
        assert_eq!(knob.to_write(b""), b"\n");
        // One word in brackets shows no choice: it is the text.
        assert_eq!(knob.to_write(b"[none]\n"), b"[none]\n");
    }

    #[test]
    fn a_journal_cannot_name_any_file() {
        for path in ["/etc/passwd", "/sys/../etc/passwd", "/proc/1/mem", "/proc/sys/../1/mem", "sys/x"] {
            assert!(Knob::file(path).objection().is_some(), "{path}");
        }
        assert!(Knob::Config { path: "/etc/default/grub".to_owned() }.objection().is_some());
        assert!(Knob::Directory { path: "/sys/kernel/x".to_owned() }.objection().is_some());
        assert!(Knob::Held { device: "/dev/sda".to_owned() }.objection().is_some());
        assert!(Knob::Unit { name: "--now".to_owned() }.objection().is_some());
        assert!(Knob::Ethtool { interface: "a/b".to_owned(), field: String::new() }.objection().is_some());
        assert_eq!(Knob::sysctl("kernel.watchdog").objection(), None);
        assert_eq!(Knob::Config { path: "/etc/default/grub.d/quaver.cfg".to_owned() }.objection(), None);
    }

    #[test]
    fn a_knob_of_a_cpu_says_so() {
        let cpu = |path: &str| Knob::file(path).cpu();
        assert_eq!(cpu("/sys/devices/system/cpu/cpu12/cpuidle/state1/disable"), Some(12));
        assert_eq!(cpu("/sys/devices/system/cpu/cpufreq/policy3/scaling_governor"), Some(3));
        assert_eq!(cpu("/sys/devices/system/cpu/cpufreq/boost"), None);
        assert_eq!(cpu("/sys/devices/system/cpu/cpuidle/current_governor"), None);
        assert_eq!(cpu("/sys/devices/system/cpu/smt/control"), None);
    }

    #[test]
    fn knobs_are_named_as_people_name_them() {
        assert_eq!(Knob::sysctl("kernel.sched_rt_runtime_us").to_string(), "kernel.sched_rt_runtime_us");
        let odd = Knob::file("/proc/sys/net/ipv4/conf/eth0.5/rp_filter");
        assert_eq!(odd.to_string(), "/proc/sys/net/ipv4/conf/eth0.5/rp_filter");
    }

    proptest! {
        #[test]
        fn masks_and_lists_keep_their_cpus(mut cpus in proptest::collection::vec(0_u16..300, 1..40)) {
            cpus.sort_unstable();
            cpus.dedup();
            prop_assert_eq!(mask_cpus(&cpu_mask(&cpus)), Some(cpus.clone()));
            prop_assert_eq!(parse_cpu_list(&cpu_list(&cpus)), cpus);
        }
    }
}
