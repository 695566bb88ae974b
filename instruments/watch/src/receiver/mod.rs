//! One receiver: found, recorded all the time, and frozen when something triggers.

mod find;
mod pending;
mod silence;
mod unread;

use crate::board::{Board, ReceiverState};
use crate::config::{ReceiverSettings, Settings, WindowSettings};
use crate::flight::{FlightRecorder, Snapshot};
use crate::frozen::{Clocks, FrozenWindow, ReceiverWindow, WindowRecords};
use crate::judge::{Judge, Reason, Trigger};
use crate::outbox::{Outbox, is_asked};
use pending::Pending;
use quaver_analysis::model::Names;
use quaver_chase::chase::observe::{Observed, look_at};
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_host::symbols::MemoryMap;
use quaver_host::trace::{TraceCounts, Tracer};
use quaver_instrument::args::TierName;
use quaver_instrument::holes::Holes;
use quaver_instrument::host_state::HostState;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::names::name_threads;
use quaver_instrument::progress::Progress;
use quaver_instrument::tier;
use quaver_store::manifest::Window;
use silence::Silence;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use unread::UnreadQueue;

/// Time between two readings of the tracer's memory.
const TICK: Duration = Duration::from_millis(50);
/// After a trigger, records of its window still settle for so long.
const SETTLE: Duration = Duration::from_millis(250);
/// Records of packets come so much later where the process has one socket, and where it has several.
const DELAY: (Duration, Duration) = (Duration::from_millis(1_100), Duration::from_millis(10_100));
/// Unread packets count from this age on at the end of a window; younger ones are on their way.
const UNREAD_NS: u64 = 10_000_000;
/// Time between two looks at the receiver's threads, the CPUs and the counters of the host.
const LOOK: Duration = Duration::from_secs(5);
/// Time between two searches for a receiver that is not there, from the first to the last.
const SEARCH: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Recording begins anew at most so often, for new threads or CPUs, or a full memory of stacks.
const ANEW: Duration = Duration::from_secs(60);
/// Stacks after which the tracer's memory of them is nearly full.
const MANY_STACKS: usize = 8_000;
/// Packets and events that the tracer's memory holds between two readings, on all CPUs together.
const MOST_STAMPS: usize = 1 << 17;
const MOST_EVENTS: usize = 1 << 19;

/// Why a window begins later where an earlier incident has judged the packets before.
const EARLIER: &str = "an earlier incident has judged what came before";

/// Watches one receiver until it is asked to end.
pub(crate) struct Watchman {
    pub(crate) settings: ReceiverSettings,
    pub(crate) all: Arc<Settings>,
    pub(crate) board: Arc<Board>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) end: Interrupt,
}

/// Why a session ended.
enum Ended {
    Asked,
    ReceiverGone,
    SocketGone,
    Anew(&'static str),
}

impl Watchman {
    /// Finds the receiver, watches it, and finds it again when it was restarted.
    pub(crate) fn run(self) {
        let root = HostRoot::system();
        let mut pause = SEARCH.0;
        let mut said = String::new();
        while !self.end.requested() {
            let outcome = match find::find(&self.settings, &root) {
                Some(pid) => self.watch(pid, &root),
                None => Err(anyhow::anyhow!("no such receiver runs")),
            };
            match outcome {
                Ok(()) => pause = SEARCH.0,
                Err(error) => {
                    let words = format!("{error:#}");
                    self.publish(|state| (state.watched, state.words) = (false, words.clone()));
                    if words != said && !self.end.requested() {
                        self.say(&format!("not watched: {words}"));
                    }
                    said = words;
                    pause = (pause * 2).min(SEARCH.1);
                }
            }
            let start = Instant::now();
            while start.elapsed() < pause && !self.end.requested() {
                std::thread::sleep(TICK);
            }
        }
        let words = "the watch is ending".to_owned();
        self.publish(|state| {
            (state.watched, state.words, state.held_ns, state.silent) = (false, words, 0, false);
        });
    }

    fn say(&self, sentence: &str) {
        quaver_instrument::tell!("quaver watch: {}: {sentence}", self.settings.name);
    }

    fn publish(&self, change: impl FnOnce(&mut ReceiverState)) {
        self.board.receiver(&self.settings.name, change);
    }

    /// Watches one process until it ends.
    fn watch(&self, pid: u32, root: &HostRoot) -> anyhow::Result<()> {
        let quiet = Progress::timed(Duration::ZERO, true);
        let mut notes = Vec::new();
        let mut observed = look_at(pid, self.settings.port, root, &quiet, &self.end, &mut notes)?;
        let mut silence = Silence::default();
        loop {
            let words = observed.stream_words();
            self.say(&format!("watching {words}"));
            notes.iter().for_each(|note| self.say(note));
            self.publish(|state| (state.watched, state.words) = (true, words));
            match Session::begin(self, Arc::new(observed), notes.clone(), &mut silence, root)?.run(root)? {
                (_, Ended::Asked) => return Ok(()),
                (gone, ended @ (Ended::ReceiverGone | Ended::SocketGone)) => {
                    let words = match ended {
                        Ended::ReceiverGone => format!("{} is gone", gone.name),
                        _ => format!("{} has closed its socket on port {}", gone.name, gone.port()),
                    };
                    self.say(&words);
                    self.publish(|state| {
                        (state.watched, state.words, state.held_ns, state.silent) = (false, words, 0, false);
                    });
                    return Ok(());
                }
                (before, Ended::Anew(why)) => {
                    self.say(&format!("recording begins anew: {why}"));
                    self.publish(|state| state.anew += 1);
                    observed = before.with_threads_of_now(root);
                }
            }
        }
    }
}

/// One stretch of recording.
struct Session<'a> {
    watchman: &'a Watchman,
    observed: Arc<Observed>,
    /// What the first look at the receiver leaves out.
    notes: Vec<String>,
    traced: Vec<u16>,
    tracer: Box<dyn Tracer>,
    flight: FlightRecorder,
    judge: Judge,
    queue: UnreadQueue,
    silence: &'a mut Silence,
    maps: MemoryMap,
    host: Arc<HostFacts>,
    /// Counters of the host, oldest first.
    states: VecDeque<(u64, HostState)>,
    pending: Pending,
    began: Instant,
    lost: TraceCounts,
    holes: Holes,
    counted: Option<Instant>,
    /// The end of the latest window. What was late before is that incident's.
    judged_until_ns: u64,
}

impl<'a> Session<'a> {
    fn begin(
        watchman: &'a Watchman,
        observed: Arc<Observed>,
        notes: Vec<String>,
        silence: &'a mut Silence,
        root: &HostRoot,
    ) -> anyhow::Result<Self> {
        let window = &watchman.all.window;
        let traced = observed.traced_cpus(root)?;
        let mut spec = observed.trace_spec(&traced, Duration::from_secs(1));
        // An observed packet may wait in its socket's queue for ten seconds before its stamps are final.
        let waiting = observed.trace_spec(&traced, Duration::from_secs(10)).stamp_capacity;
        spec.stamp_capacity = waiting.saturating_sub(spec.stamp_capacity / 2).clamp(1 << 12, MOST_STAMPS);
        spec.event_capacity = spec.event_capacity.min(MOST_EVENTS / traced.len().max(1));
        let choice = tier::start(Some(TierName::Bpf), &spec)?;
        let mut tracer = choice.tracer.ok_or_else(|| anyhow::anyhow!("the BPF tier has no tracer"))?;
        let now_ns = monotonic_ns();
        silence.begin(now_ns);
        let in_order = observed.has_one_socket(root);
        if in_order {
            tracer.expect_order();
        }
        let delay = if in_order { DELAY.0 } else { DELAY.1 };
        let keep = window.before + window.after + Duration::from_secs(1) + SETTLE + delay;
        let threads = observed.threads.iter().map(|thread| thread.id).collect();
        Ok(Self {
            flight: FlightRecorder::new(now_ns, keep, window.memory_mib as usize * (1 << 20), threads),
            judge: Judge::new(&watchman.settings),
            queue: UnreadQueue::default(),
            silence,
            maps: MemoryMap::of(root, observed.process.pid),
            host: Arc::new(HostFacts::read(root)),
            states: VecDeque::from([(now_ns, HostState::read(Some(observed.process.pid)))]),
            pending: Pending::new(window.after),
            began: Instant::now(),
            lost: TraceCounts::default(),
            holes: Holes::begin(0, now_ns),
            counted: None,
            judged_until_ns: 0,
            watchman,
            observed,
            notes,
            traced,
            tracer,
        })
    }

    fn run(mut self, root: &HostRoot) -> anyhow::Result<(Arc<Observed>, Ended)> {
        let mut looked = Instant::now();
        let ended = loop {
            std::thread::sleep(TICK);
            self.read(root)?;
            let (ends, lives) = (self.watchman.end.requested(), self.observed.process.lives(root));
            while self.pending.end_ns().is_some_and(|end_ns| ends || !lives || self.is_over(end_ns)) {
                self.freeze(root)?;
            }
            if ends {
                break Ended::Asked;
            }
            if !lives {
                break Ended::ReceiverGone;
            }
            if looked.elapsed() > LOOK {
                looked = Instant::now();
                if !self.observed.has_socket(root) {
                    // A process that ends closes its sockets first.
                    std::thread::sleep(TICK);
                    let lives = self.observed.process.lives(root);
                    break if lives { Ended::SocketGone } else { Ended::ReceiverGone };
                }
                if let Some(why) = self.look(root)? {
                    break Ended::Anew(why);
                }
            }
        };
        let observed = Arc::clone(&self.observed);
        Ok((observed, ended))
    }

    /// Reads the tracer's memory and judges the packets.
    fn read(&mut self, root: &HostRoot) -> anyhow::Result<()> {
        self.tracer.drain(&mut self.flight)?;
        let now_ns = monotonic_ns();
        self.flight.end_reading(now_ns);
        self.holes.look(self.tracer.events_lost(), now_ns);
        let asked = self.watchman.board.take_asked(&self.watchman.settings.name);
        let asked = asked.then_some(Trigger::new(Reason::Asked, now_ns, 0));
        if let Some(counts) = self.tracer.queues() {
            self.queue.look(counts, now_ns);
            if let Some(told) = self.silence.look(counts.came, self.judge.period_ns(), now_ns) {
                self.watchman.say(&told.to_string());
            }
        }
        let limit_ns = self.watchman.settings.late.map(|late| late.as_nanos() as u64);
        let unread = self.queue.judge(limit_ns, now_ns, || self.observed.queued_bytes(root) > 0);
        let fresh = self.flight.take_fresh();
        let found = fresh.iter().flat_map(|stamp| self.judge.take(stamp)).chain(unread).chain(asked);
        found.for_each(|trigger| self.pending.add(trigger));
        if self.pending.is_empty() {
            self.flight.trim(now_ns);
        }
        let figures = std::mem::take(&mut self.judge.figures);
        let held_ns = now_ns.saturating_sub(self.flight.held_from_ns());
        let (bytes, silent) = (self.flight.bytes() as u64, self.silence.told);
        self.watchman.publish(|state| {
            state.add(&figures);
            (state.held_ns, state.memory_bytes, state.silent) = (held_ns, bytes, silent);
        });
        Ok(())
    }

    /// Whether all records of a window that ends then have come.
    fn is_over(&self, end_ns: u64) -> bool {
        let now_ns = monotonic_ns();
        let reached = |settle: Duration| now_ns >= end_ns + settle.as_nanos() as u64;
        reached(SETTLE) && (self.flight.newest_ns() >= end_ns || reached(SETTLE + DELAY.0))
    }

    /// Hands the window around the oldest pending triggers to whoever writes incidents.
    fn freeze(&mut self, root: &HostRoot) -> anyhow::Result<()> {
        let triggers = self.pending.take();
        let name = &self.watchman.settings.name;
        self.watchman.publish(|state| {
            triggers
                .iter()
                .for_each(|trigger| *state.outcomes.triggers.entry(trigger.reason).or_default() += 1);
        });
        let asked = is_asked(&triggers);
        if !self.watchman.board.may_keep(asked, self.watchman.all.limits.incidents_an_hour) {
            self.watchman.publish(|state| state.outcomes.suppressed += 1);
            return Ok(());
        }
        let window = &self.watchman.all.window;
        let judged_until_ns = if asked { 0 } else { self.judged_until_ns };
        let held = (self.flight.held_from_ns(), monotonic_ns());
        let Span { recorded_ns, start_ns, end_ns } = Span::of(&triggers, window, held, judged_until_ns);
        self.judged_until_ns = self.judged_until_ns.max(end_ns);
        let mut snapshot = Snapshot::default();
        let counts = self.tracer.snapshot(&mut snapshot)?;
        let (stamps, mut events) = self.flight.copy(recorded_ns, end_ns);
        events.extend(snapshot.open);
        let later = HostState::read(Some(self.observed.process.pid));
        let before = self.states.iter().rev().find(|(at_ns, _)| *at_ns <= start_ns).or(self.states.front());
        let mut circumstances = before
            .map(|(_, state)| state.circumstances(&later, &self.host, self.traced.clone()))
            .unwrap_or_default();
        circumstances.own_threads =
            root.names("proc/self/task").iter().filter_map(|id| id.parse().ok()).collect();
        circumstances.holes = self.holes.until(end_ns);
        let mut names = Names::default();
        name_threads(&events, &mut names);
        let frozen = ReceiverWindow {
            receiver: name.clone(),
            late_ns: self.watchman.settings.late_ns(),
            triggers,
            records: WindowRecords {
                clocks: Clocks::now(),
                window: Window { start_ns: start_ns as i64, end_ns: end_ns as i64 },
                before: window.before,
                held_because: if start_ns > recorded_ns { EARLIER } else { self.flight.held_because() },
                events,
                names,
                counts: TraceCounts {
                    events_lost: counts.events_lost - self.lost.events_lost.min(counts.events_lost),
                    stamps_lost: counts.stamps_lost - self.lost.stamps_lost.min(counts.stamps_lost),
                    ..counts
                },
                blind: self.tracer.blind(),
                circumstances,
                host: Arc::clone(&self.host),
            },
            stamps,
            unread: self.flight.unread(end_ns, UNREAD_NS).or_else(|| self.queue.unread(end_ns)),
            stacks: snapshot.stacks,
            observed: Arc::clone(&self.observed),
            notes: self.notes.clone(),
            maps: self.maps.clone(),
        };
        self.watchman.outbox.put(FrozenWindow::Receiver(Box::new(frozen)));
        Ok(())
    }

    /// Looks at what changes slowly; why recording has to begin anew, if it has.
    fn look(&mut self, root: &HostRoot) -> anyhow::Result<Option<&'static str>> {
        let pid = self.observed.process.pid;
        self.states.push_back((monotonic_ns(), HostState::read(Some(pid))));
        let before = self.watchman.all.window.before + self.watchman.all.window.after;
        if self.states.len() > (before.as_secs() / LOOK.as_secs()) as usize + 2 {
            self.states.pop_front();
        }
        // Reading the stacks takes two system calls each.
        if self.began.elapsed() < ANEW || !self.pending.is_empty() {
            return Ok(None);
        }
        if self.counted.is_some_and(|counted| counted.elapsed() < ANEW) {
            return self.others(root);
        }
        self.counted = Some(Instant::now());
        let mut snapshot = Snapshot::default();
        let counts = self.tracer.snapshot(&mut snapshot)?;
        let (events, stamps) =
            (counts.events_lost - self.lost.events_lost, counts.stamps_lost - self.lost.stamps_lost);
        if events + stamps > 0 {
            self.watchman
                .say(&format!("the tracer's memory was full: {events} events and {stamps} packets are lost"));
            self.watchman.publish(|state| state.records_lost += events + stamps);
        }
        self.lost = counts;
        if snapshot.stacks.len() > MANY_STACKS {
            return Ok(Some("the memory for stacks is nearly full"));
        }
        self.others(root)
    }

    /// Whether the receiver has other threads, or the host other CPUs, than are recorded.
    fn others(&self, root: &HostRoot) -> anyhow::Result<Option<&'static str>> {
        let ids = |observed: &Observed| observed.threads.iter().map(|thread| thread.id).collect::<Vec<u32>>();
        let now = self.observed.with_threads_of_now(root);
        Ok(if ids(&now) != ids(&self.observed) {
            Some("the receiver's threads are others")
        } else if now.traced_cpus(root)? != self.traced {
            Some("CPUs came or went")
        } else {
            None
        })
    }
}

/// What an incident has of the flight recorder.
#[derive(Debug, PartialEq)]
struct Span {
    /// Records from then on.
    recorded_ns: u64,
    /// Packets from then on are judged.
    start_ns: u64,
    end_ns: u64,
}

impl Span {
    /// The window around triggers within what is held. Packets up to `judged_until_ns` are an earlier incident's, unless a trigger
    /// is among them.
    fn of(
        triggers: &[Trigger],
        window: &WindowSettings,
        (held_from_ns, now_ns): (u64, u64),
        judged_until_ns: u64,
    ) -> Self {
        let began_ns = triggers.first().map_or(0, |trigger| trigger.at_ns);
        let earliest_ns = triggers.iter().map(|trigger| trigger.at_ns).min().unwrap_or(began_ns);
        // A gap is shown from its beginning on.
        let since_ns =
            triggers.iter().map(Trigger::since_ns).min().map_or(0, |since_ns| since_ns.min(began_ns));
        let recorded_ns = since_ns.saturating_sub(window.before.as_nanos() as u64).max(held_from_ns);
        let is_judged = (recorded_ns..=earliest_ns).contains(&judged_until_ns);
        let start_ns = if is_judged { judged_until_ns } else { recorded_ns };
        let end_ns = now_ns.min(began_ns + window.after.as_nanos() as u64).max(start_ns);
        Self { recorded_ns, start_ns, end_ns }
    }
}

fn monotonic_ns() -> u64 {
    quaver_clock::monotonic_ns().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_judged_in_one_incident_alone_and_its_seconds_before_are_recorded() {
        let ns = Duration::from_nanos;
        let window = WindowSettings { before: ns(300), after: ns(100), memory_mib: 1 };
        let span = |triggers: &[Trigger], held_from_ns, judged_until_ns| {
            let Span { recorded_ns, start_ns, end_ns } =
                Span::of(triggers, &window, (held_from_ns, 2_000), judged_until_ns);
            [recorded_ns, start_ns, end_ns]
        };
        let held = Trigger::new(Reason::Held, 1_000, 50);
        assert_eq!(span(&[held], 0, 0), [700, 700, 1_100], "the first one");
        assert_eq!(span(&[held], 0, 900), [700, 900, 1_100], "another glitch was before 900");
        assert_eq!((span(&[held], 0, 600), span(&[held], 950, 900)), ([700, 700, 1_100], [950, 950, 1_100]));
        let known_late = Trigger::new(Reason::Late, 890, 50);
        assert_eq!(span(&[held, known_late], 0, 900), [590, 590, 1_100], "not judged without its own packet");
        let gap = Trigger::new(Reason::Gap, 1_000, 200);
        assert_eq!(span(&[gap], 0, 850), [500, 850, 1_100]);
    }
}
