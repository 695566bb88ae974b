//! What stands for the programs of a comparison in a build without BPF.

use quaver_host::trace::TraceError;

/// There are none.
#[derive(Debug)]
pub(crate) enum CostPrograms {}

impl CostPrograms {
    pub(crate) fn load() -> Result<Self, TraceError> {
        Err(TraceError::NotSupported {
            operation: "stamping by BPF".to_owned(),
            remedy: quaver_host::bpf::BUILD_REMEDY.to_owned(),
        })
    }

    pub(crate) fn read_cycles(&self) -> bool {
        match *self {}
    }

    pub(crate) fn attach(&mut self, _: Option<&str>) -> Result<(), TraceError> {
        match *self {}
    }
}
