//! Measuring threads that start in two steps: first everything is set up and the thread's number is known, so
//! that a tracer can be attached to it; then it goes.

use super::error::ProbeError;
use super::thread::{PreparedThread, ThreadSettings};
use quaver_host::confinement::{Files, MEASURING};
use quaver_waiting as waiting;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// A thread that is ready and waits for [`Prepared::go`]. Dropping it ends the thread without a measurement.
#[derive(Debug)]
pub(super) struct Prepared<T> {
    thread: PreparedThread,
    go: SyncSender<()>,
    running: Running<T>,
}

/// A thread that measures.
#[derive(Debug)]
pub(super) struct Running<T> {
    name: String,
    handle: JoinHandle<Option<T>>,
    stop: Arc<AtomicBool>,
}

impl<T: Send + 'static> Prepared<T> {
    /// Starts a thread, applies `settings` on it, and lets it wait; `body` runs at [`Prepared::go`] and should
    /// end soon after the flag that it is given is set.
    pub(super) fn spawn(
        name: &str,
        settings: ThreadSettings,
        body: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> Result<Self, ProbeError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = sync_channel(1);
        let (go, gone) = sync_channel(1);
        let flag = Arc::clone(&stop);
        let refused = |e| ProbeError::os(format!("start thread {name}"), e);
        let handle = waiting::start(name, move || {
            let prepared = settings.prepare();
            let failed = prepared.is_err();
            // It has its socket and its memory, and needs nothing else of the system.
            MEASURING.keep(Some(Files::default()));
            if tell.send(prepared).is_err() || failed {
                return None;
            }
            gone.recv().ok().map(|()| body(&flag))
        })
        .map_err(refused)?;
        let started = waiting::hear(name, &told).map_err(refused)?;
        let thread = started.expect("the thread sends its outcome before anything else can end it")?;
        Ok(Self { thread, go, running: Running { name: name.to_owned(), handle, stop } })
    }

    /// What the thread asked for and got.
    pub(super) fn thread(&self) -> &PreparedThread {
        &self.thread
    }

    /// Kernel's number of the thread.
    pub(super) fn tid(&self) -> u32 {
        self.thread.tid
    }

    /// Lets it go. Returns what the thread got beside the running thread.
    pub(super) fn go(self) -> (Running<T>, PreparedThread) {
        // It cannot have ended: it waits for this, or for the sender's end.
        let _ = self.go.send(());
        (self.running, self.thread)
    }
}

impl<T> Running<T> {
    /// Asks the thread to end, and returns at once.
    pub(super) fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Whether it has ended by itself or on request.
    pub(super) fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Waits for its end; a panic of the thread goes on here.
    ///
    /// # Errors
    /// The process was asked to end, and the thread is not let run.
    pub(super) fn join(self) -> Result<T, ProbeError> {
        let ended = waiting::join(&self.name, self.handle);
        match ended.map_err(|e| ProbeError::os(format!("end thread {}", self.name), e))? {
            Ok(outcome) => Ok(outcome.expect("a thread that was let go runs its body")),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
