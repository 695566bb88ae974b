//! Registers and memory of the emulated processor that a callback is of.

use crate::api::{Octets, RegisterDescription, SystemApi};
use libc::c_void;
use std::cell::Cell;
use std::ffi::CStr;
use std::ptr;

/// The registers that are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Register {
    Rax,
    Rcx,
    Rsp,
    Rsi,
}

const NAMES: [&CStr; 4] = [c"rax", c"rcx", c"rsp", c"rsi"];

/// Where QEMU keeps them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers([*mut c_void; 4]);

// SAFETY: they are QEMU's numbers for registers, the same for all processors, and are only handed back to it.
unsafe impl Send for Registers {}
// SAFETY: as above.
unsafe impl Sync for Registers {}

thread_local! {
    /// What QEMU reads into; one for each of its threads, never freed.
    static INTO: Cell<*mut Octets> = const { Cell::new(ptr::null_mut()) };
}

fn into(api: &SystemApi) -> *mut Octets {
    INTO.with(|into| {
        if into.get().is_null() {
            // SAFETY: takes nothing.
            into.set(unsafe { (api.new_octets)() });
        }
        into.get()
    })
}

impl Registers {
    /// Looks them up. To be called in a callback of a processor.
    ///
    /// # Errors
    /// The name of one that QEMU does not have.
    pub(crate) fn find(api: &SystemApi) -> Result<Self, &'static CStr> {
        // SAFETY: in a callback of a processor, as QEMU wants it. The array is ours and small, and is never freed.
        let described = unsafe {
            let array = (api.registers)();
            if array.is_null() || (*array).data.is_null() {
                return Err(NAMES[0]);
            }
            let data = (*array).data.cast::<RegisterDescription>();
            std::slice::from_raw_parts(data.cast_const(), (*array).length as usize)
        };
        let mut found = [ptr::null_mut(); 4];
        for (name, found) in NAMES.iter().zip(&mut found) {
            let is = |one: &&RegisterDescription| {
                // SAFETY: QEMU's names end with a zero.
                !one.name.is_null() && unsafe { CStr::from_ptr(one.name) } == *name
            };
            *found = described.iter().find(is).ok_or(*name)?.handle;
        }
        Ok(Self(found))
    }

    /// The value of one. To be called in a callback that was registered for reading registers.
    pub(crate) fn read(&self, api: &SystemApi, register: Register) -> Option<u64> {
        let into = into(api);
        // SAFETY: the buffer is QEMU's own kind and this thread's own; the handle came from QEMU.
        unsafe {
            (api.resize_octets)(into, 0);
            (api.read_register)(self.0[register as usize], into);
            octets(into).first_chunk().map(|octets| u64::from_le_bytes(*octets))
        }
    }
}

/// Memory of the processor from this address on; none where it is not to be had.
pub(crate) fn read_memory(api: &SystemApi, address: u64, length: usize) -> Option<Vec<u8>> {
    let into = into(api);
    // SAFETY: as above.
    unsafe {
        let read = (api.read_memory)(address, into, length);
        read.then(|| octets(into).get(..length).map(<[u8]>::to_vec)).flatten()
    }
}

/// # Safety
/// It is a buffer of QEMU's kind that nobody changes while the answer is used.
unsafe fn octets<'a>(of: *mut Octets) -> &'a [u8] {
    // SAFETY: by the caller; QEMU says how many bytes there are.
    unsafe {
        if of.is_null() || (*of).data.is_null() {
            return &[];
        }
        std::slice::from_raw_parts((*of).data, (*of).length as usize)
    }
}
