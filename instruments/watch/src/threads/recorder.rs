//! The flight recorder of CPUs: what ran there, while threads wait.

use super::{LOOK, SETTLE};
use crate::board::Board;
use crate::config::Settings;
use crate::flight::{FlightRecorder, Snapshot};
use crate::frozen::{Clocks, WindowRecords};
use quaver_analysis::model::{Circumstances, Names};
use quaver_clock::monotonic_ns;
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_host::trace::{TraceCounts, TraceSpec, Tracer};
use quaver_instrument::args::TierName;
use quaver_instrument::holes::Holes;
use quaver_instrument::host_state::HostState;
use quaver_instrument::names::name_threads;
use quaver_instrument::tier;
use quaver_store::manifest::Window;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Events that the tracer's memory holds between two readings: of one CPU, and of all together.
const CPU_EVENTS: usize = 1 << 16;
const MOST_EVENTS: usize = 1 << 19;

/// The tracer and the last seconds of its events.
pub(super) struct Recorder {
    tracer: Box<dyn Tracer>,
    flight: FlightRecorder,
    traced: Vec<u16>,
    host: Arc<HostFacts>,
    holes: Holes,
    /// Counters at each look, oldest first.
    looks: VecDeque<Look>,
}

/// Counters at one instant.
struct Look {
    at_ns: u64,
    host: HostState,
    events_lost: u64,
}

impl Look {
    fn now(events_lost: u64) -> Self {
        Self { at_ns: now_ns(), host: HostState::read(None), events_lost }
    }
}

fn now_ns() -> u64 {
    monotonic_ns().unsigned_abs()
}

impl Recorder {
    /// Records the CPUs of all tables that have a trigger; none where no table has one.
    pub(super) fn start(settings: &Settings, online: &[u16]) -> anyhow::Result<Option<Self>> {
        let mut traced = BTreeSet::new();
        for table in settings.threads.iter().filter(|table| table.has_trigger()) {
            let named = |cpu: &&u16| table.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu));
            traced.extend(online.iter().filter(named).copied());
        }
        if traced.is_empty() {
            return Ok(None);
        }
        let traced: Vec<u16> = traced.into_iter().collect();
        let spec = TraceSpec {
            flow: None,
            threads: Vec::new(),
            observed_process: None,
            cpus: traced.clone(),
            stamp_capacity: 1,
            event_capacity: CPU_EVENTS.min(MOST_EVENTS / traced.len()),
        };
        let choice = tier::start(Some(TierName::Bpf), &spec)?;
        let tracer = choice.tracer.ok_or_else(|| anyhow::anyhow!("the BPF tier has no tracer"))?;
        let window = &settings.window;
        let keep = window.before + window.after + SETTLE + Duration::from_secs(1);
        let most_bytes = window.memory_mib as usize * (1 << 20);
        Ok(Some(Self {
            tracer,
            flight: FlightRecorder::new(now_ns(), keep, most_bytes, BTreeSet::new()),
            traced,
            host: Arc::new(HostFacts::read(&HostRoot::system())),
            holes: Holes::begin(0, now_ns()),
            looks: VecDeque::from([Look::now(0)]),
        }))
    }

    /// Empties the tracer's memory. What is too old is let go where `may_trim`.
    pub(super) fn read(&mut self, may_trim: bool) -> anyhow::Result<()> {
        self.tracer.drain(&mut self.flight)?;
        let now_ns = now_ns();
        self.flight.end_reading(now_ns);
        self.holes.look(self.tracer.events_lost(), now_ns);
        if may_trim {
            self.flight.trim(now_ns);
        }
        Ok(())
    }

    /// Reads the counters of the host, and says what was lost.
    pub(super) fn look(&mut self, board: &Board, settings: &Settings) -> anyhow::Result<()> {
        let lost = self.tracer.snapshot(&mut Snapshot::default())?.events_lost;
        let more = lost.saturating_sub(self.looks.back().map_or(0, |look| look.events_lost));
        self.looks.push_back(Look::now(lost));
        let window = settings.window.before + settings.window.after;
        if self.looks.len() > (window.as_secs() / LOOK.as_secs()) as usize + 2 {
            self.looks.pop_front();
        }
        if more > 0 {
            quaver_instrument::tell!(
                "quaver watch: threads: the tracer's memory was full: {more} events are lost"
            );
            for table in settings.threads.iter().filter(|table| table.has_trigger()) {
                board.threads(&table.name, |state| state.records_lost += more);
            }
        }
        Ok(())
    }

    pub(super) fn held_from_ns(&self) -> u64 {
        self.flight.held_from_ns()
    }

    /// Time that is held, and the memory that it takes.
    pub(super) fn held(&self) -> (u64, u64) {
        (now_ns().saturating_sub(self.flight.held_from_ns()), self.flight.bytes() as u64)
    }

    /// Copies what is held of a window. Recording goes on. Lost events are counted from the last look before the window on.
    /// `before` is the time before the trigger that was asked for.
    pub(super) fn freeze(
        &mut self,
        start_ns: u64,
        end_ns: u64,
        before: Duration,
    ) -> anyhow::Result<WindowRecords> {
        let mut snapshot = Snapshot::default();
        let counts = self.tracer.snapshot(&mut snapshot)?;
        let start_ns = start_ns.max(self.flight.held_from_ns());
        let (_, mut events) = self.flight.copy(start_ns, end_ns);
        events.extend(snapshot.open);
        let first = self.looks.iter().rev().find(|look| look.at_ns <= start_ns).or(self.looks.front());
        let later = HostState::read(None);
        let circumstances =
            first.map(|look| look.host.circumstances(&later, &self.host, self.traced.clone()));
        let lost_before = first.map_or(0, |look| look.events_lost);
        let own_threads =
            HostRoot::system().names("proc/self/task").iter().filter_map(|id| id.parse().ok()).collect();
        let mut names = Names::default();
        name_threads(&events, &mut names);
        Ok(WindowRecords {
            clocks: Clocks::now(),
            window: Window { start_ns: start_ns as i64, end_ns: end_ns as i64 },
            before,
            held_because: self.flight.held_because(),
            events,
            names,
            blind: self.tracer.blind(),
            host: Arc::clone(&self.host),
            counts: TraceCounts { events_lost: counts.events_lost.saturating_sub(lost_before), ..counts },
            // The quota that was read is this program's own. That of a thread shows in its records.
            circumstances: Circumstances {
                own_threads,
                quota_stops: 0,
                holes: self.holes.until(end_ns),
                ..circumstances.unwrap_or_default()
            },
        })
    }
}
