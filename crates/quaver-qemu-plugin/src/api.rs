//! What QEMU gives to plugins: version 1 of its interface, declared here by hand after QEMU's documentation.
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

/// Version of the interface that is declared here.
pub(crate) const VERSION: c_int = 1;

/// Callbacks neither read nor write the emulated processor's registers.
pub(crate) const NO_REGISTERS: c_int = 0;
/// Reads and writes of memory.
pub(crate) const READS_AND_WRITES: c_int = 3;

pub(crate) type VcpuCallback = extern "C" fn(PluginId, c_uint);
pub(crate) type TranslateCallback = extern "C" fn(PluginId, *mut TranslationBlock);
pub(crate) type ExecuteCallback = extern "C" fn(c_uint, *mut c_void);
pub(crate) type MemoryCallback = extern "C" fn(c_uint, MemoryInfo, u64, *mut c_void);
pub(crate) type SystemCallCallback =
    extern "C" fn(PluginId, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
pub(crate) type SystemCallEndCallback = extern "C" fn(PluginId, c_uint, i64, i64);
pub(crate) type ExitCallback = extern "C" fn(PluginId, *mut c_void);

macro_rules! api {
    ($($name:ident: $symbol:literal fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// QEMU's functions.
        #[allow(clippy::type_complexity, reason = "they are declared as QEMU has them")]
        pub(crate) struct Api { $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl Api {
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
    instruction_octets: c"qemu_plugin_insn_data" fn(*const TranslatedInstruction) -> *const c_void;
    instruction_length: c"qemu_plugin_insn_size" fn(*const TranslatedInstruction) -> size_t;
    access_shift: c"qemu_plugin_mem_size_shift" fn(MemoryInfo) -> c_uint;
    access_stores: c"qemu_plugin_mem_is_store" fn(MemoryInfo) -> bool;
}

fn address_of(symbol: &'static CStr) -> Result<*mut c_void, &'static CStr> {
    // SAFETY: a C string; whatever program loaded this library is searched.
    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) };
    if at.is_null() { Err(symbol) } else { Ok(at) }
}

static API: OnceLock<Api> = OnceLock::new();

/// Keeps the functions for all callbacks.
pub(crate) fn keep(api: Api) -> &'static Api {
    API.get_or_init(|| api)
}

/// The functions, which were kept before any callback was registered.
#[inline(always)]
pub(crate) fn get() -> Option<&'static Api> {
    API.get()
}
