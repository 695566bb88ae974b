//! Starts threads, and waits for threads and programs of our own. A measuring thread is bound to a CPU, and real-time threads
//! there can keep it from running for as long as they like: no wait may last longer than the user's patience.

use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Time that a thread gets to end after the process was asked to end. One that may run needs far less. A pause of the
/// whole machine counts as one look: nobody could end meanwhile.
const GRACE: Duration = Duration::from_secs(5);

/// Longest time between two looks at the flag.
const LOOK: Duration = Duration::from_millis(20);

/// The flag of this process. Signals are sent to the process, so there is one.
static ASKED_TO_END: RwLock<Option<Arc<AtomicBool>>> = RwLock::new(None);

/// Names the flag that is set when the process is asked to end. The last one named counts.
pub fn end_with(flag: Arc<AtomicBool>) {
    *ASKED_TO_END.write().unwrap_or_else(PoisonError::into_inner) = Some(flag);
}

fn flag() -> Arc<AtomicBool> {
    ASKED_TO_END.read().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
}

/// Whether the process was asked to end.
pub fn asked_to_end() -> bool {
    flag().load(Ordering::Relaxed)
}

/// Starts a thread.
///
/// # Errors
/// The system gives no further thread; the error names the remedy.
pub fn start<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(body).map_err(none_to_be_had)
}

/// Starts a thread that ends with its scope.
///
/// # Errors
/// As of [`start`].
pub fn start_in<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().name(name.to_owned()).spawn_scoped(scope, body).map_err(none_to_be_had)
}

/// An error of a thread or a program that could not be started, with the remedy where their number is limited. EAGAIN means that
/// here alone: elsewhere it is said of locked memory, timers and sockets too.
pub fn none_to_be_had(error: io::Error) -> io::Error {
    match error.kind() {
        kind @ io::ErrorKind::WouldBlock => {
            io::Error::new(kind, format!("{error}; raise the limit of threads (ulimit -u, pids.max)"))
        }
        _ => error,
    }
}

/// What a thread says first, or none where it went without a word.
///
/// # Errors
/// The process was asked to end, and the thread has not run for [`GRACE`] since.
pub fn hear<T>(thread: &str, from: &Receiver<T>) -> io::Result<Option<T>> {
    hear_or(thread, from, &flag())
}

fn hear_or<T>(thread: &str, from: &Receiver<T>, end: &AtomicBool) -> io::Result<Option<T>> {
    let mut patience = Patience::new(thread, end);
    loop {
        match from.recv_timeout(LOOK) {
            Ok(said) => return Ok(Some(said)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => patience.look()?,
        }
    }
}

/// What a thread leaves when it ends. The thread has to be asked to end before, by whatever it looks at.
///
/// # Errors
/// The process was asked to end, and the thread has not ended for [`GRACE`] since. It is left behind: it keeps what it
/// owns until the process ends.
pub fn join<T>(thread: &str, handle: JoinHandle<T>) -> io::Result<std::thread::Result<T>> {
    join_or(thread, handle, &flag())
}

fn join_or<T>(thread: &str, handle: JoinHandle<T>, end: &AtomicBool) -> io::Result<std::thread::Result<T>> {
    let mut patience = Patience::new(thread, end);
    let mut pause = Duration::from_micros(50);
    while !handle.is_finished() {
        patience.look()?;
        std::thread::sleep(pause);
        pause = (pause * 2).min(LOOK);
    }
    Ok(handle.join())
}

/// Asks a program to end, and ends it by force where it does not for five seconds.
///
/// # Errors
/// The system refuses to tell of it.
pub fn end_program(child: &mut Child) -> io::Result<ExitStatus> {
    end_within(child, Duration::from_secs(5))
}

fn end_within(child: &mut Child, most: Duration) -> io::Result<ExitStatus> {
    // It may have ended just now; it was not waited for, so the number is still its own.
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    let asked = Instant::now();
    while asked.elapsed() < most {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(LOOK);
    }
    child.kill()?;
    child.wait()
}

/// How long the user still waits.
struct Patience<'a> {
    thread: &'a str,
    end: &'a AtomicBool,
    last_look: Option<Instant>,
    waited: Duration,
}

impl<'a> Patience<'a> {
    fn new(thread: &'a str, end: &'a AtomicBool) -> Self {
        Self { thread, end, last_look: None, waited: Duration::ZERO }
    }

    fn look(&mut self) -> io::Result<()> {
        if !self.end.load(Ordering::Relaxed) {
            return Ok(());
        }
        let now = Instant::now();
        let since = self.last_look.replace(now).map_or(Duration::ZERO, |last| now - last);
        self.waited += since.min(2 * LOOK);
        if self.waited < GRACE {
            return Ok(());
        }
        let message = format!(
            "interrupted, and thread {} was not let run: look for real-time threads on its CPU; what was recorded is kept",
            self.thread
        );
        Err(io::Error::new(io::ErrorKind::Interrupted, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// A thread that does not run until it is let, as one whose CPU is taken.
    fn starved() -> (Sender<()>, JoinHandle<()>) {
        let (let_run, until) = channel::<()>();
        (let_run, std::thread::spawn(move || until.recv().unwrap_or_default()))
    }

    #[test]
    fn a_thread_that_does_not_run_is_not_waited_for_once_the_end_is_asked_for() {
        let end = AtomicBool::new(true);
        let (let_run, handle) = starved();
        let error = join_or("quaver-sink", handle, &end).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        assert!(error.to_string().contains("thread quaver-sink was not let run"), "{error}");
        drop(let_run);
        let (_silent, from) = channel::<u8>();
        assert_eq!(hear_or("quaver-sink", &from, &end).unwrap_err().kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn a_pause_of_the_machine_is_one_look() {
        let end = AtomicBool::new(true);
        let mut patience = Patience::new("quaver-sink", &end);
        patience.last_look = Instant::now().checked_sub(2 * GRACE);
        patience.look().unwrap();
        assert_eq!(patience.waited, 2 * LOOK);
    }

    #[test]
    fn a_program_that_does_not_listen_is_ended_by_force() {
        use std::os::unix::process::ExitStatusExt;
        let start = |script: &str| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", script]).stdout(std::process::Stdio::piped());
            let mut child = command.spawn().unwrap();
            // Its first word tells that its signals are set.
            let mut word = [0; 3];
            io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut word).unwrap();
            child
        };
        let mut deaf = start("trap '' TERM; echo go; exec sleep 600");
        let status = end_within(&mut deaf, Duration::from_millis(200)).unwrap();
        assert_eq!(status.signal(), Some(9));
        let mut polite = start("echo go; exec sleep 600");
        assert_eq!(end_program(&mut polite).unwrap().signal(), Some(15));
    }

    #[test]
    fn the_end_may_be_asked_for_while_one_waits() {
        let end = Arc::new(AtomicBool::new(false));
        let (let_run, handle) = starved();
        let later = Arc::clone(&end);
        let asking = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            later.store(true, Ordering::Relaxed);
        });
        assert!(join_or("quaver-sink", handle, &end).is_err());
        asking.join().unwrap();
        drop(let_run);
    }

    #[test]
    fn a_thread_that_is_not_to_be_had_has_a_remedy_and_other_errors_none() {
        let error = none_to_be_had(io::Error::from_raw_os_error(11));
        assert!(error.to_string().ends_with("; raise the limit of threads (ulimit -u, pids.max)"), "{error}");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let error = none_to_be_had(io::Error::from_raw_os_error(12));
        assert!(!error.to_string().contains("raise"), "{error}");
        assert_eq!(start("a", || 7).unwrap().join().unwrap(), 7);
        let one = 1;
        assert_eq!(std::thread::scope(|scope| start_in(scope, "b", || one + 1).unwrap().join().unwrap()), 2);
    }

    #[test]
    fn threads_that_run_are_waited_for() {
        let running = AtomicBool::new(false);
        assert_eq!(join_or("a", std::thread::spawn(|| 7), &running).unwrap().unwrap(), 7);
        // Also when the end was asked for: a thread that may run ends in time.
        let ending = AtomicBool::new(true);
        let slow = std::thread::spawn(|| std::thread::sleep(Duration::from_millis(100)));
        assert!(join_or("a", slow, &ending).unwrap().is_ok());
        let panics = std::thread::spawn(|| std::panic::resume_unwind(Box::new(1)));
        assert!(join_or("a", panics, &running).unwrap().is_err());
        let (tell, from) = channel();
        tell.send(3).unwrap();
        assert_eq!(hear_or("a", &from, &ending).unwrap(), Some(3));
        drop(tell);
        assert_eq!(hear_or("a", &from, &running).unwrap(), None);
    }
}
