//! Which spin locks several processes share. Nothing in such a lock says so: its initialisation does, and else the memory that it
//! lies in. That is found out where a lock is initialised, sampled or waited for, and remembered by page.

use crate::system;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Pages remembered; two that meet in one place take turns.
const REMEMBERED: usize = 64;
/// Times that a process reads its map for this, at most.
const MOST_READ: u32 = 64;
const PAGE_SHIFT: u32 = 12;

/// Number of a page, and in the lowest bit whether it is shared. The first page holds nothing.
static PAGES: [AtomicU64; REMEMBERED] = [const { AtomicU64::new(0) }; REMEMBERED];
static READ: AtomicU32 = AtomicU32::new(0);

#[inline(always)]
fn place(address: usize) -> Option<&'static AtomicU64> {
    PAGES.get((address >> PAGE_SHIFT) % REMEMBERED)
}

#[inline(always)]
const fn entry(address: usize, is_shared: bool) -> u64 {
    (address >> PAGE_SHIFT << 1) as u64 | is_shared as u64
}

/// Whether the lock there is known to be shared.
#[inline(always)]
pub(crate) fn has(address: usize) -> bool {
    place(address).is_some_and(|place| place.load(Ordering::Relaxed) == entry(address, true))
}

/// Its initialisation says so.
pub(crate) fn learn(address: usize, is_shared: bool) {
    if let Some(place) = place(address) {
        place.store(entry(address, is_shared), Ordering::Relaxed);
    }
}

/// Finds out whether the memory there is shared, unless that is known.
#[cold]
#[inline(never)]
pub(crate) fn find(address: usize) {
    let is_known =
        place(address).is_some_and(|place| place.load(Ordering::Relaxed) | 1 == entry(address, true));
    if is_known || system::is_jailed() || READ.fetch_add(1, Ordering::Relaxed) >= MOST_READ {
        return;
    }
    let mut line = Line::default();
    let mut is_shared = None;
    system::read_without_library(c"/proc/thread-self/maps", |octet| {
        if let Some(range) = line.take(octet)
            && (range.0..range.1).contains(&address)
        {
            is_shared = Some(line.is_shared);
        }
    });
    if let Some(is_shared) = is_shared {
        learn(address, is_shared);
    }
}

/// A line of the map as it is read: `7f00-7f10 rw-s ...`.
#[derive(Default)]
struct Line {
    numbers: (usize, usize),
    /// Numbers and then letters of the rights that were read; all else is passed over.
    field: u8,
    rights: u8,
    is_shared: bool,
}

impl Line {
    /// Takes the next byte; the range of addresses where the rights are complete.
    fn take(&mut self, octet: u8) -> Option<(usize, usize)> {
        match (self.field, octet) {
            (_, b'\n') => *self = Self::default(),
            (0, b'-') | (1, b' ') => self.field = self.field.wrapping_add(1),
            (0 | 1, _) => {
                let digit = usize::from(if octet > b'9' {
                    octet.wrapping_sub(b'a' - 10)
                } else {
                    octet.wrapping_sub(b'0')
                });
                let number = if self.field == 0 { &mut self.numbers.0 } else { &mut self.numbers.1 };
                *number = (*number << 4) | digit;
            }
            (2, _) => {
                self.rights = self.rights.wrapping_add(1);
                if self.rights == 4 {
                    (self.is_shared, self.field) = (octet == b's', 3);
                    return Some(self.numbers);
                }
            }
            _ => {}
        }
        None
    }
}
