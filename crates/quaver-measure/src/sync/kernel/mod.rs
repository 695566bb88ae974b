//! The kernel's side: what it does to the threads of a program, by BPF or by tracefs.

mod tracefs;

use crate::host::trace::{Tier, TraceError};
use quaver_abi::kernel_side::KernelSideRecord;

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
    /// Follows a process and what it makes from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    fn follow(&mut self, process: u32) -> Result<(), TraceError>;
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

/// Starts the best source that may run, or the one asked for and no other.
///
/// # Errors
/// Only when one was asked for and cannot run.
pub fn start(asked: Option<Tier>, whom: Followed) -> Result<KernelChoice, TraceError> {
    let some =
        |source: Box<dyn KernelSource>, tier, reason| KernelChoice { source: Some(source), tier, reason };
    let none = |reason: String| KernelChoice { source: None, tier: Tier::User, reason: Some(reason) };
    match asked {
        Some(Tier::User) => return Ok(none("asked for".to_owned())),
        Some(Tier::Bpf) => return Ok(some(by_bpf(whom)?, Tier::Bpf, None)),
        Some(Tier::Tracefs) => {
            return Ok(some(tracefs::start(whom)?, Tier::Tracefs, Some("asked for".to_owned())));
        }
        None => {}
    }
    let no_bpf = match by_bpf(whom) {
        Ok(source) => return Ok(some(source, Tier::Bpf, None)),
        Err(error) => error,
    };
    match tracefs::start(whom) {
        Ok(source) => Ok(some(source, Tier::Tracefs, Some(no_bpf.to_string()))),
        Err(no_tracefs) => Ok(none(format!("{no_bpf}; {no_tracefs}"))),
    }
}

#[cfg(feature = "bpf")]
fn by_bpf(whom: Followed) -> Result<Box<dyn KernelSource>, TraceError> {
    let (launcher, process) = match whom {
        // Thread numbers of the first namespace are what the programs see; elsewhere nothing would be followed.
        Followed::Children => (Some(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()), None),
        Followed::Process(process) => (None, Some(process)),
    };
    Ok(Box::new(crate::bpf::sync::SyncPrograms::start(launcher, process)?))
}

#[cfg(not(feature = "bpf"))]
fn by_bpf(_whom: Followed) -> Result<Box<dyn KernelSource>, TraceError> {
    Err(TraceError::NotSupported {
        operation: "following threads by BPF".to_owned(),
        remedy: crate::bpf::BUILD_REMEDY.to_owned(),
    })
}

#[cfg(test)]
mod tests;
