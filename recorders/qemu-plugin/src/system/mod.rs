//! What the kernel of an emulated system does, cut into epochs.
//!
//! ```text
//! boot         only `cpuid` of programs is looked at: the guest's first process tells symbols and asks to begin by it
//! symbols      everything is translated anew, with callbacks for each block and each access of the kernel's
//! begin        epochs are kept, until so many entries are there, or the tool says to stop
//! ```

mod cut;
mod machine;
mod symbols;

use crate::accesses::Accessing;
use crate::api::{self, Api, ExecuteCallback, MemoryInfo, PluginId, SystemApi, TranslationBlock};
use crate::output::{self, Progress, Tracer};
use crate::translate::{self, NO_NUMBER, Translated, TranslatedBlock};
use cut::{At, Cutter};
use libc::{c_int, c_uint, c_void};
use machine::{Register, Registers, read_memory};
use quaver_abi::guest_marks::{CALIBRATING_TASK, GuestMoment};
use quaver_trace::epochs::{Activity, KernelEpoch};
use std::cell::UnsafeCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use symbols::{Point, Symbols};

/// Most processors.
const MOST: usize = 256;
/// The `cpuid` instruction.
const CPUID: [u8; 2] = [0x0f, 0xa2];
/// Bytes of a task's description in which its name is looked for: those of Linux have ten thousand.
const TASK_OCTETS: usize = 16 << 10;
/// Bytes that are read at once: pages may not lie side by side.
const PAGE: usize = 4096;
/// Bytes of a task's name, with a zero at its end.
const NAME_OCTETS: usize = 16;
/// The lowest address of the kernel's.
const KERNEL: u64 = 1 << 63;
/// Of the data of a block's callback: it ends with a return from an interrupt.
const RETURNS: usize = 1;

struct System {
    id: PluginId,
    api: SystemApi,
    registers: OnceLock<Registers>,
    symbols: OnceLock<Symbols>,
    /// Where the name lies in a task's description, and 0 while nobody knows.
    name_at: AtomicU64,
    /// An address that is being told, half by half.
    told: AtomicU64,
}

static SYSTEM: OnceLock<System> = OnceLock::new();
/// Whether epochs are kept.
static KEEPING: AtomicBool = AtomicBool::new(false);
static STOPPED: AtomicBool = AtomicBool::new(false);
static ENTRIES: AtomicU64 = AtomicU64::new(0);
static EPOCHS: AtomicU64 = AtomicU64::new(0);
static BEGAN: OnceLock<Instant> = OnceLock::new();
/// How long it went on, once it has stopped.
static TRACED_NS: OnceLock<u64> = OnceLock::new();

/// The kernel of a system. An epoch is written as soon as it is complete.
pub(crate) const TRACER: Tracer = Tracer { stop, is_written: || true, progress };

/// The cutter of a processor.
struct CutterCell(UnsafeCell<Option<Cutter>>);

// SAFETY: QEMU runs a processor in one thread at a time, and only callbacks of that processor touch its place.
unsafe impl Sync for CutterCell {}

static PLACES: [CutterCell; MOST] = [const { CutterCell(UnsafeCell::new(None)) }; MOST];

#[allow(clippy::mut_from_ref, reason = "a processor's callbacks come one after the other")]
#[inline]
fn cutter(processor: c_uint) -> Option<&'static mut Cutter> {
    let place = PLACES.get(processor as usize)?;
    // SAFETY: see `Place`; no callback calls another one.
    Some(unsafe { (*place.0.get()).get_or_insert_with(|| Cutter::new(processor)) })
}

/// Begins to look for marks.
pub(crate) fn install(id: PluginId, api: &'static Api) -> Result<(), String> {
    let system = SystemApi::find().map_err(|missing| {
        format!("this QEMU has no {}; use QEMU 9.2 or newer", missing.to_string_lossy())
    })?;
    let (registers, symbols) = (OnceLock::new(), OnceLock::new());
    let (name_at, told) = (AtomicU64::new(0), AtomicU64::new(0));
    let system = System { id, api: system, registers, symbols, name_at, told };
    SYSTEM.set(system).map_err(|_| "the plugin is loaded twice".to_owned())?;
    // SAFETY: functions that are there as long as QEMU runs, and callbacks of this library, which is never unloaded.
    unsafe {
        (api.on_translation)(id, translated_while_booting);
        (api.on_exit)(id, exits, std::ptr::null_mut());
    }
    Ok(())
}

extern "C" fn exits(_: PluginId, _: *mut c_void) {
    output::finish();
}

/// Nothing more is kept.
fn stop() {
    TRACED_NS.get_or_init(traced_ns);
    STOPPED.store(true, Ordering::SeqCst);
    KEEPING.store(false, Ordering::SeqCst);
}

/// Entries and epochs so far.
fn progress() -> Progress {
    let (instructions, count) = (ENTRIES.load(Ordering::Relaxed), EPOCHS.load(Ordering::Relaxed));
    Progress { instructions, count, traced_ns: traced_ns() }
}

/// For how long epochs have been kept.
fn traced_ns() -> u64 {
    let so_far = || BEGAN.get().map_or(0, |began| began.elapsed().as_nanos() as u64);
    TRACED_NS.get().copied().unwrap_or_else(so_far)
}

extern "C" fn translated_while_booting(_: PluginId, block: *mut TranslationBlock) {
    let (Some(api), Some(system)) = (api::get(), SYSTEM.get()) else { return };
    // SAFETY: QEMU gives a block that is valid during the callback.
    if unsafe { (api.block_address)(block) } < KERNEL {
        look_for_marks(system, &translate::decode(api, block));
    }
}

fn look_for_marks(system: &System, translated: &Translated) {
    for handle in translated.handles_of(&CPUID) {
        // SAFETY: its block is being translated.
        unsafe {
            (system.api.on_instruction)(handle, marked, api::READS_REGISTERS, std::ptr::null_mut());
        }
    }
}

extern "C" fn marked(_: c_uint, _: *mut c_void) {
    let Some(system) = SYSTEM.get() else { return };
    let registers = match system.registers.get() {
        Some(registers) => registers,
        None => match Registers::find(&system.api) {
            Ok(registers) => system.registers.get_or_init(|| registers),
            Err(name) => return output::give_up(&format!("QEMU has no register {}", name.to_string_lossy())),
        },
    };
    let read = |register| registers.read(&system.api, register);
    let (Some(leaf), Some(word)) = (read(Register::Rax), read(Register::Rcx)) else { return };
    let (leaf, word) = (leaf as u32, word & u64::from(u32::MAX));
    match GuestMoment::of(leaf) {
        Some(GuestMoment::Low) => system.told.store(word, Ordering::Relaxed),
        Some(GuestMoment::High) => {
            let low = system.told.load(Ordering::Relaxed) & u64::from(u32::MAX);
            system.told.store(low | word << 32, Ordering::Relaxed);
        }
        Some(GuestMoment::Symbols) => take_symbols(system, word as usize),
        Some(GuestMoment::Begin) => begin(system),
        None => {}
    }
}

fn take_symbols(system: &System, length: usize) {
    let text = read_memory(&system.api, system.told.load(Ordering::Relaxed), length.max(1));
    let Some(text) = text else { return output::give_up("the guest's memory could not be read") };
    match Symbols::of(&String::from_utf8_lossy(&text)) {
        Ok(symbols) => {
            system.symbols.get_or_init(|| symbols);
            // SAFETY: QEMU's function, in a callback; it calls back when all translations are gone.
            unsafe { (system.api.reset)(system.id, translate_anew) };
        }
        Err(name) => {
            output::give_up(&format!("the guest's kernel has no symbol {name}, by which its activity is cut"))
        }
    }
}

fn begin(system: &System) {
    if system.name_at.load(Ordering::Relaxed) == 0 {
        return output::give_up("it was not found where the guest's kernel keeps names of tasks");
    }
    if !STOPPED.load(Ordering::SeqCst) {
        BEGAN.get_or_init(Instant::now);
        KEEPING.store(true, Ordering::SeqCst);
    }
}

extern "C" fn translate_anew(id: PluginId) {
    let Some(api) = api::get() else { return };
    // SAFETY: as when the plugin was installed.
    unsafe {
        (api.on_translation)(id, translated);
        (api.on_exit)(id, exits, std::ptr::null_mut());
    }
}

extern "C" fn translated(_: PluginId, block: *mut TranslationBlock) {
    let (Some(api), Some(system)) = (api::get(), SYSTEM.get()) else { return };
    let Some(symbols) = system.symbols.get() else { return };
    let translated = translate::decode(api, block);
    let on_execution = |callback: ExecuteCallback, flags: c_int, data: *mut c_void| {
        // SAFETY: the block is being translated; the data is never freed, or no address at all.
        unsafe { (api.on_execution)(block, callback, flags, data) };
    };
    if translated.pc < KERNEL {
        look_for_marks(system, &translated);
        return on_execution(program_ran, api::NO_REGISTERS, std::ptr::null_mut());
    }
    let Some(ran) = translated.ran() else { return };
    let data = std::ptr::from_ref(ran).cast_mut().cast::<c_void>();
    let data = if translated.returns() { data.map_addr(|address| address | RETURNS) } else { data };
    match symbols.point(translated.pc, &translated.octets) {
        None => on_execution(kernel_ran, api::NO_REGISTERS, data),
        Some(Point::SystemCall) => on_execution(system_call_ran, api::READS_REGISTERS, data),
        Some(Point::Entry(activity)) => {
            let entry: &'static Entry = Box::leak(Box::new(Entry { ran, activity }));
            let data = std::ptr::from_ref(entry).cast_mut().cast::<c_void>();
            on_execution(entry_ran, api::READS_REGISTERS, data);
        }
        Some(Point::Change) => on_execution(change_ran, api::READS_REGISTERS, data),
        Some(Point::Softirqs) => on_execution(softirqs_ran, api::NO_REGISTERS, data),
    }
    // SAFETY: the block is being translated.
    unsafe { translated.watch_accesses(api, accessed) };
}

/// A block at which the kernel is entered.
#[derive(Clone, Copy)]
struct Entry {
    ran: &'static TranslatedBlock,
    activity: Activity,
}

/// What a callback of a block was given.
fn given(data: *mut c_void) -> (&'static TranslatedBlock, bool) {
    let returns = data.addr() & RETURNS != 0;
    // SAFETY: what was registered for the block, which is never freed, but for its lowest bit.
    (unsafe { &*data.map_addr(|address| address & !RETURNS).cast::<TranslatedBlock>() }, returns)
}

extern "C" fn program_ran(processor: c_uint, _: *mut c_void) {
    if let Some(cutter) = cutter(processor) {
        let done = cutter.program();
        keep(cutter, done);
    }
}

extern "C" fn kernel_ran(processor: c_uint, data: *mut c_void) {
    went(processor, data, None);
}

extern "C" fn softirqs_ran(processor: c_uint, data: *mut c_void) {
    went(processor, data, Some(At::Softirqs));
}

extern "C" fn system_call_ran(processor: c_uint, data: *mut c_void) {
    let number = read(Register::Rax).unwrap_or(u64::MAX);
    let activity = u32::try_from(number).map_or(Activity::Other, Activity::SystemCall);
    went(processor, data, Some(At::Entry { activity, interrupted: 0 }));
}

extern "C" fn entry_ran(processor: c_uint, data: *mut c_void) {
    // SAFETY: what was registered for the block, which is never freed.
    let Entry { ran, activity } = unsafe { *data.cast::<Entry>() };
    // The processor pushed where it was; entries with an error code before it are never taken from the idle task.
    let interrupted = match (SYSTEM.get(), read(Register::Rsp)) {
        (Some(system), Some(at)) => read_memory(&system.api, at, 8),
        _ => None,
    };
    let interrupted =
        interrupted.and_then(|octets| Some(u64::from_le_bytes(*octets.first_chunk()?))).unwrap_or(0);
    block_went(processor, ran, false, Some(At::Entry { activity, interrupted }));
}

extern "C" fn change_ran(processor: c_uint, data: *mut c_void) {
    let name = SYSTEM.get().zip(read(Register::Rsi)).and_then(|(system, task)| name_of(system, task));
    went(processor, data, name.map(|task| At::Change { task }));
}

fn read(register: Register) -> Option<u64> {
    let system = SYSTEM.get()?;
    system.registers.get()?.read(&system.api, register)
}

/// The name of the task that is described at this address.
fn name_of(system: &System, task: u64) -> Option<Box<str>> {
    let mut at = system.name_at.load(Ordering::Relaxed);
    if at == 0 {
        at = find_name(&|from, length| read_memory(&system.api, task + from as u64, length))? as u64;
        system.name_at.store(at, Ordering::Relaxed);
    }
    let octets = read_memory(&system.api, task + at, NAME_OCTETS)?;
    let end = octets.iter().position(|octet| *octet == 0).unwrap_or(NAME_OCTETS - 1);
    Some(String::from_utf8_lossy(&octets[..end]).into())
}

/// Where the name lies in the description of the task by which it is looked for.
fn find_name(read: &dyn Fn(usize, usize) -> Option<Vec<u8>>) -> Option<usize> {
    let mut all = Vec::new();
    while all.len() < TASK_OCTETS {
        match read(all.len(), PAGE / 4) {
            Some(octets) => all.extend(octets),
            None => break,
        }
    }
    let mut wanted = CALIBRATING_TASK.as_bytes().to_vec();
    wanted.push(0);
    all.windows(wanted.len()).position(|octets| octets == wanted)
}

fn went(processor: c_uint, data: *mut c_void, at: Option<At>) {
    let (ran, returns) = given(data);
    block_went(processor, ran, returns, at);
}

fn block_went(processor: c_uint, ran: &TranslatedBlock, returns: bool, at: Option<At>) {
    let Some(cutter) = cutter(processor) else { return };
    // Blocks that nobody keeps get no number.
    let number = if KEEPING.load(Ordering::Relaxed) { ran.number() } else { NO_NUMBER };
    let done = cutter.kernel((number, ran.address(), ran.instructions, returns), at);
    keep(cutter, done);
}

#[inline]
fn keep(cutter: &mut Cutter, done: Option<KernelEpoch>) {
    let Some(epoch) = done else { return };
    // One that began before anything was kept has blocks without numbers.
    let whole = epoch.blocks.iter().all(|(number, _)| *number != NO_NUMBER);
    if whole && KEEPING.load(Ordering::Relaxed) {
        output::add_epoch(&epoch);
        ENTRIES.fetch_add(epoch.instructions, Ordering::Relaxed);
        EPOCHS.fetch_add(1, Ordering::Relaxed);
    }
    cutter.spare(epoch);
}

extern "C" fn accessed(processor: c_uint, info: MemoryInfo, address: u64, data: *mut c_void) {
    let (Some(api), Some(cutter)) = (api::get(), cutter(processor)) else { return };
    // SAFETY: pure functions of what QEMU just gave.
    let (shift, stores) = unsafe { ((api.access_shift)(info), (api.access_stores)(info)) };
    cutter.access(address, 1 << shift.min(6), stores, Accessing::unpacked(data));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_where_it_lies() {
        let mut task = vec![7_u8; 9000];
        task[2936..2936 + CALIBRATING_TASK.len()].copy_from_slice(CALIBRATING_TASK.as_bytes());
        task[2936 + CALIBRATING_TASK.len()] = 0;
        let read =
            |task: &[u8], from: usize, length: usize| task.get(from..from + length).map(<[u8]>::to_vec);
        assert_eq!(find_name(&|from, length| read(&task, from, length)), Some(2936));
        task[2940] = b'x';
        assert_eq!(find_name(&|from, length| read(&task, from, length)), None);
        assert_eq!(find_name(&|_, _| None), None);
    }
}
