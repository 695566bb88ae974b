//! A program started as a child, with what its user sends to us passed on to it.

use super::signals::Signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// Time between looks at a program that the system gives no handle of.
const BLIND_WAIT: Duration = Duration::from_millis(10);

/// What to start.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The program as the user named it, and its arguments.
    pub words: &'a [OsString],
    /// `LD_PRELOAD`; none leaves it as it is.
    pub preload: Option<&'a OsStr>,
    /// Where the recorder writes.
    pub directory: &'a Path,
    /// Signals that are held back from us, which the program gets as if we were not there.
    pub signals: Option<&'a Signals>,
}

/// Why it did not start.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no such program.
    #[error("{}: no such program; check its name and PATH", .0.display())]
    NotFound(OsString),
    /// It may not be run.
    #[error("{}: not permitted to run it; check its mode (chmod +x) and that it is no directory", .0.display())]
    NotPermitted(OsString),
    /// Anything else.
    #[error("starting {}: {source}", .program.display())]
    Os {
        /// The program.
        program: OsString,
        /// What the system said.
        source: io::Error,
    },
}

/// A program that was started. It goes on when this is dropped.
#[derive(Debug)]
pub struct Launched {
    child: Child,
    /// None where the system has none to give: a program that runs is not given up for that.
    handle: Option<OwnedFd>,
}

impl Launched {
    /// Starts a program with our standard input, output and error.
    ///
    /// # Errors
    /// It is not there, may not be run, or the system refused.
    pub fn start(launch: &Launch<'_>) -> Result<Self, LaunchError> {
        let (program, arguments) = launch.words.split_first().expect("the command line names a program");
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(preload) = launch.preload {
            command.env(super::recorder::PRELOAD_VARIABLE, preload);
            command.env(super::recorder::OUTPUT_VARIABLE, launch.directory);
            let options = std::env::var_os(ASAN_VARIABLE);
            command.env(ASAN_VARIABLE, asan_options(options.as_deref()));
        }
        if let Some(mask) = launch.signals.map(Signals::before) {
            let restore = move || {
                // SAFETY: the mask was filled by the system; between fork and exec only calls like this one are allowed.
                match unsafe {
                    libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut())
                } {
                    0 => Ok(()),
                    error => Err(io::Error::from_raw_os_error(error)),
                }
            };
            // SAFETY: the closure makes one system call on memory of its own: no allocation, no lock.
            unsafe { command.pre_exec(restore) };
        }
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => LaunchError::NotFound(program.clone()),
            io::ErrorKind::PermissionDenied => LaunchError::NotPermitted(program.clone()),
            _ => LaunchError::Os { program: program.clone(), source: quaver_waiting::none_to_be_had(source) },
        };
        let child = command.spawn().map_err(failed)?;
        let handle = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
        Ok(Self { child, handle })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal; a program that is gone gets none.
    pub fn signal(&self, number: i32) {
        let Some(signal) = Signal::from_named_raw(number) else { return };
        // It may have ended just now; who asks for its status is told. Until then its number is nobody else's.
        let _ = match &self.handle {
            Some(handle) => pidfd_send_signal(handle, signal),
            None => kill_process(Pid::from_child(&self.child), signal),
        };
    }

    /// Waits until it ends or a held-back signal comes, but no longer than `most`. None while it runs.
    ///
    /// # Errors
    /// The system refuses to tell.
    pub fn wait(&mut self, most: Duration, signals: Option<&Signals>) -> io::Result<Option<ExitStatus>> {
        let blind = most.min(BLIND_WAIT);
        let timeout = Timespec::try_from(if self.handle.is_some() { most } else { blind }).ok();
        let mut polled: Vec<PollFd<'_>> =
            self.handle.iter().map(|handle| PollFd::new(handle, PollFlags::IN)).collect();
        polled.extend(signals.map(|signals| PollFd::new(signals, PollFlags::IN)));
        match poll(&mut polled, timeout.as_ref()) {
            // A signal that was caught ends the waiting early: its handler's word counts.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // Out of memory, say: the program's status is worth waiting for without it.
            Err(_) => std::thread::sleep(blind),
        }
        self.child.try_wait()
    }
}

/// Options of AddressSanitizer's runtime.
const ASAN_VARIABLE: &str = "ASAN_OPTIONS";

/// The user's options, and that another library than the runtime may be loaded first. Else no program that was built with gcc's
/// AddressSanitizer starts under a recorder, nor does one that a recorded program starts. The runtime insists so that nobody stands
/// before its allocator; the recorder has none.
fn asan_options(existing: Option<&OsStr>) -> OsString {
    let mut options = existing.unwrap_or_default().to_owned();
    if !options.is_empty() {
        options.push(":");
    }
    options.push("verify_asan_link_order=0");
    options
}

/// How often threads of our ended children, and of theirs that were waited for, gave up their CPU by themselves
/// (`ru_nvcsw`, getrusage(2)).
pub fn sleeps_of_children() -> u64 {
    u64::try_from(usage_of_children().ru_nvcsw).unwrap_or(0)
}

/// CPU time of our ended children, and of theirs that were waited for.
pub fn cpu_of_children() -> Duration {
    let usage = usage_of_children();
    let of = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}

fn usage_of_children() -> libc::rusage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the room is that of a `rusage`, for which zeroes are a value, too.
    unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    }
}

/// The status that a shell would show: the program's own, or 128 and the signal that ended it.
pub fn shell_status(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    // Both are bytes by the system's definition.
    code as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_options_of_the_sanitizer_stay() {
        assert_eq!(asan_options(None), "verify_asan_link_order=0");
        let given = asan_options(Some(OsStr::new("detect_leaks=0")));
        assert_eq!(given, "detect_leaks=0:verify_asan_link_order=0");
    }

    fn start(words: &[&str]) -> Result<Launched, LaunchError> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Launched::start(&Launch { words: &words, preload: None, directory: Path::new("/"), signals: None })
    }

    fn ended(mut launched: Launched) -> u8 {
        loop {
            if let Some(status) = launched.wait(Duration::from_secs(10), None).unwrap() {
                return shell_status(status);
            }
        }
    }

    #[test]
    fn the_programs_status_is_the_shells() {
        assert_eq!(ended(start(&["true"]).unwrap()), 0);
        assert_eq!(ended(start(&["sh", "-c", "exit 77"]).unwrap()), 77);
        assert_eq!(ended(start(&["sh", "-c", "kill -9 $$"]).unwrap()), 128 + 9);
    }

    #[test]
    fn a_signal_is_passed_on() {
        let mut launched = start(&["sleep", "600"]).unwrap();
        assert!(launched.wait(Duration::ZERO, None).unwrap().is_none());
        launched.signal(15);
        assert_eq!(ended(launched), 128 + 15);
    }

    #[test]
    fn what_cannot_be_started_is_told() {
        assert!(matches!(start(&["/nowhere/prog"]), Err(LaunchError::NotFound(_))));
        assert!(matches!(start(&["/"]), Err(LaunchError::NotPermitted(_))));
    }
}
