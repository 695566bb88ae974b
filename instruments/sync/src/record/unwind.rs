//! Who called the caller, by the unwinding tables of a program's files (`.eh_frame`) and what was kept of a stack.

use super::maps::MemoryMap;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, NativeEndian, ParsedEhFrameHdr, RegisterRule,
    UnwindContext, UnwindSection, X86_64,
};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSegment};
use quaver_abi::sync::{STACK_FRAME, STACK_WORDS};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Frames of one call that are found.
const MOST_FRAMES: usize = 16;

/// The recorder's own routine starts a thread.
const RECORDER: &str = "libquaver_preload";

/// What was kept of a thread's stack at a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Address that the call returns to.
    pub site: u64,
    /// Stack pointer after it has returned.
    pub pointer: u64,
    /// Words by their place from there on, and the frame pointer by [`STACK_FRAME`].
    pub words: BTreeMap<u8, u64>,
}

impl Stack {
    fn word(&self, address: u64) -> Result<u64, End> {
        let place = address.wrapping_sub(self.pointer) / 8;
        if !address.wrapping_sub(self.pointer).is_multiple_of(8) {
            return Err(End::Lost);
        }
        let place = u8::try_from(place).ok().filter(|place| usize::from(*place) < STACK_WORDS);
        let place = place.ok_or(End::Deep)?;
        let last = self.words.range(..STACK_FRAME).next_back().map(|(place, _)| *place);
        let missing = if last.is_some_and(|last| place < last) { End::NoFile } else { End::Deep };
        self.words.get(&place).copied().ok_or(missing)
    }
}

/// Why no more frames are known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// There are none: the thread began there.
    Whole,
    /// As many as are sought were found.
    Enough,
    /// This file has no unwinding table for the code, or is gone.
    NoTable(String),
    /// The code lies in no file that was loaded: it was made while the program ran.
    NoFile,
    /// The next one lies behind the end of the copy.
    Deep,
    /// What was kept does not tell.
    Lost,
}

/// Return addresses, that of the call itself first, and why they end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frames {
    /// Addresses that calls return to.
    pub sites: Vec<u64>,
    /// Why there are no more.
    pub end: End,
}

/// Unwinds stacks of one process; files are read when they are needed first.
#[derive(Debug)]
pub struct Unwinder {
    map: MemoryMap,
    /// Code that the program makes keeps frame pointers.
    keeps_frames: bool,
    files: BTreeMap<PathBuf, Option<Tables>>,
}

/// A file's tables.
#[derive(Debug)]
struct Tables {
    frames: Vec<u8>,
    index: Vec<u8>,
    bases: BaseAddresses,
    /// Offset in the file, bytes in it, address.
    loaded: Vec<(u64, u64, u64)>,
}

/// Registers that matter for finding the next frame.
#[derive(Clone, Copy)]
struct Registers {
    pointer: u64,
    /// None once it is not known.
    frame: Option<u64>,
}

impl Unwinder {
    /// For a process that had this memory. `keeps_frames`: code that it makes keeps frame pointers. Otherwise what such code has
    /// in that register may be a caller's, and frames between would be left out.
    pub fn new(map: MemoryMap, keeps_frames: bool) -> Self {
        Self { map, keeps_frames, files: BTreeMap::new() }
    }

    /// The frames of a call, innermost first.
    pub fn frames(&mut self, stack: &Stack) -> Frames {
        let mut sites = vec![stack.site];
        let mut now = Registers { pointer: stack.pointer, frame: stack.words.get(&STACK_FRAME).copied() };
        let end = loop {
            if sites.len() >= MOST_FRAMES {
                break End::Enough;
            }
            let site = sites.last().copied().unwrap_or_default();
            match self.step(site, now, stack) {
                Ok((next, registers)) => {
                    sites.push(next);
                    now = registers;
                }
                Err(end) => break end,
            }
        };
        Frames { sites, end }
    }

    /// The caller of a frame that goes on at `site`.
    fn step(&mut self, site: u64, now: Registers, stack: &Stack) -> Result<(u64, Registers), End> {
        // A call may be the last thing that a function does.
        let address = site.checked_sub(1).ok_or(End::Lost)?;
        let mapped = self.map.find(address).filter(|mapped| mapped.executable).ok_or(End::NoFile)?;
        let Some(name) = mapped.name.clone() else { return self.step_by_frame(now, stack) };
        let short = || name.rsplit('/').next().unwrap_or_default().to_owned();
        if short().starts_with(RECORDER) {
            return Err(End::Whole);
        }
        let offset = mapped.offset + (address - mapped.start);
        let file = mapped.file();
        let tables = file
            .and_then(|file| self.files.entry(file).or_insert_with_key(|path| Tables::read(path)).as_ref());
        tables.ok_or_else(|| End::NoTable(short()))?.step(offset, now, stack, short)
    }

    /// The caller of code that was made while the program ran.
    fn step_by_frame(&self, now: Registers, stack: &Stack) -> Result<(u64, Registers), End> {
        let frame =
            now.frame.filter(|frame| self.keeps_frames && *frame >= now.pointer).ok_or(End::NoFile)?;
        let site = stack.word(frame.wrapping_add(8))?;
        let above = Registers { pointer: frame.wrapping_add(16), frame: stack.word(frame).ok() };
        Ok((site, above))
    }
}

impl Tables {
    fn read(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let data = object::ReadCache::new(&file);
        let elf = ElfFile64::<Endianness, _>::parse(&data).ok()?;
        let section = |name: &str| {
            let section = elf.section_by_name(name)?;
            Some((section.address(), section.data().ok()?.to_vec()))
        };
        let (frames_at, frames) = section(".eh_frame")?;
        let (index_at, index) = section(".eh_frame_hdr")?;
        let text_at = section(".text").map_or(0, |(address, _)| address);
        let bases =
            BaseAddresses::default().set_eh_frame(frames_at).set_eh_frame_hdr(index_at).set_text(text_at);
        let mut loaded: Vec<_> = elf
            .segments()
            .map(|segment| (segment.file_range().0, segment.file_range().1, segment.address()))
            .collect();
        loaded.sort_unstable();
        Some(Self { frames, index, bases, loaded })
    }

    fn step(
        &self,
        offset: u64,
        now: Registers,
        stack: &Stack,
        file: impl Fn() -> String,
    ) -> Result<(u64, Registers), End> {
        let missing = || End::NoTable(file());
        let holds =
            |(from, bytes, _): &&(u64, u64, u64)| offset.checked_sub(*from).is_some_and(|at| at < *bytes);
        let (from, _, at) = self.loaded.iter().find(holds).ok_or_else(missing)?;
        let address = at.checked_add(offset - from).ok_or(End::Lost)?;
        let section = EhFrame::new(&self.frames, NativeEndian);
        let header: ParsedEhFrameHdr<EndianSlice<'_, NativeEndian>> =
            EhFrameHdr::new(&self.index, NativeEndian).parse(&self.bases, 8).map_err(|_| missing())?;
        let table = header.table().ok_or_else(missing)?;
        let cie = EhFrame::cie_from_offset;
        let entry = table.fde_for_address(&section, &self.bases, address, cie).map_err(|_| missing())?;
        let mut context = UnwindContext::new();
        let row = entry
            .unwind_info_for_address(&section, &self.bases, &mut context, address)
            .map_err(|_| missing())?;
        // A handler's frame lies above what it interrupted, not above a call.
        let &CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return Err(End::Lost) };
        if entry.is_signal_trampoline() {
            return Err(End::Lost);
        }
        let base = match register {
            X86_64::RSP => now.pointer,
            X86_64::RBP => now.frame.ok_or(End::Lost)?,
            _ => return Err(End::Lost),
        };
        let above = base.wrapping_add_signed(offset);
        if above <= now.pointer {
            return Err(End::Lost);
        }
        let site = match row.register(X86_64::RA) {
            Some(RegisterRule::Offset(at)) => stack.word(above.wrapping_add_signed(at))?,
            Some(RegisterRule::Undefined) => return Err(End::Whole),
            _ => return Err(End::Lost),
        };
        let frame = match row.register(X86_64::RBP) {
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => now.frame,
            Some(RegisterRule::Offset(at)) => stack.word(above.wrapping_add_signed(at)).ok(),
            Some(_) => None,
        };
        Ok((site, Registers { pointer: above, frame }))
    }
}
