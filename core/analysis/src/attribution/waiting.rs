//! Why a thread that could run does not: the rules from its state and from who held its CPU instead.

use super::actor::{Absence, ActorState, Span, hidden_before};
use super::causes::{CauseKey, Class, Detail};
use super::naming::Namer;
use super::timeline::{Level, Segment, end_of, start_of};
use crate::model::{Actor, Circumstances};
use quaver_abi::record::{EventKind, EventRecord, OffCpu, Vector, served};

/// From here on an idle CPU beside a woken thread is no slow wake-up any more but a stop.
const LONG_WAIT_NS: i64 = 1_000_000;

/// The wait of a blocking receiver for its CPU.
pub(crate) const WAKE_UP: CauseKey = CauseKey::plain("block-recv", "blocking wake-up");
/// Part of that wait in which the CPU was still in an idle state.
pub(crate) const IDLE_EXIT: CauseKey = CauseKey::plain("cstate", "idle exit");
/// The receiver's way from one CPU to another.
pub(crate) const MOVED: CauseKey = CauseKey::plain("migration", "receiver moved to another CPU");
const THROTTLED: CauseKey = CauseKey::plain("rt-throttle", "real-time throttling");
const BUDGET: CauseKey = CauseKey::plain("dl-budget", "runtime of SCHED_DEADLINE used up");
const SERVED: CauseKey = CauseKey::plain("fair-server", "fair server ran normal threads");
const QUOTA: CauseKey = CauseKey::plain("quota", "CPU quota of the receiver's cgroup used up");

/// Facts that the rules need.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    /// Who waits.
    pub(crate) actor: &'a Actor,
    /// Its thread.
    pub(crate) thread: Option<u32>,
    pub(crate) circumstances: &'a Circumstances,
    /// It is the receiver, whose quota is the one that is known.
    pub(crate) is_receiver: bool,
    /// What its way from a wake-up to its CPU belongs to: [`WAKE_UP`], or what it slept for.
    pub(crate) wake_up: CauseKey,
}

impl Facts<'_> {
    /// Whether it waits as a real-time thread: by the class that it had when it left its CPU, which may change in a run.
    fn realtime(&self, span: &Span) -> bool {
        span.class.map_or(self.actor.realtime, |class| class != Class::Normal)
    }

    /// Whether it waits while this thread, which any thread of its class goes before, holds the CPU.
    fn outranks(&self, span: &Span, holder: &EventRecord) -> bool {
        match Class::of(holder.aux) {
            Class::Normal => self.realtime(span),
            Class::RealTime(_) => span.class == Some(Class::Deadline),
            Class::Deadline => false,
        }
    }

    fn stopped(&self, span: &Span) -> Option<CauseKey> {
        if span.class == Some(Class::Deadline) {
            return Some(BUDGET);
        }
        if self.realtime(span) {
            return self.circumstances.rt_throttling.then_some(THROTTLED);
        }
        (self.is_receiver && self.circumstances.quota_stops > 0).then_some(QUOTA)
    }

    /// Cause of the wait while `holder` held the CPU; none where nothing recorded explains it.
    ///
    /// - Any thread, or idle, beside one that the kernel recorded as throttled: the quota, see [`behind_quota`].
    /// - Idle beside a preempted thread: it moved, or it is not allowed to run (RT throttling of a real-time
    ///   thread, quota of a normal one, each only where the host has such a limit in force). If it moved after
    ///   1 ms or more of such a limit, the limit is the cause.
    /// - Idle beside a woken thread: the wake-up takes its time, and longest on its way to a halted CPU of a guest. 1 ms
    ///   after it stood in the CPU's queue it counts as not allowed to run, if that CPU went idle again.
    /// - A normal thread before a real-time one: the fair server where the kernel says that it ran that thread. One that
    ///   already ran at the wake-up is part of the wake-up, but where its stack, taken after a long wait, shows that
    ///   it gave way in the kernel: there it could not be preempted. Else throttling. Where the kernel says nothing of
    ///   the fair server: part of the wake-up within 1 ms, and then fair server or throttling.
    /// - Idle or a thread of a lower class beside one of SCHED_DEADLINE: its own runtime is used up. No limit of the host has
    ///   to be in force for that.
    /// - The stopper thread, where the thread moves; and whoever a runnable thread waits for on a CPU that it was
    ///   moved to, or after the stopper took it off its own: without the move it would have run there. It would not
    ///   while the one that preempted it holds that CPU still, see [`behind_its_preemptor`].
    /// - A thread that the kernel hides from tracing: it, whose work in the kernel it is before a real-time thread.
    /// - Another thread while such a limit is in force and the CPU also idled during the wait: the limit. Nobody
    ///   leaves a CPU idle beside a thread that may run, so it was not allowed to; the other only filled the stop.
    /// - Else the thread that ran.
    pub(crate) fn cause(&self, namer: &Namer<'_>, span: &Span, holder: &EventRecord) -> Option<CauseKey> {
        let long = span.end_ns.saturating_sub(span.runnable_ns()) >= LONG_WAIT_NS;
        if span.absence.reason == OffCpu::Throttled {
            return Some(QUOTA);
        }
        if holder.id == 0 {
            return match span.state {
                ActorState::Preempted if span.moved && long => self.stopped(span).or(Some(MOVED)),
                ActorState::Preempted if span.moved => Some(MOVED),
                ActorState::Preempted => self.stopped(span),
                ActorState::Woken if long && idles_on(namer, span) => {
                    self.stopped(span).or(Some(self.wake_up))
                }
                ActorState::Woken => Some(self.wake_up),
                ActorState::Running | ActorState::Asleep | ActorState::Unknown => None,
            };
        }
        if self.thread == Some(holder.id) {
            return None;
        }
        if span.state == ActorState::Unknown && self.actor.threads.contains(&holder.id) {
            return None;
        }
        let stopper = |thread| is_stopper(namer, thread);
        if span.state == ActorState::Preempted
            && span.moved
            && (span.away || stopper(holder.id) || stopper(span.taken_by))
        {
            return Some(MOVED);
        }
        if span.state == ActorState::Preempted
            && let Some(limit) = self.stopped(span)
            && idled(namer, span)
        {
            return Some(limit);
        }
        let outranked = self.outranks(span, holder);
        if hidden_before(holder).is_some() {
            // Nothing tells of the fair server; a real-time thread waits behind a normal one that is in the kernel.
            let thread = namer.thread(holder, &self.circumstances.own_threads);
            let in_kernel = outranked && thread.id == "cfs-preempt";
            let work = CauseKey::new("kernel-work", Detail::Kernel(holder.id, 0));
            return Some(if in_kernel { work } else { thread });
        }
        let waits = matches!(span.state, ActorState::Preempted | ActorState::Woken);
        if waits
            && outranked
            && let Some(key) = self.behind_outranked(namer, span, holder, long)
        {
            return Some(key);
        }
        Some(namer.thread(holder, &self.circumstances.own_threads))
    }

    /// Cause of a wait while a thread of a lower class held its CPU; none where it is that thread.
    fn behind_outranked(
        &self,
        namer: &Namer<'_>,
        span: &Span,
        holder: &EventRecord,
        long: bool,
    ) -> Option<CauseKey> {
        let known = holder.detail & served::KNOWN != 0;
        if holder.detail & served::BY_FAIR_SERVER != 0 {
            return Some(SERVED);
        }
        let ran_before = holder.start_ns <= span.runnable_ns().max(0) as u64;
        let gives_way = span.state == ActorState::Woken && ran_before;
        if gives_way && known {
            let place = kernel_work(namer, namer.frames(holder.end_ns, holder.id));
            let Some(place) = place else { return Some(self.wake_up) };
            // A thread of the kernel's own has a source of its own.
            let thread = namer.thread(holder, &self.circumstances.own_threads);
            let work = CauseKey::new("kernel-work", Detail::Kernel(holder.id, place));
            return Some(if thread.id == "cfs-preempt" { work } else { thread });
        }
        if gives_way && !long {
            return Some(self.wake_up);
        }
        if span.class == Some(Class::Deadline) {
            return Some(BUDGET);
        }
        if self.circumstances.fair_server && !known {
            return Some(SERVED);
        }
        self.circumstances.rt_throttling.then_some(THROTTLED)
    }
}

/// Where a thread was in the kernel until it gave way, by its stack at that instant; none where an interrupt of its own
/// code made it give way. An exception, as a page fault is, goes back to user code as an interrupt does; only how it came in
/// tells the two apart.
fn kernel_work(namer: &Namer<'_>, frames: &[u64]) -> Option<u64> {
    let place = Some(namer.leaf(frames)).filter(|place| *place != 0)?;
    if !namer.symbol(place).starts_with("irqentry_exit_to_user_mode") {
        return Some(place);
    }
    frames.iter().copied().find(|frame| namer.symbol(*frame).starts_with("asm_exc_"))
}

/// Hands on `span`. A thread that was throttled waits for its quota until the last timer that refills quotas has run before
/// it comes back, and then for its CPU as any other does: one refill need not be enough. Where no such timer was recorded,
/// the whole wait is the quota's.
pub(crate) fn behind_quota(namer: &Namer<'_>, span: Span, take: &mut impl FnMut(Span)) {
    let throttled = span.absence.reason == OffCpu::Throttled;
    let refilled_ns =
        if throttled { namer.quota_refilled(span.absence.left_ns, span.until_ns) } else { None };
    let until_ns = refilled_ns.unwrap_or(span.end_ns).clamp(span.start_ns, span.end_ns);
    if !throttled || until_ns == span.end_ns {
        return take(span);
    }
    if span.start_ns < until_ns {
        take(Span { end_ns: until_ns, ..span });
    }
    let absence = Absence { reason: OffCpu::Preempted, ..span.absence };
    take(Span { start_ns: until_ns, since_ns: until_ns, absence, ..span });
}

/// What would have become of the wait without the move: hands on `span`, and of a thread that was preempted and then
/// moved, the part in which its preemptor's run went on as a wait for that run on the CPU that it left. The
/// preemptor cost that time, moved or not; who holds the new CPU meanwhile does not matter. From the end of that run
/// on the thread would have had its own CPU back, and the wait is the move's. A stopper's run *is* the move.
pub(crate) fn behind_its_preemptor(namer: &Namer<'_>, span: Span, take: &mut impl FnMut(Span)) {
    let quota = span.absence.reason == OffCpu::Throttled;
    let taken = span.state == ActorState::Preempted && !quota && span.away && span.taken_by != 0;
    let until_ns = span
        .left
        .filter(|_| taken && !is_stopper(namer, span.taken_by))
        .and_then(|left| namer.timeline.thread_at(left, span.since_ns))
        .filter(|run| run.id == span.taken_by)
        .map_or(span.start_ns, |run| end_of(run).clamp(span.start_ns, span.end_ns));
    if span.start_ns < until_ns {
        take(Span { end_ns: until_ns, cpu: span.left, away: false, ..span });
    }
    if until_ns < span.end_ns {
        take(Span { start_ns: until_ns, ..span });
    }
}

/// Whether the CPU that a thread waits for idled at some time of the wait.
fn idled(namer: &Namer<'_>, span: &Span) -> bool {
    let Some(cpu) = span.cpu else { return false };
    let mut holders = namer.timeline.segments(cpu, Level::Thread, span.since_ns, span.until_ns);
    holders.any(|segment| namer.timeline.events[segment.event as usize].id == 0)
}

/// Whether the CPU that a woken thread waits for went into an idle state while the thread stood in its queue. Where no idle
/// state is recorded, it may have.
fn idles_on(namer: &Namer<'_>, span: &Span) -> bool {
    let Some(cpu) = span.cpu else { return true };
    let mut states = namer.timeline.idle_states(cpu, span.since_ns, span.until_ns).peekable();
    let start_ns = |state: Segment| start_of(&namer.timeline.events[state.event as usize]);
    states.peek().is_none() || states.any(|state| start_ns(state) >= span.runnable_ns())
}

fn is_stopper(namer: &Namer<'_>, thread: u32) -> bool {
    namer.names.task.get(&thread).is_some_and(|comm| comm.starts_with("migration/"))
}

/// A reschedule interrupt is how a wake-up or a move reaches the CPU: it is part of that wait, no cause apart. So is a
/// softirq on a CPU where a runnable thread waits because it was moved: it delays who runs there, not who waits behind
/// that one.
pub(crate) fn part_of_wait(span: &Span, event: &EventRecord, wake_up: CauseKey) -> Option<CauseKey> {
    let reschedule = event.kind == EventKind::Vector as u8 && event.id == Vector::Reschedule as u32;
    match span.state {
        ActorState::Woken if reschedule => Some(wake_up),
        ActorState::Preempted if reschedule && span.moved => Some(MOVED),
        ActorState::Preempted if span.away && event.kind == EventKind::Softirq as u8 => Some(MOVED),
        _ => None,
    }
}
