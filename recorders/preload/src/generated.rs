//! Where a Java virtual machine puts the code that it makes: no file tells, so the memory map is read at the start of a thread until it
//! does. Other programs are not asked.

use crate::system;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static IS_JAVA: AtomicBool = AtomicBool::new(false);
/// First address and the one behind the last; 0 until they are known.
static KNOWN: (AtomicUsize, AtomicUsize) = (AtomicUsize::new(0), AtomicUsize::new(0));

/// Notes whether the program is Java's. To be called before there are threads.
pub(crate) fn begin() {
    let mut path = [0_u8; 4096];
    // SAFETY: a C string and a buffer with its length.
    let octets = unsafe {
        libc::readlink(c"/proc/self/exe".as_ptr(), path.as_mut_ptr().cast(), path.len()).max(0) as usize
    };
    IS_JAVA.store(path.get(..octets).is_some_and(|path| path.ends_with(b"/java")), Ordering::Relaxed);
}

/// Whether an address lies in such code.
pub(crate) fn holds(address: usize) -> bool {
    address < KNOWN.1.load(Ordering::Acquire) && address >= KNOWN.0.load(Ordering::Relaxed)
}

/// Reads the memory map if the code was not found so far. The kernel is asked.
pub(crate) fn find() {
    if !IS_JAVA.load(Ordering::Relaxed) || KNOWN.1.load(Ordering::Relaxed) != 0 {
        return;
    }
    let mut search = Search::default();
    system::read_by_parts(c"/proc/thread-self/maps", |octet| search.take(octet));
    if search.found.1 != 0 {
        KNOWN.0.store(search.found.0, Ordering::Relaxed);
        KNOWN.1.store(search.found.1, Ordering::Release);
    }
}

/// A line of the map (proc_pid_maps(5)) as far as it was read, and the first memory without a file that code runs from, with what is
/// reserved behind it.
#[derive(Default)]
struct Search {
    found: (usize, usize),
    number: usize,
    start: usize,
    end: usize,
    field: u32,
    is_code: bool,
    is_of_file: bool,
}

impl Search {
    fn take(&mut self, octet: u8) {
        match (octet, self.field) {
            (b'\n', _) => {
                self.end_line();
                *self = Self { found: self.found, ..Self::default() };
            }
            (b'-', 0) => (self.start, self.number) = (self.number, 0),
            (b' ', 0) => (self.end, self.field) = (self.number, 1),
            (b' ', _) => self.field = self.field.saturating_add(1),
            (_, 0) => {
                let digit = (octet as char).to_digit(16).unwrap_or(0) as usize;
                self.number = self.number.wrapping_mul(16).wrapping_add(digit);
            }
            (b'x', 1) => self.is_code = true,
            // The inode, and the name behind it.
            (b'0', 4) => {}
            (_, 4..) => self.is_of_file = true,
            _ => {}
        }
    }

    fn end_line(&mut self) {
        if self.is_of_file {
            return;
        }
        if self.found.1 == 0 && self.is_code {
            self.found = (self.start, self.end);
        } else if self.found.1 != 0 && self.found.1 == self.start {
            self.found.1 = self.end;
        }
    }
}
