//! What a verb gives up before it reads what others wrote: programs, the network, other processes, and all capabilities but those to
//! read and write files of other users, whose runs root analyses too.

use quaver_host::confinement::{Confinement, Files, Network, confine};
use rustix::thread::CapabilitySet;
use std::path::Path;

fn capabilities() -> CapabilitySet {
    CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH
}

/// Gives up all else, and all files but these.
pub(crate) fn keep(read: &[&Path], write: &[&Path]) {
    let (files, capabilities) = (Some(Files { read, write }), capabilities());
    confine(&Confinement { files, network: Network::Nothing, capabilities });
}

/// Gives up all but files, of which the verb reads and writes those that it was given.
pub fn keep_files() {
    confine(&Confinement { files: None, network: Network::Nothing, capabilities: capabilities() });
}
