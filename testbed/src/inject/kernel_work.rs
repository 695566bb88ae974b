//! Kernel code that cannot be preempted, in the context of a thread of normal priority.

use super::{Injection, schedule};
use std::io;
use std::sync::atomic::Ordering;

/// As many as Linux allows by default in a set (SEMMSL).
const SEMAPHORES: libc::c_int = 32_000;

/// A set of System V semaphores, removed when dropped.
struct SemaphoreSet(libc::c_int);

impl SemaphoreSet {
    fn create() -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let id = unsafe { libc::semget(libc::IPC_PRIVATE, SEMAPHORES, 0o600) };
        if id < 0 { Err(io::Error::last_os_error()) } else { Ok(Self(id)) }
    }

    /// Sets all of them in one call: the kernel walks the whole set under a spin lock.
    fn set_all(&self, values: &[u16]) {
        assert_eq!(values.len(), SEMAPHORES as usize, "the kernel reads a value for each semaphore");
        // SAFETY: SETALL reads as many values as the set has semaphores, and the slice has so many.
        unsafe { libc::semctl(self.0, 0, libc::SETALL, values.as_ptr()) };
    }
}

impl Drop for SemaphoreSet {
    fn drop(&mut self) {
        // SAFETY: IPC_RMID takes no argument.
        unsafe { libc::semctl(self.0, 0, libc::IPC_RMID) };
    }
}

/// A thread of normal priority on `cpu` that does nothing but walk a long set of semaphores in the kernel.
///
/// # Errors
/// The system refuses the set.
pub fn semaphores(cpu: u16) -> io::Result<Injection> {
    let set = SemaphoreSet::create()?;
    Injection::spawn("inject-kernel", move |stop| {
        schedule::bind(0, cpu).expect("the truth run starts with a CPU that exists");
        let values = vec![0; SEMAPHORES as usize];
        while !stop.load(Ordering::Relaxed) {
            set.set_all(&values);
        }
    })
}
