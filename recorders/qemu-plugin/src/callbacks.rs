//! What QEMU calls: when it loads the plugin, and then whenever something happens.

use crate::accesses::Accessing;
use crate::api::{self, Api, MemoryInfo, PluginId, QemuInfo, TranslationBlock};
use crate::marks::{self, Marks};
use crate::pace::{FUTEX, Futex};
use crate::translate::{self, TranslatedBlock};
use crate::{output, system, threads};
use libc::{c_char, c_int, c_uint, c_void};
use quaver_abi::marks::{MARK_CALL, Moment, of_word};
use quaver_trace::step::Sync;
use std::cell::Cell;
use std::ffi::CStr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// Name of the only argument: the control directory.
const CONTROL: &str = "control=";
/// `clone` of x86-64, by which threads are made. QEMU 7.2 has no `clone3`, and the C library does without.
const CLONE: i64 = 56;

thread_local! {
    /// The thread that this host thread is just making another for, and the `pthread_t` of that.
    static CREATES: Cell<Option<(u32, u64)>> = const { Cell::new(None) };
    /// The thread that this host thread runs, once it made a system call.
    static RUNS: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Newest version of the interface that tells of a new thread in the system call that makes it.
const NEWEST_FOR_PROGRAMS: c_int = 1;

/// What others may take to end their traces when the program is killed.
const LAST_MOMENT: Duration = Duration::from_secs(5);

/// Which version of the interface this plugin is made for. QEMU looks for this name.
#[allow(non_upper_case_globals, reason = "QEMU looks for this name")]
#[unsafe(no_mangle)]
pub(crate) static qemu_plugin_version: AtomicI32 = AtomicI32::new(1);

/// Called when the library is loaded, before QEMU looks at the version.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = choose_version;

extern "C" fn choose_version() {
    qemu_plugin_version.store(api::version_to_say(api::has), Ordering::Relaxed);
}

/// Begins the trace. Not 0 refuses to be loaded, after a sentence on standard error.
///
/// # Safety
/// To be called by QEMU, with what its plugin interface says.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    info: *const QemuInfo,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU gives its facts and so many arguments, each a C string.
    let asked = unsafe { (facts(info), words(count, arguments)) };
    match install(id, asked.0, &asked.1) {
        Ok(()) => 0,
        Err(reason) => {
            eprintln!("quaver: the trace does not begin: {reason}");
            1
        }
    }
}

/// # Safety
/// `info` is null or what QEMU gives.
unsafe fn facts(info: *const QemuInfo) -> Result<Emulator, String> {
    // SAFETY: by the caller.
    let Some(info) = (unsafe { info.as_ref() }) else { return Err("QEMU says nothing of itself".into()) };
    let emulator = Emulator { version: info.version, system: info.system_emulation };
    if info.target_name.is_null() {
        return Ok(emulator);
    }
    // SAFETY: by the caller, a C string.
    match unsafe { CStr::from_ptr(info.target_name) }.to_bytes() {
        b"x86_64" => Ok(emulator),
        other => Err(format!("this plugin traces x86_64, not {}", String::from_utf8_lossy(other))),
    }
}

/// # Safety
/// `arguments` are `count` C strings.
unsafe fn words(count: c_int, arguments: *const *const c_char) -> Vec<Vec<u8>> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: by the caller.
    let each = (0..count).map(|place| unsafe { CStr::from_ptr(*arguments.add(place)) });
    each.map(|word| word.to_bytes().to_vec()).collect()
}

/// What QEMU says of itself.
#[derive(Clone, Copy)]
struct Emulator {
    /// Its version of the interface.
    version: c_int,
    /// Whether it emulates a whole system.
    system: bool,
}

fn install(id: PluginId, facts: Result<Emulator, String>, words: &[Vec<u8>]) -> Result<(), String> {
    use std::os::unix::ffi::OsStringExt;
    let emulator = facts?;
    let control = words.iter().find_map(|word| word.strip_prefix(CONTROL.as_bytes()));
    let control = control.ok_or("it is not said where to; use `quaver sim trace`")?;
    let api = Api::find().map_err(|missing| format!("this QEMU has no {}", missing.to_string_lossy()))?;
    let control = PathBuf::from(std::ffi::OsString::from_vec(control.to_vec()));
    let traces_system =
        output::begin(&control, if emulator.system { system::TRACER } else { threads::TRACER })?;
    if traces_system != emulator.system {
        return Err("a program was to be traced and this emulates a system, or the other way round".into());
    }
    let api = api::keep(api, emulator.version);
    if emulator.system {
        system::install(id, api)?;
        return watch().map_err(|e| format!("start a thread: {e}"));
    }
    if emulator.version > NEWEST_FOR_PROGRAMS {
        return Err("from QEMU 9 on new threads are not told where they are made; use QEMU 7.2 or 8".into());
    }
    // SAFETY: functions that are there as long as QEMU runs. What is registered is of this library, which is never unloaded.
    // Ctrl-C ends the trace, by the tool, and not the program: QEMU takes over what is ignored here. In the child of a fork only
    // stores to our own memory are made.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::pthread_atfork(None, None, Some(in_child));
        (api.on_thread_begin)(id, thread_begins);
        (api.on_thread_end)(id, thread_ends);
        (api.on_translation)(id, translated);
        (api.on_system_call)(id, system_call);
        (api.on_system_call_end)(id, system_call_ends);
        (api.on_exit)(id, exits, std::ptr::null_mut());
    }
    watch().map_err(|e| format!("start a thread: {e}"))
}

/// Starts the thread that watches, with all signals blocked: QEMU's handlers are for its own threads.
fn watch() -> std::io::Result<()> {
    // SAFETY: plain data that the calls fill in; the mask is put back as it was.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let started = std::thread::Builder::new().name("quaver-trace".into()).spawn(output::watch);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        started.map(drop)
    }
}

unsafe extern "C" fn in_child() {
    threads::forget();
}

extern "C" fn thread_begins(_: PluginId, number: c_uint) {
    let thread = threads::begin(number);
    // QEMU calls this from the host thread of the creator, inside its system call.
    let Some((creator, pthread)) = CREATES.take() else { return };
    Marks::get().thread_made(pthread, thread);
    threads::with(creator, |creator| creator.sync(Sync::Create { thread }));
    threads::wait(creator);
}

extern "C" fn thread_ends(_: PluginId, number: c_uint) {
    threads::end(number);
}

extern "C" fn translated(_: PluginId, block: *mut TranslationBlock) {
    let Some(api) = api::get() else { return };
    let translated = translate::decode(api, block);
    let Some(ran) = translated.ran() else { return };
    // SAFETY: the block is valid during the callback; what the callbacks get is never freed, or no address at all.
    unsafe {
        let data = std::ptr::from_ref(ran).cast_mut().cast::<c_void>();
        (api.on_execution)(block, self::ran, api::NO_REGISTERS, data);
        translated.watch_accesses(api, accessed);
    }
}

/// A block begins to run. `data` is its [`TranslatedBlock`].
extern "C" fn ran(number: c_uint, data: *mut c_void) {
    // SAFETY: what was registered for the block, which is never freed.
    let ran = unsafe { &*data.cast::<TranslatedBlock>() };
    threads::ran(number, ran);
}

/// An instruction accessed memory. `data` is its [`Accessing`].
extern "C" fn accessed(number: c_uint, info: MemoryInfo, address: u64, data: *mut c_void) {
    let Some(api) = api::get() else { return };
    // SAFETY: pure functions of what QEMU just gave.
    let (shift, stores) = unsafe { ((api.access_shift)(info), (api.access_stores)(info)) };
    threads::accessed(number, address, 1 << shift.min(6), stores, Accessing::unpacked(data));
}

extern "C" fn system_call(
    _: PluginId,
    number: c_uint,
    call: i64,
    first: u64,
    second: u64,
    third: u64,
    fourth: u64,
    fifth: u64,
    _: u64,
    _: u64,
    _: u64,
) {
    RUNS.set(Some(number));
    if call == MARK_CALL as i64 {
        match of_word(first) {
            Some((Moment::Begin, _)) => {
                Marks::get().begin(second, third);
                threads::start();
            }
            Some((moment, Some(what))) => {
                threads::with(number, |traced| {
                    marks::take_in(traced, moment, what, second, third, fourth as i32)
                });
            }
            _ => {}
        }
    } else if call == CLONE {
        CREATES.set(Some((number, fifth)));
    }
    threads::with(number, |_| ());
    if call == FUTEX
        && let Some(futex) = Futex::of(first, second, third)
    {
        threads::futex(number, futex);
    }
    threads::wait(number);
}

extern "C" fn system_call_ends(_: PluginId, number: c_uint, _: i64, _: i64) {
    threads::come_back(number);
}

extern "C" fn exits(_: PluginId, _: *mut c_void) {
    threads::take_all();
    output::finish();
}

/// Takes the place of the C library's function in QEMU, which is started with this library loaded before it: by this call QEMU
/// ends itself where a signal kills the program, without a word to plugins. The trace is ended first.
///
/// # Safety
/// As of that function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn kill(process: libc::pid_t, signal: c_int) -> c_int {
    let only_stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU, libc::SIGCONT];
    // SAFETY: takes nothing.
    if process == unsafe { libc::getpid() } && signal != 0 && !only_stops.contains(&signal) {
        dies();
    }
    // SAFETY: what the caller passed; the system checks it.
    unsafe { libc::syscall(libc::SYS_kill, process, signal) as c_int }
}

fn dies() {
    let Some(own) = RUNS.get() else { return };
    threads::stop();
    threads::take_own(own);
    let since = Instant::now();
    while !threads::take_waiting() && since.elapsed() < LAST_MOMENT {
        std::thread::sleep(Duration::from_millis(1));
    }
    output::finish();
}
