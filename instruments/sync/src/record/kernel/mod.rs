//! The kernel's side: what it does to the threads of a program, by BPF or by tracefs.

#[cfg(feature = "bpf")]
mod bpf;
mod machine;
pub mod probes;
#[cfg(any(test, feature = "bpf"))]
pub(crate) mod scratch;
mod tracefs;

pub use machine::MachineWatch;

use probes::{Probe, ProbeCost};
use quaver_abi::kernel_side::KernelSideRecord;
use quaver_host::trace::{Tier, TraceError};

/// What no source tells of, though the protocol would take it: counters of processors count what waits for memory, none of them
/// by how much a message was later than it had to be.
pub(crate) const NOT_TOLD: [&str; 1] = ["delays of threads on the memory bus"];

/// What was counted when a source ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounts {
    /// Records that found no room.
    pub lost: u64,
    /// Entries of futex system calls, counted apart from the records; none where nobody counts them.
    pub futex_calls: Option<u64>,
    /// Their returns, counted likewise.
    pub futex_returns: Option<u64>,
}

/// Who tells of the kernel. Dropping it ends its work and leaves nothing in the system.
pub trait KernelSource: Send {
    /// What cannot be seen here, each as a short noun phrase.
    fn blind(&self) -> Vec<String>;
    /// Stops a process at these of its calls, until the end; what a call costs then is measured first.
    ///
    /// # Errors
    /// This source cannot do that, or the kernel refuses.
    fn probe(&mut self, process: u32, probes: &[Probe]) -> Result<ProbeCost, TraceError> {
        let _ = (process, probes);
        Err(TraceError::NotSupported {
            operation: "stopping a process at its calls (uprobes) without BPF".to_owned(),
            remedy: "leave out --tier, and run as root".to_owned(),
        })
    }
    /// Hands over what is complete so far, nearly in the order of time.
    ///
    /// # Errors
    /// The kernel's memory cannot be read.
    fn drain(&mut self, take: &mut dyn FnMut(KernelSideRecord)) -> Result<(), TraceError>;
    /// Stops, hands over the rest, and what was counted.
    ///
    /// # Errors
    /// The kernel's memory cannot be read.
    fn finish(self: Box<Self>, take: &mut dyn FnMut(KernelSideRecord)) -> Result<KernelCounts, TraceError>;
}

/// The source that started, if any.
pub struct KernelChoice {
    /// None where nobody may look.
    pub source: Option<Box<dyn KernelSource>>,
    /// Which.
    pub tier: Tier,
    /// Why not a better one.
    pub reason: Option<String>,
}

/// Whose threads are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// The processes that the calling thread makes from now on, and theirs.
    Children,
    /// A process that runs, and those that it makes.
    Process(u32),
}

/// Starts the best source that may run, or the one asked for and no other. System calls but those of futexes are told of where
/// they take longer than `call_ns`, and the source can tell.
///
/// # Errors
/// Only when one was asked for and cannot run.
pub fn start(asked: Option<Tier>, whom: Followed, call_ns: u64) -> Result<KernelChoice, TraceError> {
    let some =
        |source: Box<dyn KernelSource>, tier, reason| KernelChoice { source: Some(source), tier, reason };
    let none = |reason: String| KernelChoice { source: None, tier: Tier::User, reason: Some(reason) };
    match asked {
        Some(Tier::User) => return Ok(none("asked for".to_owned())),
        Some(Tier::Bpf) => return Ok(some(by_bpf(whom, call_ns)?, Tier::Bpf, None)),
        Some(Tier::Tracefs) => {
            return Ok(some(tracefs::start(whom)?, Tier::Tracefs, Some("asked for".to_owned())));
        }
        None => {}
    }
    let no_bpf = match by_bpf(whom, call_ns) {
        Ok(source) => return Ok(some(source, Tier::Bpf, None)),
        Err(error) => error,
    };
    match tracefs::start(whom) {
        Ok(source) => Ok(some(source, Tier::Tracefs, Some(no_bpf.to_string()))),
        Err(no_tracefs) => Ok(none(format!("{no_bpf}; {no_tracefs}"))),
    }
}

#[cfg(feature = "bpf")]
fn by_bpf(whom: Followed, call_ns: u64) -> Result<Box<dyn KernelSource>, TraceError> {
    let (launcher, process) = match whom {
        // Thread numbers of the first namespace are what the programs see; elsewhere nothing would be followed.
        Followed::Children => (Some(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()), None),
        Followed::Process(process) => (None, Some(process)),
    };
    Ok(Box::new(bpf::SyncPrograms::start(launcher, process, call_ns)?))
}

#[cfg(not(feature = "bpf"))]
fn by_bpf(_whom: Followed, _call_ns: u64) -> Result<Box<dyn KernelSource>, TraceError> {
    Err(TraceError::NotSupported {
        operation: "following threads by BPF".to_owned(),
        remedy: quaver_host::bpf::BUILD_REMEDY.to_owned(),
    })
}

#[cfg(test)]
mod tests;
