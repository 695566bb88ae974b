//! The time that a KVM host takes from this guest's CPUs: whether the programs can read its count, and whether that count
//! agrees with what the kernel reports.

use super::btf::KernelTypes;
use super::programs::READ_ONLY;
use crate::facts::HostFacts;
use crate::root::HostRoot;
use std::collections::BTreeMap;

/// `/proc/stat` counts in ticks of 10 ms, and a tick comes up to one tick after what it counts.
const AGREES_NS: u64 = 20_000_000;
const STAT_TICK_NS: u64 = 10_000_000;

/// Where the programs find the host's count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StealCount {
    /// No hypervisor: nothing can be taken.
    NotNeeded,
    /// At this distance from a CPU's run queue, bytes.
    At(i64),
    /// It cannot be read, for this reason.
    Unreadable(String),
}

/// Finds the count, from the kernel's types and the host's hypervisor.
pub(super) fn find(types: &KernelTypes, root: &HostRoot) -> StealCount {
    if !HostFacts::read(root).hypervisor.present {
        return StealCount::NotNeeded;
    }
    match types.steal_offset {
        _ if !types.functions.contains(READ_ONLY) => {
            StealCount::Unreadable(format!("the kernel has no {READ_ONLY} (Linux 6.2)"))
        }
        Some(offset) => StealCount::At(offset),
        None => StealCount::Unreadable("the kernel describes no steal_time of KVM".to_owned()),
    }
}

/// Sentences on the CPUs whose count differs from `/proc/stat` by more than 20 ms. `counted` holds each CPU's count since
/// boot, nanoseconds.
pub(super) fn disagreements(counted: &BTreeMap<u16, u64>, stat: &str) -> Vec<String> {
    let reported = reported_ns(stat);
    let differ = counted.iter().filter_map(|(cpu, counted_ns)| {
        let reported_ns = *reported.get(cpu)?;
        (counted_ns.abs_diff(reported_ns) > AGREES_NS).then(|| {
            format!(
                "CPU {cpu}: the hypervisor counts {} ms of steal since boot, /proc/stat {} ms",
                counted_ns / 1_000_000,
                reported_ns / 1_000_000
            )
        })
    });
    differ.collect()
}

/// Column "steal" of each CPU in `/proc/stat` (proc(5)), nanoseconds since boot.
fn reported_ns(stat: &str) -> BTreeMap<u16, u64> {
    let line = |line: &str| {
        let mut fields = line.strip_prefix("cpu")?.split_whitespace();
        let cpu = fields.next()?.parse().ok()?;
        let ticks: u64 = fields.nth(7)?.parse().ok()?;
        Some((cpu, ticks.saturating_mul(STAT_TICK_NS)))
    };
    // The first line is of all CPUs together: its first field is a sum.
    stat.lines().skip(1).filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "cpu  9 8 7 6 5 4 3 46 0 0\ncpu0 1 2 3 4 5 6 7 40 9 10\ncpu1 1 2 3 4 5 6 7 6 9 10\nintr 5\n";

    #[test]
    fn counts_are_compared_cpu_by_cpu() {
        assert_eq!(reported_ns(STAT), BTreeMap::from([(0, 400_000_000), (1, 60_000_000)]));
        let near = BTreeMap::from([(0, 419_000_000), (1, 40_000_000)]);
        assert_eq!(disagreements(&near, STAT), Vec::<String>::new());
        let far = BTreeMap::from([(0, 421_000_000), (1, 39_999_999), (2, 1 << 60)]);
        let found = disagreements(&far, STAT);
        assert_eq!(found.len(), 2, "a CPU of which nothing is reported says nothing: {found:?}");
        assert!(found[0].starts_with("CPU 0: the hypervisor counts 421 ms"), "{}", found[0]);
    }

    #[test]
    fn a_kernel_without_the_record_is_blind_to_steal_in_a_guest_alone() {
        let readable = || {
            let mut types = KernelTypes { steal_offset: Some(-64), ..KernelTypes::default() };
            types.functions.insert(READ_ONLY.to_owned());
            types
        };
        let machine = |flags: &str| {
            let directory = tempfile::tempdir().unwrap();
            std::fs::create_dir(directory.path().join("proc")).unwrap();
            std::fs::write(directory.path().join("proc/cpuinfo"), format!("flags : {flags}\n")).unwrap();
            directory
        };
        let (guest, metal) = (machine("fpu hypervisor"), machine("fpu"));
        let (guest, metal) = (HostRoot::at(guest.path()), HostRoot::at(metal.path()));
        assert_eq!(find(&readable(), &guest), StealCount::At(-64));
        assert_eq!(find(&readable(), &metal), StealCount::NotNeeded);
        let lacking = [
            KernelTypes { steal_offset: None, ..readable() },
            KernelTypes { functions: Default::default(), ..readable() },
        ];
        for types in lacking {
            assert!(matches!(find(&types, &guest), StealCount::Unreadable(_)));
        }
    }
}
