//! Machines made of files, for tests.

use super::root::HostRoot;
use std::path::Path;

/// A directory that looks like the `/proc` and `/sys` of a machine. Removed when dropped.
pub(crate) struct FakeHost {
    directory: tempfile::TempDir,
}

impl FakeHost {
    /// A machine that shows nothing at all.
    pub(crate) fn empty() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory can be made") }
    }

    /// A server of four CPUs with two of them isolated, and a root user.
    pub(crate) fn bare_metal() -> Self {
        let host = Self::empty();
        host.files(&[
            ("proc/sys/kernel/osrelease", "6.1.0-18-rt-amd64"),
            ("proc/version", "Linux version 6.1.0-18-rt-amd64 #1 SMP PREEMPT_RT Debian"),
            ("proc/cmdline", "isolcpus=2,3 nohz_full=2-3"),
            ("proc/cpuinfo", "model name\t: Fast CPU\nflags\t\t: tsc rdtscp constant_tsc nonstop_tsc\n"),
            ("proc/stat", "cpu  1 2 3 4 5 6 7 0 0 0"),
            ("proc/sys/kernel/sched_rt_runtime_us", "-1"),
            ("proc/sys/kernel/sched_rt_period_us", "1000000"),
            ("proc/sys/kernel/timer_migration", "1"),
            ("proc/sys/kernel/numa_balancing", "0"),
            ("proc/sys/kernel/nmi_watchdog", "0"),
            ("proc/sys/kernel/sched_autogroup_enabled", "0"),
            ("proc/sys/kernel/perf_event_paranoid", "2"),
            ("proc/sys/net/core/rmem_max", "67108864"),
            ("proc/self/status", "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff"),
            ("proc/self/limits", LIMITS),
            ("sys/kernel/btf/vmlinux", ""),
            ("sys/devices/system/cpu/online", "0-3"),
            ("sys/devices/system/cpu/isolated", "2-3"),
            ("sys/devices/system/cpu/nohz_full", "2-3"),
            ("sys/devices/system/cpu/smt/active", "0"),
            ("sys/devices/system/cpu/cpuidle/current_driver", "intel_idle"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc"),
            ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]"),
        ]);
        for cpu in 0..4 {
            let base = format!("sys/devices/system/cpu/cpu{cpu}");
            host.file(&format!("{base}/cpufreq/scaling_governor"), "performance");
            for (state, name, latency) in [(0, "POLL", "0"), (1, "C6", "133")] {
                host.file(&format!("{base}/cpuidle/state{state}/name"), name);
                host.file(&format!("{base}/cpuidle/state{state}/latency"), latency);
                host.file(
                    &format!("{base}/cpuidle/state{state}/disable"),
                    if state == 0 { "0" } else { "1" },
                );
            }
        }
        host
    }

    /// A guest of two CPUs as a cloud gives it, seen by an ordinary user.
    pub(crate) fn virtual_machine() -> Self {
        let host = Self::empty();
        host.files(&[
            ("proc/sys/kernel/osrelease", "6.18.44-cloud"),
            ("proc/version", "Linux version 6.18.44-cloud #1 SMP PREEMPT_DYNAMIC"),
            ("proc/cmdline", "quiet"),
            ("proc/cpuinfo", "model name\t: AMD EPYC\nflags\t\t: tsc constant_tsc hypervisor\n"),
            ("proc/stat", "cpu  14388 3568 4800 185564 1336 0 79 46 0 0"),
            ("proc/77/comm", "irqbalance"),
            ("proc/78/comm", "irqbalance-ui"),
            ("proc/sys/kernel/sched_rt_runtime_us", "950000"),
            ("proc/sys/kernel/sched_rt_period_us", "1000000"),
            ("proc/sys/kernel/timer_migration", "1"),
            ("proc/sys/kernel/numa_balancing", "1"),
            ("proc/sys/kernel/nmi_watchdog", "1"),
            ("proc/sys/kernel/sched_autogroup_enabled", "1"),
            ("proc/sys/kernel/perf_event_paranoid", "3"),
            ("proc/sys/net/core/rmem_max", "212992"),
            ("proc/self/status", "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000"),
            ("proc/self/limits", LIMITS),
            ("sys/devices/system/cpu/online", "0-1"),
            ("sys/devices/system/cpu/isolated", ""),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "kvm-clock"),
            ("sys/devices/system/clocksource/clocksource0/available_clocksource", "kvm-clock tsc acpi_pm"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"),
            ("sys/kernel/security/lockdown", "none [integrity] confidentiality"),
        ]);
        for cpu in 0..2 {
            let base = format!("sys/devices/system/cpu/cpu{cpu}");
            host.file(&format!("{base}/cpufreq/scaling_governor"), "powersave");
            host.file(&format!("{base}/cpuidle/state0/name"), "C6");
            host.file(&format!("{base}/cpuidle/state0/latency"), "133");
            host.file(&format!("{base}/cpuidle/state0/disable"), "0");
        }
        host
    }

    /// Adds or replaces a file.
    pub(crate) fn file(&self, name: &str, text: &str) {
        let path = self.directory.path().join(name);
        let folder = path.parent().expect("a file has a folder");
        std::fs::create_dir_all(folder).expect("the temporary directory is ours");
        std::fs::write(path, format!("{text}\n")).expect("the temporary directory is ours");
    }

    /// Adds or replaces files.
    pub(crate) fn files(&self, files: &[(&str, &str)]) {
        for (name, text) in files {
            self.file(name, text);
        }
    }

    /// The root to read from.
    pub(crate) fn root(&self) -> HostRoot {
        HostRoot::at(self.directory.path())
    }

    /// Every file with its content, so that a test can tell that nothing was written.
    pub(crate) fn listing(&self) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        collect(self.directory.path(), &mut files);
        files.sort();
        files
    }
}

fn collect(folder: &Path, files: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).expect("the folder is ours") {
        let path = entry.expect("the folder is ours").path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push((path.display().to_string(), std::fs::read(&path).expect("the file is ours")));
        }
    }
}

const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units
Max locked memory         8388608              8388608              bytes
Max realtime priority     0                    0                    ";
