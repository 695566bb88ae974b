//! A disturber of a CPU, for tests that look for its name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The last CPU that this process may use.
pub(crate) fn last_cpu() -> usize {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU).rfind(|cpu| allowed.is_set(*cpu)).unwrap()
}

/// Keeps the calling thread on one CPU.
pub(crate) fn bind_to(cpu: usize) {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu);
    rustix::thread::sched_setaffinity(None, &cpus).unwrap();
}

/// Puts the calling thread under SCHED_FIFO, where that is permitted.
pub(crate) fn real_time(priority: i32) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the call reads the parameters, which live through it, and concerns the calling thread alone.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
}

/// A thread of high priority, called `burner`, that takes the last CPU for 3 of each 20 ms.
pub(crate) struct Burner(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Burner {
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let burn = move || {
            bind_to(last_cpu());
            assert!(real_time(50));
            while !stopping.load(Ordering::Relaxed) {
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(3) {}
                std::thread::sleep(Duration::from_millis(17));
            }
        };
        let thread = std::thread::Builder::new().name("burner".into()).spawn(burn).unwrap();
        Self(stop, Some(thread))
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(JoinHandle::join);
    }
}

/// The burner leads the real-time threads among the causes, whatever else this machine does meanwhile; it delayed some of
/// the late packets.
#[track_caller]
pub(crate) fn assert_named(found: &serde_json::Value) {
    let causes = found["causes"].as_array().unwrap();
    let leading = causes.iter().find(|cause| cause["source"] == "rt-thread");
    let leading = leading.unwrap_or_else(|| panic!("no real-time thread is named: {found}"));
    assert!(leading["name"].as_str().unwrap().contains("burner"), "{leading}: {found}");
    let late = found["lateness"]["packets"].as_u64().unwrap();
    assert!((1..=late).contains(&leading["packets"].as_u64().unwrap()), "{leading}: {found}");
}
