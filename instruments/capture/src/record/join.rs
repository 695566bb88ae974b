//! Which record of the layers below belongs to which packet of the ring: the one with the same kernel stamp, of the same
//! interface. A packet that passes several (the port of a bridge and the bridge) keeps its stamp and has a record of each.
//!
//! Records and packets come in nearly the same order, but not with several CPUs; records of packets that a filter or a
//! full ring kept out are never asked for. So they wait in a table of fixed size, in which a new one takes the place of
//! the oldest among the few where it may stand.

/// One packet's stamps below the packet socket. Times of 0 are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Below {
    /// The key: the kernel's stamp, CLOCK_REALTIME nanoseconds.
    pub(super) kernel_ns: u64,
    /// The interface's stamp, nanoseconds of its own clock.
    pub(super) hardware_ns: u64,
    /// CLOCK_MONOTONIC nanoseconds, or cycles.
    pub(super) xdp: u64,
    /// Which of the two.
    pub(super) xdp_in_cycles: bool,
    /// CLOCK_MONOTONIC nanoseconds, or cycles.
    pub(super) tc: u64,
    /// Which of the two.
    pub(super) tc_in_cycles: bool,
    /// Bytes of the packet as the TC program saw it, with its link header.
    pub(super) length: u32,
    /// Index of the interface.
    pub(super) interface: u32,
}

/// A record that waits for its packet.
pub(super) trait Joined: Copy + Default {
    /// The key: the kernel's stamp, CLOCK_REALTIME nanoseconds; 0 is missing.
    fn kernel_ns(&self) -> u64;
    /// Whether it is of a packet of that interface, and of that length if it is given.
    fn is_of(&self, interface: u32, length: Option<u32>) -> bool;
    /// Of several that fit, the one with the smallest comes first.
    fn order(&self) -> u64;

    /// Whether it is the record of a packet with that kernel stamp on that interface, and that length if it is given.
    fn fits(&self, kernel_ns: u64, interface: u32, length: Option<u32>) -> bool {
        self.kernel_ns() == kernel_ns && self.is_of(interface, length)
    }
}

impl Joined for Below {
    fn kernel_ns(&self) -> u64 {
        self.kernel_ns
    }

    fn is_of(&self, interface: u32, length: Option<u32>) -> bool {
        self.interface == interface && length.is_none_or(|length| self.length == length)
    }

    fn order(&self) -> u64 {
        self.tc
    }
}

/// Places where a record may stand.
const WAYS: usize = 8;
/// Records that it holds: those of a second at 100,000 packets a second.
const SLOTS_LOG2: u32 = 17;

/// Records that wait for their packets.
#[derive(Debug)]
pub(super) struct JoinTable<T = Below> {
    slots: Vec<T>,
    /// Places that are taken: looking for a packet in an empty table would cost cache lines for nothing.
    held: usize,
}

impl<T: Joined> JoinTable<T> {
    pub(super) fn new() -> Self {
        Self { slots: vec![T::default(); 1 << SLOTS_LOG2], held: 0 }
    }

    /// The places of a key: neighbours, so that looking at them all costs two cache lines more than at one.
    fn places(&mut self, kernel_ns: u64) -> &mut [T] {
        let hash = kernel_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS_LOG2);
        let start = hash as usize & !(WAYS - 1);
        &mut self.slots[start..start + WAYS]
    }

    /// A record without the key is of no use and left out.
    pub(super) fn put(&mut self, record: T) {
        let key = record.kernel_ns();
        if key == 0 {
            return;
        }
        // A free place has a kernel stamp of 0 and is older than all.
        let Some(slot) = self.places(key).iter_mut().min_by_key(|slot| slot.kernel_ns()) else { return };
        let before = std::mem::replace(slot, record);
        self.held += usize::from(before.kernel_ns() == 0);
    }

    /// Takes out the record of a packet with that kernel stamp on that interface, and that length if it is given; of several,
    /// the first.
    pub(super) fn take(&mut self, kernel_ns: u64, interface: u32, length: Option<u32>) -> Option<T> {
        if self.held == 0 {
            return None;
        }
        let fits = |slot: &&mut T| slot.fits(kernel_ns, interface, length);
        let slot = self.places(kernel_ns).iter_mut().filter(fits).min_by_key(|slot| slot.order())?;
        let found = std::mem::take(slot);
        self.held -= 1;
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kernel_ns: u64, tc: u64, length: u32) -> Below {
        Below { kernel_ns, tc, length, interface: 7, ..Below::default() }
    }

    #[test]
    fn the_key_decides_whatever_the_order() {
        let mut table = JoinTable::new();
        let base = 1_700_000_000_000_000_000u64;
        let keys: Vec<u64> = (0..20_000).map(|number| base + number * 4_999).collect();
        keys.iter().for_each(|key| table.put(record(*key, key + 5, 60)));
        for key in keys.iter().rev() {
            assert_eq!(table.take(*key, 7, Some(60)), Some(record(*key, key + 5, 60)));
            assert_eq!(table.take(*key, 7, Some(60)), None);
        }
    }

    #[test]
    fn packets_of_the_same_nanosecond_are_told_apart_by_length_and_then_by_order() {
        let mut table = JoinTable::new();
        [record(9, 30, 60), record(9, 10, 1500), record(9, 20, 60)]
            .into_iter()
            .for_each(|record| table.put(record));
        assert_eq!(table.take(9, 7, Some(61)), None);
        assert_eq!(table.take(9, 7, Some(60)), Some(record(9, 20, 60)));
        assert_eq!(table.take(9, 7, None), Some(record(9, 10, 1500)));
        assert_eq!(table.take(9, 7, Some(60)), Some(record(9, 30, 60)));
    }

    #[test]
    fn a_packet_that_passes_two_interfaces_has_a_record_of_each() {
        // A port of a bridge and the bridge: one stamp, one length.
        let mut table = JoinTable::new();
        let port = record(9, 10, 60);
        let bridge = Below { interface: 8, ..record(9, 20, 60) };
        table.put(port);
        table.put(bridge);
        assert_eq!(table.take(9, 8, Some(60)), Some(bridge));
        assert_eq!(table.take(9, 8, Some(60)), None);
        assert_eq!(table.take(9, 7, Some(60)), Some(port));
    }

    #[test]
    fn what_nobody_asks_for_makes_room() {
        let mut table = JoinTable::new();
        table.put(record(0, 1, 1));
        assert_eq!(table.take(0, 7, Some(1)), None);
        for round in 1..=40u64 {
            (0..40_000).for_each(|number| table.put(record(round * 1_000_000_000 + number * 25_000, 1, 60)));
        }
        // The latest are all there; a table half full of them would lose some.
        let last = 40_000_000_000u64;
        let found = (30_000..40_000).filter(|n| table.take(last + n * 25_000, 7, Some(60)).is_some()).count();
        assert!(found > 9_990, "{found}");
        assert_eq!(table.take(1_000_000_000, 7, Some(60)), None);
    }
}
