//! The running tracer: recording on and off, and handing over what was recorded.

use super::btf::KernelTypes;
use super::layout::{Control, CpuState, DROP_REASONS, Queue};
use super::load::{self, Loaded, Request, Sizes, failed, invalid};
use super::memory::{Mapping, Slot, shared_word};
use super::open_intervals;
use super::programs::{ENQUEUE, PROGRAMS, SAMPLE, SAMPLED};
use super::sampling;
use super::steal::{self, StealCount};
use crate::root::HostRoot;
use crate::trace::{QueueCounts, Tier, TraceCounts, TraceError, TraceSink, TraceSpec, Tracer};
use libbpf_rs::{Link, MapCore as _, MapFlags, Object};
use quaver_abi::record::{EventRecord, StampRecord, stamp_flags};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::ptr::addr_of_mut;
use std::sync::atomic::Ordering;
use zerocopy::FromBytes as _;

/// Programs that may nest inside one another on a CPU while a place in the ring is claimed.
const NESTING: u64 = 16;
/// A packet that has no more stamps after this long will get none.
const SETTLED_NS: u64 = 20_000_000;
/// The same for another process's packets, which may wait in its socket's queue: a large one that stays full holds some
/// seconds of a stream.
const SETTLED_OBSERVED_NS: u64 = 10_000_000_000;
/// Where packets are received in their order: one that has no stamp so long after a later one was received gets none.
const OVERTAKEN_NS: u64 = 1_000_000_000;
/// Packets behind one without a stamp that are asked whether they were received.
const MOST_ASKED: u64 = 4_096;
/// The shortest event ring.
const SMALLEST_RING: usize = 256;

/// Recording by BPF programs.
pub(crate) struct BpfTracer {
    links: Vec<Link>,
    receivers: Vec<OwnedFd>,
    object: Object,
    pub(super) cpus: Mapping<CpuState>,
    control: Mapping<Control>,
    stamps: Mapping<StampRecord>,
    events: Mapping<EventRecord>,
    drops: Mapping<u64>,
    drop_names: BTreeMap<u32, String>,
    blind: Vec<String>,
    observed: bool,
    in_order: bool,
    samples: bool,
    recording: bool,
    next_arrival: u64,
    stamps_lost: u64,
    closed: Vec<EventRecord>,
}

impl BpfTracer {
    /// Loads the programs. Nothing is attached and nothing recorded before [`Tracer::set_recording`].
    pub(crate) fn prepare(spec: &TraceSpec, types: KernelTypes) -> Result<Self, TraceError> {
        let possible = libbpf_rs::num_possible_cpus().map_err(|error| failed("counting CPUs", &error))?;
        let rings = Rings::plan(spec, possible);
        let sizes = Sizes {
            cpus: possible as u32,
            stamps: record_count(spec.stamp_capacity.next_power_of_two())?,
            events: record_count(rings.total())?,
        };
        let steal = steal::find(&types, &HostRoot::system());
        let Loaded { object, missing } = load::load(Request { spec, types: &types, sizes, steal: &steal })?;
        load::check_sizes(&object)?;
        let mut tracer = Self {
            links: Vec::new(),
            receivers: Vec::new(),
            cpus: map(&object, "cpus")?,
            control: map(&object, "control")?,
            stamps: map(&object, "stamps")?,
            events: map(&object, "events")?,
            drops: map(&object, "drops")?,
            object,
            drop_names: types.drop_reasons,
            blind: blind(&missing, &steal),
            samples: spec.observed_process.is_some() && !spec.threads.is_empty(),
            observed: spec.observed_process.is_some(),
            in_order: false,
            recording: false,
            next_arrival: 1,
            stamps_lost: 0,
            closed: Vec::new(),
        };
        if tracer.samples
            && let Err(why) = sampling::trial()
        {
            tracer.blind.push(format!("{SAMPLED} ({why})"));
        }
        rings.lay_out(&tracer.cpus);
        tracer.name_threads(&spec.threads)?;
        Ok(tracer)
    }

    fn name_threads(&mut self, threads: &[u32]) -> Result<(), TraceError> {
        let map = self.object.maps().find(|map| map.name() == "threads");
        let map = map.ok_or_else(|| invalid("naming threads", "the object has no map of threads"))?;
        for thread in threads {
            map.update(&thread.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY)
                .map_err(|error| failed(&format!("naming thread {thread} to the BPF programs"), &error))?;
        }
        Ok(())
    }

    fn attach_all(&mut self) -> Result<(), TraceError> {
        for program in self.object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            if name == ENQUEUE || !program.autoload() {
                continue;
            }
            if name == SAMPLE {
                self.links.extend(sampling::attach(&program, &self.cpus));
                continue;
            }
            let link =
                program.attach().map_err(|error| failed(&format!("attaching BPF program {name}"), &error))?;
            self.links.push(link);
        }
        self.receivers.iter().try_for_each(|socket| self.attach_filter(socket.as_fd()))
    }

    fn attach_filter(&self, socket: BorrowedFd<'_>) -> Result<(), TraceError> {
        let program = self.object.progs_mut().find(|program| program.name() == ENQUEUE && program.autoload());
        let Some(program) = program else { return Ok(()) };
        set_socket_option(socket, libc::SO_ATTACH_BPF, program.as_fd().as_raw_fd())
            .map_err(|source| TraceError::Os { operation: "attaching the socket filter".to_owned(), source })
    }

    fn detach_all(&mut self) -> Result<(), TraceError> {
        self.links.clear();
        for socket in &self.receivers {
            match set_socket_option(socket.as_fd(), libc::SO_DETACH_FILTER, 0) {
                Err(source) if source.raw_os_error() != Some(libc::ENOENT) => {
                    return Err(TraceError::Os {
                        operation: "detaching the socket filter".to_owned(),
                        source,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Hands over slots in order of arrival, up to the first that may still change (none may, when `all`).
    fn drain_stamps(&mut self, sink: &mut dyn TraceSink, all: bool) {
        let newest = self.arrivals();
        let settled_ns = if self.observed { SETTLED_OBSERVED_NS } else { SETTLED_NS };
        let settled_before_ns = monotonic_ns().saturating_sub(settled_ns);
        let capacity = self.stamps.len() as u64;
        if newest >= self.next_arrival + capacity {
            let oldest = newest - capacity + 1;
            self.stamps_lost += oldest - self.next_arrival;
            self.next_arrival = oldest;
        }
        while self.next_arrival <= newest {
            let crowded = newest - self.next_arrival > capacity / 4 * 3;
            match self.stamps.slot(self.next_arrival) {
                Slot::Holds(record) => {
                    let settled = all || crowded || self.is_final(&record, settled_before_ns);
                    if !settled && !self.is_overtaken(newest) {
                        return;
                    }
                    sink.stamp(record);
                }
                Slot::Overwritten => self.stamps_lost += 1,
                Slot::NotYet if all => self.stamps_lost += 1,
                Slot::NotYet => return,
            }
            self.next_arrival += 1;
        }
    }

    fn is_final(&self, record: &StampRecord, settled_before_ns: u64) -> bool {
        let last = if self.observed { record.user_ns } else { record.ready_ns };
        last != 0
            || record.flags & (stamp_flags::DROPPED | stamp_flags::ELSEWHERE) != 0
            || record.receive_ns.max(record.enqueued_ns).max(record.ready_ns) < settled_before_ns
    }

    /// Whether a packet that arrived after the next one was received long ago.
    fn is_overtaken(&self, newest: u64) -> bool {
        let behind = self.next_arrival + 1..=newest.min(self.next_arrival + MOST_ASKED);
        let received = |arrival| match self.stamps.slot(arrival) {
            Slot::Holds(record) if record.user_ns != 0 => Some(record.user_ns),
            _ => None,
        };
        let first = if self.in_order { behind.into_iter().find_map(received) } else { None };
        first.is_some_and(|user_ns| user_ns + OVERTAKEN_NS < monotonic_ns())
    }

    fn drain_events(&mut self, sink: &mut dyn TraceSink) {
        for cpu in 0..self.cpus.len() {
            let state = self.cpus.copy(cpu);
            let mut position = state.consumed;
            while position < state.produced {
                let index = state.ring_base + (position & state.ring_mask);
                let Some(event) = self.events.take(index as usize) else { break };
                sink.event(event);
                position += 1;
            }
            // SAFETY: `consumed` lies inside the mapped state and is aligned; only this thread writes it.
            let consumed = unsafe { shared_word(addr_of_mut!((*self.cpus.at(cpu)).consumed)) };
            consumed.store(position, Ordering::Release);
        }
    }

    fn arrivals(&self) -> u64 {
        // SAFETY: `arrivals` lies inside the mapped value and is aligned; programs write it atomically.
        unsafe { shared_word(addr_of_mut!((*self.control.at(0)).arrivals)) }.load(Ordering::Acquire)
    }

    fn set_recording_ns(&self, instant_ns: u64) {
        // SAFETY: `recording_ns` lies inside the mapped value and is aligned; programs only read it.
        unsafe { shared_word(addr_of_mut!((*self.control.at(0)).recording_ns)) }
            .store(instant_ns, Ordering::Release);
    }

    /// Tells the programs to forget the receive queues that they knew.
    fn count_recording(&self) {
        // SAFETY: `recordings` lies inside the mapped value and is aligned; programs only read it.
        unsafe { shared_word(addr_of_mut!((*self.control.at(0)).recordings)) }.fetch_add(1, Ordering::AcqRel);
    }

    fn counts(&self) -> TraceCounts {
        let mut drops = BTreeMap::new();
        for index in 0..self.drops.len() {
            let count = self.drops.copy(index);
            if count > 0 {
                let reason = (((index / DROP_REASONS) << 16) | (index % DROP_REASONS)) as u32;
                let name =
                    self.drop_names.get(&reason).cloned().unwrap_or_else(|| format!("REASON_{reason:#x}"));
                *drops.entry(name).or_insert(0) += count;
            }
        }
        TraceCounts {
            packets_seen: self.arrivals(),
            stamps_lost: self.stamps_lost,
            events_lost: self.events_lost(),
            drops,
            steal_disagreements: self.steal_disagreements(),
        }
    }

    /// What the host's count and `/proc/stat` disagree on, where the programs found the count.
    fn steal_disagreements(&self) -> Vec<String> {
        let states = (0..self.cpus.len()).map(|cpu| (cpu as u16, self.cpus.copy(cpu)));
        let counted =
            states.filter(|(_, state)| state.steal_ns != 0).map(|(cpu, state)| (cpu, state.steal_ns));
        steal::disagreements(&counted.collect(), &HostRoot::system().text("proc/stat").unwrap_or_default())
    }
}

impl Tracer for BpfTracer {
    fn tier(&self) -> Tier {
        Tier::Bpf
    }

    fn blind(&self) -> Vec<String> {
        self.blind.clone()
    }

    fn attach_receiver(&mut self, socket: BorrowedFd<'_>) -> Result<(), TraceError> {
        let duplicate = socket.try_clone_to_owned().map_err(|source| TraceError::Os {
            operation: "duplicating the receive socket".to_owned(),
            source,
        })?;
        if self.recording {
            self.attach_filter(socket)?;
        }
        self.receivers.push(duplicate);
        Ok(())
    }

    fn set_recording(&mut self, on: bool) -> Result<(), TraceError> {
        if on == self.recording {
            return Ok(());
        }
        if on {
            for cpu in 0..self.cpus.len() {
                open_intervals::forget(&self.cpus, cpu);
            }
            self.set_recording_ns(0);
            self.count_recording();
            if let Err(error) = self.attach_all() {
                self.detach_all()?;
                return Err(error);
            }
            // Programs are attached one after the other: a packet queued in between may have been received before
            // the program that sees that was there.
            self.count_recording();
            self.set_recording_ns(monotonic_ns());
        } else {
            let end_ns = monotonic_ns();
            self.detach_all()?;
            for cpu in 0..self.cpus.len() {
                open_intervals::close(cpu as u16, &self.cpus.copy(cpu), end_ns, &mut self.closed);
            }
        }
        self.recording = on;
        Ok(())
    }

    fn drain(&mut self, sink: &mut dyn TraceSink) -> Result<(), TraceError> {
        self.drain_stamps(sink, false);
        self.drain_events(sink);
        self.closed.drain(..).for_each(|event| sink.event(event));
        Ok(())
    }

    fn queues(&self) -> Option<QueueCounts> {
        let map = self.object.maps().find(|map| map.name() == "queues").filter(|_| self.observed)?;
        // SAFETY: `recordings` and `sockets` lie inside the mapped value and are aligned; every access is atomic.
        let [recording, sockets] = unsafe {
            let control = self.control.at(0);
            [addr_of_mut!((*control).recordings), addr_of_mut!((*control).sockets)]
                .map(|word| shared_word(word).load(Ordering::Acquire))
        };
        let mut all = QueueCounts::default();
        for number in 0..u32::try_from(sockets).ok()?.min(map.max_entries()) {
            let bytes = map.lookup(&number.to_ne_bytes(), MapFlags::ANY).ok()??;
            let queue = Queue::read_from_bytes(&bytes).ok()?;
            if queue.recording == recording {
                all.came += queue.came;
                all.taken += queue.taken;
                all.waiting += queue.length;
            }
        }
        Some(all)
    }

    fn expect_order(&mut self) {
        self.in_order = true;
    }

    fn events_lost(&self) -> u64 {
        (0..self.cpus.len()).map(|cpu| self.cpus.copy(cpu).lost).sum()
    }

    fn in_flight(&mut self, sink: &mut dyn TraceSink) {
        let (next_arrival, stamps_lost) = (self.next_arrival, self.stamps_lost);
        self.drain_stamps(sink, true);
        (self.next_arrival, self.stamps_lost) = (next_arrival, stamps_lost);
    }

    fn snapshot(&mut self, sink: &mut dyn TraceSink) -> Result<TraceCounts, TraceError> {
        let (now_ns, mut open) = (monotonic_ns(), Vec::new());
        for cpu in 0..self.cpus.len() {
            open_intervals::close(cpu as u16, &self.cpus.copy(cpu), now_ns, &mut open);
        }
        open.into_iter().for_each(|event| sink.event(event));
        if self.samples {
            sampling::stacks(&self.object, sink)?;
        }
        Ok(self.counts())
    }

    fn finish(mut self: Box<Self>, sink: &mut dyn TraceSink) -> Result<TraceCounts, TraceError> {
        self.set_recording(false)?;
        self.drain_stamps(sink, true);
        self.drain_events(sink);
        self.closed.drain(..).for_each(|event| sink.event(event));
        if self.samples {
            sampling::stacks(&self.object, sink)?;
        }
        Ok(self.counts())
    }
}

impl Drop for BpfTracer {
    fn drop(&mut self) {
        // The socket of a receiver outlives us, so its filter must go; links and programs go with their files.
        let _ = self.detach_all();
    }
}

/// Places of the CPUs' event rings in their common array: as long as asked for the recorded CPUs; the others,
/// which only report wake-ups, migrations and interrupts sent, share the length of one.
struct Rings {
    lengths: Vec<usize>,
    recorded: Vec<bool>,
}

impl Rings {
    fn plan(spec: &TraceSpec, possible: usize) -> Self {
        let recorded: Vec<bool> =
            (0..possible).map(|cpu| spec.cpus.is_empty() || spec.cpus.contains(&(cpu as u16))).collect();
        let others = recorded.iter().filter(|recorded| !**recorded).count().max(1);
        let full = spec.event_capacity.max(SMALLEST_RING).next_power_of_two();
        let part = (full / others.next_power_of_two()).max(SMALLEST_RING);
        let lengths = recorded.iter().map(|recorded| if *recorded { full } else { part }).collect();
        Self { lengths, recorded }
    }

    fn total(&self) -> usize {
        self.lengths.iter().sum()
    }

    /// Tells the programs. Nothing is attached yet, so plain writes do.
    fn lay_out(&self, cpus: &Mapping<CpuState>) {
        let mut base = 0;
        for (cpu, (length, recorded)) in self.lengths.iter().zip(&self.recorded).enumerate() {
            let state = cpus.at(cpu);
            // SAFETY: inside the mapping and aligned; no program runs yet.
            unsafe {
                (*state).ring_base = base;
                (*state).ring_mask = *length as u64 - 1;
                (*state).ring_limit = *length as u64 - NESTING;
                (*state).recorded = u32::from(*recorded);
            }
            base += *length as u64;
        }
    }
}

fn record_count(count: usize) -> Result<u32, TraceError> {
    u32::try_from(count)
        .map_err(|_| invalid("sizing the BPF memory", "ask for fewer records, or trace fewer CPUs"))
}

/// Maps all values of a map of the object.
fn map<T: zerocopy::FromBytes>(object: &Object, name: &str) -> Result<Mapping<T>, TraceError> {
    let operation = || format!("mapping the BPF map {name}");
    let found = object.maps().find(|map| map.name() == name);
    let found = found.ok_or_else(|| invalid(&operation(), "the object has no such map"))?;
    Mapping::new(found.as_fd(), found.max_entries() as usize)
        .map_err(|source| TraceError::Os { operation: operation(), source })
}

/// One phrase for each thing not seen, with the reason.
fn blind(missing: &BTreeMap<&'static str, String>, steal: &StealCount) -> Vec<String> {
    let mut phrases: Vec<String> = Vec::new();
    let mut named = Vec::new();
    for program in PROGRAMS {
        if let Some(why) = missing.get(program.name).filter(|_| !named.contains(&program.sees)) {
            named.push(program.sees);
            phrases.push(format!("{} ({why})", program.sees));
        }
    }
    if let StealCount::Unreadable(why) = steal {
        phrases.push(format!("steal by the hypervisor ({why})"));
    }
    phrases
}

fn set_socket_option(socket: BorrowedFd<'_>, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the option takes one int, which lives through the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
