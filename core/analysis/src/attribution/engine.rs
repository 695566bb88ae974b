//! Cuts a late window into pieces: the innermost recorded interval has the time, and what is left is
//! unexplained. Pieces cover their window exactly, by construction.

use super::actor::{ActorState, Life, Span};
use super::asleep::{Question, Sleepers};
use super::causes::{CauseKey, CauseTable, SOURCE_LATE};
use super::faults::Faults;
use super::naming::Namer;
use super::timeline::{Level, Segment, start_of};
use super::waiting::{self, Facts};
use super::{Certainty, PacketPosition, Part};
use crate::model::{Actor, Circumstances};
use quaver_abi::record::{EventRecord, OffCpu};

/// A piece while its window is being worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draft {
    pub(crate) start_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) cause: Option<u32>,
    pub(crate) part: Part,
    pub(crate) place: PacketPosition,
    pub(crate) cpu: u16,
    /// Event that had the time, `u32::MAX` for none.
    pub(crate) event: u32,
    /// Trace points bound it, so untraced entry and exit code may lie beside it.
    pub(crate) edges: bool,
    /// Window time minus the time of its events.
    pub(crate) shift_ns: i64,
    /// The hypervisor had this time, see [`super::steal`].
    pub(crate) taken: bool,
    /// No record or sample shows the cause itself.
    pub(crate) inferred: bool,
    /// Page faults of an ordinary reading: their cause, which has the time back if nobody pushed the reading behind itself.
    pub(crate) lent: Option<u32>,
}

impl Draft {
    /// How it is known.
    pub(crate) const fn certainty(&self) -> Certainty {
        match (self.cause, self.part) {
            (None, _) | (_, Part::Unexplained) => Certainty::Unknown,
            (_, Part::EntryExit | Part::CatchUp) => Certainty::Inferred,
            (_, Part::Body) if self.inferred => Certainty::Inferred,
            (_, Part::Body) => Certainty::Certain,
        }
    }
}

/// What a part of a window asks.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    /// In window time.
    pub(crate) from_ns: i64,
    pub(crate) to_ns: i64,
    /// Window time minus the time of the events that count for it.
    pub(crate) shift_ns: i64,
    /// CPU where the state of the thread tells none.
    pub(crate) cpu: u16,
}

/// Everything that cutting needs.
pub(crate) struct Engine<'a> {
    pub(crate) namer: &'a Namer<'a>,
    pub(crate) circumstances: &'a Circumstances,
    pub(crate) causes: CauseTable,
    faults: &'a Faults,
    sleepers: Sleepers<'a>,
    /// Pieces of the window at hand.
    pub(crate) drafts: Vec<Draft>,
}

/// Who may hold the CPU against whom, at the level of threads.
#[derive(Clone, Copy)]
enum Threads<'b> {
    /// This thread runs: only its own page faults.
    Runs(&'b Life<'b>),
    /// This thread waits, or nothing is known about it: then it may have run where no other did.
    Waits(Facts<'b>, Span, Option<&'b Life<'b>>),
    /// Threads do not matter.
    Ignored,
}

#[derive(Clone, Copy)]
struct Cut<'b> {
    cpu: u16,
    shift_ns: i64,
    place: PacketPosition,
    threads: Threads<'b>,
    span: Option<Span>,
    /// What the span's wake-up belongs to.
    wake_up: CauseKey,
    /// The receiver, where its own timers may interrupt.
    sleeper: Option<&'b Life<'b>>,
    /// What has the time that no event has.
    rest: Option<CauseKey>,
}

/// Whether a packet lies in the receiver's socket during its part of the packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// Not that anybody knows.
    No,
    /// It does; since when is not known.
    Yes,
    /// Since this instant.
    Since(i64),
    /// Since this instant, and the call that took it took others as well.
    Batched(i64),
}

/// From a packet's entry into the queue to the wake-up of who waits for it, at most.
const RACE_NS: i64 = 5_000;
pub(super) const FAULTS: CauseKey = CauseKey::plain("faults", "page faults of the receiver");
const OWN_TIMER: CauseKey = CauseKey::plain("own-sleep", "timer that ends a sleep of the receiver");
const NOT_READING: CauseKey = CauseKey::plain("own-sleep", "receiver slept while packets were in its socket");

const WAITS_FOR_MORE: CauseKey =
    CauseKey::plain("own-sleep", "receive call waits for more packets (recvmmsg without MSG_WAITFORONE)");

/// A packet that enters a socket wakes who sleeps for it within this time.
const PROMPT_NS: i64 = 50_000;

/// Whether a packet that entered the socket at `at` did not end a sleep of a thread whose wake-ups are recorded.
fn sleeps_on(life: &Life<'_>, span: &Span, at: i64) -> bool {
    let unseen = span.state == ActorState::Asleep && span.absence.wake.is_none();
    unseen && life.has_wake_ups() && span.end_ns.saturating_sub(at) > PROMPT_NS
}

const LEVELS: [Level; 3] = [Level::Nmi, Level::Interrupt, Level::Softirq];

impl<'a> Engine<'a> {
    pub(crate) fn new(namer: &'a Namer<'a>, circumstances: &'a Circumstances, faults: &'a Faults) -> Self {
        Self {
            namer,
            circumstances,
            causes: CauseTable::default(),
            faults,
            sleepers: Sleepers::new(namer.timeline.events, &circumstances.holes),
            drafts: Vec::new(),
        }
    }

    /// The receiver's part. While a packet lies in its socket, its sleep is a wake-up that has not happened yet. A poll that
    /// began later did not ask for that packet: it would have ended at once. Nor did one that sleeps on without a wake-up, where
    /// those of the thread are recorded. A receive call that takes several packets and sleeps behind one waits for the rest.
    pub(crate) fn receiver(&mut self, ask: Ask, actor: &Actor, life: Option<&Life<'_>>, queued: Queued) {
        let thread = life.map(|life| life.thread);
        each_span(self.namer, ask, life, |mut span| {
            if span.state == ActorState::Unknown && life.is_some_and(Life::has_holes) {
                return self.unknown(Ask { from_ns: span.start_ns, to_ns: span.end_ns, ..ask });
            }
            let until_ns = ask.to_ns - ask.shift_ns;
            let question = Question { namer: self.namer, sleepers: &self.sleepers };
            let mut reason = question.reason(&span.absence, until_ns);
            let left_ns = span.absence.left_ns;
            let slept_behind = |at: i64| left_ns.saturating_sub(at) > RACE_NS;
            reason = reason.or(match (span.absence.reason, queued) {
                (OffCpu::Polling, Queued::Since(at) | Queued::Batched(at))
                    if slept_behind(at) || life.is_some_and(|life| sleeps_on(life, &span, at)) =>
                {
                    Some(NOT_READING)
                }
                // It has the packet, and does not return.
                (OffCpu::Receiving, Queued::Batched(at)) if slept_behind(at) => Some(WAITS_FOR_MORE),
                _ => None,
            }
            .filter(|_| actor.foreign));
            if let (ActorState::Asleep, Some(reason)) = (span.state, reason) {
                return self.asleep(&span, reason, ask.cpu);
            }
            let wake_up = reason.unwrap_or(waiting::WAKE_UP);
            let facts = Facts { is_receiver: true, wake_up, ..self.facts(actor, thread) };
            let asleep = span.state == ActorState::Asleep && queued != Queued::No && actor.blocking;
            // A sink of ours sleeps for nothing else.
            if asleep && (!actor.foreign || self.for_packets(&span)) {
                (span.state, span.since_ns) = (ActorState::Woken, span.start_ns);
            }
            let threads = match (span.state, life) {
                (ActorState::Running, Some(life)) => Threads::Runs(life),
                (ActorState::Asleep, _) => Threads::Ignored,
                _ => Threads::Waits(facts, span, life.filter(|_| span.state == ActorState::Unknown)),
            };
            let cpu = span_cpu(&span, ask.cpu);
            let cut = Cut {
                cpu,
                shift_ns: ask.shift_ns,
                place: PacketPosition::Receiver,
                threads,
                span: Some(span),
                wake_up,
                sleeper: life,
                rest: None,
            };
            self.levels(0, span.start_ns, span.end_ns, cut);
        });
    }

    /// A part of the receiver's time of which nothing is recorded.
    pub(crate) fn unknown(&mut self, ask: Ask) {
        let cut = Cut {
            cpu: ask.cpu,
            shift_ns: ask.shift_ns,
            place: PacketPosition::Receiver,
            threads: Threads::Ignored,
            span: None,
            wake_up: waiting::WAKE_UP,
            sleeper: None,
            rest: None,
        };
        self.rest(ask.from_ns, ask.to_ns, cut);
    }

    /// Whether a sleep, of which no reason is recorded, was for packets: then a packet in the socket ends it at once.
    fn for_packets(&self, span: &Span) -> bool {
        let known = matches!(span.absence.reason, OffCpu::Receiving | OffCpu::Polling);
        let wake = span.absence.wake.map(|index| start_of(&self.namer.timeline.events[index as usize]));
        known || wake.is_none_or(|wake_ns| wake_ns - span.start_ns <= PROMPT_NS)
    }

    /// A sleep of the receiver that was not for the stream's packets. What interrupts its CPU meanwhile delays nobody.
    fn asleep(&mut self, span: &Span, reason: CauseKey, cpu: u16) {
        let mut pieces = Vec::new();
        Question { namer: self.namer, sleepers: &self.sleepers }
            .cut(span, reason, &mut |from, to, key| pieces.push((from, to, key)));
        let cut = Cut {
            cpu: span_cpu(span, cpu),
            shift_ns: 0,
            place: PacketPosition::Receiver,
            threads: Threads::Ignored,
            span: None,
            wake_up: reason,
            sleeper: None,
            rest: None,
        };
        for (start_ns, end_ns, key) in pieces {
            self.push(Segment { start_ns, end_ns, event: u32::MAX }, Some(key), true, cut);
        }
    }

    /// The network stack's part. Threads matter only where the stack runs in the source's send call and the
    /// source waits for its CPU. `rest` has the time that no event has.
    pub(crate) fn stack(&mut self, ask: Ask, source: Option<(&Actor, &Life<'_>)>, rest: Option<CauseKey>) {
        let life = source.map(|(_, life)| life);
        let facts = source.map(|(actor, life)| self.source_facts(actor, Some(life)));
        each_span(self.namer, ask, life, |span| {
            let threads = match facts {
                Some(facts) if waits(&span) && span.cpu == Some(ask.cpu) => Threads::Waits(facts, span, None),
                _ => Threads::Ignored,
            };
            let cut = Cut {
                cpu: ask.cpu,
                shift_ns: ask.shift_ns,
                place: PacketPosition::Stack,
                threads,
                span: None,
                wake_up: waiting::WAKE_UP,
                sleeper: None,
                rest,
            };
            self.levels(0, span.start_ns, span.end_ns, cut);
        });
    }

    /// The source's part: it was late, and an event on its CPU may say why.
    pub(crate) fn source(&mut self, ask: Ask, source: Option<(&Actor, Option<&Life<'_>>)>) {
        let life = source.and_then(|(_, life)| life);
        let facts = source.map(|(actor, life)| self.source_facts(actor, life));
        each_span(self.namer, ask, life, |span| {
            let threads = match facts {
                Some(facts) if waits(&span) => Threads::Waits(facts, span, None),
                _ => Threads::Ignored,
            };
            let cut = Cut {
                cpu: span_cpu(&span, ask.cpu),
                shift_ns: ask.shift_ns,
                place: PacketPosition::Source,
                threads,
                span: None,
                wake_up: waiting::WAKE_UP,
                sleeper: None,
                rest: Some(CauseKey { behind_source: true, ..CauseKey::plain("source-late", SOURCE_LATE) }),
            };
            self.levels(0, span.start_ns, span.end_ns, cut);
        });
    }

    fn source_facts<'b>(&self, actor: &'b Actor, life: Option<&Life<'_>>) -> Facts<'b>
    where
        'a: 'b,
    {
        self.facts(actor, life.map(|life| life.thread))
    }

    fn facts<'b>(&self, actor: &'b Actor, thread: Option<u32>) -> Facts<'b>
    where
        'a: 'b,
    {
        Facts {
            actor,
            thread,
            circumstances: self.circumstances,
            is_receiver: false,
            wake_up: waiting::WAKE_UP,
        }
    }

    fn levels(&mut self, depth: usize, from: i64, to: i64, cut: Cut<'_>) {
        if from >= to {
            return;
        }
        let Some(&level) = LEVELS.get(depth) else { return self.threads(from, to, cut) };
        let namer = self.namer;
        let mut cursor = from;
        for segment in namer.timeline.segments(cut.cpu, level, from, to) {
            self.levels(depth + 1, cursor, segment.start_ns, cut);
            let event = &namer.timeline.events[segment.event as usize];
            let wait = cut.span.and_then(|span| waiting::part_of_wait(&span, event, cut.wake_up));
            let key = wait.unwrap_or_else(|| self.interruption(event, cut));
            self.push(segment, Some(key), true, cut);
            cursor = segment.end_ns;
        }
        self.levels(depth + 1, cursor, to, cut);
    }

    /// Cause of an interrupt, softirq or NMI. A timer that wakes the receiver is what it set to end a sleep of its own, and a
    /// call of another CPU that wakes it is that wake-up.
    fn interruption(&self, event: &EventRecord, cut: Cut<'_>) -> CauseKey {
        let key = self.namer.interruption(event);
        if key.id == "ipi-call" && cut.sleeper.is_some_and(|life| life.was_queued_in(event)) {
            return cut.wake_up;
        }
        let own = key.id == "timers" && cut.sleeper.is_some_and(|life| life.timer_woke_it_in(event));
        if own { if cut.wake_up == waiting::WAKE_UP { OWN_TIMER } else { cut.wake_up } } else { key }
    }

    fn threads(&mut self, from: i64, to: i64, cut: Cut<'_>) {
        match cut.threads {
            Threads::Ignored => self.rest(from, to, cut),
            Threads::Runs(life) => self.faults(from, to, life, cut),
            Threads::Waits(facts, span, life) => {
                let namer = self.namer;
                let mut cursor = from;
                for segment in namer.timeline.segments(cut.cpu, Level::Thread, from, to) {
                    self.own_time(cursor, segment.start_ns, life, cut);
                    let holder = &namer.timeline.events[segment.event as usize];
                    match facts.cause(namer, &span, holder) {
                        Some(key) if key == waiting::WAKE_UP && holder.id == 0 => {
                            self.wake_up(segment, cut);
                        }
                        Some(key) => self.push(segment, Some(key), true, cut),
                        None => self.rest(segment.start_ns, segment.end_ns, cut),
                    }
                    cursor = segment.end_ns;
                }
                self.own_time(cursor, to, life, cut);
            }
        }
    }

    fn own_time(&mut self, from: i64, to: i64, life: Option<&Life<'_>>, cut: Cut<'_>) {
        match life {
            Some(life) => self.faults(from, to, life, cut),
            None => self.rest(from, to, cut),
        }
    }

    /// A wake-up of an idle CPU: the part in an idle state deeper than polling (state 0) is idle exit.
    fn wake_up(&mut self, idle: Segment, cut: Cut<'_>) {
        let timeline = self.namer.timeline;
        let mut cursor = idle.start_ns;
        for deep in timeline.idle_states(cut.cpu, idle.start_ns, idle.end_ns) {
            if timeline.events[deep.event as usize].id == 0 {
                continue;
            }
            let before = Segment { end_ns: deep.start_ns, start_ns: cursor, ..idle };
            self.push(before, Some(waiting::WAKE_UP), true, cut);
            self.push(deep, Some(waiting::IDLE_EXIT), true, cut);
            cursor = deep.end_ns;
        }
        self.push(Segment { start_ns: cursor, ..idle }, Some(waiting::WAKE_UP), true, cut);
    }

    /// Where the thread goes to sleep in a page fault, it lasted until then.
    fn faults(&mut self, from: i64, to: i64, life: &Life<'_>, cut: Cut<'_>) {
        let running = cut.span.filter(|span| span.state == ActorState::Running);
        let asleep_in = running.and_then(|span| life.asleep_in_fault_since(span.end_ns));
        let asleep_from = asleep_in.map_or(to, |since_ns| since_ns.clamp(from, to));
        let mut cursor = from;
        let faults = self.faults;
        for (start_ns, end_ns, inferred) in faults.within(life.thread, from, asleep_from) {
            self.rest(cursor, start_ns, cut);
            self.push(Segment { start_ns, end_ns, event: u32::MAX }, Some(FAULTS), false, cut);
            self.drafts.last_mut().into_iter().for_each(|draft| draft.inferred = inferred);
            cursor = end_ns;
        }
        self.rest(cursor, asleep_from, cut);
        self.push(Segment { start_ns: asleep_from, end_ns: to, event: u32::MAX }, Some(FAULTS), false, cut);
    }

    fn rest(&mut self, from: i64, to: i64, cut: Cut<'_>) {
        self.push(Segment { start_ns: from, end_ns: to, event: u32::MAX }, cut.rest, false, cut);
    }

    fn push(&mut self, segment: Segment, key: Option<CauseKey>, edges: bool, cut: Cut<'_>) {
        let (start_ns, end_ns) = (segment.start_ns + cut.shift_ns, segment.end_ns + cut.shift_ns);
        if start_ns >= end_ns {
            return;
        }
        let behind_source = cut.place == PacketPosition::Source;
        let cause = key.map(|key| self.causes.intern(CauseKey { behind_source, ..key }, self.namer.names));
        if let (Some(cause), Some(key)) = (cause, key) {
            self.causes.count_thread(cause, &key, self.namer.names, end_ns - start_ns);
        }
        let part = if cause.is_some() { Part::Body } else { Part::Unexplained };
        if let Some(last) = self.drafts.last_mut()
            && (last.cause, last.part, last.place, last.cpu, last.event)
                == (cause, part, cut.place, cut.cpu, segment.event)
            && last.end_ns == start_ns
            && (cause.is_none() || segment.event != u32::MAX)
        {
            last.end_ns = end_ns;
            return;
        }
        self.drafts.push(Draft {
            start_ns,
            end_ns,
            cause,
            part,
            place: cut.place,
            cpu: cut.cpu,
            event: segment.event,
            edges,
            shift_ns: cut.shift_ns,
            taken: false,
            inferred: false,
            lent: None,
        });
    }
}

fn waits(span: &Span) -> bool {
    matches!(span.state, ActorState::Preempted | ActorState::Woken)
}

fn span_cpu(span: &Span, fallback: u16) -> u16 {
    if span.state == ActorState::Unknown { fallback } else { span.cpu.unwrap_or(fallback) }
}

/// Spans of a thread over the events' time of a question; one unknown span where there is no thread.
fn each_span(namer: &Namer<'_>, ask: Ask, life: Option<&Life<'_>>, mut take: impl FnMut(Span)) {
    let (from, to) = (ask.from_ns - ask.shift_ns, ask.to_ns - ask.shift_ns);
    if from >= to {
        return;
    }
    match life {
        Some(life) => life.spans(from, to, |span| {
            waiting::behind_quota(namer, span, &mut |span| {
                waiting::behind_its_preemptor(namer, span, &mut take);
            });
        }),
        None => take(Span::unknown(from, to)),
    }
}
