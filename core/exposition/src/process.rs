//! What this program costs.

use crate::families::{Family, Kind, seconds};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// CPU time and memory of this process up to an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCost {
    /// CPU time of all its threads, nanoseconds.
    pub cpu_ns: u64,
    /// Memory that it has, bytes; 0 where the kernel does not tell.
    pub resident_bytes: u64,
}

/// Reads the cost of this process, also from threads that may open no file any more.
#[derive(Debug)]
pub struct ProcessMeter(Option<File>);

impl ProcessMeter {
    /// Opens what the kernel tells of this process.
    pub fn open() -> Self {
        Self(File::open("/proc/self/statm").ok())
    }

    /// The cost up to now.
    pub fn read(&self) -> ProcessCost {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let cpu_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        ProcessCost { cpu_ns, resident_bytes: self.resident_bytes().unwrap_or(0) }
    }

    /// The second number, which is of pages.
    fn resident_bytes(&self) -> Option<u64> {
        let mut text = [0; 128];
        let count = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
        let pages = std::str::from_utf8(&text[..count]).ok()?.split_whitespace().nth(1)?;
        Some(pages.parse::<u64>().ok()? * rustix::param::page_size() as u64)
    }
}

impl ProcessCost {
    /// `PREFIX_cpu_seconds` and `PREFIX_resident_bytes`.
    pub fn families(self, prefix: &str) -> [Family; 2] {
        let help = "CPU time of this program, without its BPF programs.";
        let named = |name| format!("{prefix}_{name}");
        [
            Family::one((&named("cpu_seconds"), "seconds"), Kind::Counter, help, seconds(self.cpu_ns)),
            Family::one(
                (&named("resident_bytes"), "bytes"),
                Kind::Gauge,
                "Memory of this program.",
                self.resident_bytes as f64,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_written_to_is_counted() {
        let meter = ProcessMeter::open();
        let before = meter.read();
        let much = vec![1u8; 64 << 20];
        let after = meter.read();
        assert!(after.resident_bytes >= before.resident_bytes + (32 << 20), "{before:?} {after:?}");
        assert!(after.cpu_ns > before.cpu_ns && much[1 << 20] == 1);
    }
}
