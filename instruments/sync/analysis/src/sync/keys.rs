//! Keys of objects, and a hash that costs little for them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Bit of an address that is none of a process but a place in memory that several share: no user address has it.
pub const SHARED_ADDRESS: u64 = 1 << 63;
/// The process of such an address.
pub(super) const SHARED_PROCESS: u16 = u16::MAX;

/// An address of one process image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectKey {
    pub(super) address: u64,
    pub(super) process: u16,
}

impl ObjectKey {
    /// The object at an address that an event of a process image names.
    pub(super) const fn of(process: u16, address: u64) -> Self {
        Self { address, process: if address & SHARED_ADDRESS == 0 { process } else { SHARED_PROCESS } }
    }
}

/// Multiplies and folds. Addresses are not chosen by an enemy, and nothing depends on the order of a map.
#[derive(Clone, Copy, Default)]
pub(super) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        // The fractional part of the golden ratio, odd; the high half of the product depends on every bit below.
        let product = u128::from(self.0 ^ value) * 0x9e37_79b9_7f4a_7c15_u128;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

pub(super) type AddressMap<K, V> = HashMap<K, V, BuildHasherDefault<AddressHasher>>;
