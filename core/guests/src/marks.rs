//! Marks that the first process of a guest makes for the plugin in its emulator (`quaver_abi::guest_marks`).

use super::GuestError;
use quaver_abi::guest_marks::{GuestMoment, is_wanted};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Where the kernel tells its symbols.
const SYMBOLS: &str = "/proc/kallsyms";

#[cfg(target_arch = "x86_64")]
fn mark(moment: GuestMoment, word: u32) {
    use std::arch::x86_64::__cpuid_count;
    // SAFETY: every x86-64 processor has the instruction, and answers to leaves that it does not know as to its last.
    #[allow(unused_unsafe, reason = "newer compilers know that it is safe")]
    let _ = unsafe { __cpuid_count(moment.leaf(), word) };
}

#[cfg(not(target_arch = "x86_64"))]
fn mark(_: GuestMoment, _: u32) {}

/// The symbols of the kernel by which its activity is cut, as lines of `/proc/kallsyms`.
///
/// # Errors
/// [`GuestError::File`].
pub fn wanted_symbols() -> Result<String, GuestError> {
    let failed = |source| GuestError::File { operation: "read", path: Path::new(SYMBOLS).to_owned(), source };
    let mut lines = BufReader::with_capacity(1 << 16, File::open(SYMBOLS).map_err(failed)?);
    let (mut wanted, mut line) = (String::new(), String::new());
    while lines.read_line(&mut line).map_err(failed)? > 0 {
        if line.split_ascii_whitespace().nth(2).is_some_and(is_wanted) {
            wanted.push_str(&line);
        }
        // Modules come last, and have none of them.
        if line.ends_with("]\n") {
            break;
        }
        line.clear();
    }
    Ok(wanted)
}

/// Tells the plugin the symbols; from now on it sees what the kernel does.
pub fn tell_symbols(text: &str) {
    let address = text.as_ptr().addr() as u64;
    mark(GuestMoment::Low, address as u32);
    mark(GuestMoment::High, (address >> 32) as u32);
    mark(GuestMoment::Symbols, text.len() as u32);
}

/// From now on it keeps what it sees.
pub fn begin() {
    mark(GuestMoment::Begin, 0);
}
