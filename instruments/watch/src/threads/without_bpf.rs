//! Waits for a CPU in a build without BPF: they cannot be counted, and starting says so.

use super::Waits;
use crate::config::ThreadsSettings;
use crate::frozen::LongWait;
use crate::threads::group::ControlGroup;
use quaver_exposition::histogram::Histogram;
use quaver_host::trace::TraceError;
use std::convert::Infallible;

/// Never starts.
pub(super) struct WaitCounter(Infallible);

impl WaitCounter {
    pub(super) fn start(_: &[ThreadsSettings]) -> Result<Self, TraceError> {
        Err(TraceError::NotSupported {
            operation: "counting waits for a CPU".to_owned(),
            remedy: quaver_host::bpf::BUILD_REMEDY.to_owned(),
        })
    }

    pub(super) fn watch(&self, _: &[u32], _: &[u32]) -> Result<(), TraceError> {
        match self.0 {}
    }

    pub(super) fn set_group(&self, _: usize, _: Option<&ControlGroup>) -> Result<(), TraceError> {
        match self.0 {}
    }

    pub(super) fn read(&self, _: usize) -> Result<Waits, TraceError> {
        match self.0 {}
    }

    pub(super) fn read_futex(&self, _: usize) -> Result<[Histogram; super::ENDS.len()], TraceError> {
        match self.0 {}
    }

    pub(super) fn take_long(&self) -> Result<Vec<LongWait>, TraceError> {
        match self.0 {}
    }

    pub(super) fn lost(&self) -> Result<u64, TraceError> {
        match self.0 {}
    }
}
