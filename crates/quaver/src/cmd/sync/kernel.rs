//! The kernel's side of a run: the source, and the segment that its records go to.

use crate::cli::TierName;
use crate::cli::sync::SyncArgs;
use crate::digest::sync::KernelFacts;
use quaver_abi::kernel_side::KernelSideRecord;
use quaver_measure::host::trace::{Tier, TraceError};
use quaver_measure::segment::SegmentAppender;
use quaver_measure::sync::kernel::{Followed, KernelChoice, KernelSource, start};
use std::path::Path;

/// Looks at the kernel, where that is wanted and permitted. A failure while the program runs is kept, and the program goes on.
pub(super) struct KernelWatch {
    source: Option<Box<dyn KernelSource>>,
    records: Option<SegmentAppender<KernelSideRecord>>,
    facts: KernelFacts,
    failed: Option<String>,
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
    start(asked, whom)
}

impl KernelWatch {
    /// Begins to keep what is seen. `segment` is made only where there is something to write.
    pub(super) fn begin(choice: KernelChoice, segment: &Path) -> anyhow::Result<Self> {
        let facts = KernelFacts {
            tier: choice.tier.name().to_owned(),
            reason: choice.reason,
            blind: choice.source.as_ref().map(|source| source.blind()).unwrap_or_default(),
            ..KernelFacts::default()
        };
        let records = choice.source.as_ref().map(|_| SegmentAppender::create(segment)).transpose()?;
        Ok(Self { source: choice.source, records, facts, failed: None })
    }

    /// Whether anybody looks.
    pub(super) fn is_looking(&self) -> bool {
        self.source.is_some()
    }

    /// Empties the kernel's memory into the segment.
    pub(super) fn drain(&mut self) {
        let (Some(source), Some(records)) = (&mut self.source, &mut self.records) else { return };
        let mut written = Ok(());
        let read = source.drain(&mut |record| {
            if written.is_ok() {
                written = records.append(&record);
            }
        });
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
        let counts = source.finish(&mut |record| {
            if written.is_ok() {
                written = records.append(&record);
            }
        });
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
        KernelFacts {
            lost: counts.lost,
            futex_calls: counts.futex_calls,
            futex_returns: counts.futex_returns,
            failed: self.failed,
            ..self.facts
        }
    }
}
