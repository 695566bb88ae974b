//! The catalogue of what makes threads and packets late and can be set otherwise, as data.
//!
//! A new row whose knobs are of a known kind needs no code. The schema is that of the types below: an unknown field or a
//! wrong type fails the test that loads the catalogue.

use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// One source of lateness, how to see it, and what to set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Identifier, the same as in the results of `chase` and `noise`.
    pub id: String,
    /// What happens, in a few words.
    pub mechanism: String,
    /// Class after the paper's conclusion (Chasing, section V).
    pub class: Class,
    /// What its settings belong to.
    pub scope: Vec<Scope>,
    /// How to see that it happens.
    pub detect: String,
    /// Tracepoints that betray it.
    pub tracepoints: Vec<String>,
    /// What has to be there.
    #[serde(default)]
    pub needs: Needs,
    /// What may go wrong, or is lost, when it is switched off.
    pub risk: String,
    /// What a person or the program can do beside the knobs.
    #[serde(default)]
    pub advice: Option<String>,
    /// Identifiers of further causes in results that belong here.
    #[serde(default)]
    pub causes: Vec<String>,
    /// Options of the kernel's command line.
    #[serde(default)]
    pub boot: Vec<BootOption>,
    /// Settings.
    #[serde(default)]
    pub knobs: Vec<KnobSpec>,
    /// What can be counted.
    #[serde(default)]
    pub signs: Vec<Sign>,
    /// When it is set, from 0 (first) to 9.
    #[serde(default = "middle")]
    pub order: u8,
    /// Whether its settings are a choice between two costs, so that another value is no fault.
    #[serde(default)]
    pub choice: bool,
    /// Whether it costs so much elsewhere that it is set only when named (`--only ID`).
    #[serde(default)]
    pub ask: bool,
}

const fn middle() -> u8 {
    5
}

/// Class of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Processor, firmware, hypervisor, network interface.
    Hardware,
    /// The kernel's network stack.
    NetworkStack,
    /// The rest of the kernel, and other programs.
    NetworkIndependent,
    /// Quaver itself.
    Tool,
}

/// What a setting belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// A CPU.
    Cpu,
    /// An interrupt.
    Irq,
    /// A network interface.
    Nic,
    /// A control group.
    Cgroup,
    /// A process.
    Process,
    /// The system.
    System,
    /// The next boot.
    Boot,
}

/// What a row needs, so that its settings exist or that it can happen at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Needs {
    /// Options that the kernel was built with.
    pub config: Vec<String>,
    /// Oldest kernel, `6.12`.
    pub kernel: Option<String>,
    /// Files that are there where it can be set.
    pub present: Vec<String>,
    /// Happens in a virtual machine only (true), or not in one (false).
    #[serde(rename = "virtual")]
    pub in_virtual_machine: Option<bool>,
}

/// An option of the kernel's command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootOption {
    /// The option, with placeholders.
    pub option: String,
    /// File that lists the CPUs for which it is in force.
    #[serde(default)]
    pub listed: Option<String>,
    /// Whether it is another way to what the knobs do.
    #[serde(default)]
    pub instead: bool,
}

/// A setting by its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum KnobSpec {
    /// A sysctl.
    Sysctl {
        /// Dotted name.
        name: String,
        /// Value to set.
        set: String,
        /// Which values are as good; only `set` if absent.
        good: Option<Good>,
    },
    /// A file of `/proc` or `/sys`.
    File {
        /// Path, with placeholders and `*`.
        path: String,
        /// Value to set.
        set: Option<String>,
        /// File that holds the value to set; its `*` are those of `path`.
        set_from: Option<String>,
        /// Which values are as good.
        good: Option<Good>,
        /// File that lists the values that can be set.
        offered: Option<String>,
    },
    /// Interrupts are kept off the receiver's CPUs.
    IrqAffinity {
        /// Which.
        of: Interrupts,
    },
    /// Kernel threads are kept off the receiver's CPUs.
    ThreadAffinity {
        /// Names, with `*`.
        names: Vec<String>,
        /// Names that are left out.
        #[serde(default)]
        except: Vec<String>,
    },
    /// A mask of a workqueue is cleared of the receiver's CPUs.
    WorkqueueMask {
        /// Path, with `*`.
        path: String,
    },
    /// A setting of the interface's driver.
    Ethtool {
        /// Field ([`super::ethtool`]).
        field: String,
        /// Value to set.
        set: String,
        /// Which values are as good.
        good: Option<Good>,
    },
    /// A latency that is asked for by holding a device open.
    PmQos {
        /// The device.
        device: String,
        /// Largest latency in microseconds.
        set: String,
        /// Not where this file exists.
        unless: Option<String>,
    },
    /// The receiver's CPUs become a partition of their own.
    CpusetPartition {
        /// Control group, below `/sys/fs/cgroup`.
        path: String,
    },
    /// A limit of the control groups that the receiver is in (this process where none is named), at each level.
    Cgroup {
        /// Name of the file.
        file: String,
        /// Value to set.
        set: String,
        /// Which values are as good.
        good: Option<Good>,
    },
    /// The CPU quota of the control groups that the receiver is in (this process where none is named), at each level.
    Quota {},
    /// A unit of the service manager.
    Unit {
        /// Its name.
        name: String,
        /// `active` or `inactive`.
        set: String,
    },
}

/// Which interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interrupts {
    /// All but those of the interface.
    Others,
    /// Those of the interface.
    Interface,
}

/// Values that do not hurt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Good {
    /// One of these.
    Any(Vec<String>),
    /// A number not below this.
    AtLeast(i64),
    /// A number not above this.
    AtMost(i64),
    /// The first of several numbers is not above this.
    FirstAtMost(i64),
    /// It begins with this word.
    Starts(String),
    /// A mask or list without the receiver's CPUs.
    Avoids(bool),
}

/// Something that is counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Sign {
    /// A row of `/proc/interrupts`, on the receiver's CPUs.
    Interrupts {
        /// `LOC`, `TLB`, ...
        row: String,
    },
    /// Interrupts of devices whose name holds this, on the receiver's CPUs.
    DeviceInterrupts {
        /// Part of the name.
        name: String,
    },
    /// A row of `/proc/softirqs`, on the receiver's CPUs.
    Softirqs {
        /// `RCU`, `SCHED`, ...
        row: String,
    },
    /// A counter of `/proc/vmstat`.
    Vmstat {
        /// Its name.
        key: String,
    },
    /// A column of `/proc/net/softnet_stat` (from 1), on the receiver's CPUs.
    Softnet {
        /// Which.
        column: usize,
    },
    /// Stolen time of the receiver's CPUs, in ticks of `/proc/stat`.
    Steal {},
    /// A file that holds a counter.
    Count {
        /// Path, with placeholders.
        path: String,
    },
    /// Lines of a file.
    Lines {
        /// Path.
        path: String,
        /// Lines at the top that do not count.
        headings: u64,
    },
    /// Time that threads of this name have run, in ticks.
    CpuTime {
        /// Name, with placeholders.
        name: String,
    },
    /// Processes of this name.
    Process {
        /// Name, with `*`.
        name: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    row: Vec<Row>,
}

const FILES: [&str; 3] =
    [include_str!("cpu.toml"), include_str!("machine.toml"), include_str!("network.toml")];

/// Every row.
pub fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let load = |text: &&str| toml::from_str::<File>(text).expect("a test loads the catalogue").row;
        FILES.iter().flat_map(load).collect()
    })
}

/// The row with this identifier.
pub fn row(id: &str) -> Option<&'static Row> {
    rows().iter().find(|row| row.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_host::settings::ethtool;
    use quaver_host::settings::knob::Knob;
    use std::collections::BTreeSet;

    /// The sources that the method of the paper, and what was found since, know of.
    const KNOWN: [&str; 69] = [
        "tick",
        "tick-phase",
        "timers",
        "rcu-cb",
        "rcu-exp",
        "rcu-qs",
        "wq-unbound",
        "wq-bound",
        "vmstat",
        "kthreads",
        "irqthreads",
        "dev-irq",
        "managed-irq",
        "irqbalance",
        "ipi-resched",
        "ipi-call",
        "tlb",
        "irq_work",
        "textpoke",
        "softlockup",
        "nmi-wd",
        "mce",
        "cs-watchdog",
        "clocksource",
        "cstate",
        "haltpoll",
        "pstate",
        "turbo",
        "uncore",
        "thermal",
        "smt",
        "smi",
        "steal",
        "vm-vectors",
        "balloon",
        "numa",
        "thp",
        "ksm",
        "compaction",
        "damon",
        "faults",
        "reclaim/swap",
        "writeback",
        "cfs-preempt",
        "sched-softirq",
        "rt-throttle",
        "fair-server",
        "quota",
        "stopper",
        "itr",
        "intrl",
        "gro",
        "defer",
        "napi-budget",
        "ksoftirqd",
        "rps",
        "xps",
        "busy-poll",
        "block-recv",
        "rx-steer",
        "eee/pause",
        "aspm",
        "netfilter",
        "cache/mem-bw",
        "splitlock",
        "console",
        "audit",
        "firmware-pollers",
        "tool",
    ];

    #[test]
    fn every_known_source_has_one_row() {
        let ids: BTreeSet<&str> = rows().iter().map(|row| row.id.as_str()).collect();
        assert_eq!(ids.len(), rows().len());
        assert_eq!(ids, KNOWN.into_iter().collect());
    }

    #[test]
    fn every_row_says_what_it_is_how_to_see_it_and_what_it_risks() {
        for row in rows() {
            assert!(
                !row.mechanism.is_empty() && !row.detect.is_empty() && !row.risk.is_empty(),
                "{}",
                row.id
            );
            assert!(!row.scope.is_empty() && row.order < 10, "{}", row.id);
            let lever = !row.knobs.is_empty() || !row.boot.is_empty() || row.advice.is_some();
            assert!(lever, "{} has nothing to do about it", row.id);
            for tracepoint in &row.tracepoints {
                let named = tracepoint.split_once(':').is_some_and(|(system, event)| {
                    !system.is_empty() && !event.is_empty() && !event.contains([' ', ':'])
                });
                assert!(named, "{}: {tracepoint}", row.id);
            }
        }
    }

    #[test]
    fn every_knob_is_one_that_may_be_changed() {
        for row in rows() {
            for spec in &row.knobs {
                let knob = match spec {
                    KnobSpec::Sysctl { name, .. } => Knob::sysctl(name),
                    KnobSpec::File { path, set, set_from, .. } => {
                        assert!(set.is_some() != set_from.is_some(), "{}: one value to set", row.id);
                        Knob::file(path)
                    }
                    KnobSpec::WorkqueueMask { path } => Knob::file(path),
                    KnobSpec::CpusetPartition { path } => Knob::Directory { path: path.clone() },
                    KnobSpec::PmQos { device, set, .. } => {
                        assert!(set.parse::<i32>().is_ok(), "{}", row.id);
                        Knob::Held { device: device.clone() }
                    }
                    KnobSpec::Ethtool { field, .. } => {
                        assert!(ethtool::is_field(field), "{}: {field}", row.id);
                        continue;
                    }
                    KnobSpec::Unit { name, set } => {
                        assert!(set == "active" || set == "inactive", "{}", row.id);
                        Knob::Unit { name: name.clone() }
                    }
                    KnobSpec::Cgroup { .. }
                    | KnobSpec::Quota {}
                    | KnobSpec::IrqAffinity { .. }
                    | KnobSpec::ThreadAffinity { .. } => {
                        continue;
                    }
                };
                assert_eq!(knob.objection(), None, "{}", row.id);
            }
        }
    }

    #[test]
    fn a_row_that_breaks_the_schema_is_refused() {
        let whole = r#"
            [[row]]
            id = "x"
            mechanism = "m"
            class = "hardware"
            scope = ["cpu"]
            detect = "d"
            tracepoints = []
            risk = "r"
            knobs = [{ kind = "sysctl", name = "kernel.x", set = "0" }]
        "#;
        assert_eq!(toml::from_str::<File>(whole).map(|file| file.row.len()), Ok(1));
        for (from, to) in [
            ("class = \"hardware\"", "class = \"firmware\""),
            ("scope = [\"cpu\"]", "scope = [\"core\"]"),
            ("risk = \"r\"", ""),
            ("risk = \"r\"", "risk = \"r\"\ncost = 1"),
            ("kind = \"sysctl\"", "kind = \"registry\""),
            ("set = \"0\"", "sets = \"0\""),
        ] {
            assert!(toml::from_str::<File>(&whole.replace(from, to)).is_err(), "{to}");
        }
    }
}
