//! Where a process that runs can be stopped at its calls of conditions and barriers (uprobes), and at what price. A probe at an
//! instruction that the kernel does itself costs one trap; where it has to run the instruction on its own page, step by step, it
//! costs ten times that. So only functions whose first instruction is of the first kind are probed; and what a probe costs is
//! measured, in the same run, on two functions of our own.

use crate::record::maps::MemoryMap;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use object::{Endianness, ReadRef};
use quaver_abi::sync::SyncKind;
use std::path::PathBuf;

/// Functions of the C library and the events that they are. Locks are not among them: most are free, and a probe takes many times
/// as long as a free lock; those that are not free show in their futex calls.
const FUNCTIONS: [(&str, SyncKind, SyncKind); 6] = [
    ("pthread_cond_wait", SyncKind::WaitEntry, SyncKind::WaitExit),
    ("pthread_cond_timedwait", SyncKind::WaitEntry, SyncKind::WaitExit),
    ("pthread_cond_clockwait", SyncKind::WaitEntry, SyncKind::WaitExit),
    ("pthread_cond_signal", SyncKind::SignalEntry, SyncKind::SignalExit),
    ("pthread_cond_broadcast", SyncKind::BroadcastEntry, SyncKind::BroadcastExit),
    ("pthread_barrier_wait", SyncKind::BarrierEntry, SyncKind::BarrierExit),
];

/// A function that can be probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Its name.
    pub function: &'static str,
    /// File that it is in, as this process can open it.
    pub file: PathBuf,
    /// Where in the file it begins.
    pub offset: u64,
    /// What its entry is.
    pub entry: SyncKind,
    /// What its return is.
    pub exit: SyncKind,
}

/// What can be probed in a process, and sentences about what cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probes {
    /// What can.
    pub found: Vec<Probe>,
    /// What cannot, and why.
    pub refused: Vec<String>,
}

/// What probes cost here, nanoseconds a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeCost {
    /// With a probe at the entry and one at the return, where the kernel does the first instruction itself.
    pub emulated_ns: u64,
    /// The same where it has to step through it.
    pub stepped_ns: u64,
}

/// Looks for them in the C library of a process.
pub fn find(pid: u32) -> Probes {
    let mut probes = Probes::default();
    let Some(library) = library_of(pid) else {
        probes.refused.push(format!("process {pid} has no C library of glibc that could be probed"));
        return probes;
    };
    // The process may see other files under its names than we do.
    let file = PathBuf::from(format!("/proc/{pid}/root")).join(library.strip_prefix("/").unwrap_or(&library));
    let octets = match std::fs::read(&file) {
        Ok(octets) => octets,
        Err(error) => {
            probes.refused.push(format!("reading {}: {error}", file.display()));
            return probes;
        }
    };
    for (function, entry, exit) in FUNCTIONS {
        match place_of(&octets, function) {
            None => probes.refused.push(format!("{function} is not in {}", library.display())),
            Some((_, first)) if !is_emulated(first) => probes.refused.push(format!(
                "{function} begins with an instruction that the kernel would have to step through, at ten times the cost"
            )),
            Some((offset, _)) => {
                probes.found.push(Probe { function, file: file.clone(), offset, entry, exit });
            }
        }
    }
    probes
}

/// The C library, or that of threads where it is still one of its own (glibc before 2.34).
fn library_of(pid: u32) -> Option<PathBuf> {
    let map = MemoryMap::of_process(pid)?;
    let named = |part: &str| {
        map.iter()
            .filter(|mapped| mapped.executable)
            .filter_map(|mapped| mapped.file())
            .find(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(part)))
    };
    named("libpthread.so.0")
        .or_else(|| named("libpthread-2."))
        .or_else(|| named("libc.so.6"))
        .or_else(|| named("libc-2."))
}

/// Where in an ELF file a function begins that others may call, and the bytes from there on. Of several versions of it, the
/// one that a program is linked with today.
fn place_of<'data>(octets: &'data [u8], function: &str) -> Option<(u64, &'data [u8])> {
    let header = elf::FileHeader64::<Endianness>::parse(octets).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, octets).ok()?;
    let symbols = sections.symbols(endian, octets, elf::SHT_DYNSYM).ok()?;
    let versions = sections.versions(endian, octets).ok().flatten();
    let is_default =
        |index| versions.as_ref().is_none_or(|versions| !versions.version_index(endian, index).is_hidden());
    let address = symbols.enumerate().find_map(|(index, symbol)| {
        let ours = symbols.symbol_name(endian, symbol).ok()? == function.as_bytes();
        let defined = symbol.st_shndx(endian) != elf::SHN_UNDEF;
        (ours && defined && is_default(index)).then(|| symbol.st_value(endian))
    })?;
    let segments = header.program_headers(endian, octets).ok()?;
    let offset = segments.iter().filter(|one| one.p_type(endian) == elf::PT_LOAD).find_map(|one| {
        let inside = address.checked_sub(one.p_vaddr(endian))?;
        (inside < one.p_filesz(endian)).then(|| one.p_offset(endian) + inside)
    })?;
    Some((offset, octets.read_bytes_at(offset, 16).ok()?))
}

/// Whether the kernel does an instruction itself when a probe stands on it (`arch/x86/kernel/uprobes.c`): pushes of registers, and
/// the nop of one byte. It does others, too, but none with which functions begin.
pub(super) fn is_emulated(first: &[u8]) -> bool {
    if !cfg!(target_arch = "x86_64") {
        return false;
    }
    matches!(first, [0x50..=0x57 | 0x90, ..] | [0x41, 0x50..=0x57, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_are_done_by_the_kernel_and_moves_are_not() {
        let x86 = cfg!(target_arch = "x86_64");
        for first in [&[0x55_u8, 0x48][..], &[0x41, 0x57], &[0x90]] {
            assert_eq!(is_emulated(first), x86, "{first:x?}");
        }
        for first in [&[0x8b_u8, 0x47][..], &[0x41, 0x89], &[0xf3, 0x0f, 0x1e, 0xfa], &[]] {
            assert!(!is_emulated(first), "{first:x?}");
        }
    }

    /// Our own process has the C library that everything here has.
    #[test]
    fn functions_are_found_where_the_loader_finds_them() {
        let probes = find(std::process::id());
        assert_eq!(probes.found.len() + probes.refused.len(), FUNCTIONS.len(), "{probes:?}");
        let map = MemoryMap::of_process(std::process::id()).unwrap();
        for probe in &probes.found {
            let name = std::ffi::CString::new(probe.function).unwrap();
            // SAFETY: a C string.
            let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as u64;
            let mapped = map.find(address).unwrap();
            assert_eq!(address - mapped.start + mapped.offset, probe.offset, "{}", probe.function);
        }
    }
}
