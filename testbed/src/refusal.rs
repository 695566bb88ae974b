//! A program whose system calls end as a test wants: refused with an error, or the program is killed at that very call.
//!
//! The kernel asks us at each call of the chosen numbers (`SECCOMP_RET_USER_NOTIF`, seccomp_unotify(2)). The program needs no
//! library of ours, so one that is linked statically is refused in the same way, and so are its children.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{Error, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::JoinHandle;

const PAGE: usize = 4_096;
/// PATH_MAX.
const LONGEST_PATH: usize = 4_096;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It happens.
    GoOn,
    /// It ends with this error number, and nothing happens.
    Fail(i32),
    /// The thread's process gets SIGKILL, and nothing happens.
    Kill,
}

/// A call that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its number, a `libc::SYS_*`.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// The thread.
    pub thread: u32,
}

impl Call {
    /// What a descriptor of the program is, by its first argument.
    pub fn file(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/{}/fd/{}", self.thread, self.arguments[0] as i32)).ok()
    }

    /// The text in the program's memory at which an argument points: a path.
    pub fn text(&self, argument: usize) -> Option<String> {
        use std::os::unix::fs::FileExt;
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.thread)).ok()?;
        let mut text = Vec::new();
        // Page by page: a text may lie across the border of two, and what follows the last one may be no memory.
        while text.len() < LONGEST_PATH {
            let address = self.arguments[argument] + text.len() as u64;
            let mut octets = vec![0; PAGE - address as usize % PAGE];
            memory.read_exact_at(&mut octets, address).ok()?;
            match octets.iter().position(|octet| *octet == 0) {
                None => text.extend(octets),
                Some(end) => {
                    text.extend(&octets[..end]);
                    return String::from_utf8(text).ok();
                }
            }
        }
        None
    }
}

/// A program under the judge, who is asked on a thread of his own until the program and its children have ended.
pub struct Refused {
    /// The program.
    pub child: Child,
    judge: JoinHandle<()>,
}

impl Refused {
    /// Waits for the program's end and its output, and for the judge's.
    ///
    /// # Errors
    /// As [`Child::wait_with_output`].
    pub fn output(self) -> Result<std::process::Output> {
        let output = self.child.wait_with_output();
        self.judge.join().expect("the judge does not panic");
        output
    }
}

/// Starts a program whose calls of these numbers are judged.
///
/// `sendmsg` and what a program needs to be started (`execve`) cannot be among them.
///
/// # Errors
/// The program cannot be started, or the kernel lets nobody filter calls.
pub fn start(
    command: &mut Command,
    numbers: &[i64],
    mut judge: impl FnMut(&Call) -> Answer + Send + 'static,
) -> Result<Refused> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let filter = filter(numbers);
    let install = move || {
        let listener = install(&filter)?;
        let descriptors = [listener.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = SendAncillaryBuffer::new(&mut space);
        message.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(&theirs, &[IoSlice::new(&[1])], &mut message, SendFlags::empty())?;
        Ok(())
    };
    // SAFETY: what runs between fork and exec makes system calls only, with memory that was made before.
    unsafe { command.pre_exec(install) };
    let thread = std::thread::Builder::new().name("judge".to_owned()).spawn(move || {
        if let Some(listener) = receive(&ours) {
            while let Some(call) = next(&listener) {
                answer(&listener, &call, judge(&call.1));
            }
        }
    })?;
    Ok(Refused { child: command.spawn()?, judge: thread })
}

const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Asks us at the calls of these numbers, and lets all others happen.
fn filter(numbers: &[i64]) -> Vec<libc::sock_filter> {
    // The number is the first word of what a filter sees (struct seccomp_data).
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for (index, number) in numbers.iter().enumerate() {
        let to_the_end = (numbers.len() - index) as u8;
        let compare = statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *number as u32);
        filter.push(libc::sock_filter { jt: to_the_end, ..compare });
    }
    filter.push(statement(libc::BPF_RET, libc::SECCOMP_RET_ALLOW));
    filter.push(statement(libc::BPF_RET, libc::SECCOMP_RET_USER_NOTIF));
    filter
}

/// Filters the calling thread from here on.
fn install(filter: &[libc::sock_filter]) -> Result<OwnedFd> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    rustix::thread::set_no_new_privs(true)?;
    // SAFETY: the program outlives the call, which reads it and writes nothing.
    let listener = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    if listener < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the call made it for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as i32) })
}

/// The listener that the program has sent before it became itself.
fn receive(from: &OwnedFd) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let mut octet = [0];
    recvmsg(from, &mut [IoSliceMut::new(&mut octet)], &mut message, RecvFlags::CMSG_CLOEXEC).ok()?;
    message.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })
}

const RECEIVE: u64 = ioctl(0, size_of::<libc::seccomp_notif>());
const SEND: u64 = ioctl(1, size_of::<libc::seccomp_notif_resp>());

/// `_IOWR('!', number, size)`.
const fn ioctl(number: u64, size: usize) -> u64 {
    3 << 30 | (size as u64) << 16 | (b'!' as u64) << 8 | number
}

/// The next call and its key; none when nobody is left who could make one.
fn next(listener: &OwnedFd) -> Option<(u64, Call)> {
    loop {
        let mut waited = [PollFd::new(listener, PollFlags::IN)];
        match poll(&mut waited, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
            Ok(_) => {}
        }
        if !waited[0].revents().contains(PollFlags::IN) {
            return None;
        }
        // SAFETY: all bytes zero is a value of this type, and what the kernel wants.
        let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one such value.
        if unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE as _, &raw mut asked) } == 0 {
            let data = asked.data;
            let call = Call { number: data.nr.into(), arguments: data.args, thread: asked.pid };
            return Some((asked.id, call));
        }
        // ENOENT: it was killed while it waited.
    }
}

fn answer(listener: &OwnedFd, (id, call): &(u64, Call), answer: Answer) {
    // SAFETY: all bytes zero is a value of this type.
    let mut told: libc::seccomp_notif_resp = unsafe { std::mem::zeroed() };
    told.id = *id;
    match answer {
        Answer::GoOn => told.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        Answer::Fail(number) => told.error = -number,
        Answer::Kill => {
            // SAFETY: a signal has no memory. A thread's number ends its whole process.
            unsafe { libc::kill(call.thread as i32, libc::SIGKILL) };
            return;
        }
    }
    // SAFETY: the kernel reads one such value. Where it fails, the thread that asked has gone.
    unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw const told) };
}
