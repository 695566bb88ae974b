//! Runtimes that wait by futex calls of their own: which one a call comes from, and what the word is that it waits on.

use quaver_sync_analysis::sync::WordUse;

/// A runtime, by a part of the name of the file or of the function that makes the call.
struct Runtime {
    /// How the name of the file begins.
    file: &'static str,
    /// A part of the function's name; empty where the file says enough.
    function: &'static str,
    name: &'static str,
    /// What a word is whose waiters are woken one at a time, where that is known.
    one: &'static str,
    /// What it is where they are woken all at once.
    all: &'static str,
}

/// The first that fits counts. Functions stand before files, since runtimes in Rust and C++ are part of the program's own file.
const RUNTIMES: [Runtime; 22] = [
    // Its locks and conditions put threads to sleep on words of their own.
    function("parking_lot", "parking_lot", "parked thread", "parked thread"),
    function("3std3sys4sync5mutex", "Rust", "lock", "lock"),
    function("std::sys::sync::mutex", "Rust", "lock", "lock"),
    // Several readers give it back together, and only the last of them wakes.
    function("3std3sys4sync6rwlock", "Rust", "read-write lock", "read-write lock"),
    function("std::sys::sync::rwlock", "Rust", "read-write lock", "read-write lock"),
    function("3std3sys4sync7condvar", "Rust", "condition", "condition"),
    function("std::sys::sync::condvar", "Rust", "condition", "condition"),
    function("thread_park", "Rust", "parked thread", "parked thread"),
    function("std::thread::park", "Rust", "parked thread", "parked thread"),
    function("std::thread::thread::Thread>::park", "Rust", "parked thread", "parked thread"),
    function("std::thread::functions::park", "Rust", "parked thread", "parked thread"),
    function("__platform_wait", "C++", "atomic wait", "atomic wait"),
    function("runtime.futex", "Go", "pool", "pool"),
    // Conditions, events and queues are made of such locks, too.
    function("PyThread_acquire_lock", "Python", "threading.Lock", "threading.Lock"),
    function("lll_lock_wait", "C library", "lock", "lock"),
    // Between parallel regions its threads wait at a barrier, too.
    file("libgomp.", "OpenMP (libgomp)", "lock", "barrier"),
    file("libomp.", "OpenMP (libomp)", "lock", "barrier"),
    file("libiomp", "OpenMP (libiomp)", "lock", "barrier"),
    file("libtbb", "TBB", "pool", "pool"),
    // Its collector, compiler and safepoints. Monitors and java.util.concurrent wait for conditions.
    file("libjvm.", "Java", "virtual machine", "virtual machine"),
    file("libstdc++.", "C++", "atomic wait", "atomic wait"),
    file("libc.", "C library", "wait", "wait"),
];

const fn file(file: &'static str, name: &'static str, one: &'static str, all: &'static str) -> Runtime {
    Runtime { file, function: "", name, one, all }
}

const fn function(
    function: &'static str,
    name: &'static str,
    one: &'static str,
    all: &'static str,
) -> Runtime {
    Runtime { file: "", function, name, one, all }
}

/// What is known of a futex word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FutexWord {
    /// Where the first wait on it returned to; until there is one, the first call about it.
    pub call_site: u64,
    /// That was a wait.
    pub by_waiter: bool,
    /// Calls that wake one waiter.
    pub wakes_one: u64,
    /// Calls that wake several.
    pub wakes_all: u64,
}

impl FutexWord {
    /// `OpenMP (libgomp) barrier`: the runtime that calls from a function of a file, and what the word is to it. None where the
    /// caller is no runtime that is known. The role is left out where nobody was seen to wake the word. `is_signal`: those who wake
    /// did not wait on it, so that it is no lock.
    pub fn label(&self, file: &str, function: &str, is_signal: bool) -> Option<String> {
        // Whoever asks the kernel by the C library's function is not the C library.
        if function.split(['+', ' ']).next() == Some("syscall") {
            return None;
        }
        let fits = |one: &&Runtime| file.starts_with(one.file) && function.contains(one.function);
        let runtime = RUNTIMES.iter().find(fits)?;
        let role = match (self.wakes_one, self.wakes_all) {
            _ if runtime.one == runtime.all => runtime.one,
            (0, 0) => return Some(runtime.name.to_owned()),
            (one, all) if one >= all && is_signal => "wait",
            (one, all) if one >= all => runtime.one,
            _ => runtime.all,
        };
        Some(format!("{} {role}", runtime.name))
    }
}

/// How the runtime uses a word with this label, where the runtime says so.
pub fn used_like(label: &str) -> Option<WordUse> {
    const USES: [(&str, WordUse); 13] = [
        ("Rust lock", WordUse::Lock),
        ("Rust read-write lock", WordUse::Lock),
        ("Rust barrier", WordUse::Broadcast),
        ("C++ barrier", WordUse::Broadcast),
        ("C++ latch", WordUse::Broadcast),
        ("Rust condition", WordUse::Signal),
        ("Rust parked thread", WordUse::Signal),
        ("parking_lot parked thread", WordUse::Unknown),
        ("Go pool", WordUse::Signal),
        ("OpenMP (libgomp) barrier", WordUse::Broadcast),
        ("OpenMP (libomp) barrier", WordUse::Broadcast),
        ("OpenMP (libiomp) barrier", WordUse::Broadcast),
        ("C library lock", WordUse::Lock),
    ];
    USES.iter().find(|(known, _)| *known == label).map(|(_, is_like)| *is_like)
}

/// A word with this label is a lock with one owner at a time, which wakes one waiter when it has given the lock back. `is_passed_on`:
/// who is woken wakes the next.
pub fn is_mutex(label: &str, is_passed_on: bool) -> bool {
    // A word of OpenMP that one thread posts to another is no lock.
    matches!(label, "Rust lock" | "C library lock") || label == "OpenMP (libgomp) lock" && is_passed_on
}

/// A word with this label is a barrier: who wakes all came last.
pub fn is_barrier(label: &str) -> bool {
    matches!(label, "OpenMP (libgomp) barrier" | "Rust barrier" | "C++ barrier" | "C++ latch")
}

/// A word with this label is a condition: who wakes it while nobody waits wakes nobody later.
pub fn is_condition(label: &str) -> bool {
    label == "Rust condition"
}

/// The label of a word on which a function waits or wakes that is part of a barrier.
pub fn barrier_of(function: &str) -> Option<&'static str> {
    const PARTS: [(&str, &str); 5] = [
        ("std::sync::barrier::Barrier", "Rust barrier"),
        ("std::__tree_barrier", "C++ barrier"),
        ("std::barrier<", "C++ barrier"),
        ("std::__1::barrier<", "C++ barrier"),
        ("std::latch::", "C++ latch"),
    ];
    PARTS.iter().find(|(part, _)| function.contains(part)).map(|(_, label)| *label)
}

/// The runtimes among mapped files that wait by calls of their own, other than the C library.
pub fn of_files<'a>(files: impl Iterator<Item = &'a str>) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = files
        .filter_map(|name| {
            let fits = |one: &&Runtime| !one.file.is_empty() && name.starts_with(one.file);
            RUNTIMES.iter().find(fits).map(|one| one.name)
        })
        .filter(|name| name.starts_with("OpenMP") || matches!(*name, "TBB" | "Java"))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_named_after_who_waits_and_how_it_is_woken() {
        let word =
            |wakes_one, wakes_all| FutexWord { call_site: 1, wakes_one, wakes_all, ..FutexWord::default() };
        let label = |word: FutexWord, file, function| word.label(file, function, false).unwrap_or_default();
        assert_eq!(
            label(word(0, 5), "libgomp.so.1.0.0", "libgomp.so.1.0.0+0x1e0"),
            "OpenMP (libgomp) barrier"
        );
        assert_eq!(label(word(5, 0), "libgomp.so.1.0.0", ""), "OpenMP (libgomp) lock");
        let signal = word(5, 0).label("libgomp.so.1.0.0", "", true);
        assert_eq!(signal.as_deref(), Some("OpenMP (libgomp) wait"));
        assert_eq!(label(word(0, 0), "libgomp.so.1.0.0", ""), "OpenMP (libgomp)");
        let rust = "_ZN3std3sys4sync5mutex5futex5Mutex14lock_contended17h0E";
        assert_eq!(label(word(3, 0), "server", rust), "Rust lock");
        assert_eq!(label(word(0, 3), "server", "runtime.futex.abi0"), "Go pool");
        assert_eq!(label(word(1, 0), "libc.so.6", "__lll_lock_wait_private"), "C library lock");
        assert_eq!(label(word(1, 0), "libc.so.6", "sem_wait"), "C library wait");
        assert_eq!(label(word(1, 0), "libc.so.6", "syscall+0x19 (libc.so.6)"), "");
        assert_eq!(label(word(1, 0), "python3.11", "PyThread_acquire_lock_timed"), "Python threading.Lock");
        assert_eq!(used_like(&label(word(1, 0), "server", rust)), Some(WordUse::Lock));
        assert_eq!(used_like("Python threading.Lock"), None);
        assert!(is_mutex("Rust lock", false) && is_mutex("OpenMP (libgomp) lock", true));
        assert!(!is_mutex("OpenMP (libgomp) lock", false) && !is_mutex("Rust read-write lock", true));
        let barrier = |function| barrier_of(function).is_some_and(is_barrier);
        assert!(barrier("<std::sync::barrier::Barrier>::wait+0x1b") && barrier("std::latch::wait() const"));
        assert!(!barrier("std::sys::sync::condvar::futex::Condvar::wait") && !is_barrier("C++ atomic wait"));
        assert_eq!(word(1, 0).label("server", "main", false), None);
        assert_eq!(of_files(["libgomp.so.1", "libc.so.6", "prog"].into_iter()), ["OpenMP (libgomp)"]);
    }
}
