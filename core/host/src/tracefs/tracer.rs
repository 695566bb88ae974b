//! The tracer of this tier: settings, rings and the stream of records out of them.

use super::assemble::Assembler;
use super::events::{Scope, TRACEPOINTS, filter};
use super::format::PageLayout;
use super::instance::Instance;
use super::page::{Lost, PageEvent, decode};
use super::rings::{Ring, make_instance, open_rings};
use super::root::refused;
use super::survey::{Bound, full_name};
use super::timeline::{Timeline, TraceClock, monotonic_now_ns};
use super::unpaired::Unpaired;
use crate::trace::{Tier, TraceCounts, TraceError, TraceSink, TraceSpec, Tracer};
use quaver_abi::record::EventRecord;
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;

/// Bytes that an event takes in a ring on average, by a busy machine's mix (a context switch takes 68).
const OCTETS_PER_EVENT: usize = 40;
/// Pages read between two pairings of the clocks: a mebibyte.
const PAGES_PER_BATCH: usize = 256;

/// A running trace. The instance goes when this is dropped.
pub struct TracefsTracer {
    // Fields are dropped in this order: the kernel keeps an instance as long as a file below it is open.
    pipes: Vec<Pipe>,
    instance: Instance,
    bound: Bound,
    layout: PageLayout,
    timeline: Timeline,
    assembler: Assembler,
    followed: BTreeSet<u32>,
    blind: Vec<String>,
    recording: bool,
    /// When recording was switched off, each time.
    pauses_ns: Vec<u64>,
    pages_per_drain: usize,
    pages: Vec<u8>,
}

/// One CPU's ring.
struct Pipe {
    ring: Ring,
    /// How many of the pauses this CPU's stream has passed.
    pauses_seen: usize,
}

impl TracefsTracer {
    /// Starts recording what `spec` asks for. Instances that killed runs left behind are removed first.
    ///
    /// Packets of `spec.flow` are not stamped ([`Tracer::blind`] says so).
    pub fn start(spec: &TraceSpec) -> Result<Self, TraceError> {
        let mut tracer = Self::prepare(spec)?;
        tracer.set_recording(true)?;
        Ok(tracer)
    }

    /// Makes the instance for what `spec` asks for. No tracepoint is enabled before [`Tracer::set_recording`].
    pub fn prepare(spec: &TraceSpec) -> Result<Self, TraceError> {
        let (_, instance, layout) = make_instance("use the BPF tier")?;
        let clock = set_clock(&instance)?;
        let buffer_bytes = set_buffers(&instance, spec)?;
        if !spec.cpus.is_empty() {
            instance.set("tracing_cpumask", &cpu_mask(&spec.cpus))?;
        }
        let followed = followed_threads(spec);
        let mut bound = Bound::default();
        for tracepoint in TRACEPOINTS {
            if tracepoint.scope == Scope::Machine || !followed.is_empty() {
                bound.bind(instance.dir(), tracepoint);
            }
        }
        for tracepoint in &bound.present {
            if let Some(text) = filter(tracepoint.scope, &followed) {
                // Without the filter, records of other threads are sorted out when they are read.
                let _ = instance.set(&event_file(tracepoint.group, tracepoint.name, "filter"), &text);
            }
        }
        let rings = open_rings(instance.dir(), &spec.cpus)?;
        let pipes = rings.into_iter().map(|ring| Pipe { ring, pauses_seen: 0 }).collect();
        let blind = blind(&bound, spec);
        Ok(Self {
            pipes,
            instance,
            bound,
            layout,
            timeline: Timeline::new(clock),
            assembler: Assembler::default(),
            followed,
            blind,
            recording: false,
            pauses_ns: Vec::new(),
            pages_per_drain: buffer_bytes.div_ceil(layout.size).max(PAGES_PER_BATCH),
            pages: vec![0; layout.size * PAGES_PER_BATCH],
        })
    }

    /// The clock that stamps the records.
    pub fn clock(&self) -> TraceClock {
        self.timeline.clock()
    }

    /// Name of the trace instance, below tracefs' `instances`.
    pub fn instance_name(&self) -> &str {
        self.instance.name()
    }

    /// Entries and exits that could not be paired so far.
    pub fn unpaired(&self) -> Unpaired {
        self.assembler.unpaired()
    }

    /// Hands over at most `limit` pages of each CPU.
    fn drain_pages(&mut self, limit: usize, sink: &mut dyn TraceSink) -> Result<(), TraceError> {
        let mut pipes = std::mem::take(&mut self.pipes);
        let result = pipes.iter_mut().try_for_each(|pipe| {
            let mut pages_left = limit;
            while pages_left > 0 {
                let pages = self.read_pages(pipe, pages_left.min(PAGES_PER_BATCH))?;
                if pages == 0 {
                    break;
                }
                pages_left -= pages;
                // All records read are older than this pairing, so conversion interpolates.
                self.timeline.anchor_now();
                self.take_pages(pipe, pages, sink);
            }
            Ok(())
        });
        self.pipes = pipes;
        result
    }

    /// Reads up to `limit` pages into our memory; how many there were.
    fn read_pages(&mut self, pipe: &mut Pipe, limit: usize) -> Result<usize, TraceError> {
        for (index, page) in self.pages.chunks_exact_mut(self.layout.size).take(limit).enumerate() {
            match pipe.ring.read_page(page) {
                Ok(true) => {}
                Ok(false) => return Ok(index),
                Err(source) => {
                    let operation =
                        format!("reading trace pages of CPU {} from {}", pipe.ring.cpu, self.instance.name());
                    return Err(TraceError::Os { operation, source });
                }
            }
        }
        Ok(limit)
    }

    /// Decodes `count` pages of our memory and hands over what they complete.
    fn take_pages(&mut self, pipe: &mut Pipe, count: usize, sink: &mut dyn TraceSink) {
        let cpu = pipe.ring.cpu;
        let mut emit = |record: EventRecord| sink.event(record);
        for page in self.pages.chunks_exact(self.layout.size).take(count) {
            let mut events: Vec<PageEvent<'_>> = Vec::with_capacity(self.layout.size / 16);
            let outcome = decode(page, &self.layout, |event| events.push(event));
            if !matches!(outcome, Ok(Lost::Nothing)) {
                self.assembler.lost(cpu, &mut emit);
            }
            for event in &events {
                let Some(Some(reader)) = self.bound.readers.get(usize::from(event.id)) else { continue };
                let Some((current, what)) = reader.read(event.record, &self.followed) else { continue };
                let Some(now_ns) = self.timeline.monotonic_ns(event.timestamp) else { continue };
                while let Some(pause_ns) = self.pauses_ns.get(pipe.pauses_seen).filter(|ns| now_ns > **ns) {
                    self.assembler.cut(cpu, *pause_ns, &mut emit);
                    pipe.pauses_seen += 1;
                }
                self.assembler.feed(cpu, now_ns, current, &what, &mut emit);
            }
            if outcome.is_err() {
                self.assembler.lost(cpu, &mut emit);
            }
        }
    }

    /// Events that the kernel overwrote or had no room for, over all CPUs.
    fn events_lost(&self) -> u64 {
        let stats = |cpu| self.instance.dir().read(&format!("per_cpu/cpu{cpu}/stats"));
        self.pipes.iter().filter_map(|pipe| stats(pipe.ring.cpu).ok()).map(|text| lost_in(&text)).sum()
    }
}

impl Tracer for TracefsTracer {
    fn tier(&self) -> Tier {
        Tier::Tracefs
    }

    fn blind(&self) -> Vec<String> {
        self.blind.clone()
    }

    fn attach_receiver(&mut self, _socket: BorrowedFd<'_>) -> Result<(), TraceError> {
        // What a run lacks without it is among the blind phrases from the start.
        Ok(())
    }

    fn set_recording(&mut self, on: bool) -> Result<(), TraceError> {
        if on == self.recording {
            return Ok(());
        }
        let switch = if on { "1" } else { "0" };
        if !on {
            self.instance.set("tracing_on", "0")?;
            self.pauses_ns.push(monotonic_now_ns());
            self.recording = false;
        }
        for tracepoint in &self.bound.present {
            let file = event_file(tracepoint.group, tracepoint.name, "enable");
            if let Err(error) = self.instance.set(&file, switch) {
                self.blind.push(format!("{} ({}: {error})", tracepoint.class, full_name(tracepoint)));
            }
        }
        if on {
            self.timeline.anchor_now();
            self.instance.set("tracing_on", "1")?;
            self.recording = true;
        }
        Ok(())
    }

    fn drain(&mut self, sink: &mut dyn TraceSink) -> Result<(), TraceError> {
        self.drain_pages(self.pages_per_drain, sink)
    }

    fn finish(mut self: Box<Self>, sink: &mut dyn TraceSink) -> Result<TraceCounts, TraceError> {
        self.set_recording(false)?;
        self.drain_pages(usize::MAX, sink)?;
        for pipe in &self.pipes {
            // The last pause is the end of recording.
            for pause_ns in &self.pauses_ns[pipe.pauses_seen..] {
                self.assembler.cut(pipe.ring.cpu, *pause_ns, &mut |record| sink.event(record));
            }
        }
        Ok(TraceCounts { events_lost: self.events_lost(), ..TraceCounts::default() })
    }
}

fn event_file(group: &str, name: &str, file: &str) -> String {
    format!("events/{group}/{name}/{file}")
}

fn set_clock(instance: &Instance) -> Result<TraceClock, TraceError> {
    let offered =
        instance.dir().read("trace_clock").map_err(|e| refused("reading tracefs trace_clock", e))?;
    let clock = TraceClock::best_of(&offered).ok_or_else(|| TraceError::NotSupported {
        operation: "choosing a trace clock".to_owned(),
        remedy: format!("needs x86-tsc or mono, the kernel offers: {}", offered.trim()),
    })?;
    instance.set("trace_clock", clock.name())?;
    Ok(clock)
}

/// Sizes each traced CPU's ring and gives back how many bytes that is.
fn set_buffers(instance: &Instance, spec: &TraceSpec) -> Result<usize, TraceError> {
    const SMALLEST_KB: usize = 64;
    const LARGEST_KB: usize = 512 * 1024;
    let wanted_kb = spec.event_capacity.saturating_mul(OCTETS_PER_EVENT) / 1024;
    let size_kb = wanted_kb.clamp(SMALLEST_KB, LARGEST_KB);
    if spec.cpus.is_empty() {
        instance.set("buffer_size_kb", &size_kb.to_string())?;
    }
    for cpu in &spec.cpus {
        if !instance.dir().has(&format!("per_cpu/cpu{cpu}")) {
            return Err(TraceError::NotSupported {
                operation: format!("tracing CPU {cpu}"),
                remedy: "this machine has no such CPU; see `lscpu`".to_owned(),
            });
        }
        instance.set(&format!("per_cpu/cpu{cpu}/buffer_size_kb"), &size_kb.to_string())?;
    }
    Ok(size_kb * 1024)
}

/// A CPU mask as the kernel reads it: groups of 32 bits in hexadecimal, the highest first.
fn cpu_mask(cpus: &[u16]) -> String {
    let mut groups = vec![0u32; usize::from(cpus.iter().copied().max().unwrap_or(0)) / 32 + 1];
    for cpu in cpus {
        groups[usize::from(*cpu) / 32] |= 1 << (cpu % 32);
    }
    groups.iter().rev().map(|group| format!("{group:08x}")).collect::<Vec<_>>().join(",")
}

/// The threads of `spec`, and those that its observed process has now.
fn followed_threads(spec: &TraceSpec) -> BTreeSet<u32> {
    let mut threads: BTreeSet<u32> = spec.threads.iter().copied().collect();
    if let Some(pid) = spec.observed_process {
        let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        threads.extend(entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()));
    }
    threads
}

/// What a ring's `stats` file counts as lost.
fn lost_in(stats: &str) -> u64 {
    let lost = ["overrun", "commit overrun", "dropped events"];
    let count = |line: &str| {
        let (key, value) = line.split_once(':')?;
        lost.contains(&key.trim()).then(|| value.trim().parse().ok())?
    };
    stats.lines().filter_map(count).fold(0, u64::saturating_add)
}

fn blind(bound: &Bound, spec: &TraceSpec) -> Vec<String> {
    let mut blind = bound.blind();
    if spec.flow.is_some() {
        blind.push(
            "packets in the kernel (tracefs shows no payload and no port, so no packet can be told from another; \
             needs the BPF tier)"
                .to_owned(),
        );
    }
    if spec.flow.is_some() && spec.observed_process.is_none() {
        blind.push("entry into the socket's queue (tracefs has no socket filter)".to_owned());
    }
    if spec.observed_process.is_some() {
        blind.push("receive calls of the observed process (needs the BPF tier)".to_owned());
    }
    if !spec.cpus.is_empty() {
        blind.push(
            "wake-ups, migrations and interprocessor interrupts that come from other CPUs than those traced \
             (only the traced CPUs' rings are written)"
                .to_owned(),
        );
    }
    blind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_groups_of_32_bits() {
        assert_eq!(cpu_mask(&[0, 1]), "00000003");
        assert_eq!(cpu_mask(&[33, 2]), "00000002,00000004");
    }

    #[test]
    fn losses_are_summed_from_stats() {
        let stats =
            "entries: 9\noverrun: 5\ncommit overrun: 1\nbytes: 77\ndropped events: 2\nread events: 3\n";
        assert_eq!(lost_in(stats), 8);
        assert_eq!(lost_in("garbage"), 0);
    }
}
