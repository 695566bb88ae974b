//! What a verb gives up before it reads what others wrote: programs, the network, other processes, and all capabilities but those to
//! read and write files of other users, whose runs root analyses too.

use quaver_host::confinement::{Confinement, Files, Network, confine};
use rustix::thread::CapabilitySet;
use std::path::Path;

fn keep_but(files: Option<Files<'_>>, network: Network<'_>, programs: bool) {
    let capabilities = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    confine(&Confinement { files, network, programs, capabilities });
}

/// Gives up all else, and all files but these.
pub fn keep(read: &[&Path], write: &[&Path]) {
    keep_but(Some(Files { read, write }), Network::Nothing, false);
}

/// Gives up all but files, of which the verb reads and writes those that it was given.
pub fn keep_files() {
    keep_but(None, Network::Nothing, false);
}

/// Gives up all but files and programs, and the network where it is not needed. Programs inherit that.
pub fn keep_programs(network: bool) {
    keep_but(None, if network { Network::Free } else { Network::Nothing }, true);
}

/// The calling thread keeps open sockets and BPF programs. It reads `/proc` and `/sys`, and writes files in `place` alone.
pub fn keep_output(place: Option<&Path>) {
    let capabilities = CapabilitySet::DAC_OVERRIDE;
    // Counters of interfaces, which each file tells.
    let read = [Path::new("/proc"), Path::new("/sys")];
    let files = Some(Files { read: &read, write: place.as_slice() });
    confine(&Confinement { files, network: Network::Free, programs: false, capabilities });
}

/// The directory where a file appears; a device or a pipe itself, and no place at all for standard output (`-`).
pub fn place_of(target: &Path) -> &Path {
    match target.parent() {
        _ if target == Path::new("-") || target.exists() && !target.is_file() => target,
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
