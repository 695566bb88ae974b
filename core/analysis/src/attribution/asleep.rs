//! What a sleeping receiver waited for: a sleep counts as a wake-up of the network only from its recorded wake-up on.
//! Before that, the time belongs to what it waited for.
//!
//! Locks are followed to their holders: backward from the wake-up, never before the wait began, nested waits followed to
//! a bounded depth, and what is not recorded stays unknown (the bounded critical path of Trace Compass). A wake-up from
//! an interrupt, or a sleep that no signal ends, ends the chain at the sleeper, as in Perfetto's critical path.

use super::actor::{Absence, ActorState, Life, Span, lives};
use super::causes::{CauseKey, Detail, HolderState};
use super::naming::Namer;
use super::stack_signs::{CHILD, DISK, KERNEL_LOCK, RECLAIM};
use super::timeline::{Level, start_of};
use quaver_abi::record::{EventKind, EventRecord, OffCpu, Sleep, SleepObject, WakeContext, Wakeup};
use std::collections::{BTreeMap, BTreeSet};

/// Holders that wait for holders, at most.
const DEEPEST: usize = 8;
/// Softirqs that run timers: TIMER and HRTIMER.
const TIMER_SOFTIRQS: [u16; 2] = [1, 8];
const NET_RX: u16 = 3;
/// Size of glibc's `pthread_cond_t`. Its waiters sleep at several words in it, and may change from one to another.
const CONDITION_BYTES: u64 = 48;

/// A stretch of a sleep with its cause.
pub(crate) type TakePiece<'t> = dyn FnMut(i64, i64, CauseKey) + 't;

/// The threads whose wake-ups were recorded: whoever a receiver may wait for, and be waited for by.
pub(crate) struct Sleepers<'a>(BTreeMap<u32, Life<'a>>);

impl<'a> Sleepers<'a> {
    /// `holes` are stretches in which events were lost.
    pub(crate) fn new(events: &'a [EventRecord], holes: &'a [(i64, i64)]) -> Self {
        let followed = events.iter().filter(|event| event.kind == EventKind::Wakeup as u8);
        let threads: BTreeSet<u32> = followed.map(|event| event.id).collect();
        let threads: Vec<u32> = threads.into_iter().collect();
        let lives = lives(events, &threads).into_iter().map(|life| life.with_holes(holes));
        Self(lives.map(|life| (life.thread, life)).collect())
    }
}

/// What is asked about a sleep.
pub(crate) struct Question<'q, 'a> {
    pub(crate) namer: &'q Namer<'a>,
    pub(crate) sleepers: &'q Sleepers<'a>,
}

impl Question<'_, '_> {
    /// What the sleep of a span was for; none where it was for the stream's packets, or where that is not recorded. Until
    /// `until_ns` the sleeper did nothing else.
    pub(crate) fn reason(&self, absence: &Absence, until_ns: i64) -> Option<CauseKey> {
        let wake = self.wake(absence);
        match absence.reason {
            OffCpu::Stopped => Some(CauseKey::plain("stopped", "receiver stopped by a signal")),
            OffCpu::Frozen => Some(CauseKey::plain("frozen", "receiver frozen by its cgroup")),
            OffCpu::Traced => {
                let tracer = waking_thread(wake);
                Some(CauseKey::new("traced", Detail::Sent("receiver held by ptrace", 0, tracer)))
            }
            OffCpu::Parked => Some(CauseKey::plain("kernel-wait", "receiver parked")),
            OffCpu::Uninterruptible => Some(self.uninterruptible(absence, wake)),
            OffCpu::Blocked => self.interruptible(absence, wake, until_ns),
            OffCpu::Polling => poll(wake),
            OffCpu::Receiving
            | OffCpu::Unknown
            | OffCpu::Preempted
            | OffCpu::Yielded
            | OffCpu::Throttled
            | OffCpu::Exited => None,
        }
    }

    fn wake(&self, absence: &Absence) -> Option<Wakeup> {
        Some(Wakeup::from_aux(self.event(absence.wake?).aux))
    }

    fn event(&self, index: u32) -> &EventRecord {
        &self.namer.timeline.events[index as usize]
    }

    fn interruptible(&self, absence: &Absence, wake: Option<Wakeup>, until_ns: i64) -> Option<CauseKey> {
        let sleep = self.event(absence.sleep?);
        if sleep.detail & Sleep::FOR_DISK != 0 {
            return Some(disk(0));
        }
        // Signals of the socket (SIGIO) wake it in other calls than those that receive.
        if wake.is_some_and(|wake| wake.context == WakeContext::Stream) {
            return None;
        }
        let waker = waking_thread(wake);
        let peer = |what| Some(CauseKey::new("peer-wait", Detail::Awaited(what, waker)));
        let timed_out = wake.is_some_and(by_timer);
        let object = SleepObject::from_raw(sleep.detail);
        if object == SleepObject::Futex
            && timed_out
            && let Some(waker) = self.let_go(sleep, until_ns)
        {
            return Some(lock(waker, HolderState::Unknown));
        }
        match object {
            // Nobody let go of anything: runtimes sleep in this way too (a JVM's Thread.sleep).
            SleepObject::Futex | SleepObject::Peer | SleepObject::Socket | SleepObject::Unknown
                if timed_out =>
            {
                Some(CauseKey::plain("own-sleep", "timed wait of the receiver ran out"))
            }
            SleepObject::Futex if wake.is_some_and(Wakeup::by_an_end) => {
                Some(end(waker, HolderState::Unknown))
            }
            SleepObject::Futex => Some(lock(waker, HolderState::Unknown)),
            SleepObject::Clock => Some(CauseKey::plain("own-sleep", "sleep of the receiver itself")),
            SleepObject::TimerFd => Some(CauseKey::plain("own-sleep", "receiver waited for its own timer")),
            SleepObject::Socket => peer("another socket"),
            SleepObject::Pipe => peer("a pipe"),
            SleepObject::Device => peer("a device"),
            SleepObject::Anonymous => peer("an event descriptor"),
            SleepObject::Child => peer("another process"),
            // A disk's interrupt ends the wait for it; a thread does where a process serves the file system.
            SleepObject::File => Some(disk(waker)),
            SleepObject::Peer => peer("another thread or process"),
            SleepObject::Unknown if waker != 0 => peer("another thread or process"),
            SleepObject::Unknown => {
                Some(CauseKey::plain("own-sleep", "sleep of the receiver in another system call"))
            }
        }
    }

    /// Who let go of a futex in the end, where a wait for it ran out and began again: one wait in several calls, as that for
    /// Python's interpreter lock is.
    fn let_go(&self, sleep: &EventRecord, until_ns: i64) -> Option<u32> {
        let word = Sleep::from_aux(sleep.aux).object;
        let same = |again: &EventRecord| {
            SleepObject::from_raw(again.detail) == SleepObject::Futex
                && Sleep::from_aux(again.aux).object.abs_diff(word) < CONDITION_BYTES
        };
        let life = self.sleepers.0.get(&sleep.id)?;
        for (again, wake) in life.sleeps_after(start_of(sleep)) {
            let wake = wake.filter(|wake| start_of(wake) <= until_ns && same(again))?;
            let wake = Wakeup::from_aux(wake.aux);
            if !by_timer(wake) {
                return (wake.context == WakeContext::Task).then_some(wake.current);
            }
        }
        None
    }

    fn uninterruptible(&self, absence: &Absence, wake: Option<Wakeup>) -> CauseKey {
        let Some(sleep) = absence.sleep.map(|index| self.event(index)) else { return KERNEL_WAIT };
        let frames = self.namer.frames(sleep.start_ns, sleep.id);
        let (place, waker) = (self.namer.leaf(frames), waking_thread(wake));
        if self.namer.shows(frames, RECLAIM) {
            return CauseKey::new("reclaim/swap", Detail::Function("memory reclaim or swap in", place));
        }
        if sleep.detail & Sleep::FOR_DISK != 0
            || SleepObject::from_raw(sleep.detail) == SleepObject::File
            || self.namer.shows(frames, DISK)
        {
            return CauseKey::new("disk", Detail::Function("wait for a disk or file system in", place));
        }
        if self.namer.shows(&[place], CHILD) {
            return CauseKey::new("peer-wait", Detail::Awaited("another process", waker));
        }
        if self.namer.shows(frames, KERNEL_LOCK) {
            return CauseKey::new("kernel-wait", Detail::Ended("lock of the kernel in", place, waker));
        }
        CauseKey::new("kernel-wait", Detail::Ended("wait in the kernel in", place, waker))
    }

    /// Cuts a stretch of a sleep by cause. That of a lock, or of a thread's end, is cut by what that thread did meanwhile.
    pub(crate) fn cut(&self, span: &Span, key: CauseKey, take: &mut TakePiece<'_>) {
        match key.detail {
            Detail::Lock(holder, _) if holder != 0 => {
                self.behind((holder, lock), (span.start_ns, span.end_ns), DEEPEST, take);
            }
            Detail::End(ended, _) => {
                self.behind((ended, end), (span.start_ns, span.end_ns), DEEPEST, take);
            }
            Detail::Awaited(_, worker) if self.works_for_io_uring(worker) => {
                self.behind((worker, io_work), (span.start_ns, span.end_ns), DEEPEST, take);
            }
            _ => take(span.start_ns, span.end_ns, key),
        }
    }

    /// Whether the kernel made this thread to do what the receiver's own requests to io_uring ask for.
    fn works_for_io_uring(&self, thread: u32) -> bool {
        self.namer.names.task.get(&thread).is_some_and(|comm| comm.starts_with("iou-wrk-"))
    }

    /// What the holder of a lock, or a thread that is to end, did while others waited for it.
    fn behind(
        &self,
        (holder, awaited): (u32, AwaitedKey),
        (from, to): (i64, i64),
        depth: usize,
        take: &mut TakePiece<'_>,
    ) {
        let key = |state| awaited(holder, state);
        let Some(life) = self.sleepers.0.get(&holder).filter(|_| depth > 0) else {
            return take(from, to, key(HolderState::Unknown));
        };
        let mut spans = Vec::new();
        life.spans(from, to, |span| spans.push(span));
        for span in spans {
            match span.state {
                ActorState::Running => take(span.start_ns, span.end_ns, key(HolderState::Ran)),
                ActorState::Unknown => take(span.start_ns, span.end_ns, key(HolderState::Unknown)),
                ActorState::Preempted | ActorState::Woken => self.off_cpu(&span, key, take),
                ActorState::Asleep => match self.reason(&span.absence, to) {
                    Some(CauseKey { detail: Detail::Lock(next, _), .. }) if next != 0 && next != holder => {
                        self.behind((next, lock), (span.start_ns, span.end_ns), depth - 1, take);
                    }
                    Some(CauseKey { detail: Detail::End(next, _), .. }) if next != holder => {
                        self.behind((next, end), (span.start_ns, span.end_ns), depth - 1, take);
                    }
                    Some(reason) if reason.id == "disk" || reason.id == "reclaim/swap" => {
                        take(span.start_ns, span.end_ns, key(HolderState::WaitedForDisk));
                    }
                    _ => take(span.start_ns, span.end_ns, key(HolderState::Slept)),
                },
            }
        }
    }

    /// The time of a runnable holder that is off its CPU, by who ran there.
    fn off_cpu(&self, span: &Span, key: impl Fn(HolderState) -> CauseKey, take: &mut TakePiece<'_>) {
        let rest = key(HolderState::Waited(0));
        let Some(cpu) = span.cpu else { return take(span.start_ns, span.end_ns, rest) };
        let timeline = self.namer.timeline;
        let mut cursor = span.start_ns;
        for segment in timeline.segments(cpu, Level::Thread, span.start_ns, span.end_ns) {
            if cursor < segment.start_ns {
                take(cursor, segment.start_ns, rest);
            }
            let runner = &timeline.events[segment.event as usize];
            take(segment.start_ns, segment.end_ns, key(HolderState::Waited(runner.id)));
            cursor = segment.end_ns;
        }
        if cursor < span.end_ns {
            take(cursor, span.end_ns, rest);
        }
    }
}

/// The cause of a wait for a thread, by that thread and what it did.
type AwaitedKey = fn(u32, HolderState) -> CauseKey;

const fn lock(holder: u32, state: HolderState) -> CauseKey {
    CauseKey::new("lock", Detail::Lock(holder, state))
}

const fn end(ended: u32, state: HolderState) -> CauseKey {
    CauseKey::new("thread-end", Detail::End(ended, state))
}

/// What a request to io_uring waits for, where the kernel gave it to a worker.
const fn io_work(worker: u32, state: HolderState) -> CauseKey {
    match state {
        HolderState::WaitedForDisk => disk(0),
        _ => CauseKey::new("peer-wait", Detail::Awaited("its request to io_uring", worker)),
    }
}

const fn disk(ended_by: u32) -> CauseKey {
    CauseKey::new("disk", Detail::Ended("wait for a disk or file system", 0, ended_by))
}

const KERNEL_WAIT: CauseKey = CauseKey::plain("kernel-wait", "wait in the kernel");

/// The thread that made a wake-up in a system call or fault of its own; 0 where none did, or it is not known.
fn waking_thread(wake: Option<Wakeup>) -> u32 {
    wake.filter(|wake| wake.context == WakeContext::Task).map_or(0, |wake| wake.current)
}

/// Whether a timer made a wake-up.
fn by_timer(wake: Wakeup) -> bool {
    let timers = wake.context == WakeContext::Softirq && TIMER_SOFTIRQS.contains(&wake.number);
    wake.context == WakeContext::Timer || timers
}

/// What a poll that did not end by the stream waited for: were the stream's socket watched, its packet would have ended it.
fn poll(wake: Option<Wakeup>) -> Option<CauseKey> {
    let wake = wake?;
    match wake.context {
        _ if by_timer(wake) => Some(TIMED_OUT),
        WakeContext::Softirq if wake.number == NET_RX => {
            Some(CauseKey::new("peer-wait", Detail::Awaited("another socket", 0)))
        }
        WakeContext::Interrupt => Some(CauseKey::new("peer-wait", Detail::Awaited("a device", 0))),
        WakeContext::Task => {
            Some(CauseKey::new("peer-wait", Detail::Awaited("another descriptor", wake.current)))
        }
        WakeContext::Stream
        | WakeContext::Unknown
        | WakeContext::Softirq
        | WakeContext::Vector
        | WakeContext::Timer => None,
    }
}

const TIMED_OUT: CauseKey = CauseKey::plain("own-sleep", "poll of the receiver timed out");
