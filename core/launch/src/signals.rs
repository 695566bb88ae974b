//! Signals that our user sends, read one after the other instead of being delivered: they are the program's.
//!
//! A key of the terminal signals the whole foreground group, the program included; only what was sent to us alone has to be
//! passed on. The kernel tells the two apart, but for a terminal that hung up: the session's leader alone hears of that.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What asks a program to end, or means what the program makes of it.
const TAKEN: [libc::c_int; 6] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2];

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its number.
    pub number: i32,
    /// Whether a key of the terminal sent it, so that the program has it too.
    pub by_terminal: bool,
}

/// Holds signals back from the calling thread until this is dropped; make it before other threads.
#[derive(Debug)]
pub struct Signals {
    queue: OwnedFd,
    before: libc::sigset_t,
}

impl Signals {
    /// Takes over.
    ///
    /// # Errors
    /// The system refuses.
    pub fn take() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` fills the set before anything reads it; the numbers are valid signals; the masks live
        // through the calls, and `pthread_sigmask` fills `before` where it succeeds.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for number in TAKEN {
                libc::sigaddset(set.as_mut_ptr(), number);
            }
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
        }
        // SAFETY: filled above.
        let (set, before) = unsafe { (set.assume_init(), before.assume_init()) };
        // SAFETY: the set is valid and lives through the call.
        let queue = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if queue < 0 {
            let error = io::Error::last_os_error();
            restore(&before);
            return Err(error);
        }
        // SAFETY: the descriptor was made just now and belongs to nobody else.
        Ok(Self { queue: unsafe { OwnedFd::from_raw_fd(queue) }, before })
    }

    /// The mask that was in force before, for the program.
    pub fn before(&self) -> libc::sigset_t {
        self.before
    }

    /// The next signal that came; none where none did.
    pub fn next(&self) -> Option<Sent> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the descriptor is a signal queue, which writes whole descriptions of that size.
        let read = unsafe { libc::read(self.queue.as_raw_fd(), info.as_mut_ptr().cast(), size) };
        // SAFETY: integers only: zeroed, then written.
        let info = unsafe { info.assume_init() };
        let number = info.ssi_signo.cast_signed();
        (read == size as isize).then_some(Sent {
            number,
            by_terminal: info.ssi_code == libc::SI_KERNEL && number != libc::SIGHUP,
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        restore(&self.before);
    }
}

fn restore(mask: &libc::sigset_t) {
    // SAFETY: the mask was filled by the system and lives through the call.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_held_back_and_told() {
        let signals = Signals::take().unwrap();
        assert_eq!(signals.next(), None);
        // SAFETY: signals this very thread, which holds it back.
        assert_eq!(unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) }, 0);
        assert_eq!(signals.next(), Some(Sent { number: libc::SIGUSR1, by_terminal: false }));
        assert_eq!(signals.next(), None);
    }
}
