//! The kernel's side of a run: the source, and the segment that its records go to.

use crate::args::SyncArgs;
use crate::digest::{KernelFacts, UprobeFacts};
use crate::record::kernel::probes;
use crate::record::kernel::probes::Probes;
use crate::record::kernel::{Followed, KernelChoice, KernelSource, MachineWatch, start};
use quaver_abi::kernel_side::{KernelSideKind, KernelSideRecord};
use quaver_host::root::HostRoot;
use quaver_host::segment::SegmentAppender;
use quaver_host::trace::{Tier, TraceError};
use quaver_instrument::args::TierName;
use quaver_instrument::host_state::allowed_cpus;
use std::path::Path;

/// Looks at the kernel, where that is wanted and permitted. A failure while the program runs is kept, and the program goes on.
pub(super) struct KernelWatch {
    source: Option<Box<dyn KernelSource>>,
    records: Option<SegmentAppender<KernelSideRecord>>,
    machine: Option<MachineWatch>,
    facts: KernelFacts,
    failed: Option<String>,
    /// Calls that probes told of.
    probed: u64,
}

/// Starts looking at the kernel by what the command line asks for, or the best that may run.
pub(super) fn choose(args: &SyncArgs, whom: Followed) -> Result<KernelChoice, TraceError> {
    let asked = match args.tier {
        _ if args.no_kernel => Some(Tier::User),
        Some(TierName::User) => Some(Tier::User),
        Some(TierName::Bpf) => Some(Tier::Bpf),
        Some(TierName::Tracefs) => Some(Tier::Tracefs),
        None => None,
    };
    start(asked, whom, args.system_call_threshold.as_nanos() as u64)
}

/// Now, on the clock of the kernel's records.
pub(super) fn now_ns() -> u64 {
    quaver_clock::monotonic_ns().cast_unsigned()
}

/// What `--throttled-loses` says, in thousandths.
pub(super) fn throttled_permille(args: &SyncArgs) -> u32 {
    u32::from(args.throttled_loses) * 10
}

impl KernelWatch {
    /// Begins to keep what is seen. `segment` is made only where there is something to write.
    /// A throttled CPU is taken to lose `throttled_permille` thousandths of its speed.
    pub(super) fn begin(
        choice: KernelChoice,
        segment: &Path,
        throttled_permille: u32,
    ) -> anyhow::Result<Self> {
        // Whose time a slow CPU takes is known only where somebody tells which thread has it.
        let machine = choice.source.is_some().then(|| {
            let cpus = allowed_cpus().unwrap_or_default();
            MachineWatch::start(HostRoot::system(), &cpus, throttled_permille, now_ns())
        });
        let mut facts = KernelFacts {
            tier: choice.tier.name().to_owned(),
            reason: choice.reason,
            blind: choice.source.as_ref().map(|source| source.blind()).unwrap_or_default(),
            ..KernelFacts::default()
        };
        facts.blind.extend(machine.iter().flat_map(MachineWatch::blind));
        let records = choice.source.as_ref().map(|_| SegmentAppender::create(segment)).transpose()?;
        Ok(Self { source: choice.source, records, machine, facts, failed: None, probed: 0 })
    }

    /// Whether anybody looks.
    pub(super) fn is_looking(&self) -> bool {
        self.source.is_some()
    }

    /// Stops the process at calls of its thread library.
    pub(super) fn probe(&mut self, process: u32) -> Result<(), TraceError> {
        let Some(source) = &mut self.source else { return Ok(()) };
        let Probes { found, refused } = probes::find(process);
        let cost = source.probe(process, &found)?;
        self.facts.uprobes = Some(UprobeFacts {
            functions: found.iter().map(|probe| probe.function.to_owned()).collect(),
            refused,
            calls: 0,
            emulated_ns: cost.emulated_ns,
            stepped_ns: cost.stepped_ns,
        });
        Ok(())
    }

    /// Empties the kernel's memory into the segment.
    pub(super) fn drain(&mut self) {
        let (Some(source), Some(records)) = (&mut self.source, &mut self.records) else { return };
        let mut written = Ok(());
        let probed = &mut self.probed;
        let mut keep = |record: KernelSideRecord| {
            *probed += u64::from(record.kind == KernelSideKind::FunctionEnter as u8);
            if written.is_ok() {
                written = records.append(&record);
            }
        };
        let read = source.drain(&mut keep);
        if let Some(machine) = &mut self.machine {
            machine.look(now_ns(), &mut keep);
        }
        self.note(read, written.err().map(|error| error.to_string()));
    }

    fn note(&mut self, read: Result<(), TraceError>, write: Option<String>) {
        let problem = read.err().map(|error| error.to_string()).or(write);
        if self.failed.is_none() {
            self.failed = problem;
        }
    }

    /// Ends, and says what was seen.
    pub(super) fn finish(mut self) -> KernelFacts {
        let (Some(source), Some(mut records)) = (self.source.take(), self.records.take()) else {
            return self.facts;
        };
        let mut written = Ok(());
        let probed = &mut self.probed;
        let mut keep = |record: KernelSideRecord| {
            *probed += u64::from(record.kind == KernelSideKind::FunctionEnter as u8);
            if written.is_ok() {
                written = records.append(&record);
            }
        };
        if let Some(machine) = &mut self.machine {
            machine.look_now(now_ns(), &mut keep);
        }
        let counts = source.finish(&mut keep);
        let flushed = written.and_then(|()| records.finish().map(|_| ()));
        let counts = match counts {
            Ok(counts) => Some(counts),
            Err(error) => {
                self.note(Err(error), None);
                None
            }
        };
        self.note(Ok(()), flushed.err().map(|error| error.to_string()));
        let counts = counts.unwrap_or_default();
        let calls = self.probed;
        let uprobes = self.facts.uprobes.take().map(|facts| UprobeFacts { calls, ..facts });
        KernelFacts {
            uprobes,
            lost: counts.lost,
            futex_calls: counts.futex_calls,
            futex_returns: counts.futex_returns,
            failed: self.failed,
            ..self.facts
        }
    }
}
