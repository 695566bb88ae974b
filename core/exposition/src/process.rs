//! What this program costs.

use crate::families::{Family, Kind, seconds};
use rustix::time::{ClockId, clock_gettime};

/// CPU time and memory of this process up to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessCost {
    /// CPU time of all its threads, nanoseconds.
    pub cpu_ns: u64,
    /// Memory that it has, bytes; 0 where the kernel does not tell.
    pub resident_bytes: u64,
}

impl ProcessCost {
    /// That of the calling process.
    pub fn read() -> Self {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let cpu_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        Self { cpu_ns, resident_bytes: kib.unwrap_or(0) << 10 }
    }

    /// `PREFIX_cpu_seconds` and `PREFIX_resident_bytes`.
    pub fn families(self, prefix: &str) -> [Family; 2] {
        let cpu =
            ("cpu_seconds", Kind::Counter, "seconds", "CPU time of this program, without its BPF programs.");
        let memory = ("resident_bytes", Kind::Gauge, "bytes", "Memory of this program.");
        [(cpu, seconds(self.cpu_ns)), (memory, self.resident_bytes as f64)].map(
            |((name, kind, unit, help), value)| {
                Family::one((&format!("{prefix}_{name}"), unit), kind, help, value)
            },
        )
    }
}
