//! Times of CPUs in a build without BPF: they cannot be counted, and starting says so.

use super::CpuTimes;
use quaver_host::trace::TraceError;
use std::convert::Infallible;

/// Never starts.
pub(super) struct TimeCounter(Infallible);

impl TimeCounter {
    pub(super) fn start(_: &[u16]) -> Result<Self, TraceError> {
        Err(TraceError::NotSupported {
            operation: "counting times of CPUs".to_owned(),
            remedy: quaver_host::bpf::BUILD_REMEDY.to_owned(),
        })
    }

    pub(super) fn read(&self, _: &[u16]) -> Result<CpuTimes, TraceError> {
        match self.0 {}
    }
}
