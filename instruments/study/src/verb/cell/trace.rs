//! The tracer of a cell: BPF where there is the right to it, else none, so that only the kernel's receive stamp and the
//! application's are left.

use super::super::plan::StudyPlan;
use super::super::settings::Settings;
use anyhow::Context;
use quaver_abi::record::{EventRecord, StampRecord};
use quaver_host::trace::{Flow, Payload, TraceCounts, TraceSink, TraceSpec, Tracer};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Most packets whose stamps are held at once: 96 bytes each.
const MOST_STAMPS: usize = 1 << 22;
/// Most events held at once for one CPU: 32 bytes each.
const MOST_EVENTS: usize = 1 << 22;
/// Events a second on a CPU that no stream causes, generously.
const OTHER_EVENTS_PER_SECOND: f64 = 60_000.0;
/// Events that a packet brings.
const EVENTS_PER_PACKET: f64 = 3.0;

/// Numbers of the two threads.
#[derive(Clone, Copy)]
pub(super) struct Threads {
    pub(super) sink: u32,
    pub(super) source: u32,
}

/// What a tracer recorded, in its own order.
#[derive(Default)]
pub(super) struct Traced {
    pub(super) tier: &'static str,
    pub(super) reason: Option<String>,
    pub(super) stamps: Vec<StampRecord>,
    pub(super) events: Vec<EventRecord>,
    pub(super) counts: TraceCounts,
}

impl TraceSink for Traced {
    fn stamp(&mut self, record: StampRecord) {
        self.stamps.push(record);
    }

    fn event(&mut self, record: EventRecord) {
        self.events.push(record);
    }
}

impl Traced {
    /// What the reader has to know.
    pub(super) fn note(&self) -> Option<String> {
        if let Some(reason) = &self.reason {
            return Some(format!("no ISR and softirq layers: {reason}"));
        }
        let lost = self.counts.stamps_lost;
        (lost > 0).then(|| format!("stamps of {lost} packets were overwritten before they were read"))
    }
}

/// A tracer at work, or why there is none.
pub(super) struct Tracing {
    tracer: Option<Box<dyn Tracer>>,
    traced: Traced,
    /// Empty its memory meanwhile.
    drain: bool,
}

impl Tracing {
    /// Starts it, for one stream.
    pub(super) fn start(
        plan: &StudyPlan,
        settings: &Settings,
        address: SocketAddr,
        threads: Threads,
        length: Duration,
    ) -> Self {
        let mut traced = Traced { tier: "user", ..Traced::default() };
        if !plan.trace {
            return Self { tracer: None, traced, drain: false };
        }
        let spec = spec(plan, settings, address, threads, length);
        let holds_all = spec.stamp_capacity < MOST_STAMPS && spec.event_capacity < MOST_EVENTS;
        let tracer = match quaver_host::bpf::start(&spec) {
            Ok(tracer) => {
                traced.tier = tracer.tier().name();
                Some(tracer)
            }
            Err(error) => {
                traced.reason = Some(error.to_string());
                None
            }
        };
        // With no CPU to spare, memory that holds the whole cell is read when all is over.
        Self { tracer, traced, drain: plan.housekeeping || !holds_all }
    }

    /// Adds the layer right before the socket's queue.
    pub(super) fn attach(&mut self, socket: BorrowedFd<'_>) -> anyhow::Result<()> {
        match &mut self.tracer {
            Some(tracer) => tracer.attach_receiver(socket).context("tracing the sink's socket"),
            None => Ok(()),
        }
    }

    /// Whether anything traces.
    pub(super) fn traces(&self) -> bool {
        self.tracer.is_some()
    }

    /// Attaches or detaches every probe.
    pub(super) fn set_recording(&mut self, on: bool) -> anyhow::Result<()> {
        match &mut self.tracer {
            Some(tracer) => tracer.set_recording(on).context("switching the tracer"),
            None => Ok(()),
        }
    }

    pub(super) fn tick(&mut self) -> anyhow::Result<()> {
        match &mut self.tracer {
            Some(tracer) if self.drain => {
                tracer.drain(&mut self.traced).context("reading the tracer's memory")
            }
            _ => Ok(()),
        }
    }

    pub(super) fn finish(mut self) -> anyhow::Result<Traced> {
        if let Some(tracer) = self.tracer.take() {
            self.traced.counts = tracer.finish(&mut self.traced).context("ending the tracer")?;
        }
        Ok(self.traced)
    }
}

fn spec(
    plan: &StudyPlan,
    settings: &Settings,
    address: SocketAddr,
    threads: Threads,
    length: Duration,
) -> TraceSpec {
    let seconds = length.as_secs_f64() + 1.0;
    let packets = seconds * 1e9 / plan.facts.period_ns;
    let events = packets * EVENTS_PER_PACKET + seconds * OTHER_EVENTS_PER_SECOND;
    let mut cpus = vec![settings.sink_cpu, settings.source_cpu];
    cpus.extend(&settings.rps_cpus);
    cpus.sort_unstable();
    cpus.dedup();
    TraceSpec {
        flow: Some(Flow {
            address: Some(address.ip()),
            ports: vec![address.port()],
            payload: Payload::Ours { offset: plan.header_offset() as u16 },
        }),
        threads: vec![threads.sink, threads.source],
        observed_process: None,
        cpus,
        stamp_capacity: ((packets * 1.05) as usize + 65_536).min(MOST_STAMPS),
        event_capacity: (events as usize + 65_536).min(MOST_EVENTS),
    }
}
