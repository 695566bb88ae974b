//! One end of a flow while it runs: test packets on a thread of their own, the control connection beside it.

use super::control::{Control, ControlError, Incoming, LONGEST_WAIT};
use quaver_path_flow::{
    AcceptFrom, FlowError, FlowSpec, ReceiveReport, Received, SendReport, TestSocket, Transport,
    receive_flow, send_flow,
};
use rustix::event::{EventfdFlags, eventfd};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Received packets are handed over this often, not one by one: waking the other thread costs the receiver time.
const HAND_OVER: Duration = Duration::from_millis(100);
/// Or when so many are there.
const MOST_PENDING: usize = 1 << 14;
/// Batches that may wait. A receiver that is so far ahead waits, and its kernel's buffer has to do.
const MOST_BATCHES: usize = 256;

/// Messages heard at a time, so that a peer that says more has to wait for what else there is to do.
const MOST_HEARD: usize = 32;

/// What the two threads tell each other.
#[derive(Debug)]
pub(super) struct Signals {
    /// To the sender: the receiver has seen the end.
    pub(super) acknowledged: AtomicBool,
    /// To either: end now.
    pub(super) stop: AtomicBool,
    wake: OwnedFd,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { acknowledged: AtomicBool::new(false), stop: AtomicBool::new(false), wake })
    }

    fn wake(&self) {
        // Full means that the other thread has not yet heard of earlier ones, and so will look.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn heard(&self) {
        let mut count = [0u8; 8];
        let _ = rustix::io::read(&self.wake, &mut count);
    }

    /// Asks the flow to end.
    pub(super) fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What happens while a flow runs.
pub(super) enum Happening<'a> {
    /// Packets were received.
    Batch(&'a [Received]),
    /// The peer spoke.
    Heard(Incoming),
    /// The peer will not be heard any more; told once.
    Gone(ControlError),
    /// Some time has passed, at most [`LONGEST_WAIT`].
    Tick,
}

/// Sends the flow on a thread of its own.
///
/// # Errors
/// As [`send_flow`].
pub(super) fn send(
    control: &mut Control,
    socket: &TestSocket,
    spec: &FlowSpec,
    on: &mut dyn FnMut(Happening<'_>, &mut Control, &Signals),
) -> Result<SendReport, FlowError> {
    drive(control, on, |signals, _| send_flow(socket, spec, &signals.acknowledged, &signals.stop))
}

/// Receives the flow on a thread of its own.
///
/// # Errors
/// As [`receive_flow`].
pub(super) fn receive(
    control: &mut Control,
    socket: &TestSocket,
    spec: &FlowSpec,
    on: &mut dyn FnMut(Happening<'_>, &mut Control, &Signals),
) -> Result<ReceiveReport, FlowError> {
    drive(control, on, |signals, batches| {
        let mut pending = Vec::new();
        let mut handed_over = Instant::now();
        let report = receive_flow(
            socket,
            spec,
            &mut |packets| {
                pending.extend_from_slice(packets);
                if pending.len() >= MOST_PENDING || handed_over.elapsed() >= HAND_OVER {
                    handed_over = Instant::now();
                    hand_over(batches, signals, &mut pending);
                }
            },
            &signals.stop,
        );
        hand_over(batches, signals, &mut pending);
        report
    })
}

/// Whose packets count: a connection has one peer only.
pub(super) fn accept_from(transport: Transport, peer: IpAddr) -> AcceptFrom {
    match transport {
        Transport::Udp => AcceptFrom::Host(peer),
        Transport::Tcp => AcceptFrom::Anyone,
    }
}

fn hand_over(batches: &SyncSender<Vec<Received>>, signals: &Signals, pending: &mut Vec<Received>) {
    if !pending.is_empty() {
        let next = Vec::with_capacity(pending.len());
        // The other side lives as long as this thread.
        let _ = batches.send(std::mem::replace(pending, next));
        signals.wake();
    }
}

fn drive<R: Send>(
    control: &mut Control,
    on: &mut dyn FnMut(Happening<'_>, &mut Control, &Signals),
    flow: impl FnOnce(&Signals, &SyncSender<Vec<Received>>) -> Result<R, FlowError> + Send,
) -> Result<R, FlowError> {
    let operation = "make a thread for the test packets";
    let failed = |source| FlowError::Os { operation: operation.into(), source, remedy: "" };
    let signals = Signals::new().map_err(failed)?;
    let (batches, arriving) = sync_channel(MOST_BATCHES);
    std::thread::scope(|scope| {
        let shared = &signals;
        let work = move || {
            let outcome = flow(shared, &batches);
            shared.wake();
            outcome
        };
        let thread = quaver_waiting::start_in(scope, "quaver-path", work).map_err(failed)?;
        let mut gone = false;
        while !thread.is_finished() {
            control.wait(Some(shared.wake.as_fd()), LONGEST_WAIT);
            shared.heard();
            listen(control, &mut gone, on, shared);
            show(&arriving, control, on, shared);
            on(Happening::Tick, control, shared);
        }
        show(&arriving, control, on, shared);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn listen(
    control: &mut Control,
    gone: &mut bool,
    on: &mut dyn FnMut(Happening<'_>, &mut Control, &Signals),
    signals: &Signals,
) {
    for _ in 0..MOST_HEARD {
        if *gone || !control.is_listening() {
            return;
        }
        match control.next() {
            Ok(Some(incoming)) => on(Happening::Heard(incoming), control, signals),
            Ok(None) => return,
            Err(error) => {
                *gone = true;
                on(Happening::Gone(error), control, signals);
            }
        }
    }
}

fn show(
    arriving: &Receiver<Vec<Received>>,
    control: &mut Control,
    on: &mut dyn FnMut(Happening<'_>, &mut Control, &Signals),
    signals: &Signals,
) {
    while let Ok(batch) = arriving.try_recv() {
        on(Happening::Batch(&batch), control, signals);
    }
}
