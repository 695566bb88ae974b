//! Devices of the module `quaver_stamp` (`kmod/`): a record for each packet that is received.

use quaver_host::root::HostRoot;
use quaver_host::stamp_module::StampModule;
use std::fs::File;
use std::io::Read;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Records that are read at once.
const AT_ONCE: usize = 256;

/// How the module stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StampWay {
    /// Raw cycles.
    Raw,
    /// CLOCK_REALTIME nanoseconds, converted in the kernel.
    Clock,
    /// Not at all: the checkpoints alone.
    None,
}

impl StampWay {
    const fn device(self) -> &'static str {
        match self {
            Self::Raw => "quaver_stamp",
            Self::Clock => "quaver_stamp_clock",
            Self::None => "quaver_stamp_none",
        }
    }
}

/// One packet; `struct stamp_record` of the module.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct StampRecord {
    /// Cycles, or nanoseconds. Of a record of losses: how many packets were lost.
    pub(crate) stamp: u64,
    /// The kernel's stamp, CLOCK_REALTIME nanoseconds: the key.
    pub(crate) kernel_ns: u64,
    /// Cycles of the checkpoint before the stamp.
    pub(crate) before_cycles: u64,
    /// Bytes with the link header; 0 in a record of losses.
    pub(crate) length: u32,
    pub(crate) interface: u32,
    /// Cycles from that checkpoint to the one behind the stamp.
    pub(crate) between_cycles: u32,
    pub(crate) cpu: u32,
}
const _: () = assert!(size_of::<StampRecord>() == 40);

/// An open device. The module stamps packets of the opener's network namespace for as long as it is open.
#[derive(Debug)]
pub(crate) struct StampDevice {
    device: File,
    records: Vec<StampRecord>,
    lost: u64,
}

impl StampDevice {
    /// Opens the device of that way.
    ///
    /// # Errors
    /// What keeps this process from it.
    pub(crate) fn open(way: StampWay) -> Result<Self, StampModule> {
        let device = StampModule::open(&HostRoot::system(), way.device())?;
        Ok(Self::of(device))
    }

    fn of(device: File) -> Self {
        Self { device, records: vec![StampRecord::default(); AT_ONCE], lost: 0 }
    }

    /// Hands over at most so many records; how many there were, those of losses among them.
    pub(crate) fn read(&mut self, most: usize, mut each: impl FnMut(&StampRecord)) -> usize {
        let room = self.records[..most.min(AT_ONCE)].as_mut_bytes();
        // A device that cannot be read leaves its packets without stamps, and they are counted.
        let count = self.device.read(room).unwrap_or(0) / size_of::<StampRecord>();
        for record in &self.records[..count] {
            if (record.length, record.kernel_ns) == (0, 0) {
                self.lost += record.stamp;
            } else {
                each(record);
            }
        }
        count
    }

    /// Packets for which the module had no room.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    #[test]
    fn records_come_in_their_order_and_losses_are_counted() {
        let mut file = tempfile::tempfile().unwrap();
        let packet = |stamp| StampRecord { stamp, kernel_ns: 9, length: 60, ..Default::default() };
        let losses = StampRecord { stamp: 3, cpu: 1, ..Default::default() };
        for record in [packet(1), losses, packet(2), losses, packet(4)] {
            file.write_all(record.as_bytes()).unwrap();
        }
        file.rewind().unwrap();
        let mut device = StampDevice::of(file);
        let mut found = Vec::new();
        let counts = [3, 9, 9].map(|most| device.read(most, |record| found.push(record.stamp)));
        assert_eq!((counts, found, device.lost()), ([3, 2, 0], vec![1, 2, 4], 6));
    }
}
