//! Ctrl-C is heard also while a measuring thread is not let run, as one whose CPU real-time threads have taken.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far beyond what any of this takes: a program that hangs fails the test instead of hanging it.
const LONGEST: Duration = Duration::from_secs(60);

/// The number of a program's thread, once it has one of this name.
fn thread_of(program: &Child, name: &str) -> i32 {
    let tasks = PathBuf::from(format!("/proc/{}/task", program.id()));
    let begun = Instant::now();
    while begun.elapsed() < LONGEST {
        for task in std::fs::read_dir(&tasks).expect("the program runs").flatten() {
            let is_it =
                std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name);
            if is_it {
                return task.file_name().to_string_lossy().parse().expect("tasks have numbers");
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no thread {name}");
}

/// Stops one thread, and no other of its program, until the program ends.
fn hold(thread: i32) {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: both requests take no address and change nothing in this process.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, thread, none, none) };
    assert_eq!(seized, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: as above.
    let stopped = unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, thread, none, none) };
    assert_eq!(stopped, 0, "{}", std::io::Error::last_os_error());
    let mut status = 0;
    // SAFETY: the kernel writes the status into our own variable.
    let waited = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
    assert_eq!(waited, thread, "{}", std::io::Error::last_os_error());
}

/// Waits for the end of a program of which a thread is held.
fn status_of(mut program: Child, held: i32) -> i32 {
    let begun = Instant::now();
    while begun.elapsed() < LONGEST {
        let mut status = 0;
        // SAFETY: as above. Who holds a thread has to take notice of its end before its program can be waited for.
        unsafe { libc::waitpid(held, &raw mut status, libc::__WALL | libc::WNOHANG) };
        if let Some(status) = program.try_wait().expect("it can be waited for") {
            return status.code().expect("it ended by itself");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    program.kill().expect("it can be ended");
    panic!("it did not hear the interrupt for {LONGEST:?}");
}

fn interrupted_while_held(thread: &str, words: &[&str], runs: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(words).args(["--quiet", "--tier", "user", "--for", "60s", "-o"]).arg(runs);
    let program = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it was built");
    let held = thread_of(&program, thread);
    hold(held);
    let pid = i32::try_from(program.id()).expect("numbers of processes are small");
    // SAFETY: the program was not waited for, so that the number is still its own.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    assert_eq!(status_of(program, held), 130, "{words:?}");
}

#[test]
fn a_sink_that_is_not_let_run_does_not_make_chase_deaf() {
    let runs = tempfile::tempdir().expect("a directory");
    let words = ["chase", "--lab", "loopback", "--period", "1ms", "--pace", "sleep", "--receive", "block"];
    interrupted_while_held("quaver-sink", &words, runs.path());
    let left = std::fs::read_dir(runs.path()).expect("it is there").count();
    assert_eq!(left, 1, "the run is kept");
}

#[test]
fn a_source_or_a_loop_that_is_not_let_run_does_not_make_its_verb_deaf() {
    let runs = tempfile::tempdir().expect("a directory");
    let words = ["chase", "--lab", "loopback", "--period", "1ms", "--pace", "sleep", "--receive", "block"];
    interrupted_while_held("quaver-source", &words, runs.path());
    interrupted_while_held("quaver-noise0", &["noise"], runs.path());
}
