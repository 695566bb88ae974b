//! What the receiver did itself: the time of its late windows in which its thread held the CPU, nothing interrupted it
//! and nothing else has the time, divided into its code and its long system calls, and named by function from samples.
//!
//! Asked only of a program of others. Our own sink does nothing but receive, so what it loses on its CPU is not its own.
//!
//! Holding the CPU is no proof under a hypervisor, which may have stopped the CPU meanwhile. The timer of the samples
//! tells the two apart. A program is interrupted by it each period, so a longer silence was neither code nor a call. And
//! it fires on time while the program runs, but late after a stop. If the punctual samples of one kind of work, in windows
//! of one order of length, make up less than half of their time, that work is not the program's there. A window that the
//! timer found the program in whenever it was due, and twice at least, needs no such evidence.

use super::actor::{ActorState, Life};
use super::causes::{CauseKey, CauseTable, Detail};
use super::engine::Draft;
use super::timeline::{Level, Timeline, end_of, sort_by_start, start_of};
use super::{EdgeCap, PacketPosition, Part};
use crate::model::{Names, PacketRun};
use crate::summary::{CauseSummary, FunctionShare};
use quaver_abi::record::{EventKind, EventRecord, SAMPLE_PERIOD_NS, SAMPLING_TIMER};
use std::collections::{BTreeMap, BTreeSet};

const PERIOD_NS: i64 = SAMPLE_PERIOD_NS as i64;
/// Longer than this no code runs without a sample or another interruption.
const LONGEST_SILENCE_NS: i64 = PERIOD_NS + PERIOD_NS / 10;
/// A system call is recorded from this duration on. One that an interrupt alone made so long is as short as those that
/// are not recorded; else the timer of the samples would find the program in a long call wherever it looks.
const LONG_CALL_NS: i64 = 20_000;
/// Own time of a window from which the next order of length begins.
const ORDERS_NS: [i64; 2] = [100_000, 1_000_000];
/// Bins of the period in which samples are counted to learn when they are due.
const BINS: usize = 64;
/// A sample this far from when it is due is still punctual.
const PUNCTUAL_NS: i64 = 25_000;
/// Functions of a cause that are told.
const MOST_FUNCTIONS: usize = 8;
/// A function that leads ran itself in at least one of so many samples.
const LEAST_ITSELF: u64 = 20;
/// Fewer samples do not show that a window is the program's.
const FEWEST_MET: u32 = 2;
/// Fewer samples name no cause.
const FEWEST_SAMPLES: u64 = 3;

const CALL: &str = "own-call";
const CODE: CauseKey = CauseKey::plain("own-code", "code of the receiver");

/// The receiver's own work, with what its late windows have of it so far.
pub(crate) struct OwnWork<'a> {
    timeline: &'a Timeline<'a>,
    names: &'a Names,
    /// The receiver is a program of others.
    asked: bool,
    virtual_machine: bool,
    /// The timer of the samples ran.
    sampled: bool,
    /// What an interrupt costs beside its trace points.
    edges: EdgeCap,
    calls: BTreeMap<u32, Vec<u32>>,
    samples: BTreeMap<u32, Vec<u32>>,
    /// Part of the period at which samples of a CPU are due.
    due_ns: BTreeMap<u16, i64>,
    /// What was learned of work in windows of one order of length; none while learning.
    learned: Option<BTreeMap<(Kind, usize), Evidence>>,
    evidence: BTreeMap<(Kind, usize), Evidence>,
    tallies: BTreeMap<u32, Tally>,
}

/// Number of a system call; none is code between calls.
type Kind = Option<u64>;

/// What speaks for one kind of work in windows of one order of length.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    time_ns: i64,
    punctual: i64,
}

/// What one cause was met with.
#[derive(Default)]
struct Tally {
    /// Punctual samples by their pair of stacks.
    stacks: BTreeMap<u64, u64>,
}

impl<'a> OwnWork<'a> {
    pub(crate) fn new(
        run: &'a PacketRun,
        timeline: &'a Timeline<'a>,
        receiver: &[Life<'_>],
        edges: EdgeCap,
    ) -> Self {
        let mut own = Self {
            timeline,
            names: &run.names,
            asked: run.receiver.foreign,
            virtual_machine: run.circumstances.virtual_machine,
            sampled: false,
            edges,
            calls: BTreeMap::new(),
            samples: BTreeMap::new(),
            due_ns: BTreeMap::new(),
            learned: None,
            evidence: BTreeMap::new(),
            tallies: BTreeMap::new(),
        };
        if !own.asked {
            return own;
        }
        let events = timeline.events;
        own.sampled = events.iter().any(|event| {
            let timer = event.kind == EventKind::Hrtimer as u8 && event.detail & SAMPLING_TIMER != 0;
            timer || event.kind == EventKind::Sample as u8
        });
        let of_receiver = |event: &&EventRecord| run.receiver.threads.contains(&event.id);
        for (index, event) in (0..u32::MAX).zip(events).filter(|(_, event)| of_receiver(event)) {
            let list = match EventKind::from_repr(event.kind) {
                Some(EventKind::SystemCall) if own.is_long(event, receiver) => &mut own.calls,
                Some(EventKind::Sample) => &mut own.samples,
                _ => continue,
            };
            list.entry(event.id).or_default().push(index);
        }
        own.calls.values_mut().chain(own.samples.values_mut()).for_each(|list| sort_by_start(events, list));
        own.due_ns = due(events, own.samples.values().flatten().copied());
        own
    }

    /// Whether a call lasted long without what interrupted it, its entries and exits, and without the sleep in it.
    fn is_long(&self, call: &EventRecord, receiver: &[Life<'_>]) -> bool {
        let (from, to) = (start_of(call), end_of(call));
        if to <= from {
            return false;
        }
        let interrupted = |cpu: u16, from: i64, to: i64| {
            let at = |level, edges_ns| {
                let segments = self.timeline.segments(cpu, level, from, to);
                segments.map(|segment| segment.end_ns - segment.start_ns + edges_ns).sum::<i64>()
            };
            let edges_ns = self.edges.entry_ns + self.edges.exit_ns;
            at(Level::Nmi, 0) + at(Level::Interrupt, edges_ns) + at(Level::Softirq, 0)
        };
        let mut busy_ns = 0;
        match receiver.iter().find(|life| life.thread == call.id) {
            None => busy_ns = to - from - interrupted(call.cpu, from, to),
            Some(life) => life.spans(from, to, |span| {
                if matches!(span.state, ActorState::Running | ActorState::Unknown) {
                    let cpu = span.cpu.unwrap_or(call.cpu);
                    busy_ns += span.end_ns - span.start_ns - interrupted(cpu, span.start_ns, span.end_ns);
                }
            }),
        }
        busy_ns >= LONG_CALL_NS
    }

    /// Whether windows must be gone through once before any is booked, to learn what to believe.
    pub(crate) fn must_learn(&self) -> bool {
        self.asked && (self.virtual_machine || self.sampled)
    }

    /// Ends learning: from now on only what is believed is booked.
    pub(crate) fn judge(&mut self) {
        self.learned = Some(std::mem::take(&mut self.evidence));
        self.tallies.clear();
    }

    /// Whether work in windows of one order of length counts.
    fn is_believed(&self, kind: Kind, order: usize) -> bool {
        let Some(learned) = &self.learned else { return true };
        let Evidence { time_ns, punctual } = learned.get(&(kind, order)).copied().unwrap_or_default();
        if self.sampled && time_ns >= 4 * PERIOD_NS {
            return punctual * PERIOD_NS * 2 >= time_ns;
        }
        // A machine of its own has hardly anybody else to stop it. Without the timer a call still has the record of its length;
        // code has nothing.
        punctual > 0 || !self.virtual_machine || (!self.sampled && kind.is_some())
    }

    /// Gives the unexplained time of a window in which `life` held the CPU to what it did. `scratch` is working memory.
    pub(crate) fn settle(
        &mut self,
        drafts: &mut Vec<Draft>,
        causes: &mut CauseTable,
        life: Option<&Life<'_>>,
        scratch: &mut Vec<Draft>,
    ) {
        let Some(life) = life.filter(|_| self.asked) else { return };
        scratch.clear();
        let orders = self.orders(drafts, life);
        let met = self.is_met_each_time(drafts, life);
        for draft in drafts.iter() {
            if !may_be_own(draft) {
                scratch.push(*draft);
                continue;
            }
            self.cut(draft, life, |start_ns, end_ns, work| {
                let kind = work.kind().filter(|kind| met || self.is_believed(*kind, orders[kind]));
                let cause = kind.map(|kind| causes.intern(kind.map_or(CODE, call_key), self.names));
                let part = if cause.is_some() { Part::Body } else { Part::Unexplained };
                let event = work.event().unwrap_or(draft.event);
                scratch.push(Draft { start_ns, end_ns, cause, part, event, ..*draft });
            });
        }
        std::mem::swap(drafts, scratch);
        self.count(drafts, causes, life.thread, &orders);
    }

    /// Whether a punctual sample met the thread each time that one was due in a window's own time.
    fn is_met_each_time(&self, drafts: &[Draft], life: &Life<'_>) -> bool {
        let mut own = drafts.iter().filter(|draft| may_be_own(draft));
        let Some(first) = own.next() else { return false };
        let to = own.next_back().unwrap_or(first).end_ns;
        let (mut due, mut met) = (0, 0);
        life.spans(first.start_ns, to, |span| {
            let phase = span.cpu.and_then(|cpu| self.due_ns.get(&cpu));
            let Some(phase) = phase.filter(|_| span.state == ActorState::Running) else { return };
            let mut at = span.start_ns + (phase - span.start_ns).rem_euclid(PERIOD_NS);
            while at < span.end_ns {
                let around = (at - PUNCTUAL_NS, at + PUNCTUAL_NS);
                due += 1;
                met += u32::from(self.samples_in(life.thread, around.0, around.1).next().is_some());
                at += PERIOD_NS;
            }
        });
        due >= FEWEST_MET && met == due
    }

    /// Orders of length of a window's kinds of work.
    fn orders(&self, drafts: &[Draft], life: &Life<'_>) -> BTreeMap<Kind, usize> {
        let mut times: BTreeMap<Kind, i64> = BTreeMap::new();
        for draft in drafts.iter().filter(|draft| may_be_own(draft)) {
            self.cut(draft, life, |start_ns, end_ns, work| {
                if let Some(kind) = work.kind() {
                    *times.entry(kind).or_default() += end_ns - start_ns;
                }
            });
        }
        times.into_iter().map(|(kind, time_ns)| (kind, order(time_ns))).collect()
    }

    /// Time of settled pieces that lies in system calls of the receiver and is unexplained, nanoseconds.
    pub(crate) fn in_calls_ns(&self, drafts: &[Draft]) -> i64 {
        let in_calls = drafts.iter().filter(|draft| may_be_own(draft) && self.call_of(draft).is_some());
        in_calls.map(|draft| draft.end_ns - draft.start_ns).sum()
    }

    /// Cuts an unexplained piece without gaps by what the thread did.
    fn cut(&self, draft: &Draft, life: &Life<'_>, mut take: impl FnMut(i64, i64, Work)) {
        life.spans(draft.start_ns, draft.end_ns, |span| {
            if span.state != ActorState::Running {
                return take(span.start_ns, span.end_ns, Work::Nothing(None));
            }
            let mut cursor = span.start_ns;
            for (index, call) in self.calls_in(life.thread, span.start_ns, span.end_ns) {
                let start_ns = start_of(call).max(cursor);
                let end_ns = end_of(call).min(span.end_ns);
                if start_ns < end_ns {
                    self.sounded(life.thread, cursor, start_ns, Work::Code, &mut take);
                    self.sounded(life.thread, start_ns, end_ns, Work::Call(index, call.aux), &mut take);
                    cursor = end_ns;
                }
            }
            self.sounded(life.thread, cursor, span.end_ns, Work::Code, &mut take);
        });
    }

    /// Work without a break: what is silent for longer than a program can be was none.
    fn sounded(&self, thread: u32, from: i64, to: i64, work: Work, take: &mut impl FnMut(i64, i64, Work)) {
        let mut cursor = from;
        let signs = self.samples_in(thread, from, to).map(|(_, sample)| start_of(sample)).chain([to]);
        for sign in signs.filter(|sign| *sign > from) {
            if cursor < sign {
                let silent = self.sampled && sign - cursor > LONGEST_SILENCE_NS;
                take(cursor, sign, if silent { work.doubted() } else { work });
            }
            cursor = cursor.max(sign);
        }
    }

    fn calls_in(&self, thread: u32, from: i64, to: i64) -> impl Iterator<Item = (u32, &'a EventRecord)> {
        let events = self.timeline.events;
        let list = self.calls.get(&thread).map_or(&[][..], Vec::as_slice);
        // The calls of one thread follow one another.
        let first = list.partition_point(|&index| end_of(&events[index as usize]) <= from);
        list[first..]
            .iter()
            .map(move |&index| (index, &events[index as usize]))
            .take_while(move |(_, call)| start_of(call) < to)
    }

    fn samples_in(&self, thread: u32, from: i64, to: i64) -> impl Iterator<Item = (u32, &'a EventRecord)> {
        let events = self.timeline.events;
        let list = self.samples.get(&thread).map_or(&[][..], Vec::as_slice);
        let first = list.partition_point(|&index| start_of(&events[index as usize]) < from);
        list[first..]
            .iter()
            .map(move |&index| (index, &events[index as usize]))
            .take_while(move |(_, sample)| start_of(sample) < to)
    }

    /// Counts the samples of a window for the causes that they interrupted. A cause without any is inferred there.
    fn count(
        &mut self,
        drafts: &mut [Draft],
        causes: &CauseTable,
        thread: u32,
        orders: &BTreeMap<Kind, usize>,
    ) {
        let (Some(first), Some(last)) = (drafts.first(), drafts.last()) else { return };
        let mut sampled: BTreeSet<u32> = BTreeSet::new();
        let samples: Vec<&EventRecord> =
            self.samples_in(thread, first.start_ns, last.end_ns).map(|(_, sample)| sample).collect();
        for sample in samples {
            let Some(draft) = self.interrupted(drafts, sample) else { continue };
            let Some(cause) = draft.cause.filter(|cause| own(causes, *cause)) else { continue };
            sampled.insert(cause);
            // A late one tells where interrupts were let in again, not what ran when it was due. One at the end of a switch of
            // threads tells that as well: the switch keeps interrupts off.
            if self.punctual(sample) && !self.ends_switch(sample) {
                *self.tallies.entry(cause).or_default().stacks.entry(sample.aux).or_default() += 1;
                let kind = self.kind(causes, cause, draft);
                self.evidence_of(kind, orders).into_iter().for_each(|evidence| evidence.punctual += 1);
            }
        }
        for draft in drafts {
            let Some(cause) = draft.cause.filter(|cause| draft.part == Part::Body && own(causes, *cause))
            else {
                continue;
            };
            let kind = self.kind(causes, cause, draft);
            let time_ns = draft.end_ns - draft.start_ns;
            self.evidence_of(kind, orders).into_iter().for_each(|evidence| evidence.time_ns += time_ns);
            draft.inferred = !sampled.contains(&cause);
        }
    }

    /// Kind of work of a piece that has one of the receiver's own causes.
    fn kind(&self, causes: &CauseTable, cause: u32, draft: &Draft) -> Option<Kind> {
        if causes.id(cause) == CODE.id {
            return Some(None);
        }
        self.call_of(draft).map(|call| Some(call.aux))
    }

    fn call_of(&self, draft: &Draft) -> Option<&'a EventRecord> {
        let event = self.timeline.events.get(draft.event as usize)?;
        Some(event).filter(|event| event.kind == EventKind::SystemCall as u8)
    }

    fn evidence_of(&mut self, kind: Option<Kind>, orders: &BTreeMap<Kind, usize>) -> Option<&mut Evidence> {
        let kind = kind?;
        let order = orders.get(&kind).copied().unwrap_or_default();
        Some(self.evidence.entry((kind, order)).or_default())
    }

    /// The piece that a sample interrupted. The sample itself lies in the interrupt of its timer.
    fn interrupted<'b>(&self, drafts: &'b [Draft], sample: &EventRecord) -> Option<&'b Draft> {
        let at = start_of(sample);
        let mut interrupts = self.timeline.segments(sample.cpu, Level::Interrupt, at, at.saturating_add(1));
        let begin =
            interrupts.next().map_or(at, |segment| start_of(&self.timeline.events[segment.event as usize]));
        let before = drafts.partition_point(|draft| draft.start_ns < begin);
        drafts[..before].iter().rev().find(|draft| draft.part != Part::EntryExit)
    }

    fn ends_switch(&self, sample: &EventRecord) -> bool {
        let innermost = self.names.stack.get(&(sample.aux as u32)).and_then(|stack| stack.first());
        innermost.is_some_and(|name| name.starts_with("finish_task_switch"))
    }

    fn punctual(&self, sample: &EventRecord) -> bool {
        let Some(due_ns) = self.due_ns.get(&sample.cpu) else { return false };
        let late_ns = (start_of(sample) - due_ns).rem_euclid(PERIOD_NS);
        late_ns.min(PERIOD_NS - late_ns) <= PUNCTUAL_NS
    }

    /// Adds to the ranked causes what the samples told; `places` holds the rank of each cause by its number.
    pub(crate) fn tell(&self, ranked: &mut [CauseSummary], places: &[u32]) {
        for (cause, tally) in &self.tallies {
            let cause = &mut ranked[places[*cause as usize] as usize];
            cause.functions = functions(tally, self.names, cause.source == CODE.id);
            let leading = cause.functions.first().filter(|leading| leading.samples >= FEWEST_SAMPLES);
            if let Some(FunctionShare { name, share, .. }) = leading {
                cause.name = format!("{}: {name} {:.0} %", cause.name, share * 100.0);
            }
        }
    }
}

/// What a thread that held its CPU did.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Code,
    /// Event and number.
    Call(u32, u64),
    /// None of its own, in a call of this event.
    Nothing(Option<u32>),
}

impl Work {
    fn kind(self) -> Option<Kind> {
        match self {
            Self::Code => Some(None),
            Self::Call(_, number) => Some(Some(number)),
            Self::Nothing(_) => None,
        }
    }

    fn event(self) -> Option<u32> {
        match self {
            Self::Call(event, _) => Some(event),
            Self::Code => None,
            Self::Nothing(event) => event,
        }
    }

    fn doubted(self) -> Self {
        Self::Nothing(self.event())
    }
}

fn may_be_own(draft: &Draft) -> bool {
    draft.part == Part::Unexplained && draft.place == PacketPosition::Receiver
}

const fn call_key(number: u64) -> CauseKey {
    CauseKey::new(CALL, Detail::Call(number))
}

fn own(causes: &CauseTable, cause: u32) -> bool {
    [CODE.id, CALL].contains(&causes.id(cause))
}

/// Order of length of a window's own time.
fn order(code_ns: i64) -> usize {
    ORDERS_NS.partition_point(|from| *from <= code_ns)
}

/// When samples of each CPU are due: the fullest part of the period.
fn due(events: &[EventRecord], samples: impl Iterator<Item = u32>) -> BTreeMap<u16, i64> {
    let mut phases: BTreeMap<u16, Vec<i64>> = BTreeMap::new();
    for index in samples {
        let sample = &events[index as usize];
        phases.entry(sample.cpu).or_default().push(start_of(sample).rem_euclid(PERIOD_NS));
    }
    let due = |phases: &mut Vec<i64>| {
        let bin = |phase: i64| (phase * BINS as i64 / PERIOD_NS) as usize;
        let mut counts = [0u32; BINS];
        phases.iter().for_each(|phase| counts[bin(*phase)] += 1);
        let with_next = |at: &usize| counts[*at] + counts[(at + 1) % BINS];
        let fullest = (0..BINS).max_by_key(|at| (with_next(at), std::cmp::Reverse(*at)))?;
        let start_ns = fullest as i64 * PERIOD_NS / BINS as i64;
        let mut inside: Vec<i64> = phases
            .iter()
            .map(|phase| (phase - start_ns).rem_euclid(PERIOD_NS))
            .filter(|p| *p <= 2 * PERIOD_NS / BINS as i64)
            .collect();
        quaver_arrivals::distribution::median(&mut inside).map(|middle| start_ns + middle)
    };
    phases.iter_mut().filter_map(|(cpu, phases)| Some((*cpu, due(phases)?))).collect()
}

/// Where a pair of stacks holds the number of each half.
const KERNEL: u32 = 0;
const USER: u32 = 32;

/// What samples met of one function.
#[derive(Clone, Copy, Default)]
struct Met {
    on_stack: u64,
    /// Samples in which it is the innermost of the halves that were looked at.
    itself: u64,
    depth: u64,
}

impl Met {
    fn mean_depth(&self) -> f64 {
        self.depth as f64 / self.on_stack as f64
    }
}

/// Counts the functions on some halves of the stacks, the inner half first.
fn count<'a>(tally: &Tally, names: &'a Names, halves: &[u32]) -> BTreeMap<&'a str, Met> {
    let mut met: BTreeMap<&str, Met> = BTreeMap::new();
    for (&stacks, &count) in &tally.stacks {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let functions =
            halves.iter().flat_map(|half| names.stack.get(&((stacks >> half) as u32)).into_iter().flatten());
        for (depth, name) in (0..).zip(functions) {
            let one = met.entry(name).or_default();
            one.itself += if depth == 0 { count } else { 0 };
            if seen.insert(name) {
                one.on_stack += count;
                one.depth += depth * count;
            }
        }
    }
    met
}

/// The functions of a cause: first the one that leads, then those that ran themselves, most often first.
///
/// The innermost function on at least half of the stacks leads. It must have run itself now and then: code without frame
/// pointers hides callers, and the outermost functions are on every stack. Where there is no such function, the one that ran
/// itself most often leads. A function of the program leads its code, also where the kernel worked for it in calls that are
/// too short for a record.
fn functions(tally: &Tally, names: &Names, is_code: bool) -> Vec<FunctionShare> {
    let all: u64 = tally.stacks.values().sum();
    let leads = |halves: &[u32]| {
        let met = count(tally, names, halves);
        let on_half = |met: &Met| met.on_stack * 2 >= all && met.itself * LEAST_ITSELF >= all;
        let half = met.iter().filter(|(_, met)| on_half(met));
        let innermost = half.min_by(|(_, a), (_, b)| a.mean_depth().total_cmp(&b.mean_depth()));
        let leading = innermost.or_else(|| met.iter().rev().max_by_key(|(_, met)| met.itself));
        leading.map(|(name, _)| *name)
    };
    let leading = (if is_code { leads(&[USER]) } else { None }).or_else(|| leads(&[KERNEL, USER]));
    let mut functions: Vec<(&str, Met)> = count(tally, names, &[KERNEL, USER]).into_iter().collect();
    functions.sort_by_key(|(_, met)| std::cmp::Reverse(met.itself));
    if let Some(at) = functions.iter().position(|(name, _)| Some(*name) == leading) {
        functions[..=at].rotate_right(1);
    }
    let share = |count: u64| count as f64 / all as f64;
    let told = |(at, (name, met)): (usize, (&str, Met))| {
        (at == 0 || met.itself > 0).then(|| FunctionShare {
            name: name.to_owned(),
            share: share(met.on_stack),
            itself: share(met.itself),
            samples: met.on_stack,
        })
    };
    functions.into_iter().enumerate().filter_map(told).take(MOST_FUNCTIONS).collect()
}
