//! A terminal that a test holds in place of a person.

use std::os::fd::{FromRawFd, OwnedFd};

/// Opens one: the person's end, and the end that programs get.
///
/// # Errors
/// The system has no terminal left.
pub fn open() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let (mut person, mut program) = (-1, -1);
    let nothing = std::ptr::null_mut();
    // SAFETY: the first two point to integers that outlive the call; the others may be null.
    let made = unsafe { libc::openpty(&mut person, &mut program, nothing, nothing.cast(), nothing.cast()) };
    if made != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so both are open, and nobody else has them.
    let (person, program) = unsafe { (OwnedFd::from_raw_fd(person), OwnedFd::from_raw_fd(program)) };
    // A program that inherits the person's end would never see it closed.
    rustix::io::fcntl_setfd(&person, rustix::io::FdFlags::CLOEXEC)?;
    Ok((person, program))
}
