//! Devices that ask for something for as long as they are held open.
//!
//! The kernel takes such a request back when the descriptor closes, so a small process holds it. It is started first and
//! entered in the journal; only then is it let go on. While the session lasts it ends with the session's process, in whatever
//! way that ends; once told to stay it lives until it is put an end to.

use crate::root::HostRoot;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// A process, told apart from a later one of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// When it started, in ticks since boot.
    pub start_ticks: u64,
}

/// A process of ours that holds a device, or is about to.
#[derive(Debug)]
pub(super) struct Holding {
    holder: Holder,
    /// Closing it ends the holder, unless it was told to stay.
    way: Option<File>,
    answers: File,
}

impl Holding {
    /// Starts the holder of a device, which waits to be let go on. `value` is in the device's unit.
    pub(super) fn start(root: &HostRoot, device: &str, value: i32) -> io::Result<Self> {
        let path = CString::new(root.path(device).as_os_str().as_bytes())?;
        let (theirs, ours) = pipe()?;
        let (answers, answer) = pipe()?;
        // SAFETY: the child calls nothing but system calls on memory that was made before the fork (`hold` allocates
        // nothing, takes no lock and never returns), so that it is sound although this process may have other threads.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => Err(io::Error::last_os_error()),
            0 => hold(&path, &value.to_ne_bytes(), theirs.as_raw_fd(), answer.as_raw_fd()),
            pid => {
                let pid = pid.unsigned_abs();
                let start_ticks = super::contact::start_time(&HostRoot::system(), pid);
                let start_ticks = start_ticks.ok_or_else(|| io::Error::other("the holder has ended"))?;
                drop((theirs, answer));
                let holder = Holder { pid, start_ticks };
                let mut holding = Self { holder, way: Some(ours.into()), answers: answers.into() };
                // Once it says so, nothing of this process is open there: not the lock of the journal.
                holding.heard()?;
                Ok(holding)
            }
        }
    }

    /// Which process it is.
    pub(super) fn holder(&self) -> Holder {
        self.holder
    }

    /// Lets it open the device, and waits until it has.
    pub(super) fn go(&mut self) -> io::Result<()> {
        self.tell(b'g')?;
        self.heard()
    }

    fn heard(&mut self) -> io::Result<()> {
        let mut errno = [0; 4];
        self.answers.read_exact(&mut errno)?;
        match i32::from_ne_bytes(errno) {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Lets it stay when this process ends.
    pub(super) fn stay(mut self) -> io::Result<()> {
        self.tell(b'k')?;
        self.heard()?;
        self.way = None;
        Ok(())
    }

    fn tell(&mut self, word: u8) -> io::Result<()> {
        self.way.as_mut().map_or(Ok(()), |way| way.write_all(&[word]))
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        if self.way.take().is_some() {
            // The closed pipe ends it; without this it would stay as a zombie.
            let pid = i32::try_from(self.holder.pid).ok().and_then(Pid::from_raw);
            let _ = waitpid(pid, WaitOptions::empty());
        }
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// The holder's life. Only calls that are safe after a fork.
fn hold(path: &CString, value: &[u8; 4], way: i32, answer: i32) -> ! {
    // SAFETY: each call gets descriptors of this process and pointers to memory that lives through it; none allocates, and
    // the process ends by _exit, so that nothing of the parent's runs a second time.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"quaver-hold".as_ptr());
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        let (low, high) = (way.min(answer), way.max(answer));
        // Nothing of the parent's stays open here: neither its lock nor the terminal.
        close_range(0, low - 1);
        close_range(low + 1, high - 1);
        close_range(high + 1, i32::MAX);
        let (mut word, mut errno) = (0_u8, 0_i32);
        libc::write(answer, (&raw const errno).cast(), 4);
        if libc::read(way, (&raw mut word).cast(), 1) != 1 {
            libc::_exit(0);
        }
        let device = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if device < 0 || libc::write(device, value.as_ptr().cast(), 4) != 4 {
            errno = *libc::__errno_location();
        }
        libc::write(answer, (&raw const errno).cast(), 4);
        if errno != 0 || libc::read(way, (&raw mut word).cast(), 1) != 1 {
            libc::_exit(0);
        }
        libc::write(answer, (&raw const errno).cast(), 4);
        libc::close(answer);
        loop {
            libc::pause();
        }
    }
}

fn close_range(first: i32, last: i32) {
    if first <= last {
        // SAFETY: closes descriptors by number and touches no memory.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}

/// Ends a holder of any process of ours, and returns when it is gone. One that is gone already is no error.
pub(super) fn end(holder: Holder) -> io::Result<()> {
    let pid = i32::try_from(holder.pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        other => other?,
    };
    // The descriptor stays with the process that it was opened for: looked at after it was opened, the start time tells
    // whether that is the holder.
    if super::contact::start_time(&HostRoot::system(), holder.pid) != Some(holder.start_ticks) {
        return Ok(());
    }
    match pidfd_send_signal(&descriptor, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => return Err(error.into()),
    }
    poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None)?;
    Ok(())
}
