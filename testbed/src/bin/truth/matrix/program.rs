//! Programs that the matrix starts: on one CPU, under one policy, and never left behind.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take to end when it is asked to.
const END_WITHIN: Duration = Duration::from_secs(2);

/// A command whose output nobody reads.
pub(super) fn silent(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A program in a process group of its own. Dropping it ends the group; the end of this process ends it too.
pub(super) struct Program(pub(super) Child);

impl Program {
    /// Starts it on `cpu`, under SCHED_FIFO where a priority is given.
    ///
    /// # Errors
    /// The program cannot be started, or the system refuses the CPU or the priority.
    pub(super) fn start(mut command: Command, cpu: u16, fifo: Option<u8>) -> io::Result<Self> {
        let prepare = move || {
            use quaver_testbed::inject::schedule;
            schedule::bind(0, cpu)?;
            if let Some(priority) = fifo {
                schedule::fifo(0, priority)?;
            }
            Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?)
        };
        command.stdin(Stdio::null()).process_group(0);
        // SAFETY: between fork and exec it makes three system calls and touches only its own stack.
        unsafe { command.pre_exec(prepare) };
        Ok(Self(command.spawn()?))
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: the call takes no pointers. The group is this child's, which was not waited for yet.
        unsafe { libc::kill(-(self.0.id() as libc::pid_t), signal) };
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.signal(libc::SIGTERM);
        let asked = Instant::now();
        while asked.elapsed() < END_WITHIN && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if matches!(self.0.try_wait(), Ok(None)) {
            self.signal(libc::SIGKILL);
            // It cannot refuse.
            let _ = self.0.wait();
        }
    }
}
