//! Who ran where, and when.

use quaver_abi::record::{EventKind, EventRecord};
use std::collections::BTreeMap;

/// One stretch of a thread on a CPU.
struct Stretch {
    start_ns: u64,
    end_ns: u64,
    thread: u32,
}

/// Who ran where, and when.
pub(super) struct Stretches(BTreeMap<u16, Vec<Stretch>>);

impl Stretches {
    /// Those of the threads that are `wanted`.
    pub(super) fn of(events: &[EventRecord], wanted: impl Fn(u32) -> bool) -> Self {
        let mut stretches: BTreeMap<u16, Vec<Stretch>> = BTreeMap::new();
        for event in events.iter().filter(|event| event.kind == EventKind::Thread as u8 && wanted(event.id)) {
            let stretch = Stretch { start_ns: event.start_ns, end_ns: event.end_ns, thread: event.id };
            stretches.entry(event.cpu).or_default().push(stretch);
        }
        for of_cpu in stretches.values_mut() {
            of_cpu.sort_unstable_by_key(|stretch| stretch.start_ns);
        }
        Self(stretches)
    }

    /// The thread that ran on a CPU at an instant.
    pub(super) fn at(&self, cpu: u16, ns: u64) -> Option<u32> {
        let of_cpu = self.0.get(&cpu)?;
        let after = of_cpu.partition_point(|stretch| stretch.start_ns <= ns);
        let last = &of_cpu[after.checked_sub(1)?];
        (last.end_ns >= ns).then_some(last.thread)
    }
}
