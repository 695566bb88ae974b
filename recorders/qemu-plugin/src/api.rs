//! What QEMU gives to plugins, declared here by hand after QEMU's documentation: its interface as of version 1 (QEMU 6.0 to 8.2),
//! and what versions 2 to 4 changed and added (QEMU 9.0 to 10).
//!
//! Functions are looked up where the plugin is loaded, so that one that is missing is told in a sentence.

use libc::{c_char, c_int, c_uint, c_void, size_t};
use std::ffi::CStr;
use std::sync::OnceLock;

/// Number that QEMU gave this plugin.
pub(crate) type PluginId = u64;
/// An access, as its callback gets it.
pub(crate) type MemoryInfo = u32;

/// A block that is being translated; valid during the callback.
#[repr(C)]
pub(crate) struct TranslationBlock {
    opaque: [u8; 0],
}

/// An instruction of it.
#[repr(C)]
pub(crate) struct TranslatedInstruction {
    opaque: [u8; 0],
}

/// An array of QEMU's library.
#[repr(C)]
pub(crate) struct Array {
    pub(crate) data: *mut c_char,
    pub(crate) length: c_uint,
}

/// Bytes of QEMU's library.
#[repr(C)]
pub(crate) struct Octets {
    pub(crate) data: *mut u8,
    pub(crate) length: c_uint,
}

/// A register, as QEMU describes it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RegisterDescription {
    pub(crate) handle: *mut c_void,
    pub(crate) name: *const c_char,
    pub(crate) feature: *const c_char,
}

/// What QEMU tells when it loads a plugin. What follows is for emulation of whole systems.
#[repr(C)]
pub(crate) struct QemuInfo {
    /// Instruction set of the program.
    pub(crate) target_name: *const c_char,
    /// Least version of the interface that is still understood.
    pub(crate) least_version: c_int,
    /// Its newest version.
    pub(crate) version: c_int,
    /// Whether a whole system is emulated.
    pub(crate) system_emulation: bool,
}

/// From this version on an instruction's bytes are copied into a place of the plugin's.
const COPIES_OCTETS: c_int = 3;
/// Longest instruction.
pub(crate) const MOST_OCTETS: usize = 15;

/// Callbacks neither read nor write the emulated processor's registers.
pub(crate) const NO_REGISTERS: c_int = 0;
/// They read registers.
pub(crate) const READS_REGISTERS: c_int = 1;
/// Reads and writes of memory.
pub(crate) const READS_AND_WRITES: c_int = 3;

pub(crate) type VcpuCallback = extern "C" fn(PluginId, c_uint);
pub(crate) type TranslateCallback = extern "C" fn(PluginId, *mut TranslationBlock);
pub(crate) type ExecuteCallback = extern "C" fn(c_uint, *mut c_void);
pub(crate) type MemoryCallback = extern "C" fn(c_uint, MemoryInfo, u64, *mut c_void);
pub(crate) type SystemCallCallback =
    extern "C" fn(PluginId, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
pub(crate) type SystemCallEndCallback = extern "C" fn(PluginId, c_uint, i64, i64);
pub(crate) type ResetCallback = extern "C" fn(PluginId);
pub(crate) type ExitCallback = extern "C" fn(PluginId, *mut c_void);

macro_rules! api {
    ($(#[$what:meta])* $api:ident { $($name:ident: $symbol:literal fn($($argument:ty),*) $(-> $result:ty)?;)* }) => {
        $(#[$what])*
        #[allow(clippy::type_complexity, reason = "they are declared as QEMU has them")]
        pub(crate) struct $api { $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl $api {
            /// Looks all of them up; the name of one that is missing.
            pub(crate) fn find() -> Result<Self, &'static CStr> {
                Ok(Self { $($name: {
                    let at = address_of($symbol)?;
                    // SAFETY: the function of that name in QEMU, which has this type.
                    unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(at) }
                },)* })
            }
        }
    };
}

api! {
    /// QEMU's functions.
    Api {
    on_thread_begin: c"qemu_plugin_register_vcpu_init_cb" fn(PluginId, VcpuCallback);
    on_thread_end: c"qemu_plugin_register_vcpu_exit_cb" fn(PluginId, VcpuCallback);
    on_translation: c"qemu_plugin_register_vcpu_tb_trans_cb" fn(PluginId, TranslateCallback);
    on_execution: c"qemu_plugin_register_vcpu_tb_exec_cb" fn(*mut TranslationBlock, ExecuteCallback, c_int, *mut c_void);
    on_access: c"qemu_plugin_register_vcpu_mem_cb"
        fn(*mut TranslatedInstruction, MemoryCallback, c_int, c_int, *mut c_void);
    on_system_call: c"qemu_plugin_register_vcpu_syscall_cb" fn(PluginId, SystemCallCallback);
    on_system_call_end: c"qemu_plugin_register_vcpu_syscall_ret_cb" fn(PluginId, SystemCallEndCallback);
    on_exit: c"qemu_plugin_register_atexit_cb" fn(PluginId, ExitCallback, *mut c_void);
    block_length: c"qemu_plugin_tb_n_insns" fn(*const TranslationBlock) -> size_t;
    block_address: c"qemu_plugin_tb_vaddr" fn(*const TranslationBlock) -> u64;
    instruction: c"qemu_plugin_tb_get_insn" fn(*const TranslationBlock, size_t) -> *mut TranslatedInstruction;
    octets_at: c"qemu_plugin_insn_data" fn(*const TranslatedInstruction) -> *const c_void;
    octets_to: c"qemu_plugin_insn_data" fn(*const TranslatedInstruction, *mut c_void, size_t) -> size_t;
    instruction_length: c"qemu_plugin_insn_size" fn(*const TranslatedInstruction) -> size_t;
    access_shift: c"qemu_plugin_mem_size_shift" fn(MemoryInfo) -> c_uint;
    access_stores: c"qemu_plugin_mem_is_store" fn(MemoryInfo) -> bool;
    }
}

api! {
    /// What there is beyond for systems, from QEMU 9.2 on, and what QEMU's own library has for it.
    SystemApi {
    reset: c"qemu_plugin_reset" fn(PluginId, ResetCallback);
    on_instruction: c"qemu_plugin_register_vcpu_insn_exec_cb"
        fn(*mut TranslatedInstruction, ExecuteCallback, c_int, *mut c_void);
    registers: c"qemu_plugin_get_registers" fn() -> *mut Array;
    read_register: c"qemu_plugin_read_register" fn(*mut c_void, *mut Octets) -> c_int;
    read_memory: c"qemu_plugin_read_memory_vaddr" fn(u64, *mut Octets, size_t) -> bool;
    new_octets: c"g_byte_array_new" fn() -> *mut Octets;
    resize_octets: c"g_byte_array_set_size" fn(*mut Octets, c_uint) -> *mut Octets;
    }
}

/// The name of a function that there is no more than others of its version.
const OF_VERSION_2: &CStr = c"qemu_plugin_scoreboard_new";
const OF_VERSION_4: &CStr = c"qemu_plugin_read_memory_vaddr";

/// The version of the interface that this plugin says to be made for: QEMU 9 and later take none of version 1, and earlier ones
/// no later one.
pub(crate) fn version_to_say(has: impl Fn(&'static CStr) -> bool) -> c_int {
    match () {
        () if has(OF_VERSION_4) => 4,
        () if has(OF_VERSION_2) => 2,
        () => 1,
    }
}

/// Whether QEMU has this function.
pub(crate) fn has(symbol: &'static CStr) -> bool {
    address_of(symbol).is_ok()
}

impl Api {
    /// The bytes of an instruction, in the way of this version of the interface.
    ///
    /// # Safety
    /// `instruction` is one of a block that is being translated.
    pub(crate) unsafe fn octets(&self, version: c_int, instruction: *const TranslatedInstruction) -> Vec<u8> {
        // SAFETY: by the caller; the version says which of both types the function has, and the buffer is as long as is said.
        unsafe {
            let length = (self.instruction_length)(instruction);
            if version >= COPIES_OCTETS {
                let mut octets = vec![0_u8; length.min(MOST_OCTETS)];
                let filled = (self.octets_to)(instruction, octets.as_mut_ptr().cast(), octets.len());
                octets.truncate(filled);
                return octets;
            }
            std::slice::from_raw_parts((self.octets_at)(instruction).cast::<u8>(), length).to_vec()
        }
    }
}

fn address_of(symbol: &'static CStr) -> Result<*mut c_void, &'static CStr> {
    // SAFETY: a C string; whatever program loaded this library is searched.
    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) };
    if at.is_null() { Err(symbol) } else { Ok(at) }
}

static API: OnceLock<Api> = OnceLock::new();
static VERSION: OnceLock<c_int> = OnceLock::new();

/// Keeps the functions for all callbacks, and QEMU's version of the interface.
pub(crate) fn keep(api: Api, version: c_int) -> &'static Api {
    VERSION.get_or_init(|| version);
    API.get_or_init(|| api)
}

/// QEMU's version of the interface.
pub(crate) fn version() -> c_int {
    VERSION.get().copied().unwrap_or(1)
}

/// The functions, which were kept before any callback was registered.
#[inline(always)]
pub(crate) fn get() -> Option<&'static Api> {
    API.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_one_that_the_emulator_takes() {
        assert_eq!(version_to_say(|_| false), 1, "QEMU 7.2");
        assert_eq!(version_to_say(|name| name == OF_VERSION_2), 2, "QEMU 9.0");
        assert_eq!(version_to_say(|_| true), 4, "QEMU 10");
    }
}
