//! Tests of the journal on machines made of files.

mod born;
mod crashes;
mod others;
mod vanished;

use super::super::fake::FakeMachine;
use super::super::knob::{Change, Knob, PRESENT};

const THREAD: &str = "Name:\tkworker\nCpus_allowed_list:\t0-3\n";

/// A machine with a knob of each kind.
fn machine() -> FakeMachine {
    FakeMachine::new(&[
        ("proc/sys/kernel/watchdog", "1\n"),
        ("proc/sys/kernel/printk", "4\t4\t1\t7\n"),
        ("proc/sys/net/core/netdev_budget", "300\n"),
        ("proc/irq/41/smp_affinity_list", "0-3\n"),
        ("proc/irq/41/effective_affinity_list", "0\n"),
        ("proc/irq/41/virtio3-rx/spurious", "count 0\n"),
        ("proc/irq/42/smp_affinity_list", "0-3\n"),
        ("proc/irq/42/managed", ""),
        ("proc/77/status", THREAD),
        (
            "proc/79/stat",
            "79 (receiver) S 1 79 79 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 31 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0\n",
        ),
        ("proc/77/stat", "77 (kworker/u8:1) S 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 31 0 0\n"),
        ("proc/78/status", "Name:\tksoftirqd/1\nCpus_allowed_list:\t1\nbound\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ("sys/class/net/eth0/ifindex", "2\n"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00000000,00000000\n"),
        ("sys/module/x/parameters/deaf", "7\n"),
        ("sys/module/x/parameters/even", "10\n"),
        ("sys/module/x/parameters/stubborn", "7\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n"),
        ("etc/default/grub.d/other.cfg", "GRUB_TIMEOUT=1\n"),
        ("drivers/eth0/coalesce.rx-usecs", "100\n"),
        ("drivers/eth0/feature.rx-gro", "on\n"),
        ("units/irqbalance.service", "active\n"),
    ])
}

const PARTITION: &str = "/sys/fs/cgroup/quaver.slice";
const BOOT_FILE: &str = "/etc/default/grub.d/quaver.cfg";

/// A change of each kind, all of which take.
fn changes() -> Vec<Change> {
    let file = |path: &str, value: &str| Change::new(Knob::file(path), value);
    let ethtool = |field: &str, value: &str| {
        Change::new(Knob::Ethtool { interface: "eth0".to_owned(), field: field.to_owned() }, value)
    };
    vec![
        Change::new(Knob::sysctl("kernel.watchdog"), "0"),
        Change::new(Knob::Irq { irq: 41 }, "0"),
        Change::new(Knob::Thread { tid: 77 }, "0-1"),
        file("/sys/kernel/mm/transparent_hugepage/enabled", "never"),
        file("/sys/class/net/eth0/queues/rx-0/rps_cpus", "2"),
        Change::new(Knob::Unit { name: "irqbalance.service".to_owned() }, "inactive"),
        Change::new(Knob::Directory { path: PARTITION.to_owned() }, PRESENT),
        file(&format!("{PARTITION}/cpuset.cpus"), "3"),
        file(&format!("{PARTITION}/cpuset.cpus.partition"), "isolated"),
        Change::new(Knob::Config { path: BOOT_FILE.to_owned() }, "GRUB_CMDLINE_LINUX=\"nohz_full=3\"\n"),
        file("/sys/module/x/parameters/even", "5"),
        ethtool("coalesce.rx-usecs", "9"),
        ethtool("feature.rx-gro", "off"),
        Change::new(Knob::Class { tid: 79 }, "fifo:1"),
    ]
}
