//! What a followed thread (receiver, source, noise loop) did: ran, waited for a CPU, or slept.

use super::causes::Class;
use super::timeline::{end_of, sort_by_start, start_of};
use quaver_abi::record::{EventKind, EventRecord, OffCpu, Sleep, WakeContext, Wakeup};

/// State of a followed thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActorState {
    /// On a CPU.
    Running,
    /// Runnable and off the CPU since it was preempted, throttled or yielded.
    Preempted,
    /// Runnable and off the CPU since it was woken.
    Woken,
    /// Asleep: what others do meanwhile does not delay it.
    Asleep,
    /// Nothing is recorded about it.
    Unknown,
}

/// A stretch of time in one state on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start_ns: i64,
    pub(crate) end_ns: i64,
    /// CPU that it ran on or waits for; none where nothing is recorded.
    pub(crate) cpu: Option<u16>,
    pub(crate) state: ActorState,
    /// It changed CPU between leaving the one and running on the other.
    pub(crate) moved: bool,
    /// It waits for another CPU than the one that it left.
    pub(crate) away: bool,
    /// CPU that it left; none where it runs or nothing is recorded.
    pub(crate) left: Option<u16>,
    /// When the wait began (the wake-up or the preemption).
    pub(crate) since_ns: i64,
    /// When the wake-up reached a CPU, so that the thread stood in its queue; none where that is not recorded.
    pub(crate) queued_ns: Option<i64>,
    /// When it ran again, or the end of the question.
    pub(crate) until_ns: i64,
    /// Thread that took its CPU when it left (0: idle, or not known).
    pub(crate) taken_by: u32,
    /// Its scheduling class when it left; none where it runs or nothing is recorded.
    pub(crate) class: Option<Class>,
    /// Why it is off the CPU.
    pub(crate) absence: Absence,
}

/// Why a thread left its CPU, what it slept at and what woke it, as far as that is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Absence {
    pub(crate) reason: OffCpu,
    /// When it left.
    pub(crate) left_ns: i64,
    /// Number of its [`EventKind::Sleep`].
    pub(crate) sleep: Option<u32>,
    /// Number of the first [`EventKind::Wakeup`] since.
    pub(crate) wake: Option<u32>,
}

impl Span {
    /// Since when it could run, had its CPU been free: a wake-up takes its time to reach another CPU.
    pub(crate) fn runnable_ns(&self) -> i64 {
        self.queued_ns.unwrap_or(self.since_ns)
    }

    /// A stretch of which nothing is recorded.
    pub(crate) fn unknown(start_ns: i64, end_ns: i64) -> Self {
        let state = ActorState::Unknown;
        Self {
            start_ns,
            end_ns,
            cpu: None,
            state,
            moved: false,
            away: false,
            left: None,
            since_ns: start_ns,
            queued_ns: None,
            until_ns: end_ns,
            taken_by: 0,
            class: None,
            absence: Absence::default(),
        }
    }
}

/// `detail` of the [`EventKind::Wakeup`] of a thread that stands in the queue of a CPU from then on.
const QUEUED: u8 = 0;
/// `detail` of the [`EventKind::Wakeup`] of a thread that was made then.
const MADE: u8 = 2;

/// The recorded life of one thread.
pub(crate) struct Life<'a> {
    events: &'a [EventRecord],
    /// Stretches in which events were lost: what it did since then is known again from its next run on.
    holes: &'a [(i64, i64)],
    pub(crate) thread: u32,
    runs: Vec<u32>,
    wakes: Vec<u32>,
    sleeps: Vec<u32>,
    moves: Vec<u32>,
    faults: Vec<u32>,
    /// Runs of hidden threads that ended when it came, see [`hidden_before`].
    hidden: Vec<u32>,
}

/// The thread that came when a hidden one left its CPU. A kernel can hide threads from every trace point: what is known of
/// their runs is who followed, and neither why they left nor what else they and their interrupts did. None for any other run.
pub(crate) fn hidden_before(run: &EventRecord) -> Option<u32> {
    let next = (run.aux >> 32) as u32;
    (run.kind == EventKind::Thread as u8 && run.detail == OffCpu::Unknown as u8 && run.id != 0 && next != 0)
        .then_some(next)
}

/// The lives of several threads, in the order of `threads`.
pub(crate) fn lives<'a>(events: &'a [EventRecord], threads: &[u32]) -> Vec<Life<'a>> {
    let mut lives: Vec<Life<'a>> = threads
        .iter()
        .map(|&thread| Life {
            events,
            holes: &[],
            thread,
            runs: Vec::new(),
            wakes: Vec::new(),
            sleeps: Vec::new(),
            moves: Vec::new(),
            faults: Vec::new(),
            hidden: Vec::new(),
        })
        .collect();
    if lives.is_empty() {
        return lives;
    }
    let mut by_thread: Vec<(u32, usize)> = threads.iter().copied().zip(0..).collect();
    by_thread.sort_unstable();
    for (index, event) in events.iter().enumerate().take(u32::MAX as usize) {
        let followed = hidden_before(event);
        if let Some(at) = followed.and_then(|next| by_thread.binary_search_by_key(&next, |&(id, _)| id).ok())
        {
            lives[by_thread[at].1].hidden.push(index as u32);
        }
        let kind = match EventKind::from_repr(event.kind) {
            Some(EventKind::Thread) if event.end_ns > event.start_ns => EventKind::Thread,
            Some(
                kind @ (EventKind::Wakeup | EventKind::Sleep | EventKind::Migrate | EventKind::PageFault),
            ) => kind,
            _ => continue,
        };
        let Ok(at) = by_thread.binary_search_by_key(&event.id, |&(thread, _)| thread) else { continue };
        let life = &mut lives[by_thread[at].1];
        let list = match kind {
            EventKind::Thread => &mut life.runs,
            EventKind::Wakeup => &mut life.wakes,
            EventKind::Sleep => &mut life.sleeps,
            EventKind::Migrate => &mut life.moves,
            _ => &mut life.faults,
        };
        list.push(index as u32);
    }
    for life in &mut lives {
        for list in [
            &mut life.runs,
            &mut life.wakes,
            &mut life.sleeps,
            &mut life.moves,
            &mut life.faults,
            &mut life.hidden,
        ] {
            sort_by_start(events, list);
        }
    }
    lives
}

impl<'a> Life<'a> {
    /// The same, known to have holes.
    pub(crate) fn with_holes(self, holes: &'a [(i64, i64)]) -> Self {
        Self { holes, ..self }
    }

    /// Whether records of it may be lost: who else ran while its state is unknown then proves nothing.
    pub(crate) fn has_holes(&self) -> bool {
        !self.holes.is_empty()
    }

    fn event(&self, index: u32) -> &EventRecord {
        &self.events[index as usize]
    }

    /// Instants of its page faults that are at or after `from`.
    pub(crate) fn faults_from(&self, from: i64) -> impl Iterator<Item = i64> + '_ {
        let first = self.faults.partition_point(|&index| start_of(self.event(index)) < from);
        self.faults[first..].iter().map(|&index| start_of(self.event(index)))
    }

    /// Instants at which it came back from a sleep in a page fault.
    pub(crate) fn back_in_fault(&self) -> impl Iterator<Item = i64> + '_ {
        let runs = if self.faults.is_empty() { &[][..] } else { &self.runs[..] };
        runs.windows(2)
            .map(|pair| [self.event(pair[0]), self.event(pair[1])])
            .filter_map(|[run, next]| self.asleep_in_fault_since(end_of(run)).map(|_| start_of(next)))
    }

    /// When it left its CPU first after an instant at which it ran. None where no run of it is recorded there.
    pub(crate) fn left_after(&self, instant_ns: i64) -> Option<i64> {
        let at = self.runs.partition_point(|&index| end_of(self.event(index)) <= instant_ns);
        let run = self.runs.get(at).map(|&index| self.event(index))?;
        (start_of(run) <= instant_ns).then(|| end_of(run))
    }

    /// Whether it ran on `cpu` at an instant (both ends of a run count).
    pub(crate) fn ran_on(&self, cpu: u16, instant_ns: i64) -> bool {
        let after = self.runs.partition_point(|&index| start_of(self.event(index)) <= instant_ns);
        after > 0 && {
            let run = self.event(self.runs[after - 1]);
            run.cpu == cpu && instant_ns <= end_of(run)
        }
    }

    /// The record of the sleep that began at an instant.
    fn sleep_at(&self, instant_ns: i64) -> Option<u32> {
        let at = self.sleeps.partition_point(|&index| start_of(self.event(index)) < instant_ns);
        self.sleeps.get(at).copied().filter(|&index| start_of(self.event(index)) == instant_ns)
    }

    /// When it began, if its first record is that it runs although nobody had woken it.
    pub(crate) fn born_ns(&self) -> Option<i64> {
        let first_ns = start_of(self.event(*self.runs.first()?));
        let woken = self.wakes.first().is_some_and(|&index| start_of(self.event(index)) <= first_ns);
        (!woken).then_some(first_ns)
    }

    /// Since when it was in the page fault in which it goes to sleep at an instant: since its last fault, or since it came back from
    /// a sleep in the same one.
    pub(crate) fn asleep_in_fault_since(&self, instant_ns: i64) -> Option<i64> {
        let in_fault = |at: i64| {
            let sleep = self.sleep_at(at).map(|index| self.event(index));
            sleep.is_some_and(|sleep| Sleep::from_aux(sleep.aux).call.is_none())
        };
        let at = self.runs.partition_point(|&index| end_of(self.event(index)) < instant_ns);
        let run = self.runs.get(at).map(|&index| self.event(index)).filter(|_| in_fault(instant_ns))?;
        let faults = self.faults.partition_point(|&index| start_of(self.event(index)) <= instant_ns);
        let fault_ns = faults.checked_sub(1).map(|last| start_of(self.event(self.faults[last])))?;
        let goes_on = || at > 0 && in_fault(end_of(self.event(self.runs[at - 1])));
        (fault_ns >= start_of(run)).then_some(fault_ns).or_else(|| goes_on().then_some(start_of(run)))
    }

    /// Whether a timer woke it during an interrupt or softirq.
    pub(crate) fn timer_woke_it_in(&self, event: &EventRecord) -> bool {
        self.wakes_in(event).any(|wake| Wakeup::from_aux(wake.aux).context == WakeContext::Timer)
    }

    /// Whether its wake-ups are recorded.
    pub(crate) const fn has_wake_ups(&self) -> bool {
        !self.wakes.is_empty()
    }

    /// Whether its wake-up by another CPU reached this one in an interrupt.
    pub(crate) fn was_queued_in(&self, event: &EventRecord) -> bool {
        self.wakes_in(event).any(|wake| wake.detail == QUEUED)
    }

    fn wakes_in(&self, event: &EventRecord) -> impl Iterator<Item = &EventRecord> {
        let (cpu, end_ns) = (event.cpu, end_of(event));
        let first = self.wakes.partition_point(|&index| start_of(self.event(index)) < start_of(event));
        let wakes = self.wakes[first..].iter().map(|&index| self.event(index));
        wakes.take_while(move |wake| start_of(wake) <= end_ns).filter(move |wake| wake.cpu == cpu)
    }

    /// Its sleeps that began after an instant, each with the first wake-up since.
    pub(crate) fn sleeps_after(
        &self,
        instant_ns: i64,
    ) -> impl Iterator<Item = (&EventRecord, Option<&EventRecord>)> + '_ {
        let first = self.sleeps.partition_point(|&index| start_of(self.event(index)) <= instant_ns);
        self.sleeps[first..].iter().map(|&index| {
            let sleep = self.event(index);
            let woken = self.wakes.partition_point(|&wake| start_of(self.event(wake)) < start_of(sleep));
            (sleep, self.wakes.get(woken).map(|&wake| self.event(wake)))
        })
    }

    /// The earliest that it can have been woken where its wake-up was not seen, since a hidden thread had the CPU on which it
    /// came back at `back_ns`. It left its own at `left_ns`.
    fn woken_unseen(&self, left_ns: i64, back_ns: i64) -> Option<i64> {
        let after = self.hidden.partition_point(|&index| end_of(self.event(index)) < back_ns);
        let held =
            self.hidden.get(after).map(|&index| self.event(index)).filter(|run| end_of(run) == back_ns)?;
        Some(start_of(held).max(left_ns))
    }

    /// Cuts `from..to` by state, without gaps, and hands each stretch to `take`.
    pub(crate) fn spans(&self, from: i64, to: i64, mut take: impl FnMut(Span)) {
        let mut next = self.runs.partition_point(|&index| end_of(self.event(index)) <= from);
        // Recorded runs of one thread do not overlap; should they, each begins where the one before ended.
        let mut cursor = from;
        while cursor < to {
            let run = self.runs.get(next).map(|&index| *self.event(index));
            let run_start = run.as_ref().map_or(i64::MAX, start_of);
            if cursor < run_start {
                let before = next.checked_sub(1).map(|previous| *self.event(self.runs[previous]));
                let until = run_start.min(to);
                self.off(before, run, cursor, until, &mut take);
                cursor = until;
            }
            let Some(run) = run else { break };
            let end_ns = end_of(&run).min(to);
            if cursor < end_ns {
                let span = Span {
                    start_ns: cursor,
                    end_ns,
                    cpu: Some(run.cpu),
                    state: ActorState::Running,
                    moved: false,
                    away: false,
                    left: None,
                    since_ns: start_of(&run),
                    queued_ns: None,
                    until_ns: end_ns,
                    taken_by: 0,
                    class: None,
                    absence: Absence::default(),
                };
                take(span);
                cursor = end_ns;
            }
            next += 1;
        }
    }

    /// The time before its first run that is recorded. It waits for a CPU from when it was made; a thread that was there
    /// before may run while it is woken.
    fn unseen(&self, after: Option<EventRecord>, from: i64, to: i64, take: &mut impl FnMut(Span)) {
        let unknown = |from, to| Span { cpu: after.map(|run| run.cpu), ..Span::unknown(from, to) };
        let made = |index: &u32| self.event(*index).detail == MADE && after.is_some();
        let first = self.wakes.first().copied().filter(made);
        let woken_ns = first.map_or(to, |index| start_of(self.event(index))).clamp(from, to);
        if from < woken_ns {
            take(unknown(from, woken_ns));
        }
        if woken_ns < to {
            let absence = Absence { wake: first, ..Absence::default() };
            take(Span { state: ActorState::Woken, absence, ..unknown(woken_ns, to) });
        }
    }

    /// The time off the CPU between two runs, `from..to` of it.
    fn off(
        &self,
        before: Option<EventRecord>,
        after: Option<EventRecord>,
        from: i64,
        to: i64,
        take: &mut impl FnMut(Span),
    ) {
        let Some(before) = before else { return self.unseen(after, from, to, take) };
        let (left, back) = (end_of(&before), after.as_ref().map_or(i64::MAX, start_of));
        let hole = self.holes.iter().find(|&&(start, end)| start < back && end > left);
        let (to, unknown_to) = (hole.map_or(to, |&(start, _)| start.clamp(from, to)), to);
        let in_between = |list: &[u32]| {
            let first = list.partition_point(|&index| start_of(self.event(index)) < left);
            let last = list.partition_point(|&index| start_of(self.event(index)) <= back);
            first..last.max(first)
        };
        let wakes = in_between(&self.wakes);
        let moves = &self.moves[in_between(&self.moves)];
        let wakes = &self.wakes[wakes];
        let woken_by = wakes.first().copied();
        let wake =
            woken_by.map(|index| start_of(self.event(index))).or_else(|| self.woken_unseen(left, back));
        let moved = after.is_some_and(|run| run.cpu != before.cpu) || !moves.is_empty();
        let mut cpu = if moves.is_empty() { after.map_or(before.cpu, |run| run.cpu) } else { before.cpu };
        let reason = OffCpu::from_raw(before.detail);
        let state_at = |instant: i64| match reason {
            reason if reason.could_go_on() => (ActorState::Preempted, left),
            _ => match wake {
                Some(wake) if instant >= wake => (ActorState::Woken, wake),
                _ if reason.waits() => (ActorState::Asleep, left),
                _ => (ActorState::Unknown, left),
            },
        };
        let queued = wakes.iter().map(|&index| self.event(index)).find(|wake| wake.detail == QUEUED);
        let queued_ns = queued.map(start_of).filter(|_| !reason.could_go_on());
        let absence = Absence { reason, left_ns: left, sleep: self.sleep_at(left), wake: woken_by };
        let mut moves = moves.iter().map(|&index| self.event(index)).peekable();
        let mut cursor = from;
        while cursor < to {
            while let Some(step) = moves.next_if(|step| start_of(step) <= cursor) {
                cpu = (step.aux & 0xffff) as u16;
            }
            let mut end_ns = moves.peek().map_or(to, |step| start_of(step).min(to));
            for step_ns in [wake, queued_ns].into_iter().flatten().filter(|&step_ns| step_ns > cursor) {
                end_ns = end_ns.min(step_ns);
            }
            let (state, since_ns) = state_at(cursor);
            let taken_by = (before.aux >> 32) as u32;
            let class = Some(Class::of(before.aux));
            let until_ns = if back == i64::MAX { to } else { back };
            take(Span {
                start_ns: cursor,
                end_ns,
                cpu: Some(cpu),
                state,
                moved,
                away: cpu != before.cpu,
                left: Some(before.cpu),
                since_ns,
                queued_ns,
                until_ns,
                taken_by,
                class,
                absence,
            });
            cursor = end_ns;
        }
        if to < unknown_to {
            take(Span::unknown(to, unknown_to));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u64, end: u64, cpu: u16, reason: OffCpu) -> EventRecord {
        EventRecord {
            start_ns: start,
            end_ns: end,
            id: 7,
            cpu,
            kind: EventKind::Thread as u8,
            detail: reason as u8,
            aux: 120,
        }
    }

    fn point(kind: EventKind, at: u64, aux: u64) -> EventRecord {
        EventRecord { start_ns: at, end_ns: at, id: 7, aux, kind: kind as u8, ..EventRecord::default() }
    }

    fn states(events: &[EventRecord], from: i64, to: i64) -> Vec<(i64, i64, Option<u16>, ActorState, bool)> {
        let mut out = Vec::new();
        lives(events, &[7])[0].spans(from, to, |s| out.push((s.start_ns, s.end_ns, s.cpu, s.state, s.moved)));
        out
    }

    #[test]
    fn sleep_is_told_from_waiting() {
        let events = [
            run(10, 20, 1, OffCpu::Blocked),
            point(EventKind::Wakeup, 50, 1),
            run(55, 60, 1, OffCpu::Preempted),
        ];
        assert_eq!(
            states(&events, 0, 100),
            [
                (0, 10, Some(1), ActorState::Unknown, false),
                (10, 20, Some(1), ActorState::Running, false),
                (20, 50, Some(1), ActorState::Asleep, false),
                (50, 55, Some(1), ActorState::Woken, false),
                (55, 60, Some(1), ActorState::Running, false),
                (60, 100, Some(1), ActorState::Preempted, false),
            ]
        );
    }

    #[test]
    fn a_thread_that_is_made_waits_for_a_cpu_from_then_on() {
        let made = EventRecord { detail: MADE, ..point(EventKind::Wakeup, 30, 1) };
        let events = [made, run(55, 60, 1, OffCpu::Exited)];
        let (unknown, woken) = (ActorState::Unknown, ActorState::Woken);
        assert_eq!(
            states(&events, 0, 55),
            [(0, 30, Some(1), unknown, false), (30, 55, Some(1), woken, false)]
        );
        assert_eq!(states(&events, 40, 50), [(40, 50, Some(1), woken, false)]);
        assert_eq!(states(&events[..1], 0, 55), [(0, 55, None, unknown, false)], "it never ran here");
        let woken_only = [EventRecord { detail: 0, ..made }, events[1]];
        assert_eq!(states(&woken_only, 0, 55), [(0, 55, Some(1), unknown, false)], "it may have run");
    }

    #[test]
    fn behind_a_hidden_thread_it_may_be_awake_from_that_ones_start() {
        let hidden = |start, end, next: u64| EventRecord {
            id: 9,
            aux: next << 32 | 120,
            ..run(start, end, 1, OffCpu::Unknown)
        };
        let lives_with = |other: EventRecord| {
            states(&[run(10, 20, 1, OffCpu::Blocked), other, run(55, 60, 1, OffCpu::Preempted)], 20, 55)
        };
        let (asleep, woken) = (ActorState::Asleep, ActorState::Woken);
        let expected = [(20, 30, Some(1), asleep, false), (30, 55, Some(1), woken, false)];
        assert_eq!(lives_with(hidden(30, 55, 7)), expected);
        assert_eq!(lives_with(hidden(15, 55, 7)), [(20, 55, Some(1), woken, false)]);
        assert_eq!(lives_with(hidden(30, 54, 7)), [(20, 55, Some(1), asleep, false)], "it came later");
        assert_eq!(lives_with(hidden(30, 55, 8)), [(20, 55, Some(1), asleep, false)], "another came");
        let seen = EventRecord { detail: OffCpu::Preempted as u8, ..hidden(30, 55, 7) };
        assert_eq!(
            lives_with(seen),
            [(20, 55, Some(1), asleep, false)],
            "its switch was seen, so a wake-up would be"
        );
    }

    #[test]
    fn a_move_changes_the_cpu_that_is_waited_for() {
        let events = [
            run(10, 20, 1, OffCpu::Preempted),
            point(EventKind::Migrate, 26, 1 << 32),
            run(40, 60, 0, OffCpu::Unknown),
        ];
        assert_eq!(
            states(&events, 15, 50),
            [
                (15, 20, Some(1), ActorState::Running, false),
                (20, 26, Some(1), ActorState::Preempted, true),
                (26, 40, Some(0), ActorState::Preempted, true),
                (40, 50, Some(0), ActorState::Running, false),
            ]
        );
        assert_eq!(states(&events, 30, 35), [(30, 35, Some(0), ActorState::Preempted, true)]);
    }

    #[test]
    fn nothing_recorded_is_unknown() {
        assert_eq!(states(&[], 5, 9), [(5, 9, None, ActorState::Unknown, false)]);
    }
}
