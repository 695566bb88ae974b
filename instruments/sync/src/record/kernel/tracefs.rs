//! The kernel's side by tracefs, where no BPF program may be loaded: a private instance that records only what followed threads
//! do, and what is done to them. The kernel itself adds the threads that they make.

use super::{Followed, KernelCounts, KernelSource, NOT_TOLD};
use quaver_abi::kernel_side::{KernelSideKind as Kind, KernelSideRecord, WakingContext};
use quaver_abi::record::OffCpu;
use quaver_host::trace::TraceError;
use quaver_host::tracefs::format::{EventFormat, PageLayout};
use quaver_host::tracefs::instance::{Instance, remove_stale_instances};
use quaver_host::tracefs::page::{Lost, decode};
use quaver_host::tracefs::root::{open_tracefs, refused};
use quaver_host::tracefs::survey::page_layout;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{ErrorKind, Read};

/// Room of each CPU's ring.
const BUFFER_KB: &str = "4096";
/// The x86-64 and the common numbers of futex system calls.
const FUTEX: u64 = if cfg!(target_arch = "x86_64") { 202 } else { 98 };
const FUTEX_YOUNGER: [u64; 4] = [449, 454, 455, 456];

/// A tracepoint and how its record becomes ours.
struct Tracepoint {
    path: &'static str,
    sees: &'static str,
    read: fn(&Fields<'_>) -> Option<KernelSideRecord>,
}

const TRACEPOINTS: &[Tracepoint] = &[
    Tracepoint { path: "raw_syscalls/sys_enter", sees: "futex system calls", read: sys_enter },
    Tracepoint { path: "raw_syscalls/sys_exit", sees: "ends of futex system calls", read: sys_exit },
    Tracepoint { path: "sched/sched_switch", sees: "which thread has a CPU", read: switch },
    Tracepoint { path: "sched/sched_waking", sees: "who wakes whom", read: waking },
    Tracepoint { path: "sched/sched_wakeup", sees: "waiting in run queues", read: wakeup },
    Tracepoint { path: "sched/sched_migrate_task", sees: "moves between CPUs", read: migrate },
    Tracepoint { path: "sched/sched_process_fork", sees: "threads that are made", read: fork },
    Tracepoint { path: "sched/sched_process_exit", sees: "ends of threads", read: exit },
    Tracepoint {
        path: "irq/irq_handler_entry",
        sees: "device interrupts",
        read: |f| held(f, Kind::IrqEnter, "irq", 0),
    },
    Tracepoint {
        path: "irq/irq_handler_exit",
        sees: "device interrupts",
        read: |f| held(f, Kind::IrqExit, "irq", 0),
    },
    Tracepoint {
        path: "irq_vectors/local_timer_entry",
        sees: "timer interrupts",
        read: |f| held(f, Kind::IrqEnter, "vector", 0x10000),
    },
    Tracepoint {
        path: "irq_vectors/local_timer_exit",
        sees: "timer interrupts",
        read: |f| held(f, Kind::IrqExit, "vector", 0x10000),
    },
    Tracepoint {
        path: "irq/softirq_entry",
        sees: "softirqs",
        read: |f| held(f, Kind::SoftirqEnter, "vec", 0),
    },
    Tracepoint { path: "irq/softirq_exit", sees: "softirqs", read: |f| held(f, Kind::SoftirqExit, "vec", 0) },
];

/// One record with its format.
struct Fields<'a> {
    format: &'a EventFormat,
    record: &'a [u8],
}

impl Fields<'_> {
    fn number(&self, name: &str) -> Option<u64> {
        self.format.field(name)?.number(self.record)
    }

    fn number32(&self, name: &str) -> Option<u32> {
        // The kernel's signed numbers of threads and CPUs are never negative here.
        self.number(name).map(|value| value as u32)
    }
}

fn record(kind: Kind) -> KernelSideRecord {
    KernelSideRecord { kind: kind as u8, ..KernelSideRecord::default() }
}

fn is_futex(number: u64) -> bool {
    number == FUTEX || FUTEX_YOUNGER.contains(&number)
}

fn sys_enter(fields: &Fields<'_>) -> Option<KernelSideRecord> {
    let number = fields.number("id").filter(|number| is_futex(*number))?;
    let octets = fields.format.field("args")?.octets(fields.record)?;
    let argument = |at: usize| Some(u64::from_le_bytes(octets.get(8 * at..8 * at + 8)?.try_into().ok()?));
    let operand = if number == FUTEX { argument(1)? as u32 } else { 0x10000 + number as u32 };
    Some(KernelSideRecord {
        thread: fields.number32("common_pid")?,
        other: argument(2)? as u32,
        operand,
        value: argument(0)?,
        ..record(Kind::FutexEnter)
    })
}

fn sys_exit(fields: &Fields<'_>) -> Option<KernelSideRecord> {
    fields.number("id").filter(|number| is_futex(*number))?;
    Some(KernelSideRecord {
        thread: fields.number32("common_pid")?,
        value: fields.number("ret")?,
        ..record(Kind::FutexExit)
    })
}

fn switch(fields: &Fields<'_>) -> Option<KernelSideRecord> {
    // The state as trace events print it: 0 still wants to run, 0x100 was preempted (include/trace/events/sched.h).
    let state = fields.number("prev_state")?;
    let off = match state {
        state if state & 0x100 != 0 || state & 0xff == 0 => OffCpu::Preempted,
        state if state & 0x70 != 0 => OffCpu::Exited,
        _ => OffCpu::Blocked,
    };
    Some(KernelSideRecord {
        thread: fields.number32("prev_pid")?,
        other: fields.number32("next_pid")?,
        operand: fields.number32("prev_prio")? << 16 | (fields.number32("next_prio")? & 0xffff),
        detail: off as u8,
        ..record(Kind::Switch)
    })
}

/// What a CPU is doing, by the flags of any record (include/linux/trace_events.h: TRACE_FLAG_HARDIRQ, _NMI, _SOFTIRQ).
fn context(flags: u64) -> WakingContext {
    const NMI_OR_INTERRUPT: u64 = 0x40 | 0x08;
    const SOFTIRQ: u64 = 0x10;
    match flags {
        flags if flags & NMI_OR_INTERRUPT != 0 => WakingContext::Interrupt,
        flags if flags & SOFTIRQ != 0 => WakingContext::Softirq,
        _ => WakingContext::Task,
    }
}

fn waking(fields: &Fields<'_>) -> Option<KernelSideRecord> {
    let context = context(fields.number("common_flags")?);
    let waker = if context == WakingContext::Task { fields.number32("common_pid")? } else { 0 };
    Some(KernelSideRecord {
        thread: fields.number32("pid")?,
        other: waker,
        operand: fields.number32("target_cpu")?,
        detail: context as u8,
        ..record(Kind::Waking)
    })
}

fn wakeup(fields: &Fields<'_>) -> Option<KernelSideRecord> {
    Some(KernelSideRecord {
        thread: fields.number32("pid")?,
        operand: fields.number32("target_cpu")?,
        ..record(Kind::Wakeup)
    })
}

fn migrate(fields: &Fields<'_>) -> Option<KernelSideRecord> {
    Some(KernelSideRecord {
        thread: fields.number32("pid")?,
        other: fields.number32("orig_cpu")?,
        operand: fields.number32("dest_cpu")?,
        ..record(Kind::Migrate)
    })
}

fn fork(fields: &Fields<'_>) -> Option<KernelSideRecord> {
    Some(KernelSideRecord {
        thread: fields.number32("common_pid")?,
        other: fields.number32("child_pid")?,
        ..record(Kind::Fork)
    })
}

fn exit(fields: &Fields<'_>) -> Option<KernelSideRecord> {
    Some(KernelSideRecord { thread: fields.number32("pid")?, ..record(Kind::Exit) })
}

fn held(fields: &Fields<'_>, kind: Kind, operand: &str, base: u32) -> Option<KernelSideRecord> {
    Some(KernelSideRecord {
        thread: fields.number32("common_pid")?,
        operand: base + fields.number32(operand)?,
        ..record(kind)
    })
}

/// A trace that runs. The instance goes when this is dropped.
struct TracefsSource {
    // Fields are dropped in this order: the kernel keeps an instance as long as a file below it is open.
    pipes: Vec<(u16, File)>,
    instance: Instance,
    layout: PageLayout,
    /// By the number that records of the event carry.
    formats: Vec<Option<(EventFormat, &'static Tracepoint)>>,
    blind: Vec<String>,
    /// Our own thread, that the kernel follows so that it follows the program; what it does is nobody's business.
    launcher: Option<u32>,
    damaged: u64,
    page: Vec<u8>,
}

/// Starts recording.
pub(super) fn start(whom: Followed) -> Result<Box<dyn KernelSource>, TraceError> {
    let (root, _) = open_tracefs()?;
    // Leftovers cost memory and time, but a refusal to remove them must not stop this trace.
    let _ = remove_stale_instances(&root);
    let layout = page_layout(&root).ok_or_else(|| TraceError::NotSupported {
        operation: "reading tracefs events/header_page".to_owned(),
        remedy: "this kernel's trace pages are not understood; use BPF".to_owned(),
    })?;
    let instance = Instance::create(&root)?;
    instance.set("tracing_on", "0")?;
    instance.set("trace_clock", "mono")?;
    let _ = instance.set("options/record-cmd", "0");
    instance.set("buffer_size_kb", BUFFER_KB)?;
    instance.set("options/event-fork", "1")?;
    let (threads, launcher) = match whom {
        Followed::Children => {
            let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            (vec![own], Some(own))
        }
        Followed::Process(process) => (threads_of(process), None),
    };
    let words: Vec<String> = threads.iter().map(u32::to_string).collect();
    instance.set("set_event_pid", &words.join(" "))?;
    let mut source = TracefsSource {
        pipes: Vec::new(),
        formats: Vec::new(),
        blind: vec![
            "interrupts and other threads while no thread of the program is current (needs BPF)".to_owned(),
            // A record of each would flood the rings.
            "system calls but those of futexes (needs BPF)".to_owned(),
        ],
        page: vec![0; layout.size],
        instance,
        layout,
        launcher,
        damaged: 0,
    };
    source.enable();
    source.blind.extend(NOT_TOLD.map(str::to_owned));
    source.open_pipes()?;
    source.instance.set("tracing_on", "1")?;
    Ok(Box::new(source))
}

fn threads_of(process: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

impl TracefsSource {
    /// Switches on what this kernel has.
    fn enable(&mut self) {
        let numbers: Vec<String> =
            std::iter::once(FUTEX).chain(FUTEX_YOUNGER).map(|number| format!("id == {number}")).collect();
        for tracepoint in TRACEPOINTS {
            let file = |name: &str| format!("events/{}/{name}", tracepoint.path);
            let format = self.instance.dir().read(&file("format")).ok();
            let format = format.and_then(|text| EventFormat::parse(&text));
            if tracepoint.path.starts_with("raw_syscalls/") {
                // Without the filter, other calls are sorted out when they are read.
                let _ = self.instance.set(&file("filter"), &numbers.join(" || "));
            }
            match format {
                Some(format) if self.instance.set(&file("enable"), "1").is_ok() => {
                    let at = usize::from(format.id);
                    if self.formats.len() <= at {
                        self.formats.resize_with(at + 1, || None);
                    }
                    self.formats[at] = Some((format, tracepoint));
                }
                _ => self.blind.push(tracepoint.sees.to_owned()),
            }
        }
        self.blind.dedup();
    }

    fn open_pipes(&mut self) -> Result<(), TraceError> {
        let dir = self.instance.dir();
        let names = dir.names("per_cpu").map_err(|error| refused("listing tracefs per_cpu", error))?;
        for cpu in names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok()) {
            let path = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
            let file = dir.open_file(&path, OFlags::RDONLY | OFlags::NONBLOCK);
            let file = file.map_err(|error| refused(&format!("opening tracefs {path}"), error))?;
            self.pipes.push((cpu, file));
        }
        self.pipes.sort_by_key(|(cpu, _)| *cpu);
        Ok(())
    }

    /// Reads one page of a CPU and hands its records over; false where there is none.
    fn read_page(&mut self, at: usize, take: &mut dyn FnMut(KernelSideRecord)) -> Result<bool, TraceError> {
        let (cpu, file) = &mut self.pipes[at];
        let length = match file.read(&mut self.page) {
            Ok(0) => return Ok(false),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(source) => {
                return Err(TraceError::Os {
                    operation: format!("reading trace pages of CPU {cpu}"),
                    source,
                });
            }
        };
        self.page[length..].fill(0);
        let (formats, launcher) = (&self.formats, self.launcher);
        let outcome = decode(&self.page, &self.layout, |event| {
            let Some(Some((format, tracepoint))) = formats.get(usize::from(event.id)) else { return };
            let Some(mut found) = (tracepoint.read)(&Fields { format, record: event.record }) else { return };
            let ours = found.kind == Kind::Fork as u8 || found.kind == Kind::Switch as u8;
            if launcher == Some(found.thread) && !ours {
                return;
            }
            found.at_ns = event.timestamp;
            found.cpu = *cpu;
            take(found);
        });
        self.damaged += u64::from(!matches!(outcome, Ok(Lost::Nothing)));
        Ok(true)
    }

    /// Records that the kernel overwrote or had no room for.
    fn lost(&self) -> u64 {
        let stats = |cpu: &u16| self.instance.dir().read(&format!("per_cpu/cpu{cpu}/stats")).ok();
        let of = |text: String| -> u64 {
            let counted = text.lines().filter_map(|line| line.split_once(": "));
            let lost =
                counted.filter(|(name, _)| ["overrun", "commit overrun", "dropped events"].contains(name));
            lost.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum()
        };
        self.pipes.iter().filter_map(|(cpu, _)| stats(cpu)).map(of).sum()
    }
}

impl KernelSource for TracefsSource {
    fn blind(&self) -> Vec<String> {
        self.blind.clone()
    }

    fn drain(&mut self, take: &mut dyn FnMut(KernelSideRecord)) -> Result<(), TraceError> {
        for at in 0..self.pipes.len() {
            while self.read_page(at, take)? {}
        }
        Ok(())
    }

    fn finish(
        mut self: Box<Self>,
        take: &mut dyn FnMut(KernelSideRecord),
    ) -> Result<KernelCounts, TraceError> {
        self.instance.set("tracing_on", "0")?;
        self.drain(take)?;
        Ok(KernelCounts { lost: self.lost() + self.damaged, ..KernelCounts::default() })
    }
}
