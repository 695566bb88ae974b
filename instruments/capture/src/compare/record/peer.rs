//! Captures of others, run as they are: started, ended as Ctrl-C would end them, and what they took of the CPU.

use super::CompareError;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A program that captures until it is interrupted.
#[derive(Clone, Debug)]
pub struct PeerCommand {
    /// Its file.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// What a line of its standard error starts with when it captures.
    pub ready: &'static str,
    /// The only CPU that it may use.
    pub cpu: u16,
}

/// A program that runs, in the network namespace of the thread that started it. It is interrupted when dropped, and
/// when that thread (so also when this process) ends, in whatever way.
#[derive(Debug)]
pub struct Peer {
    child: Option<Child>,
    out: Option<JoinHandle<String>>,
    errors: Option<JoinHandle<String>>,
    ready: Receiver<()>,
    clock: libc::clockid_t,
}

/// What a program left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerOutcome {
    /// It ended by itself, with status 0 (or as a captured interruption is told).
    pub orderly: bool,
    /// What it wrote to standard output.
    pub out: String,
    /// And to standard error.
    pub errors: String,
}

/// How long a program gets to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);

impl Peer {
    /// Starts it.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(command: &PeerCommand) -> Result<Self, CompareError> {
        let mut cpus = CpuSet::new();
        cpus.set(usize::from(command.cpu));
        let mut wanted = Command::new(&command.program);
        wanted.args(&command.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let settle = move || {
            set_parent_process_death_signal(Some(Signal::INT))?;
            Ok(sched_setaffinity(None, &cpus)?)
        };
        // SAFETY: between fork and exec it makes two system calls and touches only its own stack.
        unsafe { wanted.pre_exec(settle) };
        let failed = |e| CompareError::os(format!("start {}", command.program.display()), e);
        let mut child = wanted.spawn().map_err(failed)?;
        let mut clock = 0;
        // SAFETY: `clock` is a valid out-pointer, and the number is that of a child that was not waited for.
        let found = unsafe { libc::clock_getcpuclockid(child.id() as libc::pid_t, &raw mut clock) };
        if found != 0 {
            return Err(CompareError::os(
                "find a program's CPU clock",
                std::io::Error::from_raw_os_error(found),
            ));
        }
        let (tell, ready) = sync_channel(1);
        let (out, errors) = (child.stdout.take(), child.stderr.take());
        let marker = command.ready;
        Ok(Self {
            child: Some(child),
            out: Some(std::thread::spawn(move || all_of(out))),
            errors: Some(std::thread::spawn(move || lines_of(errors, marker, &tell))),
            ready,
            clock,
        })
    }

    /// Waits until it says that it captures; false when it ended first or did not say so in time.
    pub fn wait_ready(&self, most: Duration) -> bool {
        self.ready.recv_timeout(most).is_ok()
    }

    /// CPU time of all its threads so far, nanoseconds; 0 once it has ended.
    pub fn cpu_ns(&self) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a valid out-pointer. A clock of a process that has gone is refused.
        match unsafe { libc::clock_gettime(self.clock, &raw mut time) } {
            0 => time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs(),
            _ => 0,
        }
    }

    /// Interrupts it and waits for its end.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn end(mut self) -> Result<PeerOutcome, CompareError> {
        let success = self.interrupt().map_err(|e| CompareError::os("wait for a capture to end", e))?;
        let text = |handle: Option<JoinHandle<String>>| {
            handle.and_then(|handle| handle.join().ok()).unwrap_or_default()
        };
        Ok(PeerOutcome { orderly: success, out: text(self.out.take()), errors: text(self.errors.take()) })
    }

    /// Ends the child, by force if it takes too long; whether it ended by itself.
    fn interrupt(&mut self) -> std::io::Result<bool> {
        let Some(mut child) = self.child.take() else { return Ok(false) };
        // Not reaped yet, so the number is still its own.
        let _ = kill_process(Pid::from_child(&child), Signal::INT);
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = child.try_wait()? {
                return Ok(status.code().is_some());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill()?;
        child.wait()?;
        Ok(false)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.interrupt();
        for handle in [self.out.take(), self.errors.take()].into_iter().flatten() {
            let _ = handle.join();
        }
    }
}

fn all_of(from: Option<impl Read>) -> String {
    let mut octets = Vec::new();
    if let Some(mut from) = from {
        // What was read until an error is kept.
        let _ = from.read_to_end(&mut octets);
    }
    String::from_utf8_lossy(&octets).into_owned()
}

fn lines_of(from: Option<impl Read>, marker: &str, tell: &SyncSender<()>) -> String {
    let mut text = String::new();
    let Some(from) = from else { return text };
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if line.trim_start().starts_with(marker) {
            let _ = tell.try_send(());
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}
