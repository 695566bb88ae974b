//! What stands for the kernel's side in a build without BPF.

use super::Taken;
use quaver_clock::live::LiveReader;
use quaver_host::trace::TraceError;

/// There is none.
#[derive(Debug)]
pub(super) enum Source {}

impl Source {
    pub(super) fn start(_: &[(u32, &str)], _: u64, _: &LiveReader) -> anyhow::Result<Self> {
        Err(TraceError::NotSupported {
            operation: "joining raw cycles to packets".to_owned(),
            remedy: quaver_host::bpf::BUILD_REMEDY.to_owned(),
        }
        .into())
    }

    pub(super) fn way(&self) -> String {
        match *self {}
    }

    pub(super) fn take(&mut self, _most: usize, _into: &mut Vec<Taken>) {
        match *self {}
    }

    pub(super) fn lost(&self) -> u64 {
        match *self {}
    }
}
