//! The module `quaver_stamp` (`kmod/`) as a reader of cycles: a device that hands over a record a packet.

use super::Taken;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Its device, for packets of the network namespace of whoever opens it.
const DEVICE: &str = "/dev/quaver_stamp";
/// Records that are read at once.
const AT_ONCE: usize = 256;

/// One packet; `struct stamp_record` of the module.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct StampRecord {
    /// Cycles. Of a record of losses: how many packets were lost.
    stamp: u64,
    /// The kernel's stamp, CLOCK_REALTIME nanoseconds: the key.
    kernel_ns: u64,
    /// Bytes with the link header; 0 in a record of losses.
    length: u32,
    interface: u32,
    between_cycles: u32,
    cpu: u32,
}
const _: () = assert!(size_of::<StampRecord>() == 32);

/// The open device. The module stamps for as long as it is open.
#[derive(Debug)]
pub(super) struct StampModule {
    device: File,
    /// Interfaces whose packets are wanted; none for all.
    wanted: BTreeSet<u32>,
    records: Vec<StampRecord>,
    lost: u64,
}

impl StampModule {
    /// Opens the device, where the module is loaded, nobody else has it, and we may.
    pub(super) fn open(wanted: BTreeSet<u32>) -> Option<Self> {
        let device = File::open(DEVICE).ok()?;
        Some(Self { device, wanted, records: vec![StampRecord::default(); AT_ONCE], lost: 0 })
    }

    /// Puts at most so many packets' cycles behind `into`, as far as there are any.
    pub(super) fn take(&mut self, most: usize, into: &mut Vec<Taken>) {
        let Self { device, wanted, records, lost } = self;
        while into.is_empty() {
            let room = records[..most.min(AT_ONCE)].as_mut_bytes();
            // A device that cannot be read leaves its packets without cycles, and they are counted.
            let count = device.read(room).unwrap_or(0) / size_of::<StampRecord>();
            if count == 0 {
                return;
            }
            for record in &records[..count] {
                keep(record, wanted, lost, into);
            }
        }
    }

    /// Packets for which the module had no room.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

fn keep(record: &StampRecord, wanted: &BTreeSet<u32>, lost: &mut u64, into: &mut Vec<Taken>) {
    let StampRecord { stamp, kernel_ns, length, interface, .. } = *record;
    if (length, kernel_ns) == (0, 0) {
        *lost += stamp;
    } else if wanted.is_empty() || wanted.contains(&interface) {
        into.push(Taken { kernel_ns, interface, length, cycles: stamp });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_other_interfaces_are_left_out_and_losses_are_counted() {
        let packet =
            |interface| StampRecord { stamp: 7, kernel_ns: 9, length: 60, interface, ..Default::default() };
        let losses = StampRecord { stamp: 3, cpu: 1, ..Default::default() };
        for (wanted, expected) in [(BTreeSet::from([2, 4]), vec![2, 4]), (BTreeSet::new(), vec![2, 3, 4])] {
            let (mut lost, mut taken) = (0, Vec::new());
            for record in [packet(2), losses, packet(3), losses, packet(4)] {
                keep(&record, &wanted, &mut lost, &mut taken);
            }
            assert_eq!(lost, 6);
            assert_eq!(taken.iter().map(|one| one.interface).collect::<Vec<_>>(), expected);
            assert!(taken.iter().all(|one| (one.cycles, one.kernel_ns, one.length) == (7, 9, 60)));
        }
    }
}
