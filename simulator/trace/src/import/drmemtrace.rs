//! Traces of DynamoRIO's drmemtrace after post-processing, as `trace_entry_t` of its `common/trace_entry.h` lies in memory
//! where addresses have 64 bits:
//!
//! ```text
//! 0      2      4                12
//! kind   size   address, thread, marker's value, bytes of an instruction …
//! ```
//! All numbers are little-endian. A file begins with a header entry and ends with a footer entry. It has one thread, or
//! several, of which an entry tells whose turn it is. The data accesses of an instruction follow it.
//!
//! Files are read side by side in the order of their time stamps, so that threads start about when they did: in the first
//! thread, where it was when a stamp of theirs came. Who started them, and all other synchronisation, is not in the trace.

use super::stitch::{Execution, Refused, Stitch};
use super::{ImportError, Imported, InputPosition, Source, facts};
use crate::block::{Class, Instruction};
use crate::decode::Decode;
use std::collections::HashMap;
use std::io::Write;
use zerocopy::byteorder::little_endian::{U16, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Entry {
    kind: U16,
    size: U16,
    value: U64,
}

const _: () = assert!(size_of::<Entry>() == 12);

/// Kinds of entries (`trace_type_t`).
mod kind {
    pub(super) const READ: u16 = 0;
    pub(super) const WRITE: u16 = 1;
    pub(super) const PREFETCH: u16 = 2;
    pub(super) const PREFETCH_INSTRUCTION: u16 = 9;
    pub(super) const INSTRUCTION: u16 = 10;
    pub(super) const DIRECT_JUMP: u16 = 11;
    pub(super) const RETURN: u16 = 16;
    pub(super) const BUNDLE: u16 = 17;
    pub(super) const INSTRUCTION_FLUSH: u16 = 18;
    pub(super) const DATA_FLUSH_END: u16 = 21;
    pub(super) const THREAD: u16 = 22;
    pub(super) const THREAD_EXIT: u16 = 23;
    pub(super) const PID: u16 = 24;
    pub(super) const HEADER: u16 = 25;
    pub(super) const FOOTER: u16 = 26;
    pub(super) const HARDWARE_PREFETCH: u16 = 27;
    pub(super) const MARKER: u16 = 28;
    pub(super) const NOT_FETCHED: u16 = 29;
    pub(super) const PERHAPS_FETCHED: u16 = 30;
    pub(super) const SYSENTER: u16 = 31;
    pub(super) const PREFETCH_NOT_KEPT: u16 = 32;
    pub(super) const PREFETCH_WRITE_NOT_KEPT: u16 = 46;
    pub(super) const ENCODING: u16 = 47;
    pub(super) const TAKEN_JUMP: u16 = 48;
    pub(super) const UNTAKEN_JUMP: u16 = 49;
}

/// Markers of which something is needed (`trace_marker_type_t`), told in `size`.
mod marker {
    pub(super) const TIMESTAMP: u16 = 2;
    pub(super) const FILE_TYPE: u16 = 9;
}

/// Versions that are understood (`trace_version_t`).
const VERSIONS: std::ops::RangeInclusive<u64> = 2..=6;

/// What the marker of the file's type says (`offline_file_type_t`), a bit each.
mod file_type {
    pub(super) const INSTRUCTIONS_ONLY: u64 = 0x04;
    pub(super) const AARCH64: u64 = 0x08;
    pub(super) const ARM: u64 = 0x10;
    pub(super) const X86: u64 = 0x20;
    pub(super) const X86_64: u64 = 0x40;
    /// The bytes of each instruction are told before it runs first, and where they have changed.
    pub(super) const ENCODINGS: u64 = 0x200;
    /// By a cache while it was traced: all, instructions, data.
    pub(super) const FILTERED: u64 = 0x01 | 0x80 | 0x100;
}

pub(super) fn import<W: Write>(sources: Vec<Source<'_>>, out: W) -> Result<(W, Imported), ImportError> {
    let mut files = Vec::with_capacity(sources.len());
    for source in sources {
        files.push(File::open(source)?);
    }
    let file_type = files.iter().fold(0, |all, file| all | file.file_type);
    let from = format!("drmemtrace of version {}", files[0].version);
    let facts = facts(&files[0].source.name, &from, architecture(file_type), &lacks(file_type));
    let stitch = Stitch::new(out, &facts)?;
    let mut importer = Importer { stitch, threads: HashMap::new(), decode: Decode::default() };
    for file in &mut files {
        if file.stamp == 0 {
            importer.thread(file.thread).map_err(|refused| file.told(refused))?;
        }
    }
    while let Some(file) = files.iter_mut().filter(|file| !file.ended).min_by_key(|file| file.stamp) {
        importer.turn(file)?;
    }
    if importer.stitch.imported.instructions == 0 {
        return Err(ImportError::Inputs("there is no instruction in the trace".into()));
    }
    Ok(importer.stitch.finish()?)
}

fn architecture(file_type: u64) -> &'static str {
    match file_type & (file_type::AARCH64 | file_type::X86_64) {
        file_type::AARCH64 => "aarch64",
        file_type::X86_64 => "x86-64",
        _ => "unknown",
    }
}

/// Whether the bytes of instructions are in the trace, and are understood.
fn can_decode(file_type: u64) -> bool {
    let both = file_type::ENCODINGS | file_type::X86_64;
    file_type & both == both
}

fn lacks(file_type: u64) -> Vec<String> {
    let mut lacks = vec!["how threads wait for each other, and who starts them".to_owned()];
    if !can_decode(file_type) {
        lacks.push("registers of instructions: none waits for another".to_owned());
        lacks.push("what instructions compute: all but jumps and system calls are integer ones".to_owned());
    }
    if file_type & file_type::INSTRUCTIONS_ONLY != 0 {
        lacks.push("accesses of data".to_owned());
    }
    if file_type & file_type::FILTERED != 0 {
        lacks.push("what hit in a small cache while it was traced".to_owned());
    }
    lacks
}

/// A file of the trace, read entry by entry.
struct File<'a> {
    source: Source<'a>,
    /// Bytes before the entry that was read last, and before the next.
    at: u64,
    next: u64,
    /// An entry that was read and is still to be taken in.
    waiting: Option<Entry>,
    version: u64,
    file_type: u64,
    /// The thread whose turn it is, by the system's number.
    thread: u64,
    /// The latest time stamp; 0 before the first.
    stamp: u64,
    ended: bool,
    /// Bytes of the instruction that comes next, if they are told.
    encoding: Vec<u8>,
    /// Instructions whose bytes were told last, by their address.
    decoded: HashMap<u64, Instruction>,
}

/// Longest instruction.
const MOST_OCTETS: usize = 15;

impl<'a> File<'a> {
    /// Reads what comes before the first instruction, or before the first time stamp's entries.
    fn open(source: Source<'a>) -> Result<Self, ImportError> {
        let mut file = Self {
            source,
            at: 0,
            next: 0,
            waiting: None,
            version: 0,
            file_type: 0,
            thread: 0,
            stamp: 0,
            ended: false,
            encoding: Vec::new(),
            decoded: HashMap::new(),
        };
        let header = file.entry()?;
        if header.kind.get() != kind::HEADER {
            let reason = "it does not begin as a trace of drmemtrace; what it wrote while tracing (*.raw) must be \
                          post-processed first: drrun -t drmemtrace -indir DIRECTORY";
            return Err(file.damaged(reason));
        }
        file.version = header.value.get();
        if !VERSIONS.contains(&file.version) {
            let (least, most) = (VERSIONS.start(), VERSIONS.end());
            return Err(file.damaged(format!(
                "it is of version {}, or of a program of 32 bits; versions {least} to {most} of 64 bits are understood",
                file.version
            )));
        }
        while file.stamp == 0 {
            let entry = file.entry()?;
            match entry.kind.get() {
                kind::MARKER | kind::THREAD | kind::PID => file.notice(&entry)?,
                _ => {
                    file.waiting = Some(entry);
                    break;
                }
            }
        }
        Ok(file)
    }

    fn entry(&mut self) -> Result<Entry, ImportError> {
        if let Some(entry) = self.waiting.take() {
            return Ok(entry);
        }
        self.at = self.next;
        let mut entry = Entry::new_zeroed();
        if !self.source.fill(entry.as_mut_bytes(), self.at)? {
            return Err(self.damaged("it ends without a footer: it was cut short"));
        }
        self.next += size_of::<Entry>() as u64;
        Ok(entry)
    }

    /// What an entry says of those behind it.
    fn notice(&mut self, entry: &Entry) -> Result<(), ImportError> {
        let value = entry.value.get();
        match (entry.kind.get(), entry.size.get()) {
            (kind::THREAD, _) => self.thread = value,
            (kind::MARKER, marker::TIMESTAMP) => self.stamp = value.max(1),
            (kind::MARKER, marker::FILE_TYPE) => {
                if value & (file_type::ARM | file_type::X86) != 0 {
                    return Err(self.damaged("it is of a program of 32 bits, which is not understood"));
                }
                self.file_type |= value;
            }
            _ => {}
        }
        Ok(())
    }

    /// Some bytes of the instruction that comes next.
    fn encoding(&mut self, entry: &Entry) -> Result<(), ImportError> {
        let (count, octets) = (usize::from(entry.size.get()), entry.value.get().to_le_bytes());
        match octets.get(..count) {
            Some(octets) if self.encoding.len() + count <= MOST_OCTETS => {
                self.encoding.extend_from_slice(octets);
                Ok(())
            }
            _ => {
                Err(self
                    .damaged("an instruction has more than 15 bytes, or an entry has more than 8 of them"))
            }
        }
    }

    fn damaged(&self, reason: impl Into<String>) -> ImportError {
        self.source.damaged(InputPosition::Octet(self.at), reason)
    }

    fn told(&self, refused: Refused) -> ImportError {
        match refused {
            Refused::Untrue(reason) => self.damaged(reason),
            Refused::Write(error) => error.into(),
        }
    }
}

struct Importer<W: Write> {
    stitch: Stitch<W>,
    /// Threads by the system's number.
    threads: HashMap<u64, u32>,
    decode: Decode,
}

impl<W: Write> Importer<W> {
    /// The thread of this number, which starts where it is new.
    fn thread(&mut self, tid: u64) -> Result<u32, Refused> {
        if let Some(thread) = self.threads.get(&tid) {
            return Ok(*thread);
        }
        let thread = self.stitch.start_thread()?;
        self.threads.insert(tid, thread);
        Ok(thread)
    }

    /// Takes in a file's entries up to the next time stamp, or to its end.
    fn turn(&mut self, file: &mut File<'_>) -> Result<(), ImportError> {
        let stamp = file.stamp;
        while file.stamp == stamp && !file.ended {
            let entry = file.entry()?;
            match entry.kind.get() {
                kind::FOOTER => file.ended = true,
                kind::THREAD | kind::MARKER => file.notice(&entry)?,
                kind::PID => {}
                // The system may give its number to another one.
                kind::THREAD_EXIT => {
                    self.threads.remove(&entry.value.get());
                }
                kind::HEADER => return Err(file.damaged("a header is in its middle")),
                kind::ENCODING if can_decode(file.file_type) => file.encoding(&entry)?,
                kind::ENCODING => self.stitch.imported.leave_out("encodings of instructions"),
                _ => self.take_in(&entry, file).map_err(|refused| file.told(refused))?,
            }
        }
        Ok(())
    }

    fn take_in(&mut self, entry: &Entry, file: &mut File<'_>) -> Result<(), Refused> {
        let (size, value, tid) = (entry.size.get(), entry.value.get(), file.thread);
        match entry.kind.get() {
            kind::READ | kind::WRITE => {
                let thread = self.thread(tid)?;
                let write = entry.kind.get() == kind::WRITE;
                self.stitch.accessed(thread, value, u64::from(size), write)
            }
            kind::INSTRUCTION => self.ran(file, value, size, Class::Integer),
            kind::SYSENTER => self.ran(file, value, size, Class::Serialising),
            kind::DIRECT_JUMP..=kind::RETURN | kind::TAKEN_JUMP | kind::UNTAKEN_JUMP => {
                self.ran(file, value, size, Class::Branch)
            }
            kind::BUNDLE => self.bundle(file, size, value),
            kind::NOT_FETCHED | kind::PERHAPS_FETCHED => {
                // A repeated instruction once more: its accesses go on.
                let thread = self.thread(tid)?;
                let again = self.stitch.last_pc(thread) == Some(value);
                if again {
                    file.encoding.clear();
                    return Ok(());
                }
                self.ran(file, value, size, Class::Integer)
            }
            kind::PREFETCH..=kind::PREFETCH_INSTRUCTION
            | kind::PREFETCH_NOT_KEPT..=kind::PREFETCH_WRITE_NOT_KEPT
            | kind::HARDWARE_PREFETCH => {
                self.stitch.imported.leave_out("prefetches");
                Ok(())
            }
            kind::INSTRUCTION_FLUSH..=kind::DATA_FLUSH_END => {
                self.stitch.imported.leave_out("flushes of caches");
                Ok(())
            }
            _ => Err(Refused::Untrue("an entry is of a kind that is not known")),
        }
    }

    fn ran(&mut self, file: &mut File<'_>, pc: u64, size: u16, class: Class) -> Result<(), Refused> {
        let thread = self.thread(file.thread)?;
        let octets = u8::try_from(size).unwrap_or(u8::MAX);
        if !file.encoding.is_empty() {
            // Those of another instruction set, which some filters put in, are of another length.
            if file.encoding.len() == usize::from(size) {
                let decoded = self.decode.instruction(&file.encoding, pc).instruction;
                file.decoded.insert(pc, decoded);
            } else {
                file.decoded.remove(&pc);
                self.stitch.imported.leave_out("encodings of another length than their instruction");
            }
            file.encoding.clear();
        }
        let known = file.decoded.get(&pc).filter(|known| known.octets == octets);
        if known.is_none() && can_decode(file.file_type) {
            self.stitch.imported.leave_out("registers of instructions without an encoding");
        }
        let (reads, writes) = known.map_or_else(Default::default, |known| (known.reads, known.writes));
        // Of jumps and system calls the trace tells itself.
        let class = known.filter(|_| class == Class::Integer).map_or(class, |known| known.class);
        self.stitch.ran(thread, Execution { pc, octets, class, reads, writes })
    }

    /// Up to eight instructions behind the last one, of which the lengths are told, a byte each.
    fn bundle(&mut self, file: &mut File<'_>, count: u16, lengths: u64) -> Result<(), Refused> {
        let thread = self.thread(file.thread)?;
        if count > 8 || self.stitch.last_pc(thread).is_none() {
            return Err(Refused::Untrue("a bundle of instructions follows none, or has more than eight"));
        }
        for octets in &lengths.to_le_bytes()[..usize::from(count)] {
            let pc = self.stitch.next_pc(thread);
            self.ran(file, pc, u16::from(*octets), Class::Integer)?;
        }
        Ok(())
    }
}
