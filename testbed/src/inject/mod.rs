//! Injectors: each makes one kind of interference on the CPU of a sink, in the blocks of [`crate::phase`].
//!
//! Those here work from outside the measured process. What needs its address space (TLB shootdowns, membarrier,
//! page faults) is in the preload `examples/inject_preload.rs`.

pub mod kernel_work;
pub mod load;
pub mod migrate;
pub mod quiet;
pub mod quota;
pub mod rt_budget;
pub mod schedule;
pub mod setting;
pub mod stop;
pub mod thread;
pub mod timer;
pub mod traffic;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A running injector; dropping it ends it and puts back what it changed.
pub struct Injection {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Injection {
    /// Runs `body` in a thread of that name until the injection is dropped.
    pub fn spawn(name: &str, body: impl FnOnce(&AtomicBool) + Send + 'static) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || body(&seen))?;
        Ok(Self { stop, threads: vec![thread] })
    }
}

impl Drop for Injection {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic of an injector was printed already; the judge sees that nothing was injected.
            let _ = thread.join();
        }
    }
}
