//! Blocks, as QEMU translates them. The same code may be translated many times; it is decoded and numbered once.

use crate::accesses::Accessing;
use crate::api::{self, Api, MemoryCallback, TranslatedInstruction, TranslationBlock};
use crate::output;
use quaver_trace::block::{Block, Instruction};
use quaver_trace::decode::{Decode, Decoded};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A block, as its callback finds it: never freed, since translations that name it come and go.
pub(crate) struct TranslatedBlock {
    /// Its number in the trace; [`NO_NUMBER`] until it first runs there, since much is translated that is not traced.
    number: AtomicU32,
    pub(crate) instructions: u32,
    block: Block,
    /// Whether it is the recorder's.
    pub(crate) recorders: AtomicBool,
}

/// `iret`, whatever comes before it.
const RETURN: u8 = 0xcf;
/// Stands for no number.
pub(crate) const NO_NUMBER: u32 = u32::MAX;

impl TranslatedBlock {
    /// Its number in the trace, from now on at the latest; [`NO_NUMBER`] once nothing is written any more.
    #[inline]
    pub(crate) fn number(&self) -> u32 {
        match self.number.load(Ordering::Acquire) {
            NO_NUMBER => self.define(),
            number => number,
        }
    }

    /// Address of its first instruction.
    #[inline]
    pub(crate) fn address(&self) -> u64 {
        self.block.pc
    }

    #[cold]
    fn define(&self) -> u32 {
        // Held meanwhile, so that two threads that come at once define it once.
        let _known = known();
        let mut number = self.number.load(Ordering::Acquire);
        if number == NO_NUMBER {
            number = output::define(self.block.clone()).unwrap_or(NO_NUMBER);
            self.number.store(number, Ordering::Release);
        }
        number
    }
}

#[derive(Default)]
struct Known {
    /// By address and bytes of the code.
    blocks: HashMap<(u64, Box<[u8]>), &'static TranslatedBlock>,
    recorder: Range<u64>,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

fn known() -> MutexGuard<'static, Option<Known>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The recorder lies there: what it runs is not the program's.
pub(crate) fn recorder_is(range: Range<u64>) {
    let mut known = known();
    let known = known.get_or_insert_default();
    for ran in known.blocks.values() {
        ran.recorders.store(range.contains(&ran.block.pc), Ordering::Relaxed);
    }
    known.recorder = range;
}

/// The block of a call of the thread library: one instruction that changes the first word of what the call is about. Its
/// address lies in the recorder, `place` bytes from its first.
pub(crate) fn define_call(start: u64, place: u64, instruction: Instruction) -> Option<u32> {
    output::define(Block { pc: start + place, instructions: vec![instruction] })
}

/// A block that is being translated, decoded.
pub(crate) struct Translated {
    pub(crate) pc: u64,
    handles: Vec<*mut TranslatedInstruction>,
    /// Bytes of each instruction.
    pub(crate) octets: Vec<Vec<u8>>,
    decoded: Vec<Decoded>,
}

/// Decodes a block; it is valid during the callback in which QEMU gives it.
pub(crate) fn decode(api: &Api, block: *mut TranslationBlock) -> Translated {
    // SAFETY: QEMU gives a block that is valid during the callback, and so are its instructions.
    let (pc, handles) = unsafe {
        let count = (api.block_length)(block);
        let handles: Vec<_> = (0..count).map(|place| (api.instruction)(block, place)).collect();
        ((api.block_address)(block), handles)
    };
    // SAFETY: as above.
    let octets = handles.iter().map(|handle| unsafe { api.octets(api::version(), *handle) });
    let octets: Vec<Vec<u8>> = octets.collect();
    let mut decode = Decode::default();
    let mut at = pc;
    let decoded = octets.iter().map(|octets| {
        let decoded = decode.instruction(octets, at);
        at = at.wrapping_add(octets.len() as u64);
        decoded
    });
    let decoded = decoded.collect();
    Translated { pc, handles, octets, decoded }
}

impl Translated {
    /// What its callbacks find; the same for the same code at the same place.
    pub(crate) fn ran(&self) -> Option<&'static TranslatedBlock> {
        ran(self.pc, &self.octets.concat(), &self.decoded)
    }

    /// Whether its last instruction is a return from an interrupt.
    pub(crate) fn returns(&self) -> bool {
        self.octets.last().is_some_and(|octets| octets.ends_with(&[RETURN]) && octets.len() <= 2)
    }

    /// The instructions that are these bytes, for callbacks of their own.
    pub(crate) fn handles_of(&self, octets: &[u8]) -> impl Iterator<Item = *mut TranslatedInstruction> {
        let both = self.handles.iter().zip(&self.octets);
        both.filter(move |(_, its)| its.as_slice() == octets).map(|(handle, _)| *handle)
    }

    /// Asks for each access of its instructions.
    ///
    /// # Safety
    /// The block is still being translated.
    pub(crate) unsafe fn watch_accesses(&self, api: &Api, callback: MemoryCallback) {
        for (place, (handle, decoded)) in self.handles.iter().zip(&self.decoded).enumerate() {
            if !decoded.instruction.loads && !decoded.instruction.stores {
                continue;
            }
            let accessing = Accessing { instruction: place as u16, changes_memory: decoded.changes_memory };
            let (registers, which) = (api::NO_REGISTERS, api::READS_AND_WRITES);
            // SAFETY: by the caller; what the callback gets is no address at all.
            unsafe { (api.on_access)(*handle, callback, registers, which, accessing.packed()) };
        }
    }
}

fn ran(pc: u64, octets: &[u8], decoded: &[Decoded]) -> Option<&'static TranslatedBlock> {
    if decoded.is_empty() {
        return None;
    }
    let mut known = known();
    let known = known.get_or_insert_default();
    if let Some(ran) = known.blocks.get(&(pc, octets.into())) {
        return Some(ran);
    }
    let instructions = decoded.iter().map(|decoded| decoded.instruction).collect();
    let ran: &'static TranslatedBlock = Box::leak(Box::new(TranslatedBlock {
        number: AtomicU32::new(NO_NUMBER),
        instructions: decoded.len() as u32,
        block: Block { pc, instructions },
        recorders: AtomicBool::new(known.recorder.contains(&pc)),
    }));
    known.blocks.insert((pc, octets.into()), ran);
    Some(ran)
}
