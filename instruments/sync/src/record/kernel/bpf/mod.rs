//! The programs of `quaver sync`: what the kernel does to the threads of followed processes, written into one ring.

mod ring;

use super::probes::{Probe, ProbeCost};
use super::scratch::{cost, scratch_places, time_scratch};
use super::{KernelCounts, KernelSource, NOT_TOLD};
use libbpf_rs::{Link, MapCore as _, MapFlags, Object, ObjectBuilder, UprobeOpts};
use quaver_abi::kernel_side::KernelSideRecord;
use quaver_abi::sync::SyncKind;
use quaver_host::bpf::load::{Aligned, failed, invalid, one_at_a_time, set_constants};
use quaver_host::bpf::memory::Mapping;
use quaver_host::bpf::sampling;
use quaver_host::bpf::{PRIVILEGE_REMEDY, kernel_types};
use quaver_host::trace::TraceError;
use ring::Ring;
use std::os::fd::AsFd as _;
use std::path::Path;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/sync.bpf.o")));

/// Which programs there are: name, tracepoint, what is not seen without it.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("sync_sys_enter", "sys_enter", "system calls"),
    ("sync_sys_exit", "sys_exit", "ends of system calls"),
    ("sync_switch", "sched_switch", "which thread has a CPU"),
    ("sync_waking", "sched_waking", "who wakes whom"),
    ("sync_wakeup", "sched_wakeup", "waiting in run queues"),
    ("sync_migrate", "sched_migrate_task", "moves between CPUs"),
    ("sync_irq_entry", "irq_handler_entry", "device interrupts"),
    ("sync_irq_exit", "irq_handler_exit", "device interrupts"),
    ("sync_timer_entry", "local_timer_entry", "timer interrupts"),
    ("sync_timer_exit", "local_timer_exit", "timer interrupts"),
    ("sync_reschedule_entry", "reschedule_entry", CROSS_CPU),
    ("sync_reschedule_exit", "reschedule_exit", CROSS_CPU),
    ("sync_call_function_entry", "call_function_entry", CROSS_CPU),
    ("sync_call_function_exit", "call_function_exit", CROSS_CPU),
    ("sync_call_function_single_entry", "call_function_single_entry", CROSS_CPU),
    ("sync_call_function_single_exit", "call_function_single_exit", CROSS_CPU),
    ("sync_irq_work_entry", "irq_work_entry", CROSS_CPU),
    ("sync_irq_work_exit", "irq_work_exit", CROSS_CPU),
    ("sync_softirq_entry", "softirq_entry", "softirqs"),
    ("sync_softirq_exit", "softirq_exit", "softirqs"),
    ("sync_idle", "cpu_idle", "idle states"),
    ("sync_fork", "sched_process_fork", "processes that the program makes"),
    ("sync_exit", "sched_process_exit", "ends of threads"),
];

/// What is not seen without the tracepoints of these interrupts.
const CROSS_CPU: &str = "wake-ups from within interrupts between CPUs";

/// At functions of a process that already runs, where that is asked for: entry and return.
const PROBES: [&str; 2] = ["sync_function", "sync_function_return"];

/// By the kernel's clock event.
const SAMPLE: &str = "sync_sample";

/// Without these there is nothing to tell.
const NEEDED: [&str; 2] = ["sync_switch", "sync_fork"];

/// A CPU that no followed thread touched for so long is not looked at, milliseconds.
const UNTOUCHED_MS: u32 = 50;

/// `struct sync_config` of `c/sync.h`.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
struct SyncConfig {
    launcher: u32,
    untouched: u32,
    call_ns: u64,
    own: u32,
    fill: u32,
}
const _: () = assert!(size_of::<SyncConfig>() == 24);

/// `struct sync_counts` of `c/sync.h`.
#[derive(Clone, Copy, Debug, Default, FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct SyncCounts {
    lost: u64,
    futex_calls: u64,
    futex_returns: u64,
    fill: [u64; 5],
}
const _: () = assert!(size_of::<SyncCounts>() == 64);

/// The programs, attached until this is dropped.
pub(crate) struct SyncPrograms {
    // Order matters: links go before the object, the ring before both.
    ring: Ring,
    counts: Mapping<SyncCounts>,
    links: Vec<Link>,
    object: Object,
    blind: Vec<String>,
    /// Our own thread, whose probes tell what they cost and nothing else.
    measured: Option<u32>,
}

impl SyncPrograms {
    /// Loads and attaches. The next processes that thread `launcher` makes are followed, and `process` is from now on.
    /// System calls but those of futexes are told of where they take longer than `call_ns`.
    pub(crate) fn start(
        launcher: Option<u32>,
        process: Option<u32>,
        call_ns: u64,
    ) -> Result<Self, TraceError> {
        let types = kernel_types()?;
        let lacks = |tracepoint: &str| !types.tracepoints.contains(tracepoint);
        let missing: Vec<_> = PROGRAMS.iter().filter(|(_, tracepoint, _)| lacks(tracepoint)).collect();
        if let Some((_, tracepoint, _)) = missing.iter().find(|(name, ..)| NEEDED.contains(name)) {
            return Err(TraceError::NotSupported {
                operation: format!("following threads by BPF (the kernel has no tracepoint {tracepoint})"),
                remedy: "use a kernel with CONFIG_SCHED and its tracepoints (all of distributions have them)"
                    .to_owned(),
            });
        }
        let mut blind: Vec<String> = missing.iter().map(|(_, _, sees)| (*sees).to_owned()).collect();
        blind.dedup();
        blind.extend(NOT_TOLD.map(str::to_owned));
        let wanted = |name: &str| match PROBES.contains(&name) {
            true => process.is_some(),
            false => !missing.iter().any(|(lacking, ..)| *lacking == name),
        };
        let config = SyncConfig {
            launcher: launcher.unwrap_or(0),
            untouched: UNTOUCHED_MS,
            call_ns,
            own: std::process::id(),
            fill: 0,
        };
        let object = load(&config, wanted)?;
        let counts = map(&object, "sync_counts")?;
        let counts = Mapping::new(counts.as_fd(), 1).map_err(mapping_failed)?;
        let ring = Ring::new(map(&object, "sync_records")?.as_fd()).map_err(mapping_failed)?;
        if let Some(process) = process {
            map(&object, "sync_followed")?
                .update(&process.to_ne_bytes(), &1_u32.to_ne_bytes(), MapFlags::ANY)
                .map_err(|error| failed(&format!("following process {process}"), &error))?;
        }
        let mut programs = Self { ring, counts, links: Vec::new(), object, blind, measured: None };
        programs.attach()?;
        Ok(programs)
    }

    fn attach(&mut self) -> Result<(), TraceError> {
        for program in self.object.progs_mut().filter(|program| program.autoload()) {
            let name = program.name().to_string_lossy().into_owned();
            if PROBES.contains(&name.as_str()) {
                continue;
            }
            if name == SAMPLE {
                let possible =
                    libbpf_rs::num_possible_cpus().map_err(|error| failed("counting CPUs", &error))?;
                self.links.extend(sampling::attach_to(&program, 0..possible));
                continue;
            }
            let link = program.attach();
            let link = link.map_err(|error| failed(&format!("attaching BPF program {name}"), &error))?;
            self.links.push(link);
        }
        Ok(())
    }

    /// Stops a process at the entry of a function and at its return.
    fn attach_probe(
        &mut self,
        process: u32,
        (file, offset): (&Path, u64),
        kinds: [SyncKind; 2],
    ) -> Result<(), TraceError> {
        for (name, (kind, retprobe)) in PROBES.into_iter().zip(kinds.into_iter().zip([false, true])) {
            let program = self.object.progs_mut().find(|program| program.name() == name);
            let Some(program) = program else {
                return Err(invalid("probing a function", "the program is missing"));
            };
            let options = UprobeOpts { cookie: kind as u64, retprobe, ..UprobeOpts::default() };
            let link = program.attach_uprobe_with_opts(process.cast_signed(), file, offset as usize, options);
            let probing = || format!("probing a function of process {process} in {}", file.display());
            self.links.push(link.map_err(|error| failed(&probing(), &error))?);
        }
        Ok(())
    }

    /// Probes functions of our own to see what that costs.
    fn measure_probes(&mut self) -> Result<ProbeCost, TraceError> {
        let Some((file, places)) = scratch_places() else { return Ok(ProbeCost::default()) };
        self.measured = Some(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
        let without = time_scratch();
        let before = self.links.len();
        for offset in places {
            let kinds = [SyncKind::BarrierEntry, SyncKind::BarrierExit];
            self.attach_probe(std::process::id(), (&file, offset), kinds)?;
        }
        let with = time_scratch();
        self.links.truncate(before);
        Ok(cost(without, with))
    }
}

fn load(config: &SyncConfig, wanted: impl Fn(&str) -> bool) -> Result<Object, TraceError> {
    one_at_a_time(|| {
        let opening = |error| failed("opening the BPF programs of synchronisation", &error);
        let mut open = ObjectBuilder::default().open_memory(&OBJECT.0).map_err(opening)?;
        set_constants(&mut open, config)?;
        for mut program in open.progs_mut() {
            let load = wanted(&program.name().to_string_lossy());
            program.set_autoload(load);
        }
        open.load().map_err(|error| failed("loading the BPF programs of synchronisation", &error))
    })
}

fn map<'a>(object: &'a Object, name: &str) -> Result<libbpf_rs::Map<'a>, TraceError> {
    let found = object.maps().find(|map| map.name() == name);
    found.ok_or_else(|| invalid("mapping the BPF memory", &format!("the object has no map {name}")))
}

fn mapping_failed(source: std::io::Error) -> TraceError {
    let operation = "mapping the BPF memory of synchronisation".to_owned();
    match source.kind() {
        std::io::ErrorKind::PermissionDenied => {
            TraceError::NotPermitted { operation, remedy: PRIVILEGE_REMEDY.to_owned() }
        }
        _ => TraceError::Os { operation, source },
    }
}

impl KernelSource for SyncPrograms {
    fn blind(&self) -> Vec<String> {
        self.blind.clone()
    }

    fn probe(&mut self, process: u32, probes: &[Probe]) -> Result<ProbeCost, TraceError> {
        let cost = self.measure_probes()?;
        for probe in probes {
            self.attach_probe(process, (&probe.file, probe.offset), [probe.entry, probe.exit])?;
        }
        Ok(cost)
    }

    fn drain(&mut self, take: &mut dyn FnMut(KernelSideRecord)) -> Result<(), TraceError> {
        let measured = self.measured;
        let mut others = |record: KernelSideRecord| {
            if measured != Some(record.thread) {
                take(record);
            }
        };
        self.ring.drain(&mut others).map_err(mapping_failed)
    }

    fn finish(
        mut self: Box<Self>,
        take: &mut dyn FnMut(KernelSideRecord),
    ) -> Result<KernelCounts, TraceError> {
        self.links.clear();
        self.drain(take)?;
        let counts = self.counts.copy(0);
        Ok(KernelCounts {
            lost: counts.lost,
            futex_calls: Some(counts.futex_calls),
            futex_returns: Some(counts.futex_returns),
        })
    }
}
